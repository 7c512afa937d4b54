"""The dask workers of the driver, on this machine.

Written by slurm-emit.
"""

import os

import dask
from dask.distributed import LocalCluster, Security
# SETTINGS


def cluster(_report):
    """Starts workers on this machine, one per engine. dask starts a worker that is killed again."""
    if not DASHBOARD:
        dask.config.set({"distributed.scheduler.http.routes": []})
    # A scheduler and its workers run the code of whoever reaches them, such as other users of this machine, unless they ask
    # for a certificate.
    started = LocalCluster(
        n_workers=int(os.environ.get("AZPIPE_ENGINES", ENGINES)),
        threads_per_worker=int(os.environ.get("AZPIPE_THREADS", THREADS)),
        resources={"engine": 1},
        security=Security.temporary(),
        scheduler_kwargs={"dashboard": DASHBOARD, "dashboard_address": "127.0.0.1:0"},
    )
    if DASHBOARD:
        print(f"driver.py: dashboard at http://127.0.0.1:{started.scheduler.http_server.port}/status", flush=True)
    return started
