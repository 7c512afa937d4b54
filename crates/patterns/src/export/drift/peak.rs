//! Fits a peak of a pattern: a pseudo-Voigt profile on a linear background.
//!
//! The profile has the height h, the centre c, the full width at half maximum w and the part η of a
//! Lorentzian, of u = (x − c) / w:
//!
//! ```text
//! h [η / (1 + 4 u²) + (1 − η) exp(−4 ln 2 u²)] + b₀ + b₁ (x − x₀)
//! ```
//!
//! after Wertheim, Butler, West and Buchanan, Rev. Sci. Instrum. 45 (1974) 1369. Parameters are those
//! of the least sum of squares of residuals over errors, by Levenberg and Marquardt's method (Numerical
//! Recipes, 15.5), and their errors are those of the curvature there: √ of the diagonal of (AᵀWA)⁻¹.

use std::f64::consts::LN_2;

use super::least_squares::NormalEquations;

/// Number of parameters: h, c, b₀, b₁, w, η.
const PARAMETERS: usize = 6;
/// Fewest bins of which the four parameters of a known shape are fitted.
pub(super) const MIN_BINS: usize = 7;
const MAX_STEPS: usize = 60;

/// A bin: position, intensity and its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProfileBin {
    pub x: f64,
    pub y: f64,
    pub error: f64,
}

/// Shape of a peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PeakShape {
    /// Full width at half maximum.
    pub fwhm: f64,
    /// Part of a Lorentzian, from 0 to 1.
    pub lorentzian: f64,
}

/// A fitted peak.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peak {
    pub center: f64,
    pub center_error: f64,
    /// Height over its error.
    pub significance: f64,
    pub shape: PeakShape,
}

/// Where a fit begins, and which parameters it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub center: f64,
    pub shape: PeakShape,
    /// True if the shape is fitted, too.
    pub fits_shape: bool,
}

/// Fits a peak. `None` if the fit does not converge on a peak among the bins.
pub(super) fn fit(bins: &[ProfileBin], start: Start) -> Option<Peak> {
    if bins.len() < MIN_BINS {
        return None;
    }
    let limits = |of: fn(&ProfileBin) -> f64| {
        let values = bins.iter().map(of);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let ((left, right), (low, high)) = (limits(|bin| bin.x), limits(|bin| bin.y));
    // Positions in units of the width have numbers of about 1.
    let unit = start.shape.fwhm;
    let middle = f64::midpoint(left, right);
    let model = Model { unit, middle, fits_shape: start.fits_shape };
    let mut parameters =
        [high - low, (start.center - middle) / unit, low, 0.0, 1.0, start.shape.lorentzian];
    let mut sum = model.sum_of_squares(bins, &parameters);
    let mut damping = 1e-3;
    for _ in 0..MAX_STEPS {
        let next = model.step(bins, &parameters, damping)?;
        let next_sum = model.sum_of_squares(bins, &next);
        let is_better = next_sum <= sum && next[4] > 0.0;
        let has_converged = (sum - next_sum).abs() <= 1e-7 * (1.0 + sum.abs() * 1e-3);
        if is_better {
            (parameters, sum) = (next, next_sum);
            damping *= 0.1;
        } else {
            damping *= 10.0;
        }
        if (is_better && has_converged) || damping > 1e10 {
            return model.peak(bins, &parameters, left..right);
        }
    }
    None
}

/// The scale of the parameters, and which are free.
struct Model {
    unit: f64,
    middle: f64,
    fits_shape: bool,
}

impl Model {
    /// Returns the value at a position, and its derivatives by the parameters.
    fn value(&self, x: f64, parameters: &[f64; PARAMETERS]) -> (f64, [f64; PARAMETERS]) {
        let [height, center, constant, slope, width, lorentzian] = *parameters;
        let x = (x - self.middle) / self.unit;
        let u = (x - center) / width;
        let lorentz = 1.0 / (1.0 + 4.0 * u * u);
        let gauss = (-4.0 * LN_2 * u * u).exp();
        let profile = lorentzian * lorentz + (1.0 - lorentzian) * gauss;
        let by_u = lorentzian * -8.0 * u * lorentz * lorentz
            + (1.0 - lorentzian) * -8.0 * LN_2 * u * gauss;
        let by_center = -height * by_u / width;
        let slopes = [profile, by_center, 1.0, x, by_center * u, height * (lorentz - gauss)];
        (height * profile + constant + slope * x, slopes)
    }

    fn sum_of_squares(&self, bins: &[ProfileBin], parameters: &[f64; PARAMETERS]) -> f64 {
        let square =
            |bin: &ProfileBin| ((bin.y - self.value(bin.x, parameters).0) / bin.error).powi(2);
        bins.iter().map(square).sum()
    }

    /// Returns the parameters after a step. η stays within its range: if it would leave it, it goes to
    /// its end, and the others are found with it there.
    fn step(
        &self,
        bins: &[ProfileBin],
        parameters: &[f64; PARAMETERS],
        damping: f64,
    ) -> Option<[f64; PARAMETERS]> {
        let solve = |from: &[f64; PARAMETERS], fits_lorentzian| {
            let (step, _) = self.linearize(bins, from, fits_lorentzian).damped(damping).solve()?;
            Some(std::array::from_fn(|index| from[index] + step[index]))
        };
        let next: [f64; PARAMETERS] = solve(parameters, self.fits_shape)?;
        if (0.0..=1.0).contains(&next[5]) {
            return Some(next);
        }
        let mut at_end = *parameters;
        at_end[5] = next[5].clamp(0.0, 1.0);
        solve(&at_end, false)
    }

    fn linearize(
        &self,
        bins: &[ProfileBin],
        parameters: &[f64; PARAMETERS],
        fits_lorentzian: bool,
    ) -> NormalEquations<PARAMETERS> {
        let mut equations = NormalEquations::new();
        for bin in bins {
            let (value, slopes) = self.value(bin.x, parameters);
            equations.add(bin.y - value, &slopes, bin.error.powi(-2));
        }
        if !self.fits_shape {
            equations.fix(4);
        }
        if !fits_lorentzian {
            equations.fix(5);
        }
        equations
    }

    /// Returns the peak of fitted parameters; `None` if it is none, or not within `range`.
    fn peak(
        &self,
        bins: &[ProfileBin],
        parameters: &[f64; PARAMETERS],
        range: std::ops::Range<f64>,
    ) -> Option<Peak> {
        // At the ends of its range, the curvature says nothing of η.
        let fits_lorentzian = self.fits_shape && parameters[5] > 0.0 && parameters[5] < 1.0;
        let (_, covariance) = self.linearize(bins, parameters, fits_lorentzian).solve()?;
        let [height, center, _, _, width, lorentzian] = *parameters;
        let center = center * self.unit + self.middle;
        let is_peak = height > 0.0 && range.contains(&center) && width > 0.0;
        is_peak.then(|| Peak {
            center,
            center_error: covariance[1][1].sqrt() * self.unit,
            significance: height / covariance[0][0].sqrt(),
            shape: PeakShape { fwhm: width * self.unit, lorentzian },
        })
    }
}
