//! The pixels that sigma clipping rejects above the mean, such as those of single crystals' spots.

use crate::plan::IntegrationPlan;
use crate::rejected_pixels::RejectedPixels;

/// A frame may have rejected shares above the mean in one of so many matrix entries.
pub const MAX_REJECTED_DIVISOR: usize = 16;
/// A frame may always have so many rejected shares above the mean.
const MIN_LIMIT: usize = 4096;

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
