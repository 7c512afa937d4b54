//! The mean of the pixels between two quantiles, as pyFAI's `medfilt1d_ng`.
//!
//! A quantile is found by selection, not by sorting all pixels: a sample brackets it, one pass
//! picks the pixels within the bracket, and only these candidates are partitioned.

use super::BinSums;
use super::partial_sums::{Sum, sum, sum_by, sum_pairs};
use crate::simd::{Kernel, Simd};

/// Fraction of a bin's norm by which rounding may shift a quantile. A pixel that near to the
/// quantile is at it.
const QUANTILE_TOLERANCE: f64 = 1e-12;

/// Minimum number of pixels for which a sample is taken. Fewer pixels are partitioned directly.
const MIN_SAMPLED_PIXELS: usize = 1024;
/// Number of pixels in a sample.
const SAMPLE_SIZE: usize = 128;
/// Number of sampled pixels on either side of the quantile that bracket it: three standard
/// deviations of its position.
const SAMPLE_MARGIN: usize = 17;

/// Working memory of a thread.
#[derive(Default)]
pub(crate) struct QuantileScratch {
    /// The pixels that the quantile may fall on.
    candidates: CandidatePixels,
    /// The next, smaller set of candidates.
    narrowed: CandidatePixels,
    entries: Vec<KeyedPixel>,
    lower: QuantileCut,
    upper: QuantileCut,
    selected: Vec<u32>,
    terms: Vec<PixelTerm>,
}

/// Some pixels of a bin, as parallel lists.
#[derive(Default)]
struct CandidatePixels {
    /// s / n.
    intensity: Vec<f64>,
    /// w n.
    norm: Vec<f64>,
    /// Index of each pixel in the bin.
    index: Vec<u32>,
}

/// A pixel of a bin with the key that it is ordered by.
#[derive(Clone, Copy, Debug)]
struct KeyedPixel {
    /// s / n, or among pixels of equal s / n: w s, then w² v, then w n.
    key: f64,
    /// w n.
    norm: f64,
    /// Index of the pixel in the bin.
    index: u32,
}

/// The contribution of a pixel to the sums of its bin.
#[derive(Clone, Copy)]
pub(super) struct PixelTerm {
    /// w s.
    pub(super) signal: f64,
    /// w² v.
    pub(super) variance: f64,
    /// w n.
    pub(super) norm: f64,
    /// w.
    pub(super) weight: f64,
}

/// The position of a quantile among the pixels of a bin, ordered by intensity.
#[derive(Default)]
struct QuantileCut {
    /// The intensity of the pixel at the quantile.
    intensity: f64,
    /// For each pixel of this intensity: -1 before the pixel at the quantile, 0 for that pixel, 1
    /// after it. The elements of other pixels have no meaning.
    side: Vec<i8>,
    /// Σ w n up to and including the pixel at the quantile.
    norm_up_to: f64,
}

/// Access to the contributions of the pixels of a bin.
pub(super) trait PixelTerms {
    /// Returns the contribution of the pixel at `index` in the bin.
    fn term(&self, index: usize) -> PixelTerm;
}

/// The pixels of a bin.
pub(super) struct BinPixels<'a, B> {
    /// s / n.
    pub(super) intensity: &'a [f64],
    /// w n.
    pub(super) norm: &'a [f64],
    /// The contributions to the sums.
    pub(super) bin: &'a B,
}

