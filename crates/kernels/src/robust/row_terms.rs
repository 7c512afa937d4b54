//! [`sum_rows`], the sum of terms over the pixels of a bin in 8 frames at once, and the terms.

use super::bin_entries::BinEntries;
use super::partial_sums::{PARTIAL_SUMS, add_partial_sums};
use super::tile_lanes::INTERLEAVED_FRAMES;

/// One number per frame.
pub(super) type LaneSums = [f64; INTERLEAVED_FRAMES];

/// Returns the sum of `term` over all entries, for each lane, in the order of [`add_partial_sums`].
#[inline(always)]
pub(super) fn sum_rows(rows: &[[u16; INTERLEAVED_FRAMES]], term: &impl RowTerm) -> LaneSums {
    let mut sums = RowSums::default();
    sums.add(0, rows, term);
    sums.totals()
}

/// Sums over entries that are given part by part: each part but the last has a multiple of
/// [`PARTIAL_SUMS`] entries.
#[derive(Default)]
pub(super) struct RowSums([LaneSums; PARTIAL_SUMS]);

impl RowSums {
    /// Adds the terms of the entries that follow. The first of `rows` is that of entry `first`.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        first: usize,
        rows: &[[u16; INTERLEAVED_FRAMES]],
        term: &impl RowTerm,
    ) {
        let mut sums = self.0;
        for (number, row) in rows.iter().enumerate() {
            let term = term.term(first + number, map_lanes(*row, f64::from));
            for (sum, term) in sums[number % PARTIAL_SUMS].iter_mut().zip(&term) {
                *sum += term;
            }
        }
        self.0 = sums;
    }

    /// Returns the sums of each lane.
    #[inline(always)]
    pub(super) fn totals(&self) -> LaneSums {
        std::array::from_fn(|lane| add_partial_sums(std::array::from_fn(|part| self.0[part][lane])))
    }
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

/// The rule if there is a dark frame, and no dead time.
#[derive(Clone, Copy)]
pub(super) struct DarkSubtracted<'a>(pub(super) &'a BinEntries<'a>);

/// The rule if counts are corrected for dead time.
#[derive(Clone, Copy)]
pub(super) struct CorrectedPixels<'a>(pub(super) &'a BinEntries<'a>);

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

impl WeightedSignal for DarkSubtracted<'_> {
    #[inline(always)]
    fn weighted(self, entry: usize, raw: LaneSums) -> LaneSums {
        map_lanes(raw, |raw| self.0.signal_of_corrected(entry, raw))
    }
}

impl WeightedSignal for CorrectedPixels<'_> {
    #[inline(always)]
    fn weighted(self, entry: usize, raw: LaneSums) -> LaneSums {
        let corrected = map_lanes(raw, |raw| self.0.dead_time.correct(raw));
        map_lanes(corrected, |corrected| self.0.signal_of_corrected(entry, corrected))
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

/// w² s².
pub(super) struct SquaredSignal<W>(pub(super) W);

/// w² s n: `norms` has w n of each entry.
pub(super) struct SignalByNorm<'a, W> {
    pub(super) signal: W,
    pub(super) norms: &'a [f64],
}

/// (w s - c w n)² with the center c: `norms` has w n of each entry.
pub(super) struct SquaredDeviation<'a, W> {
    pub(super) signal: W,
    pub(super) center: &'a LaneSums,
    pub(super) norms: &'a [f64],
}

/// (w s - c w n) w n with the center c.
pub(super) struct Product<'a, W> {
    pub(super) signal: W,
    pub(super) center: &'a LaneSums,
    pub(super) norms: &'a [f64],
}

/// w n of the pixels without a photon.
pub(super) struct ZeroNorm<'a> {
    pub(super) norms: &'a [f64],
}

/// w² v with the variance v of counts; all weights are 1 if there are none.
pub(super) struct CountVariance<'a> {
    pub(super) weights: Option<&'a [f32]>,
}

/// w² v with the variance v of counts that are corrected for dead time.
pub(super) struct CorrectedVariance<'a>(pub(super) &'a BinEntries<'a>);

impl<W: WeightedSignal> RowTerm for SignalTerm<W> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        self.0.weighted(entry, raw)
    }
}

impl<W: WeightedSignal> RowTerm for SquaredSignal<W> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        map_lanes(self.0.weighted(entry, raw), |signal| signal * signal)
    }
}

impl<W: WeightedSignal> RowTerm for SignalByNorm<'_, W> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        let norm = self.norms[entry];
        map_lanes(self.signal.weighted(entry, raw), |signal| signal * norm)
    }
}

impl<W: WeightedSignal> RowTerm for SquaredDeviation<'_, W> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        let signal = self.signal.weighted(entry, raw);
        map_lanes(deviation(signal, self.center, self.norms[entry]), |x| x * x)
    }
}

impl<W: WeightedSignal> RowTerm for Product<'_, W> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        let (signal, norm) = (self.signal.weighted(entry, raw), self.norms[entry]);
        map_lanes(deviation(signal, self.center, norm), |x| x * norm)
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

impl RowTerm for CorrectedVariance<'_> {
    #[inline(always)]
    fn term(&self, entry: usize, raw: LaneSums) -> LaneSums {
        let (w, dead_time) = (self.0.weight(entry), self.0.dead_time);
        let corrected = map_lanes(raw, |raw| dead_time.correct(raw));
        map_lanes(corrected, |corrected| w * w * dead_time.poisson_variance(corrected))
    }
}

/// Returns w s - c w n of one entry, given w s, the center c and w n.
#[inline(always)]
pub(super) fn deviation(signal: LaneSums, center: &LaneSums, norm: f64) -> LaneSums {
    let mut distance = signal;
    for (distance, center) in distance.iter_mut().zip(center) {
        *distance -= center * norm;
    }
    distance
}
