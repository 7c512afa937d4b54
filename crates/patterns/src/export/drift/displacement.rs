//! [`Displacement`]: where the beam and the detector are, by the positions of rings.

use geometry::DetectorPlane;

use super::least_squares::NormalEquations;

/// Steps of Gauss and Newton's method. Rings move by far less than their radius, so that two suffice
/// for a set of weights.
const STEPS: usize = 14;
/// Steps of these in which the weights of outliers are lessened, before outliers are left out.
const ROBUST_STEPS: usize = 11;
/// Steps to the scattering angle of a displaced arc, each of which leaves a few per cent of the error.
const INVERSION_STEPS: usize = 4;
/// Largest residual of a position that is used, over the scatter of all.
const MAX_RESIDUAL: f64 = 5.0;

/// The part of a ring in a sector, of which a position was fitted.
#[derive(Clone, Debug)]
pub(super) struct RingArc {
    /// Scattering angle of the line in radians.
    pub two_theta: f64,
    /// Full width at half maximum of the line in radians.
    pub fwhm: f64,
    /// Azimuths in radians over which the arc extends, each with its weight.
    pub points: Vec<(f64, f64)>,
}

impl RingArc {
    /// Returns the mean of the true scattering angles of the rays to which the PONI file gives
    /// `two_theta`, and its derivatives by the displacement. `None` if there is no such ray.
    fn true_two_theta(
        &self,
        plane: &DetectorPlane,
        two_theta: f64,
        displacement: [f64; 3],
    ) -> Option<(f64, [f64; 3])> {
        let (mut angle, mut slopes, mut weights) = (0.0, [0.0; 3], 0.0);
        for (chi, weight) in &self.points {
            let Some((at_point, by)) = plane.true_two_theta(two_theta, *chi, displacement) else {
                continue;
            };
            angle += weight * at_point;
            slopes.iter_mut().zip(by).for_each(|(sum, slope)| *sum += weight * slope);
            weights += weight;
        }
        (weights > 0.0).then(|| (angle / weights, slopes.map(|sum| sum / weights)))
    }

    /// Returns the scattering angle that the PONI file gives the arc if the detector is displaced:
    /// that whose true one is the line's.
    pub fn displaced(&self, plane: &DetectorPlane, displacement: [f64; 3]) -> Option<f64> {
        let mut found = self.two_theta;
        for _ in 0..INVERSION_STEPS {
            let (angle, _) = self.true_two_theta(plane, found, displacement)?;
            found += self.two_theta - angle;
        }
        Some(found)
    }
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
    /// Root mean square distance of the positions from the displaced lines, in widths of the lines,
    /// beyond what their errors explain. NaN if there are too few.
    pub scatter: f64,
    /// Number of positions that are used.
    pub positions: usize,
}

impl Displacement {
    /// Returns that of a frame in which too few positions were fitted.
    pub(super) fn unknown(positions: usize) -> Self {
        let nothing = [f64::NAN; 3];
        Self { value: nothing, error: nothing, chi2: f64::NAN, scatter: f64::NAN, positions }
    }

    /// Returns whether the positions determined it.
    pub fn is_known(&self) -> bool {
        self.chi2.is_finite()
    }

    /// Returns whether the other value is within so many errors of this one, where both are determined.
    /// False if that is nowhere so.
    pub(super) fn is_within(&self, errors: f64, other: &Self) -> bool {
        let ratio = |axis: usize| (self.value[axis] - other.value[axis]).abs() / self.error[axis];
        let mut ratios = (0..3).map(ratio).filter(|ratio| !ratio.is_nan()).peekable();
        ratios.peek().is_some() && ratios.all(|ratio| ratio <= errors)
    }

    /// Returns the value with 0 where it is not determined.
    pub(super) fn known_value(&self) -> [f64; 3] {
        self.value.map(|value| if value.is_finite() { value } else { 0.0 })
    }

