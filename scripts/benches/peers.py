#!/usr/bin/env python3
"""What others do with the frames of a sample dataset. Prints frames a second, a line a repeat.

Usage: peers.py KIND DATASET REPEATS, with OMP_NUM_THREADS in the environment; KIND is one of those at the end. What is done
once, such as the sparse matrix, is not counted. 0 where bslz4_to_sparse does not take such pixels, or pyopencl is not there.
"""
import ctypes
import glob
import importlib.util
import logging
import os
import sys
import time

logging.disable(logging.CRITICAL)
import fabio  # noqa: E402
import h5py  # noqa: E402
import hdf5plugin  # noqa: E402
import numpy  # noqa: E402
import pyFAI  # noqa: E402

kind, dataset, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])
NPT, UNIT = 1000, "q_nm^-1"
METHOD = ("bbox", "csr", "cython")
UNSPLIT = ("no", "csr", "cython")


def geometry():
    found = pyFAI.load(glob.glob(f"{dataset}/*.poni")[0])
    # Set once, and not given to each call, which would then look whether it has changed.
    found.detector.mask = found.detector.mask.astype(bool) | fabio.open(f"{dataset}/mask.edf").data.astype(bool)
    return found


def integrator(name, method=METHOD, errors="poisson", **settings):
    """One of pyFAI's methods, by its name there."""

    def prepare(data):
        integrate = getattr(geometry(), name)
        return lambda index: integrate(data[index], NPT, unit=UNIT, error_model=errors, method=method, **settings)

    return prepare


def spots(data):
    """Clipping, and the pixels above its mean by five standard deviations."""
    clip = integrator("sigma_clip_ng", UNSPLIT, thres=5, max_iter=5)(data)
    found = geometry()
    radius = found.array_from_unit(data.shape[1:], "center", UNIT)
    usable, solid_angle = ~found.detector.mask.astype(bool), found.solidAngleArray(data.shape[1:])

    def run(index):
        frame, result = data[index], clip(index)
        limit = numpy.interp(radius, result.radial, result.intensity + 5 * result.std)
        row, col = numpy.nonzero((frame > limit * solid_angle) & usable)
        return row, col, frame[row, col]

    return run


def limited(limit):
    """Pixels above a limit of counts are left out."""

    def prepare(data):
        found = geometry()
        settings = {"unit": UNIT, "error_model": "poisson", "method": METHOD}
        return lambda index: found.integrate1d_ng(numpy.where((frame := data[index]) > limit, numpy.nan, frame), NPT, **settings)

    return prepare


def live(data):
    """Counts per live time, and their variances, of a dead time of 120 ns in the 0.1 s of a frame."""
    found = geometry()
    settings = {"unit": UNIT, "error_model": "variance", "method": METHOD}

    def run(index):
        frame = data[index]
        live_time = 1 - 1.2e-6 * frame
        counts = frame / live_time
        return found.integrate1d_ng(counts, NPT, variance=numpy.fmax(counts / live_time, 1), **settings)

    return run


def opencl(data):
    """pyFAI's engine on the first device; it would take the one in cython without pyopencl."""
    if importlib.util.find_spec("pyopencl") is None:
        return None
    return integrator("integrate1d_ng", ("bbox", "csr", "opencl"))(data)


def opencl_silx(data):
    """The same with silx's decoder: a chunk goes to the device as it is stored, as in pyFAI's tutorials."""
    if importlib.util.find_spec("pyopencl") is None:
        return None
    from pyFAI.containers import ErrorModel
    from silx.opencl.codec.bitshuffle_lz4 import BitshuffleLz4

    found = geometry()
    expected = found.integrate1d_ng(data[0], NPT, unit=UNIT, error_model="poisson", method=("bbox", "csr", "opencl"))
    engine = next(held.engine for held in found.engines.values() if hasattr(held.engine, "ctx"))
    longest = max(data.id.get_chunk_info(index).size for index in range(data.id.get_num_chunks()))
    decoder = BitshuffleLz4(longest, data[0].size, data.dtype, ctx=engine.ctx)
    dummy, delta = found.detector.get_dummies(data[0])
    settings = {"solidangle": found.solidAngleArray(data.shape[1:]), "solidangle_checksum": "once", "dummy": dummy}
    settings |= {"delta_dummy": delta, "error_model": ErrorModel.POISSON}

    def integrate(index):
        frame = decoder(data.id.read_direct_chunk((index, 0, 0))[1])
        # The engine has a queue of its own, which does not wait for this one.
        decoder.queue.finish()
        return engine.integrate_ng(frame, **settings)

    got = integrate(0)
    close = numpy.allclose(got.intensity, expected.intensity, rtol=1e-4)
    # It has returned zeros for frames of an odd number of pixels.
    return integrate if close else None


