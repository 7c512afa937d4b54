//! A natural logarithm that gives the same bits on every processor and OpenCL device.
//!
//! It uses additions, multiplications and divisions only, which IEEE 754 rounds the same
//! everywhere; the `ln` of a math library may differ in the last bit. `opencl/csr.cl` has the same
//! algorithm.

use std::f64::consts::{LN_2, SQRT_2};

/// Number of terms of the series. The first omitted term is below 2⁻⁵⁵ of the sum.
const SERIES_TERMS: u32 = 11;

/// Returns ln x of a finite x ≥ 1, accurate to a few units in the last place.
///
/// x = 2ᵏ m with m between √½ and √2, and ln m = 2 artanh f = 2 (f + f³/3 + f⁵/5 + …) with f = (m -
/// 1) / (m + 1).
#[inline(always)]
pub(super) fn ln(x: f64) -> f64 {
    let mut exponent = (x.to_bits() >> 52) as i32 - 1023;
    let mut m = f64::from_bits(x.to_bits() & (u64::MAX >> 12) | 1f64.to_bits());
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let f = (m - 1.) / (m + 1.);
    let square = f * f;
    let mut series = 0.;
    for term in (0..SERIES_TERMS).rev() {
        series = series * square + 1. / f64::from(2 * term + 1);
    }
    f64::from(exponent) * LN_2 + 2. * f * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_logarithm() {
        assert_eq!(ln(1.), 0.);
        for i in 1..200_000 {
            let x = 1. + f64::from(i) * f64::from(i) * 0.000_37;
            assert!(
                (ln(x) - x.ln()).abs() <= 4. * f64::EPSILON * x.ln(),
                "{x}: {:e}, not {:e}",
                ln(x),
                x.ln()
            );
        }
        assert!((ln(f64::MAX) / f64::MAX.ln() - 1.).abs() < 1e-15);
    }
}
