//! What a launch takes: the kernels, their arguments, the memory, and the input in it.

use ocl::core::{self, ArgVal, CommandQueue, Event, Kernel};

use super::device::Device;
use super::error::DeviceError;
use super::memory::{Buffer, NO_WAIT, Pinned};
use super::program::Variant;
use super::queue::{Input, Job, Output};

/// The kernels of one variant.
pub(super) struct Kernels {
    pub(super) variant: Variant,
    integrate: Kernel,
    reduce: Kernel,
}

/// Buffers for launches of up to `needs`.
pub(super) struct Memory {
    pub(super) needs: Needs,
    pub(super) upload: Pinned,
    pub(super) download: Pinned,
    pub(super) input: Buffer,
    pub(super) ranges: Buffer,
    pub(super) partial: Buffer,
    pub(super) sums: Buffer,
    pub(super) invalid: Buffer,
    /// For each frame how many pixels are invalid; then for each the first damaged tile, all ones if there is none.
    pub(super) status: Buffer,
}

/// Bytes of buffers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    pub(super) frames: usize,
    pub(super) input: usize,
    pub(super) ranges: usize,
    pub(super) partial: usize,
    pub(super) sums: usize,
    /// Of one frame.
    pub(super) invalid: usize,
}

/// Bytes of a sum: a double, or two floats.
pub(super) const REAL: usize = 8;

impl Needs {
    pub(super) fn of(job: &Job<'_>, frames: &[Input<'_>]) -> Needs {
        let frame_bytes = job.plan.pixels() * job.variant.dtype.size();
        let bytes = |frame: &Input<'_>| if frame.places.is_some() { frame.stored.bytes.len() } else { frame_bytes };
        let quantities = job.variant.quantities();
        Needs {
            frames: frames.len(),
            input: table_bytes(job, frames.len()) + frames.iter().map(bytes).sum::<usize>(),
            ranges: job.ranges.len(),
            partial: frames.len() * job.matrix.slots as usize * quantities * REAL,
            sums: frames.len() * job.plan.nbins() * quantities * REAL,
            invalid: invalid_bytes(job),
        }
    }

    /// Buffers for as much as either.
    pub(super) fn or_more(&self, other: &Needs) -> Needs {
        // Chunks differ in length: some more, lest every other launch needs larger buffers.
        let input = self.input + self.input / 8;
        Needs {
            frames: self.frames.max(other.frames),
            input: input.max(other.input),
            ranges: self.ranges.max(other.ranges),
            partial: self.partial.max(other.partial),
            sums: self.sums.max(other.sums),
            invalid: self.invalid.max(other.invalid),
        }
    }

    pub(super) fn cover(&self, other: &Needs) -> bool {
        self.frames >= other.frames
            && self.input >= other.input
            && self.ranges >= other.ranges
            && self.partial >= other.partial
            && self.sums >= other.sums
            && self.frames * self.invalid >= other.frames * other.invalid
    }

    pub(super) fn device_bytes(&self) -> u64 {
        (self.input + self.ranges + self.partial + self.sums + self.frames * self.invalid) as u64
    }
}

impl Memory {
    pub(super) fn new(device: &Device, queue: &CommandQueue, needs: Needs) -> Result<Memory, DeviceError> {
        let (context, status) = (&device.context, status_bytes(needs.frames));
        Ok(Memory {
            needs,
            upload: Pinned::new(context, queue, status + needs.input)?,
            download: Pinned::new(context, queue, (needs.sums + status).max(needs.invalid))?,
            input: Buffer::new(context, needs.input)?,
            ranges: Buffer::new(context, needs.ranges)?,
            partial: Buffer::new(context, needs.partial)?,
            sums: Buffer::new(context, needs.sums)?,
            invalid: Buffer::new(context, needs.frames * needs.invalid)?,
            status: Buffer::new(context, status)?,
        })
    }
}

impl Kernels {
    pub(super) fn new(device: &Device, variant: Variant) -> Result<Kernels, DeviceError> {
        let program = device.program(variant)?;
        Ok(Kernels {
            variant,
            integrate: core::create_kernel(&program, "integrate")?,
            reduce: core::create_kernel(&program, "reduce")?,
        })
    }

