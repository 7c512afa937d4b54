//! Stored frames in, sums out, many frames a pass: the entry point of an integrator.

use crate::codec::{DecodeError, Pipeline};
use crate::decode_paths::DecodePathCounts;
use crate::fused::{BlockSource, InvalidRules, PixelSource, PlaneInvalidRule, Workspace};
use crate::invalid_values::InvalidValues;
use crate::lz4_block::SLACK;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::IntegrationPlan;
use crate::robust;
use crate::simd::{Isa, LaneBackend, Portable};
use crate::sums::Sums;

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512, Avx512Gfni};

/// The stored bytes of exactly one whole frame, as read from the file.
#[derive(Clone, Copy, Debug)]
pub struct StoredFrame<'a> {
    /// The bytes of the chunk.
    pub bytes: &'a [u8],
    /// Bit `i` set: the pipeline's filter `i` was skipped for this chunk.
    pub filter_mask: u32,
}

/// Memory that is kept from call to call, and the instruction set to use; one a thread.
pub struct Scratch {
    isa: Isa,
    /// Decoded frames, of codecs that can't be summed as they come.
    frames: Vec<Vec<u8>>,
    workspace_1: Option<Box<Workspace<1>>>,
    workspace_8: Option<Box<Workspace<8>>>,
    workspace_16: Option<Box<Workspace<16>>>,
    pub(crate) csr: robust::CsrScratch,
    pub(crate) decode_paths: DecodePathCounts,
}

/// Frames that are decoded whole before they are summed, at a time: a compromise between memory and speed, which with
/// such codecs is that of the codec.
const DECODED_FRAMES_PER_BATCH: usize = 4;

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new(Isa::available()[0])
    }
}

