//! What a launch takes: the kernels, their arguments, the memory, and the input in it.

use ocl::core::{self, ArgVal, CommandQueue, Event, Kernel};

use super::buffer::{DeviceBuffer, NO_WAIT, PinnedBuffer};
use super::device::{Device, MatrixBuffers};
use super::error::DeviceError;
use super::program::KernelVariant;
use super::queue::{DevicePlan, FrameOutcome, LaunchFrame, LaunchJob};

/// The kernels of one variant.
pub(super) struct KernelPair {
    pub(super) variant: KernelVariant,
    first: Kernel,
    second: Kernel,
}

/// Buffers for launches of up to `needs`.
pub(super) struct LaunchBuffers {
    pub(super) sizes: BufferSizes,
    pub(super) upload: PinnedBuffer,
    /// For each plan a region: sums, then status.
    pub(super) download: PinnedBuffer,
    pub(super) input: DeviceBuffer,
    /// What one plan's kernels leave each other: plans follow one another.
    pub(super) intermediate: DeviceBuffer,
    pub(super) results: Vec<PlanResults>,
}

/// What the kernels leave of one plan.
pub(super) struct PlanResults {
    pub(super) sums: DeviceBuffer,
    pub(super) invalid: DeviceBuffer,
    /// For each frame how many pixels are invalid; then for each the first damaged tile, all ones if there is none.
    pub(super) status: DeviceBuffer,
}

/// Bytes of buffers, those by plan for the plan that needs most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BufferSizes {
    pub(super) frames: usize,
    pub(super) plans: usize,
    pub(super) input: usize,
    pub(super) intermediate: usize,
    pub(super) sums: usize,
    /// Of one frame.
    pub(super) invalid: usize,
}

/// Bytes of a sum: a double, or two floats.
pub(super) const SUM_BYTES: usize = 8;

impl BufferSizes {
    pub(super) fn new(job: &LaunchJob<'_>, frames: &[LaunchFrame<'_>]) -> BufferSizes {
        let frame_bytes = job.frame_bytes();
        let bytes = |frame: &LaunchFrame<'_>| {
            if frame.block_offsets.is_some() { frame.stored.bytes.len() } else { frame_bytes }
        };
        let most = |of: &dyn Fn(&DevicePlan<'_>) -> usize| job.plans.iter().map(of).max().unwrap_or(0);
        let sums = |of_quantity: usize, aim: &DevicePlan<'_>| {
            frames.len() * of_quantity * aim.variant.sums_per_bin() * SUM_BYTES
        };
        BufferSizes {
            frames: frames.len(),
            plans: job.plans.len(),
            input: block_table_bytes(job, frames.len()) + frames.iter().map(bytes).sum::<usize>(),
            intermediate: most(&|aim| match &aim.matrix.entries {
                MatrixBuffers::Slots(slots) => sums(slots.slots as usize, aim),
                MatrixBuffers::Csr(bins) => frames.len() * bins.bytes_per_frame(frame_bytes),
            }),
            sums: most(&|aim| sums(aim.plan.nbins(), aim)),
            invalid: job.invalid_bytes(),
        }
    }

    /// Buffers for as much as either.
    pub(super) fn grown_to(&self, other: &BufferSizes) -> BufferSizes {
        // Chunks differ in length: some more, lest every other launch needs larger buffers.
        let input = self.input + self.input / 8;
        BufferSizes {
            frames: self.frames.max(other.frames),
            plans: self.plans.max(other.plans),
            input: input.max(other.input),
            intermediate: self.intermediate.max(other.intermediate),
            sums: self.sums.max(other.sums),
            invalid: self.invalid.max(other.invalid),
        }
    }

    pub(super) fn fits(&self, other: &BufferSizes) -> bool {
        self.frames >= other.frames
            && self.plans >= other.plans
            && self.input >= other.input
            && self.intermediate >= other.intermediate
            && self.sums >= other.sums
            && self.frames * self.invalid >= other.frames * other.invalid
    }

    pub(super) fn device_bytes(&self) -> u64 {
        (self.input + self.intermediate + self.plans * (self.sums + self.frames * self.invalid)) as u64
    }

    /// Bytes that are read back of each plan.
    pub(super) fn readback_bytes(&self) -> usize {
        self.sums + status_bytes(self.frames)
    }
}

