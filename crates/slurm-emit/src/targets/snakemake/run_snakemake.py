"""Runs Snakemake so that TERM always ends it in order.

Written by slurm-emit, and started by ./submit with the arguments of Snakemake.
"""

import runpy
import signal
import threading

set_handler = signal.signal


def set_handler_of_a_thread(number, handler):
    """Sets a handler of TERM that runs in a thread of its own.

    Snakemake's takes a lock, which the thread that a signal interrupts may have: it would wait for itself, for ever.
    """
    if number != signal.SIGTERM or not callable(handler):
        return set_handler(number, handler)
    return set_handler(number, lambda *arguments: threading.Thread(target=handler, args=arguments, daemon=True).start())


signal.signal = set_handler_of_a_thread
runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
