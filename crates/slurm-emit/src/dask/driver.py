"""Runs what is missing of the plan on dask workers, and then judges the whole.

Written by slurm-emit. ./submit starts it; it may be run again at any time: what is done is not done again.
"""

import os
import signal
import subprocess
import sys
import time

from dask.distributed import Client, as_completed
# SETTINGS


def integrate(line):
    """Runs on a worker: one task, by ai-integrate. Its results, a record a line."""
    ended = subprocess.run(AI_INTEGRATE, input=line, stdout=subprocess.PIPE)
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"ai-integrate ended with status {ended.returncode}")
    return ended.stdout


def stop(*_):
    """On TERM: the workers end with the cluster, and 75 says that work is left."""
    sys.exit(75)


def main():
    os.chdir(DIR)
    signal.signal(signal.SIGTERM, stop)
    ask = [GATHER, "--plan", "plan.jsonl", "--missing"]
    missing = subprocess.run(ask, stdout=subprocess.PIPE, check=True).stdout.splitlines(keepends=True)
    print(f"{len(missing)} tasks to do", file=sys.stderr)
    results = f"dask.{os.environ.get('JOB', os.getpid())}.{int(time.time())}.jsonl"
    if missing:
        with open("results/" + results, "wb") as out, open("summaries/" + results, "wb") as finals:
            # A pipe like any other: scans are put together as they become complete.
            gather = subprocess.Popen([GATHER, "--complete-only"], stdin=subprocess.PIPE, stdout=finals)
            with cluster() as workers, Client(workers) as client:
                # Equal lines would run once without pure=False; an engine runs one task at a time.
                tasks = client.map(integrate, missing, pure=False, retries=2, resources={"engine": 1})
                for task in as_completed(tasks):
                    if task.status == "error":
                        print(f"a task failed three times: {task.exception()}", file=sys.stderr)
                        continue
                    for stream in (out, gather.stdin):
                        stream.write(task.result())
                        stream.flush()
            gather.stdin.close()
            gather.wait()
    with open(".summary.jsonl", "wb") as out:
        judged = subprocess.run([GATHER, "--plan", "plan.jsonl"], stdin=subprocess.DEVNULL, stdout=out)
    os.replace(".summary.jsonl", "summary.jsonl")
    return judged.returncode


if __name__ == "__main__":
    sys.exit(main())
