"""Random integrations by pyFAI, one JSON object a line: the case, then what pyFAI makes of it.

Usage: pyfai.py random|robust|units|fiber|unweighted|large|nexus|golden FIRST STOP DIR [UNIT...]
Cases FIRST to STOP - 1. PONI files, and the detector files that they name, are written to DIR. Cases of `units` have each
of the units in turn.

Images, masks, darks and flats are not sent: both sides make them from a hash of the pixel's index.
"""
import itertools
import json
import logging
import math
import pathlib
import random
import sys
import types

import corrections
import numpy

logging.disable(logging.CRITICAL)
numpy.seterr(all="ignore")
import pyFAI  # noqa: E402
from pyFAI.detectors import NexusDetector, detector_factory  # noqa: E402
from pyFAI.engines import CSR_engine  # noqa: E402
from pyFAI.method_registry import IntegrationMethod  # noqa: E402
from pyFAI.units import UnitFiber, get_unit_fiber, to_unit  # noqa: E402

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


def variance(case):
    shape = case["shape"]
    return (0.5 + (hashed(shape[0] * shape[1], case["seed"] + 4) % 512) / 8).astype(numpy.float32).reshape(shape)


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


def integrate_fiber(case, folder):
    """Axis and intensity from FiberIntegrator. It has no errors: these are of its integrate1d in the same unit."""
    path = folder / f"{case['number']}.poni"
    path.write_text(case["poni"])
    ai = pyFAI.load(str(path), type_="pyFAI.integrator.fiber.FiberIntegrator")
    prime(ai, case)
    pixels = corrections.pixels(case, measured(ai, case))
    own = {
        "mask": mask(case, ai.detector),
        "correctSolidAngle": case["solid_angle"],
        "polarization_factor": case["polarization"],
    }
    method = ("no", "csr", "cython")
    errors = ai.integrate1d_ng(pixels, case["npt"], unit=unit_of(case), method=method, error_model="poisson", **own)
    sample, (quantity, symbol) = case["more"], case["unit"].split("_")
    bins = {"npt_ip": 1, "npt_oop": 1} | {f"npt_{quantity[1:]}": case["npt"]}
    found = ai.integrate1d_fiber(
        pixels,
        **bins,
        unit_ip=f"qip_{symbol}",
        unit_oop=f"qoop_{symbol}",
        vertical_integration=quantity == "qoop",
        # In radians: pyFAI 2026.9 takes angles in degrees for radians when it comes to the bins.
        incident_angle=math.radians(sample["incident-angle"]),
        tilt_angle=math.radians(sample["tilt-angle"]),
        sample_orientation=sample["sample-orientation"],
        **own,
    )
    arrays = {"axis": found.integrated, "intensity": found.intensity, "sem": errors.sem, "weight": found.count}
    as_list = lambda array: numpy.asarray(array, dtype=float).tolist()
    return case | {"radial_range": None, "centre": None} | {key: as_list(values) for key, values in arrays.items()}


def unit_of(case):
    """pyFAI's unit of a case, with the orientation of the sample if it has one."""
    sample = case.get("more", {})
    if "sample-orientation" not in sample:
        return case["unit"]
    angles = [math.radians(sample[name]) for name in ("incident-angle", "tilt-angle")]
    return get_unit_fiber(case["unit"], *angles, sample["sample-orientation"])


