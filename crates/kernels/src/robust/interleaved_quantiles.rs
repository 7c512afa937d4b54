//! Quantile means of a bin in 8 interleaved frames.
//!
//! Each frame takes the first of these ways that gives a result, and all give the same bytes:
//!
//! - `among_zeros`, where both quantiles fall on pixels without a photon.
//! - [`LaneBrackets`], which lists the pixels that the quantiles may fall on: by where those of the
//!   frames before were, else by a sample.
//! - All pixels of the bin, as `bin_buffer` does.

use super::BinSums;
use super::among_zeros::{OrderStart, Zeros, find_starts};
use super::bin_entries::BinEntries;
use super::by_plan::ByPlan;
use super::csr::CsrMatrix;
use super::lane_brackets::{LaneBrackets, MIN_PIXELS, PIXELS_PER_MASK, Quantile};
use super::list_bits::list_bits;
use super::partial_sums::Sum;
use super::quantile::{
    self, BinPixels, PixelTerm, PixelTerms, QuantileCut, QuantileRange, QuantileScratch,
};
use super::quantile_hints::{IntensityRange, QuantileHint, QuantilePlaces};
use super::row_terms::{LaneSums, ZeroNorm, sum_rows};
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::plan::IntegrationPlan;
use crate::simd::Simd;

/// Working memory of a thread.
#[derive(Default)]
pub(super) struct InterleavedQuantileScratch {
    hints: ByPlan<Vec<QuantileHint>>,
    brackets: LaneBrackets,
    /// Of the pixels that each quantile may fall on, in one frame.
    lists: [PixelLists; 2],
    /// The pixels between the quantiles: their index, and bits in groups of [`PIXELS_PER_MASK`].
    selected: Vec<u32>,
    selected_bits: Vec<u32>,
    quantile: QuantileScratch,
}

impl InterleavedQuantileScratch {
    /// Returns the bytes of memory that hints and brackets take at the most, for frames of a plan.
    pub(super) fn memory_bytes(matrix: &CsrMatrix, plan: &IntegrationPlan) -> usize {
        let hints = plan.nbins() * size_of::<QuantileHint>();
        ByPlan::<Vec<QuantileHint>>::memory_bytes(hints)
            + LaneBrackets::memory_bytes(matrix.largest_bin())
    }

    /// Takes the hints of each bin that the last frames of a plan gave; none if quantiles can't be
    /// bracketed.
    pub(super) fn take_hints(
        &mut self,
        matrix: &CsrMatrix,
        plan: &IntegrationPlan,
    ) -> Vec<QuantileHint> {
        if !matrix.has_f32_quantiles {
            return Vec::new();
        }
        let unknown = || vec![[IntensityRange::UNKNOWN; 2]; plan.nbins()];
        self.hints.take(plan.id()).unwrap_or_else(unknown)
    }

    /// Keeps the hints for the next frames of a plan.
    pub(super) fn keep_hints(&mut self, plan: &IntegrationPlan, hints: Vec<QuantileHint>) {
        if !hints.is_empty() {
            self.hints.keep(plan.id(), hints);
        }
    }
}

/// Memory for the intensities and norms of some pixels of a bin in one frame.
#[derive(Default)]
struct PixelLists {
    /// s / n.
    intensity: Vec<f64>,
    /// w n.
    norm: Vec<f64>,
}

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

/// The means of a bin.
struct LaneMeans {
    sums: [Option<BinSums>; INTERLEAVED_FRAMES],
    /// Where the quantiles are.
    places: [QuantilePlaces; 2],
}

