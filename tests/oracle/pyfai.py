"""Random integrations by pyFAI, one JSON object a line: the case, then what pyFAI makes of it.

Usage: pyfai.py random|large|nexus|golden FIRST STOP DIR
Cases FIRST to STOP - 1. PONI files, and the detector files that they name, are written to DIR.

Images, masks, darks and flats are not sent: both sides make them from a hash of the pixel's index.
"""
import itertools
import json
import logging
import math
import pathlib
import random
import sys

import numpy

logging.disable(logging.CRITICAL)
import pyFAI  # noqa: E402
from pyFAI.detectors import NexusDetector, detector_factory  # noqa: E402

UNITS = ["q_nm^-1", "2th_deg", "r_mm", "q_A^-1", "d*2_nm^-2", "2th_rad", "r_m", "d*2_A^-2"]
SPLITS = ["no", "bbox", "full"]
NAMES = [
    "Pilatus100k",
    "Pilatus 200k",
    "Pilatus300k",
    "pilatus_300kw",
    "PilatusCdTe300k",
    "Pilatus1M",
    "Eiger 500k",
    "Eiger2_500k",
    "Eiger2 CdTe 1M",
    "Maxipix 2x2",
    "Lambda250k",
    "Jungfrau1M",
    "Jungfrau 500k",
    "Imxpad S140",
]
ORIENTED = [name for name in NAMES if not name.startswith(("Jungfrau 500k", "Imxpad"))]


# What a pixel holds. The same few lines stand in image.rs.


def hashed(count, seed):
    """32 bits for each pixel."""
    bits = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(0x9E3779B1) + numpy.uint32(seed)
    bits ^= bits >> numpy.uint32(15)
    bits *= numpy.uint32(0x85EBCA6B)
    bits ^= bits >> numpy.uint32(13)
    bits *= numpy.uint32(0xC2B2AE35)
    return bits ^ (bits >> numpy.uint32(16))


def image(case):
    """Counts below `top`; one pixel in 128 holds a mark in place of a count, where there are marks."""
    shape = case["shape"]
    bits = hashed(shape[0] * shape[1], case["seed"])
    pixels = (bits % numpy.uint32(case["top"])).astype(case["dtype"])
    for index, mark in enumerate(case["marks"]):
        pixels[(bits >> numpy.uint32(25)) == index] = mark
    return pixels.reshape(shape)


