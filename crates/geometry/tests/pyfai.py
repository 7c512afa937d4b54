"""Random experiments and where pyFAI puts their pixels, one JSON object a line.

Usage: pyfai.py SEED COUNT DIR UNIT... PONI files are written to DIR, for pyFAI to read them as a user would. Each
experiment has the next of the units.
"""
import json
import logging
import math
import pathlib
import random
import sys

import numpy

logging.disable(logging.CRITICAL)
from pyFAI.detectors import NexusDetector, detector_factory  # noqa: E402
from pyFAI.geometry import Geometry  # noqa: E402
from pyFAI.parallax import Parallax  # noqa: E402
from pyFAI.units import to_unit  # noqa: E402

# Between the 1024 angles of its table, pyFAI is wrong by up to 1e-7.
Parallax.SIZE = 1 << 14

NAMES = ["Pilatus100k", "pilatus_300kw", "Maxipix 5x1", "Mythen 1280", "Lambda 60k", "Jungfrau 500k", "Imxpad S70"]
SAMPLE = 60
MATERIALS = ["Si", "CdTe", "GaAs", "Gd2O2S", "Se", "CZT", "BaFBr0.85I0.15"]


def random_detector(rng, number):
    """Name and configuration; a plain grid in most cases."""
    orientation = number % 4 + 1
    if number % 5 == 0:
        name = rng.choice(NAMES)
        fixed = name.startswith(("Jungfrau", "Imxpad"))
        return name, {"orientation": 3 if fixed else orientation}
    shape = [rng.randint(1, 150), rng.randint(1, 150)]
    pixels = [10 ** rng.uniform(-5, -3), 10 ** rng.uniform(-5, -3)]
    return "Detector", {"pixel1": pixels[0], "pixel2": pixels[1], "max_shape": shape, "orientation": orientation}


def random_text(rng, number):
    """A PONI file: on the detector, off it, turned by anything."""
    name, config = random_detector(rng, number)
    detector = detector_factory(name, config)
    size = [side * pixel for side, pixel in zip(detector.shape, (detector.pixel1, detector.pixel2))]
    poni = [rng.uniform(-2, 3) * side for side in size]
    rotation = [rng.uniform(-1, 1) * rng.choice([0, 0.01, 1, 3]) for _ in range(3)]
    return "\n".join(
        [
            "# Nota: C-Order, 1 refers to the Y axis, 2 to the X axis",
            f"poni_version: {rng.choice([2, 2.1, 3])}",
            f"Detector: {name}",
            f"Detector_config: {json.dumps(config)}",
            f"Distance: {10 ** rng.uniform(-2, 1)}",
            f"Poni1: {poni[0]}",
            f"Poni2: {poni[1]}",
            *(f"Rot{axis + 1}: {angle}" for axis, angle in enumerate(rotation)),
            f"Wavelength: {10 ** rng.uniform(-11, -9)}",
            "Parallax: False\n",
        ]
    )


def with_parallax(text, rng):
    """The same PONI file with a sensor, by which parallax is corrected: at energies at which it matters.

    In the usual orientation: where it corrects parallax, pyFAI reverses the indices of corners in others twice.
    """
    sensor = {"material": rng.choice(MATERIALS)} | ({"thickness": 10 ** rng.uniform(-5, -2)} if rng.random() < 0.8 else {})
    lines = []
    for line in text.splitlines():
        key, _, value = line.partition(": ")
        if key == "Detector_config":
            value = json.dumps(json.loads(value) | {"sensor": sensor, "orientation": 3})
        lines.append(f"{key}: {value}")
    more = [f"Wavelength: {10 ** rng.uniform(-10.8, -10)}", "Parallax: True", "poni_version: 3\n"]
    return "\n".join(lines + more)


def bent_corners(shape, pixel, depth):
    """A detector that is no even grid; only sums and products, so that any language gets the same."""
    y, x = numpy.mgrid[: shape[0], : shape[1]].astype(float)
    corners = numpy.zeros((*shape, 4, 3), dtype=numpy.float32)
    for index, (dy, dx) in enumerate([(0, 0), (1, 0), (1, 1), (0, 1)]):
        v, u = y + dy, x + dx
        corners[..., index, 0] = depth * (u * u)
        corners[..., index, 1] = pixel * (v + 0.001 * (v * u))
        corners[..., index, 2] = pixel * (u + 0.002 * (v * v))
    return corners


def plain_label(unit):
    """The label of a unit without the marks of LaTeX."""
    label = to_unit(unit).label
    for mark, plain in [(r"\theta", "θ"), (r"\AA", "A"), ("^{o}", "°"), ("^{*2}", "*2"), ("$", ""), ("{", ""), ("}", "")]:
        label = label.replace(mark, plain)
    return label


def answers(geometry, shape, unit, rng):
    """Values of some pixels: indices, then what pyFAI has for them."""
    count = shape[0] * shape[1]
    pixels = sorted(rng.sample(range(count), min(SAMPLE, count)))
    geometry.reset()
    pick = lambda array: numpy.asarray(array, dtype=float).reshape(count, -1)[pixels].ravel().tolist()
    centers = geometry.center_array(shape, unit=unit)
    found = {"pixels": pixels, "centers": pick(centers)}
    chi = geometry.center_array(shape, unit="chi_rad", scale=False)
    found["chi"] = pick(chi)
    found["polarization"] = pick(geometry.polarization(shape, 0.9, 0.1))
    if geometry.detector.IS_FLAT:
        rows, columns = numpy.mgrid[: shape[0], : shape[1]].astype(float)
        found["solid_angle"] = pick(geometry.diffSolidAngle(rows, columns))
    else:
        found["solid_angle"] = pick(geometry.solidAngleArray(shape))
    found["absorbed"] = pick(geometry.calc_transmission(math.exp(-0.8), shape))
    if geometry.parallax is None:
        found["chi_deltas"] = pick(geometry.delta_array(shape, unit="chi_rad", scale=False))
    else:
        # pyFAI fails here with parallax.
        azimuths = geometry.corner_array(shape, unit="2th_rad", scale=False)[..., 1]
        distance = abs(azimuths.astype(float) - chi[..., None])
        found["chi_deltas"] = pick(numpy.minimum(distance, 2 * math.pi - distance).max(axis=-1))
    geometry.reset()
    found["deltas"] = pick(geometry.delta_array(shape, unit=unit, scale=True))
    found["corners"] = pick(geometry.corner_array(shape, unit=unit, scale=False))
    return found


def main():
    seed, count, folder, units = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:]
    rng = random.Random(seed)
    for number in range(count + count // 2):
        text = random_text(rng, number)
        if number >= count:
            text = with_parallax(text, rng)
        path = folder / f"{number}.poni"
        path.write_text(text)
        geometry = Geometry.sload(path)
        geometry.auto_gc = False
        case = {"poni": text}
        if number % 10 == 9 and number < count:
            shape, pixel = (20, 30), 1e-4
            case["depth"] = rng.choice([0.0, 1e-6])
            detector = NexusDetector()
            detector._pixel1 = detector._pixel2 = pixel
            detector.max_shape = detector.shape = shape
            detector.set_pixel_corners(bent_corners(shape, pixel, case["depth"]))
            geometry.detector = detector
        shape = geometry.detector.shape
        unit = units[number % len(units)]
        case |= {"shape": shape, "unit": unit, "label": plain_label(unit)}
        print(json.dumps(case | answers(geometry, shape, case["unit"], rng)))


if __name__ == "__main__":
    main()
