//! The mean between two quantiles.

use super::BinSums;
use super::lanes::{sum_of_all, sum_of_both};
use super::work::Work;

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
    entries: Vec<Entry>,
    lower: Cut,
    upper: Cut,
    chosen: Vec<bool>,
}

/// A pixel of the bin, by what it is ordered.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: f64,
    /// w n.
    norm: f64,
    /// Its place in the lists.
    place: u32,
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

/// Sums the pixels from that which the lower quantile falls on to that which the higher one falls on. Pixels of one
/// intensity are ordered by w s, w² v and w n, as pyFAI's records sort.
#[inline(always)]
pub(super) fn reduce(work: &mut Work, whole: Option<BinSums>, low: f64, high: f64) -> BinSums {
    let norm = whole.map_or_else(|| work.sums(None).norm, |whole| whole.norm);
    let slack = ROUNDING * norm.abs();
    let mut room = std::mem::take(&mut work.room);
    let Room { entries, lower, upper, chosen } = &mut room;
    let is_low = |upto: f64| upto >= low * norm - slack;
    let is_high = |upto: f64| upto > high * norm + slack;
    chosen.clear();
    chosen.resize(work.norm.len(), true);
    if low > 0. {
        lower.find(work, entries, norm, is_low);
        let pairs = work.intensity.iter().zip(&lower.side);
        for (chosen, (&intensity, &side)) in chosen.iter_mut().zip(pairs) {
            *chosen &= (intensity > lower.intensity) | ((intensity == lower.intensity) & (side >= 0));
        }
    }
    if high < 1. {
        // Mostly both quantiles of a median fall on one pixel.
        let cut = if low == high && is_high(lower.upto) {
            &*lower
        } else {
            upper.find(work, entries, norm, is_high);
            &*upper
        };
        let pairs = work.intensity.iter().zip(&cut.side);
        for (chosen, (&intensity, &side)) in chosen.iter_mut().zip(pairs) {
            *chosen &= (intensity < cut.intensity) | ((intensity == cut.intensity) & (side <= 0));
        }
    }
    let is_all = low == 0. && high == 1.;
    if !is_all {
        work.keep(|entry, _, _| chosen[entry]);
    }
    let sums = work.sums(whole.filter(|_| is_all));
    work.room = room;
    BinSums { variance: work.variance(), ..sums }
}

impl Cut {
    /// Finds the first pixel up to which the norms come to a sum that is `enough`; the last, where none is.
    #[inline(always)]
    fn find(&mut self, work: &Work, entries: &mut Vec<Entry>, norm: f64, enough: impl Fn(f64) -> bool + Copy) {
        self.side.resize(work.norm.len(), 0);
        let mut below = collect(work, entries, norm, enough);
        let mut tied = &mut entries[..];
        for level in 0..4 {
            if level > 0 {
                for entry in &mut *tied {
                    let place = entry.place as usize;
                    entry.key = match level {
                        1 => work.signal[place],
                        2 => work.variance.get(place).copied().unwrap_or(0.),
                        _ => work.norm[place],
                    };
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

/// Fills the list with the pixels that the quantile may fall on, and returns the norms of those below them.
#[inline(always)]
fn collect(work: &Work, entries: &mut Vec<Entry>, norm: f64, enough: impl Fn(f64) -> bool) -> f64 {
    let (low, high) = match work.norm.len() {
        ..MANY => (f64::NEG_INFINITY, f64::INFINITY),
        _ => bracket(work, norm, &enough),
    };
    let below = sum_of_both(&work.intensity, &work.norm, |x, norm| if x < low { norm } else { 0. });
    let fill = |entries: &mut Vec<Entry>, low: f64, high: f64| {
        let mut count = 0;
        entries.resize(work.norm.len(), Entry { key: 0., norm: 0., place: 0 });
        for ((place, &key), &norm) in (0..).zip(&work.intensity).zip(&work.norm) {
            entries[count] = Entry { key, norm, place };
            count += usize::from((low <= key) & (key <= high));
        }
        entries.truncate(count);
    };
    fill(entries, low, high);
    let within = norms(entries);
    let is_below = entries.is_empty() || low > f64::NEG_INFINITY && enough(below);
    if !is_below && (high == f64::INFINITY || enough(below + within)) {
        return below;
    }
    fill(entries, f64::NEG_INFINITY, f64::INFINITY);
    0.
}

/// Two intensities that the quantile is between, as a sample of the pixels says.
#[inline(always)]
fn bracket(work: &Work, norm: f64, enough: impl Fn(f64) -> bool) -> (f64, f64) {
    let count = work.norm.len();
    let mut sample: [(f64, f64); SAMPLE] = std::array::from_fn(|i| {
        let place = (2 * i + 1) * count / (2 * SAMPLE);
        (work.intensity[place], work.norm[place])
    });
    sample.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let scale = norm / sample.iter().map(|(_, norm)| norm).sum::<f64>();
    let mut upto = 0.;
    let found = sample.iter().position(|(_, norm)| {
        upto += norm * scale;
        enough(upto)
    });
    let middle = found.unwrap_or(SAMPLE);
    let low = middle.checked_sub(MARGIN).map_or(f64::NEG_INFINITY, |i| sample[i].0);
    (low, sample.get(middle + MARGIN).map_or(f64::INFINITY, |(x, _)| *x))
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
