//! [`calibrate`]: the calibration factor from the patterns of a standard.
//!
//! The mean pattern m of the standard, divided by transmission and thickness, is compared with the
//! known cross-section R: m = R / C. The factor C is the ratio of two sums over the bins, with the
//! weight W of their pixels (`norm`):
//!
//! > 1 / C = Σ W m / Σ W R with the error √(s Σ p (W σ)²) / Σ W R
//!
//! Each bin counts with its pixels, whatever its counts. Weights of 1 / σ² would favour the bins that
//! happen to have few of them, and leave out those that have none. σ is the error of m, and
//! p = W² / (N W₂) corrects for pixels that are split between bins, whose errors are correlated: N is
//! the number of pixels in the bin (`count`), and p is 1 without splitting. If the n bins scatter more
//! than their errors say, s is n / (n − 1) Σ (W (m − R / C))² / Σ (W σ)², and 1 otherwise. Both sums
//! have the same mean, also of few counts; χ², Σ ((m − R / C) / σ)² / (n − 1), which is reported to
//! judge the fit, is then above 1. Without errors, the variance of m is taken as proportional to
//! R / W, and the scatter of the bins gives its size. The error of R is common to all q, as that of
//! glassy carbon is, and is added in squares.

use recipe::ErrorMeasure;

use super::absolute::{CalibrationFactor, FACTORS, Thickness};
use super::mean_pattern::MeanPattern;
use super::q_axis::QAxis;
use super::reduction::MeanTerms;
use super::standard::{KnownValue, Standard};
use super::{ExportError, PatternReduction};
use crate::Status;
use crate::output::OutputFile;

/// Calibration factor of a final file of a standard.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The factor, and its error with that of the standard.
    pub factor: CalibrationFactor,
    /// Part of the factor's error that the standard has, relative to the factor. All factors from the
    /// same standard have it in common. `None` if it is not known.
    pub standard_relative_error: Option<f64>,
    /// χ² per degree of freedom; `None` without errors.
    pub chi2: Option<f64>,
    /// Number of bins that were compared.
    pub bins: usize,
    /// First and last of them, in the unit of the patterns.
    pub range: [f64; 2],
}

impl Calibration {
    /// Returns the error of the measurement, without that of the standard, relative to the factor.
    pub fn measured_relative_error(&self) -> f64 {
        let whole = self.factor.error.unwrap_or_default() / self.factor.value;
        let of_standard = self.standard_relative_error.unwrap_or_default();
        (whole * whole - of_standard * of_standard).max(0.0).sqrt()
    }
}

/// Largest error, relative to the factor, with which a factor is used. An intensity that is no more
/// than three standard deviations above 0 may be noise.
const MAX_RELATIVE_ERROR: f64 = 1.0 / 3.0;

/// A bin that is compared.
struct ComparedBin {
    /// Mean intensity.
    intensity: f64,
    /// Its error; `None` without errors.
    error: Option<f64>,
    /// Sum of the weights of the pixels.
    norm: f64,
    /// How many times more the bin adds to the variance of a sum over all bins, because its pixels
    /// are split.
    split: f64,
    /// Cross-section of the standard.
    known: KnownValue,
}

