//! The pixels of a bin that a quantile may fall on, which get fewer until one remains.

use super::partial_sums::{Sum, sum_by, sum_pairs};
use crate::simd::{Kernel, Simd};

/// Minimum number of pixels for which a sample is taken. Fewer pixels are partitioned directly.
const MIN_SAMPLED_PIXELS: usize = 1024;
/// Number of pixels in a sample.
const SAMPLE_SIZE: usize = 128;
/// Number of sampled pixels on either side of the quantile that bracket it: three standard
/// deviations of its position.
const SAMPLE_MARGIN: usize = 17;

/// Some pixels of a bin, as parallel lists.
#[derive(Default)]
pub(super) struct CandidatePixels {
    /// The key that orders the pixels: s / n, or one of [`PixelTerm::keys`](super::quantile::PixelTerm::keys).
    pub(super) key: Vec<f64>,
    /// w n.
    pub(super) norm: Vec<f64>,
    /// Index of each pixel in the bin.
    pub(super) index: Vec<u32>,
}

/// An element of [`CandidatePixels`], to be partitioned.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyedPixel {
    key: f64,
    norm: f64,
    index: u32,
}

impl CandidatePixels {
    /// Replaces the contents by the pixels of a bin, ordered by `intensity`, that the quantile may
    /// fall on. `norms` has w n of each, and `norm` is their sum. Returns Σ w n of the pixels below
    /// them.
    pub(super) fn start<S: Simd>(
        &mut self,
        simd: S,
        intensity: &[f64],
        norms: &[f64],
        norm: f64,
        reaches: &dyn Fn(f64) -> bool,
    ) -> f64 {
        if norms.len() >= MIN_SAMPLED_PIXELS
            && let Some(norm_below) =
                self.narrow_by_sample(simd, intensity, norms, (0., norm), reaches)
        {
            return norm_below;
        }
        self.key.clear();
        self.key.extend_from_slice(intensity);
        self.norm.clear();
        self.norm.extend_from_slice(norms);
        self.index.clear();
        self.index.extend(0..norms.len() as u32);
        0.
    }

    /// Removes most of the pixels that the quantile is not at, if there are many. Returns Σ w n
    /// of the pixels below the remaining ones, given that below all. `narrowed` is working memory.
    pub(super) fn narrow<S: Simd>(
        &mut self,
        simd: S,
        narrowed: &mut CandidatePixels,
        mut norm_below: f64,
        reaches: &dyn Fn(f64) -> bool,
    ) -> f64 {
        while self.norm.len() >= MIN_SAMPLED_PIXELS && !self.are_all_equal() {
            let range = (norm_below, norm_below + simd.run(Sum(&self.norm)));
            let below_narrowed =
                narrowed.narrow_by_sample(simd, &self.key, &self.norm, range, reaches);
            let Some(below_narrowed) = below_narrowed else { break };
            for index in &mut narrowed.index {
                *index = self.index[*index as usize];
            }
            std::mem::swap(self, narrowed);
            norm_below = below_narrowed;
            if self.norm.len() > narrowed.norm.len() / 2 {
                break;
            }
        }
        norm_below
    }

    /// Returns whether all pixels have the same key.
    #[inline(always)]
    pub(super) fn are_all_equal(&self) -> bool {
        let first = self.key.first().copied().unwrap_or(0.);
        !self.key.iter().fold(false, |other, &key| other | (key != first))
    }

    /// Replaces the contents by the pixels within the bracket of a sample, and returns Σ w n of the
    /// pixels below them.
    ///
    /// `start` is Σ w n below all given pixels, `end` that up to and including the last of them.
    /// Returns `None` if the quantile is outside the bracket.
    fn narrow_by_sample<S: Simd>(
        &mut self,
        simd: S,
        key: &[f64],
        norm: &[f64],
        (start, end): (f64, f64),
        reaches: &dyn Fn(f64) -> bool,
    ) -> Option<f64> {
        let (low, high) = bracket_by_sample(key, norm, (start, end), reaches);
        let norm_below = start + simd.run(SumBelow { key, norm, low });
        simd.indices_within(key, low, high, &mut self.index);
        self.key.clear();
        self.key.extend(self.index.iter().map(|&index| key[index as usize]));
        self.norm.clear();
        self.norm.extend(self.index.iter().map(|&index| norm[index as usize]));
        let is_below = self.index.is_empty() || low > f64::NEG_INFINITY && reaches(norm_below);
        let is_within = high == f64::INFINITY || reaches(norm_below + simd.run(Sum(&self.norm)));
        (!is_below && is_within).then_some(norm_below)
    }