/// Returns the sums over the pixels between two quantiles, including the pixels at the quantiles.
///
/// Pixels of equal intensity are ordered by w s, w² v and w n, as pyFAI sorts its records.
/// `full_sums` has the weights of the whole bin, if they are known.
pub(super) fn mean_between_quantiles<S: Simd, B: PixelTerms>(
    simd: S,
    pixels: &BinPixels<'_, B>,
    full_sums: Option<BinSums>,
    low: f64,
    high: f64,
    scratch: &mut QuantileScratch,
) -> BinSums {
    let norm = full_sums.map_or_else(|| sum(pixels.norm, |norm| norm), |full_sums| full_sums.norm);
    let slack = QUANTILE_TOLERANCE * norm.abs();
    let reaches_low = |norm_up_to: f64| norm_up_to >= low * norm - slack;
    let reaches_high = |norm_up_to: f64| norm_up_to > high * norm + slack;
    let QuantileScratch { candidates, narrowed, entries, lower, upper, selected, terms } = scratch;
    let mut find = |cut: &mut QuantileCut, reaches: &dyn Fn(f64) -> bool| {
        let norm_below = candidates.narrow_to_quantile(simd, narrowed, pixels, norm, reaches);
        candidates.copy_to(entries);
        cut.find(pixels, entries, norm_below, reaches);
    };
    let (mut lower_cut, mut upper_cut) = (None, None);
    if low > 0. {
        find(lower, &reaches_low);
        lower_cut = Some(&*lower);
    }
    if high < 1. {
        // For a median, both quantiles are mostly at the same pixel.
        upper_cut = match lower_cut {
            Some(lower) if low == high && reaches_high(lower.norm_up_to) => lower_cut,
            _ => {
                find(upper, &reaches_high);
                Some(&*upper)
            }
        };
    }
    let bound = |cut: Option<&QuantileCut>, none: f64| cut.map_or(none, |cut| cut.intensity);
    let (from, to) = (bound(lower_cut, f64::NEG_INFINITY), bound(upper_cut, f64::INFINITY));
    simd.indices_within(pixels.intensity, from, to, selected);
    selected.retain(|&index| {
        let (index, intensity) = (index as usize, pixels.intensity[index as usize]);
        lower_cut.is_none_or(|cut| intensity > cut.intensity || cut.side[index] >= 0)
            && upper_cut.is_none_or(|cut| intensity < cut.intensity || cut.side[index] <= 0)
    });
    terms.clear();
    terms.extend(selected.iter().map(|&index| pixels.bin.term(index as usize)));
    let sums = BinSums {
        signal: sum_by(terms, |term| term.signal),
        variance: sum_by(terms, |term| term.variance),
        norm: sum_by(terms, |term| term.norm),
        norm_sq: sum_by(terms, |term| term.norm * term.norm),
        count: sum_by(terms, |term| term.weight),
    };
    match full_sums {
        Some(full_sums) if lower_cut.is_none() && upper_cut.is_none() => {
            BinSums { signal: sums.signal, variance: sums.variance, ..full_sums }
        }
        _ => sums,
    }
}

impl CandidatePixels {
    /// Replaces the contents by candidates for the pixel at the quantile, and returns Σ w n of the
    /// pixels below them.
    ///
    /// The pixel at the quantile is the first, in order of intensity, for which `reaches(Σ w n up
    /// to and including it)` is true. `norm` is Σ w n of all pixels. `narrowed` is working memory.
    fn narrow_to_quantile<S: Simd, B>(
        &mut self,
        simd: S,
        narrowed: &mut CandidatePixels,
        pixels: &BinPixels<'_, B>,
        norm: f64,
        reaches: &dyn Fn(f64) -> bool,
    ) -> f64 {
        let mut norm_below = match pixels.norm.len() {
            MIN_SAMPLED_PIXELS.. => {
                self.narrow_by_sample(simd, pixels.intensity, pixels.norm, (0., norm), reaches)
            }
            _ => None,
        };
        if norm_below.is_none() {
            self.intensity.clear();
            self.intensity.extend_from_slice(pixels.intensity);
            self.norm.clear();
            self.norm.extend_from_slice(pixels.norm);
            self.index.clear();
            self.index.extend(0..pixels.norm.len() as u32);
        }
        while self.norm.len() >= MIN_SAMPLED_PIXELS {
            let start = norm_below.unwrap_or(0.);
            let end = start + simd.run(Sum(&self.norm));
            let below_narrowed =
                narrowed.narrow_by_sample(simd, &self.intensity, &self.norm, (start, end), reaches);
            // If most pixels are equal, a sample does not separate them.
            if below_narrowed.is_none() || narrowed.norm.len() > self.norm.len() / 2 {
                break;
            }
            for index in &mut narrowed.index {
                *index = self.index[*index as usize];
            }
            std::mem::swap(self, narrowed);
            norm_below = below_narrowed;
        }
        norm_below.unwrap_or(0.)
    }

