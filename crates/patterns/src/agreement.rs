//! Compares results of the same recipe but for rounding. Versions of azpipe, and processors of
//! another kind, may add the same numbers in another order.

use crate::normalize::Pattern;
use crate::{BinWeights, FrameRow, PatternAxes, SharedBins};

/// Largest difference of sums, weights and positions, as a share of the greater value.
const OF_VALUE: f64 = 1e-9;
/// Largest difference, as a share of the largest value of the list: sums of values that cancel each
/// other keep their rounding errors.
const OF_LARGEST: f64 = 1e-12;
/// Largest difference of patterns, which are stored in single precision, as a share of the greater value.
const OF_PATTERN_VALUE: f64 = 1e-6;
/// Largest difference of patterns, as a share of the largest value.
const OF_PATTERN_LARGEST: f64 = 1e-7;

impl SharedBins {
    /// Returns whether axes and weights agree, so that frames of both may be in one final file.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.axes.agrees_with(&other.axes) && self.weights.agrees_with(&other.weights)
    }
}

impl PatternAxes {
    /// Returns whether axes have the same quantities and units, and centres that agree.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.iter().count() == other.iter().count()
            && self.iter().zip(other.iter()).all(|(one, other)| {
                (&one.name, &one.units) == (&other.name, &other.units)
                    && agree(&one.centers, &other.centers)
            })
    }
}

impl BinWeights {
    fn agrees_with(&self, other: &Self) -> bool {
        agree(&self.norm, &other.norm)
            && agree(&self.norm_sq, &other.norm_sq)
            && agree(&self.count, &other.count)
    }
}

impl FrameRow {
    /// Returns whether two rows of a frame agree. `stored_digest` and `sparse` are not compared.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        (self.frame, self.status) == (other.frame, other.status)
            && agree(&[self.monitor], &[other.monitor])
            && agree(&self.signal, &other.signal)
            && both(self.variance.as_deref(), other.variance.as_deref(), agree)
            && both(
                self.weight_override.as_deref(),
                other.weight_override.as_deref(),
                BinWeights::agrees_with,
            )
    }
}

/// Returns whether two patterns of a frame agree.
pub(crate) fn patterns_agree(one: &Pattern, other: &Pattern) -> bool {
    let widen = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
    let agree = |one: &[f32], other: &[f32]| {
        agree_within(&widen(one), &widen(other), OF_PATTERN_VALUE, OF_PATTERN_LARGEST)
    };
    agree(&one.0, &other.0) && both(one.1.as_deref(), other.1.as_deref(), agree)
}

fn both<T: ?Sized>(one: Option<&T>, other: Option<&T>, agree: impl Fn(&T, &T) -> bool) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => agree(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn agree(one: &[f64], other: &[f64]) -> bool {
    agree_within(one, other, OF_VALUE, OF_LARGEST)
}

fn agree_within(one: &[f64], other: &[f64], of_value: f64, of_largest: f64) -> bool {
    let is_equal = |one: f64, other: f64| one == other || (one.is_nan() && other.is_nan());
    let pairs = || one.iter().copied().zip(other.iter().copied());
    if one.len() != other.len() {
        return false;
    }
    // Mostly they are equal to the bit.
    if pairs().all(|(one, other)| is_equal(one, other)) {
        return true;
    }
    let finite = one.iter().chain(other).filter(|value| value.is_finite());
    let largest = finite.fold(0.0_f64, |largest, value| largest.max(value.abs()));
    pairs().all(|(one, other)| {
        let bound = of_value * one.abs().max(other.abs()) + of_largest * largest;
        is_equal(one, other) || (bound.is_finite() && (one - other).abs() <= bound)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_no_difference_and_another_pixel_is_one() {
        let values = [0.0, 1.0, 1e-3, -4e5, f64::NAN, 5e8];
        let with = |at: usize, value: f64| {
            let mut other = values;
            other[at] = value;
            agree(&values, &other)
        };
        assert!(agree(&values, &values));
        assert!(with(1, 1.0 + 1e-12) && with(0, 1e-5) && with(5, 5e8 + 0.4));
        assert!(!with(1, 2.0) && !with(2, 2e-3) && !with(5, 5e8 + 2.0));
        assert!(!with(4, 0.0) && !with(1, f64::NAN) && !with(1, f64::INFINITY));
        assert!(!agree(&values, &values[1..]));
    }
}
