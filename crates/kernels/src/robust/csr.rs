//! The sparse matrix in CSR form, and the integration of frames with it.

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

/// Number of frames that are decoded whole before they are reduced. The entries of a bin are then read once for both.
const DECODED_FRAMES_PER_PASS: usize = 2;

/// A plan's matrix in CSR form (entries sorted by bin), and the statistic to compute with it.
///
/// It takes 12 bytes for a pixel that is not split and 32 for a pixel in two bins, without dark and variance.
pub struct CsrMatrix {
    pub(crate) reduction: Reduction,
    /// Index of the first entry of each bin, then the number of entries.
    pub(crate) starts: Vec<usize>,
    /// The pixel of each entry, ascending within a bin.
    pub(crate) pixels: Vec<u32>,
    /// w of each entry; empty if all weights are 1.
    pub(crate) weights: Vec<f32>,
    /// n of the pixel of each entry.
    pub(crate) norms: Vec<f64>,
    /// Dark counts of the pixel of each entry; empty without a dark frame.
    pub(crate) dark: Vec<f64>,
    /// w² v of each entry; empty unless variances are given.
    pub(crate) variance: Vec<f64>,
}

/// Working memory of a thread.
#[derive(Default)]
pub(crate) struct CsrScratch {
    /// Decoded frames.
    frames: Vec<Vec<u8>>,
    interleaved_pixels: Option<Box<InterleavedPixels>>,
    interleaved: interleaved::InterleavedScratch,
    buffer: BinBuffer,
}

impl CsrMatrix {
    /// Sorts the entries of a plan's matrix by bin. The sums get the plan's variance model.
    pub fn new(plan: &IntegrationPlan, statistic: Statistic) -> CsrMatrix {
        let (nbins, pixels) = (plan.nbins(), plan.pixels());
        let csc = plan.matrix.as_slices();
        let mut starts = vec![0; nbins + 1];
        for pixel in 0..pixels {
            csc.entries(pixel).for_each(|(bin, _)| starts[bin + 1] += 1);
        }
        for bin in 0..nbins {
            starts[bin + 1] += starts[bin];
        }
        let entries = starts[nbins];
        let given = plan.variance();
        let mut matrix = CsrMatrix {
            reduction: Reduction { statistic, variance_model: plan.variance_model() },
            pixels: vec![0; entries],
            weights: vec![0.; entries],
            norms: vec![0.; entries],
            dark: vec![0.; if plan.dark().is_some() { entries } else { 0 }],
            variance: vec![0.; if given.is_some() { entries } else { 0 }],
            starts,
        };
        let mut next = matrix.starts.clone();
        for pixel in 0..pixels {
            for (bin, weight) in csc.entries(pixel) {
                let (entry, w) = (next[bin], f64::from(weight));
                next[bin] += 1;
                matrix.pixels[entry] = pixel as u32;
                matrix.weights[entry] = weight;
                matrix.norms[entry] = plan.normalization()[pixel];
                if let Some(dark) = plan.dark() {
                    matrix.dark[entry] = dark[pixel];
                }
                if let Some(given) = given {
                    matrix.variance[entry] = w * w * given[pixel];
                }
            }
        }
        if matrix.weights.iter().all(|&weight| weight == 1.) {
            matrix.weights = Vec::new();
        }
        matrix
    }

    /// Returns true if the matrix has the bins of a plan and refers to no pixel outside of its frames.
    pub(crate) fn fits(&self, plan: &IntegrationPlan) -> bool {
        self.starts.len() == plan.nbins() + 1 && self.pixels.iter().all(|&pixel| (pixel as usize) < plan.pixels())
    }

    /// Returns the bytes of memory that the matrix takes.
    pub fn memory_bytes(&self) -> usize {
        let reals = size_of_val(&*self.norms) + size_of_val(&*self.dark) + size_of_val(&*self.variance);
        reals + size_of_val(&*self.weights) + size_of_val(&*self.pixels) + size_of_val(&*self.starts)
    }

    /// Returns the bytes of memory that each thread needs besides, for interleaved frames.
    pub fn thread_bytes(&self, plan: &IntegrationPlan) -> usize {
        InterleavedPixels::memory_bytes(plan)
    }

    /// Decodes frames and returns the sums of each. `plan` must be the plan that the matrix was made from.
    ///
    /// A frame that can't be decoded gives an error; the other frames are not affected.
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

    /// Returns true if the statistic does not sort pixels by intensity. OpenCL devices compute only such statistics.
    pub fn is_order_free(&self) -> bool {
        !matches!(self.reduction.statistic, Statistic::QuantileMean { .. })
    }

    /// Returns a frame's sums from a device's result: `nbins` signals, then variances, norms, squared norms, counts.
    pub(crate) fn sums_from_device(&self, plan: &IntegrationPlan, numbers: &[f64]) -> Sums {
        let mut lists = numbers.chunks_exact(plan.nbins().max(1)).map(<[f64]>::to_vec);
        let mut next = || lists.next().unwrap_or_default();
        let (signal, variance) = (next(), next());
        let weights = WeightOverride { norm: next(), norm_sq: next(), count: next() };
        FrameBinSums { signal, variance, weights }.into_sums(self, plan)
    }

    /// Returns the pixels of all entries from the first one of a bin on, including those of the bins that follow.
    pub(super) fn pixels_from_bin(&self, bin: usize) -> &[u32] {
        &self.pixels[self.starts[bin]..]
    }

