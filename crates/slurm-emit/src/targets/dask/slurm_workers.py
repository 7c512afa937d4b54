"""The dask workers of the driver, which run as jobs of SLURM. Run by itself, prints the script of their jobs.

Written by slurm-emit.
"""

import asyncio
import contextlib
import inspect
import itertools
import math
import os
import re
import shlex
import socket
import sys
import tempfile
import time

import dask
from dask.distributed import Security, Status
from dask_jobqueue import SLURMCluster
from dask_jobqueue.core import JobQueueCluster
from dask_jobqueue.slurm import SLURMJob
from distributed.deploy.spec import ProcessInterface

import plan
# SETTINGS

# Arguments that are added to those of the site, each with its former name.
LISTS = {
    "worker_extra_args": "extra",
    "job_script_prologue": "env_extra",
    "job_extra_directives": "job_extra",
    "job_directives_skip": "header_skip",
}


def site(name):
    """Returns a setting of the site's jobqueue.yaml."""
    section = GIVEN.get("config_name", "slurm")
    return dask.config.get(f"jobqueue.{section}.{name.replace('_', '-')}", None)


def arguments():
    """Returns the arguments of SLURMCluster: those of slurm-emit, of jobqueue.yaml and of the user."""
    merged = {**OURS, **GIVEN}
    merged.pop("security", None)
    for name, former in LISTS.items():
        given = [*GIVEN.get(name, []), *GIVEN.get(former, [])]
        merged[name] = [*(site(name) or site(former) or []), *OURS[name], *given]
        merged.pop(former, None)
    if merged.get("log_directory") or site("log_directory"):
        merged["job_extra_directives"] = [line for line in merged["job_extra_directives"] if line not in LOGS]
    options = [site("scheduler_options") or {}, OURS["scheduler_options"], GIVEN.get("scheduler_options", {})]
    merged["scheduler_options"] = {name: value for source in options for name, value in source.items()}
    return merged


ARGUMENTS = arguments()

LOOK_SECONDS = 5
# Seconds in which the workers of a running job have to connect. They give up by themselves after dask's death timeout.
CONNECT_SECONDS = 300
# Seconds for which a job may wait for a reason that does not pass by itself, as someone may be changing a limit.
HOPELESS_SECONDS = 60
HOPELESS = re.compile("Limit$|PerJob|PerNode|BadConstraints|NotAllowed|Invalid|NeverSatisfied|^JobHeld|launch failed")
PASSING = re.compile("Grp|MaxJobs|MaxSubmit|PerUser|PerAccount|JobArrayTaskLimit|JobLimit")


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


class WorkerJob(SLURMJob):
    """A job of workers, which knows whether they ever connected."""

    refusal = None
    connected = False
    running_since = hopeless_since = None

    async def start(self):
        try:
            await super().start()
        except (OSError, RuntimeError, ValueError) as error:
            # dask would take the job for submitted, and say nothing.
            said = str(error).split("stderr:\n")[-1].strip().replace("sbatch: error: ", "").replace("\n", "; ")
            self.refusal = f"sbatch refuses the job of a worker: {said}"
            await ProcessInterface.start(self)

    async def close(self):
        await super().close()
        await ProcessInterface.close(self)

    def last_words(self):
        if self.log_directory:
            return f"see its log in {self.log_directory}"
        path = os.path.join(plan.DIR, "logs", f"worker_{self.job_id}.log")
        try:
            with open(path, errors="replace") as log:
                lines = [line.strip() for line in log if line.strip()]
        except OSError:
            lines = []
        return f"its log {path} ends with: {lines[-1]}" if lines else f"see its log {path}"

    def failure(self, state, reason):
        """Returns why the job will not do any work, or None if it does or may do so."""
        now = time.monotonic()
        self.running_since = (self.running_since or now) if state == "RUNNING" else None
        hopeless = state == "PENDING" and HOPELESS.search(reason) and not PASSING.search(reason)
        self.hopeless_since = (self.hopeless_since or now) if hopeless else None
        if self.refusal:
            return self.refusal
        if hopeless and now - self.hopeless_since > HOPELESS_SECONDS:
            return f"job {self.job_id} of a worker would wait forever: {reason}"
        if self.connected:
            return None
        if state is None:
            return f"job {self.job_id} of a worker ended before it connected; {self.last_words()}"
        if self.running_since and now - self.running_since > CONNECT_SECONDS:
            return f"job {self.job_id} of a worker runs, and does not connect; {self.last_words()}"
        return None