impl LaunchBuffers {
    pub(super) fn new(device: &Device, queue: &CommandQueue, needs: BufferSizes) -> Result<LaunchBuffers, DeviceError> {
        let (context, status) = (&device.context, status_bytes(needs.frames));
        let results = || -> Result<PlanResults, DeviceError> {
            Ok(PlanResults {
                sums: DeviceBuffer::new(context, needs.sums)?,
                invalid: DeviceBuffer::new(context, needs.frames * needs.invalid)?,
                status: DeviceBuffer::new(context, status)?,
            })
        };
        Ok(LaunchBuffers {
            sizes: needs,
            upload: PinnedBuffer::new(context, queue, status + needs.input)?,
            download: PinnedBuffer::new(context, queue, (needs.plans * needs.readback_bytes()).max(needs.invalid))?,
            input: DeviceBuffer::new(context, needs.input)?,
            intermediate: DeviceBuffer::new(context, needs.intermediate)?,
            results: (0..needs.plans).map(|_| results()).collect::<Result<_, _>>()?,
        })
    }
}

impl KernelPair {
    pub(super) fn new(device: &Device, variant: KernelVariant) -> Result<KernelPair, DeviceError> {
        let program = device.program(variant)?;
        let [first, second] = variant.kernels().map(|name| core::create_kernel(&program, name));
        Ok(KernelPair { variant, first: first?, second: second? })
    }

    /// Queues both kernels for `count` frames and the launch's plan of this `number`.
    pub(super) fn enqueue(
        &self,
        queue: &CommandQueue,
        aim: &DevicePlan<'_>,
        count: u32,
        memory: &LaunchBuffers,
        number: usize,
        events: [&mut Event; 2],
    ) -> Result<(), DeviceError> {
        let slots = match &aim.matrix.entries {
            MatrixBuffers::Slots(slots) => slots,
            MatrixBuffers::Csr(bins) => {
                return bins.enqueue([&self.first, &self.second], queue, aim, count, (memory, number), events);
            }
        };
        let (matrix, results, [integrated, reduced]) = (&aim.matrix, &memory.results[number], events);
        let (pixels, bins) = (aim.plan.pixels() as u32, aim.plan.nbins() as u32);
        set_arguments(
            &self.first,
            &[
                Mem(&memory.input),
                Word(count),
                Word(matrix.tiles),
                Word(slots.span),
                Word(matrix.block_pixels),
                Word(pixels),
                Mem(&slots.slot_starts),
                Mem(&slots.row_starts),
                Mem(&slots.entry_starts),
                Mem(&slots.pixel_in_tile),
                Mem(&slots.weights),
                Mem(&slots.used),
                Mem(&aim.ranges),
                Word(aim.range_count),
                Mem(&memory.intermediate),
                Mem(&results.invalid),
                Mem(&results.status),
            ],
        )?;
        let reduce = [
            Mem(&memory.intermediate),
            Word(count),
            Word(bins),
            Word(slots.slots),
            Mem(&slots.bin_starts),
            Mem(&slots.bin_slots),
            Mem(&results.sums),
        ];
        set_arguments(&self.second, &reduce)?;
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
pub(super) enum KernelArgument<'a> {
    Mem(&'a DeviceBuffer),
    Word(u32),
    Double(f64),
}

use KernelArgument::{Double, Mem, Word};

pub(super) fn set_arguments(kernel: &Kernel, arguments: &[KernelArgument<'_>]) -> Result<(), DeviceError> {
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
fn block_table_bytes(job: &LaunchJob<'_>, frames: usize) -> usize {
    4 * frames * (job.tile_count() + 2)
}

/// Writes the input of a launch: tables, then frames, those that the device can't decode decoded. Returns the numbers of the
/// frames, and the bytes written. What can't be decoded is left out.
pub(super) fn write_input(
    job: &LaunchJob<'_>,
    frames: Vec<LaunchFrame<'_>>,
    out: &mut [u8],
    outputs: &mut Vec<(usize, FrameOutcome)>,
) -> (Vec<usize>, usize) {
    let (tiles, frame_bytes) = (job.tile_count(), job.frame_bytes());
    let (tables, room) = out.split_at_mut(block_table_bytes(job, frames.len()));
    let mut tables = tables.chunks_exact_mut(4 * (tiles + 2));
    let (before, mut at) = (tables.len() * 4 * (tiles + 2), 0);
    let mut indices = Vec::new();
    for LaunchFrame { index, stored, block_offsets: places } in frames {
        let is_native = places.is_none();
        let starts: Vec<u32> = match places {
            Some(places) => {
                room[at..at + stored.bytes.len()].copy_from_slice(stored.bytes);
                places.starts
            }
            None => {
                let decoded = job.pipeline.decode(stored.filter_mask, stored.bytes, &mut room[at..at + frame_bytes]);
                if let Err(why) = decoded {
                    outputs.push((index, FrameOutcome::DecodeFailed(why)));
                    continue;
                }
                let DevicePlan { variant, matrix, .. } = &job.plans[0];
                let whole = matrix.block_pixels as usize * variant.dtype.size();
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