    /// Replaces the contents by the pixels within the bracket of a sample, and returns Σ w n of the
    /// pixels below them.
    ///
    /// `start` is Σ w n below all given pixels, `end` that up to and including the last of them.
    /// Returns `None` if the quantile is outside the bracket.
    fn narrow_by_sample<S: Simd>(
        &mut self,
        simd: S,
        intensity: &[f64],
        norm: &[f64],
        (start, end): (f64, f64),
        reaches: &dyn Fn(f64) -> bool,
    ) -> Option<f64> {
        let (low, high) = bracket_by_sample(intensity, norm, (start, end), reaches);
        let norm_below = start + simd.run(SumBelow { intensity, norm, low });
        simd.indices_within(intensity, low, high, &mut self.index);
        self.intensity.clear();
        self.intensity.extend(self.index.iter().map(|&index| intensity[index as usize]));
        self.norm.clear();
        self.norm.extend(self.index.iter().map(|&index| norm[index as usize]));
        let is_below = self.index.is_empty() || low > f64::NEG_INFINITY && reaches(norm_below);
        let is_within = high == f64::INFINITY || reaches(norm_below + simd.run(Sum(&self.norm)));
        (!is_below && is_within).then_some(norm_below)
    }

    /// Replaces the contents of `entries` by these pixels, keyed by intensity.
    fn copy_to(&self, entries: &mut Vec<KeyedPixel>) {
        entries.clear();
        let pixels = self.intensity.iter().zip(&self.norm).zip(&self.index);
        entries.extend(pixels.map(|((&key, &norm), &index)| KeyedPixel { key, norm, index }));
    }
}

/// Computes Σ w n of the pixels whose intensity is below `low`.
struct SumBelow<'a> {
    intensity: &'a [f64],
    /// w n.
    norm: &'a [f64],
    low: f64,
}

impl Kernel for SumBelow<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f64 {
        sum_pairs(self.intensity, self.norm, |x, norm| if x < self.low { norm } else { 0. })
    }
}

/// Returns two intensities that bracket the quantile, estimated from a sample of the pixels.
///
/// `start` is Σ w n below all given pixels, `end` that up to and including the last of them.
#[inline(always)]
fn bracket_by_sample(
    intensity: &[f64],
    norm: &[f64],
    (start, end): (f64, f64),
    reaches: impl Fn(f64) -> bool,
) -> (f64, f64) {
    let sampled_index = |i: usize| (2 * i + 1) * norm.len() / (2 * SAMPLE_SIZE);
    // Integers that have the order of the intensities. Their lowest bits are replaced by the number
    // of the sample, so that sorting them sorts the samples.
    let mut sample: [i64; SAMPLE_SIZE] = std::array::from_fn(|i| {
        let bits = intensity[sampled_index(i)].to_bits() as i64;
        let ordered = bits ^ ((bits >> 63) as u64 >> 1) as i64;
        ordered & !(SAMPLE_SIZE as i64 - 1) | i as i64
    });
    sample.sort_unstable();
    let sample = sample.map(|key| sampled_index((key & (SAMPLE_SIZE as i64 - 1)) as usize));
    let scale = (end - start) / sample.iter().map(|&index| norm[index]).sum::<f64>();
    let mut norm_up_to = start;
    let at_quantile = sample.iter().position(|&index| {
        norm_up_to += norm[index] * scale;
        reaches(norm_up_to)
    });
    let middle = at_quantile.unwrap_or(SAMPLE_SIZE);
    let low = middle.checked_sub(SAMPLE_MARGIN).map_or(f64::NEG_INFINITY, |i| intensity[sample[i]]);
    (low, sample.get(middle + SAMPLE_MARGIN).map_or(f64::INFINITY, |&index| intensity[index]))
}

