//! [`StillAxis`]: whether the motor of an axis stood still, so that all frames lie on one line of it.

use super::MAX_DEVIATION;

/// Largest distance from the line, as a fraction of the positions, that is due to their rounding.
const MAX_ROUNDING: f64 = 1e-12;

/// Largest distance from the line by noise, in steps of the other axis, of which the units may differ.
const MAX_NOISE: f64 = 0.1;

/// Largest such distance where frames are too few to be sure that it is noise.
const MAX_NOISE_OF_FEW: f64 = 0.01;

/// Largest distance from the line by a drift, in steps of the other axis, which has the same units.
const MAX_DRIFT: f64 = 0.01;

/// Number of frames from which on noise is told from motion.
const MIN_FRAMES: usize = 12;

/// Largest distance in frames at which positions are compared. Over longer periods, neighbours are
/// alike.
const MAX_LAG: usize = 64;

/// By how many standard deviations positions some frames apart differ less than noise would, of an
/// axis that moved.
const MIN_SIGNIFICANCE: f64 = 3.5;

/// By how many of them positions of fewer frames do, which are compared at fewer distances.
const MIN_SIGNIFICANCE_OF_FEW: f64 = 2.5;

/// Largest mean difference of positions some frames apart, as a fraction of that of all pairs, of an
/// axis that moved.
const MAX_REPETITION: f64 = 0.6;

/// The positions of an axis, as those of a motor that stood still.
///
/// A line has no neighbours, and thus no step by which positions may differ. They may differ by as
/// much as those of the other axis, if these are in the same units: cells are as high as wide.
/// Otherwise, the numbers may differ by any factor, such as 0.01 mm and 1 degree, and less is due to
/// noise. Positions that are like those of some frames before are not noise: the motor moved to and
/// fro, or far, while the other one moved a bit.
pub(super) struct StillAxis {
    /// Largest distance from the mean.
    deviation: f64,
    /// Distance from the mean that is due to rounding.
    rounding: f64,
    /// Largest distance from the mean in steps of the other axis.
    limit: f64,
}

impl StillAxis {
    /// Looks at the positions of an axis, in the order of frames. `same_units` is true if both axes
    /// are known to have the same units.
    pub(super) fn new(values: &[f64], same_units: bool) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let largest = |of: fn(f64, f64) -> f64| {
            values.iter().map(|value| of(*value, mean).abs()).fold(0.0, f64::max)
        };
        let is_few = values.len() < MIN_FRAMES;
        let significance = if is_few { MIN_SIGNIFICANCE_OF_FEW } else { MIN_SIGNIFICANCE };
        let limit = match (repeats(values, significance), same_units) {
            (true, true) => MAX_DRIFT,
            (true, false) => 0.0,
            (false, true) => MAX_DEVIATION,
            (false, false) if is_few => MAX_NOISE_OF_FEW,
            (false, false) => MAX_NOISE,
        };
        Self {
            deviation: largest(|value, mean| value - mean),
            rounding: MAX_ROUNDING * largest(|value, _| value),
            limit,
        }
    }

    /// Returns whether the frames may lie on lines that are `step` apart: on a single one if that is
    /// `None`. `other_step` is that of the other axis.
    pub(super) fn agrees(&self, step: Option<f64>, other_step: Option<f64>) -> bool {
        let limit = other_step.map_or(0.0, |step| self.limit * step);
        step.is_some() || self.deviation <= limit.max(self.rounding)
    }
}

/// Returns whether positions are more like those of a number of frames before than noise would be,
/// by `significance` standard deviations.
fn repeats(values: &[f64], significance: f64) -> bool {
    let [typical, spread] = differences_of_pairs(values);
    // At least a third of the frames are compared.
    (1..=MAX_LAG.min(values.len().saturating_mul(2) / 3)).any(|lag| {
        let pairs = values.iter().zip(values.iter().skip(lag));
        let (sum, count) = pairs
            .fold((0.0, 0.0), |(sum, count), (one, next)| (sum + (next - one).abs(), count + 1.0));
        let limit = typical - significance * spread / f64::sqrt(count);
        sum / count < limit.min(MAX_REPETITION * typical)
    })
}

/// Returns mean and standard deviation of the differences of all pairs of values.
fn differences_of_pairs(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    // The k-th value is larger than k others, and smaller than the rest.
    let sum: f64 = sorted
        .iter()
        .enumerate()
        .map(|(smaller, value)| (2.0 * smaller as f64 - count + 1.0) * value)
        .sum();
    let mean = 2.0 * sum / (count * (count - 1.0));
    let middle = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    // Of two numbers, the mean square of the difference is twice their variance.
    let mean_square = 2.0 * squares / (count - 1.0);
    [mean, (mean_square - mean * mean).max(0.0).sqrt()]
}