impl InterleavedBin<'_> {
    /// Returns the sums over the pixels between two quantiles, in each lane that is wanted. Replaces the
    /// hint by one for the next frames. Without one, quantiles are not bracketed.
    #[inline(always)]
    pub(super) fn means_between_quantiles<S: Simd>(
        &self,
        simd: S,
        low: f64,
        high: f64,
        hint: Option<&mut QuantileHint>,
        scratch: &mut InterleavedQuantileScratch,
    ) -> [Option<BinSums>; INTERLEAVED_FRAMES] {
        let Self { bin, rows, is_wanted, .. } = *self;
        let range = QuantileRange::new(low, high, bin.full_sums.norm);
        let mut means =
            LaneMeans { sums: [None; INTERLEAVED_FRAMES], places: [QuantilePlaces::NONE; 2] };
        let is_all = range.has_no_lower() && range.has_no_upper();
        if let Some(hint) = hint
            && rows.len() >= MIN_PIXELS
            && !is_all
        {
            if scratch.brackets.follow(*hint, &range, is_wanted) {
                self.add_means(simd, &range, &mut means, scratch);
            }
            let is_missing = self.missing(&means);
            if is_missing.contains(&true) {
                scratch.brackets.estimate(&range, bin, rows, is_missing);
                self.add_means(simd, &range, &mut means, scratch);
            }
            *hint = means.places.map(|places| places.hint(rows.len(), bin.full_sums.norm));
        }
        if bin.zero_order.is_some() && self.missing(&means).contains(&true) {
            self.add_means_among_zeros(&range, &mut means, &mut scratch.quantile);
        }
        for lane in 0..INTERLEAVED_FRAMES {
            if self.is_missing(lane, &means) {
                means.sums[lane] = Some(self.mean_of_all(simd, lane, low, high, scratch));
            }
        }
        means.sums
    }

    /// Returns whether a lane has no mean yet, and one is wanted.
    #[inline(always)]
    fn is_missing(&self, lane: usize, means: &LaneMeans) -> bool {
        self.is_wanted[lane] && means.sums[lane].is_none()
    }

    /// Returns for all lanes whether they have no mean yet, and one is wanted.
    #[inline(always)]
    fn missing(&self, means: &LaneMeans) -> [bool; INTERLEAVED_FRAMES] {
        std::array::from_fn(|lane| self.is_missing(lane, means))
    }

    /// Computes missing means from the pixels within and between the brackets of the quantiles, and
    /// from pixels without a photon if there may be some. A lane stays without a mean if a quantile
    /// is not within its bracket.
    #[inline(always)]
    fn add_means<S: Simd>(
        &self,
        simd: S,
        range: &QuantileRange,
        means: &mut LaneMeans,
        scratch: &mut InterleavedQuantileScratch,
    ) {
        if self.bin.zero_order.is_some() && scratch.brackets.any_reaches_zero() {
            self.add_means_among_zeros(range, means, &mut scratch.quantile);
        }
        if !self.missing(means).contains(&true) {
            return;
        }
        for lane in 0..INTERLEAVED_FRAMES {
            if !self.is_missing(lane, means) {
                scratch.brackets.skip(lane);
            }
        }
        scratch.brackets.split(self.bin, self.norms, self.rows);
        for lane in 0..INTERLEAVED_FRAMES {
            if self.is_missing(lane, means) {
                let places = &mut means.places;
                means.sums[lane] = self.mean_within_brackets(simd, lane, range, places, scratch);
            }
        }
    }

    /// Computes the missing means of the lanes whose quantiles fall on pixels without a photon.
    #[inline(always)]
    fn add_means_among_zeros(
        &self,
        range: &QuantileRange,
        means: &mut LaneMeans,
        scratch: &mut QuantileScratch,
    ) {
        let Self { bin, rows, norms, .. } = *self;
        let zero_norms: LaneSums = sum_rows(rows, &ZeroNorm { norms });
        let starts: [OrderStart; INTERLEAVED_FRAMES] =
            find_starts(range, bin, rows, norms, &zero_norms);
        for lane in 0..INTERLEAVED_FRAMES {
            if !self.is_missing(lane, means) {
                continue;
            }
            let zeros = Zeros {
                bin: &BinLane { bin, rows, lane },
                norms,
                entries: bin,
                norm: zero_norms[lane],
                start: starts[lane],
                is_zero: |entry: usize| rows[entry][lane] == 0,
            };
            means.sums[lane] = zeros.mean_between_quantiles(range, scratch);
            if means.sums[lane].is_some() {
                for places in &mut means.places {
                    places.add_known(0.);
                }
            }
        }
    }

    /// Computes the mean of a lane from the pixels within and between its brackets, or `None` if a
    /// quantile is not within. Adds the quantiles to `places`.
    #[inline(always)]
    fn mean_within_brackets<S: Simd>(
        &self,
        simd: S,
        lane: usize,
        range: &QuantileRange,
        places: &mut [QuantilePlaces; 2],
        scratch: &mut InterleavedQuantileScratch,
    ) -> Option<BinSums> {
        let InterleavedQuantileScratch {
            brackets, lists, selected, selected_bits, quantile, ..
        } = scratch;
        let pixels = &BinLane { bin: self.bin, rows: self.rows, lane };
        let parts = [Quantile::Lower, Quantile::Upper]
            .map(|quantile| PartOfLane { lane: pixels, entries: brackets.within(quantile, lane) });
        let between = brackets.between(lane);
        let [lower_lists, upper_lists] = lists;
        let within_lower = parts[0].load(self.norms, lower_lists);
        // Where both quantiles have one bracket, the second part is the first.
        let within_upper = match &between {
            Some(_) => &parts[1].load(self.norms, upper_lists),
            None => &within_lower,
        };
        let norms = [simd.run(Sum(within_lower.norm)), simd.run(Sum(within_upper.norm))];
        let others = [Quantile::Lower, Quantile::Upper]
            .map(|quantile| brackets.others(quantile, lane, norms));
        let mut find =
            |which: Quantile, within: &BinPixels<'_, _>, reaches: &dyn Fn(f64) -> bool| {
                let others = &others[which as usize];
                let cut = quantile::find_cut_among(simd, within, others, reaches, quantile)?;
                places[which as usize].add(cut.intensity, cut.norm_up_to, others);
                Some(cut)
            };
        let (mut lower, mut upper) = (None, None);
        if !range.has_no_lower() {
            lower = Some(find(Quantile::Lower, &within_lower, &|norm| range.reaches_low(norm))?);
        }
        let is_median = |cut: &QuantileCut, rounding| {
            !range.has_no_upper() && range.is_median_at(cut.norm_up_to + rounding)
        };
        let rounding = others[0].rounding;
        if let Some(cut) = lower.filter(|cut| is_median(cut, rounding)) {
            if !is_median(&cut, -rounding) {
                return None;
            }
            places[1].add(cut.intensity, cut.norm_up_to, &others[0]);
            let median = within_lower.bin.entry(cut.index);
            return Some(quantile::sum_selected(pixels, &[median]));
        }
        if !range.has_no_upper() {
            upper = Some(find(Quantile::Upper, within_upper, &|norm| range.reaches_high(norm))?);
        }
        match between {
            None => {
                within_lower.select(simd, lower, upper, selected);
                selected.iter_mut().for_each(|index| *index = within_lower.bin.entry(*index));
            }
            Some(between) => {
                selected_bits.clear();
                selected_bits.extend(between);
                let parts = [(&within_lower, lower, None), (within_upper, None, upper)];
                select_with_parts(simd, parts, selected_bits, selected);
            }
        }
        Some(quantile::sum_selected(pixels, selected))
    }

    /// Computes the mean of a lane from all its pixels.
    #[inline(always)]
    fn mean_of_all<S: Simd>(
        &self,
        simd: S,
        lane: usize,
        low: f64,
        high: f64,
        scratch: &mut InterleavedQuantileScratch,
    ) -> BinSums {
        let Self { bin, rows, norms, .. } = *self;
        let InterleavedQuantileScratch {
            lists: [PixelLists { intensity, .. }, _], quantile, ..
        } = scratch;
        let lane = BinLane { bin, rows, lane };
        lane.intensities_into(intensity);
        let pixels = BinPixels { intensity, norm: norms, bin: &lane };
        quantile::mean_between_quantiles(simd, &pixels, Some(bin.full_sums), low, high, quantile)
    }
}

