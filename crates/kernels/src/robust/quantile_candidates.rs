//! The pixels of a bin that a quantile may fall on, which get fewer until one remains.

use super::partial_sums::{Sum, sum_pairs};
use crate::simd::{Kernel, Simd};

/// Minimum number of pixels for which a sample is taken. Of fewer pixels, half is dropped at a time.
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

impl CandidatePixels {
    /// Replaces the contents by those of the given pixels, ordered by `intensity`, that the quantile
    /// may fall on. `norms` has w n of each; `start` is Σ w n below all of them, `end` that up to and
    /// including the last. Returns Σ w n of the pixels below the contents.
    pub(super) fn start<S: Simd>(
        &mut self,
        simd: S,
        intensity: &[f64],
        norms: &[f64],
        (start, end): (f64, f64),
        reaches: &dyn Fn(f64) -> bool,
    ) -> f64 {
        if norms.len() >= MIN_SAMPLED_PIXELS
            && let Some(norm_below) =
                self.narrow_by_sample(simd, intensity, norms, (start, end), reaches)
        {
            return norm_below;
        }
        self.key.clear();
        self.key.extend_from_slice(intensity);
        self.norm.clear();
        self.norm.extend_from_slice(norms);
        self.index.clear();
        self.index.extend(0..norms.len() as u32);
        start
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
            self.swap_with_part(narrowed);
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
        self.copy_within(simd, key, norm, (low, high));
        let is_below = self.index.is_empty() || low > f64::NEG_INFINITY && reaches(norm_below);
        let is_within = high == f64::INFINITY || reaches(norm_below + simd.run(Sum(&self.norm)));
        (!is_below && is_within).then_some(norm_below)
    }

    /// Removes all pixels but those with the key of the pixel at the quantile: if `reaches` is true
    /// nowhere, the largest. Returns Σ w n of the pixels below the remaining ones, given that below
    /// all. `narrowed` is working memory.
    pub(super) fn keep_ties<S: Simd>(
        &mut self,
        simd: S,
        narrowed: &mut CandidatePixels,
        mut norm_below: f64,
        reaches: &dyn Fn(f64) -> bool,
    ) -> f64 {
        while !self.are_all_equal() {
            let pivot = median_of_nine(&self.key);
            let [below, equal] = simd.run(SumAround { key: &self.key, norm: &self.norm, pivot });
            let norm_before = norm_below + below;
            if reaches(norm_before)
                && self.keep_within(simd, narrowed, f64::NEG_INFINITY, pivot.next_down())
            {
                continue;
            }
            // The sum of all pixels may reach the quantile where sums over parts, rounded
            // differently, do not.
            if !reaches(norm_before + equal)
                && self.keep_within(simd, narrowed, pivot.next_up(), f64::INFINITY)
            {
                norm_below = norm_before + equal;
            } else {
                self.keep_within(simd, narrowed, pivot, pivot);
                return norm_before;
            }
        }
        norm_below
    }

    /// Removes all pixels but those with keys from `low` to `high`, or none and returns false if
    /// there is no such pixel. `narrowed` is working memory.
    fn keep_within<S: Simd>(
        &mut self,
        simd: S,
        narrowed: &mut CandidatePixels,
        low: f64,
        high: f64,
    ) -> bool {
        narrowed.copy_within(simd, &self.key, &self.norm, (low, high));
        if narrowed.index.is_empty() {
            return false;
        }
        self.swap_with_part(narrowed);
        true
    }

    /// Swaps the contents with some of them, whose indices are those in the lists.
    fn swap_with_part(&mut self, part: &mut CandidatePixels) {
        for index in &mut part.index {
            *index = self.index[*index as usize];
        }
        std::mem::swap(self, part);
    }

    /// Replaces the contents by the given pixels with keys from `low` to `high`, with their indices
    /// in the given lists.
    fn copy_within<S: Simd>(
        &mut self,
        simd: S,
        key: &[f64],
        norm: &[f64],
        (low, high): (f64, f64),
    ) {
        simd.indices_within(key, low, high, &mut self.index);
        self.key.clear();
        self.key.extend(self.index.iter().map(|&index| key[index as usize]));
        self.norm.clear();
        self.norm.extend(self.index.iter().map(|&index| norm[index as usize]));
    }
}

/// Computes Σ w n of the pixels whose key is below the pivot, and of those whose key is the pivot.
struct SumAround<'a> {
    key: &'a [f64],
    /// w n.
    norm: &'a [f64],
    pivot: f64,
}

impl Kernel for SumAround<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> [f64; 2] {
        let below =
            sum_pairs(self.key, self.norm, |key, norm| if key < self.pivot { norm } else { 0. });
        let equal =
            sum_pairs(self.key, self.norm, |key, norm| if key == self.pivot { norm } else { 0. });
        [below, equal]
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

/// Returns the median of nine keys, taken at even distances.
#[inline(always)]
fn median_of_nine(key: &[f64]) -> f64 {
    let mut nine: [f64; 9] = std::array::from_fn(|i| key[(2 * i + 1) * key.len() / 18]);
    nine.sort_unstable_by(f64::total_cmp);
    nine[4]
}
