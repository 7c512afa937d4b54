//! The sparse matrix by bin, and the ways that frames take through it.

use super::alone::Alone;
use super::beside::{self, Beside};
use super::bin::{Bin, Variance};
use super::columns::{Columns, LANES};
use super::work::Work;
use super::{BinSums, Reduction, Statistic};
use crate::backend::{Backend, with_isa};
use crate::batch::{is_direct, open_direct};
use crate::decode::{DecodeError, Pipeline};
use crate::fused::{PlaneRule, Rules};
use crate::invalid::Invalid;
use crate::lz4::SLACK;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::{ErrorModel, Plan};
use crate::sums::{Exception, Sums};
use crate::{Scratch, Stored};

/// Frames that are decoded whole, at a time: what the entries of a bin are is then read once for both.
const DECODED: usize = 2;

/// A plan's entries by bin, and what is done to the pixels of each: 12 bytes a pixel that is not split, 32 for one in
/// two bins.
pub struct ByBin {
    pub(crate) reduction: Reduction,
    /// Where the entries of each bin begin, and the end of the last.
    pub(crate) starts: Vec<usize>,
    /// The pixel of each entry; they rise in a bin.
    pub(crate) pixel: Vec<u32>,
    /// w of each entry; empty where all are 1.
    pub(crate) weight: Vec<f32>,
    /// n of its pixel.
    pub(crate) norm: Vec<f64>,
    /// The dark counts of its pixel; empty without a dark.
    pub(crate) dark: Vec<f64>,
    /// w² v; empty where variances are not given.
    pub(crate) variance: Vec<f64>,
}

/// Memory of a thread.
#[derive(Default)]
pub(crate) struct Memory {
    /// Whole frames.
    frames: Vec<Vec<u8>>,
    columns: Option<Box<Columns>>,
    beside: beside::Room,
    work: Work,
}

impl ByBin {
    /// The plan's entries in the order of bins. The plan's error model is that of the sums.
    pub fn new(plan: &Plan, statistic: Statistic) -> ByBin {
        let (nbins, pixels) = (plan.nbins(), plan.pixels());
        let matrix = plan.matrix.view();
        let mut starts = vec![0; nbins + 1];
        for pixel in 0..pixels {
            matrix.entries(pixel).for_each(|(bin, _)| starts[bin + 1] += 1);
        }
        for bin in 0..nbins {
            starts[bin + 1] += starts[bin];
        }
        let entries = starts[nbins];
        let given = plan.variance();
        let mut by_bin = ByBin {
            reduction: Reduction { statistic, errors: plan.errors() },
            pixel: vec![0; entries],
            weight: vec![0.; entries],
            norm: vec![0.; entries],
            dark: vec![0.; if plan.dark().is_some() { entries } else { 0 }],
            variance: vec![0.; if given.is_some() { entries } else { 0 }],
            starts,
        };
        let mut next = by_bin.starts.clone();
        for pixel in 0..pixels {
            for (bin, weight) in matrix.entries(pixel) {
                let (place, w) = (next[bin], f64::from(weight));
                next[bin] += 1;
                by_bin.pixel[place] = pixel as u32;
                by_bin.weight[place] = weight;
                by_bin.norm[place] = plan.normalization()[pixel];
                if let Some(dark) = plan.dark() {
                    by_bin.dark[place] = dark[pixel];
                }
                if let Some(given) = given {
                    by_bin.variance[place] = w * w * given[pixel];
                }
            }
        }
        if by_bin.weight.iter().all(|&weight| weight == 1.) {
            by_bin.weight = Vec::new();
        }
        by_bin
    }

    /// Bytes of its arrays.
    pub fn bytes(&self) -> usize {
        let reals = size_of_val(&*self.norm) + size_of_val(&*self.dark) + size_of_val(&*self.variance);
        reals + size_of_val(&*self.weight) + size_of_val(&*self.pixel) + size_of_val(&*self.starts)
    }