/// Replaces the contents of `selected` by the pixels of a bin that are set in `bits`, in groups of
/// [`PIXELS_PER_MASK`], and those of each part from its lower quantile to its upper one. Sets the
/// latter in `bits`, too.
#[inline(always)]
fn select_with_parts<S: Simd>(
    simd: S,
    parts: [(&BinPixels<'_, PartOfLane<'_>>, Option<QuantileCut>, Option<QuantileCut>); 2],
    bits: &mut [u32],
    selected: &mut Vec<u32>,
) {
    for (pixels, lower, upper) in parts {
        pixels.select(simd, lower, upper, selected);
        for &index in &*selected {
            let entry = pixels.bin.entry(index) as usize;
            bits[entry / PIXELS_PER_MASK] |= 1 << (entry % PIXELS_PER_MASK);
        }
    }
    selected.clear();
    for (number, &bits) in bits.iter().enumerate() {
        list_bits(bits.into(), number * PIXELS_PER_MASK, selected);
    }
}

/// The pixels of a bin in one frame.
struct BinLane<'a> {
    bin: &'a BinEntries<'a>,
    rows: &'a [[u16; INTERLEAVED_FRAMES]],
    lane: usize,
}

impl BinLane<'_> {
    /// Replaces the contents of `intensity` by s / n of the pixels.
    #[inline(always)]
    fn intensities_into(&self, intensity: &mut Vec<f64>) {
        let BinLane { bin, rows, lane } = *self;
        intensity.resize(rows.len(), 0.);
        match bin.dark {
            None => {
                for ((intensity, row), norm) in intensity.iter_mut().zip(rows).zip(bin.norms) {
                    *intensity = f64::from(row[lane]) / norm;
                }
            }
            Some(dark) => {
                let darks = bin.norms.iter().zip(dark);
                for ((intensity, row), (norm, dark)) in intensity.iter_mut().zip(rows).zip(darks) {
                    *intensity = (f64::from(row[lane]) - dark) / norm;
                }
            }
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
struct PartOfLane<'a> {
    lane: &'a BinLane<'a>,
    /// The index of each pixel in the bin.
    entries: &'a [u32],
}

impl PartOfLane<'_> {
    /// Returns the index in the bin of a pixel of the part.
    #[inline(always)]
    fn entry(&self, index: u32) -> u32 {
        self.entries[index as usize]
    }

    /// Returns the pixels with their intensities and norms, for which `lists` is the memory. `norms`
    /// has w n of all pixels of the bin.
    #[inline(always)]
    fn load<'l>(&'l self, norms: &[f64], lists: &'l mut PixelLists) -> BinPixels<'l, Self> {
        let BinLane { bin, rows, lane } = *self.lane;
        let entries = self.entries.iter().map(|&entry| entry as usize);
        lists.norm.clear();
        lists.norm.extend(entries.clone().map(|entry| bin.norms[entry]));
        lists.intensity.clear();
        lists.intensity.extend(entries.clone().map(|entry| f64::from(rows[entry][lane])));
        for (intensity, norm) in lists.intensity.iter_mut().zip(&lists.norm) {
            *intensity /= norm;
        }
        for (norm, entry) in lists.norm.iter_mut().zip(entries) {
            *norm = norms[entry];
        }
        BinPixels { intensity: &lists.intensity, norm: &lists.norm, bin: self }
    }
}

impl PixelTerms for PartOfLane<'_> {
    #[inline(always)]
    fn term(&self, index: usize) -> PixelTerm {
        self.lane.term(self.entry(index as u32) as usize)
    }
}