/// Compares the mean pattern of a final file with a standard of a thickness. The background and the
/// transmissions are those of `reduction`. `range` is that of bins, in the unit of the patterns;
/// `None` for that of the standard.
///
/// # Errors
/// Fails if the patterns can't be reduced or read, if they are cakes or over another axis than q, if
/// fewer than two bins have data in the range, or if they are not significantly above 0.
pub fn calibrate(
    output: &OutputFile,
    reduction: PatternReduction,
    thickness: Thickness,
    standard: &Standard,
    range: Option<[f64; 2]>,
) -> Result<Calibration, ExportError> {
    let failed = |why| ExportError::Reduction { path: output.path.clone(), why };
    if let [azimuthal, radial] = output.shared.axes.shape()[..] {
        return Err(failed(format!(
            "has cakes of {azimuthal} x {radial} bins, which can't be compared with a standard; \
             integrate without --npt-azim"
        )));
    }
    if output.recipe.has_moving_geometry() {
        return Err(failed(
            "has frames of several geometries, which can't be compared with a standard; integrate those of one, with --poni"
                .to_owned(),
        ));
    }
    let axis = QAxis::new(output, "--calibrate")?;
    let (intensity, errors) = reduced_mean(output, reduction.uncalibrated(thickness))?;
    let has_errors = !errors.is_empty() && output.recipe.error == ErrorMeasure::Sem;
    let centers = &output.shared.axes.radial.centers;
    let [low, high] = range.unwrap_or_else(|| standard.range(axis.per_inverse_nm));
    let mut points = Vec::new();
    let mut ends: Option<[f64; 2]> = None;
    for (bin, (q, intensity)) in centers.iter().zip(&intensity).enumerate() {
        let error = has_errors.then(|| errors[bin]);
        let weights = &output.shared.weights;
        let (norm, norm_sq, count) = (weights.norm[bin], weights.norm_sq[bin], weights.count[bin]);
        // A bin without pixels may have an intensity: that of --empty.
        let has_pixels = norm > 0.0 && norm_sq > 0.0 && count > 0.0;
        let is_finite = intensity.is_finite() && error.is_none_or(f64::is_finite);
        let is_usable = (low..=high).contains(q) && has_pixels && is_finite;
        let known = standard.at(*q, axis.per_inverse_nm).filter(|_| is_usable);
        let Some(known) = known else { continue };
        let split = norm * norm / (count * norm_sq);
        points.push(ComparedBin { intensity: *intensity, error, norm, split, known });
        ends = Some([ends.map_or(*q, |[first, _]| first), *q]);
    }
    let units = &output.shared.axes.radial.units;
    let (Some(range), 2..) = (ends, points.len()) else {
        return Err(failed(format!(
            "can't be compared with {standard}: {} bins from {low} to {high} {units} have data where \
             the standard is known; expected two or more, see --calibration-range",
            points.len()
        )));
    };
    let fitted = fit(&points);
    let value = fitted.factor.value;
    if !(value.is_normal() && value > 0.0) {
        return Err(failed(format!(
            "can't be compared with {standard}: its mean pattern is not above 0 from {low} to \
             {high} {units}; expected the final file of the standard"
        )));
    }
    if !FACTORS.contains(&value) {
        let (least, most) = (FACTORS.start(), FACTORS.end());
        return Err(failed(format!(
            "has the calibration factor {value:e} from {standard}; expected one from {least:e} to \
             {most:e}: check the thickness and the transmission"
        )));
    }
    let error = fitted.factor.error.unwrap_or_default();
    if error > value * MAX_RELATIVE_ERROR {
        return Err(failed(format!(
            "has the calibration factor {value:.2e} +- {error:.1e} from {standard}, which is not significant; expected an \
             error below a third of it: check the scan and the background, choose a wider --calibration-range, or measure \
             the standard for longer"
        )));
    }
    let Fit { factor, standard_relative_error, chi2 } = fitted;
    Ok(Calibration { factor, standard_relative_error, chi2, bins: points.len(), range })
}

/// Result of [`fit`].
struct Fit {
    factor: CalibrationFactor,
    standard_relative_error: Option<f64>,
    /// χ² per degree of freedom; `None` without errors.
    chi2: Option<f64>,
}

/// Fits the factor. Either all points have an error or none.
fn fit(points: &[ComparedBin]) -> Fit {
    let sum = |term: fn(&ComparedBin) -> f64| points.iter().map(term).sum::<f64>();
    let expected = sum(|point| point.norm * point.known.value);
    let slope = sum(|point| point.norm * point.intensity) / expected;
    let variance = sum(|point| {
        let of_sum = match point.error {
            Some(error) => (point.norm * error).powi(2),
            None => point.norm * point.known.value,
        };
        point.split * of_sum
    });
    let residual = |point: &ComparedBin| point.intensity - slope * point.known.value;
    let freedom = |points: usize| points.saturating_sub(1).max(1) as f64;
    let square = |point: &ComparedBin| match point.error {
        Some(_) => (point.norm * residual(point)).powi(2),
        None => point.norm / point.known.value * residual(point).powi(2),
    };
    let squares: f64 = points.iter().map(square).sum::<f64>() / freedom(points.len());
    let has_errors = points.iter().any(|point| point.error.is_some());
    let scatter = if has_errors {
        let stated = sum(|point| (point.norm * point.error.unwrap_or_default()).powi(2));
        let ratio = squares * points.len() as f64 / stated;
        // Without counts, there is neither scatter nor an error.
        if ratio.is_finite() { ratio.max(1.0) } else { 1.0 }
    } else {
        squares
    };
    let of_points = (scatter * variance).sqrt() / expected / slope;
    // Without a minimum of one photon, bins without counts have no error.
    let with_error = |point: &ComparedBin| {
        let error = point.error.filter(|error| *error > 0.0)?;
        Some((residual(point) / error).powi(2))
    };
    let chi2: Vec<f64> = points.iter().filter_map(with_error).collect();
    let chi2 = has_errors.then(|| chi2.iter().sum::<f64>() / freedom(chi2.len()));
    let relative =
        |point: &ComparedBin| Some(point.norm * point.known.value * point.known.relative_error?);
    let of_standard = points.iter().map(relative).sum::<Option<f64>>().map(|sum| sum / expected);
    let value = slope.recip();
    let error = Some(value * of_points.hypot(of_standard.unwrap_or_default()));
    Fit { factor: CalibrationFactor { value, error }, standard_relative_error: of_standard, chi2 }
}

