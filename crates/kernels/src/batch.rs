//! Integrates batches of stored frames on the CPU; the entry point of crate `integrator`.
//!
//! Frames that are native pixels or bitshuffled blocks are decoded and summed tile by tile, 8 or 16
//! frames at once ([`crate::fused`]). Frames of other codecs are decoded whole before.

use crate::codec::{DecodeError, Pipeline};
use crate::dead_time::DeadTime;
use crate::decode_paths::DecodePathCounts;
use crate::encoded_frame::EncodedFrame;
use crate::fused::{InvalidRules, PixelSource, Workspace};
use crate::invalid_values::InvalidValues;
use crate::lz4_block::SLACK;
use crate::pixel::PixelType;
use crate::plan::IntegrationPlan;
use crate::robust::{self, CsrMatrix};
use crate::simd::{Isa, Kernel, Simd};
use crate::spare_lists::SpareLists;
use crate::sums::Sums;
use crate::sums_block::{SumsBlock, SumsCollector, SumsConsumer};

/// One thread's working memory, which is kept from call to call, and the instruction set that the
/// thread uses.
pub struct Scratch {
    isa: Isa,
    /// Decoded frames of codecs that are not decoded tile by tile.
    frames: Vec<Vec<u8>>,
    workspace_1: Option<Box<Workspace<1>>>,
    workspace_8: Option<Box<Workspace<8>>>,
    workspace_16: Option<Box<Workspace<16>>>,
    csr: robust::CsrScratch,
    spare_lists: SpareLists,
    decode_paths: DecodePathCounts,
}

/// How many frames are decoded whole and then summed together. More would take more memory and gain
/// little, because these codecs take most of the time.
const DECODED_FRAMES_PER_BATCH: usize = 4;

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new(Isa::available()[0])
    }
}

