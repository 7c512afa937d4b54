//! Frames side by side, bin by bin: what all frames need of a bin's entries is read once, and lanes are frames. A lane
//! whose bin has a pixel that is not in its column, or an outlier, is done alone ([`BinBuffer`]); both ways keep one order of
//! summation. Pixels that are invalid in all of the frames are taken out first.

use super::bin_buffer::{BinBuffer, limit_with_tolerance};
use super::bin_entries::{BinEntries, PixelVariance};
use super::csr::{CsrMatrix, FrameBinSums};
use super::interleaved_pixels::{INTERLEAVED_FRAMES, InterleavedPixels, OVERFLOW};
use super::partial_sums::add_partial_sums;
use super::quantile::{self, BinPixels, PixelTerm, PixelTerms};
use super::sigma_clip;
use super::without_masked::WithoutMasked;
use super::{BinSums, Reduction, Statistic};
use crate::invalid_values::InvalidRanges;
use crate::plan::{IntegrationPlan, VarianceModel};
use crate::simd::{SimdBackend, prefetch_value};

/// Partial sums, as in [`super::partial_sums`].
const PARTIAL_SUMS: usize = 16;

/// So many entries before it is needed a column is asked for.
const PREFETCH_DISTANCE: usize = 64;

type LaneSums = [f64; INTERLEAVED_FRAMES];

/// Memory of a thread.
#[derive(Default)]
pub(crate) struct InterleavedScratch {
    /// The columns of the bin's pixels.
    column: Vec<[u16; INTERLEAVED_FRAMES]>,
    without: WithoutMasked,
    /// w n of its entries.
    norm: Vec<f64>,
    /// The pixels of one lane.
    raw: Vec<f64>,
    /// s / n of these.
    intensity: Vec<f64>,
    quantile: quantile::QuantileScratch,
}

/// Frames side by side, and what is done to them.
pub(crate) struct InterleavedReduction<'a> {
    pub(super) by_bin: &'a CsrMatrix,
    pub(super) plan: &'a IntegrationPlan,
    pub(super) columns: &'a InterleavedPixels,
    pub(super) room: &'a mut InterleavedScratch,
    pub(super) buffer: &'a mut BinBuffer,
    /// As many as there are frames.
    pub(super) totals: &'a mut [FrameBinSums],
}

impl InterleavedReduction<'_> {
    /// The sums of all bins of each frame.
    #[inline(always)]
    pub(crate) fn reduce<S: SimdBackend>(self, steps: S) {
        let InterleavedReduction { by_bin, plan, columns, room, buffer: work, totals } = self;
        let (reduction, valid) = (by_bin.reduction, InvalidRanges::default());
        for nth in 0..plan.nbins() {
            let bin = by_bin.entries_of_bin(nth, plan);
            let InterleavedScratch { column, without, norm, raw, intensity, quantile } = &mut *room;
            let mut largest = gather_columns(&columns.pixels, by_bin.pixels_from_bin(nth), bin.pixels.len(), column);
            let bin = match largest[..totals.len()].contains(&OVERFLOW) {
                true => without.drop_masked(&bin, columns, column, totals.len(), &mut largest),
                false => bin,
            };
            if bin.pixels.is_empty() {
                continue;
            }
            bin.weighted_norms_into(norm);
            let is_sorted = matches!(reduction.statistic, Statistic::QuantileMean { .. });
            let sums = match (bin.weights, bin.dark) {
                _ if is_sorted => [None; INTERLEAVED_FRAMES],
                (None, None) => sum_lanes(&reduction, &bin, column, norm, UnitWeights),
                (Some(weight), None) => sum_lanes(&reduction, &bin, column, norm, PixelWeights(weight)),
                (_, Some(_)) => sum_lanes(&reduction, &bin, column, norm, &bin),
            };
            for (lane, totals) in totals.iter_mut().enumerate() {
                let is_here = largest[lane] < OVERFLOW;
                let sums = match (reduction.statistic, sums[lane]) {
                    (_, Some(sums)) if is_here => sums,
                    (Statistic::QuantileMean { low, high }, _) if is_here => {
                        fill_intensities(&bin, column, lane, intensity);
                        let pixels = BinPixels { intensity, norm, bin: &BinLane { bin: &bin, column, lane } };
                        quantile::mean_between_quantiles(steps, &pixels, Some(bin.full_sums), low, high, quantile)
                    }
                    _ => {
                        raw.clear();
                        for (&pixel, column) in bin.pixels.iter().zip(column.iter()) {
                            raw.push(columns.value(pixel, lane, column[lane]));
                        }
                        reduction.reduce_raw(steps, &bin, raw, &valid, work)
                    }
                };
                totals.set_bin(nth, sums);
            }
        }
    }
}

