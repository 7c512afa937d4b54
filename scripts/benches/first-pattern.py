#!/usr/bin/env python3
"""The first pattern that a new Python process makes with pyFAI. Usage: first-pattern.py DATASET SPLIT, with OMP_NUM_THREADS in the environment.

Prints the seconds of CPU from after the imports until the pattern is there, and those of the whole process until then."""
import glob
import logging
import sys
import time

logging.disable(logging.CRITICAL)
import fabio  # noqa: E402
import h5py  # noqa: E402
import hdf5plugin  # noqa: E402, F401
import pyFAI  # noqa: E402
import pyFAI.integrator.azimuthal  # noqa: E402, F401

dataset, split = sys.argv[1:]
imported = time.process_time()
found = pyFAI.load(glob.glob(f"{dataset}/*.poni")[0])
found.detector.mask = found.detector.mask.astype(bool) | fabio.open(f"{dataset}/mask.edf").data.astype(bool)
with h5py.File(glob.glob(f"{dataset}/RAW_DATA/*/*/scan0001/*_0000.h5")[0], "r", locking=False) as file:
    frame = file["/entry_0000/measurement/data"][0]
found.integrate1d_ng(frame, 1000, unit="q_nm^-1", error_model="poisson", method=(split, "csr", "cython"))
print(time.process_time() - imported, time.process_time())
