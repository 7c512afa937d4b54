"""What a pixel holds. image.rs has the same few lines."""
import numpy


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


def measured(ai, case):
    """The pixels, NaN where there is no measurement: what integrate1d_ng knows of a detector, the others do not."""
    pixels = image(case)
    dummy, _ = ai.detector.get_dummies(pixels) if not case["marks"] else (None, None)
    marks = case["marks"] + ([] if dummy is None else [dummy])
    return numpy.where(numpy.isin(pixels, marks), numpy.nan, pixels.astype(float))