    /// Bytes that each thread has besides, for frames side by side.
    pub fn bytes_a_thread(&self, plan: &Plan) -> usize {
        Columns::bytes(plan)
    }

    /// Decodes frames and sums their bins; `plan` is the one that this was made of. A frame that does not decode is
    /// an error of its own.
    pub fn integrate(
        &self,
        pipeline: &Pipeline,
        plan: &Plan,
        invalid: &Invalid,
        frames: &[Stored<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Sums, DecodeError>> {
        let mut sums = Vec::with_capacity(frames.len());
        for group in frames.chunks(LANES) {
            with_pixel!(pipeline.dtype(), integrate(self, pipeline, plan, invalid, group, scratch, &mut sums));
        }
        scratch.ways.by_bin += frames.len() as u64;
        sums
    }

    /// Whether it needs no order of the pixels' intensities: devices have sums alone.
    pub fn is_sums(&self) -> bool {
        !matches!(self.reduction.statistic, Statistic::Between { .. })
    }

    /// A frame's sums, of numbers by bin: signals, then variances, norms, squares of norms, counts.
    pub(crate) fn sums(&self, plan: &Plan, numbers: &[f64]) -> Sums {
        let mut lists = numbers.chunks_exact(plan.nbins().max(1)).map(<[f64]>::to_vec);
        let mut next = || lists.next().unwrap_or_default();
        let (signal, variance) = (next(), next());
        let weights = Exception { norm: next(), norm_sq: next(), count: next() };
        Totals { signal, variance, weights }.finish(self, plan)
    }

    /// The pixels of the entries of a bin, and of those behind it.
    pub(super) fn pixels_from(&self, bin: usize) -> &[u32] {
        &self.pixel[self.starts[bin]..]
    }

    /// A bin of the plan.
    pub(super) fn bin(&self, bin: usize, plan: &Plan) -> Bin<'_> {
        let range = self.starts[bin]..self.starts[bin + 1];
        Bin {
            pixel: &self.pixel[range.clone()],
            weight: (!self.weight.is_empty()).then(|| &self.weight[range.clone()]),
            norm: &self.norm[range.clone()],
            dark: (!self.dark.is_empty()).then(|| &self.dark[range.clone()]),
            variance: match self.reduction.errors {
                ErrorModel::No | ErrorModel::Azimuthal => Variance::No,
                ErrorModel::Poisson | ErrorModel::Hybrid => Variance::Counts,
                ErrorModel::Given => Variance::Given(&self.variance[range]),
            },
            whole: BinSums {
                signal: 0.,
                variance: 0.,
                norm: plan.norm()[bin],
                norm_sq: plan.norm_sq()[bin],
                count: plan.count()[bin],
            },
        }
    }
}

/// The sums of all bins.
pub(crate) struct Totals {
    signal: Vec<f64>,
    variance: Vec<f64>,
    weights: Exception,
}

impl Totals {
    pub(super) fn of(plan: &Plan) -> Totals {
        let zeros = || vec![0.; plan.nbins()];
        let weights = Exception { norm: zeros(), norm_sq: zeros(), count: zeros() };
        Totals { signal: zeros(), variance: zeros(), weights }
    }

    pub(super) fn set(&mut self, bin: usize, sums: BinSums) {
        self.signal[bin] = sums.signal;
        self.variance[bin] = sums.variance;
        self.weights.norm[bin] = sums.norm;
        self.weights.norm_sq[bin] = sums.norm_sq;
        self.weights.count[bin] = sums.count;
    }

