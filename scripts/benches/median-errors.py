"""Prints the errors of finals' patterns over the scatter of their intensities.

median-errors.py SUMMARIES: a file of summary records, of scans whose frames of one number differ by noise alone. The ratio of a bin is the mean
error of its frames over their standard deviation from scan to scan; printed are the number of bins, the median of their ratios, and the tenth and
the ninetieth percentile."""

import json
import sys

import h5py
import numpy


def read_patterns(final):
    with h5py.File(final) as file:
        data = file
        while "default" in data.attrs:
            data = data[data.attrs["default"]]
        signal = data.attrs["signal"]
        return [data[name][()].astype(float) for name in (signal, f"{signal}_errors")]


with open(sys.argv[1]) as lines:
    summaries = [record for record in map(json.loads, lines) if record["type"] == "summary"]
# scans, frames, bins
intensity, error = map(numpy.array, zip(*(read_patterns(summary["final"]) for summary in summaries)))
variance = intensity.var(axis=0, ddof=1).mean(axis=0)
usable = numpy.isfinite(variance) & (variance > 0)
ratio = error.mean(axis=(0, 1))[usable] / numpy.sqrt(variance[usable])
print("{:6d} {:8.2f} {:8.2f} {:8.2f}".format(ratio.size, *numpy.percentile(ratio, (50, 10, 90))))
