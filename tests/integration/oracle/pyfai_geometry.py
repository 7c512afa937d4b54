"""Where pixels are, to pyFAI."""
import math

import numpy
from pyFAI.units import get_unit_fiber


def unit_of(case):
    """pyFAI's unit of a case, with the orientation of the sample if it has one."""
    sample = case.get("more", {})
    if "sample-orientation" not in sample:
        return case["unit"]
    angles = [math.radians(sample[name]) for name in ("incident-angle", "tilt-angle")]
    return get_unit_fiber(case["unit"], *angles, sample["sample-orientation"])


def sectors(sector):
    """The azimuthal ranges to integrate and add up: pyFAI drops what lies beyond its seam at 180 deg."""
    if sector is None or sector[1] < 180:
        return [sector]
    return [[sector[0], 180], [-180, sector[1] - 360]]


def prime(ai, case):
    """Has pyFAI compute what belongs to the middle of pixels before it computes corners for d*2, after which it
    reverses the indices of a detector that is not of orientation 3 twice."""
    shape = tuple(case["shape"])
    for unit in (unit_of(case), "2th_rad", "chi_rad"):
        ai.center_array(shape, unit=unit)
    ai.solidAngleArray(shape)
    single = ai._cached_array.pop("cos_incidence")
    ai.solid_angle_in_double = numpy.fromfunction(ai.diffSolidAngle, shape, dtype=float)
    ai._cached_array["cos_incidence"] = single
    if case["polarization"] is not None:
        ai.polarization(shape, case["polarization"])


def a_radial_range(ai, case):
    """Limits that most of the pixels in the sector lie between."""
    shape = tuple(case["shape"])
    low, high = case["azimuth_range"] or (-180, 180)
    inside = (numpy.degrees(ai.center_array(shape, unit="chi_rad")) - low) % 360 <= high - low
    # Percentages that no pixel is at: its bin would be one of rounding.
    return numpy.percentile(ai.center_array(shape, unit=unit_of(case))[inside], [15.1234, 80.4321]).tolist()


def beam_centre(ai):
    """Where the beam meets the detector, as (row, column) of the image; null where it does not."""
    cos1, cos2 = math.cos(ai.rot1), math.cos(ai.rot2)
    if cos1 * cos2 <= 0:
        return None
    place = [ai.poni1 + ai.dist * math.tan(ai.rot2) / cos1, ai.poni2 - ai.dist * math.tan(ai.rot1)]
    index = [place[0] / ai.detector.pixel1, place[1] / ai.detector.pixel2]
    orientation = int(ai.detector.orientation)
    for axis, reversed_in in enumerate([(1, 2), (1, 4)]):
        if orientation in reversed_in:
            index[axis] = ai.detector.shape[axis] - index[axis]
    return index
