//! [`Normalizer`]: computes a pattern (intensity and error of each bin) from the sums of a frame.
//!
//! With the frame's monitor `m`, its reference `r`, and `g = m / r` (1 without a monitor):
//!
//! > intensity = S / (W g), sem = √V / (W g), std = √(V / W₂) / g
//!
//! S, V, W and W₂ are the sums of [`FrameRow`] and [`BinWeights`]; V is first adjusted by the
//! recipe's rule for variances ([`crate::variance`]). The error is the standard error of the mean
//! (sem), or the standard deviation of a pixel (std) if the recipe says so. A bin without pixels
//! (`W = 0`) gets the recipe's value for empty bins. All is computed in f64 and rounded once, to f32
//! or to those of its bits that the recipe keeps. All NaNs have one bit pattern, so that equal
//! patterns are equal bytes.

use std::sync::Arc;

use recipe::{EmptyBinValue, ErrorMeasure, ErrorModel, Recipe, VALID_MONITOR_RATIOS};
use records::MonitorReadings;

use crate::bin_quotients::BinQuotients;
use crate::rounding::{NAN64, Rounding};
use crate::variance::{PhotonVariance, VarianceRule};
use crate::{BinWeights, FrameRow, Status};

/// Intensity of each bin, and error of each bin if there is an error model.
pub type Pattern = (Vec<f32>, Option<Vec<f32>>);

/// The part of a recipe that is applied to sums of bins, not to pixels. The default has no monitor
/// and no errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Normalizer {
    reference: MonitorDivisor,
    empty: EmptyBinValue,
    errors: bool,
    error_measure: ErrorMeasure,
    variances: VarianceRule,
    /// True if the sums of a frame are those of the pixels at, or between, quantiles.
    has_quantiles: bool,
    rounding: Rounding,
}

/// Reference that the monitor is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum MonitorDivisor {
    /// No reference: the recipe has no monitor.
    #[default]
    None,
    /// Mean of the monitor over the scan.
    Mean,
    /// Number in the recipe.
    Number(f64),
}

impl MonitorDivisor {
    fn new(recipe: &Recipe) -> Self {
        match recipe.reference() {
            None => Self::None,
            Some(recipe::ReferenceSetting::Mean) => Self::Mean,
            Some(recipe::ReferenceSetting::Value(number)) => Self::Number(number),
            // A quantity is already part of each frame's monitor value.
            Some(recipe::ReferenceSetting::Quantity(_)) => Self::Number(1.0),
        }
    }
}

impl Normalizer {
    /// Creates the normalizer of a recipe.
    pub fn new(recipe: &Recipe) -> Self {
        Self {
            reference: MonitorDivisor::new(recipe),
            empty: recipe.empty,
            errors: recipe.error_model != ErrorModel::No,
            error_measure: recipe.error,
            variances: VarianceRule::new(recipe),
            has_quantiles: recipe.median.is_some(),
            rounding: Rounding::new(recipe.keep_bits),
        }
    }

    /// Returns whether patterns have errors, which holds for all error models but `no`.
    pub fn has_errors(&self) -> bool {
        self.errors
    }

    /// Returns whether the recipe divides by a monitor.
    pub fn has_monitor(&self) -> bool {
        self.reference != MonitorDivisor::None
    }

    /// Returns whether a pattern depends on its own frame alone. This is false if the monitor is
    /// divided by its mean over the scan.
    pub fn needs_only_own_frame(&self) -> bool {
        self.reference != MonitorDivisor::Mean
    }

    /// Returns the reference of the monitor: the recipe's number, or the mean of `readings`. The
    /// mean of no readings is NaN; without a monitor, the reference is 1.
    pub fn reference(&self, readings: MonitorReadings) -> f64 {
        match self.reference {
            MonitorDivisor::None => 1.0,
            MonitorDivisor::Number(number) => number,
            MonitorDivisor::Mean => readings.mean(),
        }
    }

    /// Returns `g`, the factor of a frame's weights. `None` if the monitor is zero, negative, NaN
    /// or so extreme that it has lost digits, or that f32 patterns can't be divided by the ratio.
    pub fn scale(&self, monitor: f64, reference: f64) -> Option<f64> {
        if !self.has_monitor() {
            return Some(1.0);
        }
        let scale = monitor / reference;
        let is_usable = MonitorReadings::VALID.contains(&monitor.abs())
            && VALID_MONITOR_RATIOS.contains(&scale);
        is_usable.then_some(scale)
    }

