"""Runs the missing tasks of the plan on dask workers, and then gathers all results.

Written by slurm-emit, and started by ./submit. It may be run again at any time: tasks that are done are not done again.
"""

import queue
import sys
import time

from dask.distributed import Client

import plan
import workers


def take(ended, is_last):
    """Takes all that is in a queue, after at most a second of waiting; the last time, all that comes within a second."""
    taken = []
    end = time.monotonic() + 1
    try:
        while True:
            waits = is_last or not taken
            taken.append(ended.get(timeout=max(0, end - time.monotonic()) if waits else 0))
    except queue.Empty:
        return taken


def keep(task, results):
    """Keeps the results of a task that ended."""
    if isinstance(task, str):
        plan.fail(task)
    if task.status == "finished":
        results.add(task.result())
    else:
        results.fail(task.exception())
    # The worker need not keep it, and may end.
    task.release()


def main():
    lines = plan.missing()
    if lines:
        # The tasks that ended, or the reason for which no worker can come to work on them.
        ended = queue.SimpleQueue()
        with plan.Results() as results, workers.cluster(ended.put) as cluster, Client(cluster) as client:
            # Without pure=False, equal lines would run once. An engine runs one task at a time.
            client.upload_file("plan.py")
            tasks = client.map(plan.run, lines, pure=False, retries=2, resources={"engine": 1})
            for task in tasks:
                task.add_done_callback(ended.put)
            left = len(tasks)
            while left:
                # What has ended when TERM comes is kept: it is waited for once more, because the client may still have to read
                # it if this process had no CPU, or was stopped.
                is_last = results.is_stopped
                for task in take(ended, is_last):
                    keep(task, results)
                    left -= 1
                if is_last:
                    return results.status()
        # TERM may have come since.
        if results.is_stopped:
            return results.status()
    return plan.gather_all()


if __name__ == "__main__":
    sys.exit(main())
