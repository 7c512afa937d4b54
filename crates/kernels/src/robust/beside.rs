//! Frames side by side, bin by bin: what all frames need of a bin's entries is read once, and lanes are frames. A lane
//! whose bin has a pixel that is not in its column, or an outlier, is done alone ([`Work`]); both ways keep one order of
//! summation. Pixels that are invalid in all of the frames are taken out first.

use super::bin::{Bin, Variance};
use super::by_bin::{ByBin, Totals};
use super::clip;
use super::columns::{Columns, ELSEWHERE, LANES};
use super::lanes::total;
use super::quantile::{self, Pixels, Term, Terms};
use super::without::Without;
use super::work::{Work, limit_with_rounding};
use super::{BinSums, Reduction, Statistic};
use crate::backend::{Steps, prefetch_one};
use crate::invalid::InvalidOf;
use crate::plan::{ErrorModel, Plan};

/// Partial sums, as in [`super::lanes`].
const PARTS: usize = 16;

/// So many entries before it is needed a column is asked for.
const AHEAD: usize = 64;

type Lanes = [f64; LANES];

/// Memory of a thread.
#[derive(Default)]
pub(crate) struct Room {
    /// The columns of the bin's pixels.
    column: Vec<[u16; LANES]>,
    without: Without,
    /// w n of its entries.
    norm: Vec<f64>,
    /// The pixels of one lane.
    raw: Vec<f64>,
    /// s / n of these.
    intensity: Vec<f64>,
    quantile: quantile::Room,
}

/// Frames side by side, and what is done to them.
pub(crate) struct Beside<'a> {
    pub(super) by_bin: &'a ByBin,
    pub(super) plan: &'a Plan,
    pub(super) columns: &'a Columns,
    pub(super) room: &'a mut Room,
    pub(super) work: &'a mut Work,
    /// As many as there are frames.
    pub(super) totals: &'a mut [Totals],
}

impl Beside<'_> {
    /// The sums of all bins of each frame.
    #[inline(always)]
    pub(crate) fn reduce<S: Steps>(self, steps: S) {
        let Beside { by_bin, plan, columns, room, work, totals } = self;
        let (reduction, valid) = (by_bin.reduction, InvalidOf::default());
        for nth in 0..plan.nbins() {
            let bin = by_bin.bin(nth, plan);
            let Room { column, without, norm, raw, intensity, quantile } = &mut *room;
            let mut largest = gather(&columns.pixels, by_bin.pixels_from(nth), bin.pixel.len(), column);
            let bin = match largest[..totals.len()].contains(&ELSEWHERE) {
                true => without.dead(&bin, columns, column, totals.len(), &mut largest),
                false => bin,
            };
            if bin.pixel.is_empty() {
                continue;
            }
            bin.fill_norms(norm);
            let is_sorted = matches!(reduction.statistic, Statistic::Between { .. });
            let sums = match (bin.weight, bin.dark) {
                _ if is_sorted => [None; LANES],
                (None, None) => of_all(&reduction, &bin, column, norm, Plain),
                (Some(weight), None) => of_all(&reduction, &bin, column, norm, Weighted(weight)),
                (_, Some(_)) => of_all(&reduction, &bin, column, norm, &bin),
            };
            for (lane, totals) in totals.iter_mut().enumerate() {
                let is_here = largest[lane] < ELSEWHERE;
                let sums = match (reduction.statistic, sums[lane]) {
                    (_, Some(sums)) if is_here => sums,
                    (Statistic::Between { low, high }, _) if is_here => {
                        fill_intensities(&bin, column, lane, intensity);
                        let pixels = Pixels { intensity, norm, bin: &LaneOf { bin: &bin, column, lane } };
                        quantile::reduce(steps, &pixels, Some(bin.whole), low, high, quantile)
                    }
                    _ => {
                        raw.clear();
                        for (&pixel, column) in bin.pixel.iter().zip(column.iter()) {
                            raw.push(columns.value(pixel, lane, column[lane]));
                        }
                        reduction.reduce_raw(steps, &bin, raw, &valid, work)
                    }
                };
                totals.set(nth, sums);
            }
        }
    }
}

/// One lane of a bin.
struct LaneOf<'a> {
    bin: &'a Bin<'a>,
    column: &'a [[u16; LANES]],
    lane: usize,
}

impl Terms for LaneOf<'_> {
    fn term(&self, place: usize) -> Term {
        let raw = f64::from(self.column[place][self.lane]);
        self.bin.term(place, raw)
    }
}

/// Copies the columns of some pixels, and says what the largest is in each lane. Those that follow are asked for.
#[inline(always)]
fn gather(pixels: &[[u16; LANES]], from: &[u32], count: usize, column: &mut Vec<[u16; LANES]>) -> [u16; LANES] {
    let mut largest = [0; LANES];
    column.resize(count, [0; LANES]);
    for (entry, (column, &pixel)) in column.iter_mut().zip(from).enumerate() {
        let ahead = from[(entry + AHEAD).min(from.len() - 1)];
        prefetch_one(&pixels[ahead as usize]);
        *column = pixels[pixel as usize];
        for lane in 0..LANES {
            largest[lane] = largest[lane].max(column[lane]);
        }
    }
    largest
}

