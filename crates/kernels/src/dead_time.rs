//! [`DeadTime`], which corrects counts for the time in which a pixel does not count.

use crate::InvalidValues;

/// The dead time of a pixel after each count, by the non-paralyzable model: counts that arrive in the
/// dead time are lost, and do not prolong it.
///
/// With r the dead time divided by the exposure time, a pixel of m counts was dead for the part r m of
/// the exposure. Its rate was that of the rest, so it stands for x = m / (1 - r m) counts
/// (Knoll, Radiation Detection and Measurement, chapter 4.VII). Counts of zero or less stay as they are.
///
/// The variance of m is smaller than m, because the dead time spaces counts evenly: it is x / (1 + r x)³
/// for many counts (J. W. Müller, Nucl. Instrum. Methods 112 (1973) 47-57). So that of x is x (1 + r x) =
/// m / (1 - r m)², and the relative error is that of m: 1 / √m.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeadTime {
    /// The dead time divided by the exposure time.
    ratio: f64,
}

impl DeadTime {
    /// The greatest part of the exposure in which a pixel may be dead. Pixels of more counts are
    /// invalid: the counts that they stand for depend more on the model than on what was counted.
    pub const MAX_DEAD_PART: f64 = 0.9;

    /// No dead time: counts are what they are.
    pub const ZERO: Self = Self { ratio: 0. };

    /// Makes the correction for a dead time and an exposure time in the same unit.
    ///
    /// # Panics
    /// If the dead time is negative, or the exposure time is not positive.
    pub fn new(dead_time: f64, exposure_time: f64) -> Self {
        assert!(dead_time >= 0. && exposure_time > 0., "{dead_time} of {exposure_time}");
        Self { ratio: dead_time / exposure_time }
    }

    /// Returns whether counts stay as they are.
    pub fn is_zero(self) -> bool {
        self.ratio == 0.
    }

    /// Returns the values of pixels that were dead for more than [`Self::MAX_DEAD_PART`] of the
    /// exposure.
    pub fn invalid_values(self) -> InvalidValues {
        if self.is_zero() {
            return InvalidValues::none();
        }
        let most = Self::MAX_DEAD_PART / self.ratio;
        // The conversion saturates.
        InvalidValues::from_integers([(most.floor() as i128).saturating_add(1)..=i128::MAX])
            .or(InvalidValues::from_reals([most.next_up()..=f64::MAX]))
    }

    /// Returns the counts that `counts` stand for. Those of [invalid](Self::invalid_values) values are
    /// finite, but have no meaning.
    #[inline(always)]
    pub fn correct(self, counts: f64) -> f64 {
        let live_part = 1. - self.ratio * counts.max(0.);
        counts / live_part.max(1. - Self::MAX_DEAD_PART)
    }

    /// Returns the counts that [`Self::correct`] corrects to a number: m = x / (1 + r x), and x itself if it
    /// is zero or less.
    #[inline(always)]
    pub(crate) fn counts_before(self, corrected: f64) -> f64 {
        corrected / (1. + self.ratio * corrected.max(0.))
    }

    /// Returns the variance of corrected counts: that of one photon at the least.
    #[inline(always)]
    pub fn poisson_variance(self, corrected: f64) -> f64 {
        let corrected = corrected.max(0.);
        (corrected * (1. + self.ratio * corrected)).max(1.)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_dead_time_counts_and_variances_are_the_same_bits() {
        for counts in [-7., -0.5, 0., 0.25, 1., 3., 65535., 4294967294., 1e300, f64::MAX] {
            assert_eq!(DeadTime::ZERO.correct(counts).to_bits(), f64::to_bits(counts));
            assert_eq!(DeadTime::ZERO.poisson_variance(counts), counts.max(1.));
        }
        assert_eq!(DeadTime::ZERO.invalid_values(), InvalidValues::none());
    }

    #[test]
    fn a_pixel_that_was_dead_half_of_the_time_stands_for_twice_its_counts() {
        let dead_time = DeadTime::new(1e-6, 1.);
        assert_eq!(dead_time.correct(500_000.), 1_000_000.);
        assert_eq!(dead_time.poisson_variance(1_000_000.), 2_000_000.);
        assert_eq!((dead_time.correct(-4.), dead_time.poisson_variance(-4.)), (-4., 1.));
    }

    #[test]
    fn pixels_that_were_nearly_always_dead_are_invalid() {
        let rule = DeadTime::new(1e-3, 1.).invalid_values();
        let integers = rule.for_type::<u32>();
        assert!(!integers.contains(900) && integers.contains(901) && integers.contains(u32::MAX));
        let reals = rule.for_type::<f32>();
        assert!(!reals.contains(899.9) && reals.contains(900.5) && !reals.contains(-1.));
        let none_in_type = DeadTime::new(1e-9, 1.).invalid_values();
        assert!(none_in_type.for_type::<u16>().ranges().is_empty());
    }

    /// The oracle of the formulas: a detector that is simulated photon by photon.
    #[test]
    fn mean_and_variance_are_those_of_simulated_detectors() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut interval = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            -(((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64).ln()
        };
        // Photons of an exposure of 1, and the part of it for which each makes the pixel dead.
        for (photons, ratio) in [(300., 1e-5), (300., 1e-3), (300., 3e-3), (1000., 2e-3)] {
            let dead_time = DeadTime::new(ratio, 1.);
            let exposures = 20_000;
            let (mut sum, mut sum_sq, mut variances) = (0., 0., 0.);
            for _ in 0..exposures {
                // The pixel may be dead as the exposure begins, as in a series of frames.
                let (mut time, mut live_from, mut counts) = (-0.1, -0.1, 0.);
                loop {
                    time += interval() / photons;
                    if time > 1. {
                        break;
                    }
                    if time >= live_from {
                        live_from = time + ratio;
                        counts += if time >= 0. { 1. } else { 0. };
                    }
                }
                let corrected = dead_time.correct(counts);
                sum += corrected;
                sum_sq += corrected * corrected;
                variances += dead_time.poisson_variance(corrected);
            }
            let n = f64::from(exposures);
            let (mean, expected_variance) = (sum / n, variances / n);
            let variance = sum_sq / n - mean * mean;
            // A mean of so many exposures is off by a hundredth of a standard deviation, and a variance
            // by a hundredth of itself; both have a bias of a count or two in hundreds.
            let off = [mean / photons, variance / expected_variance].map(|part| (part - 1.).abs());
            assert!(off[0] < 0.005 && off[1] < 0.04, "{photons} {ratio}: {off:?}");
        }
    }
}
