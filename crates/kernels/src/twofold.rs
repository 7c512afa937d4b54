//! Sums kept as two doubles, so that taking terms out again leaves no trace of them.

use std::ops::{AddAssign, Mul, SubAssign};

/// An unevaluated sum `high + low` of two doubles, some 106 bits.
///
/// The sums of a plan over all its pixels are kept so: a frame that invalidates pixels has their terms subtracted, and
/// the remainder is as exact as a sum over the remaining pixels, even where nearly all of a bin is gone.
/// Error-free transformations after Dekker (1971) and Knuth (The Art of Computer Programming 2, 4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Twofold {
    high: f64,
    low: f64,
}

impl Twofold {
    /// The product of two doubles, exactly.
    #[inline(always)]
    pub(crate) fn product(a: f64, b: f64) -> Twofold {
        let high = a * b;
        Twofold { high, low: a.mul_add(b, -high) }
    }

    /// The nearest double.
    pub(crate) fn value(self) -> f64 {
        self.high
    }

    #[inline(always)]
    fn normalized(high: f64, low: f64) -> Twofold {
        let sum = high + low;
        Twofold { high: sum, low: low - (sum - high) }
    }
}

impl From<f64> for Twofold {
    fn from(value: f64) -> Twofold {
        Twofold { high: value, low: 0. }
    }
}

impl Mul for Twofold {
    type Output = Twofold;

    #[inline(always)]
    fn mul(self, other: Twofold) -> Twofold {
        let exact = Twofold::product(self.high, other.high);
        let cross = self.high * other.low + self.low * other.high;
        Twofold::normalized(exact.high, exact.low + cross)
    }
}

impl AddAssign for Twofold {
    #[inline(always)]
    fn add_assign(&mut self, term: Twofold) {
        let sum = self.high + term.high;
        let shadow = sum - self.high;
        let error = (self.high - (sum - shadow)) + (term.high - shadow);
        *self = Twofold::normalized(sum, error + self.low + term.low);
    }
}

impl SubAssign for Twofold {
    #[inline(always)]
    fn sub_assign(&mut self, term: Twofold) {
        *self += Twofold { high: -term.high, low: -term.low };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_can_be_taken_out_without_a_trace() {
        let small = Twofold::product(1e-7, 0.3);
        let mut sum = Twofold::default();
        let large: Vec<Twofold> = (1..10_000).map(|i| Twofold::product(i as f64 * 0.1, 1.0 / i as f64 + 3.)).collect();
        large.iter().for_each(|&t| sum += t);
        sum += small;
        large.iter().rev().for_each(|&t| sum -= t);
        // A sum in doubles would be off by 1e-2 relative here.
        assert!((sum.value() / small.value() - 1.).abs() < 1e-14, "{sum:?}");
    }

    #[test]
    fn a_product_of_products_keeps_what_a_double_would_lose() {
        let third = Twofold::product(1.0 / 3.0, 1.0);
        let mut square = third * third;
        square -= Twofold::product(1.0 / 3.0, 1.0 / 3.0);
        assert!(square.value().abs() < 1e-31);
    }
}
