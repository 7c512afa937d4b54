//! Variances of sums of counts: the photon variance, minimum variances, and the scatter of medians.
//!
//! pyFAI gives each pixel of each frame a variance of max(counts, 1), and parts hold the sums V of
//! these. If a frame has less than about one photon per pixel, most of V comes from this minimum:
//! √V is then 4 times the true scatter at 0.05 counts per pixel, and 30 times at 0.001. The true
//! variance, here called *photon variance*, follows from the sum S itself. Photons arrive
//! independently, so with the fraction w of a pixel that falls in the bin,
//!
//! > U = S · Σ w² / Σ w, and one photon adds r = Σ w² / Σ w, with Σ w² = W₂ (C / W)² and Σ w = C
//!
//! as the expected value, and exactly if pixels are not split; C is the number of pixels, W and W₂
//! are the norms. U is limited to the range from V − Σ w² (every pixel had a photon) to V (no pixel
//! had less than one), where V of patterns that are rounded to few bits may be half a step too
//! large: of sparse frames, V and Σ w² are nearly equal, and their difference would be that of the
//! rounding. In unweighted means, w holds the flat field, and r C is less than Σ w² where that is
//! uneven, so that their limit is V - 2 r C: the sensitivities of pixels may differ by as much as
//! their mean. If the pixels of a bin have a mean of [`FLOOR_FREE_COUNTS`]
//! counts or more, the minimum plays no part and U is V itself. If a dark was subtracted from the
//! counts, S is too small, by a sum that parts do not hold: U is then V, too.

use std::borrow::Cow;

use recipe::{ErrorFloor, ErrorMeasure, Mean, MedianError, Quantiles, Recipe};

use crate::{BinWeights, FrameRow};

/// Mean counts per pixel from which on a pixel's minimum variance is ignored, because it
/// contributes 1/16 of V at most.
const FLOOR_FREE_COUNTS: f64 = 16.0;

/// How many times r C the sum of squared weights of an unweighted mean may be.
const UNEVEN_WEIGHTS_SQ: f64 = 2.0;

/// Photon variances of each bin, summed over frames or members of a merged final file, and the sums
/// of one photon's variance.
#[derive(Clone, Debug)]
pub(crate) struct PhotonVariance {
    variance: Vec<f64>,
    photons: Vec<f64>,
}

impl PhotonVariance {
    /// Creates sums of zero.
    pub fn new(bins: usize) -> Self {
        Self { variance: vec![0.0; bins], photons: vec![0.0; bins] }
    }

    /// Returns the photon variances and the variances of one photon, bin by bin.
    pub fn bins(&self) -> (&[f64], &[f64]) {
        (&self.variance, &self.photons)
    }

    /// Adds the sums over the `members` members of one merged frame. One photon of the merged frame
    /// has the variance of one member's photon, averaged over the members.
    pub fn add_members(&mut self, other: &Self, members: usize) {
        self.variance.iter_mut().zip(&other.variance).for_each(|(sum, value)| *sum += value);
        self.photons
            .iter_mut()
            .zip(&other.photons)
            .for_each(|(sum, value)| *sum += value / members.max(1) as f64);
    }
}

/// Recipe's rule by which the variances of patterns follow from the variances of sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct VarianceRule {
    /// True if variances come from counted photons, and S is their sum. A dark that was subtracted
    /// is not in S, and its counts vary, too.
    counts_photons: bool,
    /// Part of the exposure in which a pixel is dead after a photon, for which counts were corrected.
    dead_part: f64,
    /// True if the pixels' weights hold their normalizations, as in an unweighted mean.
    is_unweighted: bool,
    floor: ErrorFloor,
    /// Factor by which the mean between quantiles scatters more than the mean of all pixels; `None`
    /// if errors are those of the remaining pixels.
    quantile_scatter: Option<f64>,
    /// Part by which V may be too large, because patterns are rounded to few bits.
    tolerance: f64,
}

