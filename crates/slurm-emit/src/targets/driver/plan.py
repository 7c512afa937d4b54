"""The plan as a driver sees it: what is missing, where results go, and what came of it all.

Written by slurm-emit.
"""

import os
import signal
import socket
import subprocess
import sys
import time
# SETTINGS


def missing():
    """The tasks that are still to do, a line each."""
    os.chdir(DIR)
    ask = [BIN + "/gather", "--plan", "plan.jsonl", "--missing"]
    lines = subprocess.run(ask, stdout=subprocess.PIPE, check=True).stdout.splitlines(keepends=True)
    print(f"{len(lines)} tasks to do", file=sys.stderr, flush=True)
    return lines


def run(line):
    """Runs where the workers are: one task, by ai-integrate. Its results, a record a line."""
    # Of several partitions, the one that it runs in comes first.
    partition = os.environ.get("SLURM_JOB_PARTITION", "").split(",")[0]
    program = BINS.get(partition, BIN) + "/ai-integrate"
    ended = subprocess.run([program, *ARGUMENTS], input=line, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"ai-integrate ended with status {ended.returncode}")
    return ended.stdout


class Results:
    """Keeps results as they come, and puts each scan together when it is complete."""

    def __enter__(self):
        # On TERM, the driver ends in order: 75 says that some work was done and some is left, 76 that none was done.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(75 if self.any else 76))
        self.any = False
        name = f"driver.{os.environ.get('JOB', os.getpid())}.{int(time.time())}.jsonl"
        self.out = open("results/" + name, "wb")
        with open("summaries/" + name, "wb") as finals:
            self.gather = subprocess.Popen([BIN + "/gather", *GATHER_ARGUMENTS, "--complete-only"], stdin=subprocess.PIPE, stdout=finals)
        return self

    def add(self, lines):
        self.any = True
        for stream in (self.out, self.gather.stdin):
            stream.write(lines)
            stream.flush()

    def fail(self, error):
        print(f"a task failed three times: {error}", file=sys.stderr, flush=True)

    def __exit__(self, *_):
        self.out.close()
        self.gather.stdin.close()
        self.gather.wait()


def judge():
    """Puts together what is integrated, and judges the whole: the status of the driver."""
    # Its own name: another run may judge at the same time.
    summary = f".summary.{socket.gethostname()}.{os.getpid()}.jsonl"
    with open(summary, "wb") as out:
        command = [BIN + "/gather", *GATHER_ARGUMENTS, "--plan", "plan.jsonl"]
        judged = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out)
    os.replace(summary, "summary.jsonl")
    return judged.returncode
