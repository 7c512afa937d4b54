//! Frames that are decoded whole, bin by bin: any codec and pixel type.

use super::bin_buffer::BinBuffer;
use super::csr::{CsrMatrix, FrameBinSums};
use crate::invalid_values::InvalidRanges;
use crate::pixel::Pixel;
use crate::plan::IntegrationPlan;
use crate::simd::SimdBackend;

/// Frames decoded whole, and what is done to them.
pub(crate) struct PerFrameReduction<'a, T> {
    pub(super) by_bin: &'a CsrMatrix,
    pub(super) plan: &'a IntegrationPlan,
    pub(super) rule: &'a InvalidRanges<T>,
    /// Native pixels.
    pub(super) frames: &'a [&'a [u8]],
    pub(super) buffer: &'a mut BinBuffer,
    pub(super) totals: &'a mut [FrameBinSums],
}

impl<T: Pixel> PerFrameReduction<'_, T> {
    /// The sums of all bins of each frame.
    #[inline(always)]
    pub(crate) fn reduce<S: SimdBackend>(self, steps: S) {
        let reduction = self.by_bin.reduction;
        let mut raw = Vec::new();
        for nth in 0..self.plan.nbins() {
            let bin = self.by_bin.entries_of_bin(nth, self.plan);
            for (frame, totals) in self.frames.iter().zip(&mut *self.totals) {
                raw.clear();
                for &pixel in bin.pixels {
                    raw.push(T::read(&frame[pixel as usize * T::SIZE..]));
                }
                totals.set_bin(nth, reduction.reduce_raw(steps, &bin, &raw, self.rule, self.buffer));
            }
        }
    }
}
