"""Reads a dataset of LaB6 with h5py, hdf5plugin, fabio and pyFAI. Fails where it is not what it should be."""
import glob
import sys

import fabio
import h5py
import hdf5plugin  # noqa: F401: h5py reads bitshuffle with it
import numpy
import pyFAI
from pyFAI.calibrant import get_calibrant
from scipy.optimize import curve_fit

root = sys.argv[1]
geometry = pyFAI.load(f"{root}/lab6.poni")
gaps = geometry.detector.mask.astype(bool)
hot = fabio.open(f"{root}/mask.edf").data.astype(bool)

with h5py.File(glob.glob(f"{root}/RAW_DATA/*/*/*.h5")[0], "r", locking=False) as master:
    measurement = master["1.1/measurement"]
    frames = next(item[()] for item in measurement.values() if item.ndim == 3)
    monitor = measurement["monitor"][()]
    rows = len(measurement["rot"]), len(measurement["elapsed_time"])

assert frames.shape == (5, *geometry.detector.shape) and rows == (5, 5), (frames.shape, rows)
assert len({frame.tobytes() for frame in frames}) == 4
invalid = frames[0] >= numpy.iinfo("uint32").max - 1 if frames.dtype == "uint32" else frames[0] < 0
assert invalid[gaps].all() and 0 < (invalid & ~gaps).sum() < 100
assert hot.any() and (frames[:, hot] == frames[0, hot][0]).all() and not (hot & invalid).any()
good = ~invalid & ~hot
counts = frames[:, good].mean(axis=1)
assert abs(counts[0] - 20) < 0.05, counts
assert numpy.allclose(counts / monitor, counts[0] / monitor[0], rtol=2e-3), counts / monitor

pattern = geometry.integrate1d_ng(
    frames.sum(axis=0, dtype=float), 4000, unit="2th_deg", mask=~good, method=("bbox", "csr", "cython")
)
calibrant = get_calibrant("LaB6")
calibrant.wavelength = geometry.wavelength
pixel = numpy.degrees(geometry.detector.pixel1 / geometry.dist)


def peak(x, height, centre, width, base):
    return height * numpy.exp(-0.5 * ((x - centre) / width) ** 2) + base


for angle in numpy.degrees(calibrant.get_2th()[:6]):
    near = abs(pattern.radial - angle) < 5 * pixel
    x, y = pattern.radial[near], pattern.intensity[near]
    (_, centre, width, _), _ = curve_fit(peak, x, y, [y.max(), angle, 1.5 * pixel, y.min()])
    assert abs(centre - angle) < 0.02 * pixel, f"ring at {angle}: {(centre - angle) / pixel} pixels off"
    assert abs(width / pixel - 1.5) < 0.1, f"ring at {angle}: {width / pixel} pixels wide"
