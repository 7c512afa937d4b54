//! Integrates stored frames with a [`CsrMatrix`]: interleaved if the frames allow it, otherwise one
//! by one.

use super::BinBuffers;
use super::csr::CsrMatrix;
use super::frame_bin_sums::FrameBinSums;
use super::interleaved::{InterleavedReduction, InterleavedScratch};
use super::interleaved_pixels::InterleavedPixels;
use super::interleaved_quantiles::InterleavedQuantileScratch;
use super::per_frame::PerFrameReduction;
use super::rejected::RejectedShares;
use super::tile_clip::{RejectedCounts, TileClipScratch, TileClipping};
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::codec::{DecodeError, Pipeline};
use crate::encoded_frame::EncodedFrame;
use crate::fused::{InvalidRules, PixelSource};
use crate::invalid_values::InvalidValues;
use crate::lz4_block::SLACK;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::IntegrationPlan;
use crate::simd::{Isa, Kernel, Simd};
use crate::sums::Sums;

/// Number of frames that are decoded whole before they are reduced. The entries of a bin are then
/// read once for both.
const DECODED_FRAMES_PER_PASS: usize = 2;

/// Working memory of a thread.
#[derive(Default)]
pub(crate) struct CsrScratch {
    /// Decoded frames.
    frames: Vec<Vec<u8>>,
    interleaved_pixels: Option<Box<InterleavedPixels>>,
    interleaved: InterleavedScratch,
    tile_clip: TileClipScratch,
    buffers: BinBuffers,
}

/// The integration of any number of stored frames with the statistic of a matrix; see
/// [`CsrMatrix::integrate`].
pub(crate) struct CsrIntegration<'a> {
    pub(crate) matrix: &'a CsrMatrix,
    pub(crate) pipeline: &'a Pipeline,
    /// The plan that the matrix was made from.
    pub(crate) plan: &'a IntegrationPlan,
    pub(crate) invalid: &'a InvalidValues,
    pub(crate) frames: &'a [EncodedFrame<'a>],
    /// True if the sums come with the pixels that clipping rejects.
    pub(crate) collects_rejected: bool,
    pub(crate) isa: Isa,
    pub(crate) scratch: &'a mut CsrScratch,
}

impl CsrMatrix {
    /// Returns the bytes of memory that each thread needs besides, for interleaved frames.
    pub fn thread_bytes(&self, plan: &IntegrationPlan) -> usize {
        let by_tiles = self.unsplit.as_ref().map(|_| TileClipScratch::memory_bytes(plan));
        let of_quantiles = match self.is_order_free() {
            true => 0,
            false => InterleavedQuantileScratch::memory_bytes(self, plan),
        };
        InterleavedPixels::memory_bytes(plan) + by_tiles.unwrap_or(0) + of_quantiles
    }
}

impl CsrIntegration<'_> {
    /// Returns the sums of each frame, or why it can't be decoded.
    pub(crate) fn run(self) -> Vec<Result<Sums, DecodeError>> {
        let Self { matrix, pipeline, plan, invalid, frames, collects_rejected, isa, scratch } =
            self;
        let rules = &InvalidRules::new(invalid, pipeline.dtype());
        let mut sums = Vec::with_capacity(frames.len());
        for frames in frames.chunks(INTERLEAVED_FRAMES) {
            sums.extend(isa.run(CsrBatch {
                matrix,
                pipeline,
                plan,
                rules,
                frames,
                collects_rejected,
                scratch: &mut *scratch,
            }));
        }
        sums
    }
}

/// Up to [`INTERLEAVED_FRAMES`] stored frames to be integrated.
struct CsrBatch<'a> {
    matrix: &'a CsrMatrix,
    pipeline: &'a Pipeline,
    plan: &'a IntegrationPlan,
    rules: &'a InvalidRules,
    frames: &'a [EncodedFrame<'a>],
    collects_rejected: bool,
    scratch: &'a mut CsrScratch,
}

