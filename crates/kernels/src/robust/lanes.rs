//! Sums in an order that vector registers of any width keep: term `i` is added to partial sum `i % 16`, and at the end
//! partial sum `i` takes that of `i + 8`, then of `i + 4`, `i + 2`, `i + 1`. On OpenCL devices a partial sum is a lane's
//! (`opencl/by_bin.cl`).

const LANES: usize = 16;

/// Σ f(aᵢ).
#[inline(always)]
pub(crate) fn sum(a: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    sum_of_all(a, |&a| f(a))
}

/// The same of any list.
#[inline(always)]
pub(crate) fn sum_of_all<T>(a: &[T], f: impl Fn(&T) -> f64) -> f64 {
    let mut sums = [0.; LANES];
    let (whole, rest) = a.as_chunks::<LANES>();
    for a in whole {
        for lane in 0..LANES {
            sums[lane] += f(&a[lane]);
        }
    }
    for (sum, a) in sums.iter_mut().zip(rest) {
        *sum += f(a);
    }
    total(sums)
}

/// Σ f(aᵢ, bᵢ) of two lists of one length.
#[inline(always)]
pub(crate) fn sum_of_both(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> f64 {
    let mut sums = [0.; LANES];
    let ((whole_a, rest_a), (whole_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in whole_a.iter().zip(whole_b) {
        for lane in 0..LANES {
            sums[lane] += f(a[lane], b[lane]);
        }
    }
    for (sum, (&a, &b)) in sums.iter_mut().zip(rest_a.iter().zip(rest_b)) {
        *sum += f(a, b);
    }
    total(sums)
}

#[inline(always)]
pub(super) fn total(mut sums: [f64; LANES]) -> f64 {
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
        let partial = |lane: usize| terms.iter().skip(lane).step_by(16).fold(0., |sum, term| sum + term);
        let mut expected: Vec<f64> = (0..16).map(partial).collect();
        for half in [8, 4, 2, 1] {
            expected = (0..half).map(|lane| expected[lane] + expected[lane + half]).collect();
        }
        assert_eq!(sum(&terms, |x| x).to_bits(), expected[0].to_bits());
        assert_eq!(sum_of_both(&terms, &terms, |x, _| x).to_bits(), expected[0].to_bits());
        assert_eq!(sum(&[], |x| x), 0.);
    }
}