    /// Returns the pixels that a bin has, with their weights and norms.
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

/// A frame's sums of all bins.
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

    fn into_sums(self, matrix: &CsrMatrix, plan: &IntegrationPlan) -> Sums {
        let has_variance = matrix.reduction.variance_model != VarianceModel::None;
        let weights = &self.weights;
        let equals_plan =
            weights.norm == plan.norm() && weights.norm_sq == plan.norm_sq() && weights.count == plan.count();
        Sums {
            signal: self.signal,
            variance: has_variance.then_some(self.variance),
            weight_override: (!equals_plan).then_some(self.weights),
        }
    }
}

/// Integrates up to [`INTERLEAVED_FRAMES`] frames of one pixel type, and appends their sums to `results`.
fn integrate<T: Pixel>(
    matrix: &CsrMatrix,
    pipeline: &Pipeline,
    plan: &IntegrationPlan,
    invalid: &InvalidValues,
    frames: &[StoredFrame<'_>],
    scratch: &mut Scratch,
    results: &mut Vec<Result<Sums, DecodeError>>,
) {
    let isa = scratch.isa();
    let memory = &mut scratch.csr;
    let batch = CsrBatch { matrix, pipeline, plan, invalid, frames };
    let sums = with_isa!(isa, |backend| {
        batch
            .integrate_interleaved::<T, _>(backend, memory)
            .unwrap_or_else(|| batch.integrate_per_frame::<T, _>(backend, memory))
    });
    results.extend(sums);
}

/// Up to [`INTERLEAVED_FRAMES`] stored frames to be integrated.
#[derive(Clone, Copy)]
struct CsrBatch<'a> {
    matrix: &'a CsrMatrix,
    pipeline: &'a Pipeline,
    plan: &'a IntegrationPlan,
    invalid: &'a InvalidValues,
    frames: &'a [StoredFrame<'a>],
}

impl<'a> CsrBatch<'a> {
    /// Integrates the frames interleaved. Returns `None` if that is not possible: for floating-point pixels, a single
    /// frame, frames that must be decoded whole, or too many pixels that overflow 16 bits.
    fn integrate_interleaved<T: Pixel, B: LaneBackend<INTERLEAVED_FRAMES>>(
        self,
        backend: B,
        memory: &mut CsrScratch,
    ) -> Option<Vec<Result<Sums, DecodeError>>> {
        let CsrBatch { matrix, pipeline, plan, invalid, frames } = self;
        if !T::INTEGER || frames.len() < 2 || !frames.iter().all(|stored| needs_no_decoding(pipeline, stored)) {
            return None;
        }
        let native = invalid.for_type::<T>();
        let rules = InvalidRules { planes: PlaneInvalidRule::new(&native), native };
        let open = |stored: &StoredFrame<'a>| open_undecoded(pipeline, stored, plan.pixels() * T::SIZE);
        let mut sources: Vec<_> = frames.iter().map(open).collect();
        let CsrScratch { interleaved_pixels, interleaved: scratch, buffer, .. } = memory;
        let interleaved = interleaved_pixels.get_or_insert_default();
        if !interleaved.read(backend, plan, &rules, &mut sources) {
            return None;
        }
        let mut totals: Vec<FrameBinSums> = frames.iter().map(|_| FrameBinSums::zeros(plan)).collect();
        backend.reduce_interleaved(InterleavedReduction {
            matrix,
            plan,
            interleaved,
            scratch,
            buffer,
            totals: &mut totals,
        });
        let sums =
            sources.into_iter().zip(totals).map(|(source, totals)| source.map(|_| totals.into_sums(matrix, plan)));
        Some(sums.collect())
    }

    /// Decodes frames whole and integrates [`DECODED_FRAMES_PER_PASS`] at a time.
    fn integrate_per_frame<T: Pixel, B: LaneBackend<INTERLEAVED_FRAMES>>(
        self,
        backend: B,
        memory: &mut CsrScratch,
    ) -> Vec<Result<Sums, DecodeError>> {
        let CsrBatch { matrix, pipeline, plan, invalid, frames } = self;
        let CsrScratch { frames: decoded, buffer, .. } = memory;
        let (rule, len) = (invalid.for_type::<T>(), plan.pixels() * T::SIZE);
        let mut sums = Vec::with_capacity(frames.len());
        decoded.resize_with(DECODED_FRAMES_PER_PASS, Vec::new);
        for few in frames.chunks(DECODED_FRAMES_PER_PASS) {
            let decode = |(stored, pixels): (&StoredFrame<'_>, &mut Vec<u8>)| {
                pixels.resize(len + SLACK, 0);
                pipeline.decode_with_slack(stored.filter_mask, stored.bytes, pixels, len)
            };
            let outcomes: Vec<Result<(), DecodeError>> = few.iter().zip(&mut *decoded).map(decode).collect();
            let good = decoded.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
            let good: Vec<&[u8]> = good.map(|(pixels, _)| &pixels[..len]).collect();
            let mut totals: Vec<FrameBinSums> = good.iter().map(|_| FrameBinSums::zeros(plan)).collect();
            backend.reduce_per_frame(PerFrameReduction {
                matrix,
                plan,
                rule: &rule,
                frames: &good,
                buffer,
                totals: &mut totals,
            });
            let mut totals = totals.into_iter();
            let mut next_sums = |()| totals.next().expect("sums of each good frame").into_sums(matrix, plan);
            sums.extend(outcomes.into_iter().map(|outcome| outcome.map(&mut next_sums)));
        }
        sums
    }
}
