"""Runs a Python program beside a HyperQueue server with one worker of two CPUs, which end with it. Arguments: the program and its
arguments."""

import os
import subprocess
import sys
import tempfile

from hyperqueue import LocalCluster
from hyperqueue.cluster import WorkerConfig

with tempfile.TemporaryDirectory() as directory, LocalCluster(directory, WorkerConfig(cores=2)):
    ended = subprocess.run([sys.executable, *sys.argv[1:]], env={**os.environ, "HQ_SERVER_DIR": directory})
sys.exit(ended.returncode)
