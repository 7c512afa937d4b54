//! The mean between two quantiles.

use super::BinSums;
use super::lanes::{sum, sum_of_all, sum_of_both};
use crate::backend::Steps;

/// A share of a bin's norm that rounding may put a quantile off: a pixel so near to it is one that it falls on.
const ROUNDING: f64 = 1e-12;

/// Bins of more pixels are looked through once for those near the quantile, which a sample says; only these are parted.
const MANY: usize = 1024;
const SAMPLE: usize = 128;
/// Of the sample, so many on either side of the quantile: three times what chance puts it off.
const MARGIN: usize = 17;

/// Memory of a thread.
#[derive(Default)]
pub(crate) struct Room {
    /// The pixels that the quantile may fall on.
    near: List,
    nearer: List,
    entries: Vec<Entry>,
    lower: Cut,
    upper: Cut,
    chosen: Vec<u32>,
    terms: Vec<Term>,
}

/// Pixels side by side.
#[derive(Default)]
struct List {
    intensity: Vec<f64>,
    /// w n.
    norm: Vec<f64>,
    /// Their places in the bin.
    place: Vec<u32>,
}

/// A pixel of the bin, by what it is ordered.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: f64,
    /// w n.
    norm: f64,
    /// Its place in the bin.
    place: u32,
}

/// What a pixel adds to the sums.
#[derive(Clone, Copy)]
pub(super) struct Term {
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
struct Cut {
    /// The intensity of the pixel that the quantile falls on.
    intensity: f64,
    /// Of the pixels of this intensity: -1 before that one, 1 behind it. Others' mean nothing.
    side: Vec<i8>,
    /// The norms up to that pixel.
    upto: f64,
}

/// What the pixels of a bin add to the sums.
pub(super) trait Terms {
    fn term(&self, place: usize) -> Term;
}

/// The pixels of a bin: s / n, w n, and what each adds to the sums.
pub(super) struct Pixels<'a, B> {
    pub(super) intensity: &'a [f64],
    pub(super) norm: &'a [f64],
    pub(super) bin: &'a B,
}

/// Sums the pixels from that which the lower quantile falls on to that which the higher one falls on. Pixels of one
/// intensity are ordered by w s, w² v and w n, as pyFAI's records sort. `whole` has the weights of all, where they are
/// known.
pub(super) fn reduce<S: Steps, B: Terms>(
    steps: S,
    pixels: &Pixels<'_, B>,
    whole: Option<BinSums>,
    low: f64,
    high: f64,
    room: &mut Room,
) -> BinSums {
    let norm = whole.map_or_else(|| sum(pixels.norm, |norm| norm), |whole| whole.norm);
    let slack = ROUNDING * norm.abs();
    let is_low = |upto: f64| upto >= low * norm - slack;
    let is_high = |upto: f64| upto > high * norm + slack;
    let Room { near, nearer, entries, lower, upper, chosen, terms } = room;
    let mut find = |cut: &mut Cut, enough: &dyn Fn(f64) -> bool| {
        let below = near.take_near(steps, nearer, pixels, norm, enough);
        near.put(entries);
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
            Some(lower) if low == high && is_high(lower.upto) => least,
            _ => {
                find(upper, &is_high);
                Some(&*upper)
            }
        };
    }
    let bound = |cut: Option<&Cut>, none: f64| cut.map_or(none, |cut| cut.intensity);
    let (from, to) = (bound(least, f64::NEG_INFINITY), bound(most, f64::INFINITY));
    steps.places_within(pixels.intensity, from, to, chosen);
    chosen.retain(|&place| {
        let (place, intensity) = (place as usize, pixels.intensity[place as usize]);
        least.is_none_or(|cut| intensity > cut.intensity || cut.side[place] >= 0)
            && most.is_none_or(|cut| intensity < cut.intensity || cut.side[place] <= 0)
    });
    terms.clear();
    terms.extend(chosen.iter().map(|&place| pixels.bin.term(place as usize)));
    let sums = BinSums {
        signal: sum_of_all(terms, |term| term.signal),
        variance: sum_of_all(terms, |term| term.variance),
        norm: sum_of_all(terms, |term| term.norm),
        norm_sq: sum_of_all(terms, |term| term.norm * term.norm),
        count: sum_of_all(terms, |term| term.weight),
    };
    match whole {
        Some(whole) if least.is_none() && most.is_none() => {
            BinSums { signal: sums.signal, variance: sums.variance, ..whole }
        }
        _ => sums,
    }
}

