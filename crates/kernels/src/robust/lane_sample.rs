//! [`LaneSample`], some pixels of a bin in 8 interleaved frames, which tell where to look for a
//! quantile.

use super::bin_entries::BinEntries;
use super::lane_sort::{LaneNumbers, sort_lanes};
use super::tile_lanes::INTERLEAVED_FRAMES;

/// The largest number of pixels in a sample, a power of two; of small bins it is less.
const MAX_SAMPLE: usize = 256;
/// Number of pixels of a bin for each in the sample, at least.
const PIXELS_PER_SAMPLE: usize = 4;

/// A quantile's rank deviates from that in the sample by less than so many standard deviations of a
/// median's rank, nearly always: a sixth more than three, because weights differ.
pub(super) const LARGEST_DEVIATION: f64 = 3.5;

/// A sample of the pixels of a bin, sorted by s / n in each frame.
#[derive(Default)]
pub(super) struct LaneSample {
    intensities: Vec<LaneNumbers>,
}

impl LaneSample {
    /// Replaces the sample by one of a bin's pixels.
    #[inline(always)]
    pub(super) fn take(&mut self, bin: &BinEntries<'_>, rows: &[[u16; INTERLEAVED_FRAMES]]) {
        let size = 1 << (rows.len() / PIXELS_PER_SAMPLE).clamp(1, MAX_SAMPLE).ilog2();
        self.intensities.resize(size, [0.; INTERLEAVED_FRAMES]);
        for (number, sampled) in self.intensities.iter_mut().enumerate() {
            let entry = (2 * number + 1) * rows.len() / (2 * size);
            let norm = bin.norms[entry] as f32;
            for (intensity, &raw) in sampled.iter_mut().zip(&rows[entry]) {
                *intensity = bin.corrected(raw.into()) as f32 / norm;
            }
        }
        sort_lanes(&mut self.intensities);
    }

    /// Returns the number of pixels in the sample.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.intensities.len()
    }

    /// Returns the intensities that bracket a rank in the sample: so many standard deviations of a
    /// median's rank away from it.
    #[inline(always)]
    pub(super) fn bracket(&self, rank: usize, deviations: f64) -> [LaneNumbers; 2] {
        let margin = (deviations * 0.5 * (self.size() as f64).sqrt()) as usize;
        let low = rank.checked_sub(margin).map(|rank| self.intensities[rank]);
        let high = self.intensities.get(rank + margin).copied();
        [
            low.unwrap_or([f32::NEG_INFINITY; INTERLEAVED_FRAMES]),
            high.unwrap_or([f32::INFINITY; INTERLEAVED_FRAMES]),
        ]
    }
}