    /// Returns the pattern of a frame. `None` if the frame has no sums or no usable monitor.
    /// `shared` are the weights of frames without a weight override.
    pub fn normalize(
        &self,
        row: &FrameRow,
        shared: &BinWeights,
        reference: f64,
    ) -> Option<Pattern> {
        let mut pattern = Pattern::default();
        self.normalize_into(row, shared, reference, &mut pattern).then_some(pattern)
    }

    /// Replaces `pattern` by that of a frame, as [`normalize`](Self::normalize) gives it. Returns
    /// false, and leaves `pattern` as it is, if the frame has none.
    pub(crate) fn normalize_into(
        &self,
        row: &FrameRow,
        shared: &BinWeights,
        reference: f64,
        pattern: &mut Pattern,
    ) -> bool {
        let weights = row.weights(shared);
        let scale = self.scale(row.monitor, reference);
        let Some(scale) = scale.filter(|_| row.status == Status::Ok && row.has_sums()) else {
            return false;
        };
        let variance = self.variances.frame_variance(row, weights, shared);
        pattern.0.clear();
        pattern.1.iter_mut().for_each(Vec::clear);
        let norms = [&weights.norm[..], &weights.norm_sq];
        self.extend_pattern(pattern, (&row.signal, variance.as_deref()), norms, scale);
        true
    }

    /// Adds bins to a pattern, which has no errors if these have no variance. `sums` are S and V of
    /// the bins, the latter [adjusted](Self::variance_rule), and `norms` W and W₂. `scale` is g.
    pub(crate) fn extend_pattern(
        &self,
        (intensity, errors): &mut Pattern,
        (signal, variance): (&[f64], Option<&[f64]>),
        norms: [&[f64]; 2],
        scale: f64,
    ) {
        let quotients = BinQuotients { scale, empty: self.empty_value(), rounding: self.rounding };
        quotients.extend(intensity, signal, norms[0]);
        let Some(variance) = variance else {
            *errors = None;
            return;
        };
        let errors = errors.get_or_insert_default();
        match self.error_measure {
            ErrorMeasure::Sem => quotients.extend_by_roots(errors, variance, norms[0]),
            ErrorMeasure::Std => quotients.extend_by_roots_of_both(errors, variance, norms[1]),
        }
    }

    /// Returns a normalizer that takes variances as they are, because they were adjusted before.
    pub(crate) fn without_variance_rule(self) -> Self {
        Self { variances: VarianceRule::default(), ..self }
    }

    /// Returns the normalizer of merged frames, whose sums are those of all pixels of a bin.
    pub(crate) fn for_merged_frames(self) -> Self {
        Self { has_quantiles: false, ..self }
    }

    /// Returns the sums by which a frame counts among others, or `None` if they are those of `row`.
    /// Which pixels of a bin are at a quantile is chance: a median of few of them would count less than
    /// one of many. It counts as the value of all pixels of the bin. `pattern` is that of the row, and
    /// `scale` is g.
    pub(crate) fn sums_among_frames(
        &self,
        row: &FrameRow,
        pattern: &Pattern,
        scale: f64,
        shared: &BinWeights,
    ) -> Option<FrameRow> {
        if !self.has_quantiles {
            return None;
        }
        let (mut intensity, errors) = pattern.clone();
        for (value, norm) in intensity.iter_mut().zip(&row.weights(shared).norm) {
            if *norm == 0.0 {
                *value = f32::NAN;
            }
        }
        Some(self.recompute_row(&(intensity, errors), scale, None, shared))
    }

    /// Returns the rule that adjusts the variances of sums.
    pub(crate) fn variance_rule(&self) -> &VarianceRule {
        &self.variances
    }

    /// Adds the photon variances of a frame to `sums`, if only the frame's pattern is known and not
    /// its sums.
    pub(crate) fn add_counted(
        &self,
        pattern: &Pattern,
        scale: f64,
        own: &BinWeights,
        shared: &BinWeights,
        sums: &mut PhotonVariance,
    ) {
        let row = self.recompute_sums(pattern, scale, own, shared);
        self.variances.add_frame_variance(&row, own, shared, sums);
    }

