//! Quantile means where both quantiles fall on pixels without a photon, as in sparse frames.
//!
//! The order of such pixels does not depend on the frame: their s is 0, so w² v and w n order them.
//! It is found once per bin. Then the pixels between the quantiles are those at which the sum of w n
//! in that order passes the quantiles, and no other pixel has to be looked at.

use super::BinSums;
use super::bin_entries::BinEntries;
use super::quantile::{PixelTerms, QuantileRange, QuantileScratch, sum_selected};
use super::tile_lanes::INTERLEAVED_FRAMES;

/// A place in the order of a bin's entries, at the lower quantile or before it.
#[derive(Clone, Copy, Default)]
pub(super) struct OrderStart {
    position: usize,
    /// Σ w n of the pixels without a photon before it.
    norm_below: f64,
}

/// The pixels without a photon of one bin of one frame, of which all pixels are valid and none is
/// negative.
pub(super) struct Zeros<'a, B, Z> {
    pub(super) bin: &'a B,
    /// w n of all pixels.
    pub(super) norms: &'a [f64],
    pub(super) entries: &'a BinEntries<'a>,
    /// Σ w n of the pixels without a photon.
    pub(super) norm: f64,
    /// Where in the order of [`BinEntries::entries_if_zero`] to begin.
    pub(super) start: OrderStart,
    /// Returns whether a pixel has no photon.
    pub(super) is_zero: Z,
}

impl<B: PixelTerms, Z: Fn(usize) -> bool> Zeros<'_, B, Z> {
    /// Returns the sums over the pixels between two quantiles, as
    /// [`super::quantile::mean_between_quantiles`] does, or `None` if the upper quantile falls on a
    /// pixel with photons.
    #[inline(always)]
    pub(super) fn mean_between_quantiles(
        &self,
        range: &QuantileRange,
        scratch: &mut QuantileScratch,
    ) -> Option<BinSums> {
        if range.has_no_upper() || !range.reaches_high(self.norm) {
            return None;
        }
        let selected = scratch.clear_selected();
        let mut norm_up_to = self.start.norm_below;
        for (_, entry) in self.entries.entries_if_zero(self.start.position) {
            if !(self.is_zero)(entry) {
                continue;
            }
            norm_up_to += self.norms[entry];
            if range.has_no_lower() || range.reaches_low(norm_up_to) {
                selected.push(entry as u32);
            }
            if range.reaches_high(norm_up_to) {
                break;
            }
        }
        selected.sort_unstable();
        (!selected.is_empty()).then(|| sum_selected(self.bin, selected))
    }
}

/// Finds the lower quantile in all lanes at once: for each, the place of the pixel at it.
///
/// `zero_norms` has Σ w n of the pixels without a photon. A lane whose quantiles are not among these
/// starts at the first pixel.
#[inline(always)]
pub(super) fn find_starts(
    range: &QuantileRange,
    entries: &BinEntries<'_>,
    rows: &[[u16; INTERLEAVED_FRAMES]],
    norms: &[f64],
    zero_norms: &[f64; INTERLEAVED_FRAMES],
) -> [OrderStart; INTERLEAVED_FRAMES] {
    let mut starts = [OrderStart::default(); INTERLEAVED_FRAMES];
    if range.has_no_lower() || range.has_no_upper() {
        return starts;
    }
    let mut limits = zero_norms.map(|norm| match range.reaches_high(norm) {
        true => range.lower_limit(),
        false => f64::INFINITY,
    });
    let mut left = limits.iter().filter(|limit| limit.is_finite()).count();
    if left == 0 {
        return starts;
    }
    let mut sums = [0.; INTERLEAVED_FRAMES];
    for (position, entry) in entries.entries_if_zero(0) {
        let (row, norm, before) = (&rows[entry], norms[entry], sums);
        for lane in 0..INTERLEAVED_FRAMES {
            sums[lane] += if row[lane] == 0 { norm } else { 0. };
        }
        let reached =
            (0..INTERLEAVED_FRAMES).fold(false, |any, lane| any | (sums[lane] >= limits[lane]));
        if reached {
            for lane in 0..INTERLEAVED_FRAMES {
                if sums[lane] >= limits[lane] {
                    starts[lane] = OrderStart { position, norm_below: before[lane] };
                    limits[lane] = f64::INFINITY;
                    left -= 1;
                }
            }
            if left == 0 {
                break;
            }
        }
    }
    starts
}