    /// Removes all pixels but those with the key of the pixel at the quantile. Returns Σ w n of
    /// the pixels below the remaining ones, given that below all.
    pub(super) fn keep_ties(
        &mut self,
        entries: &mut Vec<KeyedPixel>,
        norm_below: f64,
        reaches: &dyn Fn(f64) -> bool,
    ) -> f64 {
        if self.are_all_equal() {
            return norm_below;
        }
        self.copy_to(entries);
        let (start, end, norm_below) = partition_ties(entries, norm_below, reaches);
        self.copy_from(&entries[start..end]);
        norm_below
    }

    /// Puts the pixels into the order of the frame.
    pub(super) fn sort_by_index(&mut self, entries: &mut Vec<KeyedPixel>) {
        if !self.index.is_sorted() {
            self.copy_to(entries);
            entries.sort_unstable_by_key(|entry| entry.index);
            self.copy_from(entries);
        }
    }

    fn copy_to(&self, entries: &mut Vec<KeyedPixel>) {
        entries.clear();
        let pixels = self.key.iter().zip(&self.norm).zip(&self.index);
        entries.extend(pixels.map(|((&key, &norm), &index)| KeyedPixel { key, norm, index }));
    }

    fn copy_from(&mut self, entries: &[KeyedPixel]) {
        self.key.clear();
        self.key.extend(entries.iter().map(|entry| entry.key));
        self.norm.clear();
        self.norm.extend(entries.iter().map(|entry| entry.norm));
        self.index.clear();
        self.index.extend(entries.iter().map(|entry| entry.index));
    }
}

/// Computes Σ w n of the pixels whose key is below `low`.
struct SumBelow<'a> {
    key: &'a [f64],
    /// w n.
    norm: &'a [f64],
    low: f64,
}

impl Kernel for SumBelow<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f64 {
        sum_pairs(self.key, self.norm, |key, norm| if key < self.low { norm } else { 0. })
    }
}

/// Returns two keys that bracket the quantile, estimated from a sample of the pixels.
///
/// `start` is Σ w n below all given pixels, `end` that up to and including the last of them.
#[inline(always)]
fn bracket_by_sample(
    key: &[f64],
    norm: &[f64],
    (start, end): (f64, f64),
    reaches: impl Fn(f64) -> bool,
) -> (f64, f64) {
    let sampled_index = |i: usize| (2 * i + 1) * norm.len() / (2 * SAMPLE_SIZE);
    // Integers that have the order of the keys. Their lowest bits are replaced by the number
    // of the sample, so that sorting them sorts the samples.
    let mut sample: [i64; SAMPLE_SIZE] = std::array::from_fn(|i| {
        let bits = key[sampled_index(i)].to_bits() as i64;
        let ordered = bits ^ ((bits >> 63) as u64 >> 1) as i64;
        ordered & !(SAMPLE_SIZE as i64 - 1) | i as i64
    });
    sample.sort_unstable();
    let sample = sample.map(|number| sampled_index((number & (SAMPLE_SIZE as i64 - 1)) as usize));
    let scale = (end - start) / sample.iter().map(|&index| norm[index]).sum::<f64>();
    let mut norm_up_to = start;
    let at_quantile = sample.iter().position(|&index| {
        norm_up_to += norm[index] * scale;
        reaches(norm_up_to)
    });
    let middle = at_quantile.unwrap_or(SAMPLE_SIZE);
    let low = middle.checked_sub(SAMPLE_MARGIN).map_or(f64::NEG_INFINITY, |i| key[sample[i]]);
    (low, sample.get(middle + SAMPLE_MARGIN).map_or(f64::INFINITY, |&index| key[index]))
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
