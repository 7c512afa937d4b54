//! The pixels that sigma clipping rejects above the mean, such as those of single crystals' spots.
//!
//! Clipping itself keeps no list of what it drops. It records its steps, and the steps of a bin are
//! applied again to the bin's pixels, with the same operations and so with the same result.

use super::bin_entries::BinEntries;
use crate::invalid_values::InvalidRanges;
use crate::pixel::Pixel;
use crate::plan::IntegrationPlan;
use crate::rejected_pixels::RejectedPixels;

/// A frame may have rejected shares above the mean in one of so many matrix entries.
pub const MAX_REJECTED_DIVISOR: usize = 16;
/// A frame may always have so many rejected shares above the mean.
const MIN_LIMIT: usize = 4096;

/// A step of clipping: the pixels that are farther than `limit` from `mean` are dropped.
#[derive(Clone, Copy)]
pub(super) struct ClipStep {
    pub(super) mean: f64,
    pub(super) limit: f64,
}

impl ClipStep {
    /// Returns whether a pixel remains, given its w s and w n.
    #[inline(always)]
    pub(super) fn keeps(self, signal: f64, norm: f64) -> bool {
        (signal - self.mean * norm).abs() <= self.limit * norm.abs()
    }

    /// Returns whether s / n of a pixel is above the mean.
    #[inline(always)]
    pub(super) fn is_above(self, signal: f64, norm: f64) -> bool {
        let distance = signal - self.mean * norm;
        if norm < 0. { distance < 0. } else { distance > 0. }
    }
}

/// Returns how many shares above the mean a frame may have, for a matrix of `entries`.
pub(super) fn max_rejected(entries: usize) -> usize {
    (entries / MAX_REJECTED_DIVISOR).max(MIN_LIMIT)
}

/// The shares of a frame that were rejected in the bins so far.
pub(super) struct RejectedShares {
    /// The pixel of each share above the mean; at most one more than `limit`.
    above: Vec<u32>,
    limit: usize,
    /// The number of all shares.
    count: u64,
}

impl RejectedShares {
    pub(super) fn new(limit: usize) -> Self {
        Self { above: Vec::new(), limit, count: 0 }
    }

    /// Adds the pixels of a bin that one of its clipping's `steps` rejected. `raw` has one pixel per
    /// entry.
    #[inline(always)]
    pub(super) fn add_bin<T: Pixel>(
        &mut self,
        bin: &BinEntries<'_>,
        raw: &[T],
        rule: &InvalidRanges<T>,
        steps: &[ClipStep],
    ) {
        if steps.is_empty() {
            return;
        }
        for (entry, (&pixel, &raw)) in bin.pixels.iter().zip(raw).enumerate() {
            let signal = bin.signal(entry, raw.to_f64());
            let norm = bin.weight(entry) * bin.norms[entry];
            let Some(step) = steps.iter().find(|step| !step.keeps(signal, norm)) else { continue };
            if !rule.contains(raw) {
                self.add(pixel, step.is_above(signal, norm));
            }
        }
    }

    /// Adds a share that was rejected.
    #[inline(always)]
    pub(super) fn add(&mut self, pixel: u32, is_above: bool) {
        self.count += 1;
        if is_above && self.above.len() <= self.limit {
            self.above.push(pixel);
        }
    }

    /// Returns the pixels that all their bins rejected above the mean. `value` returns the value of
    /// a pixel.
    pub(super) fn into_pixels(
        mut self,
        plan: &IntegrationPlan,
        value: impl Fn(u32) -> f64,
    ) -> RejectedPixels {
        if self.above.len() > self.limit {
            return RejectedPixels::TooMany { shares: self.count };
        }
        self.above.sort_unstable();
        let matrix = plan.matrix.as_slices();
        let (mut pixels, mut written) = (Vec::new(), 0);
        for shares in self.above.chunk_by(|one, other| one == other) {
            if matrix.entries(shares[0] as usize).count() == shares.len() {
                pixels.push(shares[0]);
                written += shares.len() as u64;
            }
        }
        let values = pixels.iter().map(|&pixel| value(pixel)).collect();
        RejectedPixels::Few { pixels, values, other_shares: self.count - written }
    }
}