class Workers(SLURMCluster):
    """Jobs of workers: those that end are replaced, and there are as many as the tasks need."""

    job_cls = WorkerJob

    def __init__(self, **arguments):
        self.numbers = itertools.count()
        self.failures = 0
        super().__init__(**arguments)

    def _new_worker_name(self, worker_number):
        # A replacement has a name of its own, as the scheduler may still know the worker that it replaces.
        return f"{self._name}-{next(self.numbers)}"

    async def watch(self, report):
        """Looks after the jobs. Reports a reason if no worker can come to work, and if nobody looks after them any more."""
        try:
            await self.replace_jobs(report)
        except Exception as error:
            if self.status == Status.running:
                report(f"the workers can't be watched: {error!r}")

    async def replace_jobs(self, report):
        wait_until, told = 0, None
        while self.status == Status.running:
            # Jobs that are submitted while SLURM is asked are not in its answer.
            asked = dict(self.workers)
            queue = await self.queue(asked.values())
            if queue is not None and self.status == Status.running:
                workers = self.connected_workers()
                lost = []
                for name, job in asked.items():
                    if self.workers.get(name) is not job:
                        continue
                    if workers.get(name) and not job.connected:
                        job.connected, self.failures = True, 0
                    state, reason = queue.get(job.job_id, (None, ""))
                    failure = job.failure(state, reason)
                    if failure:
                        self.failures += 1
                        # A job that fails at once is not replaced at once, again and again.
                        wait_until = time.monotonic() + min(self.failures * LOOK_SECONDS, 60)
                        if failure != told:
                            print(f"driver.py: {failure}", file=sys.stderr, flush=True)
                            told = failure
                    if failure or state is None:
                        lost.append(name)
                if self.failures >= max(3, 2 * JOBS[1]) and not workers:
                    report(f"no worker came to work, and {self.failures} jobs failed. The last: {told}")
                    return
                if lost:
                    await self.scale_down(lost)
                await self.fit(queue, workers, time.monotonic() >= wait_until)
            await asyncio.sleep(LOOK_SECONDS)

    async def queue(self, jobs):
        """Returns state and reason of those of the jobs that are waiting or running, or None if SLURM does not answer."""
        ids = [job.job_id for job in jobs if job.job_id]
        if not ids:
            return {}
        try:
            lines = await WorkerJob._call(["squeue", "--noheader", "--format=%i|%T|%r", "--jobs=" + ",".join(ids)])
        except RuntimeError as error:
            # SLURM forgets jobs that ended long ago.
            return {} if "Invalid job id" in str(error) else None
        jobs = [line.split("|", 2) for line in lines.splitlines()]
        return {job: (state, reason) for job, state, reason in jobs if state != "COMPLETING"}

    def connected_workers(self):
        """Returns the workers that the scheduler knows, by the name of their job."""
        jobs = {}
        for worker in self.scheduler.workers.values():
            for name, spec in self.worker_spec.items():
                if worker.name in [f"{name}{suffix}" for suffix in spec.get("group", [""])]:
                    jobs.setdefault(name, []).append(worker)
        return jobs

    async def fit(self, queue, workers, may_grow):
        """Starts as many jobs as the tasks that are left need, and ends those that have nothing to do."""
        fewest, most = JOBS
        left = sum(task.state not in ("memory", "erred", "released") for task in self.scheduler.tasks.values())
        needed = max(fewest, min(most, math.ceil(left / OURS["processes"])))
        if len(self.worker_spec) < needed and may_grow:
            self.scale(jobs=needed)
        is_idle = lambda worker: not worker.processing and not worker.has_what
        idle = [name for name in self.workers if all(map(is_idle, workers.get(name, [])))]
        # Jobs that wait go first.
        idle.sort(key=lambda name: name in workers)
        surplus = idle[: max(0, len(self.worker_spec) - needed)]
        if surplus:
            await self.scheduler.retire_workers(
                names=[worker.name for name in surplus for worker in workers.get(name, [])], close_workers=True
            )
            await self.scale_down(surplus)


@contextlib.contextmanager
def certificates():
    """Yields the certificates that scheduler and workers use: those of the user, or else temporary ones."""
    given = GIVEN.get("security", True)
    if isinstance(given, dict):
        try:
            made = Security(**{"require_encryption": True, **given})
        except TypeError as error:
            plan.fail(f"security: {error}")
        yield made
        return
    if not given:
        print("driver.py: without TLS, others can run code in this user's name", file=sys.stderr, flush=True)
        yield None
        return
    shared = GIVEN.get("shared_temp_directory") or site("shared_temp_directory")
    shared = os.path.expanduser(os.path.expandvars(shared)) if shared else plan.DIR
    with tempfile.TemporaryDirectory(prefix=".certificates.", dir=shared) as directory:
        try:
            made = Certificates.temporary()
        except ImportError as error:
            plan.fail(error)
        made.directory = directory
        yield made


@contextlib.contextmanager
def cluster(report):
    """Starts workers as jobs of SLURM. Calls `report` with a reason if none can come to work."""
    if not DASHBOARD:
        dask.config.set({"distributed.scheduler.http.routes": []})
    with certificates() as security:
        try:
            started = Workers(security=security, **ARGUMENTS)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            plan.fail(f"dask-jobqueue can't start: {error}")
        with started:
            if DASHBOARD:
                port, host = started.scheduler.http_server.port, socket.gethostname()
                print(f"driver.py: dashboard at http://127.0.0.1:{port}/status of {host}; to see it elsewhere:", flush=True)
                print(f"    ssh -L {port}:127.0.0.1:{port} {host}", flush=True)
            started.scale(jobs=JOBS[0])
            started.loop.add_callback(started.watch, report)
            yield started


def job_script():
    """Returns the script of the jobs of workers, without the address of the scheduler."""
    of_job = {"config_name", "interface", "protocol"}
    of_cluster = set(inspect.signature(JobQueueCluster.__init__).parameters) - of_job
    arguments = {name: value for name, value in ARGUMENTS.items() if name not in of_cluster}
    return WorkerJob("tls://127.0.0.1:1", name="worker", **arguments).job_script()


if __name__ == "__main__":
    sys.stdout.buffer.write(os.fsencode(job_script()))
