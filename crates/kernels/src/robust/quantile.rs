//! The mean between two quantiles.

use super::BinSums;
use super::partial_sums::{sum, sum_by, sum_pairs};
use crate::simd::SimdBackend;

/// A share of a bin's norm that rounding may put a quantile off: a pixel so near to it is one that it falls on.
const QUANTILE_TOLERANCE: f64 = 1e-12;

/// Bins of more pixels are looked through once for those near the quantile, which a sample says; only these are parted.
const MIN_SAMPLED_PIXELS: usize = 1024;
const SAMPLE_SIZE: usize = 128;
/// Of the sample, so many on either side of the quantile: three times what chance puts it off.
const SAMPLE_MARGIN: usize = 17;

/// Memory of a thread.
#[derive(Default)]
pub(crate) struct QuantileScratch {
    /// The pixels that the quantile may fall on.
    candidates: CandidatePixels,
    narrowed: CandidatePixels,
    entries: Vec<KeyedPixel>,
    lower: QuantileCut,
    upper: QuantileCut,
    chosen: Vec<u32>,
    terms: Vec<PixelTerm>,
}

/// Pixels side by side.
#[derive(Default)]
struct CandidatePixels {
    intensity: Vec<f64>,
    /// w n.
    norm: Vec<f64>,
    /// Their places in the bin.
    index: Vec<u32>,
}

/// A pixel of the bin, by what it is ordered.
#[derive(Clone, Copy, Debug)]
struct KeyedPixel {
    key: f64,
    /// w n.
    norm: f64,
    /// Its place in the bin.
    index: u32,
}

/// What a pixel adds to the sums.
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

/// Where the pixels of a bin are cut in two, in the order of their intensities.
#[derive(Default)]
struct QuantileCut {
    /// The intensity of the pixel that the quantile falls on.
    intensity: f64,
    /// Of the pixels of this intensity: -1 before that one, 1 behind it. Others' mean nothing.
    side: Vec<i8>,
    /// The norms up to that pixel.
    norm_up_to: f64,
}

/// What the pixels of a bin add to the sums.
pub(super) trait PixelTerms {
    fn term(&self, place: usize) -> PixelTerm;
}

/// The pixels of a bin: s / n, w n, and what each adds to the sums.
pub(super) struct BinPixels<'a, B> {
    pub(super) intensity: &'a [f64],
    pub(super) norm: &'a [f64],
    pub(super) bin: &'a B,
}

/// Sums the pixels from that which the lower quantile falls on to that which the higher one falls on. Pixels of one
/// intensity are ordered by w s, w² v and w n, as pyFAI's records sort. `whole` has the weights of all, where they are
/// known.
pub(super) fn mean_between_quantiles<S: SimdBackend, B: PixelTerms>(
    steps: S,
    pixels: &BinPixels<'_, B>,
    whole: Option<BinSums>,
    low: f64,
    high: f64,
    room: &mut QuantileScratch,
) -> BinSums {
    let norm = whole.map_or_else(|| sum(pixels.norm, |norm| norm), |whole| whole.norm);
    let slack = QUANTILE_TOLERANCE * norm.abs();
    let is_low = |upto: f64| upto >= low * norm - slack;
    let is_high = |upto: f64| upto > high * norm + slack;
    let QuantileScratch { candidates: near, narrowed: nearer, entries, lower, upper, chosen, terms } = room;
    let mut find = |cut: &mut QuantileCut, enough: &dyn Fn(f64) -> bool| {
        let below = near.narrow_to_quantile(steps, nearer, pixels, norm, enough);
        near.copy_to(entries);
        cut.find(pixels, entries, below, enough);
    };
    let (mut least, mut most) = (None, None);
    if low > 0. {
        find(lower, &is_low);
        least = Some(&*lower);
    }
    if high < 1. {
        // Mostly both quantiles of a median fall on one pixel.
        most = match least {
            Some(lower) if low == high && is_high(lower.norm_up_to) => least,
            _ => {
                find(upper, &is_high);
                Some(&*upper)
            }
        };
    }
    let bound = |cut: Option<&QuantileCut>, none: f64| cut.map_or(none, |cut| cut.intensity);
    let (from, to) = (bound(least, f64::NEG_INFINITY), bound(most, f64::INFINITY));
    steps.indices_within(pixels.intensity, from, to, chosen);
    chosen.retain(|&place| {
        let (place, intensity) = (place as usize, pixels.intensity[place as usize]);
        least.is_none_or(|cut| intensity > cut.intensity || cut.side[place] >= 0)
            && most.is_none_or(|cut| intensity < cut.intensity || cut.side[place] <= 0)
    });
    terms.clear();
    terms.extend(chosen.iter().map(|&place| pixels.bin.term(place as usize)));
    let sums = BinSums {
        signal: sum_by(terms, |term| term.signal),
        variance: sum_by(terms, |term| term.variance),
        norm: sum_by(terms, |term| term.norm),
        norm_sq: sum_by(terms, |term| term.norm * term.norm),
        count: sum_by(terms, |term| term.weight),
    };
    match whole {
        Some(whole) if least.is_none() && most.is_none() => {
            BinSums { signal: sums.signal, variance: sums.variance, ..whole }
        }
        _ => sums,
    }
}

