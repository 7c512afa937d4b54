//! [`DoubleDouble`], a number of twice the precision of f64, for sums from which terms are
//! subtracted again.

use std::ops::{AddAssign, SubAssign};

/// An unevaluated sum `high + low` of two doubles, with some 106 bits of mantissa.
///
/// The sums of a plan over all its pixels have this type. If a frame has invalid pixels, their
/// terms are subtracted, and the result is as exact as a sum over the other pixels, even in a bin
/// that loses nearly all of its pixels. Uses the error-free transformations of Dekker (1971) and
/// Knuth (The Art of Computer Programming 2, 4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct DoubleDouble {
    pub(crate) high: f64,
    pub(crate) low: f64,
}

impl DoubleDouble {
    /// Rounds to the nearest double.
    pub(crate) fn to_f64(self) -> f64 {
        self.high
    }

    /// Returns a sum of doubles, whose additions lost this error together. A sum that is smaller than the
    /// error, as terms of either sign may have, loses some bits of the error.
    #[inline(always)]
    pub(crate) fn from_sum(sum: f64, error: f64) -> DoubleDouble {
        DoubleDouble::fast_two_sum(sum, error)
    }

    /// Returns the exact sum of two doubles. Requires `|high| >= |low|`.
    #[inline(always)]
    fn fast_two_sum(high: f64, low: f64) -> DoubleDouble {
        let sum = high + low;
        DoubleDouble { high: sum, low: low - (sum - high) }
    }
}

impl AddAssign for DoubleDouble {
    #[inline(always)]
    fn add_assign(&mut self, term: DoubleDouble) {
        let [[sum], [error]] = two_sums([self.high], [term.high]);
        *self = DoubleDouble::fast_two_sum(sum, error + self.low + term.low);
    }
}

impl SubAssign for DoubleDouble {
    #[inline(always)]
    fn sub_assign(&mut self, term: DoubleDouble) {
        *self += DoubleDouble { high: -term.high, low: -term.low };
    }
}

/// Adds pairs of doubles side by side. Returns the rounded sums and their exact errors.
#[inline(always)]
pub(crate) fn two_sums<const N: usize>(a: [f64; N], b: [f64; N]) -> [[f64; N]; 2] {
    let sum = each(|a, b| a + b, a, b);
    let shadow = each(|sum, a| sum - a, sum, a);
    let of_a = each(|sum, shadow| sum - shadow, sum, shadow);
    let lost = [each(|a, of_a| a - of_a, a, of_a), each(|b, shadow| b - shadow, b, shadow)];
    [sum, each(|a, b| a + b, lost[0], lost[1])]
}

/// Applies an operation to each pair of numbers, all of them before the next operation: for vector
/// instructions.
#[inline(always)]
pub(crate) fn each<const N: usize>(
    op: impl Fn(f64, f64) -> f64,
    a: [f64; N],
    b: [f64; N],
) -> [f64; N] {
    let mut values = [0.; N];
    for index in 0..N {
        values[index] = op(a[index], b[index]);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_that_are_subtracted_again_leave_no_error() {
        let small = DoubleDouble::from_sum(1e-7 * 0.3, 0.);
        let mut sum = DoubleDouble::default();
        let large: Vec<DoubleDouble> = (1..10_000)
            .map(|i| DoubleDouble::from_sum(i as f64 * 0.1 * (1.0 / i as f64 + 3.), 0.))
            .collect();
        large.iter().for_each(|&t| sum += t);
        sum += small;
        large.iter().rev().for_each(|&t| sum -= t);
        // A sum in doubles would be off by 1e-2 relative here.
        assert!((sum.to_f64() / small.to_f64() - 1.).abs() < 1e-14, "{sum:?}");
    }

    #[test]
    fn a_sum_and_its_error_are_exact_whichever_is_larger() {
        for [a, b] in [[1., 1e-20], [1e-20, 1.], [0.1, 0.2], [3e15, -0.3], [1., -1.], [0., 0.]] {
            let [[sum], [error]] = two_sums([a], [b]);
            assert_eq!(sum, a + b);
            // Both are what is left of the other number's bits.
            let exact = if a.abs() < b.abs() { a - (sum - b) } else { b - (sum - a) };
            assert_eq!(error, exact, "{a} {b}");
        }
    }
}
