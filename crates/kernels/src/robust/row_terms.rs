//! [`sum_rows`], the sum of terms over the pixels of a bin in 8 frames at once, and the terms.

use super::bin_entries::BinEntries;
use super::partial_sums::{PARTIAL_SUMS, add_partial_sums};
use super::tile_lanes::INTERLEAVED_FRAMES;

/// One number per frame.
pub(super) type LaneSums = [f64; INTERLEAVED_FRAMES];

/// Returns the sum of `term` over all entries, for each lane, in the order of [`add_partial_sums`].
#[inline(always)]
pub(super) fn sum_rows(rows: &[[u16; INTERLEAVED_FRAMES]], term: &impl RowTerm) -> LaneSums {
    let mut sums = [[0.; INTERLEAVED_FRAMES]; PARTIAL_SUMS];
    for (entry, row) in rows.iter().enumerate() {
        let term = term.term(entry, map_lanes(*row, f64::from));
        for (sum, term) in sums[entry % PARTIAL_SUMS].iter_mut().zip(&term) {
            *sum += term;
        }
    }
    let mut totals = [0.; INTERLEAVED_FRAMES];
    for (lane, total) in totals.iter_mut().enumerate() {
        let mut parts = [0.; PARTIAL_SUMS];
        for (part, sums) in parts.iter_mut().zip(&sums) {
            *part = sums[lane];
        }
        *total = add_partial_sums(parts);
    }
    totals
}

/// Returns `f` of each lane. It is always inlined, and so compiled for the instruction set of its
/// caller, as [`array::map`] is not.
#[inline(always)]
pub(super) fn map_lanes<T: Copy>(lanes: [T; INTERLEAVED_FRAMES], f: impl Fn(T) -> f64) -> LaneSums {
    let mut all = [0.; INTERLEAVED_FRAMES];
    for (result, lane) in all.iter_mut().zip(lanes) {
        *result = f(lane);
    }
    all
}

/// Returns the number if all bits of the mask are set, and 0 if none is. A condition would become a
/// branch for each lane.
#[inline(always)]
pub(super) fn number_or_zero(number: f64, mask: i64) -> f64 {
    f64::from_bits(number.to_bits() & mask.cast_unsigned())
}

/// A rule that turns counts into w s. It is a trait and not a closure because its method is called
/// from several places and must still be inlined into each: only inlined code is compiled for the
/// instruction set of its caller.
pub(super) trait WeightedSignal: Copy {
    /// Returns w s of an entry in all frames.
    fn weighted(self, entry: usize, raw: LaneSums) -> LaneSums;
}

/// The rule if all weights are 1 and there is no dark frame.
#[derive(Clone, Copy)]
pub(super) struct UnitWeights;

/// The rule if there are weights, but no dark frame.
#[derive(Clone, Copy)]
pub(super) struct PixelWeights<'a>(pub(super) &'a [f32]);

impl WeightedSignal for UnitWeights {
    #[inline(always)]
    fn weighted(self, _: usize, raw: LaneSums) -> LaneSums {
        raw
    }
}

impl WeightedSignal for PixelWeights<'_> {
    #[inline(always)]
    fn weighted(self, entry: usize, raw: LaneSums) -> LaneSums {
        let w = f64::from(self.0[entry]);
        map_lanes(raw, |raw| w * raw)
    }
}

impl WeightedSignal for &BinEntries<'_> {
    #[inline(always)]
    fn weighted(self, entry: usize, raw: LaneSums) -> LaneSums {
        map_lanes(raw, |raw| self.signal(entry, raw))
    }
}

/// The terms of a sum over the entries of a bin, in all frames. It is a trait for the reason that
/// [`WeightedSignal`] is one.
pub(super) trait RowTerm {
    /// Returns the terms of an entry, given its raw pixels.
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums;
}

/// w s.
pub(super) struct SignalTerm<W>(pub(super) W);

/// (w s - m w n)² with the mean m: `norms` has w n of each entry.
pub(super) struct SquaredDeviation<'a, W> {
    pub(super) signal: W,
    pub(super) mean: &'a LaneSums,
    pub(super) norms: &'a [f64],
}

/// 1 for an outlier, a pixel farther than `limits` from the mean; otherwise 0.
pub(super) struct OutlierTerm<'a, W> {
    pub(super) signal: W,
    pub(super) mean: &'a LaneSums,
    pub(super) norms: &'a [f64],
    pub(super) limits: LaneSums,
}

/// w n of the pixels without a photon.
pub(super) struct ZeroNorm<'a> {
    pub(super) norms: &'a [f64],
}

/// w² v with the variance v of counts; all weights are 1 if there are none.
pub(super) struct CountVariance<'a> {
    pub(super) weights: Option<&'a [f32]>,
}

impl<W: WeightedSignal> RowTerm for SignalTerm<W> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        self.0.weighted(entry, raw)
    }
}

impl<W: WeightedSignal> RowTerm for SquaredDeviation<'_, W> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        let signal = self.signal.weighted(entry, raw);
        map_lanes(deviation(signal, self.mean, self.norms[entry]), |x| x * x)
    }
}

impl<W: WeightedSignal> RowTerm for OutlierTerm<'_, W> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        let distance = deviation(self.signal.weighted(entry, raw), self.mean, self.norms[entry]);
        let norm = self.norms[entry].abs();
        let is_near = |lane: usize| distance[lane].abs() <= self.limits[lane] * norm;
        std::array::from_fn(|lane| if is_near(lane) { 0. } else { 1. })
    }
}

impl RowTerm for ZeroNorm<'_> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        let norm = self.norms[entry];
        map_lanes(raw, |raw| number_or_zero(norm, i64::from(raw == 0.).wrapping_neg()))
    }
}

impl RowTerm for CountVariance<'_> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        match self.weights {
            None => map_lanes(raw, |raw| raw.max(1.)),
            Some(weights) => {
                let w = f64::from(weights[entry]);
                map_lanes(raw, |raw| w * w * raw.max(1.))
            }
        }
    }
}

/// Returns w s - m w n of one entry, given w s, the mean m and w n.
#[inline(always)]
fn deviation(signal: LaneSums, mean: &LaneSums, norm: f64) -> LaneSums {
    let mut distance = signal;
    for (distance, mean) in distance.iter_mut().zip(mean) {
        *distance -= mean * norm;
    }
    distance
}