impl CandidatePixels {
    /// Takes the pixels that the quantile may fall on, the first up to which the norms come to a sum that is `enough`, and
    /// returns the norms of those below them. `other` is overwritten.
    fn narrow_to_quantile<S: SimdBackend, B>(
        &mut self,
        steps: S,
        other: &mut CandidatePixels,
        pixels: &BinPixels<'_, B>,
        norm: f64,
        enough: &dyn Fn(f64) -> bool,
    ) -> f64 {
        let mut below = match pixels.norm.len() {
            MIN_SAMPLED_PIXELS.. => self.narrow_by_sample(steps, pixels.intensity, pixels.norm, (0., norm), enough),
            _ => None,
        };
        if below.is_none() {
            self.intensity.clear();
            self.intensity.extend_from_slice(pixels.intensity);
            self.norm.clear();
            self.norm.extend_from_slice(pixels.norm);
            self.index.clear();
            self.index.extend(0..pixels.norm.len() as u32);
        }
        while self.norm.len() >= MIN_SAMPLED_PIXELS {
            let start = below.unwrap_or(0.);
            let end = start + steps.sum(&self.norm);
            let found = other.narrow_by_sample(steps, &self.intensity, &self.norm, (start, end), enough);
            // Where most are alike, a sample parts nothing.
            if found.is_none() || other.norm.len() > self.norm.len() / 2 {
                break;
            }
            for place in &mut other.index {
                *place = self.index[*place as usize];
            }
            std::mem::swap(self, other);
            below = found;
        }
        below.unwrap_or(0.)
    }

    /// Takes those of some pixels that a sample says the quantile is among, given the norms below all and up to the last; the
    /// norms below them. `None` where the sample was wrong.
    fn narrow_by_sample<S: SimdBackend>(
        &mut self,
        steps: S,
        intensity: &[f64],
        norm: &[f64],
        (start, end): (f64, f64),
        enough: &dyn Fn(f64) -> bool,
    ) -> Option<f64> {
        let (low, high) = bracket_by_sample(intensity, norm, (start, end), enough);
        let below = start + steps.sum_below(intensity, norm, low);
        steps.indices_within(intensity, low, high, &mut self.index);
        self.intensity.clear();
        self.intensity.extend(self.index.iter().map(|&place| intensity[place as usize]));
        self.norm.clear();
        self.norm.extend(self.index.iter().map(|&place| norm[place as usize]));
        let is_below = self.index.is_empty() || low > f64::NEG_INFINITY && enough(below);
        let is_within = high == f64::INFINITY || enough(below + steps.sum(&self.norm));
        (!is_below && is_within).then_some(below)
    }

    fn copy_to(&self, entries: &mut Vec<KeyedPixel>) {
        entries.clear();
        let pixels = self.intensity.iter().zip(&self.norm).zip(&self.index);
        entries.extend(pixels.map(|((&key, &norm), &place)| KeyedPixel { key, norm, index: place }));
    }
}

/// Σ w n of the pixels below an intensity.
#[inline(always)]
pub(crate) fn sum_below(intensity: &[f64], norm: &[f64], low: f64) -> f64 {
    sum_pairs(intensity, norm, |x, norm| if x < low { norm } else { 0. })
}

/// The places of the intensities between two, with these, in order.
#[inline(always)]
pub(crate) fn indices_within(intensity: &[f64], low: f64, high: f64, places: &mut Vec<u32>) {
    places.resize(intensity.len(), 0);
    let mut count = 0;
    for (place, &intensity) in (0..).zip(intensity) {
        places[count] = place;
        count += usize::from((low <= intensity) & (intensity <= high));
    }
    places.truncate(count);
}

