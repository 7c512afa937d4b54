"""Corrections, masks and units of random cases, under the names of a recipe and as pyFAI takes them."""
import math
import pathlib
import random

import dead_time
import numpy
from pixels import image
from pyFAI.containers import PolarizationDescription

TABLE = pathlib.Path(__file__).parents[3] / "crates/geometry/src/sensor/attenuation.tsv"
DENSITIES = {"Si": 2.329, "Ge": 5.323, "GaAs": 5.3176, "CdTe": 5.85, "Gd2O2S": 7.32, "Se": 4.26, "CZT": 5.75}


def settings(number, case, folder):
    """What a recipe says besides the case's own keys. Images are written into the folder."""
    rng = random.Random(f"corrections {number}")
    random_image = numpy.random.default_rng(number)
    rows, columns = case["shape"]
    some = {}
    if rng.random() < 0.5:
        some["sensor"] = f"{rng.choice(list(DENSITIES))},{rng.choice([50, 320, 750])}um"
    if case["polarization"] is not None:
        some["polarization-offset"] = rng.uniform(-90, 90)

    def save(name, image):
        path = folder / f"{number}-{name}.npy"
        numpy.save(path, image)
        return str(path)

    if rng.random() < 0.5:
        # A stack of three, and one more: each image counts once.
        stack = random_image.uniform(0, 3, (3, rows, columns)).astype("float32")
        one = random_image.uniform(0, 3, (rows, columns)).astype("float32")
        one[: rows // 9] = numpy.nan
        some["dark"] = [save("stack", stack), save("one", one)]
    if rng.random() < 0.5:
        flat = random_image.uniform(0.5, 1.5, (2, rows, columns))
        flat[:, rows // 2, : columns // 2] = 0
        some["flat"] = save("flat", flat)
        some["flat-mode"] = rng.choice(["divide", "multiply"])
    if rng.random() < 0.5:
        some["mask-inverted"] = save("good", (random_image.uniform(size=(rows, columns)) > 0.1).astype("uint8"))
    row, column = (lambda: rng.uniform(0, rows)), (lambda: rng.uniform(0, columns))
    regions = {
        "circle": lambda: [row(), column(), rng.uniform(0, min(rows, columns) / 3)],
        "rectangle": lambda: [row(), column(), row(), column()],
        "polygon": lambda: [row(), column(), row(), column(), row(), column(), row(), column()],
        "sector": lambda: [start := rng.uniform(-300, 300), start + rng.uniform(1, 40)],
        "outside-circle": lambda: [rows / 2, columns / 2, max(rows, columns) * 0.6],
    }
    words = rng.sample(list(regions), rng.randrange(3))
    if words:
        some["mask-region"] = [f"{word}:{','.join(repr(number) for number in regions[word]())}" for word in words]
    if rng.random() < 0.5:
        some["valid-max"] = case["top"] * rng.uniform(0.7, 0.95)
    return some


def keywords(ai, case, own):
    """The same for integrate1d_ng, whose own keywords are given."""
    some, shape = case["more"], tuple(case["shape"])
    found = {}
    if "polarization-offset" in some:
        description = PolarizationDescription(case["polarization"], math.radians(some["polarization-offset"]))
        found["polarization_factor"] = description
    if "sensor" in some:
        material, thickness = some["sensor"].split(",")
        depth = attenuation(material, ai.wavelength) * float(thickness.removesuffix("um")) * 1e-6
        found["absorption"] = ai.calc_transmission(math.exp(-depth), shape)
    if "dark" in some:
        found["dark"] = numpy.concatenate([numpy.load(path).reshape(-1, *shape) for path in some["dark"]]).mean(axis=0)
    if "flat" in some:
        flat = numpy.load(some["flat"]).mean(axis=0)
        with numpy.errstate(divide="ignore"):
            found["flat"] = 1 / flat if some["flat-mode"] == "multiply" else flat
    if "dead-time" in some:
        found |= {"error_model": "variance", "variance": dead_time.variances(case, image(case).astype(float))}
    mask = own["mask"].astype(bool)
    if "mask-inverted" in some:
        mask |= numpy.load(some["mask-inverted"]) == 0
    for region in some.get("mask-region", []):
        word, numbers = region.split(":")
        within = inside(word.removeprefix("outside-"), [float(number) for number in numbers.split(",")], ai, shape)
        mask |= ~within if word.startswith("outside-") else within
    return found | {"mask": mask.astype(numpy.int8)}


def pixels(case, image):
    """The frame, NaN where its values are no measurement."""
    invalid = numpy.isin(image, case["marks"]) | (image > case["more"].get("valid-max", numpy.inf))
    valid = numpy.where(invalid, numpy.nan, image.astype(float))
    return dead_time.corrected(case, valid) if "dead-time" in case["more"] else valid


def attenuation(material, wavelength):
    """1/m, by interpolation of logarithms."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()]
    energies, masses = zip(*[(float(energy), float(mass)) for name, energy, mass in rows if name == material])
    energy = 12.398419843320026e-10 / wavelength
    return 100 * DENSITIES[material] * math.exp(numpy.interp(math.log(energy), numpy.log(energies), numpy.log(masses)))


def inside(word, numbers, ai, shape):
    row, column = (index + 0.5 for index in numpy.mgrid[: shape[0], : shape[1]])
    if word == "circle":
        return (row - numbers[0]) ** 2 + (column - numbers[1]) ** 2 <= numbers[2] ** 2
    if word == "rectangle":
        (top, bottom), (left, right) = sorted(numbers[::2]), sorted(numbers[1::2])
        return (row >= top) & (row < bottom) & (column >= left) & (column < right)
    if word == "sector":
        chi = numpy.degrees(ai.center_array(shape, unit="chi_rad", scale=False))
        return (chi - numbers[0]) % 360 <= numbers[1] - numbers[0]
    within = numpy.zeros(shape, bool)
    points = list(zip(numbers[::2], numbers[1::2]))
    for (y1, x1), (y2, x2) in zip(points, points[1:] + points[:1]):
        crosses = (y1 > row) != (y2 > row)
        within ^= crosses & (column < x1 + (row - y1) / (y2 - y1) * (x2 - x1))
    return within