def an_unweighted_case(number):
    """A case whose corrected intensities count alike, with a flat field that makes a difference."""
    case = a_case(number + number // 4 + 1)
    return case | {"number": number, "flat": True, "split": SPLITS[number // 4 % 2], "more": {"mean": "unweighted"}}


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
    for unit in (unit_of(case), "2th_rad", "chi_rad"):
        ai.center_array(shape, unit=unit)
    ai.solidAngleArray(shape)
    single = ai._cached_array.pop("cos_incidence")
    ai.solid_angle_in_double = numpy.fromfunction(ai.diffSolidAngle, shape, dtype=float)
    ai._cached_array["cos_incidence"] = single
    if case["polarization"] is not None:
        ai.polarization(shape, case["polarization"])


def a_radial_range(ai, case):
    """Limits that most of the pixels in the sector lie between."""
    shape = tuple(case["shape"])
    low, high = case["azimuth_range"] or (-180, 180)
    inside = (numpy.degrees(ai.center_array(shape, unit="chi_rad")) - low) % 360 <= high - low
    # Percentages that no pixel is at: its bin would be one of rounding.
    return numpy.percentile(ai.center_array(shape, unit=unit_of(case))[inside], [15.1234, 80.4321]).tolist()


def integrate(case, folder):
    """The case as it is sent, with pyFAI's axis, intensity, standard error, and the weight of each bin."""
    path = folder / f"{case['number']}.poni"
    path.write_text(case["poni"])
    ai = pyFAI.load(str(path))
    prime(ai, case)
    case["radial_range"] = a_radial_range(ai, case) if case["radial_range"] else None
    npt, radial_range, own = widened(case)
    settings = {
        "npt": npt,
        "unit": unit_of(case),
        "method": (case["split"], "csr", "cython"),
        "radial_range": radial_range,
        "mask": mask(case, ai.detector),
        "correctSolidAngle": case["solid_angle"],
        "polarization_factor": case["polarization"],
        "error_model": "poisson",
    }
    if case.get("more", {}).get("mean") == "unweighted":
        settings["method"] = IntegrationMethod.select_one_available(settings["method"], dim=1).unweighted
    if case["dark"]:
        settings["dark"] = dark(case)
    if case["flat"]:
        settings["flat"] = flat(case)
    if case["marks"] == [2**32 - 1]:
        settings |= {"dummy": 2**32 - 1, "delta_dummy": 1}
    if "error_model" in case:
        return case | robust(ai, case, settings, own)
    pixels = image(case)
    if "more" in case:
        settings |= corrections.keywords(ai, case, settings)
        pixels = corrections.pixels(case, pixels)
    results = [
        ai.integrate1d_ng(pixels, azimuth_range=sector, **settings)
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
    as_list = lambda array: numpy.asarray(array, dtype=float)[..., own].tolist()
    centre = None if isinstance(ai.detector, NexusDetector) else beam_centre(ai)
    if case["split"] == "full" and not isinstance(ai.detector, NexusDetector) and len(pixels.ravel()) < 2**21:
        found["exact"] = exact(ai, case, settings, pixels if "more" in case else measured(ai, case))
    return case | {"centre": centre} | {key: as_list(values) for key, values in found.items()}


def exact(ai, case, settings, pixels):
    """Intensity and standard error with shares in double precision: pyFAI sums a pixel's areas in single."""
    in_double()
    ai._cached_array["solid_angle#3.0"] = ai.solid_angle_in_double
    sums = numpy.zeros((3, case["npt"]))
    for sector in sectors(case["azimuth_range"]):
        ai.integrate1d_ng(pixels, azimuth_range=sector, **settings)
        (theirs,) = (e.engine for method, e in ai.engines.items() if getattr(method, "impl_lower", "") == "cython")
        python = settings | {"method": ("full", "csr", "python")}
        ai.integrate1d_ng(pixels, azimuth_range=sector, **python)
        _, indices, indptr = theirs.lut
        the_engine(ai).set_matrix(shares(theirs, indices, indptr), indices, indptr)
        found = ai.integrate1d_ng(pixels, azimuth_range=sector, **python)
        sums += [found.sum_signal, found.sum_variance, found.sum_normalization]
    signal, variance, norm = sums
    weighted = norm != 0
    norm[~weighted] = 1
    return numpy.array([signal / norm, numpy.sqrt(variance) / norm]) * weighted


def shares(engine, indices, indptr):
    """The share of each entry's pixel in its bin: the area that the outline of its corners has there."""
    bins = numpy.repeat(numpy.arange(len(indptr) - 1), numpy.diff(indptr))
    areas = numpy.zeros(len(indices))
    for start in range(0, len(indices), 500_000):
        part = slice(start, start + 500_000)
        corners = numpy.asarray(engine.pos).reshape(-1, 4, 2)[indices[part]].astype(float)
        x = (corners[:, :, 0] - engine.pos0_min) / engine.delta - bins[part, None]
        # Azimuths from that of the first corner, across the seam too.
        y = (corners[:, :, 1] - corners[:, :1, 1] + numpy.pi) % (2 * numpy.pi) - numpy.pi
        for one in range(4):
            two = (one + 1) % 4
            run = x[:, two] - x[:, one]
            slope = numpy.where(run == 0, 0, y[:, two] - y[:, one]) / numpy.where(run == 0, 1, run)
            ends = [numpy.clip(x[:, corner], 0, 1) for corner in (one, two)]
            heights = [y[:, one] + slope * (end - x[:, one]) for end in ends]
            areas[part] += (ends[1] - ends[0]) * (heights[0] + heights[1]) / 2
    whole = numpy.bincount(indices, areas)
    # A pixel within one bin counts there, whatever its area.
    counts = numpy.bincount(indices)
    return numpy.where(counts[indices] == 1, 1, areas / whole[indices])


def widened(case):
    """Bins, radial range, and which of the bins are the case's own.

    What lies outside of a radial range does not count, says pyFAI's documentation. Its histograms and full splitting
    keep to that; its sparse matrices without splitting, and with that by boxes, put into the first bin what lies up
    to a bin's width before it, and into the last what a pixel in it has beyond (bin numbers are rounded towards zero,
    and cut to those that there are). So these have a bin more at either end, of the same width, to take that."""
    npt, limits = case["npt"], case["radial_range"]
    if limits is None or case["split"] == "full":
        return npt, limits, slice(None)
    nudge = 1 + 2**-23  # by which pyFAI moves the upper limit up
    low, high = limits[0], limits[1] * (nudge if limits[1] > 0 else 1 / nudge)
    width = (high - low) / npt
    wide = high + width
    return npt + 2, [low - width, wide / (nudge if wide > 0 else 1 / nudge)], slice(1, -1)


def measured(ai, case):
    """The pixels, NaN where there is no measurement: what integrate1d_ng knows of a detector, the others do not."""
    pixels = image(case)
    dummy, _ = ai.detector.get_dummies(pixels) if not case["marks"] else (None, None)
    marks = case["marks"] + ([] if dummy is None else [dummy])
    return numpy.where(numpy.isin(pixels, marks), numpy.nan, pixels.astype(float))


# How far rounding of shares may move a quantile, in percent, and that of intensities the limit of what is an outlier.
QUANTILE_ERROR = {"no": 1e-6, "bbox": 1e-4, "full": 3e-3}
LIMIT_ERROR = 1e-7


class Double:
    """numpy, for a module that is to compute in double precision where it says single."""

    float32 = numpy.float64

    def __getattr__(self, name):
        return getattr(numpy, name)


def in_double():
    """Has pyFAI's python engine compute in double precision: in single it sums a bin of 7000 pixels to 3e-6, and a
    pixel's place among the others, or beyond a limit, turns on less."""
    if isinstance(CSR_engine.numpy, Double):
        return
    CSR_engine.numpy = Double()
    CSR_engine.mf_dtype = numpy.dtype([(name, "f8") for name in CSR_engine.mf_dtype.names])
    set_matrix = CSR_engine.CSRIntegrator.set_matrix

    def set_double(engine, data, indices, indptr):
        set_matrix(engine, numpy.asarray(data, dtype=float), indices, indptr)

    CSR_engine.CSRIntegrator.set_matrix = set_double


def clipped(ai, case, pixels, settings, by):
    """Clipping by pyFAI's python engine, which takes hybrid for poisson: so here azimuthal clipping, and the poisson
    errors of the pixels that it leaves."""
    is_hybrid = case["error_model"] == "hybrid"
    settings = settings | ({"error_model": "azimuthal"} if is_hybrid else {})
    threshold, rounds = case["sigma_clip"]
    found = ai.sigma_clip_ng(pixels, thres=threshold * by, max_iter=rounds, **settings)
    if is_hybrid:
        engine = the_engine(ai)
        left = engine.preprocessed.reshape(-1, 4)[:, 3] != 0
        with_errors(found, engine._csr2.astype(float).dot(numpy.fmax(pixels.ravel(), 1.0) * left))
    return found


def between(ai, case, pixels, settings, by):
    """The mean between two quantiles by pyFAI's python engine; as that can't do bins without pixels, these are kept
    from it."""
    percentile = [min(max(p + by, 0), 100) for p in case["median"]]
    axis = ai.integrate1d_ng(pixels, **settings).radial
    engine = the_engine(ai)
    kept = engine._csr, engine._csr2, engine.bin_centers
    filled = numpy.diff(engine._csr.indptr) > 0
    engine._csr, engine._csr2, engine.bin_centers = (whole[filled] for whole in kept)
    found = ai.medfilt1d_ng(pixels, percentile=percentile, **settings)
    engine._csr, engine._csr2, engine.bin_centers = kept

    def whole(values):
        array = numpy.zeros(len(axis))
        array[filled] = values
        return array

    names = {"intensity": "intensity", "sem": "sem", "std": "std", "count": "count", "norm": "sum_normalization"}
    arrays = {name: whole(getattr(found, theirs)) for name, theirs in names.items()}
    return types.SimpleNamespace(radial=axis, sum_normalization=arrays.pop("norm"), **arrays)


def azimuthal(ai, found):
    """The spread within each bin. pyFAI's python engine takes a split pixel's distance from a mean of its bins' means."""
    engine = the_engine(ai)
    signal, _, norm, _ = engine.preprocessed.reshape(-1, 4).astype(float).T
    squares = engine._csr2.astype(float)
    mean = numpy.nan_to_num(found.sum_signal / found.sum_normalization)
    spread = squares.dot(signal**2) - 2 * mean * squares.dot(signal * norm) + mean**2 * squares.dot(norm**2)
    with_errors(found, numpy.maximum(spread, 0))


def the_engine(ai):
    (engine,) = (engine.engine for method, engine in ai.engines.items() if getattr(method, "impl_lower", "") == "python")
    return engine


def with_errors(found, variance):
    weighted = found.sum_normalization != 0
    norm, norm_sq = (numpy.where(weighted, array, 1) for array in (found.sum_normalization, found.sum_normalization2))
    found._set_sem(numpy.sqrt(variance) / norm * weighted)
    found._set_std(numpy.sqrt(variance / norm_sq) * weighted)


def robust(ai, case, settings, own):
    """What pyFAI's python engine makes of a case that is averaged in another way."""
    settings |= {"method": (case["split"], "csr", "python"), "error_model": case["error_model"]}
    settings["azimuth_range"] = case["azimuth_range"]
    if case["error_model"] == "variance":
        settings["variance"] = variance(case)
    ai._cached_array["solid_angle#3.0"] = ai.solid_angle_in_double
    pixels = measured(ai, case)
    if "median" in case:
        # pyFAI sums weights in single precision: where that puts a quantile on the next pixel, either will do.
        error = QUANTILE_ERROR[case["split"]]
        runs = [between(ai, case, pixels, settings, by) for by in (0, -error, error)]
    elif "sigma_clip" in case:
        runs = [clipped(ai, case, pixels, settings, by) for by in (1, 1 - LIMIT_ERROR, 1 + LIMIT_ERROR)]
    else:
        runs = [ai.integrate1d_ng(pixels, **settings)]
    found = runs[0]
    if case["error_model"] == "azimuthal" and case["split"] != "no":
        azimuthal(ai, found)
    as_list = lambda array: numpy.asarray(array, dtype=float)[own].tolist()
    low, high = (
        [as_list(extreme([getattr(run, name) for run in runs], axis=0)) for name in ("intensity", "sem", "std")]
        for extreme in (numpy.min, numpy.max)
    )
    weight = found.count * (found.sum_normalization != 0)
    centre = None if isinstance(ai.detector, NexusDetector) else beam_centre(ai)
    return {
        "centre": centre,
        "axis": as_list(found.radial),
        "intensity": as_list(found.intensity),
        "sem": as_list(found.sem),
        "std": as_list(found.std),
        "weight": as_list(weight),
        "low": low,
        "high": high,
    }


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
    elif kind == "corrections":
        yield from (a_corrected_case(number, folder) for number in range(first, stop))
    elif kind == "robust":
        in_double()
        yield from map(a_robust_case, range(first, stop))
    elif kind == "units":
        yield from (a_unit_case(number, sys.argv[5:]) for number in range(first, stop))
    elif kind == "fiber":
        yield from map(a_fiber_case, range(first, stop))
    elif kind == "unweighted":
        yield from map(an_unweighted_case, range(first, stop))
    elif kind == "golden":
        # Cases with few bins take little room in a file.
        small = (case for case in map(a_case, range(10_000)) if case["npt"] < 64)
        yield from itertools.islice(small, first, stop)
    else:
        yield from map(a_case, range(first, stop))


def main():
    kind, first, stop, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
    for case in cases(kind, first, stop, folder):
        found = integrate_fiber(case, folder) if kind == "fiber" else integrate(case, folder)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
