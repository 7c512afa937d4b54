//! From sums to patterns: intensity and its error from one frame's sums.
//!
//! With the monitor `m` of the frame and its reference `r`, and `g = m / r` (1 without a monitor):
//!
//! > intensity = S / (W g), error = √V / (W g)
//!
//! in f64, rounded to f32 once. The error is the standard error of the mean. A bin without pixels
//! (`W = 0`) holds what the recipe says of empty bins. Every NaN that is written has one bit pattern.

use recipe::{Empty, ErrorModel, Recipe, Reference};

use crate::{Row, Status, Weights};

/// The one NaN of f32 datasets.
pub const NAN32: f32 = f32::from_bits(0x7fc0_0000);
/// The one NaN of f64 datasets.
pub const NAN64: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

/// `value`, or the one NaN.
pub fn canonical(value: f64) -> f64 {
    if value.is_nan() { NAN64 } else { value }
}

/// What of a recipe is applied to sums, and not to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finish {
    /// What the monitor is divided by; `None` without a monitor.
    monitor: Option<Reference>,
    empty: Empty,
    errors: bool,
}

impl Finish {
    /// That of a recipe.
    pub fn of(recipe: &Recipe) -> Self {
        Self {
            monitor: recipe.monitor.as_ref().map(|_| recipe.monitor_reference.unwrap_or_default()),
            empty: recipe.empty,
            errors: recipe.error_model != ErrorModel::No,
        }
    }

    /// Whether patterns have errors.
    pub fn has_errors(&self) -> bool {
        self.errors
    }

    /// Whether the recipe normalizes by a monitor.
    pub fn has_monitor(&self) -> bool {
        self.monitor.is_some()
    }

    /// Whether a pattern depends on nothing but its own frame: not so where the monitor is divided by
    /// its mean over the scan.
    pub fn is_framewise(&self) -> bool {
        !matches!(self.monitor, Some(Reference::Mean))
    }

    /// What the monitor is divided by, given the monitors of the scan's integrated frames in frame
    /// order: the recipe's number, or the mean of those that are finite and not zero. NaN where there
    /// is no such monitor, 1 where the recipe has none.
    pub fn reference(&self, monitors: impl Iterator<Item = f64>) -> f64 {
        match self.monitor {
            None => 1.0,
            Some(Reference::Value(number)) => number,
            Some(Reference::Mean) => {
                let valid = monitors.filter(|monitor| monitor.is_finite() && *monitor != 0.0);
                let (sum, count) = valid.fold((0.0, 0u64), |(sum, count), monitor| (sum + monitor, count + 1));
                sum / count as f64
            }
        }
    }

    /// `g`, what a frame's weights are multiplied by; `None` where its monitor gives no finite
    /// positive ratio.
    pub fn scale(&self, monitor: f64, reference: f64) -> Option<f64> {
        let scale = if self.has_monitor() { monitor / reference } else { 1.0 };
        (scale.is_finite() && scale > 0.0).then_some(scale)
    }

    /// Intensity and, with an error model, error of a frame with these weights; `None` where it has
    /// no pattern, or a monitor that gives it none.
    pub fn pattern(&self, row: &Row, weights: &Weights, reference: f64) -> Option<(Vec<f32>, Option<Vec<f32>>)> {
        let scale = self.scale(row.monitor, reference).filter(|_| row.status == Status::Ok && row.has_sums())?;
        let intensity = self.quotients(&row.signal, &weights.norm, scale, |sum| sum);
        let error = |variance: &Vec<f64>| self.quotients(variance, &weights.norm, scale, f64::sqrt);
        Some((intensity, row.variance.as_ref().map(error)))
    }

    fn quotients(&self, sums: &[f64], norm: &[f64], scale: f64, of: impl Fn(f64) -> f64) -> Vec<f32> {
        let empty = match self.empty {
            Empty::Nan => NAN32,
            Empty::Zero => 0.0,
        };
        let quotient = |(&sum, &norm): (&f64, &f64)| {
            let value = (of(sum) / (norm * scale)) as f32;
            match (norm == 0.0, value.is_nan()) {
                (true, _) => empty,
                (false, true) => NAN32,
                (false, false) => value,
            }
        };
        sums.iter().zip(norm).map(quotient).collect()
    }
}
