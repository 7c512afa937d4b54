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
use crate::ways::Ways;

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
    pub(crate) ways: Ways,
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
        Scratch {
            isa,
            frames: Vec::new(),
            one: None,
            eight: None,
            sixteen: None,
            by_bin: robust::Memory::default(),
            ways: Ways::default(),
        }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Which ways frames took since this was asked last.
    pub fn take_ways(&mut self) -> Ways {
        std::mem::take(&mut self.ways)
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
    let by_frame = integrate_by_all(pipeline, &[(plan, invalid)], frames, scratch);
    by_frame.into_iter().map(|sums| sums.map(|sums| sums.into_iter().next().expect("sums of one plan"))).collect()
}

/// As [`integrate_batch`] by several plans for frames of one size, each with its rule for invalid pixels: a frame is
/// decoded once for all plans that share a rule. For each frame, the sums by each plan, in order.
///
/// # Panics
/// If the plans are for frames of different sizes.
pub fn integrate_by_all(
    pipeline: &Pipeline,
    plans: &[(&Plan, &Invalid)],
    frames: &[Stored<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Vec<Sums>, DecodeError>> {
    assert!(plans.windows(2).all(|pair| pair[0].0.pixels() == pair[1].0.pixels()), "plans for frames of one size");
    with_pixel!(pipeline.dtype(), integrate(pipeline, plans, frames, scratch))
}

/// Plans that share a rule, and their places among all.
struct Alike<'a, T> {
    rules: Rules<T>,
    plans: Vec<&'a Plan>,
    places: Vec<usize>,
}

impl<'a, T: Pixel> Alike<'a, T> {
    fn groups(plans: &[(&'a Plan, &Invalid)]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (place, (plan, invalid)) in plans.iter().enumerate() {
            let native = invalid.of::<T>();
            let index = groups.iter().position(|group| group.rules.native == native).unwrap_or_else(|| {
                let planes = if T::INTEGER { PlaneRule::of(&native) } else { None };
                groups.push(Self { rules: Rules { native, planes }, plans: Vec::new(), places: Vec::new() });
                groups.len() - 1
            });
            groups[index].plans.push(plan);
            groups[index].places.push(place);
        }
        groups
    }
}

/// The sums of one frame by each plan, as far as they are there.
type Row = Result<Vec<Sums>, DecodeError>;

fn integrate<T: Pixel>(
    pipeline: &Pipeline,
    plans: &[(&Plan, &Invalid)],
    frames: &[Stored<'_>],
    scratch: &mut Scratch,
) -> Vec<Row> {
    let groups = Alike::<T>::groups(plans);
    let Some((plan, _)) = plans.first() else { return frames.iter().map(|_| Ok(Vec::new())).collect() };
    let frame_bytes = plan.pixels() * T::SIZE;
    let mut rows: Vec<Row> = frames.iter().map(|_| Ok(vec![Sums::default(); plans.len()])).collect();
    let (direct, decoded): (Vec<usize>, Vec<usize>) = (0..frames.len()).partition(|&i| is_direct(pipeline, &frames[i]));

    for batch in direct.chunks(scratch.lanes()) {
        for (group, alike) in groups.iter().enumerate() {
            let open = |&i: &usize| open_direct(pipeline, &frames[i], frame_bytes);
            let sources: Vec<_> = batch.iter().map(open).collect();
            if group == 0 {
                sources.iter().flatten().for_each(|source| scratch.ways += source.way(&alike.rules));
            }
            scratch.integrate_into(&mut rows, batch, alike, sources);
        }
    }
    scratch.ways.decoded += decoded.len() as u64;
    for batch in decoded.chunks(DECODED) {
        let mut memory = std::mem::take(&mut scratch.frames);
        memory.resize_with(DECODED, Vec::new);
        let decode = |(&i, frame): (&usize, &mut Vec<u8>)| {
            frame.resize(frame_bytes + SLACK, 0);
            pipeline.decode_over(frames[i].filter_mask, frames[i].bytes, frame, frame_bytes)
        };
        let sound: Vec<Result<(), DecodeError>> = batch.iter().zip(&mut memory).map(decode).collect();
        for alike in &groups {
            let source = |(frame, sound): (_, &Result<(), DecodeError>)| {
                let frame: &Vec<u8> = frame;
                sound.clone().map(|()| Source::Native(&frame[..frame_bytes]))
            };
            scratch.integrate_into(&mut rows, batch, alike, memory.iter().zip(&sound).map(source).collect());
        }
        scratch.frames = memory;
    }
    rows
}

/// Whether a frame can be summed as it comes.
pub(crate) fn is_direct(pipeline: &Pipeline, stored: &Stored<'_>) -> bool {
    pipeline.is_native(stored.filter_mask)
        || pipeline.bitshuffle_alone(stored.filter_mask).is_some() && cfg!(target_endian = "little")
}

/// A frame that is summed as it comes.
pub(crate) fn open_direct<'a>(
    pipeline: &Pipeline,
    stored: &Stored<'a>,
    frame_bytes: usize,
) -> Result<Source<'a>, DecodeError> {
    match pipeline.bitshuffle_alone(stored.filter_mask) {
        Some(bitshuffle) => BlockSource::open(bitshuffle, stored.bytes, frame_bytes).map(Source::Blocks),
        None if stored.bytes.len() == frame_bytes => Ok(Source::Native(stored.bytes)),
        None => Err(DecodeError::Length { filter: "raw", found: stored.bytes.len(), expected: frame_bytes }),
    }
}

impl Scratch {
    /// Integrates the frames of a batch, which are so many as there are lanes at the most, by plans that share a rule.
    fn integrate_into<T: Pixel>(
        &mut self,
        rows: &mut [Row],
        batch: &[usize],
        alike: &Alike<'_, T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) {
        let sums = self.integrate(&alike.plans, &alike.rules, sources);
        for (&i, sums) in batch.iter().zip(sums) {
            match (sums, &mut rows[i]) {
                (Ok(sums), Ok(row)) => alike.places.iter().zip(sums).for_each(|(&place, sums)| row[place] = sums),
                (Err(why), row) => *row = Err(why),
                (Ok(_), Err(_)) => {}
            }
        }
    }

    /// Integrates as many frames as there are lanes.
    fn integrate<T: Pixel>(
        &mut self,
        plans: &[&Plan],
        rules: &Rules<T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) -> Vec<Row> {
        #[cfg(target_arch = "x86_64")]
        match self.isa {
            Isa::Avx512Gfni => {
                if let Some(backend) = Avx512Gfni::detect() {
                    return self.integrate_by_16(backend, plans, rules, sources);
                }
            }
            Isa::Avx512 => {
                if let Some(backend) = Avx512::detect() {
                    return self.integrate_by_16(backend, plans, rules, sources);
                }
            }
            Isa::Avx2 => {
                if let Some(backend) = Avx2::detect() {
                    return self.integrate_by_8(backend, plans, rules, sources);
                }
            }
            Isa::Portable => {}
        }
        self.integrate_by_8(Portable, plans, rules, sources)
    }

    fn integrate_by_16<T: Pixel, B: Backend<1> + Backend<8> + Backend<16>>(
        &mut self,
        backend: B,
        plans: &[&Plan],
        rules: &Rules<T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) -> Vec<Row> {
        match sources.len() {
            ..=8 => self.integrate_by_8(backend, plans, rules, sources),
            _ => self.sixteen.get_or_insert_default().integrate(backend, plans, rules, sources),
        }
    }

    fn integrate_by_8<T: Pixel, B: Backend<1> + Backend<8>>(
        &mut self,
        backend: B,
        plans: &[&Plan],
        rules: &Rules<T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) -> Vec<Row> {
        match sources.len() {
            ..=1 => self.one.get_or_insert_default().integrate(backend, plans, rules, sources),
            _ => self.eight.get_or_insert_default().integrate(backend, plans, rules, sources),
        }
    }
}
