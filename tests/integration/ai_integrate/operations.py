"""Frames as Lima saves them after each image operation, and what pyFAI makes of them where they lie.

usage: operations.py FOLDER

Writes whole.poni, of the detector as it is, mask.npy, which is one of it too, and a file NAME.h5 for each operation into
FOLDER; bliss.h5 is a master over that of `all`. Prints a line of JSON: for each operation the framing, and radial
positions, intensity, standard error and count by pyFAI, which is given a geometry of the frames as they are saved:
larger pixels, an orientation, a point of normal incidence that moved.
"""

import json
import logging
import pathlib
import sys

import h5py
import numpy

logging.disable(logging.CRITICAL)
from pyFAI.detectors import Detector  # noqa: E402
from pyFAI.integrator.azimuthal import AzimuthalIntegrator  # noqa: E402

folder = pathlib.Path(sys.argv[1])
SHAPE, PIXEL = (195, 487), 172e-6
PLACE = {"dist": 0.11, "poni1": 0.021, "poni2": 0.061, "rot1": 0.12, "rot2": -0.2, "rot3": 0.3, "wavelength": 5e-11}

# Binning, flips (rows before columns), degrees clockwise, region (row, column, rows, columns).
OPERATIONS = {
    "whole": ((1, 1), (0, 0), 0, None),
    "rows": ((1, 1), (1, 0), 0, None),
    "columns": ((1, 1), (0, 1), 0, None),
    "quarter": ((1, 1), (0, 0), 90, None),
    "half": ((1, 1), (0, 0), 180, None),
    "three": ((1, 1), (0, 0), 270, None),
    "binned": ((2, 2), (0, 0), 0, None),
    "uneven": ((1, 3), (1, 1), 0, None),
    "region": ((1, 1), (0, 0), 0, (40, 300, 110, 150)),
    # Whose shape is half of the detector's: a guess would take it for binning.
    "corner": ((1, 1), (0, 0), 0, (97, 244, 97, 243)),
    "turned": ((1, 1), (0, 1), 270, (20, 30, 400, 150)),
    "all": ((2, 2), (1, 0), 90, (50, 10, 150, 80)),
}

random = numpy.random.default_rng(4)
rows, columns = numpy.mgrid[: SHAPE[0], : SHAPE[1]]
image = random.poisson(50 + 40 * numpy.sin(rows / 9) * numpy.cos(columns / 17) + columns / 10).astype("int32")
mask = (random.uniform(size=SHAPE) < 0.02).astype("uint8")
numpy.save(folder / "mask.npy", mask)
text = {"Detector": "Pilatus100k", "Detector_config": '{"orientation": 3}', "Distance": PLACE["dist"]}
text |= {key.capitalize(): PLACE[key] for key in list(PLACE)[1:]}
(folder / "whole.poni").write_text("\n".join(["poni_version: 2.1"] + [f"{key}: {value}" for key, value in text.items()]) + "\n")