impl VarianceRule {
    /// Creates the rule of a recipe.
    pub fn new(recipe: &Recipe) -> Self {
        // The scatter applies to the error of the mean, and not to the standard deviation of a
        // pixel.
        let scatter =
            recipe.median_error == Some(MedianError::Scatter) && recipe.error == ErrorMeasure::Sem;
        Self {
            counts_photons: recipe.error_model.is_counting_statistics() && recipe.dark.is_empty(),
            dead_part: recipe
                .dead_time
                .zip(recipe.exposure_time)
                .map_or(0.0, |(dead, exposure)| dead.get() / exposure.get()),
            is_unweighted: recipe.mean == Mean::Unweighted,
            floor: recipe.error_floor,
            quantile_scatter: recipe.median.filter(|_| scatter).map(quantile_scatter),
            // Half a step of an error, which is squared.
            tolerance: recipe.keep_bits.map_or(0.0, |bits| 1.0 / (1_u64 << bits) as f64),
        }
    }

    /// Returns the variance of each bin of a single frame. `own` are the weights of the pixels that
    /// were summed, `shared` the weights of all pixels that the recipe doesn't mask.
    pub fn frame_variance<'a>(
        &self,
        row: &'a FrameRow,
        own: &BinWeights,
        shared: &BinWeights,
    ) -> Option<Cow<'a, [f64]>> {
        let variance = row.variance.as_ref()?;
        if self.keeps_variances() {
            return Some(Cow::Borrowed(variance));
        }
        let bin_variance = |bin: usize| {
            let floored = match self.floor {
                ErrorFloor::Pixel => variance[bin],
                ErrorFloor::Bin => self
                    .poisson_variance(row, variance, own, bin)
                    .max(self.photon_variance(own, bin)),
                ErrorFloor::No => self.poisson_variance(row, variance, own, bin),
            };
            floored * self.quantile_factor(own, shared, bin)
        };
        Some((0..variance.len()).map(bin_variance).collect())
    }

    /// Adds the photon variances of a frame to `sums`.
    pub fn add_frame_variance(
        &self,
        row: &FrameRow,
        own: &BinWeights,
        shared: &BinWeights,
        sums: &mut PhotonVariance,
    ) {
        let Some(variance) = &row.variance else { return };
        for (bin, (sum, photon)) in sums.variance.iter_mut().zip(&mut sums.photons).enumerate() {
            let scatter = self.quantile_factor(own, shared, bin);
            *sum += self.poisson_variance(row, variance, own, bin) * scatter;
            *photon += self.photon_variance(own, bin) * scatter;
        }
    }

    /// Undoes what [`frame_variance`](Self::frame_variance) did for quantiles, with variances that
    /// were recomputed from a frame's pattern.
    pub fn remove_quantile_scatter(
        &self,
        variance: &mut [f64],
        own: &BinWeights,
        shared: &BinWeights,
    ) {
        let factor =
            |bin| Some(self.quantile_factor(own, shared, bin)).filter(|&factor| factor > 0.0);
        variance
            .iter_mut()
            .enumerate()
            .for_each(|(bin, variance)| *variance /= factor(bin).unwrap_or(1.0));
    }

    /// Returns whether variances have a minimum of one photon, per pixel or per bin.
    pub fn has_floor(&self) -> bool {
        self.counts_photons && self.floor != ErrorFloor::No
    }

    /// Returns whether the variance of a frame's bin is another than the sum over its pixels, as it
    /// is without a minimum per pixel.
    pub fn adjusts_bins(&self) -> bool {
        self.counts_photons && self.floor != ErrorFloor::Pixel
    }

    /// Returns whether [`frame_variance`](Self::frame_variance) gives the variances of a frame as they
    /// are.
    pub fn keeps_variances(&self) -> bool {
        self.quantile_scatter.is_none() && self.floor == ErrorFloor::Pixel
    }

    /// Returns the sums with their minimum: one photon per bin in all frames together.
    pub fn with_floor(&self, sums: &PhotonVariance, frames: u64) -> Vec<f64> {
        if !self.has_floor() {
            return sums.variance.clone();
        }
        let frames = frames.max(1) as f64;
        sums.variance
            .iter()
            .zip(&sums.photons)
            .map(|(sum, photon)| sum.max(photon / frames))
            .collect()
    }

    /// Returns the variance of a frame that is merged from several members. `all_pixels` is the sum
    /// of the members' variances in which each pixel has its minimum, and is returned if the recipe
    /// says so.
    pub fn merged_variance(
        &self,
        all_pixels: Vec<f64>,
        counted: &PhotonVariance,
        members: usize,
    ) -> Vec<f64> {
        let by_pixel = !self.counts_photons || self.floor == ErrorFloor::Pixel;
        if by_pixel && self.quantile_scatter.is_none() {
            all_pixels
        } else {
            self.with_floor(counted, members as u64)
        }
    }

    /// Returns the share of a frame's variance that comes from the minimum of each pixel; `None` if
    /// the recipe has no minimum per pixel.
    pub fn pixel_floor_share(&self, row: &FrameRow, own: &BinWeights) -> Option<f64> {
        let variance = row
            .variance
            .as_ref()
            .filter(|_| self.counts_photons && self.floor == ErrorFloor::Pixel)?;
        let all: f64 = variance.iter().sum();
        let counts: f64 =
            (0..variance.len()).map(|bin| self.poisson_variance(row, variance, own, bin)).sum();
        (all > 0.0).then_some(1.0 - counts / all)
    }

    /// Returns U, the photon variance of a bin.
    fn poisson_variance(
        &self,
        row: &FrameRow,
        variance: &[f64],
        own: &BinWeights,
        bin: usize,
    ) -> f64 {
        let (variance, signal, count) = (variance[bin], row.signal[bin], own.count[bin]);
        if !self.counts_photons || signal >= FLOOR_FREE_COUNTS * count {
            return variance;
        }
        let photon = self.photon_variance(own, bin);
        let weights_sq = if self.is_unweighted { UNEVEN_WEIGHTS_SQ } else { 1.0 };
        let least = variance * (1.0 - self.tolerance) - weights_sq * photon * count;
        // A corrected count x has the variance x (1 + r x), here that of the mean count.
        let corrected = 1.0 + self.dead_part * (signal / count).max(0.0);
        (signal * photon * corrected).max(least).max(0.0).min(variance)
    }

    /// Returns r, the variance of a bin that holds a single photon.
    fn photon_variance(&self, own: &BinWeights, bin: usize) -> f64 {
        let (norm, norm_sq, count) = (own.norm[bin], own.norm_sq[bin], own.count[bin]);
        if norm == 0.0 || !self.counts_photons { 0.0 } else { norm_sq * count / (norm * norm) }
    }

    /// Returns the factor that turns the variance of the pixels between the quantiles into the
    /// scatter of their mean.
    fn quantile_factor(&self, own: &BinWeights, shared: &BinWeights, bin: usize) -> f64 {
        let Some(scatter) = self.quantile_scatter else { return 1.0 };
        let (left, all) = (own.count[bin], shared.count[bin]);
        if all == 0.0 { 1.0 } else { scatter * left / all }
    }
}

