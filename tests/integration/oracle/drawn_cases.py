"""Random cases: what is integrated, and how."""
import json
import math
import random

import corrections
import numpy
from pyFAI.detectors import NexusDetector, detector_factory
from pyFAI.units import UnitFiber, to_unit

# Units of random cases. Kept cases are numbered by them, so a new unit is tested by `units` alone.
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


# How the pixels of a bin are averaged, and where errors come from. pyFAI clips well without splitting alone.
ROBUST = [
    {"error_model": "azimuthal"},
    {"error_model": "variance"},
    {"error_model": "poisson", "sigma_clip": [3, 5], "split": "no"},
    {"error_model": "azimuthal", "sigma_clip": [2.5, 5], "split": "no"},
    {"error_model": "azimuthal", "sigma_clip": [0, 5], "split": "no"},
    {"error_model": "hybrid", "sigma_clip": [3, 3], "split": "no"},
    {"error_model": "variance", "sigma_clip": [4, 1], "split": "no"},
    {"error_model": "poisson", "median": [50, 50]},
    {"error_model": "variance", "median": [25, 75]},
    {"error_model": "poisson", "median": [0, 40]},
    {"error_model": "poisson", "median": [60, 100]},
]


def a_robust_case(number):
    """A case that is averaged in another way; sectors are whole to pyFAI, for such averages do not add up."""
    return a_case(number + number // 4 + 1) | {"number": number} | ROBUST[number % len(ROBUST)]


def a_unit_case(number, units):
    """A case in one of all units. The beam misses the detector: spacings diverge there. Units of a sample's frame get an
    orientation of the sample."""
    case = a_case(3 * number) | {"unit": units[number % len(units)], "split": SPLITS[number // len(units) % 2]}
    if not isinstance(to_unit(case["unit"]), UnitFiber):
        return case
    rng = random.Random(f"sample {number}")
    orientation = {"incident-angle": rng.uniform(-5, 20), "tilt-angle": rng.uniform(-30, 30)}
    return case | {"more": orientation | {"sample-orientation": rng.randrange(1, 9)}}


def a_fiber_case(number):
    """A case for pyFAI's FiberIntegrator, which splits no pixels and has no sectors."""
    units = ["qip_nm^-1", "qoop_nm^-1", "qip_A^-1", "qoop_A^-1"]
    plain = {"split": "no", "azimuth_range": None, "radial_range": False, "dark": False, "flat": False}
    return a_unit_case(number, units) | plain


def an_unweighted_case(number):
    """A case whose corrected intensities count alike, with a flat field that makes a difference."""
    case = a_case(number + number // 4 + 1)
    return case | {"number": number, "flat": True, "split": SPLITS[number // 4 % 2], "more": {"mean": "unweighted"}}


def a_dead_time_case(number):
    """A case whose counts are corrected for dead time: of every third, some pixels were dead for too long. Half are
    averaged in another way; errors of hybrid clipping are not pyFAI's own."""
    rng = random.Random(f"dead time {number}")
    others = [way for way in ROBUST if way["error_model"] != "hybrid"]
    case = a_case(number + number // 4 + 1) | {"number": number} | others[number // 2 % len(others)]
    case = case if number % 2 else a_case(number)
    exposure, part = 10 ** rng.uniform(-3, 1), [1e-3, 0.3, 1.23][number % 3]
    return case | {"more": {"dead-time": part * exposure / case["top"], "exposure-time": exposure}}


def a_parallax_case(number):
    """A case with a sensor by which parallax is corrected, at energies at which it matters. The detector has its usual
    orientation: in others, pyFAI reverses the indices of corners twice where it corrects parallax."""
    rng = random.Random(f"parallax {number}")
    sensor = {"material": rng.choice(["Si", "CdTe", "GaAs", "CZT"]), "thickness": 10 ** rng.uniform(-4, -2.7)}
    case = a_case(4 * number + 2) | {"number": number, "split": SPLITS[number % 3], "parallax": True}
    lines = []
    for line in case["poni"].splitlines():
        key, _, value = line.partition(": ")
        if key == "Detector_config":
            value = json.dumps(json.loads(value) | {"sensor": sensor})
        elif key == "Wavelength":
            value = 10 ** rng.uniform(-10.8, -10)
        lines.append(f"{key}: {value}")
    return case | {"poni": "\n".join([*lines, "poni_version: 3", "Parallax: True\n"])}


def a_corrected_case(number, folder):
    """One with corrections and masks of every kind; where the beam misses the detector, in spacings. These grow towards
    the beam, so the sense of a pixel's outline, by which pyFAI knows those that its seam cuts, is the other one: fully
    split it counts them in both sectors that meet there.
    """
    case = a_case(number) | {"split": SPLITS[number // 4 % 3], "mask": False, "dark": False, "flat": False}
    at_seam = case["azimuth_range"] is not None and case["azimuth_range"][1] > 180
    if number % 3 == 0 and not (at_seam and case["split"] == "full"):
        case["unit"] = ["d_nm", "d_A", "d_m"][number // 3 % 3]
    return case | {"more": corrections.settings(number, case, folder)}
