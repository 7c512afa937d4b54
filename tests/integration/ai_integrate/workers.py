"""Configurations as pyFAI's worker saves them, and what the worker makes of a frame.

usage: workers.py FOLDER

Writes frame.h5, mask.npy and NAME.json into FOLDER. Prints a line of JSON: for each the axes, intensity, error and count.
"""

import json
import logging
import pathlib
import sys

import h5py
import numpy

logging.disable(logging.CRITICAL)
from pyFAI.detectors import detector_factory  # noqa: E402
from pyFAI.integrator.azimuthal import AzimuthalIntegrator  # noqa: E402
from pyFAI.worker import Worker  # noqa: E402

folder = pathlib.Path(sys.argv[1])
detector = detector_factory("Pilatus100k")
place = {"dist": 0.11, "poni1": 0.021, "poni2": 0.061, "rot1": 0.12, "rot2": -0.2, "rot3": 0.3, "wavelength": 5e-11}
random = numpy.random.default_rng(5)
rows, columns = numpy.mgrid[: detector.shape[0], : detector.shape[1]]
frame = random.poisson(50 + 40 * numpy.sin(rows / 9) * numpy.cos(columns / 17)).astype("int32")
with h5py.File(folder / "frame.h5", "w") as file:
    file["data"] = frame[None]
mask = folder / "mask.npy"
numpy.save(mask, (random.uniform(size=frame.shape) < 0.02).astype("int8"))

# The worker's own arguments, and what is set on it afterwards.
CONFIGURATIONS = {
    "plain": ({"shapeOut": (1, 300), "unit": "q_nm^-1", "method": ("bbox", "csr", "cython")}, {"error_model": "poisson"}),
    "errorless": ({"shapeOut": (1, 200), "unit": "r_mm", "method": ("no", "csr", "cython")}, {}),
    "ranges": (
        {"shapeOut": (1, 250), "unit": "2th_deg", "method": ("bbox", "csr", "cython")},
        {"error_model": "poisson", "radial_range": (5, 40), "azimuth_range": (-60, 70), "polarization_factor": 0.95,
         "correct_solid_angle": False, "mask_file": str(mask)},
    ),
    "clipped": (
        {"shapeOut": (1, 150), "unit": "q_A^-1", "method": ("no", "csr", "cython"), "integrator_name": "sigma_clip_ng",
         "extra_options": {"thres": 4.0, "max_iter": 3}},
        {"error_model": "poisson"},
    ),
    "cake": ({"shapeOut": (12, 100), "unit": "q_nm^-1", "method": ("bbox", "csr", "cython")},
             {"error_model": "poisson", "azimuth_range": (-180, 180)}),
}

said = {}
for name, (arguments, settings) in CONFIGURATIONS.items():
    worker = Worker(AzimuthalIntegrator(detector=detector_factory("Pilatus100k"), **place), shapeIn=frame.shape, **arguments)
    for key, value in settings.items():
        setattr(worker, key, value)
    if "mask_file" in settings:
        worker.ai.detector.mask = numpy.load(mask)
    # An image that is set by hand has no name in what is saved.
    saved = worker.get_worker_config().as_dict() | {"mask_file": settings.get("mask_file")}
    (folder / f"{name}.json").write_text(json.dumps(saved))
    worker.output = "raw"
    found = worker.process(frame.copy())
    is_cake = arguments["shapeOut"][0] > 1
    sigma = found.sigma if settings.get("error_model") else None
    said[name] = {
        "radial": numpy.asarray(found.radial).tolist(),
        "chi": numpy.asarray(found.azimuthal).tolist() if is_cake else None,
        "intensity": numpy.asarray(found.intensity).ravel().tolist(),
        "sigma": None if sigma is None else numpy.asarray(sigma).ravel().tolist(),
        "count": numpy.asarray(found.count).ravel().tolist(),
    }
json.dump(said, sys.stdout)
