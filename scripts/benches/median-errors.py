"""Prints by how much the errors of a final's patterns differ from the scatter of its intensities.

median-errors.py SUMMARY: a file of summary records. The ratio of a bin is the mean error of its frames over the standard deviation of their
intensities; printed are the number of bins, the median of their ratios, and the tenth and the ninetieth percentile."""

import json
import sys

import h5py
import numpy

with open(sys.argv[1]) as lines:
    final = next(record["final"] for record in map(json.loads, lines) if record["type"] == "summary")
with h5py.File(final) as file:
    data = file
    while "default" in data.attrs:
        data = data[data.attrs["default"]]
    signal = data.attrs["signal"]
    intensity, error = (data[name][()].astype(float) for name in (signal, f"{signal}_errors"))
usable = numpy.isfinite(intensity).all(axis=0) & numpy.isfinite(error).all(axis=0)
scatter = intensity[:, usable].std(axis=0, ddof=1)
ratio = error[:, usable].mean(axis=0) / scatter
print("{:6d} {:8.2f} {:8.2f} {:8.2f}".format(ratio.size, *numpy.percentile(ratio, (50, 10, 90))))