impl List {
    /// Takes the pixels that the quantile may fall on, the first up to which the norms come to a sum that is `enough`, and
    /// returns the norms of those below them. `other` is overwritten.
    fn take_near<S: Steps, B>(
        &mut self,
        steps: S,
        other: &mut List,
        pixels: &Pixels<'_, B>,
        norm: f64,
        enough: &dyn Fn(f64) -> bool,
    ) -> f64 {
        let mut below = match pixels.norm.len() {
            MANY.. => self.take_within(steps, pixels.intensity, pixels.norm, (0., norm), enough),
            _ => None,
        };
        if below.is_none() {
            self.intensity.clear();
            self.intensity.extend_from_slice(pixels.intensity);
            self.norm.clear();
            self.norm.extend_from_slice(pixels.norm);
            self.place.clear();
            self.place.extend(0..pixels.norm.len() as u32);
        }
        while self.norm.len() >= MANY {
            let start = below.unwrap_or(0.);
            let end = start + steps.sum(&self.norm);
            let found = other.take_within(steps, &self.intensity, &self.norm, (start, end), enough);
            // Where most are alike, a sample parts nothing.
            if found.is_none() || other.norm.len() > self.norm.len() / 2 {
                break;
            }
            for place in &mut other.place {
                *place = self.place[*place as usize];
            }
            std::mem::swap(self, other);
            below = found;
        }
        below.unwrap_or(0.)
    }

    /// Takes those of some pixels that a sample says the quantile is among, given the norms below all and up to the last; the
    /// norms below them. `None` where the sample was wrong.
    fn take_within<S: Steps>(
        &mut self,
        steps: S,
        intensity: &[f64],
        norm: &[f64],
        (start, end): (f64, f64),
        enough: &dyn Fn(f64) -> bool,
    ) -> Option<f64> {
        let (low, high) = bracket(intensity, norm, (start, end), enough);
        let below = start + steps.sum_below(intensity, norm, low);
        steps.places_within(intensity, low, high, &mut self.place);
        self.intensity.clear();
        self.intensity.extend(self.place.iter().map(|&place| intensity[place as usize]));
        self.norm.clear();
        self.norm.extend(self.place.iter().map(|&place| norm[place as usize]));
        let is_below = self.place.is_empty() || low > f64::NEG_INFINITY && enough(below);
        let is_within = high == f64::INFINITY || enough(below + steps.sum(&self.norm));
        (!is_below && is_within).then_some(below)
    }

    fn put(&self, entries: &mut Vec<Entry>) {
        entries.clear();
        let pixels = self.intensity.iter().zip(&self.norm).zip(&self.place);
        entries.extend(pixels.map(|((&key, &norm), &place)| Entry { key, norm, place }));
    }
}

/// Σ w n of the pixels below an intensity.
#[inline(always)]
pub(crate) fn sum_below(intensity: &[f64], norm: &[f64], low: f64) -> f64 {
    sum_of_both(intensity, norm, |x, norm| if x < low { norm } else { 0. })
}

