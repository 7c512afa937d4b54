//! What a launch takes: the kernels, their arguments, the memory, and the input in it.

use ocl::core::{self, ArgVal, CommandQueue, Event, Kernel};

use super::device::{Device, Entries};
use super::error::DeviceError;
use super::memory::{Buffer, NO_WAIT, Pinned};
use super::program::Variant;
use super::queue::{Aim, Input, Job, Output};

/// The kernels of one variant.
pub(super) struct Kernels {
    pub(super) variant: Variant,
    first: Kernel,
    second: Kernel,
}

/// Buffers for launches of up to `needs`.
pub(super) struct Memory {
    pub(super) needs: Needs,
    pub(super) upload: Pinned,
    /// For each plan a region: sums, then status.
    pub(super) download: Pinned,
    pub(super) input: Buffer,
    /// What one plan's kernels leave each other: plans follow one another.
    pub(super) partial: Buffer,
    pub(super) results: Vec<Results>,
}

/// What the kernels leave of one plan.
pub(super) struct Results {
    pub(super) sums: Buffer,
    pub(super) invalid: Buffer,
    /// For each frame how many pixels are invalid; then for each the first damaged tile, all ones if there is none.
    pub(super) status: Buffer,
}

/// Bytes of buffers, those by plan for the plan that needs most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    pub(super) frames: usize,
    pub(super) plans: usize,
    pub(super) input: usize,
    pub(super) partial: usize,
    pub(super) sums: usize,
    /// Of one frame.
    pub(super) invalid: usize,
}

/// Bytes of a sum: a double, or two floats.
pub(super) const REAL: usize = 8;

impl Needs {
    pub(super) fn of(job: &Job<'_>, frames: &[Input<'_>]) -> Needs {
        let frame_bytes = job.frame_bytes();
        let bytes = |frame: &Input<'_>| if frame.places.is_some() { frame.stored.bytes.len() } else { frame_bytes };
        let most = |of: &dyn Fn(&Aim<'_>) -> usize| job.aims.iter().map(of).max().unwrap_or(0);
        let sums = |of_quantity: usize, aim: &Aim<'_>| frames.len() * of_quantity * aim.variant.quantities() * REAL;
        Needs {
            frames: frames.len(),
            plans: job.aims.len(),
            input: table_bytes(job, frames.len()) + frames.iter().map(bytes).sum::<usize>(),
            partial: most(&|aim| match &aim.matrix.entries {
                Entries::BySlot(slots) => sums(slots.slots as usize, aim),
                Entries::ByBin(bins) => frames.len() * bins.room(frame_bytes),
            }),
            sums: most(&|aim| sums(aim.plan.nbins(), aim)),
            invalid: job.invalid_bytes(),
        }
    }

    /// Buffers for as much as either.
    pub(super) fn or_more(&self, other: &Needs) -> Needs {
        // Chunks differ in length: some more, lest every other launch needs larger buffers.
        let input = self.input + self.input / 8;
        Needs {
            frames: self.frames.max(other.frames),
            plans: self.plans.max(other.plans),
            input: input.max(other.input),
            partial: self.partial.max(other.partial),
            sums: self.sums.max(other.sums),
            invalid: self.invalid.max(other.invalid),
        }
    }

    pub(super) fn cover(&self, other: &Needs) -> bool {
        self.frames >= other.frames
            && self.plans >= other.plans
            && self.input >= other.input
            && self.partial >= other.partial
            && self.sums >= other.sums
            && self.frames * self.invalid >= other.frames * other.invalid
    }

    pub(super) fn device_bytes(&self) -> u64 {
        (self.input + self.partial + self.plans * (self.sums + self.frames * self.invalid)) as u64
    }

    /// Bytes that are read back of each plan.
    pub(super) fn region(&self) -> usize {
        self.sums + status_bytes(self.frames)
    }
}

impl Memory {
    pub(super) fn new(device: &Device, queue: &CommandQueue, needs: Needs) -> Result<Memory, DeviceError> {
        let (context, status) = (&device.context, status_bytes(needs.frames));
        let results = || -> Result<Results, DeviceError> {
            Ok(Results {
                sums: Buffer::new(context, needs.sums)?,
                invalid: Buffer::new(context, needs.frames * needs.invalid)?,
                status: Buffer::new(context, status)?,
            })
        };
        Ok(Memory {
            needs,
            upload: Pinned::new(context, queue, status + needs.input)?,
            download: Pinned::new(context, queue, (needs.plans * needs.region()).max(needs.invalid))?,
            input: Buffer::new(context, needs.input)?,
            partial: Buffer::new(context, needs.partial)?,
            results: (0..needs.plans).map(|_| results()).collect::<Result<_, _>>()?,
        })
    }
}

impl Kernels {
    pub(super) fn new(device: &Device, variant: Variant) -> Result<Kernels, DeviceError> {
        let program = device.program(variant)?;
        let [first, second] = variant.kernels().map(|name| core::create_kernel(&program, name));
        Ok(Kernels { variant, first: first?, second: second? })
    }

