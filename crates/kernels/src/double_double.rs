//! [`DoubleDouble`], a number of twice the precision of f64, for sums from which terms are
//! subtracted again.

use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

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
    /// Returns the exact product of two doubles.
    #[inline(always)]
    pub(crate) fn two_product(a: f64, b: f64) -> DoubleDouble {
        let high = a * b;
        DoubleDouble { high, low: a.mul_add(b, -high) }
    }

    /// Rounds to the nearest double.
    pub(crate) fn to_f64(self) -> f64 {
        self.high
    }

    /// Returns the exact sum of two doubles. Requires `|high| >= |low|`.
    #[inline(always)]
    fn fast_two_sum(high: f64, low: f64) -> DoubleDouble {
        let sum = high + low;
        DoubleDouble { high: sum, low: low - (sum - high) }
    }
}

impl From<f64> for DoubleDouble {
    fn from(value: f64) -> DoubleDouble {
        DoubleDouble { high: value, low: 0. }
    }
}

impl Mul for DoubleDouble {
    type Output = DoubleDouble;

    #[inline(always)]
    fn mul(self, other: DoubleDouble) -> DoubleDouble {
        let exact = DoubleDouble::two_product(self.high, other.high);
        let cross = self.high * other.low + self.low * other.high;
        DoubleDouble::fast_two_sum(exact.high, exact.low + cross)
    }
}

impl AddAssign for DoubleDouble {
    #[inline(always)]
    fn add_assign(&mut self, term: DoubleDouble) {
        let sum = self.high + term.high;
        let shadow = sum - self.high;
        let error = (self.high - (sum - shadow)) + (term.high - shadow);
        *self = DoubleDouble::fast_two_sum(sum, error + self.low + term.low);
    }
}

/// Numbers side by side, for vector instructions: each operation is applied to all before the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoubleDoubles<const N: usize> {
    pub(crate) high: [f64; N],
    pub(crate) low: [f64; N],
}

/// Applies an operation to each pair of numbers.
#[inline(always)]
fn each<const N: usize>(op: fn(f64, f64) -> f64, a: [f64; N], b: [f64; N]) -> [f64; N] {
    let mut values = [0.; N];
    for index in 0..N {
        values[index] = op(a[index], b[index]);
    }
    values
}

impl<const N: usize> DoubleDoubles<N> {
    /// Returns the exact products of doubles.
    #[inline(always)]
    pub(crate) fn two_products(a: [f64; N], b: [f64; N]) -> Self {
        let high = each(f64::mul, a, b);
        let mut low = [0.; N];
        for index in 0..N {
            low[index] = a[index].mul_add(b[index], -high[index]);
        }
        Self { high, low }
    }

    /// Adds to each number a much smaller double.
    #[inline(always)]
    pub(crate) fn add_small(&mut self, small: [f64; N]) {
        let low = each(f64::add, self.low, small);
        let sum = each(f64::add, self.high, low);
        self.low = each(f64::sub, low, each(f64::sub, sum, self.high));
        self.high = sum;
    }

    /// Adds to each number a term, as [`DoubleDouble`] does.
    #[inline(always)]
    pub(crate) fn add(&mut self, term: &Self) {
        let sum = each(f64::add, self.high, term.high);
        let shadow = each(f64::sub, sum, self.high);
        let lost = each(f64::sub, self.high, each(f64::sub, sum, shadow));
        let error = each(f64::add, lost, each(f64::sub, term.high, shadow));
        let low = each(f64::add, each(f64::add, error, self.low), term.low);
        self.high = each(f64::add, sum, low);
        self.low = each(f64::sub, low, each(f64::sub, self.high, sum));
    }
}

impl SubAssign for DoubleDouble {
    #[inline(always)]
    fn sub_assign(&mut self, term: DoubleDouble) {
        *self += DoubleDouble { high: -term.high, low: -term.low };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_that_are_subtracted_again_leave_no_error() {
        let small = DoubleDouble::two_product(1e-7, 0.3);
        let mut sum = DoubleDouble::default();
        let large: Vec<DoubleDouble> = (1..10_000)
            .map(|i| DoubleDouble::two_product(i as f64 * 0.1, 1.0 / i as f64 + 3.))
            .collect();
        large.iter().for_each(|&t| sum += t);
        sum += small;
        large.iter().rev().for_each(|&t| sum -= t);
        // A sum in doubles would be off by 1e-2 relative here.
        assert!((sum.to_f64() / small.to_f64() - 1.).abs() < 1e-14, "{sum:?}");
    }

    #[test]
    fn a_product_of_products_keeps_the_bits_that_a_double_loses() {
        let third = DoubleDouble::two_product(1.0 / 3.0, 1.0);
        let mut square = third * third;
        square -= DoubleDouble::two_product(1.0 / 3.0, 1.0 / 3.0);
        assert!(square.to_f64().abs() < 1e-31);
    }
}