/// The places of the intensities between two, with these, in order.
#[inline(always)]
pub(crate) fn places_within(intensity: &[f64], low: f64, high: f64, places: &mut Vec<u32>) {
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
fn bracket(intensity: &[f64], norm: &[f64], (start, end): (f64, f64), enough: impl Fn(f64) -> bool) -> (f64, f64) {
    let place = |i: usize| (2 * i + 1) * norm.len() / (2 * SAMPLE);
    // Integers that order as the numbers do, but for the last bits, which are their places'.
    let mut sample: [i64; SAMPLE] = std::array::from_fn(|i| {
        let bits = intensity[place(i)].to_bits() as i64;
        let ordered = bits ^ ((bits >> 63) as u64 >> 1) as i64;
        ordered & !(SAMPLE as i64 - 1) | i as i64
    });
    sample.sort_unstable();
    let sample = sample.map(|key| place((key & (SAMPLE as i64 - 1)) as usize));
    let scale = (end - start) / sample.iter().map(|&place| norm[place]).sum::<f64>();
    let mut upto = start;
    let found = sample.iter().position(|&place| {
        upto += norm[place] * scale;
        enough(upto)
    });
    let middle = found.unwrap_or(SAMPLE);
    let low = middle.checked_sub(MARGIN).map_or(f64::NEG_INFINITY, |i| intensity[sample[i]]);
    (low, sample.get(middle + MARGIN).map_or(f64::INFINITY, |&place| intensity[place]))
}

impl Cut {
    /// Finds the first of the entries up to which the norms come to a sum that is `enough`, those below them being known; the
    /// last, where none is.
    fn find<B: Terms>(
        &mut self,
        pixels: &Pixels<'_, B>,
        entries: &mut [Entry],
        mut below: f64,
        enough: &dyn Fn(f64) -> bool,
    ) {
        self.side.resize(self.side.len().max(pixels.norm.len()), 0);
        let mut tied = entries;
        for level in 0..4 {
            if level > 0 {
                for entry in &mut *tied {
                    let term = pixels.bin.term(entry.place as usize);
                    entry.key = [term.signal, term.variance, term.norm][level - 1];
                }
            }
            let (start, end, before) = group(tied, below, enough);
            if level == 0 {
                self.intensity = tied[start].key;
            } else {
                self.put(&tied[..start], -1);
                self.put(&tied[end..], 1);
            }
            (tied, below) = (&mut tied[start..end], before);
            if tied.len() == 1 {
                break;
            }
        }
        // Those left are alike in everything but their places.
        tied.sort_unstable_by_key(|entry| entry.place);
        let mut at = 0;
        self.upto = below + tied[0].norm;
        while at + 1 < tied.len() && !enough(self.upto) {
            at += 1;
            self.upto += tied[at].norm;
        }
        self.put(&tied[..at], -1);
        self.put(&tied[at..=at], 0);
        self.put(&tied[at + 1..], 1);
    }

    fn put(&mut self, entries: &[Entry], side: i8) {
        entries.iter().for_each(|entry| self.side[entry.place as usize] = side);
    }
}

/// Puts entries of equal keys, among which the norms and `below` come to a sum that is `enough`, behind those of
/// lesser keys and before those of greater ones: where they start and end, and the norms below them. The last ones,
/// where no sum is enough.
#[inline(always)]
fn group(entries: &mut [Entry], below: f64, enough: impl Fn(f64) -> bool) -> (usize, usize, f64) {
    let (mut start, mut end, mut below) = (0, entries.len(), below);
    // Where counts are few, most pixels are alike.
    let alike = entries.first().map_or(0., |entry| entry.key);
    if !entries.iter().fold(false, |other, entry| other | (entry.key != alike)) {
        return (start, end, below);
    }
    loop {
        let range = &mut entries[start..end];
        let pivot = pivot(range);
        let middle = part(range, |key| key < pivot);
        let before = below + norms(&range[..middle]);
        if middle > 0 && enough(before) {
            end = start + middle;
            continue;
        }
        let same = part(&mut range[middle..], |key| key <= pivot);
        let upto = before + norms(&range[middle..middle + same]);
        // Sums of parts may round to less than enough where the sum of all did not.
        if same == 0 || middle + same == range.len() || enough(upto) {
            return (start + middle, start + middle + same.max(1), before);
        }
        (start, below) = (start + middle + same, upto);
    }
}

#[inline(always)]
fn norms(entries: &[Entry]) -> f64 {
    sum_of_all(entries, |entry| entry.norm)
}

/// The middle key of nine.
#[inline(always)]
fn pivot(range: &[Entry]) -> f64 {
    let mut nine: [f64; 9] = std::array::from_fn(|i| range[(2 * i + 1) * range.len() / 18].key);
    nine.sort_unstable_by(f64::total_cmp);
    nine[4]
}

/// Puts the entries whose keys are like this before the others, and says how many they are.
#[inline(always)]
fn part(range: &mut [Entry], holds: impl Fn(f64) -> bool) -> usize {
    let mut middle = 0;
    for place in 0..range.len() {
        let key = range[place].key;
        range.swap(place, middle);
        middle += usize::from(holds(key));
    }
    middle
}
