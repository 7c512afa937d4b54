"""Runs the missing tasks of the plan on Ray, and then gathers all results.

Written by slurm-emit, and started by ./submit. It may be run again at any time: tasks that are done are not done again.
"""

import os
import sys
import time

import ray

import plan
# SETTINGS


@ray.remote(max_retries=2, retry_exceptions=True, scheduling_strategy="SPREAD", **ENGINE)
def integrate(line):
    return plan.run(line)


def fits():
    """Returns whether some node has room for an engine. If none has, Ray waits forever without a message."""
    needs = {"CPU": ENGINE["num_cpus"], "GPU": ENGINE["num_gpus"]}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return any(all(node.get(kind, 0) >= need for kind, need in needs.items()) for node in nodes)


def wait_for_nodes():
    """Waits until each node has its Ray, has failed, or has had its time. Goes on with those that are there, if enough are."""
    end = time.monotonic() + NODE_SECONDS
    names = os.environ.get("RAY_NODES", "").split()
    log = f"logs/ray_{os.environ.get('JOB')}"
    while True:
        alive = [node["NodeManagerHostname"].split(".")[0] for node in ray.nodes() if node["Alive"]]
        ended = [name for name in names if os.path.exists(f"{log}.{name}.ended")]
        if len(alive) + len(ended) >= NODES or time.monotonic() > end:
            break
        time.sleep(0.2)
    if len(alive) >= NODES:
        return
    missing = " ".join(name for name in names if name.split(".")[0] not in alive)
    why = f"Ray is on {len(alive)} of {NODES} nodes, and not on {missing}: see {plan.DIR}/{log}.*.log"
    if len(alive) < MIN_NODES:
        plan.fail(f"{why}; --min-nodes is {MIN_NODES}")
    print(f"driver.py: {why}; the others go on without them", file=sys.stderr, flush=True)


def main():
    lines = plan.missing()
    if lines:
        ray.init(log_to_driver=False, **RAY)
        wait_for_nodes()
        if not fits():
            needs = f"{ENGINE['num_cpus']} CPUs and {ENGINE['num_gpus']} GPUs"
            plan.fail(f"an engine needs {needs}, and no node has as many: run slurm-emit again with other sizes")
        # After ray.init, which sets its own handler of TERM.
        with plan.Results() as results:
            # As many tasks as run at a time, and as many that wait.
            running = [integrate.remote(lines.pop(0)) for _ in range(min(len(lines), 2 * ENGINES))]
            while running:
                # What has ended when TERM comes is kept: it is waited for once more, because Ray may still have to read it if
                # this process had no CPU, or was stopped.
                is_last = results.is_stopped
                ray.wait(running, num_returns=len(running) if is_last else 1, timeout=1)
                done, running = ray.wait(running, num_returns=len(running), timeout=0)
                for ended in done:
                    if lines and not results.is_stopped:
                        running.append(integrate.remote(lines.pop(0)))
                    try:
                        results.add(ray.get(ended))
                    except ray.exceptions.RayError as error:
                        results.fail(error)
                if is_last:
                    return results.status()
        # TERM may have come since.
        if results.is_stopped:
            return results.status()
    return plan.gather_all()


if __name__ == "__main__":
    sys.exit(main())
