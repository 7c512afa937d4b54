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

use recipe::{EmptyBinValue, ErrorMeasure, ErrorModel, Recipe, VALID_MONITOR_RATIOS};
use records::MonitorReadings;

use crate::variance::{PhotonVariance, VarianceRule};
use crate::{BinWeights, FrameRow, Status};

/// The only NaN that is written to f32 datasets.
pub const NAN32: f32 = f32::from_bits(0x7fc0_0000);
/// The only NaN that is written to f64 datasets.
pub const NAN64: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

/// Intensity of each bin, and error of each bin if there is an error model.
pub type Pattern = (Vec<f32>, Option<Vec<f32>>);

/// Returns `value`, with any NaN replaced by [`NAN64`].
pub fn canonical_nan(value: f64) -> f64 {
    if value.is_nan() { NAN64 } else { value }
}

/// The part of a recipe that is applied to sums of bins, not to pixels. The default has no monitor
/// and no errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Normalizer {
    reference: MonitorDivisor,
    empty: EmptyBinValue,
    errors: bool,
    error_measure: ErrorMeasure,
    variances: VarianceRule,
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
        let weights = row.weight_override.as_ref().unwrap_or(shared);
        let scale = self
            .scale(row.monitor, reference)
            .filter(|_| row.status == Status::Ok && row.has_sums())?;
        let round = |value| self.rounding.round(value);
        let single = |values: Vec<f64>| values.into_iter().map(round).collect();
        let intensity = single(self.divide(&row.signal, &weights.norm, scale, |sum| sum));
        let variance = self.variances.frame_variance(row, weights, shared);
        let error = |variance: Vec<f64>| {
            single(self.compute_errors(&variance, &weights.norm, &weights.norm_sq, scale))
        };
        Some((intensity, variance.map(error)))
    }

    /// Returns a normalizer that takes variances as they are, because they were adjusted before.
    pub(crate) fn without_variance_rule(self) -> Self {
        Self { variances: VarianceRule::default(), ..self }
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
    /// to the rounding of f32. `scale` is g. Without its `own` weights, `shared` are taken for the
    /// frame's: if pixels of this frame alone were left out, it counts as if they were there. Bins
    /// that are NaN have no weight.
    pub(crate) fn recompute_row(
        &self,
        pattern: &Pattern,
        scale: f64,
        own: Option<&BinWeights>,
        shared: &BinWeights,
    ) -> FrameRow {
        if let Some(own) = own {
            let row = without_nan(self.recompute_sums(pattern, scale, own, shared));
            return FrameRow { weight_override: Some(own.clone()), ..row };
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
        FrameRow { weight_override: Some(own), ..row }
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
        self.variances.pixel_floor_share(row, row.weight_override.as_ref().unwrap_or(shared))
    }

    /// Returns whether errors are standard errors of the mean.
    pub(crate) fn is_sem(&self) -> bool {
        self.error_measure == ErrorMeasure::Sem
    }

    /// Returns the error of each bin.
    pub(crate) fn compute_errors(
        &self,
        variance: &[f64],
        norm: &[f64],
        norm_sq: &[f64],
        scale: f64,
    ) -> Vec<f64> {
        match self.error_measure {
            ErrorMeasure::Sem => self.divide(variance, norm, scale, f64::sqrt),
            ErrorMeasure::Std => {
                let roots: Vec<f64> = norm_sq.iter().map(|norm_sq| norm_sq.sqrt()).collect();
                self.divide(variance, &roots, scale, f64::sqrt)
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
    pub(crate) fn divide(
        &self,
        sums: &[f64],
        norm: &[f64],
        scale: f64,
        convert: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let empty = self.empty_value();
        let quotient = |(&sum, &norm): (&f64, &f64)| {
            if norm == 0.0 { empty } else { canonical_nan(convert(sum) / (norm * scale)) }
        };
        sums.iter().zip(norm).map(quotient).collect()
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

/// Rounds a value to single precision, with [`NAN32`] for any NaN.
pub(crate) fn to_f32(value: f64) -> f32 {
    if value.is_nan() { NAN32 } else { value as f32 }
}

/// Rounding of values to single precision, and to fewer bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rounding {
    /// The lowest bits of f64, which become zero.
    dropped: u64,
}

impl Rounding {
    /// Rounds to `kept` bits behind the leading one; to all 23 if it is `None`.
    fn new(kept: Option<u32>) -> Self {
        let bits = |kept| (f64::MANTISSA_DIGITS - 1).saturating_sub(kept);
        let mask = |kept| !u64::MAX.checked_shl(bits(kept)).unwrap_or_default();
        Self { dropped: kept.map_or(0, mask) }
    }

    /// Returns the nearest value with the bits that are kept, of two the one whose last bit is 0;
    /// [`NAN32`] for any NaN. The difference is at most a part in 2^(kept + 1), unless f32 has the
    /// value as a subnormal number.
    fn round(self, value: f64) -> f32 {
        if self.dropped == 0 || value.is_nan() {
            return to_f32(value);
        }
        // As integers, neighbours differ by one step, also where the exponent changes.
        let (bits, half) = (value.to_bits(), self.dropped >> 1);
        let is_odd = bits & self.dropped.wrapping_add(1) != 0;
        let above = bits.saturating_add(half).saturating_add(is_odd.into());
        let rounded = to_f32(f64::from_bits(above & !self.dropped));
        // The largest values have none above them.
        if rounded.is_infinite() { to_f32(value) } else { rounded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(reference: MonitorDivisor, empty: EmptyBinValue) -> Normalizer {
        Normalizer {
            reference,
            empty,
            errors: true,
            error_measure: ErrorMeasure::Sem,
            variances: VarianceRule::default(),
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

    /// The value with `kept` bits that is nearest, found by exact division: a double has the
    /// quotient.
    fn nearest(value: f64, kept: u32) -> f64 {
        if value == 0.0 {
            return value;
        }
        let mut unit = 1.0_f64;
        while value.abs() < unit {
            unit /= 2.0;
        }
        while value.abs() >= 2.0 * unit {
            unit *= 2.0;
        }
        let step = unit / f64::from(1 << kept);
        (value / step).round_ties_even() * step
    }

    #[test]
    fn values_are_rounded_to_the_nearest_with_the_bits_that_are_kept() {
        let of_bits = |bits: u64| 1.0 + bits as f64 / f64::from(1 << 24);
        let values = (0..1 << 12).map(|bits| of_bits(bits * 4099 % (1 << 24))).chain([
            0.0,
            1.5,
            1.0 + 2e-16,
            2.0 - 1e-7,
            3.999_999_9,
            1e-30,
            7e30,
            1.0 / 3.0,
        ]);
        let values: Vec<f64> = values.flat_map(|value| [value, -value, 1e5 * value]).collect();
        for kept in 1..=22 {
            let rounding = Rounding::new(Some(kept));
            for value in &values {
                let rounded = rounding.round(*value);
                assert_eq!(f64::from(rounded), nearest(*value, kept), "{value} to {kept} bits");
                assert_eq!(rounding.round(rounded.into()), rounded, "once is as good as twice");
            }
        }
    }

    #[test]
    fn values_without_a_nearest_one_stay() {
        let rounding = Rounding::new(Some(3));
        assert_eq!(rounding.round(f64::NAN).to_bits(), NAN32.to_bits());
        assert_eq!(rounding.round(f64::INFINITY), f32::INFINITY);
        assert_eq!(rounding.round(f64::from(f32::MAX)), f32::MAX);
        assert_eq!(rounding.round(-f64::from(f32::MAX)), f32::MIN);
        assert_eq!(Rounding::default().round(1.0 / 3.0), 1.0 / 3.0);
    }
}