    /// Queues both kernels for `count` frames and the launch's plan of this `number`.
    pub(super) fn start(
        &self,
        queue: &CommandQueue,
        aim: &Aim<'_>,
        count: u32,
        memory: &Memory,
        number: usize,
        events: [&mut Event; 2],
    ) -> Result<(), DeviceError> {
        let slots = match &aim.matrix.entries {
            Entries::BySlot(slots) => slots,
            Entries::ByBin(bins) => {
                return bins.start([&self.first, &self.second], queue, aim, count, (memory, number), events);
            }
        };
        let (matrix, results, [integrated, reduced]) = (&aim.matrix, &memory.results[number], events);
        let (pixels, bins) = (aim.plan.pixels() as u32, aim.plan.nbins() as u32);
        arguments(
            &self.first,
            &[
                Mem(&memory.input),
                Word(count),
                Word(matrix.tiles),
                Word(slots.span),
                Word(matrix.whole),
                Word(pixels),
                Mem(&slots.slot_starts),
                Mem(&slots.row_starts),
                Mem(&slots.entry_starts),
                Mem(&slots.places),
                Mem(&slots.weights),
                Mem(&slots.used),
                Mem(&aim.ranges),
                Word(aim.range_count),
                Mem(&memory.partial),
                Mem(&results.invalid),
                Mem(&results.status),
            ],
        )?;
        let reduce = [
            Mem(&memory.partial),
            Word(count),
            Word(bins),
            Word(slots.slots),
            Mem(&slots.bin_starts),
            Mem(&slots.bin_slots),
            Mem(&results.sums),
        ];
        arguments(&self.second, &reduce)?;
        let group = self.variant.group;
        let groups = matrix.tiles.div_ceil(slots.span) as usize * count as usize;
        let (lanes, sums) = ([groups * group, 1, 1], [(bins as usize).next_multiple_of(group), count as usize, 1]);
        // SAFETY: the arguments are those of the kernels, which keep within them whatever the frames hold; see the sources.
        unsafe {
            core::enqueue_kernel(queue, &self.first, 1, None, &lanes, Some([group, 1, 1]), NO_WAIT, Some(integrated))?;
            core::enqueue_kernel(queue, &self.second, 2, None, &sums, Some([group, 1, 1]), NO_WAIT, Some(reduced))?;
        }
        Ok(())
    }
}

/// An argument of a kernel.
pub(super) enum Argument<'a> {
    Mem(&'a Buffer),
    Word(u32),
    Double(f64),
}

use Argument::{Double, Mem, Word};

pub(super) fn arguments(kernel: &Kernel, arguments: &[Argument<'_>]) -> Result<(), DeviceError> {
    for (index, argument) in (0..).zip(arguments) {
        let value = match argument {
            Mem(buffer) => ArgVal::mem(&buffer.mem),
            Word(word) => ArgVal::scalar(word),
            Double(double) => ArgVal::scalar(double),
        };
        core::set_kernel_arg(kernel, index, value)?;
    }
    Ok(())
}

/// Bytes of the counts and numbers that say what became of each frame.
pub(super) fn status_bytes(frames: usize) -> usize {
    8 * frames
}

/// Bytes of the tables at the front of the input; see `integrate.cl`.
fn table_bytes(job: &Job<'_>, frames: usize) -> usize {
    4 * frames * (job.tiles() + 2)
}

/// Writes the input of a launch: tables, then frames, those that the device can't decode decoded. Returns the numbers of the
/// frames, and the bytes written. What can't be decoded is left out.
pub(super) fn fill(
    job: &Job<'_>,
    frames: Vec<Input<'_>>,
    out: &mut [u8],
    outputs: &mut Vec<(usize, Output)>,
) -> (Vec<usize>, usize) {
    let (tiles, frame_bytes) = (job.tiles(), job.frame_bytes());
    let (tables, room) = out.split_at_mut(table_bytes(job, frames.len()));
    let mut tables = tables.chunks_exact_mut(4 * (tiles + 2));
    let (before, mut at) = (tables.len() * 4 * (tiles + 2), 0);
    let mut indices = Vec::new();
    for Input { index, stored, places } in frames {
        let is_native = places.is_none();
        let starts: Vec<u32> = match places {
            Some(places) => {
                room[at..at + stored.bytes.len()].copy_from_slice(stored.bytes);
                places.starts
            }
            None => {
                let decoded = job.pipeline.decode(stored.filter_mask, stored.bytes, &mut room[at..at + frame_bytes]);
                if let Err(why) = decoded {
                    outputs.push((index, Output::Undecoded(why)));
                    continue;
                }
                let Aim { variant, matrix, .. } = &job.aims[0];
                let whole = matrix.whole as usize * variant.dtype.size();
                (0..tiles).map(|tile| tile * variant.block_bytes).chain([whole]).map(|at| at as u32).collect()
            }
        };
        let Some(table) = tables.next() else { unreachable!("there are as many tables as frames") };
        let words =
            [u32::from(is_native)].into_iter().chain(starts.into_iter().map(|start| (before + at) as u32 + start));
        table.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        at += if is_native { frame_bytes } else { stored.bytes.len() };
        indices.push(index);
    }
    (indices, before + at)
}