/// Returns the variance of the mean between two quantiles of normally distributed values, divided
/// by the variance of the mean of all the values: π/2 for the median, 1 for the range from 0 to 100
/// %.
///
/// Values beyond a quantile count as the quantile itself. For N values of variance 1, the variance
/// is Var(clip(x, a, b)) / (p(b) - p(a))² / N (Stigler, The asymptotic distribution of the trimmed
/// mean, 1973), and p (1 - p) / φ(x)² / N if both quantiles are equal.
fn quantile_scatter(Quantiles { low, high }: Quantiles) -> f64 {
    // The median is computed as the limit of a narrow range; at 0 and 100 % a normal distribution
    // has no quantile.
    let (low, high) = (low / 100.0, high / 100.0);
    let width = (high - low).max(1e-3);
    let middle = f64::midpoint(low, high).clamp(width / 2.0, 1.0 - width / 2.0);
    let (from, to) = (middle - width / 2.0, middle + width / 2.0);
    // Steps of a normal distribution from -5 to 5, each with its relative probability.
    const STEPS: i32 = 50_000;
    let steps: Vec<(f64, f64)> = (-STEPS..=STEPS)
        .map(|step| f64::from(step) * 5.0 / f64::from(STEPS))
        .map(|value| (value, (-value * value / 2.0).exp()))
        .collect();
    let all: f64 = steps.iter().map(|(_, probability)| probability).sum();
    let quantile = |share: f64| {
        let mut below = 0.0;
        for (value, probability) in &steps {
            below += probability;
            if below >= share * all {
                return value
                    + (0.5 - (below - share * all) / probability) * 5.0 / f64::from(STEPS);
            }
        }
        5.0
    };
    let (least, most) = (quantile(from), quantile(to));
    let moment = |power: i32| {
        steps
            .iter()
            .map(|(value, probability)| value.clamp(least, most).powi(power) * probability)
            .sum::<f64>()
            / all
    };
    (moment(2) - moment(1).powi(2)) / (width * width)
}

#[cfg(test)]
mod tests;
