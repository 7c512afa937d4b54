//! Quotients of sums by weights, bin by bin: the formulas of [`crate::Normalizer`], and their loops
//! over patterns, which are compiled for several instruction sets.

use multiversion::multiversion;

use crate::rounding::{NAN64, Rounding};

/// Division of sums by weights, and how the quotients are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BinQuotients {
    /// The factor of all weights, not zero.
    pub scale: f64,
    /// The value of a bin whose weight is zero.
    pub empty: f64,
    /// How values are stored.
    pub rounding: Rounding,
}

impl BinQuotients {
    /// Adds the quotient of each sum by its weight to a list.
    pub fn extend(self, list: &mut Vec<f32>, sums: &[f64], norm: &[f64]) {
        extend_with(list, sums, |values| divide(values, sums, norm, self));
    }

    /// Adds the quotient of the root of each sum by its weight to a list.
    pub fn extend_by_roots(self, list: &mut Vec<f32>, sums: &[f64], norm: &[f64]) {
        extend_with(list, sums, |values| divide_roots(values, sums, norm, self));
    }

    /// Adds the quotient of the root of each sum by the root of its weight to a list.
    pub fn extend_by_roots_of_both(self, list: &mut Vec<f32>, sums: &[f64], norm_sq: &[f64]) {
        extend_with(list, sums, |values| divide_roots_of_both(values, sums, norm_sq, self));
    }

    /// Returns `sum / (norm scale)`, the value of empty bins where `norm` is zero, and the one NaN for
    /// any.
    #[inline(always)]
    pub fn quotient(self, sum: f64, norm: f64) -> f64 {
        let quotient = sum / (norm * self.scale);
        let quotient = if quotient.is_nan() { NAN64 } else { quotient };
        if norm == 0.0 { self.empty } else { quotient }
    }
}

/// Adds as many values to a list as there are sums, and fills them.
fn extend_with(list: &mut Vec<f32>, sums: &[f64], fill: impl FnOnce(&mut [f32])) {
    let first = list.len();
    list.resize(first.saturating_add(sums.len()), 0.0);
    fill(&mut list[first..]);
}

/// Defines functions that fill a list by the quotients of what is made of sums and of norms.
macro_rules! divide {
    ($($name:ident: |$sum:ident, $norm:ident| ($dividend:expr, $divisor:expr);)*) => {$(
        #[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
        fn $name(values: &mut [f32], sums: &[f64], norms: &[f64], quotients: BinQuotients) {
            for (value, (&$sum, &$norm)) in values.iter_mut().zip(sums.iter().zip(norms)) {
                *value = quotients.rounding.round(quotients.quotient($dividend, $divisor));
            }
        }
    )*};
}

divide! {
    divide: |sum, norm| (sum, norm);
    divide_roots: |sum, norm| (sum.sqrt(), norm);
    divide_roots_of_both: |sum, norm_sq| (sum.sqrt(), norm_sq.sqrt());
}