    /// Queues both kernels for `count` frames.
    pub(super) fn start(
        &self,
        queue: &CommandQueue,
        job: &Job<'_>,
        count: u32,
        memory: &Memory,
        [integrated, reduced]: [&mut Event; 2],
    ) -> Result<(), DeviceError> {
        let matrix = &job.matrix;
        let (pixels, bins) = (job.plan.pixels() as u32, job.plan.nbins() as u32);
        let range_count = (job.ranges.len() / (2 * job.variant.dtype.size())) as u32;
        arguments(
            &self.integrate,
            &[
                Mem(&memory.input),
                Word(count),
                Word(matrix.tiles),
                Word(matrix.span),
                Word(matrix.whole),
                Word(pixels),
                Mem(&matrix.slot_starts),
                Mem(&matrix.row_starts),
                Mem(&matrix.entry_starts),
                Mem(&matrix.places),
                Mem(&matrix.weights),
                Mem(&matrix.used),
                Mem(&memory.ranges),
                Word(range_count),
                Mem(&memory.partial),
                Mem(&memory.invalid),
                Mem(&memory.status),
            ],
        )?;
        let reduce = [
            Mem(&memory.partial),
            Word(count),
            Word(bins),
            Word(matrix.slots),
            Mem(&matrix.bin_starts),
            Mem(&matrix.bin_slots),
            Mem(&memory.sums),
        ];
        arguments(&self.reduce, &reduce)?;
        let group = self.variant.group;
        let groups = matrix.tiles.div_ceil(matrix.span) as usize * count as usize;
        let (lanes, sums) = ([groups * group, 1, 1], [(bins as usize).next_multiple_of(group), count as usize, 1]);
        // SAFETY: the arguments are those of the kernels, which keep within them whatever the frames hold; see the sources.
        unsafe {
            core::enqueue_kernel(
                queue,
                &self.integrate,
                1,
                None,
                &lanes,
                Some([group, 1, 1]),
                NO_WAIT,
                Some(integrated),
            )?;
            core::enqueue_kernel(queue, &self.reduce, 2, None, &sums, Some([group, 1, 1]), NO_WAIT, Some(reduced))?;
        }
        Ok(())
    }
}

/// An argument of a kernel.
enum Argument<'a> {
    Mem(&'a Buffer),
    Word(u32),
}

use Argument::{Mem, Word};

fn arguments(kernel: &Kernel, arguments: &[Argument<'_>]) -> Result<(), DeviceError> {
    for (index, argument) in (0..).zip(arguments) {
        let value = match argument {
            Mem(buffer) => ArgVal::mem(&buffer.mem),
            Word(word) => ArgVal::scalar(word),
        };
        core::set_kernel_arg(kernel, index, value)?;
    }
    Ok(())
}

/// Bytes of the counts and numbers that say what became of each frame.
pub(super) fn status_bytes(frames: usize) -> usize {
    8 * frames
}

/// Bytes of one frame's bitmap of invalid pixels.
pub(super) fn invalid_bytes(job: &Job<'_>) -> usize {
    job.matrix.tiles as usize * (job.variant.elements() / 8 + 1)
}

/// Bytes of the tables at the front of the input; see `integrate.cl`.
fn table_bytes(job: &Job<'_>, frames: usize) -> usize {
    4 * frames * (job.matrix.tiles as usize + 2)
}

/// Writes the input of a launch: tables, then frames, those that the device can't decode decoded. Returns the numbers of the
/// frames, and the bytes written. What can't be decoded is left out.
pub(super) fn fill(
    job: &Job<'_>,
    frames: Vec<Input<'_>>,
    out: &mut [u8],
    outputs: &mut Vec<(usize, Output)>,
) -> (Vec<usize>, usize) {
    let tiles = job.matrix.tiles as usize;
    let element = job.variant.dtype.size();
    let frame_bytes = job.plan.pixels() * element;
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
                let block = job.variant.block_bytes;
                (0..tiles)
                    .map(|tile| tile * block)
                    .chain([job.matrix.whole as usize * element])
                    .map(|at| at as u32)
                    .collect()
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
