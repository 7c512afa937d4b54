//! [`InterleavedBin`], the pixels of a bin in 8 frames, [`BinLane`], those in one of them, and
//! [`PartOfLane`], some of those, among which quantiles are found.

use super::BinSums;
use super::bin_entries::BinEntries;
use super::lane_sample::LaneSample;
use super::partial_sums::Sum;
use super::quantile::{
    self, BinPixels, OtherPixels, PixelTerm, PixelTerms, QuantileCut, QuantileRange,
    QuantileScratch,
};
use super::quantile_hints::QuantilePlaces;
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::simd::Simd;

/// A bin in all frames, of which the means between two quantiles are computed.
pub(super) struct InterleavedBin<'a> {
    pub(super) bin: &'a BinEntries<'a>,
    /// The pixels: one row per entry, one element per frame.
    pub(super) rows: &'a [[u16; INTERLEAVED_FRAMES]],
    /// w n of the entries.
    pub(super) norms: &'a [f64],
    /// False for a lane that has no frame or overflowing pixels: its mean is not computed.
    pub(super) is_wanted: [bool; INTERLEAVED_FRAMES],
}

/// The pixels of a bin in one frame.
pub(super) struct BinLane<'a> {
    pub(super) bin: &'a BinEntries<'a>,
    /// The pixels: one row per entry, one element per frame.
    pub(super) rows: &'a [[u16; INTERLEAVED_FRAMES]],
    /// w n of the entries.
    pub(super) norms: &'a [f64],
    pub(super) lane: usize,
}

impl BinLane<'_> {
    /// Replaces the contents of `intensity` by s / n of the pixels.
    #[inline(always)]
    pub(super) fn intensities_into(&self, intensity: &mut Vec<f64>) {
        let BinLane { bin, rows, lane, .. } = *self;
        intensity.resize(rows.len(), 0.);
        for (intensity, row) in intensity.iter_mut().zip(rows) {
            *intensity = bin.corrected(f64::from(row[lane]));
        }
        for (intensity, dark) in intensity.iter_mut().zip(bin.dark.unwrap_or_default()) {
            *intensity -= dark;
        }
        for (intensity, norm) in intensity.iter_mut().zip(bin.norms) {
            *intensity /= norm;
        }
    }
}

impl PixelTerms for BinLane<'_> {
    #[inline(always)]
    fn term(&self, index: usize) -> PixelTerm {
        let raw = f64::from(self.rows[index][self.lane]);
        self.bin.term(index, raw)
    }
}

/// Some pixels of a bin in one frame.
pub(super) struct PartOfLane<'a> {
    pub(super) lane: &'a BinLane<'a>,
    /// The index of each pixel in the bin.
    pub(super) entries: &'a [u32],
}

/// Memory for the intensities and norms of some pixels of a bin in one frame.
#[derive(Default)]
pub(super) struct PixelLists {
    /// s / n.
    pub(super) intensity: Vec<f64>,
    /// w n.
    norm: Vec<f64>,
}

/// Memory to find quantiles in the parts of a lane.
#[derive(Default)]
pub(super) struct PartsScratch {
    /// Tells where to look for them.
    pub(super) sample: LaneSample,
    pub(super) lists: [PixelLists; 2],
    /// The pixels between the quantiles.
    pub(super) selected: Vec<u32>,
    pub(super) quantile: QuantileScratch,
}

impl PartOfLane<'_> {
    /// Returns the index in the bin of a pixel of the part.
    #[inline(always)]
    pub(super) fn entry(&self, index: u32) -> u32 {
        self.entries[index as usize]
    }

    /// Returns the pixels with their intensities and norms, for which `lists` is the memory.
    #[inline(always)]
    pub(super) fn load<'l>(&'l self, lists: &'l mut PixelLists) -> BinPixels<'l, Self> {
        let BinLane { bin, rows, norms, lane } = *self.lane;
        let entries = self.entries.iter().map(|&entry| entry as usize);
        lists.norm.clear();
        lists.norm.extend(entries.clone().map(|entry| bin.norms[entry]));
        lists.intensity.clear();
        let corrected = |entry: usize| bin.corrected(f64::from(rows[entry][lane]));
        lists.intensity.extend(entries.clone().map(corrected));
        for (intensity, norm) in lists.intensity.iter_mut().zip(&lists.norm) {
            *intensity /= norm;
        }
        for (norm, entry) in lists.norm.iter_mut().zip(entries) {
            *norm = norms[entry];
        }
        BinPixels { intensity: &lists.intensity, norm: &lists.norm, bin: self }
    }

    /// Computes the mean of the pixels between two quantiles that are both in this part, or `None` if
    /// one is not. Adds the quantiles to `places`. `others` returns what is known of the other
    /// pixels, given Σ w n of these, or nothing if a quantile is among the others.
    #[inline(always)]
    pub(super) fn mean<S: Simd>(
        &self,
        simd: S,
        others: impl FnOnce(f64) -> Option<OtherPixels>,
        range: &QuantileRange,
        places: &mut [QuantilePlaces; 2],
        scratch: &mut PartsScratch,
    ) -> Option<BinSums> {
        let PartsScratch { lists: [lists, _], selected, quantile, .. } = scratch;
        let within = self.load(lists);
        let others = &others(simd.run(Sum(within.norm)))?;
        let [place_of_lower, place_of_upper] = places;
        let lower = match range.has_no_lower() {
            true => None,
            false => {
                Some(find(simd, &within, others, Quantile::Lower, range, place_of_lower, quantile)?)
            }
        };
        let is_median = |cut: &QuantileCut, rounding| {
            !range.has_no_upper() && range.is_median_at(cut.norm_up_to + rounding)
        };
        if let Some(cut) = lower.filter(|cut| is_median(cut, others.rounding)) {
            if !is_median(&cut, -others.rounding) {
                return None;
            }
            place_of_upper.add(cut.intensity, cut.norm_up_to, others);
            return Some(quantile::sum_selected(self.lane, &[self.entry(cut.index)]));
        }
        let upper = match range.has_no_upper() {
            true => None,
            false => {
                Some(find(simd, &within, others, Quantile::Upper, range, place_of_upper, quantile)?)
            }
        };
        within.select(simd, lower, upper, selected);
        selected.iter_mut().for_each(|index| *index = self.entry(*index));
        Some(quantile::sum_selected(self.lane, selected))
    }
}

impl PixelTerms for PartOfLane<'_> {
    #[inline(always)]
    fn term(&self, index: usize) -> PixelTerm {
        self.lane.term(self.entry(index as u32) as usize)
    }
}

/// A quantile of a [`QuantileRange`].
#[derive(Clone, Copy)]
pub(super) enum Quantile {
    Lower,
    Upper,
}

/// Finds a quantile among the pixels of a part, or returns `None` if it is not there. Adds it to
/// `places`.
#[inline(always)]
pub(super) fn find<S: Simd>(
    simd: S,
    within: &BinPixels<'_, PartOfLane<'_>>,
    others: &OtherPixels,
    which: Quantile,
    range: &QuantileRange,
    places: &mut QuantilePlaces,
    scratch: &mut QuantileScratch,
) -> Option<QuantileCut> {
    let reaches = |norm| match which {
        Quantile::Lower => range.reaches_low(norm),
        Quantile::Upper => range.reaches_high(norm),
    };
    let cut = quantile::find_cut_among(simd, within, others, &reaches, scratch)?;
    places.add(cut.intensity, cut.norm_up_to, others);
    Some(cut)
}