/// Two intensities that the quantile is between, as a sample of the pixels says, given the norms below all and up to
/// the last.
#[inline(always)]
fn bracket_by_sample(
    intensity: &[f64],
    norm: &[f64],
    (start, end): (f64, f64),
    enough: impl Fn(f64) -> bool,
) -> (f64, f64) {
    let place = |i: usize| (2 * i + 1) * norm.len() / (2 * SAMPLE_SIZE);
    // Integers that order as the numbers do, but for the last bits, which are their places'.
    let mut sample: [i64; SAMPLE_SIZE] = std::array::from_fn(|i| {
        let bits = intensity[place(i)].to_bits() as i64;
        let ordered = bits ^ ((bits >> 63) as u64 >> 1) as i64;
        ordered & !(SAMPLE_SIZE as i64 - 1) | i as i64
    });
    sample.sort_unstable();
    let sample = sample.map(|key| place((key & (SAMPLE_SIZE as i64 - 1)) as usize));
    let scale = (end - start) / sample.iter().map(|&place| norm[place]).sum::<f64>();
    let mut upto = start;
    let found = sample.iter().position(|&place| {
        upto += norm[place] * scale;
        enough(upto)
    });
    let middle = found.unwrap_or(SAMPLE_SIZE);
    let low = middle.checked_sub(SAMPLE_MARGIN).map_or(f64::NEG_INFINITY, |i| intensity[sample[i]]);
    (low, sample.get(middle + SAMPLE_MARGIN).map_or(f64::INFINITY, |&place| intensity[place]))
}

impl QuantileCut {
    /// Finds the first of the entries up to which the norms come to a sum that is `enough`, those below them being known; the
    /// last, where none is.
    fn find<B: PixelTerms>(
        &mut self,
        pixels: &BinPixels<'_, B>,
        entries: &mut [KeyedPixel],
        mut below: f64,
        enough: &dyn Fn(f64) -> bool,
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
            let (start, end, before) = partition_ties(tied, below, enough);
            if level == 0 {
                self.intensity = tied[start].key;
            } else {
                self.mark_side(&tied[..start], -1);
                self.mark_side(&tied[end..], 1);
            }
            (tied, below) = (&mut tied[start..end], before);
            if tied.len() == 1 {
                break;
            }
        }
        // Those left are alike in everything but their places.
        tied.sort_unstable_by_key(|entry| entry.index);
        let mut at = 0;
        self.norm_up_to = below + tied[0].norm;
        while at + 1 < tied.len() && !enough(self.norm_up_to) {
            at += 1;
            self.norm_up_to += tied[at].norm;
        }
        self.mark_side(&tied[..at], -1);
        self.mark_side(&tied[at..=at], 0);
        self.mark_side(&tied[at + 1..], 1);
    }

    fn mark_side(&mut self, entries: &[KeyedPixel], side: i8) {
        entries.iter().for_each(|entry| self.side[entry.index as usize] = side);
    }
}

/// Puts entries of equal keys, among which the norms and `below` come to a sum that is `enough`, behind those of
/// lesser keys and before those of greater ones: where they start and end, and the norms below them. The last ones,
/// where no sum is enough.
#[inline(always)]
fn partition_ties(entries: &mut [KeyedPixel], below: f64, enough: impl Fn(f64) -> bool) -> (usize, usize, f64) {
    let (mut start, mut end, mut below) = (0, entries.len(), below);
    // Where counts are few, most pixels are alike.
    let alike = entries.first().map_or(0., |entry| entry.key);
    if !entries.iter().fold(false, |other, entry| other | (entry.key != alike)) {
        return (start, end, below);
    }
    loop {
        let range = &mut entries[start..end];
        let pivot = median_of_nine(range);
        let middle = partition(range, |key| key < pivot);
        let before = below + sum_norms(&range[..middle]);
        if middle > 0 && enough(before) {
            end = start + middle;
            continue;
        }
        let same = partition(&mut range[middle..], |key| key <= pivot);
        let upto = before + sum_norms(&range[middle..middle + same]);
        // Sums of parts may round to less than enough where the sum of all did not.
        if same == 0 || middle + same == range.len() || enough(upto) {
            return (start + middle, start + middle + same.max(1), before);
        }
        (start, below) = (start + middle + same, upto);
    }
}

#[inline(always)]
fn sum_norms(entries: &[KeyedPixel]) -> f64 {
    sum_by(entries, |entry| entry.norm)
}

/// The middle key of nine.
#[inline(always)]
fn median_of_nine(range: &[KeyedPixel]) -> f64 {
    let mut nine: [f64; 9] = std::array::from_fn(|i| range[(2 * i + 1) * range.len() / 18].key);
    nine.sort_unstable_by(f64::total_cmp);
    nine[4]
}

/// Puts the entries whose keys are like this before the others, and says how many they are.
#[inline(always)]
fn partition(range: &mut [KeyedPixel], holds: impl Fn(f64) -> bool) -> usize {
    let mut middle = 0;
    for place in 0..range.len() {
        let key = range[place].key;
        range.swap(place, middle);
        middle += usize::from(holds(key));
    }
    middle
}