impl Kernel for CsrBatch<'_> {
    type Output = Vec<Result<Sums, DecodeError>>;

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) -> Vec<Result<Sums, DecodeError>> {
        let by_tiles = self.clip_by_tiles(simd);
        by_tiles
            .or_else(|| self.integrate_interleaved(simd))
            .unwrap_or_else(|| self.integrate_per_frame(simd))
    }
}

impl CsrBatch<'_> {
    /// Returns true if several frames can be decoded side by side, tile by tile.
    fn has_tiles(&self) -> bool {
        self.pipeline.dtype().is_integer()
            && self.frames.len() >= 2
            && self.frames.iter().all(|stored| PixelSource::can_open(self.pipeline, stored))
    }

    /// Clips the frames tile by tile. Returns `None` if that is not possible: see [`TileClipping`]
    /// and [`UnsplitBins`](super::unsplit_bins::UnsplitBins).
    fn clip_by_tiles<S: Simd>(&mut self, simd: S) -> Option<Vec<Result<Sums, DecodeError>>> {
        let CsrBatch { matrix, pipeline, plan, rules, frames, collects_rejected, .. } = *self;
        let unsplit = matrix.unsplit.as_ref().filter(|_| self.has_tiles())?;
        let scratch = &mut self.scratch.tile_clip;
        if !scratch.retries.is_worth_trying(plan) {
            return None;
        }
        let mut totals: Vec<FrameBinSums> =
            frames.iter().map(|_| FrameBinSums::zeros(plan)).collect();
        let wanted = if collects_rejected { frames.len() } else { 0 };
        let mut rejected: Vec<_> = (0..wanted).map(|_| RejectedCounts::new(matrix)).collect();
        let outcomes = simd.run(TileClipping {
            matrix,
            unsplit,
            plan,
            pipeline,
            rules,
            frames,
            scratch,
            totals: &mut totals,
            rejected: &mut rejected,
        });
        if outcomes.is_none() {
            self.scratch.tile_clip.retries.remember_failure(plan);
        }
        let outcomes = outcomes?;
        let mut rejected = rejected.into_iter().map(|counts| counts.into_pixels(plan));
        let sums = totals.into_iter().zip(outcomes).map(|(totals, outcome)| {
            let sums = totals.into_sums(matrix.reduction.variance_model, plan, rejected.next());
            outcome.map(|()| sums)
        });
        Some(sums.collect())
    }

    /// Integrates the frames interleaved. Returns `None` if that is not possible: for
    /// floating-point pixels, a single frame, frames that must be decoded whole, or too many pixels
    /// that overflow 16 bits.
    fn integrate_interleaved<S: Simd>(
        &mut self,
        simd: S,
    ) -> Option<Vec<Result<Sums, DecodeError>>> {
        if !self.has_tiles() {
            return None;
        }
        let CsrBatch { matrix, pipeline, plan, rules, frames, collects_rejected, ref mut scratch } =
            *self;
        let open =
            |stored| PixelSource::open(pipeline, stored, plan.pixels() * pipeline.dtype().size());
        let mut sources: Vec<_> = frames.iter().map(open).collect();
        let CsrScratch { interleaved_pixels, interleaved: scratch, buffers, .. } = &mut **scratch;
        let interleaved = interleaved_pixels.get_or_insert_default();
        match interleaved.read(simd, plan, rules, &mut sources) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => return Some(frames.iter().map(|_| Err(why.clone())).collect()),
        }
        let mut totals: Vec<FrameBinSums> =
            frames.iter().map(|_| FrameBinSums::zeros(plan)).collect();
        let mut rejected = start_rejected(matrix, collects_rejected, frames.len());
        simd.run(InterleavedReduction {
            matrix,
            plan,
            interleaved,
            scratch,
            buffers,
            totals: &mut totals,
            rejected: &mut rejected,
        });
        let mut rejected = rejected.into_iter().enumerate().map(|(lane, shares)| {
            let value = |pixel| plan.dead_time().correct(interleaved.read_value(pixel, lane));
            shares.into_pixels(plan, value)
        });
        let complete = |totals: FrameBinSums| {
            totals.into_sums(matrix.reduction.variance_model, plan, rejected.next())
        };
        let sums: Vec<Sums> = totals.into_iter().map(complete).collect();
        Some(sources.into_iter().zip(sums).map(|(source, sums)| source.map(|_| sums)).collect())
    }

    /// Decodes frames whole and integrates [`DECODED_FRAMES_PER_PASS`] at a time.
    fn integrate_per_frame<S: Simd>(&mut self, simd: S) -> Vec<Result<Sums, DecodeError>> {
        let CsrBatch { pipeline, plan, frames, .. } = *self;
        let len = plan.pixels() * pipeline.dtype().size();
        let mut sums = Vec::with_capacity(frames.len());
        let mut decoded = std::mem::take(&mut self.scratch.frames);
        decoded.resize_with(DECODED_FRAMES_PER_PASS, Vec::new);
        for few in frames.chunks(DECODED_FRAMES_PER_PASS) {
            let decode = |(stored, pixels): (&EncodedFrame<'_>, &mut Vec<u8>)| {
                pixels.resize(len + SLACK, 0);
                pipeline.decode_with_slack(stored.filter_mask, stored.bytes, pixels, len)
            };
            let outcomes: Vec<Result<(), DecodeError>> =
                few.iter().zip(&mut decoded).map(decode).collect();
            let good = decoded.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
            let good: Vec<&[u8]> = good.map(|(pixels, _)| &pixels[..len]).collect();
            let mut sums_of_good = self.reduce_decoded(simd, &good).into_iter();
            sums.extend(outcomes.into_iter().map(|outcome| {
                outcome.map(|()| sums_of_good.next().expect("sums of each good frame"))
            }));
        }
        self.scratch.frames = decoded;
        sums
    }

    /// Returns the sums of decoded frames, in native byte order.
    fn reduce_decoded<S: Simd>(&mut self, simd: S, frames: &[&[u8]]) -> Vec<Sums> {
        let CsrBatch { matrix, pipeline, plan, rules, collects_rejected, .. } = *self;
        let mut totals: Vec<FrameBinSums> =
            frames.iter().map(|_| FrameBinSums::zeros(plan)).collect();
        let mut rejected = start_rejected(matrix, collects_rejected, frames.len());
        simd.run(PerFrameReduction {
            matrix,
            plan,
            rule: &rules.native,
            frames,
            buffers: &mut self.scratch.buffers,
            totals: &mut totals,
            rejected: &mut rejected,
        });
        let value = |frame: &[u8], pixel: u32| {
            let (dtype, pixel) = (pipeline.dtype(), pixel as usize);
            let raw = with_pixel!(dtype, read_f64(&frame[pixel * dtype.size()..]));
            plan.dead_time().correct(raw)
        };
        let mut rejected = rejected
            .into_iter()
            .zip(frames)
            .map(|(shares, frame)| shares.into_pixels(plan, |pixel| value(frame, pixel)));
        let complete = |totals: FrameBinSums| {
            totals.into_sums(matrix.reduction.variance_model, plan, rejected.next())
        };
        totals.into_iter().map(complete).collect()
    }
}

fn read_f64<T: Pixel>(bytes: &[u8]) -> f64 {
    T::read(bytes).to_f64()
}

/// Returns lists for the rejected pixels of each frame, or none if they are not wanted.
fn start_rejected(matrix: &CsrMatrix, is_wanted: bool, frames: usize) -> Vec<RejectedShares> {
    let wanted = if is_wanted { frames } else { 0 };
    (0..wanted).map(|_| RejectedShares::new(matrix.max_rejected())).collect()
}