/// Returns the mean of all frames that can be reduced: intensities, and errors if there are any.
fn reduced_mean(
    output: &OutputFile,
    reduction: PatternReduction,
) -> Result<(Vec<f64>, Vec<f64>), ExportError> {
    let terms = reduction.frame_terms(output)?;
    let mut mean = MeanPattern::new(output);
    let mut mean_terms = MeanTerms::default();
    let mut rows = output.rows()?;
    for (frame, status) in output.status.iter().enumerate() {
        let Some(of_frame) = terms.at(frame).filter(|_| *status == Status::Ok) else { continue };
        let pattern = rows.pattern(frame)?;
        mean_terms.add(of_frame, mean.add(frame, &pattern, &mut rows)?);
    }
    let (intensity, errors) = mean.finish()?;
    Ok(reduction.apply(&intensity, &errors, mean_terms.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bins of one weight, with intensity, error and known value.
    fn points(values: &[(f64, Option<f64>, f64)], relative_error: Option<f64>) -> Vec<ComparedBin> {
        let point = |(intensity, error, value): &(f64, Option<f64>, f64)| ComparedBin {
            intensity: *intensity,
            error: *error,
            norm: 1.0,
            split: 1.0,
            known: KnownValue { value: *value, relative_error },
        };
        values.iter().map(point).collect()
    }

    #[test]
    fn exact_points_have_the_errors_of_theirs_and_of_the_standard() {
        let values = [(2.0, Some(0.2), 1.0), (4.0, Some(0.2), 2.0)];
        let fitted = fit(&points(&values, Some(0.03)));
        assert_eq!((fitted.factor.value, fitted.chi2), (0.5, Some(0.0)));
        assert!((fitted.standard_relative_error.unwrap() - 0.03).abs() < 1e-15);
        // The sum is 6 with the error 0.2 √2.
        let of_points = 0.2 * 2.0_f64.sqrt() / 6.0;
        let error = fitted.factor.error.unwrap();
        assert!((error / (0.5 * of_points.hypot(0.03)) - 1.0).abs() < 1e-12);
        let unknown = fit(&points(&values, None));
        assert_eq!(unknown.standard_relative_error, None);
        assert!((unknown.factor.error.unwrap() / (0.5 * of_points) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn points_that_scatter_more_than_their_errors_give_a_larger_error() {
        let fitted = fit(&points(&[(1.0, Some(0.1), 1.0), (3.0, Some(0.1), 1.0)], None));
        assert_eq!(fitted.factor.value, 0.5);
        assert!((fitted.chi2.unwrap() - 200.0).abs() < 1e-9);
        // The mean of 1 and 3 is 2 with the error 1.
        assert!((fitted.factor.error.unwrap() - 0.25).abs() < 1e-12);
        let without = fit(&points(&[(1.0, None, 1.0), (3.0, None, 1.0)], None));
        assert!((without.factor.error.unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(without.chi2, None);
    }

    /// Uniform numbers above 0 and below 1 (a linear congruential generator).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }

        /// Number of photons, of which `expected` are expected.
        fn photons(&mut self, expected: f64) -> f64 {
            let (mut product, mut photons) = (self.next(), 0.0);
            while product > (-expected).exp() {
                product *= self.next();
                photons += 1.0;
            }
            photons
        }
    }

    /// Simulates standards of cross-section 1 that are measured with this many photons per pixel. Each
    /// pixel is split equally between so many of the bins. Returns the mean of 1 / factor over that
    /// which is expected, its standard error, and the mean stated error over the scatter.
    fn simulate(photons: f64, shares: usize, has_errors: bool) -> [f64; 3] {
        const BINS: usize = 200;
        const PIXELS: usize = 1600;
        const RUNS: usize = 1000;
        let mut random = Random(1);
        let (mut slopes, mut errors) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let mut sums = vec![(0.0, 0.0, 0.0, 0.0); BINS];
            for pixel in 0..PIXELS {
                let (share, counts) = (1.0 / shares as f64, random.photons(photons));
                for next in 0..shares {
                    let (signal, variance, norm, norm_sq) = &mut sums[(pixel + next) % BINS];
                    *signal += share * counts;
                    *variance += share * share * counts;
                    *norm += share;
                    *norm_sq += share * share;
                }
            }
            let bin = |(signal, variance, norm, norm_sq): &(f64, f64, f64, f64)| ComparedBin {
                intensity: signal / norm,
                error: has_errors.then(|| variance.sqrt() / norm),
                norm: *norm,
                split: norm / norm_sq,
                known: KnownValue { value: 1.0, relative_error: None },
            };
            let CalibrationFactor { value, error } =
                fit(&sums.iter().map(bin).collect::<Vec<_>>()).factor;
            slopes.push(value.recip() / photons);
            errors.push(error.unwrap() / value);
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let centre = mean(&slopes);
        let squares: Vec<f64> = slopes.iter().map(|slope| (slope - centre).powi(2)).collect();
        let scatter = mean(&squares).sqrt();
        [centre, scatter / (RUNS as f64).sqrt(), mean(&errors) / scatter]
    }

    #[test]
    fn the_factor_is_unbiased_and_scatters_as_its_error_says_also_with_split_pixels() {
        for photons in [0.2, 20.0] {
            for (shares, has_errors) in [(1, true), (5, true), (1, false), (5, false)] {
                let [centre, error, stated] = simulate(photons, shares, has_errors);
                let case = format!("{photons} photons, {shares} shares: {centre} {stated}");
                assert!((centre - 1.0).abs() < 2.0 * error, "{case}");
                assert!((stated - 1.0).abs() < 0.1, "{case}");
            }
        }
    }
}
