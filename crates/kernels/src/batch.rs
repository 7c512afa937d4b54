//! Stored frames in, sums out, many frames a pass: the entry point of an integrator.

use crate::backend::{Backend, Isa, Portable};
use crate::decode::{DecodeError, Pipeline};
use crate::fused::{BlockSource, PlaneRule, Rules, Source, Workspace};
use crate::invalid::Invalid;
use crate::lz4::SLACK;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::Plan;
use crate::robust;
use crate::sums::Sums;

#[cfg(target_arch = "x86_64")]
use crate::backend::{Avx2, Avx512, Avx512Gfni};

/// The stored bytes of exactly one whole frame, as read from the file.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
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
    one: Option<Box<Workspace<1>>>,
    eight: Option<Box<Workspace<8>>>,
    sixteen: Option<Box<Workspace<16>>>,
    pub(crate) by_bin: robust::Memory,
}

/// Frames that are decoded whole before they are summed, at a time: a compromise between memory and speed, which with
/// such codecs is that of the codec.
const DECODED: usize = 4;

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new(Isa::available()[0])
    }
}

impl Scratch {
    /// For one instruction set; the portable one where the processor lacks it.
    pub fn new(isa: Isa) -> Scratch {
        let isa = if Isa::available().contains(&isa) { isa } else { Isa::Portable };
        Scratch { isa, frames: Vec::new(), one: None, eight: None, sixteen: None, by_bin: robust::Memory::default() }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// How many frames a call takes best, or a multiple of it.
    pub fn lanes(&self) -> usize {
        if matches!(self.isa, Isa::Avx512 | Isa::Avx512Gfni) { 16 } else { 8 }
    }
}

/// Decodes and integrates frames, each with the plan's number of pixels of the pipeline's type. The sums are those of
/// [`crate::accumulate`], to the bit, however many frames come together; a frame that does not decode is an error of
/// its own and takes nothing from the others.
pub fn integrate_batch(
    pipeline: &Pipeline,
    plan: &Plan,
    invalid: &Invalid,
    frames: &[Stored<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Sums, DecodeError>> {
    with_pixel!(pipeline.dtype(), integrate(pipeline, plan, invalid, frames, scratch))
}

fn integrate<T: Pixel>(
    pipeline: &Pipeline,
    plan: &Plan,
    invalid: &Invalid,
    frames: &[Stored<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Sums, DecodeError>> {
    let native = invalid.of::<T>();
    let planes = if T::INTEGER { PlaneRule::of(&native) } else { None };
    let rules = Rules { native, planes };
    let frame_bytes = plan.pixels() * T::SIZE;
    let mut results: Vec<Option<Result<Sums, DecodeError>>> = frames.iter().map(|_| None).collect();
    let is_direct = |stored: &Stored<'_>| {
        pipeline.is_native(stored.filter_mask)
            || pipeline.bitshuffle_alone(stored.filter_mask).is_some() && cfg!(target_endian = "little")
    };
    let (direct, decoded): (Vec<usize>, Vec<usize>) = (0..frames.len()).partition(|&i| is_direct(&frames[i]));

    for group in direct.chunks(scratch.lanes()) {
        let open = |&i: &usize| open_direct(pipeline, &frames[i], frame_bytes);
        let sums = scratch.integrate(plan, &rules, group.iter().map(open).collect());
        group.iter().zip(sums).for_each(|(&i, sums)| results[i] = Some(sums));
    }
    for group in decoded.chunks(DECODED) {
        let mut memory = std::mem::take(&mut scratch.frames);
        memory.resize_with(DECODED, Vec::new);
        let mut sources = Vec::new();
        for (&i, frame) in group.iter().zip(&mut memory) {
            frame.resize(frame_bytes + SLACK, 0);
            let decoded = pipeline.decode_over(frames[i].filter_mask, frames[i].bytes, frame, frame_bytes);
            sources.push(decoded.map(|()| Source::Native(&frame[..frame_bytes])));
        }
        let sums = scratch.integrate(plan, &rules, sources);
        group.iter().zip(sums).for_each(|(&i, sums)| results[i] = Some(sums));
        scratch.frames = memory;
    }
    results.into_iter().map(|result| result.expect("each frame is in one group")).collect()
}

/// A frame that is summed as it comes.
fn open_direct<'a>(pipeline: &Pipeline, stored: &Stored<'a>, frame_bytes: usize) -> Result<Source<'a>, DecodeError> {
    match pipeline.bitshuffle_alone(stored.filter_mask) {
        Some(bitshuffle) => BlockSource::open(bitshuffle, stored.bytes, frame_bytes).map(Source::Blocks),
        None if stored.bytes.len() == frame_bytes => Ok(Source::Native(stored.bytes)),
        None => Err(DecodeError::Length { filter: "raw", found: stored.bytes.len(), expected: frame_bytes }),
    }
}

impl Scratch {
    /// Integrates as many frames as there are lanes.
    fn integrate<T: Pixel>(
        &mut self,
        plan: &Plan,
        rules: &Rules<T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) -> Vec<Result<Sums, DecodeError>> {
        #[cfg(target_arch = "x86_64")]
        match self.isa {
            Isa::Avx512Gfni => {
                if let Some(backend) = Avx512Gfni::detect() {
                    return self.integrate_by_16(backend, plan, rules, sources);
                }
            }
            Isa::Avx512 => {
                if let Some(backend) = Avx512::detect() {
                    return self.integrate_by_16(backend, plan, rules, sources);
                }
            }
            Isa::Avx2 => {
                if let Some(backend) = Avx2::detect() {
                    return self.integrate_by_8(backend, plan, rules, sources);
                }
            }
            Isa::Portable => {}
        }
        self.integrate_by_8(Portable, plan, rules, sources)
    }

    fn integrate_by_16<T: Pixel, B: Backend<1> + Backend<8> + Backend<16>>(
        &mut self,
        backend: B,
        plan: &Plan,
        rules: &Rules<T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) -> Vec<Result<Sums, DecodeError>> {
        match sources.len() {
            ..=8 => self.integrate_by_8(backend, plan, rules, sources),
            _ => self.sixteen.get_or_insert_default().integrate(backend, plan, rules, sources),
        }
    }

    fn integrate_by_8<T: Pixel, B: Backend<1> + Backend<8>>(
        &mut self,
        backend: B,
        plan: &Plan,
        rules: &Rules<T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) -> Vec<Result<Sums, DecodeError>> {
        match sources.len() {
            ..=1 => self.one.get_or_insert_default().integrate(backend, plan, rules, sources),
            _ => self.eight.get_or_insert_default().integrate(backend, plan, rules, sources),
        }
    }
}