impl Scratch {
    /// For one instruction set; the portable one where the processor lacks it.
    pub fn new(isa: Isa) -> Scratch {
        let isa = if Isa::available().contains(&isa) { isa } else { Isa::Portable };
        Scratch {
            isa,
            frames: Vec::new(),
            workspace_1: None,
            workspace_8: None,
            workspace_16: None,
            csr: robust::CsrScratch::default(),
            decode_paths: DecodePathCounts::default(),
        }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Which ways frames took since this was asked last.
    pub fn take_decode_paths(&mut self) -> DecodePathCounts {
        std::mem::take(&mut self.decode_paths)
    }

    /// How many frames a call takes best, or a multiple of it.
    pub fn frames_per_batch(&self) -> usize {
        if matches!(self.isa, Isa::Avx512 | Isa::Avx512Gfni) { 16 } else { 8 }
    }
}

/// Decodes and integrates frames, each with the plan's number of pixels of the pipeline's type. The sums are those of
/// [`crate::accumulate`], to the bit, however many frames come together; a frame that does not decode is an error of
/// its own and takes nothing from the others.
pub fn integrate_batch(
    pipeline: &Pipeline,
    plan: &IntegrationPlan,
    invalid: &InvalidValues,
    frames: &[StoredFrame<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Sums, DecodeError>> {
    let by_frame = integrate_batch_multi(pipeline, &[(plan, invalid)], frames, scratch);
    by_frame.into_iter().map(|sums| sums.map(|sums| sums.into_iter().next().expect("sums of one plan"))).collect()
}

/// As [`integrate_batch`] by several plans for frames of one size, each with its rule for invalid pixels: a frame is
/// decoded once for all plans that share a rule. For each frame, the sums by each plan, in order.
///
/// # Panics
/// If the plans are for frames of different sizes.
pub fn integrate_batch_multi(
    pipeline: &Pipeline,
    plans: &[(&IntegrationPlan, &InvalidValues)],
    frames: &[StoredFrame<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Vec<Sums>, DecodeError>> {
    assert!(plans.windows(2).all(|pair| pair[0].0.pixels() == pair[1].0.pixels()), "plans for frames of one size");
    with_pixel!(pipeline.dtype(), integrate(pipeline, plans, frames, scratch))
}

/// Plans that share a rule, and their places among all.
struct SameMaskGroup<'a, T> {
    rules: InvalidRules<T>,
    plans: Vec<&'a IntegrationPlan>,
    plan_indices: Vec<usize>,
}

impl<'a, T: Pixel> SameMaskGroup<'a, T> {
    fn group_plans(plans: &[(&'a IntegrationPlan, &InvalidValues)]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (place, (plan, invalid)) in plans.iter().enumerate() {
            let native = invalid.for_type::<T>();
            let index = groups.iter().position(|group| group.rules.native == native).unwrap_or_else(|| {
                let planes = if T::INTEGER { PlaneInvalidRule::new(&native) } else { None };
                groups.push(Self {
                    rules: InvalidRules { native, planes },
                    plans: Vec::new(),
                    plan_indices: Vec::new(),
                });
                groups.len() - 1
            });
            groups[index].plans.push(plan);
            groups[index].plan_indices.push(place);
        }
        groups
    }
}

/// The sums of one frame by each plan, as far as they are there.
type FrameResult = Result<Vec<Sums>, DecodeError>;

fn integrate<T: Pixel>(
    pipeline: &Pipeline,
    plans: &[(&IntegrationPlan, &InvalidValues)],
    frames: &[StoredFrame<'_>],
    scratch: &mut Scratch,
) -> Vec<FrameResult> {
    let groups = SameMaskGroup::<T>::group_plans(plans);
    let Some((plan, _)) = plans.first() else { return frames.iter().map(|_| Ok(Vec::new())).collect() };
    let frame_bytes = plan.pixels() * T::SIZE;
    let mut rows: Vec<FrameResult> = frames.iter().map(|_| Ok(vec![Sums::default(); plans.len()])).collect();
    let (direct, decoded): (Vec<usize>, Vec<usize>) =
        (0..frames.len()).partition(|&i| needs_no_decoding(pipeline, &frames[i]));

    for batch in direct.chunks(scratch.frames_per_batch()) {
        for (group, alike) in groups.iter().enumerate() {
            let open = |&i: &usize| open_undecoded(pipeline, &frames[i], frame_bytes);
            let sources: Vec<_> = batch.iter().map(open).collect();
            if group == 0 {
                sources.iter().flatten().for_each(|source| scratch.decode_paths += source.decode_path(&alike.rules));
            }
            scratch.integrate_into(&mut rows, batch, alike, sources);
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
        let sound: Vec<Result<(), DecodeError>> = batch.iter().zip(&mut memory).map(decode).collect();
        for alike in &groups {
            let source = |(frame, sound): (_, &Result<(), DecodeError>)| {
                let frame: &Vec<u8> = frame;
                sound.clone().map(|()| PixelSource::Native(&frame[..frame_bytes]))
            };
            scratch.integrate_into(&mut rows, batch, alike, memory.iter().zip(&sound).map(source).collect());
        }
        scratch.frames = memory;
    }
    rows
}

/// Whether a frame can be summed as it comes.
pub(crate) fn needs_no_decoding(pipeline: &Pipeline, stored: &StoredFrame<'_>) -> bool {
    pipeline.is_native(stored.filter_mask)
        || pipeline.only_bitshuffle(stored.filter_mask).is_some() && cfg!(target_endian = "little")
}

/// A frame that is summed as it comes.
pub(crate) fn open_undecoded<'a>(
    pipeline: &Pipeline,
    stored: &StoredFrame<'a>,
    frame_bytes: usize,
) -> Result<PixelSource<'a>, DecodeError> {
    match pipeline.only_bitshuffle(stored.filter_mask) {
        Some(bitshuffle) => BlockSource::open(bitshuffle, stored.bytes, frame_bytes).map(PixelSource::Blocks),
        None if stored.bytes.len() == frame_bytes => Ok(PixelSource::Native(stored.bytes)),
        None => Err(DecodeError::Length { filter: "raw", found: stored.bytes.len(), expected: frame_bytes }),
    }
}

impl Scratch {
    /// Integrates the frames of a batch, which are so many as there are lanes at the most, by plans that share a rule.
    fn integrate_into<T: Pixel>(
        &mut self,
        rows: &mut [FrameResult],
        batch: &[usize],
        alike: &SameMaskGroup<'_, T>,
        sources: Vec<Result<PixelSource<'_>, DecodeError>>,
    ) {
        let sums = self.integrate(&alike.plans, &alike.rules, sources);
        for (&i, sums) in batch.iter().zip(sums) {
            match (sums, &mut rows[i]) {
                (Ok(sums), Ok(row)) => alike.plan_indices.iter().zip(sums).for_each(|(&place, sums)| row[place] = sums),
                (Err(why), row) => *row = Err(why),
                (Ok(_), Err(_)) => {}
            }
        }
    }

    /// Integrates as many frames as there are lanes.
    fn integrate<T: Pixel>(
        &mut self,
        plans: &[&IntegrationPlan],
        rules: &InvalidRules<T>,
        sources: Vec<Result<PixelSource<'_>, DecodeError>>,
    ) -> Vec<FrameResult> {
        #[cfg(target_arch = "x86_64")]
        match self.isa {
            Isa::Avx512Gfni => {
                if let Some(backend) = Avx512Gfni::detect() {
                    return self.integrate_16_lanes(backend, plans, rules, sources);
                }
            }
            Isa::Avx512 => {
                if let Some(backend) = Avx512::detect() {
                    return self.integrate_16_lanes(backend, plans, rules, sources);
                }
            }
            Isa::Avx2 => {
                if let Some(backend) = Avx2::detect() {
                    return self.integrate_8_lanes(backend, plans, rules, sources);
                }
            }
            Isa::Portable => {}
        }
        self.integrate_8_lanes(Portable, plans, rules, sources)
    }

    fn integrate_16_lanes<T: Pixel, B: LaneBackend<1> + LaneBackend<8> + LaneBackend<16>>(
        &mut self,
        backend: B,
        plans: &[&IntegrationPlan],
        rules: &InvalidRules<T>,
        sources: Vec<Result<PixelSource<'_>, DecodeError>>,
    ) -> Vec<FrameResult> {
        match sources.len() {
            ..=8 => self.integrate_8_lanes(backend, plans, rules, sources),
            _ => self.workspace_16.get_or_insert_default().integrate(backend, plans, rules, sources),
        }
    }

    fn integrate_8_lanes<T: Pixel, B: LaneBackend<1> + LaneBackend<8>>(
        &mut self,
        backend: B,
        plans: &[&IntegrationPlan],
        rules: &InvalidRules<T>,
        sources: Vec<Result<PixelSource<'_>, DecodeError>>,
    ) -> Vec<FrameResult> {
        match sources.len() {
            ..=1 => self.workspace_1.get_or_insert_default().integrate(backend, plans, rules, sources),
            _ => self.workspace_8.get_or_insert_default().integrate(backend, plans, rules, sources),
        }
    }
}
