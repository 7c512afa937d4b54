"""Submits the batches that stdin lists to HyperQueue, as one job, and waits until it has ended.

Written by slurm-emit, and started by ./submit.
"""

import os
import sys

from hyperqueue import Client, Job
from hyperqueue.ffi.protocol import ResourceRequest
# SETTINGS


def fail(why):
    """Ends the driver with status 2."""
    print(f"driver.py: {why}", file=sys.stderr, flush=True)
    sys.exit(2)


def main():
    try:
        client = Client(os.environ.get("HQ_SERVER_DIR"))
    except RuntimeError as error:
        said = " ".join(str(error).split("Stack backtrace")[0].split())
        fail(f"no server of HyperQueue answers: {said}; start one with hq server start")
    # However many batches fail, the others go on.
    job = Job(name=NAME, max_fails=None)
    for path in sys.stdin.read().split():
        name = os.path.splitext(os.path.basename(path))[0]
        command = [os.path.join(DIR, "batch"), name, str(ENGINES), str(CPUS)]
        # ./batch has a log of its own.
        job.program(command, cwd=DIR, stdout=None, stderr=None, name=name, resources=ResourceRequest(cpus=CPUS))
    submitted = client.submit(job)
    count = "1 batch" if len(job.tasks) == 1 else f"{len(job.tasks)} batches"
    print(f"job {submitted.id} of HyperQueue: {count}", file=sys.stderr, flush=True)
    if not sys.stderr.isatty():
        # The progress bar of HyperQueue is for a terminal.
        os.environ["TQDM_DISABLE"] = "1"
    client.wait_for_jobs([submitted], raise_on_error=False)


if __name__ == "__main__":
    main()
