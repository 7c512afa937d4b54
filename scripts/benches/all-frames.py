#!/usr/bin/env python3
"""pyFAI's loop over all frames of a dataset, read one after the other by h5py. Usage: all-frames.py DATASET

Prints frames a second of the clock from the first frame on, without the time for imports and matrix."""
import glob
import logging
import sys
import time

logging.disable(logging.CRITICAL)
import fabio  # noqa: E402
import h5py  # noqa: E402
import hdf5plugin  # noqa: E402, F401
import numpy  # noqa: E402
import pyFAI  # noqa: E402

dataset = sys.argv[1]
found = pyFAI.load(glob.glob(f"{dataset}/*.poni")[0])
found.detector.mask = found.detector.mask.astype(bool) | fabio.open(f"{dataset}/mask.edf").data.astype(bool)
settings = {"unit": "q_nm^-1", "error_model": "poisson", "method": ("bbox", "csr", "cython")}
found.integrate1d_ng(numpy.zeros(found.detector.shape, "u4"), 1000, **settings)
frames, start = 0, time.perf_counter()
for name in sorted(glob.glob(f"{dataset}/RAW_DATA/*/*/scan0001/*.h5")):
    with h5py.File(name, "r", locking=False) as file:
        for frame in file["/entry_0000/measurement/data"]:
            found.integrate1d_ng(frame, 1000, **settings)
            frames += 1
print(frames / (time.perf_counter() - start))
