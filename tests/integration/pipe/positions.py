"""Compares a final of a detector that moves with pyFAI's MultiGeometry, and prints the differences as JSON.

Arguments: a JSON object with `image` (master file and datasets, one after the other), `final`, `range`, `npt`, `monitor` (dataset, or null),
`reference` (the distance to which the solid angle refers, or null without the correction), `error_model` (poisson, if there is none), and either `ponis` (for each
frame the PONI file, or null), or `goniometer` (its file) with `positions` (for each frame the motors, or null).
"""

import json
import logging
import sys

logging.disable(logging.CRITICAL)
import h5py  # noqa: E402
import hdf5plugin  # noqa: E402, F401
import numpy  # noqa: E402
import pyFAI  # noqa: E402
from pyFAI.multi_geometry import MultiGeometry  # noqa: E402

case = json.loads(sys.argv[1])
master, *datasets = case["image"]
with h5py.File(master) as raw:
    images = numpy.concatenate([raw[dataset][()] for dataset in datasets])
    monitors = raw[case["monitor"]][()] / 1e6 if case.get("monitor") else numpy.ones(len(images))
if "ponis" in case:
    ais = [pyFAI.load(poni) if poni else None for poni in case["ponis"]]
else:
    from pyFAI.goniometer import Goniometer

    goniometer = Goniometer.sload(case["goniometer"])
    position = lambda values: values[0] if len(values) == 1 else values  # noqa: E731
    ais = [goniometer.get_ai(position(values)) if values else None for values in case["positions"]]
solid_angle = case["reference"] is not None
options = {
    "npt": case["npt"],
    "correctSolidAngle": solid_angle,
    "polarization_factor": case.get("polarization"),
    # The azimuthal variance of pyFAI's cython engine depends on the order of the pixels.
    "method": (case.get("split", "bbox"), "csr", "python" if "error_model" in case else "cython"),
}


def peer(frames, counted=False):
    """Returns the pattern of these frames by MultiGeometry, in counts per pixel at the reference."""
    many = MultiGeometry(
        [ais[frame] for frame in frames],
        unit="q_nm^-1",
        radial_range=tuple(case["range"]),
        azimuth_range=(-180, 180),
        empty=numpy.nan,
    )
    masks = [(images[frame] < 0) | (ais[frame].detector.mask != 0) for frame in frames]
    result = many.integrate1d(
        [images[frame] for frame in frames],
        lst_mask=masks,
        normalization_factor=[float(monitors[frame]) for frame in frames],
        # Averages don't take a pixel without a count for one photon, as pyFAI's Poisson errors do.
        lst_variance=[numpy.maximum(images[frame], 0).astype("f4") for frame in frames] if counted else None,
        error_model=None if counted else case.get("error_model", "poisson"),
        **options,
    )
    detector = ais[frames[0]].detector
    scale = detector.pixel1 * detector.pixel2 / case["reference"] ** 2 if solid_angle else 1.0
    return result, scale


def worst(ours, theirs, there):
    return float(numpy.nanmax(abs(ours[there] / theirs[there] - 1)))


with h5py.File(case["final"]) as file:
    data = file[file.attrs["default"]]
    data = data[data.attrs["default"]]
    intensity, errors = (data[name][()].astype("f8") for name in ("intensity", "intensity_errors"))
    axis = data["q"][()]
    group = data.parent.get("averaged")
    average = [group[name][()].astype("f8") for name in ("intensity", "intensity_errors")] if group else None

seen = {"rows": 0, "bins": 0, "intensity": 0.0, "sigma": 0.0, "axis": 0.0, "empty": True, "lacking": []}
with_pattern = []
# The rows of merged scans are of a frame of each.
is_merged = len(datasets) > 1
for frame, ai in enumerate(ais):
    if is_merged:
        with_pattern.append(frame)
        continue
    if ai is None or numpy.isnan(intensity[frame]).all():
        if numpy.isnan(intensity[frame]).all():
            seen["lacking"].append(frame)
        continue
    with_pattern.append(frame)
    result, scale = peer([frame])
    there = result.count > 0
    # The whole of a pixel that reaches over the end of the range, where that is in one bin: a habit of pyFAI's.
    there[[0, -1]] = False
    seen["rows"] += 1
    seen["bins"] += int(there.sum())
    seen["empty"] &= bool(numpy.isnan(intensity[frame][result.count == 0]).all())
    seen["axis"] = max(seen["axis"], float(abs(axis / result.radial - 1).max()))
    seen["intensity"] = max(seen["intensity"], worst(intensity[frame], result.intensity * scale, there))
    seen["sigma"] = max(seen["sigma"], worst(errors[frame], result.sigma * scale, there))
if average:
    result, scale = peer(with_pattern)
    there = result.count > 0
    there[[0, -1]] = False
    seen["average"] = worst(average[0], result.intensity * scale, there)
    if "error_model" in case:
        # MultiGeometry adds how the means of frames differ to the azimuthal variance of their average; azpipe's is the
        # spread within the frames.
        alone = [peer([frame])[0] for frame in with_pattern]
        norm = sum(found.sum_normalization for found in alone)
        variance = sum(found.sum_variance for found in alone)
        sigma = numpy.divide(numpy.sqrt(variance), norm, out=numpy.zeros_like(norm), where=norm != 0)
    else:
        sigma = peer(with_pattern, counted=True)[0].sigma
    there &= sigma > 0
    seen["average_sigma"] = worst(average[1], sigma * scale, there)
print(json.dumps(seen))
