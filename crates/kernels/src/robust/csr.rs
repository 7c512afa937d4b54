//! The sparse matrix by bin, and the ways that frames take through it.

use super::bin_buffer::BinBuffer;
use super::bin_entries::{BinEntries, PixelVariance};
use super::interleaved::{self, InterleavedReduction};
use super::interleaved_pixels::{INTERLEAVED_FRAMES, InterleavedPixels};
use super::per_frame::PerFrameReduction;
use super::{BinSums, Reduction, Statistic};
use crate::batch::{needs_no_decoding, open_undecoded};
use crate::codec::{DecodeError, Pipeline};
use crate::fused::{InvalidRules, PlaneInvalidRule};
use crate::invalid_values::InvalidValues;
use crate::lz4_block::SLACK;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::{IntegrationPlan, VarianceModel};
use crate::simd::{LaneBackend, with_isa};
use crate::sums::{Sums, WeightOverride};
use crate::{Scratch, StoredFrame};

/// Frames that are decoded whole, at a time: what the entries of a bin are is then read once for both.
const DECODED_FRAMES_PER_PASS: usize = 2;

/// A plan's entries by bin, and what is done to the pixels of each: 12 bytes a pixel that is not split, 32 for one in
/// two bins.
pub struct CsrMatrix {
    pub(crate) reduction: Reduction,
    /// Where the entries of each bin begin, and the end of the last.
    pub(crate) starts: Vec<usize>,
    /// The pixel of each entry; they rise in a bin.
    pub(crate) pixels: Vec<u32>,
    /// w of each entry; empty where all are 1.
    pub(crate) weights: Vec<f32>,
    /// n of its pixel.
    pub(crate) norms: Vec<f64>,
    /// The dark counts of its pixel; empty without a dark.
    pub(crate) dark: Vec<f64>,
    /// w² v; empty where variances are not given.
    pub(crate) variance: Vec<f64>,
}

/// Memory of a thread.
#[derive(Default)]
pub(crate) struct CsrScratch {
    /// Whole frames.
    frames: Vec<Vec<u8>>,
    columns: Option<Box<InterleavedPixels>>,
    interleaved: interleaved::InterleavedScratch,
    buffer: BinBuffer,
}

impl CsrMatrix {
    /// The plan's entries in the order of bins. The plan's error model is that of the sums.
    pub fn new(plan: &IntegrationPlan, statistic: Statistic) -> CsrMatrix {
        let (nbins, pixels) = (plan.nbins(), plan.pixels());
        let matrix = plan.matrix.as_slices();
        let mut starts = vec![0; nbins + 1];
        for pixel in 0..pixels {
            matrix.entries(pixel).for_each(|(bin, _)| starts[bin + 1] += 1);
        }
        for bin in 0..nbins {
            starts[bin + 1] += starts[bin];
        }
        let entries = starts[nbins];
        let given = plan.variance();
        let mut by_bin = CsrMatrix {
            reduction: Reduction { statistic, variance_model: plan.variance_model() },
            pixels: vec![0; entries],
            weights: vec![0.; entries],
            norms: vec![0.; entries],
            dark: vec![0.; if plan.dark().is_some() { entries } else { 0 }],
            variance: vec![0.; if given.is_some() { entries } else { 0 }],
            starts,
        };
        let mut next = by_bin.starts.clone();
        for pixel in 0..pixels {
            for (bin, weight) in matrix.entries(pixel) {
                let (place, w) = (next[bin], f64::from(weight));
                next[bin] += 1;
                by_bin.pixels[place] = pixel as u32;
                by_bin.weights[place] = weight;
                by_bin.norms[place] = plan.normalization()[pixel];
                if let Some(dark) = plan.dark() {
                    by_bin.dark[place] = dark[pixel];
                }
                if let Some(given) = given {
                    by_bin.variance[place] = w * w * given[pixel];
                }
            }
        }
        if by_bin.weights.iter().all(|&weight| weight == 1.) {
            by_bin.weights = Vec::new();
        }
        by_bin
    }

    /// Bytes of its arrays.
    pub fn memory_bytes(&self) -> usize {
        let reals = size_of_val(&*self.norms) + size_of_val(&*self.dark) + size_of_val(&*self.variance);
        reals + size_of_val(&*self.weights) + size_of_val(&*self.pixels) + size_of_val(&*self.starts)
    }

