"""pyFAI's engines in double precision where they compute in single."""
import numpy
from pyFAI.engines import CSR_engine
from pyfai_geometry import sectors


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


def the_engine(ai):
    (engine,) = (engine.engine for method, engine in ai.engines.items() if getattr(method, "impl_lower", "") == "python")
    return engine


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
