//! Median of many frames in each bin, and the scatter of such medians.
//!
//! Let σ be the median of the frames' photon errors ([`crate::variance`]). The median of n normally
//! distributed values scatters by s = σ √(π/2 / (n + k)), where k = π/2 - 1 for odd n (Kendall and
//! Stuart, *The Advanced Theory of Statistics*, § 14), and k is about 1.39 - 1 / 2n for even n,
//! where two values share the middle. Because σ is a median, too, a single outlier affects neither
//! the value nor its error.
//!
//! Counts are integers, and so are sums of few counts if pixels are not split; the median then
//! falls on a step of height h. The number of values that equal the median gives the density there,
//! and thereby h. A normally distributed value that is rounded to such steps scatters by √(s² +
//! h²/12) (Sheppard's correction), and if s is less than 0.28 h, on average over all positions
//! between two steps, by √(s h / √π).
//!
//! Median and error are computed from the patterns as they are stored, in f32, so that they can be
//! computed for a final file without sums, too.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::ops::Range;

use crate::output::OutputError;
use crate::output::average::AveragePattern;
use crate::output::frame_source::{FrameSource, OutputFrame};
use crate::variance::PhotonVariance;
use crate::{BinWeights, Normalizer};

/// Maximum memory for the frames of one median. If they need more, the bins are processed in
/// several blocks.
const MOST_BYTES: usize = 1 << 29;

/// Ratio of scatter to step height below which Sheppard's correction does not apply.
const COARSE: f64 = 0.282;

/// Values of several frames in one bin.
#[derive(Clone, Default)]
struct Bin {
    values: Vec<f32>,
    /// Photon error of each value.
    errors: Vec<f32>,
    /// Sum of the errors that a single photon would have in each frame.
    photon_errors: f64,
}

/// Returns the median of a range of frames, which are read once per block of bins.
///
/// # Errors
/// Fails as [`FrameSource::read_frame`] does.
pub(super) fn median(
    range: Range<u64>,
    frames: &mut dyn FrameSource,
    bins: usize,
    normalizer: &Normalizer,
) -> Result<AveragePattern, OutputError> {
    let empty = normalizer.empty_value();
    let mut pattern = AveragePattern {
        frames: 0,
        intensity: vec![empty; bins],
        errors: normalizer.has_errors().then(|| vec![empty; bins]),
    };
    let count = range.end.saturating_sub(range.start) as usize;
    let width = crate::row_blocks::rows_in::<[f32; 2]>(MOST_BYTES, count).min(bins.max(1));
    for from in (0..bins).step_by(width) {
        let block = from..bins.min(from.saturating_add(width));
        let mut values = vec![Bin::default(); block.len()];
        pattern.frames = 0;
        for frame in range.clone() {
            let output_frame = frames.read_frame(frame as usize)?;
            let is_there = collect(&output_frame, frames, &block, &mut values, normalizer);
            pattern.frames = pattern.frames.saturating_add(u64::from(is_there));
        }
        for (place, bin) in block.zip(&mut values) {
            let Some(middle) = middle(&mut bin.values) else { continue };
            pattern.intensity[place] = middle.value;
            if let (Some(errors), Some(error)) =
                (&mut pattern.errors, self::middle(&mut bin.errors))
            {
                errors[place] = bin.error(&middle, error.value, normalizer);
            }
        }
    }
    if pattern.frames == 0 {
        return Ok(AveragePattern::of_no_frames(bins, normalizer.has_errors()));
    }
    Ok(pattern)
}

/// Adds the values of a frame to a block of bins, and returns whether the frame has a pattern.
fn collect(
    output_frame: &OutputFrame,
    frames: &dyn FrameSource,
    block: &Range<usize>,
    bins: &mut [Bin],
    normalizer: &Normalizer,
) -> bool {
    let Some(pattern) = &output_frame.pattern else { return false };
    let shared = frames.shared_weights();
    let own = match (&output_frame.sums, &output_frame.weight_override) {
        (Some(row), _) => frames.weights(row),
        (None, Some(own)) => own,
        (None, None) => shared,
    };
    let errors = normalizer
        .has_errors()
        .then(|| errors_by_counts(output_frame, pattern, own, shared, normalizer));
    for (bin, place) in bins.iter_mut().zip(block.clone()) {
        let value = pattern.0[place];
        // The recipe's value for empty bins is not a measurement.
        if own.norm[place] == 0.0 || value.is_nan() {
            continue;
        }
        bin.values.push(value);
        if let Some((errors, photon_errors)) = &errors {
            bin.errors.push(errors[place] as f32);
            bin.photon_errors += photon_errors[place];
        }
    }
    true
}

/// Returns the photon error of each bin of a frame, and the error of a single photon in each bin.
fn errors_by_counts(
    output_frame: &OutputFrame,
    pattern: &crate::normalize::Pattern,
    own: &BinWeights,
    shared: &BinWeights,
    normalizer: &Normalizer,
) -> (Vec<f64>, Vec<f64>) {
    let mut counted = PhotonVariance::new(own.norm.len());
    match &output_frame.counted {
        Some((of_members, members)) => counted.add_members(of_members, *members),
        None => normalizer.add_counted(pattern, output_frame.scale, own, shared, &mut counted),
    }
    let (variance, photon) = counted.bins();
    let errors = |variance: &[f64]| {
        let mut errors = Vec::with_capacity(variance.len());
        let (norms, scale) = ([&own.norm[..], &own.norm_sq], output_frame.scale);
        normalizer.extend_by_errors(&mut errors, variance, norms, scale, |error| error);
        errors
    };
    (errors(variance), errors(photon))
}

