//! [`Displacement`]: where the beam and the detector are, by the positions of rings.

use geometry::DetectorPlane;

use super::least_squares::NormalEquations;

/// Steps of Gauss and Newton's method. Rings move by far less than their radius, so that two suffice.
const STEPS: usize = 4;

/// The part of a ring in a sector, of which a position was fitted.
#[derive(Clone, Debug)]
pub(super) struct RingArc {
    /// Scattering angle of the line in radians.
    pub two_theta: f64,
    /// Azimuths in radians over which the arc extends, each with its weight.
    pub points: Vec<(f64, f64)>,
}

/// A fitted position of an arc: the scattering angle that the PONI file gives it, and its error, in
/// radians.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArcPosition<'a> {
    pub arc: &'a RingArc,
    pub two_theta: f64,
    pub error: f64,
}

/// Which parameters the positions determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameters {
    /// The distance: patterns have one dimension, and the beam counts as not displaced.
    Distance,
    /// `poni1`, `poni2` and `dist`: patterns are cakes.
    BeamAndDistance,
}

/// True place of the beam and the detector, less that of the PONI file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Displacement {
    /// `poni1`, `poni2` and `dist` in metres; NaN where they are not determined.
    pub value: [f64; 3],
    /// Their standard errors in metres.
    pub error: [f64; 3],
    /// χ² per degree of freedom of the positions. NaN if there are too few.
    pub chi2: f64,
    /// Number of positions.
    pub positions: usize,
}

impl Displacement {
    /// Returns that of a frame in which too few positions were fitted.
    pub(super) fn unknown(positions: usize) -> Self {
        let nothing = [f64::NAN; 3];
        Self { value: nothing, error: nothing, chi2: f64::NAN, positions }
    }

    /// Returns whether the positions determined it.
    pub fn is_known(&self) -> bool {
        self.chi2.is_finite()
    }

    /// Finds the displacement with the least sum of squares of (2θ of the line − 2θ at its position)
    /// over the positions' errors. [`DetectorPlane::true_two_theta`] has the formula. Its errors are
    /// those of the positions, √ of the diagonal of (AᵀWA)⁻¹, times √(χ²/ν) where that is above 1:
    /// Birge's ratio (Phys. Rev. 40 (1932) 207), by which scatter that the errors of the intensities
    /// do not explain, as by grains, is counted.
    pub(super) fn fit(
        plane: &DetectorPlane,
        positions: &[ArcPosition],
        parameters: Parameters,
    ) -> Self {
        let count = positions.len();
        let free: &[usize] = match parameters {
            Parameters::Distance => &[2],
            Parameters::BeamAndDistance => &[0, 1, 2],
        };
        let Some(freedom) = count.checked_sub(free.len()).filter(|freedom| *freedom > 0) else {
            return Self::unknown(count);
        };
        let mut value = [0.0; 3];
        for _ in 0..STEPS {
            let Some((step, _)) = linearize(plane, positions, value, free).0.solve() else {
                return Self::unknown(count);
            };
            value = std::array::from_fn(|axis| value[axis] + step[axis]);
        }
        let (equations, squares) = linearize(plane, positions, value, free);
        let Some((_, covariance)) = equations.solve() else { return Self::unknown(count) };
        let chi2 = squares / freedom as f64;
        let factor = chi2.max(1.0).sqrt();
        let of_free = |axis: usize, found: f64| if free.contains(&axis) { found } else { f64::NAN };
        Self {
            value: std::array::from_fn(|axis| of_free(axis, value[axis])),
            error: std::array::from_fn(|axis| {
                of_free(axis, covariance[axis][axis].sqrt() * factor)
            }),
            chi2,
            positions: count,
        }
    }
}

/// Returns the normal equations of a step from a displacement, and the sum of squares there.
fn linearize(
    plane: &DetectorPlane,
    positions: &[ArcPosition],
    displacement: [f64; 3],
    free: &[usize],
) -> (NormalEquations<3>, f64) {
    let (mut equations, mut squares) = (NormalEquations::new(), 0.0);
    for position in positions {
        let (mut angle, mut slopes, mut weights) = (0.0, [0.0; 3], 0.0);
        for (chi, weight) in &position.arc.points {
            let found = plane.true_two_theta(position.two_theta, *chi, displacement);
            let Some((at_point, by)) = found else { continue };
            angle += weight * at_point;
            slopes.iter_mut().zip(by).for_each(|(sum, slope)| *sum += weight * slope);
            weights += weight;
        }
        if weights <= 0.0 {
            continue;
        }
        let residual = position.arc.two_theta - angle / weights;
        let weight = position.error.powi(-2);
        equations.add(residual, &slopes.map(|sum| sum / weights), weight);
        squares += residual * residual * weight;
    }
    for axis in (0..3).filter(|axis| !free.contains(axis)) {
        equations.fix(axis);
    }
    (equations, squares)
}