def operated(array, name):
    """What Lima makes of an image: the sum of the pixels that are binned."""
    (by_rows, by_columns), flips, degrees, region = OPERATIONS[name]
    height, width = SHAPE[0] // by_rows, SHAPE[1] // by_columns
    array = array[: height * by_rows, : width * by_columns]
    array = array.reshape(height, by_rows, width, by_columns).sum(axis=(1, 3))
    array = numpy.flip(array, [axis for axis in (0, 1) if flips[axis]])
    array = numpy.rot90(array, -degrees // 90)
    if region:
        array = array[region[0] : region[0] + region[2], region[1] : region[1] + region[3]]
    return numpy.ascontiguousarray(array)


def save(name):
    """A file like those of Lima 1, with what it says of the images."""
    (by_rows, by_columns), flips, degrees, region = OPERATIONS[name]
    frame = operated(image, name).astype("int32")
    region = region or (0, 0, *frame.shape)
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.attrs["creator"] = "LIMA-1.10.0"
        entry = file.create_group("entry_0000")
        entry.attrs["NX_class"] = "NXentry"
        instrument = entry.create_group("ESRF-ID31")
        instrument.attrs["NX_class"] = "NXinstrument"
        detector = instrument.create_group("p3")
        detector["data"] = frame[None]
        detector["data"].attrs["interpretation"] = "image"
        for group, values in {
            "detector_information/max_image_size": {"xsize": SHAPE[1], "ysize": SHAPE[0]},
            "image_operation/binning": {"x": by_columns, "y": by_rows},
            "image_operation/flipping": {"x": numpy.uint8(flips[1]), "y": numpy.uint8(flips[0])},
            "image_operation/dimension": {"xsize": frame.shape[1], "ysize": frame.shape[0]},
            "image_operation/region_of_interest": dict(zip(("ystart", "xstart", "ysize", "xsize"), region)),
            "image_operation": {"rotation": f"Rotation_{degrees}", "bin_mode": "Bin_Sum"},
        }.items():
            for key, value in values.items():
                detector[f"{group}/{key}"] = value
        entry["start_time"] = f"2026-03-04T09:20:{len(written):02}Z"
        entry["end_time"] = "2026-03-04T09:21:00Z"
    written.append(name)
    return frame


def integrated(name, frame, masked):
    """pyFAI's pattern of the frame with a geometry of its own."""
    (by_rows, by_columns), flips, degrees, region = OPERATIONS[name]
    whole = numpy.zeros((SHAPE[0] // by_rows, SHAPE[1] // by_columns))
    if degrees in (90, 270):
        # No orientation of pyFAI's turns by a quarter: the frame is turned back, onto a whole detector.
        seen = numpy.rot90(whole, -degrees // 90).copy()
        left = (~seen.astype(bool)).astype(numpy.int8)
        top = region or (0, 0, *frame.shape)
        part = numpy.s_[top[0] : top[0] + top[2], top[1] : top[1] + top[3]]
        seen[part], left[part] = frame, masked
        frame, masked = numpy.rot90(seen, degrees // 90), numpy.rot90(left, degrees // 90)
        region = None
    reversed_axes = tuple(bool(flip) ^ (degrees == 180) for flip in flips)
    orientation = {(False, False): 3, (True, False): 2, (False, True): 4, (True, True): 1}[reversed_axes]
    pixels = (PIXEL * by_rows, PIXEL * by_columns)
    origin = region[:2] if region else (0, 0)
    detector = Detector(*pixels, max_shape=frame.shape, orientation=orientation)
    place = PLACE | {f"poni{axis + 1}": PLACE[f"poni{axis + 1}"] - origin[axis] * pixels[axis] for axis in (0, 1)}
    # An index that goes backwards starts at the end of what is left of the detector, which is the origin's other end.
    found = AzimuthalIntegrator(detector=detector, **place).integrate1d_ng(
        numpy.ascontiguousarray(frame), 200, unit="q_nm^-1", method=("bbox", "csr", "cython"), error_model="poisson",
        mask=numpy.ascontiguousarray(masked))
    return [array.tolist() for array in (found.radial, found.intensity, found.sem, found.count)]


written, said = [], {}
for name in OPERATIONS:
    frame = save(name)
    masked = operated(mask, name) != 0 if name == "all" else numpy.zeros(frame.shape, bool)
    said[name] = {"shape": frame.shape, "pattern": integrated(name, frame, masked.astype(numpy.int8))}

with h5py.File(folder / "bliss.h5", "w") as master:
    shape = (1, *said["all"]["shape"])
    layout = h5py.VirtualLayout(shape, "int32")
    layout[:] = h5py.VirtualSource("all.h5", "/entry_0000/ESRF-ID31/p3/data", shape)
    detector = master.create_group("1.1/instrument/p3")
    master["1.1"].attrs["NX_class"] = "NXentry"
    detector.create_virtual_dataset("data", layout)
    detector["type"] = "lima"
    master["1.1/title"], master["1.1/start_time"], master["1.1/end_time"] = "ct 1", "2026-03-04T10:20:30", "2026-03-04T10:20:31"

left, top = OPERATIONS["region"][3][1], OPERATIONS["region"][3][0]
saved = text | {"Detector": "Detector"}
saved["Detector_config"] = json.dumps({"pixel1": PIXEL, "pixel2": PIXEL, "max_shape": said["region"]["shape"], "orientation": 3})
saved |= {"Poni1": PLACE["poni1"] - top * PIXEL, "Poni2": PLACE["poni2"] - left * PIXEL}
(folder / "region.poni").write_text("\n".join(["poni_version: 2.1"] + [f"{key}: {value}" for key, value in saved.items()]) + "\n")
json.dump(said, sys.stdout)
