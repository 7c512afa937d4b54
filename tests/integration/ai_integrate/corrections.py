"""Images that are hard on a correction, and what pyFAI makes of the frames with them.

usage: corrections.py MASTER DETECTOR PONI FOLDER

Writes dark.npy, flat.npy and mask.npy into FOLDER, and prints a line of JSON: the patterns of all frames,
normalized by the counter `monitor` over 1000, their standard errors, and the number of pixels of each bin.
"""

import json
import logging
import sys

import h5py
import hdf5plugin  # noqa: F401 (the frames are compressed)
import numpy
import pyFAI

logging.disable(logging.ERROR)
master, detector, poni, folder = sys.argv[1:]
with h5py.File(master) as file:
    frames = file[f"1.1/instrument/{detector}/data"][()]
    monitor = file["1.1/measurement/monitor"][()]

random = numpy.random.default_rng(7)
shape = frames.shape[1:]
dark = random.poisson(3, shape).astype("float32")
dark[10:20, 10:200] = numpy.nan
dark[30, 40] = numpy.inf
flat = random.uniform(0.5, 1.5, shape).astype("float32")
flat[50:60] = 0
flat[70:75, 100] = numpy.nan
flat[80, :50] = numpy.inf
mask = (random.uniform(size=shape) < 0.05).astype("float32")
mask[90:95, 5:9] = numpy.nan
for name, image in (("dark", dark), ("flat", flat), ("mask", mask)):
    numpy.save(f"{folder}/{name}.npy", image)

ai = pyFAI.load(poni)
gaps = ai.detector.mask
patterns = []
for frame, counts in zip(frames, monitor):
    # Values that the detector marks gaps and dead pixels with.
    invalid = frame < 0 if frame.dtype.kind == "i" else frame >= numpy.iinfo(frame.dtype).max - 1
    masked = (mask != 0) | invalid | (gaps.astype(bool) if gaps is not None else False)
    result = ai.integrate1d_ng(
        frame, 300, unit="q_nm^-1", method=("bbox", "csr", "cython"), error_model="poisson", mask=masked,
        dark=dark, flat=flat, polarization_factor=0.95, normalization_factor=counts / 1000)
    patterns.append([result.intensity.tolist(), result.sem.tolist(), result.count.tolist()])
json.dump({"radial": result.radial.tolist(), "patterns": patterns}, sys.stdout)