/// One lane of a bin.
struct BinLane<'a> {
    bin: &'a BinEntries<'a>,
    column: &'a [[u16; INTERLEAVED_FRAMES]],
    lane: usize,
}

impl PixelTerms for BinLane<'_> {
    fn term(&self, place: usize) -> PixelTerm {
        let raw = f64::from(self.column[place][self.lane]);
        self.bin.term(place, raw)
    }
}

/// Copies the columns of some pixels, and says what the largest is in each lane. Those that follow are asked for.
#[inline(always)]
fn gather_columns(
    pixels: &[[u16; INTERLEAVED_FRAMES]],
    from: &[u32],
    count: usize,
    column: &mut Vec<[u16; INTERLEAVED_FRAMES]>,
) -> [u16; INTERLEAVED_FRAMES] {
    let mut largest = [0; INTERLEAVED_FRAMES];
    column.resize(count, [0; INTERLEAVED_FRAMES]);
    for (entry, (column, &pixel)) in column.iter_mut().zip(from).enumerate() {
        let ahead = from[(entry + PREFETCH_DISTANCE).min(from.len() - 1)];
        prefetch_value(&pixels[ahead as usize]);
        *column = pixels[pixel as usize];
        for lane in 0..INTERLEAVED_FRAMES {
            largest[lane] = largest[lane].max(column[lane]);
        }
    }
    largest
}

/// s / n of the pixels of one lane.
#[inline(always)]
fn fill_intensities(bin: &BinEntries<'_>, column: &[[u16; INTERLEAVED_FRAMES]], lane: usize, intensity: &mut Vec<f64>) {
    intensity.resize(column.len(), 0.);
    match bin.dark {
        None => {
            for ((intensity, column), norm) in intensity.iter_mut().zip(column).zip(bin.norms) {
                *intensity = f64::from(column[lane]) / norm;
            }
        }
        Some(dark) => {
            let darks = bin.norms.iter().zip(dark);
            for ((intensity, column), (norm, dark)) in intensity.iter_mut().zip(column).zip(darks) {
                *intensity = (f64::from(column[lane]) - dark) / norm;
            }
        }
    }
}

/// How counts become w s. Not a closure: what is called from several places must yet be compiled for the instruction set of its
/// callers.
trait WeightedSignal: Copy {
    fn weighted(self, entry: usize, raw: LaneSums) -> LaneSums;
}

/// All weights are 1, and there is no dark.
#[derive(Clone, Copy)]
struct UnitWeights;

/// There is no dark.
#[derive(Clone, Copy)]
struct PixelWeights<'a>(&'a [f32]);

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
        raw.map(|raw| w * raw)
    }
}

impl WeightedSignal for &BinEntries<'_> {
    #[inline(always)]
    fn weighted(self, entry: usize, raw: LaneSums) -> LaneSums {
        raw.map(|raw| self.signal(entry, raw))
    }
}

