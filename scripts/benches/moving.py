#!/usr/bin/env python3
"""Positions of motors in a sample dataset, and what pyFAI makes of them.

Usage: moving.py arm DATASET POSITIONS     motor `rot` takes so many positions; arm.json is the goniometer file
       moving.py snake DATASET COLUMNS     motors `rot` and `samz` go over a grid to and fro
       moving.py goniometer DATASET        integrates each frame by arm.json; prints seconds of CPU after the imports
"""
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
import pyFAI.integrator.azimuthal  # noqa: E402, F401
from pyFAI.goniometer import GeometryTransformation, Goniometer  # noqa: E402

what, dataset = sys.argv[1:3]
MASTER = glob.glob(f"{dataset}/RAW_DATA/*/*/*.h5")[0]


def set_motors(**positions):
    with h5py.File(MASTER, "r+", locking=False) as file:
        for name, values in positions.items():
            for group in ("measurement", "instrument/positioners"):
                place = file["1.1"].require_group(group)
                if name in place:
                    del place[name]
                place[name] = values


def count_frames():
    with h5py.File(MASTER, "r", locking=False) as file:
        return len(file["1.1/measurement/rot"])


def arm(positions):
    found = pyFAI.load(glob.glob(f"{dataset}/*.poni")[0])
    number = numpy.arange(count_frames()) * int(positions) // count_frames()
    set_motors(rot=0.05 * number)
    turn = GeometryTransformation(
        "dist", "poni1", "poni2", "rot1 + turn * pi / 180", "rot2", "0.0", param_names=["dist", "poni1", "poni2", "rot1", "rot2"],
        pos_names=["turn"])
    values = [found.dist, found.poni1, found.poni2, found.rot1, found.rot2]
    Goniometer(values, turn, found.detector, found.wavelength).save(f"{dataset}/arm.json")


def snake(columns):
    row, column = numpy.divmod(numpy.arange(count_frames()), int(columns))
    set_motors(rot=0.25 * numpy.where(row % 2, int(columns) - 1 - column, column), samz=10 + 0.5 * row)


def goniometer():
    start = time.process_time()
    moving = Goniometer.sload(f"{dataset}/arm.json")
    mask = fabio.open(f"{dataset}/mask.edf").data.astype(bool)
    with h5py.File(MASTER, "r", locking=False) as file:
        positions = file["1.1/measurement/rot"][()]
    last = None
    with h5py.File(glob.glob(f"{dataset}/RAW_DATA/*/*/scan0001/*_0000.h5")[0], "r", locking=False) as file:
        data = file["/entry_0000/measurement/data"]
        for index, position in enumerate(positions):
            if position != last:
                last, integrator = position, moving.get_ai([position])
                integrator.detector.mask = integrator.detector.mask.astype(bool) | mask
            integrator.integrate1d_ng(
                data[index], 1000, unit="2th_deg", radial_range=(4, 14), error_model="poisson", method=("bbox", "csr", "cython"))
    print(time.process_time() - start)


{"arm": arm, "snake": snake, "goniometer": goniometer}[what](*sys.argv[3:])