    /// Returns the sums of a frame of which only the pattern is known, S = I W g and V = (σ W g)²,
    /// to the rounding of f32. `scale` is g. Without its `own` weights, or if those are of quantiles, `shared` are taken for the
    /// frame's: if pixels of this frame alone were left out, it counts as if they were there. Bins
    /// that are NaN have no weight.
    pub(crate) fn recompute_row(
        &self,
        pattern: &Pattern,
        scale: f64,
        own: Option<&Arc<BinWeights>>,
        shared: &BinWeights,
    ) -> FrameRow {
        if let Some(own) = own.filter(|_| !self.has_quantiles) {
            let row = without_nan(self.recompute_sums(pattern, scale, own, shared));
            return FrameRow { weight_override: Some(Arc::clone(own)), ..row };
        }
        let (intensity, errors) = pattern;
        let is_gap = |(value, norm): (&f32, &f64)| value.is_nan() && *norm != 0.0;
        if !intensity.iter().zip(&shared.norm).any(is_gap) {
            return without_nan(self.recompute_sums(pattern, scale, shared, shared));
        }
        let measured = |values: &[f64]| -> Vec<f64> {
            let values = values.iter().zip(intensity);
            values.map(|(value, of)| if of.is_nan() { 0.0 } else { *value }).collect()
        };
        let own = BinWeights {
            norm: measured(&shared.norm),
            norm_sq: measured(&shared.norm_sq),
            count: measured(&shared.count),
        };
        let pattern = (intensity.clone(), errors.clone());
        let row = without_nan(self.recompute_sums(&pattern, scale, &own, shared));
        FrameRow { weight_override: Some(Arc::new(own)), ..row }
    }

    fn recompute_sums(
        &self,
        (intensity, errors): &Pattern,
        scale: f64,
        own: &BinWeights,
        shared: &BinWeights,
    ) -> FrameRow {
        let signal = intensity
            .iter()
            .zip(&own.norm)
            .map(|(&value, norm)| f64::from(value) * norm * scale)
            .collect();
        let variance = errors.as_ref().map(|errors| {
            let squares = errors.iter().zip(own.norm.iter().zip(&own.norm_sq));
            let mut variance: Vec<f64> = squares
                .map(|(&error, (norm, norm_sq))| {
                    let error = f64::from(error) * scale;
                    error * error * if self.is_sem() { norm * norm } else { *norm_sq }
                })
                .collect();
            self.variances.remove_quantile_scatter(&mut variance, own, shared);
            variance
        });
        FrameRow { signal, variance, ..FrameRow::default() }
    }

    /// Returns the share of a frame's variance that comes from the minimum of one photon per pixel;
    /// `None` if the recipe has no such minimum.
    pub fn floor_share(&self, row: &FrameRow, shared: &BinWeights) -> Option<f64> {
        self.variances.pixel_floor_share(row, row.weights(shared))
    }

    /// Returns whether errors are standard errors of the mean.
    pub(crate) fn is_sem(&self) -> bool {
        self.error_measure == ErrorMeasure::Sem
    }

    /// Adds the error of each bin to a list, as `round` gives it.
    pub(crate) fn extend_by_errors<T>(
        &self,
        list: &mut Vec<T>,
        variance: &[f64],
        [norm, norm_sq]: [&[f64]; 2],
        scale: f64,
        round: impl Fn(f64) -> T,
    ) {
        match self.error_measure {
            ErrorMeasure::Sem => {
                list.extend(self.divide(variance, norm, scale, f64::sqrt).map(round));
            }
            ErrorMeasure::Std => {
                let norms = norm_sq.iter().map(|norm_sq| norm_sq.sqrt());
                list.extend(self.divide_by(variance, norms, scale, f64::sqrt).map(round));
            }
        }
    }

    /// Returns the value of a bin without pixels.
    pub(crate) fn empty_value(&self) -> f64 {
        match self.empty {
            EmptyBinValue::Nan => NAN64,
            EmptyBinValue::Zero => 0.0,
        }
    }

    /// Returns `convert(sum) / (norm scale)` of each bin, and the recipe's value for empty bins
    /// where `norm` is zero.
    pub(crate) fn divide<'b>(
        &self,
        sums: &'b [f64],
        norm: &'b [f64],
        scale: f64,
        convert: impl Fn(f64) -> f64 + 'b,
    ) -> impl Iterator<Item = f64> + 'b {
        self.divide_by(sums, norm.iter().copied(), scale, convert)
    }

    fn divide_by<'b>(
        &self,
        sums: &'b [f64],
        norms: impl Iterator<Item = f64> + 'b,
        scale: f64,
        convert: impl Fn(f64) -> f64 + 'b,
    ) -> impl Iterator<Item = f64> + 'b {
        let quotients =
            BinQuotients { scale, empty: self.empty_value(), rounding: Rounding::default() };
        sums.iter().zip(norms).map(move |(&sum, norm)| quotients.quotient(convert(sum), norm))
    }
}

