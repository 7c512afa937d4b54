"""Compares a final of a sample that turns with pyFAI's FiberIntegrator, and prints the differences as JSON.

Arguments: a JSON object with `image` (master file and datasets, one after the other), `final`, `ponis` and `angles` (for each
frame the PONI file, and the incident angle in degrees or null), `unit`, `range`, `npt`, `npt_azim`, `tilt-angle` in degrees
and `sample-orientation`.
"""

import json
import logging
import math
import sys

logging.disable(logging.CRITICAL)
import h5py  # noqa: E402
import hdf5plugin  # noqa: E402, F401
import numpy  # noqa: E402
import pyFAI  # noqa: E402
from pyFAI.units import get_unit_fiber  # noqa: E402

case = json.loads(sys.argv[1])
master, *datasets = case["image"]
with h5py.File(master) as raw:
    images = numpy.concatenate([raw[dataset][()] for dataset in datasets])
limits, npt, npt_azim = tuple(case["range"]), case["npt"], case.get("npt_azim", 1)
tilt, orientation = math.radians(case.get("tilt-angle", 0)), case.get("sample-orientation", 1)
quantity, symbol = case["unit"].split("_")


def peer(frame):
    """The pattern or cake of a frame: radial axis, intensity, sem, and the sums of signals and normalizations."""
    # One integrator for each frame: none keeps what it computed at another angle.
    ai = pyFAI.load(case["ponis"][frame], type_="pyFAI.integrator.fiber.FiberIntegrator")
    image, angle = images[frame], math.radians(case["angles"][frame])
    own = {"mask": (image < 0) | (ai.detector.mask != 0), "method": ("no", "csr", "cython")}
    unit = get_unit_fiber(case["unit"], angle, tilt, orientation)
    own_sums = own | {"radial_range": limits, "error_model": "poisson"}
    if npt_azim > 1:
        sums = ai.integrate2d_ng(image, npt, npt_azim, unit=unit, azimuth_range=(-180, 180), **own_sums)
        return sums.radial, sums.intensity, sums
    sums = ai.integrate1d_ng(image, npt, unit=unit, **own_sums)
    # In radians: pyFAI 2026.9 takes angles in degrees for radians when it comes to the bins.
    found = ai.integrate1d_grazing_incidence(
        image,
        **{"npt_ip": 1, "npt_oop": 1} | {f"npt_{quantity[1:]}": npt, f"{quantity[1:]}_range": limits},
        unit_ip=f"qip_{symbol}",
        unit_oop=f"qoop_{symbol}",
        vertical_integration=quantity == "qoop",
        incident_angle=angle,
        tilt_angle=tilt,
        sample_orientation=orientation,
        **own,
    )
    return found.integrated, found.intensity, sums


def worst(ours, theirs, there):
    return float(numpy.nanmax(abs(ours[there] / theirs[there] - 1)))


with h5py.File(case["final"]) as file:
    data = file[file.attrs["default"]]
    data = data[data.attrs["default"]]
    intensity, errors = (data[name][()].astype("f8") for name in ("intensity", "intensity_errors"))
    axis = data[quantity][()]
    group = data.parent.get("averaged")
    average = group["intensity"][()].astype("f8") if group else None
    kept = data.parent.parent["sample"].get("incident_angle")
    angles = None if kept is None else {"values": kept[()].tolist(), "units": kept.attrs["units"]}

seen = {"rows": 0, "bins": 0, "intensity": 0.0, "sigma": 0.0, "axis": 0.0, "empty": True, "lacking": []}
is_merged = len(datasets) > 1
width = (limits[1] - limits[0]) / npt
signal = weight = count = 0
for frame, angle in enumerate(case["angles"]):
    if angle is None:
        seen["lacking"] += [frame] if numpy.isnan(intensity[frame]).all() else []
        continue
    radial, expected, sums = peer(frame)
    signal, weight = signal + sums.sum_signal.astype("f8"), weight + sums.sum_normalization.astype("f8")
    count = count + sums.count
    if is_merged:
        continue
    there = sums.count > 0
    seen["empty"] &= bool(numpy.isnan(intensity[frame][~there]).all())
    # pyFAI counts what lies up to a bin's width before the range in the first bin.
    there[..., [0, -1]] = False
    seen["rows"] += 1
    seen["bins"] += int(there.sum())
    seen["axis"] = max(seen["axis"], float(abs(axis - radial).max() / width))
    seen["intensity"] = max(seen["intensity"], worst(intensity[frame], expected, there))
    seen["sigma"] = max(seen["sigma"], worst(errors[frame], sums.sem, there))
if average is not None:
    there = count > 0
    there[..., [0, -1]] = False
    mean = signal / numpy.where(weight > 0, weight, 1)
    seen["average"] = worst(average.reshape(mean.shape), mean, there)
# JSON has no NaN.
if angles:
    angles["values"] = [None if math.isnan(value) else value for value in angles["values"]]
seen["angles"] = angles
print(json.dumps(seen))