/// s / n of the pixels of one lane.
#[inline(always)]
fn fill_intensities(bin: &Bin<'_>, column: &[[u16; LANES]], lane: usize, intensity: &mut Vec<f64>) {
    intensity.resize(column.len(), 0.);
    match bin.dark {
        None => {
            for ((intensity, column), norm) in intensity.iter_mut().zip(column).zip(bin.norm) {
                *intensity = f64::from(column[lane]) / norm;
            }
        }
        Some(dark) => {
            let darks = bin.norm.iter().zip(dark);
            for ((intensity, column), (norm, dark)) in intensity.iter_mut().zip(column).zip(darks) {
                *intensity = (f64::from(column[lane]) - dark) / norm;
            }
        }
    }
}

/// How counts become w s. Not a closure: what is called from several places must yet be compiled for the instruction set of its
/// callers.
trait Signal: Copy {
    fn of(self, entry: usize, raw: Lanes) -> Lanes;
}

/// All weights are 1, and there is no dark.
#[derive(Clone, Copy)]
struct Plain;

/// There is no dark.
#[derive(Clone, Copy)]
struct Weighted<'a>(&'a [f32]);

impl Signal for Plain {
    #[inline(always)]
    fn of(self, _: usize, raw: Lanes) -> Lanes {
        raw
    }
}

impl Signal for Weighted<'_> {
    #[inline(always)]
    fn of(self, entry: usize, raw: Lanes) -> Lanes {
        let w = f64::from(self.0[entry]);
        raw.map(|raw| w * raw)
    }
}

impl Signal for &Bin<'_> {
    #[inline(always)]
    fn of(self, entry: usize, raw: Lanes) -> Lanes {
        raw.map(|raw| self.signal(entry, raw))
    }
}

/// The sums of the lanes in which all pixels count.
#[inline(always)]
fn of_all(
    reduction: &Reduction,
    bin: &Bin<'_>,
    column: &[[u16; LANES]],
    norm: &[f64],
    signal: impl Signal,
) -> [Option<BinSums>; LANES] {
    let errors = reduction.errors;
    let signals = sum(column, |entry, raw| signal.of(entry, raw));
    let mean = signals.map(|signal| signal / bin.whole.norm);
    let is_clipped = matches!(reduction.statistic, Statistic::Clipped { .. });
    let is_spread = errors == ErrorModel::Azimuthal || errors == ErrorModel::Hybrid && is_clipped;
    let own = if errors == ErrorModel::Azimuthal { [0.; LANES] } else { own_variance(bin, column) };
    let variance = match is_spread {
        true => sum(column, |entry, raw| distance(signal.of(entry, raw), &mean, norm[entry]).map(|x| x * x)),
        false => own,
    };
    let mut far = [0.; LANES];
    if let Statistic::Clipped { threshold, rounds: 1.. } = reduction.statistic {
        let limits: Lanes = std::array::from_fn(|lane| {
            let sums = BinSums { variance: variance[lane], ..bin.whole };
            limit_with_rounding(mean[lane], clip::limit(&sums, threshold))
        });
        far = sum(column, |entry, raw| {
            let (distance, norm) = (distance(signal.of(entry, raw), &mean, norm[entry]), norm[entry].abs());
            let is_near = |lane: usize| distance[lane].abs() <= limits[lane] * norm;
            std::array::from_fn(|lane| if is_near(lane) { 0. } else { 1. })
        });
    }
    let variance = if errors == ErrorModel::Hybrid { own } else { variance };
    std::array::from_fn(|lane| {
        let sums = BinSums { signal: signals[lane], variance: variance[lane], ..bin.whole };
        (far[lane] == 0.).then_some(sums)
    })
}

/// w s - m w n.
#[inline(always)]
fn distance(signal: Lanes, mean: &Lanes, norm: f64) -> Lanes {
    let mut distance = signal;
    for (distance, mean) in distance.iter_mut().zip(mean) {
        *distance -= mean * norm;
    }
    distance
}

/// Σ w² v.
#[inline(always)]
fn own_variance(bin: &Bin<'_>, column: &[[u16; LANES]]) -> Lanes {
    match (bin.variance, bin.weight) {
        (Variance::No, _) => [0.; LANES],
        (Variance::Given(given), _) => [super::lanes::sum(given, |variance| variance); LANES],
        (Variance::Counts, None) => sum(column, |_, raw| raw.map(|raw| raw.max(1.))),
        (Variance::Counts, Some(weight)) => sum(column, |entry, raw| {
            let w = f64::from(weight[entry]);
            raw.map(|raw| w * w * raw.max(1.))
        }),
    }
}

/// Σ of a term of each entry, given its raw pixels: in each lane in the order of [`super::lanes`].
#[inline(always)]
fn sum(column: &[[u16; LANES]], term: impl Fn(usize, Lanes) -> Lanes) -> Lanes {
    let mut sums = [[0.; LANES]; PARTS];
    for (entry, column) in column.iter().enumerate() {
        let term = term(entry, column.map(f64::from));
        for (sum, term) in sums[entry % PARTS].iter_mut().zip(&term) {
            *sum += term;
        }
    }
    std::array::from_fn(|lane| total(sums.map(|part| part[lane])))
}