    /// Bytes that each thread has besides, for frames side by side.
    pub fn thread_bytes(&self, plan: &IntegrationPlan) -> usize {
        InterleavedPixels::memory_bytes(plan)
    }

    /// Decodes frames and sums their bins; `plan` is the one that this was made of. A frame that does not decode is
    /// an error of its own.
    pub fn integrate(
        &self,
        pipeline: &Pipeline,
        plan: &IntegrationPlan,
        invalid: &InvalidValues,
        frames: &[StoredFrame<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Sums, DecodeError>> {
        let mut sums = Vec::with_capacity(frames.len());
        for group in frames.chunks(INTERLEAVED_FRAMES) {
            with_pixel!(pipeline.dtype(), integrate(self, pipeline, plan, invalid, group, scratch, &mut sums));
        }
        scratch.decode_paths.csr += frames.len() as u64;
        sums
    }

    /// Whether it needs no order of the pixels' intensities: devices have sums alone.
    pub fn is_order_free(&self) -> bool {
        !matches!(self.reduction.statistic, Statistic::QuantileMean { .. })
    }

    /// A frame's sums, of numbers by bin: signals, then variances, norms, squares of norms, counts.
    pub(crate) fn sums_from_device(&self, plan: &IntegrationPlan, numbers: &[f64]) -> Sums {
        let mut lists = numbers.chunks_exact(plan.nbins().max(1)).map(<[f64]>::to_vec);
        let mut next = || lists.next().unwrap_or_default();
        let (signal, variance) = (next(), next());
        let weights = WeightOverride { norm: next(), norm_sq: next(), count: next() };
        FrameBinSums { signal, variance, weights }.into_sums(self, plan)
    }

    /// The pixels of the entries of a bin, and of those behind it.
    pub(super) fn pixels_from_bin(&self, bin: usize) -> &[u32] {
        &self.pixels[self.starts[bin]..]
    }

    /// A bin of the plan.
    pub(super) fn entries_of_bin(&self, bin: usize, plan: &IntegrationPlan) -> BinEntries<'_> {
        let range = self.starts[bin]..self.starts[bin + 1];
        BinEntries {
            pixels: &self.pixels[range.clone()],
            weights: (!self.weights.is_empty()).then(|| &self.weights[range.clone()]),
            norms: &self.norms[range.clone()],
            dark: (!self.dark.is_empty()).then(|| &self.dark[range.clone()]),
            variance: match self.reduction.variance_model {
                VarianceModel::None | VarianceModel::Azimuthal => PixelVariance::No,
                VarianceModel::Poisson | VarianceModel::Hybrid => PixelVariance::Counts,
                VarianceModel::Given => PixelVariance::Given(&self.variance[range]),
            },
            full_sums: BinSums {
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
pub(crate) struct FrameBinSums {
    signal: Vec<f64>,
    variance: Vec<f64>,
    weights: WeightOverride,
}

impl FrameBinSums {
    pub(super) fn zeros(plan: &IntegrationPlan) -> FrameBinSums {
        let zeros = || vec![0.; plan.nbins()];
        let weights = WeightOverride { norm: zeros(), norm_sq: zeros(), count: zeros() };
        FrameBinSums { signal: zeros(), variance: zeros(), weights }
    }

    pub(super) fn set_bin(&mut self, bin: usize, sums: BinSums) {
        self.signal[bin] = sums.signal;
        self.variance[bin] = sums.variance;
        self.weights.norm[bin] = sums.norm;
        self.weights.norm_sq[bin] = sums.norm_sq;
        self.weights.count[bin] = sums.count;
    }

    fn into_sums(self, by_bin: &CsrMatrix, plan: &IntegrationPlan) -> Sums {
        let has_variance = by_bin.reduction.variance_model != VarianceModel::None;
        let weights = &self.weights;
        let is_plan = weights.norm == plan.norm() && weights.norm_sq == plan.norm_sq() && weights.count == plan.count();
        Sums {
            signal: self.signal,
            variance: has_variance.then_some(self.variance),
            weight_override: (!is_plan).then_some(self.weights),
        }
    }
}

/// Integrates as many as [`INTERLEAVED_FRAMES`] frames.
fn integrate<T: Pixel>(
    by_bin: &CsrMatrix,
    pipeline: &Pipeline,
    plan: &IntegrationPlan,
    invalid: &InvalidValues,
    frames: &[StoredFrame<'_>],
    scratch: &mut Scratch,
    results: &mut Vec<Result<Sums, DecodeError>>,
) {
    let isa = scratch.isa();
    let memory = &mut scratch.csr;
    let task = CsrBatch { by_bin, pipeline, plan, invalid, frames };
    let sums = with_isa!(isa, |steps| {
        task.integrate_interleaved::<T, _>(steps, memory)
            .unwrap_or_else(|| task.integrate_per_frame::<T, _>(steps, memory))
    });
    results.extend(sums);
}

/// Frames, and what is to be done with them.
#[derive(Clone, Copy)]
struct CsrBatch<'a> {
    by_bin: &'a CsrMatrix,
    pipeline: &'a Pipeline,
    plan: &'a IntegrationPlan,
    invalid: &'a InvalidValues,
    frames: &'a [StoredFrame<'a>],
}

impl<'a> CsrBatch<'a> {
    /// Integrates as many as [`INTERLEAVED_FRAMES`] frames side by side; `None` where they are not for that.
    fn integrate_interleaved<T: Pixel, B: LaneBackend<INTERLEAVED_FRAMES>>(
        self,
        backend: B,
        memory: &mut CsrScratch,
    ) -> Option<Vec<Result<Sums, DecodeError>>> {
        let CsrBatch { by_bin, pipeline, plan, invalid, frames } = self;
        if !T::INTEGER || frames.len() < 2 || !frames.iter().all(|stored| needs_no_decoding(pipeline, stored)) {
            return None;
        }
        let native = invalid.for_type::<T>();
        let rules = InvalidRules { planes: PlaneInvalidRule::new(&native), native };
        let open = |stored: &StoredFrame<'a>| open_undecoded(pipeline, stored, plan.pixels() * T::SIZE);
        let mut sources: Vec<_> = frames.iter().map(open).collect();
        let CsrScratch { columns, interleaved: room, buffer: work, .. } = memory;
        let columns = columns.get_or_insert_default();
        if !columns.read(backend, plan, &rules, &mut sources) {
            return None;
        }
        let mut totals: Vec<FrameBinSums> = frames.iter().map(|_| FrameBinSums::zeros(plan)).collect();
        backend.reduce_interleaved(InterleavedReduction {
            by_bin,
            plan,
            columns,
            room,
            buffer: work,
            totals: &mut totals,
        });
        let sums =
            sources.into_iter().zip(totals).map(|(source, totals)| source.map(|_| totals.into_sums(by_bin, plan)));
        Some(sums.collect())
    }

    /// Decodes frames whole, and integrates a few at a time.
    fn integrate_per_frame<T: Pixel, B: LaneBackend<INTERLEAVED_FRAMES>>(
        self,
        backend: B,
        memory: &mut CsrScratch,
    ) -> Vec<Result<Sums, DecodeError>> {
        let CsrBatch { by_bin, pipeline, plan, invalid, frames } = self;
        let CsrScratch { frames: decoded, buffer: work, .. } = memory;
        let (rule, len) = (invalid.for_type::<T>(), plan.pixels() * T::SIZE);
        let mut sums = Vec::with_capacity(frames.len());
        decoded.resize_with(DECODED_FRAMES_PER_PASS, Vec::new);
        for few in frames.chunks(DECODED_FRAMES_PER_PASS) {
            let decode = |(stored, pixels): (&StoredFrame<'_>, &mut Vec<u8>)| {
                pixels.resize(len + SLACK, 0);
                pipeline.decode_with_slack(stored.filter_mask, stored.bytes, pixels, len)
            };
            let sound: Vec<Result<(), DecodeError>> = few.iter().zip(&mut *decoded).map(decode).collect();
            let good = decoded.iter().zip(&sound).filter(|(_, sound)| sound.is_ok());
            let good: Vec<&[u8]> = good.map(|(pixels, _)| &pixels[..len]).collect();
            let mut totals: Vec<FrameBinSums> = good.iter().map(|_| FrameBinSums::zeros(plan)).collect();
            backend.reduce_per_frame(PerFrameReduction {
                by_bin,
                plan,
                rule: &rule,
                frames: &good,
                buffer: work,
                totals: &mut totals,
            });
            let mut totals = totals.into_iter();
            let mut finish = |()| totals.next().expect("sums of each good frame").into_sums(by_bin, plan);
            sums.extend(sound.into_iter().map(|sound| sound.map(&mut finish)));
        }
        sums
    }
}
