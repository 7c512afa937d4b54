"""Averages other than the weighted mean of all pixels, by pyFAI's python engine."""
import types

import dead_time
import numpy
from double_precision import the_engine
from pixels import measured, variance
from pyFAI.detectors import NexusDetector
from pyfai_geometry import beam_centre

# How far rounding of shares may move a quantile, in percent, and that of intensities the limit of what is an outlier.
QUANTILE_ERROR = {"no": 1e-6, "bbox": 1e-4, "full": 3e-3}
LIMIT_ERROR = 1e-7


def robust(ai, case, settings, own):
    """What pyFAI's python engine makes of a case that is averaged in another way."""
    settings |= {"method": (case["split"], "csr", "python"), "error_model": case["error_model"]}
    settings["azimuth_range"] = case["azimuth_range"]
    if case["error_model"] == "variance":
        settings["variance"] = variance(case)
    ai._cached_array["solid_angle#3.0"] = ai.solid_angle_in_double
    pixels = measured(ai, case)
    if "dead-time" in case.get("more", {}):
        if case["error_model"] == "poisson":
            settings |= {"error_model": "variance", "variance": dead_time.variances(case, pixels)}
        pixels = dead_time.corrected(case, pixels)
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
    squares = engine._csr2
    mean = numpy.nan_to_num(found.sum_signal / found.sum_normalization)
    # Entry by entry: azpipe's own sums of squares are another way.
    bins = numpy.repeat(numpy.arange(len(mean)), numpy.diff(squares.indptr))
    deviation = signal[squares.indices] - mean[bins] * norm[squares.indices]
    spread = numpy.bincount(bins, squares.data.astype(float) * deviation**2, minlength=len(mean))
    with_errors(found, spread)


def with_errors(found, variance):
    weighted = found.sum_normalization != 0
    norm, norm_sq = (numpy.where(weighted, array, 1) for array in (found.sum_normalization, found.sum_normalization2))
    found._set_sem(numpy.sqrt(variance) / norm * weighted)
    found._set_std(numpy.sqrt(variance / norm_sq) * weighted)
