//! The angle of a point, in arithmetic that becomes vector instructions and gives the same bytes on
//! every machine; [`f64::atan2`] calls the system's library, point by point.

use std::f64::consts::FRAC_PI_4;

/// The difference of π/4 and the double [`FRAC_PI_4`].
const FRAC_PI_4_REST: f64 = 3.061616997868383e-17;

/// tan(π/8), up to which the polynomial holds.
const TAN_PI_8: f64 = 0.41421356237309503;

/// The polynomial p of degree 10 in z = t², where atan(t) = t + t z p(z), the constant first: it
/// equals (atan(t)/t - 1)/z at the Chebyshev nodes between 0 and 1.0001 tan²(π/8). Its relative
/// error in atan(t) is below 8e-18.
#[rustfmt::skip]
const COEFFICIENTS: [f64; 11] = [
    -0.3333333333333333, 0.19999999999995516, -0.14285714284665682, 0.11111111015187018,
    -0.0909090457530649, 0.07692183125376892, -0.06664510525508936, 0.05858140904866328,
    -0.050854078345894844, 0.03923044778479309, -0.019175404711104935,
];

/// Returns the angle of the point (x, y) from the x axis, in radians within [-π, π], with a relative
/// error below 4e-16 unless |x| + |y| overflows. Signs of zero count, as for [`f64::atan2`]. NaN if a
/// coordinate is NaN or both are infinite.
#[inline(always)]
pub(crate) fn atan2(y: f64, x: f64) -> f64 {
    let (abs_y, abs_x) = (y.abs(), x.abs());
    // The angle to the nearer axis, whose tangent is at most 1: the quotient of these.
    let is_steep = abs_y > abs_x;
    let (opposite, adjacent) = if is_steep { (abs_x, abs_y) } else { (abs_y, abs_x) };
    // Towards the diagonal, the angle from the diagonal, which is negative.
    let is_diagonal = opposite > TAN_PI_8 * adjacent;
    let numerator = if is_diagonal { opposite - adjacent } else { opposite };
    let denominator = if is_diagonal { opposite + adjacent } else { adjacent };
    let t = numerator / if denominator == 0.0 { 1.0 } else { denominator };
    let z = t * t;
    let mut polynomial = COEFFICIENTS[10];
    for coefficient in COEFFICIENTS[..10].iter().rev() {
        polynomial = polynomial * z + coefficient;
    }
    let angle = t + t * z * polynomial;
    // The axis or diagonal from which the angle is measured, in units of π/4, and its direction.
    let (mut origin, mut sign) = (if is_diagonal { 1.0 } else { 0.0 }, 1.0);
    (origin, sign) = if is_steep { (2.0 - origin, -sign) } else { (origin, sign) };
    (origin, sign) = if x.is_sign_negative() { (4.0 - origin, -sign) } else { (origin, sign) };
    // The product is exact: the last three bits of the double are 0.
    let total = origin * FRAC_PI_4 + (sign * angle + origin * FRAC_PI_4_REST);
    total.copysign(y)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{PI, TAU};

    use super::*;

    #[test]
    fn the_angle_is_that_of_the_standard_library() {
        let mut worst = 0.0f64;
        for step in 0..200_000 {
            // All directions, and all distances from tiny to huge.
            let direction = f64::from(step) * (TAU / 200_000.0) * 1.000_01 - PI;
            let radius = 10f64.powi(step % 41 - 20);
            let (y, x) = (radius * direction.sin(), radius * direction.cos());
            let expected = y.atan2(x);
            worst = worst.max(((atan2(y, x) - expected) / expected).abs());
        }
        assert!(worst < 4e-16 && worst > 0.0, "{worst:e}");
    }

    #[test]
    fn axes_are_exact_and_diagonals_and_their_neighbours_precise() {
        let values = [0.0, 1.0, 3.0, 1e-300, 1e300, TAN_PI_8, TAN_PI_8.next_up()];
        let signed: Vec<f64> = values.iter().flat_map(|value| [*value, -value]).collect();
        for &y in &signed {
            for &x in &signed {
                let (found, expected) = (atan2(y, x), y.atan2(x));
                let error = (found - expected).abs();
                let is_axis = y == 0.0 || x == 0.0;
                assert!(error <= if is_axis { 0.0 } else { 4e-16 * expected.abs() }, "{y} {x}");
                assert_eq!(found.is_sign_negative(), y.is_sign_negative(), "{y} {x}");
            }
        }
        assert_eq!(atan2(1.0, f64::INFINITY), 0.0);
        assert_eq!(atan2(f64::INFINITY, 1.0), PI / 2.0);
        assert!(atan2(f64::NAN, 1.0).is_nan() && atan2(1.0, f64::NAN).is_nan());
    }

    #[test]
    fn small_angles_keep_their_precision() {
        for exponent in -300..0 {
            let y = 1.7 * 10f64.powi(exponent);
            assert!((atan2(y, 1.0) - y.atan()).abs() <= 4e-16 * y, "{y}");
        }
    }
}