impl Scratch {
    /// Returns empty working memory for `isa`, or for [`Isa::Portable`] if the processor lacks
    /// `isa`.
    pub fn new(isa: Isa) -> Scratch {
        let isa = if Isa::available().contains(&isa) { isa } else { Isa::Portable };
        Scratch {
            isa,
            frames: Vec::new(),
            workspace_1: None,
            workspace_8: None,
            workspace_16: None,
            csr: robust::CsrScratch::default(),
            spare_lists: SpareLists::default(),
            decode_paths: DecodePathCounts::default(),
        }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Returns how many frames took which decode path since the last call, and starts counting
    /// anew.
    pub fn take_decode_paths(&mut self) -> DecodePathCounts {
        std::mem::take(&mut self.decode_paths)
    }

    /// Adds the decode paths of frames that were integrated elsewhere, such as on a device.
    pub fn add_decode_paths(&mut self, paths: DecodePathCounts) {
        self.decode_paths += paths;
    }

    /// Takes signals and variances of sums that are used up, as memory for those of later frames.
    pub fn reuse(&mut self, lists: impl IntoIterator<Item = Vec<f64>>) {
        self.spare_lists.give(lists);
    }

    /// Returns how many frames are summed side by side. Batches of a multiple of it are the
    /// fastest.
    pub fn frames_per_batch(&self) -> usize {
        self.isa.lanes()
    }
}

/// Decodes frames and sums their pixels by one plan. Returns one result per frame, in order.
///
/// Each frame must decode to the plan's number of pixels, of the pipeline's type. The sums are
/// equal to those of [`crate::accumulate_frame`] to the bit, whatever the number of frames. The
/// result of a frame that can't be decoded is an error; the other frames are integrated.
pub fn integrate_batch(
    pipeline: &Pipeline,
    plan: &IntegrationPlan,
    invalid: &InvalidValues,
    frames: &[EncodedFrame<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Sums, DecodeError>> {
    let by_frame = integrate_batch_by_plans(pipeline, &[(plan, invalid)], frames, scratch);
    by_frame
        .into_iter()
        .map(|sums| sums.map(|sums| sums.into_iter().next().expect("sums of one plan")))
        .collect()
}

/// Decodes frames and sums their pixels by several plans, each with its own rule for invalid
/// pixels. Returns for each frame the sums by each plan, in order; otherwise like
/// [`integrate_batch`].
///
/// Plans that share a rule and a dead time share the decoding of each tile.
///
/// # Panics
/// If the plans are for frames of different sizes.
pub fn integrate_batch_by_plans(
    pipeline: &Pipeline,
    plans: &[(&IntegrationPlan, &InvalidValues)],
    frames: &[EncodedFrame<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Vec<Sums>, DecodeError>> {
    let mut spare = std::mem::take(&mut scratch.spare_lists);
    let bins = plans.iter().map(|(plan, _)| plan.nbins()).collect();
    let mut collector = SumsCollector::new(frames.len(), bins, &mut spare);
    let results = integrate_blocks_by_plans(pipeline, plans, frames, scratch, &mut collector);
    let sums = collector.into_frames();
    scratch.spare_lists = spare;
    results.into_iter().zip(sums).map(|(result, sums)| result.map(|()| sums)).collect()
}

/// Decodes frames and sums their pixels by several plans, as [`integrate_batch_by_plans`] does, and
/// passes the sums to `consumer` block by block. The sums of a frame whose result is an error, of which
/// the consumer may have got some, are of no use.
///
/// # Panics
/// If the plans are for frames of different sizes.
pub fn integrate_blocks_by_plans(
    pipeline: &Pipeline,
    plans: &[(&IntegrationPlan, &InvalidValues)],
    frames: &[EncodedFrame<'_>],
    scratch: &mut Scratch,
    consumer: &mut dyn SumsConsumer,
) -> Vec<Result<(), DecodeError>> {
    assert!(
        plans.windows(2).all(|pair| pair[0].0.pixels() == pair[1].0.pixels()),
        "plans for frames of one size"
    );
    // Nobody gives back what blocks are copied to.
    scratch.spare_lists = SpareLists::default();
    integrate(pipeline, plans, frames, scratch, consumer)
}

impl CsrMatrix {
    /// Decodes frames and returns the sums of each. `plan` must be the plan that the matrix was
    /// made from.
    ///
    /// A frame that can't be decoded gives an error; the other frames are not affected.
    pub fn integrate(
        &self,
        pipeline: &Pipeline,
        plan: &IntegrationPlan,
        invalid: &InvalidValues,
        frames: &[EncodedFrame<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Sums, DecodeError>> {
        self.integrate_frames(pipeline, plan, invalid, frames, false, scratch)
    }

    /// Decodes frames and returns the sums of each, as [`CsrMatrix::integrate`] does, with the
    /// pixels that sigma clipping rejected; `collects_rejected` asks for these.
    pub(crate) fn integrate_frames(
        &self,
        pipeline: &Pipeline,
        plan: &IntegrationPlan,
        invalid: &InvalidValues,
        frames: &[EncodedFrame<'_>],
        collects_rejected: bool,
        scratch: &mut Scratch,
    ) -> Vec<Result<Sums, DecodeError>> {
        scratch.decode_paths.csr += frames.len() as u64;
        let (isa, scratch) = (scratch.isa, &mut scratch.csr);
        robust::CsrIntegration {
            matrix: self,
            pipeline,
            plan,
            invalid,
            frames,
            collects_rejected,
            isa,
            scratch,
        }
        .run()
    }
}

/// The sums of one frame by each plan, or why it can't be decoded.
pub(crate) type FrameResult = Result<Vec<Sums>, DecodeError>;

/// The plans that share a rule for invalid pixels and a dead time, and their indices among all plans of
/// the call.
struct SamePixelsGroup<'a> {
    rules: InvalidRules,
    dead_time: DeadTime,
    plans: Vec<&'a IntegrationPlan>,
    plan_indices: Vec<usize>,
}

impl<'a> SamePixelsGroup<'a> {
    fn group_plans(plans: &[(&'a IntegrationPlan, &InvalidValues)], dtype: PixelType) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (plan_index, (plan, invalid)) in plans.iter().enumerate() {
            let (rules, dead_time) = (InvalidRules::new(invalid, dtype), plan.dead_time());
            let is_same =
                |group: &Self| group.rules.native == rules.native && group.dead_time == dead_time;
            let index = groups.iter().position(is_same).unwrap_or_else(|| {
                let (plans, plan_indices) = (Vec::new(), Vec::new());
                groups.push(Self { rules, dead_time, plans, plan_indices });
                groups.len() - 1
            });
            groups[index].plans.push(plan);
            groups[index].plan_indices.push(plan_index);
        }
        groups
    }
}

fn integrate(
    pipeline: &Pipeline,
    plans: &[(&IntegrationPlan, &InvalidValues)],
    frames: &[EncodedFrame<'_>],
    scratch: &mut Scratch,
    consumer: &mut dyn SumsConsumer,
) -> Vec<Result<(), DecodeError>> {
    let groups = SamePixelsGroup::group_plans(plans, pipeline.dtype());
    let Some((plan, _)) = plans.first() else {
        return frames.iter().map(|_| Ok(())).collect();
    };
    let frame_bytes = plan.pixels() * pipeline.dtype().size();
    let mut frame_results: Vec<Result<(), DecodeError>> = frames.iter().map(|_| Ok(())).collect();
    let (direct, decoded): (Vec<usize>, Vec<usize>) =
        (0..frames.len()).partition(|&i| PixelSource::can_open(pipeline, &frames[i]));

    for batch in direct.chunks(scratch.frames_per_batch()) {
        for (group_index, group) in groups.iter().enumerate() {
            let open = |&i: &usize| PixelSource::open(pipeline, &frames[i], frame_bytes);
            let sources: Vec<_> = batch.iter().map(open).collect();
            if group_index == 0 {
                sources
                    .iter()
                    .flatten()
                    .for_each(|source| scratch.decode_paths += source.decode_path(&group.rules));
            }
            scratch.integrate_into(&mut frame_results, batch, group, sources, consumer);
        }
    }
    scratch.decode_paths.decoded += decoded.len() as u64;
    for batch in decoded.chunks(DECODED_FRAMES_PER_BATCH) {
        let mut memory = std::mem::take(&mut scratch.frames);
        memory.resize_with(DECODED_FRAMES_PER_BATCH, Vec::new);
        let decode = |(&i, frame): (&usize, &mut Vec<u8>)| {
            frame.resize(frame_bytes + SLACK, 0);
            pipeline.decode_with_slack(frames[i].filter_mask, frames[i].bytes, frame, frame_bytes)
        };
        let results: Vec<Result<(), DecodeError>> =
            batch.iter().zip(&mut memory).map(decode).collect();
        for group in &groups {
            let source = |(frame, result): (_, &Result<(), DecodeError>)| {
                let frame: &Vec<u8> = frame;
                result.clone().map(|()| PixelSource::Native(&frame[..frame_bytes]))
            };
            let sources = memory.iter().zip(&results).map(source).collect();
            scratch.integrate_into(&mut frame_results, batch, group, sources, consumer);
        }
        scratch.frames = memory;
    }
    frame_results
}

impl Scratch {
    /// Integrates the frames at the indices `batch`, at most one per lane, by the plans of `group`,
    /// and passes the sums to `consumer`. Why frames can't be decoded goes into `frame_results`.
    fn integrate_into(
        &mut self,
        frame_results: &mut [Result<(), DecodeError>],
        batch: &[usize],
        group: &SamePixelsGroup<'_>,
        sources: Vec<Result<PixelSource<'_>, DecodeError>>,
        consumer: &mut dyn SumsConsumer,
    ) {
        let (isa, plans, rules) = (self.isa, &group.plans[..], &group.rules);
        let take = &mut |lane: usize, plan: usize, block: SumsBlock<'_>| {
            consumer.take(batch[lane], group.plan_indices[plan], block);
        };
        let results = isa.run(SumTiles { scratch: self, plans, rules, sources, take });
        for (&i, result) in batch.iter().zip(results) {
            if let Err(why) = result {
                frame_results[i] = Err(why);
            }
        }
    }
}

/// Integrates at most one frame per lane by plans that share the rules for invalid pixels and the dead
/// time.
struct SumTiles<'a> {
    scratch: &'a mut Scratch,
    plans: &'a [&'a IntegrationPlan],
    rules: &'a InvalidRules,
    sources: Vec<Result<PixelSource<'a>, DecodeError>>,
    /// Takes blocks of sums, with the index of the frame and of the plan.
    take: &'a mut dyn FnMut(usize, usize, SumsBlock<'_>),
}

impl Kernel for SumTiles<'_> {
    type Output = Vec<Result<(), DecodeError>>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<Result<(), DecodeError>> {
        let SumTiles { scratch, plans, rules, sources, take } = self;
        let Scratch { workspace_1, workspace_8, workspace_16, .. } = scratch;
        if S::HAS_16_LANES && sources.len() > 8 {
            workspace_16.get_or_insert_default().integrate(simd, plans, rules, sources, take)
        } else if sources.len() > 1 {
            workspace_8.get_or_insert_default().integrate(simd, plans, rules, sources, take)
        } else {
            workspace_1.get_or_insert_default().integrate(simd, plans, rules, sources, take)
        }
    }
}