def sparse(data):
    """A decoder with one bare sum: the matrix is pyFAI's, by pixel."""
    from bslz4_to_sparse import chunk2sparseCSC
    from scipy.sparse import csr_matrix

    if data.dtype not in (numpy.uint8, numpy.uint16, numpy.uint32):
        return None
    found = geometry()
    found.integrate1d_ng(data[0], NPT, unit=UNIT, method=METHOD)
    engine = next(iter(found.engines.values())).engine
    csr = csr_matrix((engine.data, engine.indices, engine.indptr), shape=(engine.bins, data[0].size))
    active = (1 - found.detector.mask).astype(numpy.uint8)
    decoder = chunk2sparseCSC(active, csr.tocsc(), data.dtype)
    # No pixel is kept for its own sake.
    beyond = int(numpy.iinfo(data.dtype).max) if data.dtype != numpy.uint32 else 2**31 - 1

    def integrate(index):
        return decoder(data.id.read_direct_chunk((index, 0, 0))[1], beyond)

    return integrate


def decode(data):
    """C's bitshuffle and LZ4, as hdf5plugin builds them, on the chunk's bytes."""
    library = os.path.join(hdf5plugin.PLUGIN_PATH, "libh5bshuf.so")
    decompress = ctypes.CDLL(library).bshuf_decompress_lz4
    decompress.restype = ctypes.c_int64
    decompress.argtypes = [ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_size_t] * 3
    frame = numpy.empty(data.shape[1:], data.dtype)

    def run(index):
        chunk = numpy.frombuffer(data.id.read_direct_chunk((index, 0, 0))[1], numpy.uint8)
        block = int.from_bytes(chunk[8:12].tobytes(), "big") // data.dtype.itemsize
        read = decompress(chunk[12:].ctypes.data, frame.ctypes.data, frame.size, data.dtype.itemsize, block)
        assert read == chunk.size - 12, (read, chunk.size)
        return frame

    # It is the decoder of this data, or the bound means nothing.
    assert numpy.array_equal(run(0), data[0])
    return run


KINDS = {
    "pyfai": integrator("integrate1d_ng"),
    "cake": integrator("integrate2d_ng", npt_azim=360),
    "opencl": opencl,
    "opencl-silx": opencl_silx,
    "azimuthal": integrator("integrate1d_ng", errors="azimuthal"),
    "clip": integrator("sigma_clip_ng", UNSPLIT, thres=5, max_iter=5),
    "clip-azimuthal": integrator("sigma_clip_ng", UNSPLIT, "azimuthal", thres=5, max_iter=5),
    "spots": spots,
    "limit": limited(60000),
    "low-limit": limited(6),
    "dummy": integrator("integrate1d_ng", dummy=0, delta_dummy=0.5),
    "dead-time": live,
    "median": integrator("medfilt1d_ng", percentile=50),
    "sparse": sparse,
    "decode": decode,
}

# Beside CPU time of azpipe, and of one thread.
clock = time.process_time if kind == "cake" or os.environ.get("BENCH_CPU_TIME") else time.perf_counter

with h5py.File(glob.glob(f"{dataset}/RAW_DATA/*/*/scan0001/*_0000.h5")[0], "r", locking=False) as file:
    data = file["/entry_0000/measurement/data"]
    work = KINDS[kind](data)
    if work is None:
        print(0)
        sys.exit()
    work(0)
    start = clock()
    work(1)
    # Some two seconds a repeat, and no frame twice.
    frames = max(2, min(len(data), int(2 / (clock() - start))))
    for _ in range(repeats):
        start = clock()
        for index in range(frames):
            work(index)
        print(frames / (clock() - start))