    fn finish(self, by_bin: &ByBin, plan: &Plan) -> Sums {
        let has_variance = by_bin.reduction.errors != ErrorModel::No;
        let weights = &self.weights;
        let is_plan = weights.norm == plan.norm() && weights.norm_sq == plan.norm_sq() && weights.count == plan.count();
        Sums {
            signal: self.signal,
            variance: has_variance.then_some(self.variance),
            exception: (!is_plan).then_some(self.weights),
        }
    }
}

/// Integrates as many as [`LANES`] frames.
fn integrate<T: Pixel>(
    by_bin: &ByBin,
    pipeline: &Pipeline,
    plan: &Plan,
    invalid: &Invalid,
    frames: &[Stored<'_>],
    scratch: &mut Scratch,
    results: &mut Vec<Result<Sums, DecodeError>>,
) {
    let isa = scratch.isa();
    let memory = &mut scratch.by_bin;
    let task = Task { by_bin, pipeline, plan, invalid, frames };
    let sums = with_isa!(isa, |steps| {
        task.beside::<T, _>(steps, memory).unwrap_or_else(|| task.alone::<T, _>(steps, memory))
    });
    results.extend(sums);
}

/// Frames, and what is to be done with them.
#[derive(Clone, Copy)]
struct Task<'a> {
    by_bin: &'a ByBin,
    pipeline: &'a Pipeline,
    plan: &'a Plan,
    invalid: &'a Invalid,
    frames: &'a [Stored<'a>],
}

impl<'a> Task<'a> {
    /// Integrates as many as [`LANES`] frames side by side; `None` where they are not for that.
    fn beside<T: Pixel, B: Backend<LANES>>(
        self,
        backend: B,
        memory: &mut Memory,
    ) -> Option<Vec<Result<Sums, DecodeError>>> {
        let Task { by_bin, pipeline, plan, invalid, frames } = self;
        if !T::INTEGER || frames.len() < 2 || !frames.iter().all(|stored| is_direct(pipeline, stored)) {
            return None;
        }
        let native = invalid.of::<T>();
        let rules = Rules { planes: PlaneRule::of(&native), native };
        let open = |stored: &Stored<'a>| open_direct(pipeline, stored, plan.pixels() * T::SIZE);
        let mut sources: Vec<_> = frames.iter().map(open).collect();
        let Memory { columns, beside: room, work, .. } = memory;
        let columns = columns.get_or_insert_default();
        if !columns.read(backend, plan, &rules, &mut sources) {
            return None;
        }
        let mut totals: Vec<Totals> = frames.iter().map(|_| Totals::of(plan)).collect();
        backend.reduce_beside(Beside { by_bin, plan, columns, room, work, totals: &mut totals });
        let sums = sources.into_iter().zip(totals).map(|(source, totals)| source.map(|_| totals.finish(by_bin, plan)));
        Some(sums.collect())
    }

    /// Decodes frames whole, and integrates a few at a time.
    fn alone<T: Pixel, B: Backend<LANES>>(self, backend: B, memory: &mut Memory) -> Vec<Result<Sums, DecodeError>> {
        let Task { by_bin, pipeline, plan, invalid, frames } = self;
        let Memory { frames: decoded, work, .. } = memory;
        let (rule, len) = (invalid.of::<T>(), plan.pixels() * T::SIZE);
        let mut sums = Vec::with_capacity(frames.len());
        decoded.resize_with(DECODED, Vec::new);
        for few in frames.chunks(DECODED) {
            let decode = |(stored, pixels): (&Stored<'_>, &mut Vec<u8>)| {
                pixels.resize(len + SLACK, 0);
                pipeline.decode_over(stored.filter_mask, stored.bytes, pixels, len)
            };
            let sound: Vec<Result<(), DecodeError>> = few.iter().zip(&mut *decoded).map(decode).collect();
            let good = decoded.iter().zip(&sound).filter(|(_, sound)| sound.is_ok());
            let good: Vec<&[u8]> = good.map(|(pixels, _)| &pixels[..len]).collect();
            let mut totals: Vec<Totals> = good.iter().map(|_| Totals::of(plan)).collect();
            backend.reduce_alone(Alone { by_bin, plan, rule: &rule, frames: &good, work, totals: &mut totals });
            let mut totals = totals.into_iter();
            let mut finish = |()| totals.next().expect("sums of each good frame").finish(by_bin, plan);
            sums.extend(sound.into_iter().map(|sound| sound.map(&mut finish)));
        }
        sums
    }
}
