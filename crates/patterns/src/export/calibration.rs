//! [`calibrate`]: the calibration factor from the patterns of a standard.
//!
//! The mean pattern m of the standard, divided by transmission and thickness, is compared with the
//! known cross-section R, bin by bin: m = R / C. With the errors σ of m, the weighted least squares
//! are
//!
//! > 1 / C = Σ (R m / σ²) / Σ (R² / σ²) with the error 1 / √(Σ (R² / σ²))
//!
//! If the bins scatter more than their errors say (χ² of a degree of freedom above 1), that error is
//! multiplied by √χ². The error of R is common to all q, as that of glassy carbon is, and is added in
//! squares. Without errors of the mean, all bins have the same weight, and their scatter gives the
//! error.

use recipe::ErrorMeasure;

use super::absolute::{CalibrationFactor, Thickness};
use super::background::MeanPattern;
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
    /// same standard have it in common.
    pub standard_relative_error: f64,
    /// χ² per degree of freedom; `None` without errors.
    pub chi2: Option<f64>,
    /// Number of bins that were compared.
    pub bins: usize,
    /// First and last of them, in the unit of the patterns.
    pub range: [f64; 2],
}

/// A bin that is compared: mean intensity, its error, and what is known.
struct ComparedBin {
    intensity: f64,
    error: f64,
    known: KnownValue,
}

/// Compares the mean pattern of a final file with a standard of a thickness. The background and the
/// transmissions are those of `reduction`. `range` is that of bins, in the unit of the patterns;
/// `None` for that of the standard.
///
/// # Errors
/// Fails if the patterns can't be reduced or read, if they are cakes or over another axis than q, if
/// fewer than two bins have data in the range, or if they are not above 0.
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
    let axis = QAxis::new(output, "--calibrate")?;
    let (intensity, errors) = reduced_mean(output, reduction.uncalibrated(thickness))?;
    let has_errors = !errors.is_empty() && output.recipe.error == ErrorMeasure::Sem;
    let centers = &output.shared.axes.radial.centers;
    let [low, high] = range.unwrap_or_else(|| standard.range(axis.per_inverse_nm));
    let mut points = Vec::new();
    let mut ends: Option<[f64; 2]> = None;
    for (bin, (q, intensity)) in centers.iter().zip(&intensity).enumerate() {
        let error = if has_errors { errors[bin] } else { 1.0 };
        let is_usable = (low..=high).contains(q) && intensity.is_finite() && error > 0.0;
        let known = standard.at(*q, axis.per_inverse_nm).filter(|_| is_usable);
        let Some(known) = known else { continue };
        points.push(ComparedBin { intensity: *intensity, error, known });
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
    let (factor, standard_relative_error, chi2) = fit(&points, has_errors);
    if !(factor.value.is_normal() && factor.value > 0.0) {
        return Err(failed(format!(
            "can't be compared with {standard}: its mean pattern is not above 0 from {low} to \
             {high} {units}; expected the final file of the standard"
        )));
    }
    let (chi2, bins) = (Some(chi2).filter(|_| has_errors), points.len());
    Ok(Calibration { factor, standard_relative_error, chi2, bins, range })
}

/// Fits the factor. Returns it, the relative error of the standard, and χ² per degree of freedom.
/// Without errors, those of all points are 1, and only their scatter tells the error of the factor.
fn fit(points: &[ComparedBin], has_errors: bool) -> (CalibrationFactor, f64, f64) {
    let (mut products, mut squares, mut relative_errors) = (0.0, 0.0, 0.0);
    for ComparedBin { intensity, error, known } in points {
        let weight = error.powi(-2);
        products += weight * known.value * intensity;
        squares += weight * known.value.powi(2);
        relative_errors += weight * known.value.powi(2) * known.relative_error;
    }
    let slope = products / squares;
    let residual =
        |point: &ComparedBin| (point.intensity - slope * point.known.value) / point.error;
    let sum: f64 = points.iter().map(|point| residual(point).powi(2)).sum();
    let chi2 = sum / points.len().saturating_sub(1).max(1) as f64;
    let scatter = if has_errors { chi2.max(1.0) } else { chi2 };
    let of_points = (scatter / squares).sqrt() / slope;
    let of_standard = relative_errors / squares;
    let value = slope.recip();
    let error = Some(value * of_points.hypot(of_standard));
    (CalibrationFactor { value, error }, of_standard, chi2)
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
        let (intensity, errors) = rows.pattern(frame)?;
        mean_terms.add(of_frame, mean.add(frame, &intensity, errors.as_deref()));
    }
    let (intensity, errors) = mean.finish();
    Ok(reduction.apply(&intensity, &errors, mean_terms.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[(f64, f64, f64)], relative_error: f64) -> Vec<ComparedBin> {
        let point = |(intensity, error, value): &(f64, f64, f64)| ComparedBin {
            intensity: *intensity,
            error: *error,
            known: KnownValue { value: *value, relative_error },
        };
        values.iter().map(point).collect()
    }

    #[test]
    fn exact_points_have_the_errors_of_theirs_and_of_the_standard() {
        let (factor, of_standard, chi2) =
            fit(&points(&[(2.0, 0.2, 1.0), (4.0, 0.2, 2.0)], 0.03), true);
        assert_eq!((factor.value, chi2), (0.5, 0.0));
        assert!((of_standard - 0.03).abs() < 1e-15);
        // The slope is 2 with the error 0.2 / √5.
        let expected = 0.5 * (0.2 / 5.0_f64.sqrt() / 2.0).hypot(0.03);
        assert!((factor.error.unwrap() / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn points_that_scatter_more_than_their_errors_give_a_larger_error() {
        let values = [(1.0, 0.1, 1.0), (3.0, 0.1, 1.0)];
        let (factor, _, chi2) = fit(&points(&values, 0.0), true);
        assert_eq!(factor.value, 0.5);
        assert!((chi2 - 200.0).abs() < 1e-9);
        // The mean of 1 and 3 is 2 with the error 1.
        assert!((factor.error.unwrap() - 0.25).abs() < 1e-12);
        let unweighted = fit(&points(&[(1.0, 1.0, 1.0), (3.0, 1.0, 1.0)], 0.0), false).0;
        assert!((unweighted.error.unwrap() - 0.25).abs() < 1e-12);
    }
}
