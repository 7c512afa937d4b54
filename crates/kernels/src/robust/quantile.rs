//! The mean between two quantiles.

use std::cmp::Ordering;

use super::BinSums;
use super::work::Work;

/// A share of a bin's norm that rounding may put a quantile off: a pixel so near to it is one that it falls on.
const ROUNDING: f64 = 1e-12;

/// No more entries than this are sorted at once, not parted.
const FEW: usize = 24;

/// A pixel of the bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    /// s / n.
    intensity: f64,
    /// w n.
    norm: f64,
    /// Its place in the lists.
    place: u32,
}

/// Sums the pixels from that which the lower quantile falls on to that which the higher one falls on.
#[inline(always)]
pub(super) fn reduce(work: &mut Work, whole: Option<BinSums>, low: f64, high: f64) -> BinSums {
    if low == 0. && high == 1. {
        let sums = work.sums(whole);
        return BinSums { variance: work.variance(), ..sums };
    }
    let mut entries = std::mem::take(&mut work.sorted);
    entries.clear();
    let pairs = work.intensity.iter().zip(&work.norm).zip(0..);
    entries.extend(pairs.map(|((&intensity, &norm), place)| Entry { intensity, norm, place }));
    let norm = whole.map_or_else(|| work.sums(None).norm, |whole| whole.norm);
    let slack = ROUNDING * norm.abs();
    let order = |a: &Entry, b: &Entry| compare(work, a, b);
    let first = match low {
        0. => 0,
        _ => select(&mut entries, 0., order, |upper| upper >= low * norm - slack),
    };
    let last = match high {
        1. => entries.len() - 1 - first,
        _ => {
            let before: f64 = entries[..first].iter().map(|entry| entry.norm).sum();
            select(&mut entries[first..], before, order, |upper| upper > high * norm + slack)
        }
    };
    let mut sums = BinSums::default();
    for entry in &entries[first..=first + last] {
        let place = entry.place as usize;
        sums.signal += work.signal[place];
        sums.variance += work.variance.get(place).copied().unwrap_or(0.);
        sums.norm += entry.norm;
        sums.norm_sq += entry.norm * entry.norm;
        sums.count += work.weight[place];
    }
    work.sorted = entries;
    sums
}

/// By intensity; equal ones by w s, w² v and w n, as pyFAI's records sort.
#[inline(always)]
fn compare(work: &Work, a: &Entry, b: &Entry) -> Ordering {
    a.intensity.total_cmp(&b.intensity).then_with(|| {
        let (one, two) = (a.place as usize, b.place as usize);
        let signal = work.signal[one].total_cmp(&work.signal[two]);
        let variance = || match work.variance.get(one) {
            Some(variance) => variance.total_cmp(&work.variance[two]),
            None => Ordering::Equal,
        };
        signal.then_with(variance).then(a.norm.total_cmp(&b.norm)).then(one.cmp(&two))
    })
}

/// The first entry, in this order, up to which the norms and `before` come to a sum that is `enough`; the last where
/// none is. Those before it are put before it, those behind it behind.
#[inline(always)]
fn select(
    entries: &mut [Entry],
    before: f64,
    order: impl Fn(&Entry, &Entry) -> Ordering,
    enough: impl Fn(f64) -> bool,
) -> usize {
    let (mut start, mut end, mut below) = (0, entries.len(), before);
    while end - start > FEW {
        let range = &mut entries[start..end];
        let pivot = pivot(range, &order);
        let middle = part(range, |entry| order(entry, &pivot) == Ordering::Less);
        // The order is total, so the pivot itself is the least of the upper side.
        let lower: f64 = range[..middle].iter().map(|entry| entry.norm).sum();
        if middle > 0 && enough(below + lower) {
            end = start + middle;
        } else if middle > 0 {
            (start, below) = (start + middle, below + lower);
        } else {
            // Nothing is less than the pivot: it is the next.
            let place = range.iter().position(|entry| entry.place == pivot.place).unwrap_or(0);
            range.swap(0, place);
            if enough(below + pivot.norm) {
                return start;
            }
            (start, below) = (start + 1, below + pivot.norm);
        }
    }
    entries[start..end].sort_unstable_by(&order);
    for (place, entry) in entries.iter().enumerate().take(end).skip(start) {
        below += entry.norm;
        if enough(below) {
            return place;
        }
    }
    // Sums of parts may round to less than enough where the sum of all did not.
    end - 1
}

/// The middle one of nine.
#[inline(always)]
fn pivot(range: &[Entry], order: impl Fn(&Entry, &Entry) -> Ordering) -> Entry {
    let mut nine: [Entry; 9] = std::array::from_fn(|i| range[(2 * i + 1) * range.len() / 18]);
    nine.sort_unstable_by(order);
    nine[4]
}

/// Puts the entries for which this holds before the others, and says how many they are.
#[inline(always)]
fn part(range: &mut [Entry], holds: impl Fn(&Entry) -> bool) -> usize {
    let mut middle = 0;
    for place in 0..range.len() {
        let entry = range[place];
        range.swap(place, middle);
        middle += usize::from(holds(&entry));
    }
    middle
}
