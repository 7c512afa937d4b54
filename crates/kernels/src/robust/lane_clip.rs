//! [`LanesToClip`], a bin that is clipped in 8 frames side by side.

use super::BinSums;
use super::bin_entries::{BinEntries, PixelVariance};
use super::clipped_sums::{ClippedSums, TermSums, clip_terms};
use super::outlier_search::{DROPPED, OutlierCandidates, OutlierSearch, RowOutliers};
use super::partial_sums;
use super::rejected::RejectedShares;
use super::row_terms::{
    CorrectedVariance, CountVariance, LaneSums, Product, SignalByNorm, SquaredDeviation,
    SquaredSignal, WeightedSignal, sum_rows,
};
use super::sigma_clip::ClipRule;
use super::tile_lanes::INTERLEAVED_FRAMES;

/// Working memory of a thread.
#[derive(Default)]
pub(super) struct LaneClipScratch {
    outliers: Vec<RowOutliers>,
    candidates: OutlierCandidates,
    removed: Box<[TermSums; INTERLEAVED_FRAMES]>,
}

/// A bin in 8 frames.
pub(super) struct LanesToClip<'a> {
    pub(super) rule: ClipRule,
    /// The bin. Entries that are invalid in all frames have a weight of 0.
    pub(super) bin: &'a BinEntries<'a>,
    /// The sums of the weights of the others.
    pub(super) weights: ClippedSums,
    /// The pixels: one row per entry, one element per frame. Those that are removed become [`DROPPED`].
    pub(super) rows: &'a mut [[u16; INTERLEAVED_FRAMES]],
    /// w n of the entries.
    pub(super) norms: &'a [f64],
    /// False for a lane that has no frame or overflowing pixels: its sums are arbitrary.
    pub(super) is_wanted: [bool; INTERLEAVED_FRAMES],
    /// The maximum of each lane.
    pub(super) largest: [u16; INTERLEAVED_FRAMES],
}

impl LanesToClip<'_> {
    /// Returns the sums over the pixels of each lane that clipping keeps, with the same result as
    /// [`super::clip_buffer`]. Adds the others to `rejected`, if that is wanted.
    ///
    /// `signals` are Σ w s of all, `moments` Σ w² s² and Σ w² s n if they are known.
    #[inline(always)]
    pub(super) fn clip(
        self,
        weighted: impl WeightedSignal,
        signals: LaneSums,
        moments: Option<[LaneSums; 2]>,
        rejected: &mut [RejectedShares],
        scratch: &mut LaneClipScratch,
    ) -> [BinSums; INTERLEAVED_FRAMES] {
        let Self { rule, bin, weights, rows, norms, is_wanted, largest } = self;
        let variances = pixel_variance_sums(bin, rows);
        let mut clipped = [weights; INTERLEAVED_FRAMES];
        for (lane, clipped) in clipped.iter_mut().enumerate() {
            clipped.set_signal(signals[lane], variances[lane]);
        }
        let has_exact_counts = bin.weights.is_none()
            && bin.dark.is_none()
            && bin.dead_time.is_zero()
            && !matches!(bin.variance, PixelVariance::Given(_));
        if rule.variance_model.is_spread_in_clipping() {
            let [squares, products] = moments.unwrap_or_else(|| {
                let squares = sum_rows(rows, &SquaredSignal(weighted));
                [squares, sum_rows(rows, &SignalByNorm { signal: weighted, norms })]
            });
            for (lane, clipped) in clipped.iter_mut().enumerate() {
                clipped.set_spread(0., [squares[lane], products[lane]]);
            }
            let is_little = |lane: usize| is_wanted[lane] && clipped[lane].has_little_spread();
            let is_little: [bool; INTERLEAVED_FRAMES] = std::array::from_fn(is_little);
            if is_little.contains(&true) {
                let center = &std::array::from_fn(|lane| clipped[lane].mean());
                let squares = sum_rows(rows, &SquaredDeviation { signal: weighted, center, norms });
                let products = sum_rows(rows, &Product { signal: weighted, center, norms });
                for lane in (0..INTERLEAVED_FRAMES).filter(|&lane| is_little[lane]) {
                    clipped[lane].set_spread(center[lane], [squares[lane], products[lane]]);
                }
            }
        }
        // `None` for lanes in which no outlier can be left.
        let mut steps = [None; INTERLEAVED_FRAMES];
        for lane in (0..INTERLEAVED_FRAMES).filter(|&lane| is_wanted[lane]) {
            steps[lane] = Some(rule.step(&clipped[lane].with_clip_variance()));
        }
        let LaneClipScratch { outliers, candidates, removed } = scratch;
        let mut search = OutlierSearch::new(bin, weighted, norms, largest, candidates);
        for _ in 0..rule.max_iter {
            search.list(rows, &steps, outliers);
            if outliers.is_empty() {
                break;
            }
            for (removed, step) in removed.iter_mut().zip(&steps) {
                if step.is_some() {
                    *removed = TermSums::default();
                }
            }
            for &RowOutliers { entry, mut lanes } in &*outliers {
                let entry = entry as usize;
                while lanes != 0 {
                    let lane = lanes.trailing_zeros() as usize;
                    lanes &= lanes - 1;
                    let term = bin.term(entry, f64::from(rows[entry][lane]));
                    removed[lane].add(entry, &clip_terms(term, clipped[lane].center()));
                    rows[entry][lane] = DROPPED;
                    if let (Some(rejected), Some(step)) = (rejected.get_mut(lane), steps[lane]) {
                        rejected.add(bin.pixels[entry], step.is_above(term.signal, term.norm));
                    }
                }
            }
            for lane in 0..INTERLEAVED_FRAMES {
                let removed = &removed[lane];
                if steps[lane].take().is_none() || removed.entries == 0 {
                    continue;
                }
                clipped[lane]
                    .subtract(removed, has_exact_counts, |center| add_up(bin, rows, lane, center));
                if clipped[lane].pixels > 0 {
                    steps[lane] = Some(rule.step(&clipped[lane].with_clip_variance()));
                }
            }
        }
        std::array::from_fn(|lane| match clipped[lane].pixels {
            0 => BinSums::default(),
            _ => rule.result(&clipped[lane]),
        })
    }
}

/// Adds up the terms of the pixels of a lane that remain.
#[cold]
fn add_up(
    bin: &BinEntries<'_>,
    rows: &[[u16; INTERLEAVED_FRAMES]],
    lane: usize,
    center: f64,
) -> TermSums {
    let mut sums = TermSums::default();
    for (entry, row) in rows.iter().enumerate() {
        if row[lane] != DROPPED {
            sums.add(entry, &clip_terms(bin.term(entry, f64::from(row[lane])), center));
        }
    }
    sums
}

/// Returns Σ w² v of each lane, from the pixels' own variances.
#[inline(always)]
fn pixel_variance_sums(bin: &BinEntries<'_>, rows: &[[u16; INTERLEAVED_FRAMES]]) -> LaneSums {
    match (bin.variance, bin.weights) {
        (PixelVariance::No, _) => [0.; INTERLEAVED_FRAMES],
        (PixelVariance::Given(given), _) => {
            [partial_sums::sum(given, |variance| variance); INTERLEAVED_FRAMES]
        }
        (PixelVariance::Counts, _) if !bin.dead_time.is_zero() => {
            sum_rows(rows, &CorrectedVariance(bin))
        }
        (PixelVariance::Counts, None) => sum_rows(rows, &CountVariance { weights: None }),
        (PixelVariance::Counts, weights) => sum_rows(rows, &CountVariance { weights }),
    }
}
