"""Integrates a case by pyFAI."""
import math

import corrections
import numpy
import pyFAI
from double_precision import exact
from pixels import dark, flat, image, mask, measured
from pyFAI.detectors import NexusDetector
from pyFAI.method_registry import IntegrationMethod
from pyfai_geometry import a_radial_range, beam_centre, prime, sectors, unit_of
from robust import robust


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
    # pyFAI corrects parallax of corners in single precision.
    is_exact = not isinstance(ai.detector, NexusDetector) and ai.parallax is None
    if case["split"] == "full" and is_exact and len(pixels.ravel()) < 2**21:
        found["exact"] = exact(ai, case, settings, pixels if "more" in case else measured(ai, case))
    return case | {"centre": centre} | {key: as_list(values) for key, values in found.items()}


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