    /// Finds the displacement with the least sum of squares of (2θ of the line − 2θ at its position)
    /// over the positions' errors, without outliers. [`DetectorPlane::true_two_theta`] has the
    /// formula. Its errors are those of the positions, √ of the diagonal of (AᵀWA)⁻¹, times √(χ²/ν) where that is above 1:
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
        if count <= free.len() {
            return Self::unknown(count);
        }
        let mut fit = DisplacementFit::new(plane, positions, free);
        let mut weights = vec![1.0; count];
        for step in 0..STEPS {
            if fit.step(&weights).is_none() {
                return Self::unknown(count);
            }
            weights = fit.robust_weights(step < ROBUST_STEPS);
        }
        let used = weights.iter().filter(|weight| **weight > 0.0).count();
        let Some(freedom) = used.checked_sub(free.len()).filter(|freedom| *freedom > 0) else {
            return Self::unknown(used);
        };
        let Some(covariance) = fit.step(&weights) else { return Self::unknown(used) };
        let value = fit.value;
        let squares = fit.residuals().zip(&weights);
        let squares: f64 = squares.map(|(residual, weight)| weight * residual * residual).sum();
        let chi2 = squares / freedom as f64;
        let in_widths = positions.iter().zip(&weights);
        let in_widths: f64 = in_widths
            .map(|(position, weight)| weight * (position.arc.fwhm / position.error).powi(2))
            .sum();
        let scatter = ((squares - freedom as f64).max(0.0) / in_widths).sqrt();
        let factor = chi2.max(1.0).sqrt();
        let of_free = |axis: usize, found: f64| if free.contains(&axis) { found } else { f64::NAN };
        Self {
            value: std::array::from_fn(|axis| of_free(axis, value[axis])),
            error: std::array::from_fn(|axis| {
                of_free(axis, covariance[axis][axis].sqrt() * factor)
            }),
            chi2,
            scatter,
            positions: used,
        }
    }
}

/// A displacement that is being fitted.
struct DisplacementFit<'a> {
    plane: &'a DetectorPlane,
    positions: &'a [ArcPosition<'a>],
    free: &'a [usize],
    value: [f64; 3],
    /// Of each position, its residual at the value in radians, and the derivatives of its true angle
    /// by the displacement; `None` if it has no ray.
    linear: Vec<Option<(f64, [f64; 3])>>,
}

impl<'a> DisplacementFit<'a> {
    /// Begins at no displacement.
    fn new(plane: &'a DetectorPlane, positions: &'a [ArcPosition], free: &'a [usize]) -> Self {
        let mut fit = Self { plane, positions, free, value: [0.0; 3], linear: Vec::new() };
        fit.linearize();
        fit
    }

    /// Moves the displacement by a step of Gauss and Newton's method, with a factor of the weight of
    /// each position, and returns the covariance matrix. `None` if the positions do not determine it.
    fn step(&mut self, weights: &[f64]) -> Option<[[f64; 3]; 3]> {
        let mut equations = NormalEquations::new();
        for ((position, linear), weight) in self.positions.iter().zip(&self.linear).zip(weights) {
            if let Some((residual, slopes)) = linear {
                equations.add(*residual, slopes, weight * position.error.powi(-2));
            }
        }
        for axis in (0..3).filter(|axis| !self.free.contains(axis)) {
            equations.fix(axis);
        }
        let (step, covariance) = equations.solve()?;
        self.value.iter_mut().zip(step).for_each(|(value, step)| *value += step);
        self.linearize();
        Some(covariance)
    }

    fn linearize(&mut self) {
        let (plane, value) = (self.plane, self.value);
        let of_position = |position: &ArcPosition| {
            let found = position.arc.true_two_theta(plane, position.two_theta, value);
            found.map(|(angle, slopes)| (position.arc.two_theta - angle, slopes))
        };
        self.linear = self.positions.iter().map(of_position).collect();
    }

    /// Returns the residuals over the errors of the positions; 0 of a position that has no ray.
    fn residuals(&self) -> impl Iterator<Item = f64> {
        let residual = |(position, linear): (&ArcPosition, &Option<(f64, [f64; 3])>)| {
            linear.map_or(0.0, |(residual, _)| residual / position.error)
        };
        self.positions.iter().zip(&self.linear).map(residual)
    }

    /// Returns factors of weights that lessen the effect of positions far from the others, as of the
    /// spot of a grain or a line of something else. Residuals r are compared with the scatter s of
    /// all, 1.4826 times the median of |r|, and at least 1. While the fit is far from its end, the
    /// factor is Cauchy's, 1 / (1 + (r / 2.4 s)²) (Holland and Welsch, Commun. Stat. A6 (1977) 813). At
    /// the end, it is 0 beyond [`MAX_RESIDUAL`] s, and 1 otherwise.
    fn robust_weights(&self, is_gradual: bool) -> Vec<f64> {
        let residuals: Vec<f64> = self.residuals().collect();
        let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let median = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
        let scatter = (1.4826 * median).max(1.0);
        let weight = |residual: &f64| match is_gradual {
            true => 1.0 / (1.0 + (residual / (2.4 * scatter)).powi(2)),
            false => f64::from(u8::from(residual.abs() <= MAX_RESIDUAL * scatter)),
        };
        residuals.iter().map(weight).collect()
    }
}