def mask(case, detector):
    """The detector's gaps and, where the case has a mask, one pixel in 64 and a block in the corner."""
    shape = tuple(case["shape"])
    masked = numpy.zeros(shape, bool) if detector.mask is None else detector.mask.astype(bool)
    if case["mask"]:
        masked |= (hashed(shape[0] * shape[1], case["seed"] + 1) >> numpy.uint32(26) == 0).reshape(shape)
        masked[: shape[0] // 5, : shape[1] // 4] = True
    return masked.astype(numpy.int8)


def dark(case):
    shape = case["shape"]
    return ((hashed(shape[0] * shape[1], case["seed"] + 2) % 9) / 4).astype(numpy.float32).reshape(shape)


def flat(case):
    shape = case["shape"]
    return (0.5 + (hashed(shape[0] * shape[1], case["seed"] + 3) % 1024) / 1024).astype(numpy.float32).reshape(shape)


# What is integrated.


def a_detector(rng, number, large):
    orientation = number % 4 + 1
    if large:
        return large, {"orientation": orientation}
    if rng.random() < 0.3:
        name = rng.choice(NAMES if orientation == 3 else ORIENTED)
        return name, {"orientation": orientation}
    shape = [int(2 ** rng.uniform(4, 10)), int(2 ** rng.uniform(4, 10))]
    pixel = 10 ** rng.uniform(-4.5, -3.7)
    pixels = [pixel, pixel * rng.choice([1, 1, 1.3])]
    return "Detector", {"pixel1": pixels[0], "pixel2": pixels[1], "max_shape": shape, "orientation": orientation}


def a_detector_file(path, kind):
    """Saves a detector that is no even grid, or is known by its file alone."""
    if kind == "bent":
        detector = NexusDetector()
        detector._pixel1 = detector._pixel2 = 1e-4
        detector.max_shape = detector.shape = (200, 300)
        y, x = numpy.mgrid[:201, :301] * 1e-4
        corners = numpy.stack([x * x, y + 0.1 * y * x, x + 0.2 * y * y], axis=-1)
        corners = numpy.stack([corners[:-1, :-1], corners[1:, :-1], corners[1:, 1:], corners[:-1, 1:]], axis=2)
        detector.set_pixel_corners(corners)
        detector.IS_FLAT = False
    else:
        detector = detector_factory(kind)
    if kind == "Rapid":
        detector.max_shape = detector.shape = (256, 470)
    detector.save(str(path))


def a_place(rng, number, size):
    """Distance, PONI and rotations. Every third beam misses the detector."""
    distance = 10 ** rng.uniform(-1, 0.7) * max(size)
    turned = rng.choice([0, 0.02, 0.3])
    rotation = [rng.uniform(-turned, turned), rng.uniform(-turned, turned), rng.uniform(-3, 3) * (turned > 0)]
    beam = [rng.uniform(0.02, 0.98) * side for side in size]
    if number % 3 == 0:
        axis = rng.randrange(2)
        beam[axis] = size[axis] * rng.choice([rng.uniform(-2, -0.1), rng.uniform(1.1, 3)])
    # Where the beam meets the detector, seen from the point of normal incidence.
    poni1 = beam[0] - distance * math.tan(rotation[1]) / math.cos(rotation[0])
    poni2 = beam[1] + distance * math.tan(rotation[0])
    return distance, poni1, poni2, rotation


def a_sector(rng, number, size, place):
    """None, a sector across pyFAI's seam at 180 deg, or one well away from it; and rot3.

    The detector is turned about the beam until one of its pixels lies in the middle of the sector.
    """
    distance, poni1, poni2, (rot1, rot2, rot3) = place
    if number % 5 > 1:
        return None, rot3
    middle = 180 if number % 5 == 0 else rng.uniform(-90, 90)
    (s1, c1), (s2, c2) = [(math.sin(angle), math.cos(angle)) for angle in (rot1, rot2)]
    p1, p2 = rng.uniform(0, size[0]) - poni1, rng.uniform(0, size[1]) - poni2
    chi = math.atan2(p1 * c2 + p2 * s1 * s2 - distance * c1 * s2, p2 * c1 + distance * s1)
    return [middle - 10 ** rng.uniform(0, 1.7), middle + 10 ** rng.uniform(0, 1.7)], chi - math.radians(middle)


def a_case(number, large=None, file=None):
    rng = random.Random(f"azpipe {number} {large}")
    name, config = a_detector(rng, number, large)
    if file:
        name, config = "NexusDetector", {"filename": str(file), "orientation": 3}
    detector = detector_factory(name, config)
    size = [side * pixel for side, pixel in zip(detector.shape, (detector.pixel1, detector.pixel2))]
    distance, poni1, poni2, rotation = place = a_place(rng, number, size)
    sector, rotation[2] = a_sector(rng, number, size, place)
    text = [
        "poni_version: 2.1",
        f"Detector: {name}",
        f"Detector_config: {json.dumps(config)}",
        f"Distance: {distance}",
        f"Poni1: {poni1}",
        f"Poni2: {poni2}",
        *(f"Rot{axis + 1}: {angle}" for axis, angle in enumerate(rotation)),
        f"Wavelength: {10 ** rng.uniform(-11, -9.5)}\n",
    ]
    dtype, marks = marked(rng, name)
    return {
        "number": number,
        "poni": "\n".join(text),
        "shape": list(detector.shape),
        "unit": UNITS[number % len(UNITS)],
        "npt": int(2 ** rng.uniform(4, 11)),
        "split": SPLITS[number // 4 % 3],
        "radial_range": rng.random() < 0.3,
        "azimuth_range": sector,
        "polarization": rng.choice([None, None, 0.99, -0.5]),
        "solid_angle": rng.random() < 0.8,
        "seed": rng.randrange(2**31),
        "top": rng.choice([5, 100, 3000, 60000]),
        "dtype": dtype,
        "marks": marks,
        "mask": rng.random() < 0.5,
        "dark": rng.random() < 0.25,
        "flat": rng.random() < 0.25,
    }


def marked(rng, name):
    """The type of the pixels, and the values that mark a pixel without a count on such a detector."""
    if name.lower().startswith("pilatus"):
        return "int32", [-1, -2]
    if name.lower().startswith("eiger"):
        return "uint32", [2**32 - 1, 2**32 - 2]
    if name == "Jungfrau1M":
        return "int32", [-2]
    if name == "Detector" and rng.random() < 0.7:
        return "uint32", [2**32 - 1]
    return "uint16", []


def sectors(sector):
    """The azimuthal ranges to integrate and add up: pyFAI drops what lies beyond its seam at 180 deg."""
    if sector is None or sector[1] < 180:
        return [sector]
    return [[sector[0], 180], [-180, sector[1] - 360]]


def prime(ai, case):
    """Has pyFAI compute what belongs to the middle of pixels before it computes corners for d*2, after which it
    reverses the indices of a detector that is not of orientation 3 twice."""
    shape = tuple(case["shape"])
    for unit in (case["unit"], "2th_rad", "chi_rad"):
        ai.center_array(shape, unit=unit)
    ai.solidAngleArray(shape)
    if case["polarization"] is not None:
        ai.polarization(shape, case["polarization"])


def a_radial_range(ai, case):
    """Limits that most of the pixels in the sector lie between."""
    shape = tuple(case["shape"])
    low, high = case["azimuth_range"] or (-180, 180)
    inside = (numpy.degrees(ai.center_array(shape, unit="chi_rad")) - low) % 360 <= high - low
    return numpy.percentile(ai.center_array(shape, unit=case["unit"])[inside], [15, 80]).tolist()


def integrate(case, folder):
    """The case as it is sent, with pyFAI's axis, intensity, standard error, and the weight of each bin."""
    path = folder / f"{case['number']}.poni"
    path.write_text(case["poni"])
    ai = pyFAI.load(str(path))
    prime(ai, case)
    case["radial_range"] = a_radial_range(ai, case) if case["radial_range"] else None
    settings = {
        "unit": case["unit"],
        "method": (case["split"], "csr", "cython"),
        "radial_range": case["radial_range"],
        "mask": mask(case, ai.detector),
        "correctSolidAngle": case["solid_angle"],
        "polarization_factor": case["polarization"],
        "error_model": "poisson",
    }
    if case["dark"]:
        settings["dark"] = dark(case)
    if case["flat"]:
        settings["flat"] = flat(case)
    if case["marks"] == [2**32 - 1]:
        settings |= {"dummy": 2**32 - 1, "delta_dummy": 1}
    pixels = image(case)
    results = [
        ai.integrate1d_ng(pixels, case["npt"], azimuth_range=sector, **settings)
        for sector in sectors(case["azimuth_range"])
    ]
    signal, variance, norm, count = (
        sum(numpy.asarray(getattr(result, name), dtype=float) for result in results)
        for name in ("sum_signal", "sum_variance", "sum_normalization", "count")
    )
    weighted = norm != 0
    norm[~weighted] = 1
    found = {
        "axis": results[0].radial,
        "intensity": signal / norm * weighted,
        "sem": numpy.sqrt(variance) / norm * weighted,
        "weight": count * weighted,
    }
    if len(results) == 1:
        found |= {"intensity": results[0].intensity, "sem": results[0].sem}
    as_list = lambda array: numpy.asarray(array, dtype=float).tolist()
    centre = None if isinstance(ai.detector, NexusDetector) else beam_centre(ai)
    return case | {"centre": centre} | {key: as_list(values) for key, values in found.items()}


def beam_centre(ai):
    """Where the beam meets the detector, as (row, column) of the image; null where it does not."""
    cos1, cos2 = math.cos(ai.rot1), math.cos(ai.rot2)
    if cos1 * cos2 <= 0:
        return None
    place = [ai.poni1 + ai.dist * math.tan(ai.rot2) / cos1, ai.poni2 - ai.dist * math.tan(ai.rot1)]
    index = [place[0] / ai.detector.pixel1, place[1] / ai.detector.pixel2]
    orientation = int(ai.detector.orientation)
    for axis, reversed_in in enumerate([(1, 2), (1, 4)]):
        if orientation in reversed_in:
            index[axis] = ai.detector.shape[axis] - index[axis]
    return index


def cases(kind, first, stop, folder):
    if kind == "large":
        names = ["Eiger 4M", "Pilatus 2M", "Eiger2 CdTe 4M", "MAR 345", "Perkin"]
        for number, name in list(zip([0, 5, 10, 7, 9], names))[first:stop]:
            yield a_case(number, name)
    elif kind == "nexus":
        for number, name in list(enumerate(["Xpad S540 flat", "bent", "Rapid", "Pilatus300k", "Jungfrau 500k"]))[first:stop]:
            file = folder / f"detector{number}.h5"
            a_detector_file(file, name)
            yield a_case(3 * number, file=file)  # the beam misses it
    elif kind == "golden":
        # Cases with few bins take little room in a file.
        small = (case for case in map(a_case, range(10_000)) if case["npt"] < 64)
        yield from itertools.islice(small, first, stop)
    else:
        yield from map(a_case, range(first, stop))


def main():
    kind, first, stop, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
    for case in cases(kind, first, stop, folder):
        print(json.dumps(integrate(case, folder)), flush=True)


if __name__ == "__main__":
    main()
