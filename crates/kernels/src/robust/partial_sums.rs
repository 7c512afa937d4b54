//! Sums in a fixed order that suits vector registers of any width.
//!
//! Term `i` is added to partial sum `i % 16`. At the end, partial sum `i + 8` is added to partial
//! sum `i`, then `i + 4`, `i + 2`, `i + 1`. On OpenCL devices each partial sum belongs to one lane
//! (`opencl/csr.cl`).

use crate::simd::{Kernel, Simd};

/// Number of partial sums.
pub(super) const PARTIAL_SUMS: usize = 16;

/// Returns Σ f(aᵢ).
#[inline(always)]
pub(crate) fn sum(a: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    sum_by(a, |&a| f(a))
}

/// Returns Σ f(aᵢ) over elements of any type, in the order of [`sum`].
#[inline(always)]
pub(crate) fn sum_by<T>(a: &[T], f: impl Fn(&T) -> f64) -> f64 {
    let mut sums = [0.; PARTIAL_SUMS];
    let (whole, rest) = a.as_chunks::<PARTIAL_SUMS>();
    for a in whole {
        for lane in 0..PARTIAL_SUMS {
            sums[lane] += f(&a[lane]);
        }
    }
    for (sum, a) in sums.iter_mut().zip(rest) {
        *sum += f(a);
    }
    add_partial_sums(sums)
}

/// Returns Σ f(aᵢ, bᵢ) over two lists of the same length.
#[inline(always)]
pub(crate) fn sum_pairs(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> f64 {
    let mut sums = [0.; PARTIAL_SUMS];
    let ((whole_a, rest_a), (whole_b, rest_b)) =
        (a.as_chunks::<PARTIAL_SUMS>(), b.as_chunks::<PARTIAL_SUMS>());
    for (a, b) in whole_a.iter().zip(whole_b) {
        for lane in 0..PARTIAL_SUMS {
            sums[lane] += f(a[lane], b[lane]);
        }
    }
    for (sum, (&a, &b)) in sums.iter_mut().zip(rest_a.iter().zip(rest_b)) {
        *sum += f(a, b);
    }
    add_partial_sums(sums)
}

/// Computes the sum of numbers with the processor's instruction set, for callers that aren't
/// compiled for it.
pub(super) struct Sum<'a>(pub(super) &'a [f64]);

impl Kernel for Sum<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f64 {
        sum(self.0, |number| number)
    }
}

/// Adds up the partial sums by halves.
#[inline(always)]
pub(super) fn add_partial_sums(mut sums: [f64; PARTIAL_SUMS]) -> f64 {
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_as_written() {
        let terms: Vec<f64> = (0..37).map(|i| 1. / f64::from(i + 1)).collect();
        let partial =
            |lane: usize| terms.iter().skip(lane).step_by(16).fold(0., |sum, term| sum + term);
        let mut expected: Vec<f64> = (0..16).map(partial).collect();
        for half in [8, 4, 2, 1] {
            expected = (0..half).map(|lane| expected[lane] + expected[lane + half]).collect();
        }
        assert_eq!(sum(&terms, |x| x).to_bits(), expected[0].to_bits());
        assert_eq!(sum_pairs(&terms, &terms, |x, _| x).to_bits(), expected[0].to_bits());
        assert_eq!(sum(&[], |x| x), 0.);
    }
}
