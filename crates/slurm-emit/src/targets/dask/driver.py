"""Runs the missing tasks of the plan on dask workers, and then gathers all results.

Written by slurm-emit, and started by ./submit. It may be run again at any time: tasks that are done are not done again.
"""

import sys

from dask.distributed import Client, as_completed

import plan
import workers


def main():
    lines = plan.missing()
    if lines:
        with plan.Results() as results, workers.cluster() as cluster, Client(cluster) as client:
            # Without pure=False, equal lines would run once. An engine runs one task at a time.
            client.upload_file("plan.py")
            tasks = client.map(plan.run, lines, pure=False, retries=2, resources={"engine": 1})
            for task in as_completed(tasks):
                if task.status == "finished":
                    results.add(task.result())
                else:
                    results.fail(task.exception())
    return plan.gather_all()


if __name__ == "__main__":
    sys.exit(main())
