"""Runs what is missing of the plan on dask workers, and then judges the whole.

Written by slurm-emit. ./submit starts it; it may be run again at any time: what is done is not done again.
"""

import sys

from dask.distributed import Client, as_completed

import plan
# SETTINGS


def main():
    lines = plan.missing()
    if lines:
        with plan.Results() as results, cluster() as workers, Client(workers) as client:
            # Equal lines would run once without pure=False; an engine runs one task at a time.
            client.upload_file("plan.py")
            tasks = client.map(plan.run, lines, pure=False, retries=2, resources={"engine": 1})
            for task in as_completed(tasks):
                if task.status == "finished":
                    results.add(task.result())
                else:
                    results.fail(task.exception())
    return plan.judge()


if __name__ == "__main__":
    sys.exit(main())
