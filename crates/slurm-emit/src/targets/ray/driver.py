"""Runs what is missing of the plan on Ray, and then judges the whole.

Written by slurm-emit. ./submit starts it; it may be run again at any time: what is done is not done again.
"""

import sys
import time

import ray

import plan
# SETTINGS


@ray.remote(max_retries=2, retry_exceptions=True, scheduling_strategy="SPREAD", **ENGINE)
def integrate(line):
    return plan.run(line)


def fits():
    """Whether a node has what an engine takes: Ray waits for ever, and in silence, for what none has."""
    needs = {"CPU": ENGINE["num_cpus"], "GPU": ENGINE["num_gpus"]}
    has = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return any(all(node.get(kind, 0) >= need for kind, need in needs.items()) for node in has)


def main():
    lines = plan.missing()
    if lines:
        ray.init(log_to_driver=False, **RAY)
        while sum(node["Alive"] for node in ray.nodes()) < NODES:
            time.sleep(0.2)
        if not fits():
            print(f"an engine takes {ENGINE}, and no node has that", file=sys.stderr)
            return 2
        # Not before ray.init, which takes TERM for itself.
        with plan.Results() as results:
            # As many tasks as run at a time, and as many that wait.
            running = [integrate.remote(lines.pop(0)) for _ in range(min(len(lines), 2 * ENGINES))]
            while running:
                (ended,), running = ray.wait(running)
                if lines:
                    running.append(integrate.remote(lines.pop(0)))
                try:
                    results.add(ray.get(ended))
                except ray.exceptions.RayError as error:
                    results.fail(error)
    return plan.judge()


if __name__ == "__main__":
    sys.exit(main())