/// Returns sums in which empty bins are 0.
fn without_nan(mut row: FrameRow) -> FrameRow {
    let of_variance = row.variance.iter_mut().flatten();
    for sum in row.signal.iter_mut().chain(of_variance).filter(|sum| sum.is_nan()) {
        *sum = 0.0;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounding::NAN32;

    fn finish(reference: MonitorDivisor, empty: EmptyBinValue) -> Normalizer {
        Normalizer {
            reference,
            empty,
            errors: true,
            error_measure: ErrorMeasure::Sem,
            variances: VarianceRule::default(),
            has_quantiles: false,
            rounding: Rounding::default(),
        }
    }

    fn row(monitor: f64) -> FrameRow {
        FrameRow {
            monitor,
            signal: vec![6.0, 0.0],
            variance: Some(vec![16.0, 0.0]),
            ..FrameRow::default()
        }
    }

    fn weights() -> BinWeights {
        BinWeights { norm: vec![2.0, 0.0], norm_sq: vec![1.0, 0.0], count: vec![2.0, 0.0] }
    }

    #[test]
    fn patterns_are_sums_over_weights_times_the_monitors_ratio() {
        let plain = finish(MonitorDivisor::None, EmptyBinValue::Zero).normalize(
            &row(f64::NAN),
            &weights(),
            1.0,
        );
        assert_eq!(plain, Some((vec![3.0, 0.0], Some(vec![2.0, 0.0]))));
        let halved = finish(MonitorDivisor::Number(50.0), EmptyBinValue::Zero).normalize(
            &row(100.0),
            &weights(),
            50.0,
        );
        assert_eq!(halved, Some((vec![1.5, 0.0], Some(vec![1.0, 0.0]))));
    }

    #[test]
    fn the_standard_deviation_is_over_the_root_of_the_squared_weights() {
        let std = Normalizer {
            error_measure: ErrorMeasure::Std,
            ..finish(MonitorDivisor::Number(50.0), EmptyBinValue::Zero)
        };
        let four = BinWeights { norm_sq: vec![4.0, 0.0], ..weights() };
        assert_eq!(
            std.normalize(&row(100.0), &four, 50.0),
            Some((vec![1.5, 0.0], Some(vec![1.0, 0.0])))
        );
        let one = BinWeights { norm_sq: vec![1.0, 0.0], ..weights() };
        assert_eq!(
            std.normalize(&row(100.0), &one, 50.0),
            Some((vec![1.5, 0.0], Some(vec![2.0, 0.0])))
        );
    }

    #[test]
    fn there_is_one_nan() {
        let negative =
            FrameRow { variance: Some(vec![-1.0, f64::from_bits(u64::MAX)]), ..row(1.0) };
        let (intensity, errors) = finish(MonitorDivisor::None, EmptyBinValue::Nan)
            .normalize(&negative, &weights(), 1.0)
            .unwrap();
        assert_eq!(intensity[1].to_bits(), NAN32.to_bits());
        assert!(errors.unwrap().iter().all(|error| error.to_bits() == NAN32.to_bits()));
    }

    #[test]
    fn a_monitor_of_zero_nan_or_the_wrong_sign_gives_no_pattern() {
        let normalizer = finish(MonitorDivisor::Mean, EmptyBinValue::Nan);
        let monitors = [4.0, 0.0, f64::NAN, 8.0, f64::INFINITY];
        let reference = normalizer.reference(monitors.into_iter().chain([-100.0]).collect());
        assert_eq!(reference, 6.0);
        let good: Vec<bool> = monitors
            .into_iter()
            .map(|monitor| normalizer.scale(monitor, reference).is_some())
            .collect();
        assert_eq!(good, [true, false, false, true, false]);
        assert!(
            normalizer.scale(-4.0, reference).is_none() && normalizer.scale(-4.0, -4.0).is_some()
        );
        let number = Normalizer { reference: MonitorDivisor::Number(1.0), ..normalizer };
        for useless in [1e-320, 1e-40, 1e300] {
            assert_eq!(
                number.scale(useless, 1.0),
                None,
                "{useless}: the pattern would be infinite, or zero"
            );
        }
        let brightest = FrameRow { signal: vec![f64::from(u32::MAX), 0.0], ..row(1e-28) };
        let (intensity, _) = number.normalize(&brightest, &weights(), 1.0).unwrap();
        assert!(intensity[0].is_finite());
        assert!(normalizer.reference(MonitorReadings::default()).is_nan());
    }
}
