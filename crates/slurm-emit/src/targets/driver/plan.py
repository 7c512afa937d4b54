"""The plan, for a driver: the missing tasks, their results, and the closing gather.

Written by slurm-emit.
"""

import os
import signal
import socket
import subprocess
import sys
import time
# SETTINGS


def fail(why):
    """Ends the driver with status 2."""
    print(f"driver.py: {why}", file=sys.stderr, flush=True)
    sys.exit(2)


def missing():
    """Returns the records of the missing tasks, one line each."""
    os.chdir(DIR)
    command = [BIN + "/gather", "--plan", "plan.jsonl", "--missing", *MISSING_ARGUMENTS]
    gathered = subprocess.run(command, stdout=subprocess.PIPE)
    if gathered.returncode != 0:
        fail("gather can't tell which tasks are missing: see its message above")
    lines = gathered.stdout.splitlines(keepends=True)
    print("1 task to do" if len(lines) == 1 else f"{len(lines)} tasks to do", file=sys.stderr, flush=True)
    return lines


def run(line):
    """Integrates one task, and returns its result records. Runs on the workers."""
    # The first of several partitions is the one that the job runs in.
    partition = os.environ.get("SLURM_JOB_PARTITION", "").split(",")[0]
    program = BINS.get(partition, BIN) + "/ai-integrate"
    ended = subprocess.run([*WITH_SLOT, program, *ARGUMENTS], input=line, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"ai-integrate ended with status {ended.returncode} on {socket.gethostname()}")
    return ended.stdout


class Results:
    """Writes results as they come, and gathers each scan when it is complete."""

    def __enter__(self):
        self.any = False
        self.is_signalled = False
        signal.signal(signal.SIGTERM, self.stop)
        name = f"driver.{os.environ.get('JOB', os.getpid())}.{int(time.time())}.jsonl"
        self.out = open("results/" + name, "wb")
        command = [BIN + "/gather", *EARLY_GATHER_ARGUMENTS, "--complete-only"]
        with open("summaries/" + name, "wb") as summaries:
            self.gather = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=summaries)
        return self

    def stop(self, *_):
        """Handles TERM: the driver ends as soon as it looks. An exception here would cut a record short, and Ray drops it."""
        self.is_signalled = True

    @property
    def is_stopped(self):
        """Whether the driver is to end: a job after TERM, and on this machine once ./submit has left a file."""
        return self.is_signalled or os.path.exists(".stop")

    def status(self):
        """Returns the exit status of a driver that was stopped: 75 if some work was done, 76 if none was."""
        return 75 if self.any else 76

    def add(self, lines):
        self.any = True
        for stream in (self.out, self.gather.stdin):
            stream.write(lines)
            stream.flush()

    def fail(self, error):
        print(f"a task failed three times: {error}; ./resubmit tries it again", file=sys.stderr, flush=True)

    def __exit__(self, *_):
        self.out.close()
        self.gather.stdin.close()
        self.gather.wait()
        # What follows does not look: it is the closing gather, of which nothing is kept.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(self.status()))


def gather_all():
    """Writes the output files of all scans, and returns the exit status of the whole plan."""
    # The summary gets a name of its own first, because another run may write one at the same time.
    summary = f".summary.{socket.gethostname()}.{os.getpid()}.jsonl"
    with open(summary, "wb") as out:
        command = [BIN + "/gather", *GATHER_ARGUMENTS, "--plan", "plan.jsonl"]
        gathered = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out)
    os.replace(summary, "summary.jsonl")
    return gathered.returncode
