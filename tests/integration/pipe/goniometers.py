"""Writes goniometer files with pyFAI into a directory: the argument is the directory, and a PONI file."""

import logging
import sys

logging.disable(logging.CRITICAL)
import pyFAI  # noqa: E402
from pyFAI.goniometer import ExtendedTransformation, GeometryTransformation, Goniometer  # noqa: E402

directory, poni = sys.argv[1:]
ai = pyFAI.load(poni)
names = ["dist", "poni1", "poni2", "rot1", "rot2", "scale"]
param = [ai.dist, ai.poni1, ai.poni2, ai.rot1, ai.rot2, 1e-3]
expressions = {
    "dist_expr": "dist * (1 + samz / 1000.) + 1e-4 * abs(turn)",
    "poni1_expr": "poni1 - 1e-5 * samz**2",
    "poni2_expr": "poni2",
    "rot1_expr": "rot1 + arctan2(scale * turn * pi, 3)",
    "rot2_expr": "rot2 - sin(turn * half * pi / 180)**2 / 50",
    "rot3_expr": "0.0",
}
places = {"param_names": names, "pos_names": ["turn", "samz"]}
simple = GeometryTransformation(**expressions, **places, constants={"half": 0.5})
Goniometer(param, simple, ai.detector, ai.wavelength).save(f"{directory}/simple.json")
energy = ExtendedTransformation(
    **expressions,
    wavelength_expr="hc / energy * 1e-10",
    param_names=[*names, "energy"],
    pos_names=places["pos_names"],
    constants={"half": 0.5},
)
Goniometer([*param, 37.1], energy, ai.detector).save(f"{directory}/extended.json")
print("{}")
