//! Radial quantities: what a pattern's radial axis shows, such as the scattering vector q, and its
//! formula.

use std::f64::consts::{PI, TAU};
use std::fmt;

use crate::SampleFrame;
use crate::points::LabPoints;
use crate::rotation::LabPoint;

/// A quantity that each point of a detector has, by which pixels are sorted into radial bins.
/// [`Unit`](crate::Unit) lists the units in which it can be given.
pub struct RadialQuantity {
    /// Name, with which the names of its units begin: that of the axis in output files.
    pub(crate) name: &'static str,
    /// Formula: writes the positions of points in the base unit, the unit whose scale is 1.
    pub(crate) positions: fn(&LabPoints, &Experiment, &mut [f64]),
    /// True if the formula depends on the wavelength.
    pub(crate) needs_wavelength: bool,
    /// True if the formula depends on the orientation of the sample.
    pub(crate) depends_on_sample: bool,
    /// True if positions diverge at the beam, so that the pixel at the beam has none.
    pub(crate) diverges: bool,
    /// True if positions are never negative, so that an axis does not begin below zero.
    pub(crate) is_positive: bool,
    /// True if the corners of pixels are rounded to single precision before the formula is applied,
    /// as pyFAI does where it has no compiled function for a quantity.
    pub(crate) rounds_corners: bool,
}

/// Everything that positions depend on beside the point in the laboratory.
pub(crate) struct Experiment {
    /// Wavelength in metres; NaN if it is not known.
    pub(crate) wavelength: f64,
    /// Orientation of the sample.
    pub(crate) sample: SampleFrame,
}

/// Distance from the beam in the laboratory. Base unit: m.
pub static RADIUS: RadialQuantity = RadialQuantity {
    name: "r",
    positions: |points, _, out| points.map_into(out, LabPoint::radius),
    needs_wavelength: false,
    depends_on_sample: false,
    diverges: false,
    is_positive: true,
    rounds_corners: false,
};

/// Scattering angle 2θ. Base unit: rad.
pub static TWO_THETA: RadialQuantity = RadialQuantity {
    name: "2th",
    positions: |points, _, out| points.map_into(out, LabPoint::two_theta),
    needs_wavelength: false,
    depends_on_sample: false,
    diverges: false,
    is_positive: true,
    rounds_corners: false,
};

/// Length of the scattering vector, q = 4π sin(θ) / λ. Base unit: nm^-1.
pub static Q: RadialQuantity = RadialQuantity {
    name: "q",
    positions: |points, experiment, out| {
        let scale = scattering_vector_scale(experiment);
        points.map_into(out, |point| scale * point.sin_theta());
    },
    needs_wavelength: true,
    depends_on_sample: false,
    diverges: false,
    is_positive: true,
    rounds_corners: false,
};

/// Squared reciprocal spacing, (2 sin(θ) / λ)². Base unit: nm^-2.
pub static RECIPROCAL_SPACING_SQUARED: RadialQuantity = RadialQuantity {
    name: "d*2",
    positions: |points, experiment, out| {
        let scale = 2.0e-9 / experiment.wavelength;
        points.map_into(out, |point| (scale * point.sin_theta()).powi(2));
    },
    needs_wavelength: true,
    depends_on_sample: false,
    diverges: false,
    is_positive: true,
    rounds_corners: true,
};

/// Spacing d = λ / (2 sin(θ)), which decreases outward. Base unit: m.
pub static SPACING: RadialQuantity = RadialQuantity {
    name: "d",
    positions: |points, experiment, out| {
        let scale = scattering_vector_scale(experiment);
        points.map_into(out, |point| TAU / (1e9 * (scale * point.sin_theta())));
    },
    needs_wavelength: true,
    depends_on_sample: false,
    diverges: true,
    is_positive: true,
    rounds_corners: true,
};

/// Component of the scattering vector in the plane of the sample's surface, negative where its
/// component across the beam is. Base unit: nm^-1.
pub static Q_IN_PLANE: RadialQuantity = RadialQuantity {
    name: "qip",
    positions: |points, experiment, out| {
        points.map_into(out, |point| {
            let [beam, horizontal, _] = scattering_vector_in_sample(point, experiment);
            let length = (beam.powi(2) + horizontal.powi(2)).sqrt();
            if horizontal > 0.0 { length } else { -length }
        });
    },
    needs_wavelength: true,
    depends_on_sample: true,
    diverges: false,
    is_positive: false,
    rounds_corners: true,
};

/// Component of the scattering vector along the normal of the sample's surface, negative below the
/// horizon. Base unit: nm^-1.
pub static Q_OUT_OF_PLANE: RadialQuantity = RadialQuantity {
    name: "qoop",
    positions: |points, experiment, out| {
        points.map_into(out, |point| scattering_vector_in_sample(point, experiment)[2]);
    },
    needs_wavelength: true,
    depends_on_sample: true,
    diverges: false,
    is_positive: false,
    rounds_corners: true,
};

/// Returns the scattering vector in the sample's frame: along the beam and across it in the
/// surface, and along the normal.
fn scattering_vector_in_sample(point: LabPoint, experiment: &Experiment) -> [f64; 3] {
    experiment.sample.scattering_vector([point.y, point.x, point.z], experiment.wavelength)
}

/// Returns 4π / λ per nanometre, by which sin(θ) is multiplied.
fn scattering_vector_scale(experiment: &Experiment) -> f64 {
    4.0e-9 * PI / experiment.wavelength
}

impl PartialEq for RadialQuantity {
    /// Quantities are equal if their names are: functions can't be compared.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RadialQuantity {}

impl fmt::Debug for RadialQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RadialQuantity({})", self.name)
    }
}
