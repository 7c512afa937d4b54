"""Random integrations by pyFAI, one JSON object a line: the case, then what pyFAI makes of it.

Usage: pyfai.py random|robust|units|fiber|parallax|dead_time|unweighted|corrections|large|nexus|golden FIRST STOP DIR [UNIT...]
Cases FIRST to STOP - 1. PONI files, and the detector files that they name, are written to DIR. Cases of `units` have each
of the units in turn.

Images, masks, darks and flats are not sent: both sides make them from a hash of the pixel's index.
"""
import gc
import itertools
import json
import logging
import pathlib
import sys

import numpy

# Before pyFAI is imported: it warns of what it lacks.
logging.disable(logging.CRITICAL)
numpy.seterr(all="ignore")
from double_precision import in_double  # noqa: E402
from drawn_cases import (  # noqa: E402
    a_case,
    a_corrected_case,
    a_dead_time_case,
    a_detector_file,
    a_fiber_case,
    a_parallax_case,
    a_robust_case,
    a_unit_case,
    an_unweighted_case,
)
from integration import integrate, integrate_fiber  # noqa: E402
from pyFAI.parallax import Parallax  # noqa: E402

# Between the 1024 angles of its table, pyFAI is wrong by up to 1e-7 of the radial range, which is enough to put pixels
# into neighbouring bins.
Parallax.SIZE = 1 << 14

# What was imported lives as long as the process: pyFAI collects garbage in each integration, and would look at all of it.
gc.freeze()


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
    elif kind == "dead_time":
        in_double()
        yield from map(a_dead_time_case, range(first, stop))
    elif kind == "robust":
        in_double()
        yield from map(a_robust_case, range(first, stop))
    elif kind == "units":
        yield from (a_unit_case(number, sys.argv[5:]) for number in range(first, stop))
    elif kind == "fiber":
        yield from map(a_fiber_case, range(first, stop))
    elif kind == "parallax":
        yield from map(a_parallax_case, range(first, stop))
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