/// The sums of the lanes in which all pixels count.
#[inline(always)]
fn sum_lanes(
    reduction: &Reduction,
    bin: &BinEntries<'_>,
    column: &[[u16; INTERLEAVED_FRAMES]],
    norm: &[f64],
    signal: impl WeightedSignal,
) -> [Option<BinSums>; INTERLEAVED_FRAMES] {
    let errors = reduction.variance_model;
    let signals = sum_column(column, |entry, raw| signal.weighted(entry, raw));
    let mean = signals.map(|signal| signal / bin.full_sums.norm);
    let is_clipped = matches!(reduction.statistic, Statistic::SigmaClip { .. });
    let is_spread = errors == VarianceModel::Azimuthal || errors == VarianceModel::Hybrid && is_clipped;
    let own =
        if errors == VarianceModel::Azimuthal { [0.; INTERLEAVED_FRAMES] } else { pixel_variance_sums(bin, column) };
    let variance = match is_spread {
        true => {
            sum_column(column, |entry, raw| deviation(signal.weighted(entry, raw), &mean, norm[entry]).map(|x| x * x))
        }
        false => own,
    };
    let mut far = [0.; INTERLEAVED_FRAMES];
    if let Statistic::SigmaClip { threshold, max_iter: 1.. } = reduction.statistic {
        let limits: LaneSums = std::array::from_fn(|lane| {
            let sums = BinSums { variance: variance[lane], ..bin.full_sums };
            limit_with_tolerance(mean[lane], sigma_clip::outlier_limit(&sums, threshold))
        });
        far = sum_column(column, |entry, raw| {
            let (distance, norm) = (deviation(signal.weighted(entry, raw), &mean, norm[entry]), norm[entry].abs());
            let is_near = |lane: usize| distance[lane].abs() <= limits[lane] * norm;
            std::array::from_fn(|lane| if is_near(lane) { 0. } else { 1. })
        });
    }
    let variance = if errors == VarianceModel::Hybrid { own } else { variance };
    std::array::from_fn(|lane| {
        let sums = BinSums { signal: signals[lane], variance: variance[lane], ..bin.full_sums };
        (far[lane] == 0.).then_some(sums)
    })
}

/// w s - m w n.
#[inline(always)]
fn deviation(signal: LaneSums, mean: &LaneSums, norm: f64) -> LaneSums {
    let mut distance = signal;
    for (distance, mean) in distance.iter_mut().zip(mean) {
        *distance -= mean * norm;
    }
    distance
}

/// Σ w² v.
#[inline(always)]
fn pixel_variance_sums(bin: &BinEntries<'_>, column: &[[u16; INTERLEAVED_FRAMES]]) -> LaneSums {
    match (bin.variance, bin.weights) {
        (PixelVariance::No, _) => [0.; INTERLEAVED_FRAMES],
        (PixelVariance::Given(given), _) => [super::partial_sums::sum(given, |variance| variance); INTERLEAVED_FRAMES],
        (PixelVariance::Counts, None) => sum_column(column, |_, raw| raw.map(|raw| raw.max(1.))),
        (PixelVariance::Counts, Some(weight)) => sum_column(column, |entry, raw| {
            let w = f64::from(weight[entry]);
            raw.map(|raw| w * w * raw.max(1.))
        }),
    }
}

/// Σ of a term of each entry, given its raw pixels: in each lane in the order of [`super::partial_sums`].
#[inline(always)]
fn sum_column(column: &[[u16; INTERLEAVED_FRAMES]], term: impl Fn(usize, LaneSums) -> LaneSums) -> LaneSums {
    let mut sums = [[0.; INTERLEAVED_FRAMES]; PARTIAL_SUMS];
    for (entry, column) in column.iter().enumerate() {
        let term = term(entry, column.map(f64::from));
        for (sum, term) in sums[entry % PARTIAL_SUMS].iter_mut().zip(&term) {
            *sum += term;
        }
    }
    std::array::from_fn(|lane| add_partial_sums(sums.map(|part| part[lane])))
}