impl Bin {
    /// Returns the error of the median. `typical` is the median of the values' errors.
    fn error(&self, middle: &Middle, typical: f64, normalizer: &Normalizer) -> f64 {
        let count = self.values.len();
        let photon = if normalizer.variance_rule().has_floor() {
            self.photon_errors / count as f64
        } else {
            0.0
        };
        match normalizer.is_sem() {
            // The minimum is one photon in all frames together, as in other averages.
            true => (typical * scatter(count, middle.ties)).max(photon / count as f64),
            // The standard deviation of a pixel does not depend on the number of frames.
            false => typical.max(photon / (count as f64).sqrt()),
        }
    }
}

/// Median of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Middle {
    value: f64,
    /// Number of values that equal the median (the upper one of two middle values), at least 1.
    ties: usize,
}

/// Returns the median; `None` if there are no values.
fn middle(values: &mut [f32]) -> Option<Middle> {
    let (half, is_even) = (values.len() / 2, values.len().is_multiple_of(2));
    if values.is_empty() {
        return None;
    }
    let (below, upper, above) = values.select_nth_unstable_by(half, f32::total_cmp);
    let equal = |others: &[f32]| others.iter().filter(|other| *other == upper).count();
    let ties = equal(below).saturating_add(equal(above)).saturating_add(1);
    let lower = below.iter().copied().max_by(f32::total_cmp).filter(|_| is_even);
    let upper = f64::from(*upper);
    let value = lower.map_or(upper, |lower| (f64::from(lower) + upper) / 2.0);
    Some(Middle { value, ties })
}

/// Returns the scatter of the median of `count` values with an error of 1, of which `ties` are
/// equal to the median.
fn scatter(count: usize, ties: usize) -> f64 {
    if count < 2 {
        return 1.0;
    }
    let number = count as f64;
    let more = if count.is_multiple_of(2) { 1.39 - 0.5 / number } else { FRAC_PI_2 - 1.0 };
    let variance = FRAC_PI_2 / (number + more);
    let step = TAU.sqrt() * ties.saturating_sub(1) as f64 / (number - 1.0);
    let rounded = if variance.sqrt() < COARSE * step {
        variance.sqrt() * step / PI.sqrt()
    } else {
        variance + step * step / 12.0
    };
    rounded.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_the_middle_of_two() {
        let middle =
            |values: &[f32]| middle(&mut values.to_vec()).map(|middle| (middle.value, middle.ties));
        assert_eq!(
            [&[][..], &[3.0], &[4.0, 1.0], &[9.0, 1.0, 2.0], &[2.0, 2.0, 1.0, 2.0]].map(middle),
            [None, Some((3.0, 1)), Some((2.5, 1)), Some((2.0, 1)), Some((2.0, 3))]
        );
        assert_eq!(middle(&[7.0, -1.0, 5.0, 5.5, -3.0, 100.0]), Some((5.25, 1)));
    }

    /// Pseudo-random numbers.
    struct Draws(u64);

    impl Draws {
        fn uniform(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        /// Draws from a normal distribution (Box and Muller's transformation).
        fn normal(&mut self) -> f32 {
            ((-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()) as f32
        }

        fn photons(&mut self, mean: f64) -> f32 {
            let (mut count, mut product, limit) = (0.0, self.uniform(), (-mean).exp());
            while product > limit {
                count += 1.0;
                product *= self.uniform();
            }
            count
        }
    }

    /// Returns the ratio of the stated error to the observed scatter of medians of `count` drawn
    /// values.
    fn stated_over_observed(
        count: usize,
        error: impl Fn(f32) -> f64,
        mut draw: impl FnMut() -> f32,
    ) -> f64 {
        let draws = 2000;
        let (mut stated, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for _ in 0..draws {
            let mut values: Vec<f32> = (0..count).map(|_| draw()).collect();
            let mut errors: Vec<f32> = values.iter().map(|value| error(*value) as f32).collect();
            let (middle, typical) =
                (middle(&mut values).unwrap(), self::middle(&mut errors).unwrap().value);
            stated += (typical * scatter(count, middle.ties)).powi(2);
            sum += middle.value;
            squares += middle.value.powi(2);
        }
        let draws = f64::from(draws);
        (stated / draws / (squares / draws - (sum / draws).powi(2))).sqrt()
    }

    #[test]
    fn the_error_of_a_median_matches_the_scatter_for_normal_values() {
        let mut draws = Draws(0x9e37_79b9_7f4a_7c15);
        for count in [1, 2, 3, 4, 5, 6, 7, 10, 11, 40, 101] {
            let ratio = stated_over_observed(count, |_| 1.0, || draws.normal());
            assert!((0.96..1.04).contains(&ratio), "{count} frames: stated over observed {ratio}");
        }
    }

    #[test]
    fn the_error_of_a_median_matches_the_scatter_for_few_photons() {
        let mut draws = Draws(0x9e37_79b9_7f4a_7c15);
        for count in [5, 12, 100] {
            for mean in [2.0, 5.0, 30.0] {
                // Averaged over positions between two steps.
                let ratios = (0..8).map(|place| {
                    let mean = mean + f64::from(place) / 8.0;
                    stated_over_observed(
                        count,
                        |value| f64::from(value).sqrt(),
                        || draws.photons(mean),
                    )
                });
                let ratios: Vec<f64> = ratios.collect();
                let squares: f64 = ratios.iter().map(|ratio| ratio.powi(-2)).sum::<f64>() / 8.0;
                let ratio = squares.powf(-0.5);
                assert!(
                    (0.9..1.1).contains(&ratio),
                    "{count} frames of {mean} photons: stated over observed {ratio}"
                );
            }
        }
    }
}