impl QuantileCut {
    /// Finds the first entry for which `reaches(Σ w n up to and including it)` is true, or the last
    /// entry if there is none. `norm_below` is Σ w n of the pixels below the entries.
    fn find<B: PixelTerms>(
        &mut self,
        pixels: &BinPixels<'_, B>,
        entries: &mut [KeyedPixel],
        mut norm_below: f64,
        reaches: &dyn Fn(f64) -> bool,
    ) {
        self.side.resize(self.side.len().max(pixels.norm.len()), 0);
        let mut tied = entries;
        for level in 0..4 {
            if level > 0 {
                for entry in &mut *tied {
                    let term = pixels.bin.term(entry.index as usize);
                    entry.key = [term.signal, term.variance, term.norm][level - 1];
                }
            }
            let (start, end, norm_before) = partition_ties(tied, norm_below, reaches);
            if level == 0 {
                self.intensity = tied[start].key;
            } else {
                self.mark_side(&tied[..start], -1);
                self.mark_side(&tied[end..], 1);
            }
            (tied, norm_below) = (&mut tied[start..end], norm_before);
            if tied.len() == 1 {
                break;
            }
        }
        // The remaining entries are equal in all keys. The order of the frame decides.
        tied.sort_unstable_by_key(|entry| entry.index);
        let mut at = 0;
        self.norm_up_to = norm_below + tied[0].norm;
        while at + 1 < tied.len() && !reaches(self.norm_up_to) {
            at += 1;
            self.norm_up_to += tied[at].norm;
        }
        self.mark_side(&tied[..at], -1);
        self.mark_side(&tied[at..=at], 0);
        self.mark_side(&tied[at + 1..], 1);
    }

    /// Sets the side of some entries.
    fn mark_side(&mut self, entries: &[KeyedPixel], side: i8) {
        entries.iter().for_each(|entry| self.side[entry.index as usize] = side);
    }
}

/// Partitions entries into smaller, equal and larger keys, such that the pixel at the quantile is
/// among the equal ones.
///
/// Returns the range `start..end` of the equal keys and Σ w n below them. If `reaches` is true
/// nowhere, these are the entries of the largest key.
#[inline(always)]
fn partition_ties(
    entries: &mut [KeyedPixel],
    norm_below: f64,
    reaches: impl Fn(f64) -> bool,
) -> (usize, usize, f64) {
    let (mut start, mut end, mut norm_below) = (0, entries.len(), norm_below);
    // With low counts, most pixels are equal.
    let first_key = entries.first().map_or(0., |entry| entry.key);
    if !entries.iter().fold(false, |other, entry| other | (entry.key != first_key)) {
        return (start, end, norm_below);
    }
    loop {
        let range = &mut entries[start..end];
        let pivot = median_of_nine(range);
        let middle = partition(range, |key| key < pivot);
        let norm_before = norm_below + sum_norms(&range[..middle]);
        if middle > 0 && reaches(norm_before) {
            end = start + middle;
            continue;
        }
        let equal = partition(&mut range[middle..], |key| key <= pivot);
        let norm_up_to = norm_before + sum_norms(&range[middle..middle + equal]);
        // The sum of all entries may reach the quantile where sums over parts, rounded differently,
        // do not.
        if equal == 0 || middle + equal == range.len() || reaches(norm_up_to) {
            return (start + middle, start + middle + equal.max(1), norm_before);
        }
        (start, norm_below) = (start + middle + equal, norm_up_to);
    }
}

/// Returns Σ w n.
#[inline(always)]
fn sum_norms(entries: &[KeyedPixel]) -> f64 {
    sum_by(entries, |entry| entry.norm)
}

/// Returns the median of nine keys, taken at even distances: the pivot.
#[inline(always)]
fn median_of_nine(range: &[KeyedPixel]) -> f64 {
    let mut nine: [f64; 9] = std::array::from_fn(|i| range[(2 * i + 1) * range.len() / 18].key);
    nine.sort_unstable_by(f64::total_cmp);
    nine[4]
}

/// Moves the entries whose keys fulfil `is_first` before all others, and returns their number.
#[inline(always)]
fn partition(range: &mut [KeyedPixel], is_first: impl Fn(f64) -> bool) -> usize {
    let mut middle = 0;
    for index in 0..range.len() {
        let key = range[index].key;
        range.swap(index, middle);
        middle += usize::from(is_first(key));
    }
    middle
}
