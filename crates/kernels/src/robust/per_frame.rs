//! Reduces one decoded frame at a time, with any codec and pixel type: the reference for the
//! interleaved reduction.

use super::csr::{CsrMatrix, PixelsFromBin};
use super::frame_bin_sums::FrameBinSums;
use super::rejected::RejectedShares;
use super::{BinBuffers, RawPixels};
use crate::invalid_values::{InvalidRanges, TypedInvalidRanges, with_ranges};
use crate::pixel::Pixel;
use crate::plan::IntegrationPlan;
use crate::simd::{Kernel, Simd, prefetch_value};

/// A reduction of decoded frames, all to be reduced with one matrix.
pub(crate) struct PerFrameReduction<'a> {
    pub(super) matrix: &'a CsrMatrix,
    pub(super) plan: &'a IntegrationPlan,
    pub(super) rule: &'a TypedInvalidRanges,
    /// Frames as pixels in native byte order.
    pub(super) frames: &'a [&'a [u8]],
    pub(super) buffers: &'a mut BinBuffers,
    /// The result: one element per frame.
    pub(super) totals: &'a mut [FrameBinSums],
    /// The pixels that clipping rejects: one element per frame, or none if they are not wanted.
    pub(super) rejected: &'a mut [RejectedShares],
}

impl Kernel for PerFrameReduction<'_> {
    type Output = ();

    /// Computes the sums of all bins of each frame into `totals`.
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let reduction = self.matrix.reduction;
        let mut raw = Vec::new();
        for bin_index in 0..self.plan.nbins() {
            let bin = self.matrix.entries_of_bin(bin_index, self.plan);
            let indices = self.matrix.pixels_from_bin(bin_index);
            for (index, (frame, totals)) in self.frames.iter().zip(&mut *self.totals).enumerate() {
                let entries = bin.pixels.len();
                with_ranges!(self.rule, |rule| read_bin(frame, rule, indices, entries, &mut raw));
                let rejected = self.rejected.get_mut(index);
                let pixels = RawPixels { bin: &bin, raw: &raw };
                let sums = reduction.reduce(simd, &pixels, self.buffers, rejected);
                totals.set_bin(bin_index, sums);
            }
        }
    }
}

/// Replaces the contents of `raw` by the pixels of a bin, and by NaN where a pixel is invalid.
#[inline(always)]
fn read_bin<T: Pixel>(
    frame: &[u8],
    rule: &InvalidRanges<T>,
    indices: PixelsFromBin<'_>,
    entries: usize,
    raw: &mut Vec<f64>,
) {
    let read = |entry| T::read(&frame[indices.pixel(entry) * T::SIZE..]);
    raw.clear();
    raw.extend((0..entries).map(|entry| {
        prefetch_value(&frame[indices.pixel_ahead(entry) * T::SIZE]);
        read(entry).to_f64()
    }));
    if rule.may_contain_any(raw) {
        let is_invalid = |entry: &usize| rule.contains(read(*entry));
        (0..entries).filter(is_invalid).for_each(|entry| raw[entry] = f64::NAN);
    }
}
