"""The dask workers of the driver, which run as jobs of SLURM.

Written by slurm-emit.
"""

import contextlib
import os
import shlex
import socket
import tempfile

import dask
from dask.distributed import Security
from dask_jobqueue import SLURMCluster

import plan
# SETTINGS


class Certificates(Security):
    """Certificates of one run, without which a scheduler and its workers run the code of whoever reaches them.

    dask-jobqueue would write those of the workers to files whose names it does not quote.
    """

    directory = None

    def get_tls_config_for_role(self, role):
        config = super().get_tls_config_for_role(role)
        if role != "worker":
            return config
        return {kind: self.write(kind, text) for kind, text in config.items() if text}

    def write(self, kind, text):
        """Writes a certificate to a file that only this user can read, and returns its name for a shell."""
        path = os.path.join(self.directory, kind)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(text)
        return shlex.quote(path)


@contextlib.contextmanager
def cluster():
    """Starts workers as jobs of SLURM; a worker that ends is replaced."""
    if not DASHBOARD:
        dask.config.set({"distributed.scheduler.http.routes": []})
    site = dask.config.get("jobqueue.slurm.shared-temp-directory")
    shared = os.path.expanduser(os.path.expandvars(site)) if site else plan.DIR
    with tempfile.TemporaryDirectory(prefix=".certificates.", dir=shared) as directory:
        certificates = Certificates.temporary()
        certificates.directory = directory
        with SLURMCluster(security=certificates, **ARGUMENTS) as started:
            if DASHBOARD:
                port, host = started.scheduler.http_server.port, socket.gethostname()
                print(f"driver.py: dashboard at http://127.0.0.1:{port}/status of {host}; to see it elsewhere:", flush=True)
                print(f"    ssh -L {port}:127.0.0.1:{port} {host}", flush=True)
            started.adapt(minimum_jobs=JOBS, maximum_jobs=JOBS)
            yield started
