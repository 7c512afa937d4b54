"""Counts that are corrected for the dead time of pixels, from the formulas; pyFAI has no such correction."""
import numpy

# Pixels that were dead for a larger part of the exposure are masked.
MOST = 0.9


def dead_parts(case, counts):
    """The part of the exposure in which each pixel was dead."""
    return numpy.maximum(counts, 0) * case["more"]["dead-time"] / case["more"]["exposure-time"]


def corrected(case, pixels):
    """Counts per live time; NaN where there are none to trust."""
    dead = dead_parts(case, pixels)
    with numpy.errstate(divide="ignore"):
        return numpy.where(dead > MOST, numpy.nan, pixels / (1 - dead))


def variances(case, pixels):
    """Variances of corrected counts: the square of the standard deviation of the counts, per live time."""
    dead = dead_parts(case, pixels)
    return numpy.where(dead > MOST, 1, numpy.fmax(pixels / (1 - numpy.fmin(dead, MOST)) ** 2, 1))
