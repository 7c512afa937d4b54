//! [`LaunchBuffers`], the buffers of a queue and their sizes, and the encoding of the input.

use ocl::core::CommandQueue;

use super::buffer::{DeviceBuffer, PinnedBuffer};
use super::device::Device;
use super::error::DeviceError;
use super::job::{DevicePlan, FrameOutcome, LaunchFrame, LaunchJob};
use super::matrix::MatrixBuffers;

/// The buffers of a queue, for launches of up to `sizes`.
pub(super) struct LaunchBuffers {
    pub(super) sizes: BufferSizes,
    /// Host memory: the initial status, then the input.
    pub(super) upload: PinnedBuffer,
    /// Host memory: one region per plan, with sums, then status.
    pub(super) download: PinnedBuffer,
    /// Tables of block offsets, then the chunks; see `integrate.cl`.
    pub(super) input: DeviceBuffer,
    /// Results of the first kernel for the second one. The kernels of all plans run one after the
    /// other and share it.
    pub(super) intermediate: DeviceBuffer,
    /// The results of each plan.
    pub(super) results: Vec<PlanResults>,
}

/// The launch of the kernels of one plan.
pub(super) struct PlanLaunch<'a> {
    pub(super) queue: &'a CommandQueue,
    pub(super) device_plan: &'a DevicePlan<'a>,
    /// Number of frames.
    pub(super) frames: usize,
    pub(super) memory: &'a LaunchBuffers,
    /// Where the results of the plan go, in `memory`.
    pub(super) results: &'a PlanResults,
}

/// The results of one plan, in the memory of the device.
pub(super) struct PlanResults {
    /// The sums of each frame.
    pub(super) sums: DeviceBuffer,
    /// A bitmap of invalid pixels for each frame.
    pub(super) invalid: DeviceBuffer,
    /// The number of invalid pixels of each frame, then the first damaged tile of each frame,
    /// 0xffffffff if there is none.
    pub(super) status: DeviceBuffer,
}

/// Sizes of the buffers. Those with one part per plan are for the plan that needs most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BufferSizes {
    /// Number of frames.
    pub(super) frames: usize,
    /// Number of plans.
    pub(super) plans: usize,
    /// Bytes of the input.
    pub(super) input: usize,
    /// Bytes of the intermediate results.
    pub(super) intermediate: usize,
    /// Bytes of the sums of one plan.
    pub(super) sums: usize,
    /// Bytes of one frame's bitmap of invalid pixels.
    pub(super) invalid: usize,
}

/// Bytes of a sum: a double, or two floats.
pub(super) const SUM_BYTES: usize = 8;

impl BufferSizes {
    /// Computes the sizes that a launch needs.
    pub(super) fn new(job: &LaunchJob<'_>, frames: &[LaunchFrame<'_>]) -> BufferSizes {
        let frame_bytes = job.frame_bytes();
        let input_bytes = |frame: &LaunchFrame<'_>| {
            if frame.block_offsets.is_some() { frame.stored.bytes.len() } else { frame_bytes }
        };
        let max_of_plans =
            |size: &dyn Fn(&DevicePlan<'_>) -> usize| job.plans.iter().map(size).max().unwrap_or(0);
        let sum_bytes = |count: usize, device_plan: &DevicePlan<'_>| {
            frames.len() * count * device_plan.variant.sums_per_bin() * SUM_BYTES
        };
        BufferSizes {
            frames: frames.len(),
            plans: job.plans.len(),
            input: block_table_bytes(job, frames.len())
                + frames.iter().map(input_bytes).sum::<usize>(),
            intermediate: max_of_plans(&|device_plan| match &device_plan.matrix.entries {
                MatrixBuffers::Slots(slots) => sum_bytes(slots.slots as usize, device_plan),
                MatrixBuffers::Csr(csr) => frames.len() * csr.bytes_per_frame(frame_bytes),
            }),
            sums: max_of_plans(&|device_plan| sum_bytes(device_plan.plan.nbins(), device_plan)),
            invalid: job.invalid_bytes(),
        }
    }

    /// Returns sizes that fit both launches, with some reserve for the input.
    pub(super) fn grown_to(&self, other: &BufferSizes) -> BufferSizes {
        // Chunks differ in length. Without a reserve, every other launch would need larger buffers.
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

    /// Returns true if buffers of these sizes are large enough for `other`.
    pub(super) fn fits(&self, other: &BufferSizes) -> bool {
        self.frames >= other.frames
            && self.plans >= other.plans
            && self.input >= other.input
            && self.intermediate >= other.intermediate
            && self.sums >= other.sums
            && self.frames * self.invalid >= other.frames * other.invalid
    }

    /// Returns the bytes of device memory that the buffers take.
    pub(super) fn device_bytes(&self) -> u64 {
        (self.input + self.intermediate + self.plans * (self.sums + self.frames * self.invalid))
            as u64
    }

    /// Returns the bytes that are read back for each plan.
    pub(super) fn readback_bytes(&self) -> usize {
        self.sums + status_bytes(self.frames)
    }
}

impl LaunchBuffers {
    /// Allocates the buffers.
    pub(super) fn new(
        device: &Device,
        queue: &CommandQueue,
        sizes: BufferSizes,
    ) -> Result<LaunchBuffers, DeviceError> {
        let (context, status) = (&device.context, status_bytes(sizes.frames));
        let results = || -> Result<PlanResults, DeviceError> {
            Ok(PlanResults {
                sums: DeviceBuffer::new(context, sizes.sums)?,
                invalid: DeviceBuffer::new(context, sizes.frames * sizes.invalid)?,
                status: DeviceBuffer::new(context, status)?,
            })
        };
        Ok(LaunchBuffers {
            sizes,
            upload: PinnedBuffer::new(context, queue, status + sizes.input)?,
            download: PinnedBuffer::new(
                context,
                queue,
                (sizes.plans * sizes.readback_bytes()).max(sizes.invalid),
            )?,
            input: DeviceBuffer::new(context, sizes.input)?,
            intermediate: DeviceBuffer::new(context, sizes.intermediate)?,
            results: (0..sizes.plans).map(|_| results()).collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the bytes of the status: two 32-bit numbers per frame; see [`PlanResults::status`].
pub(super) fn status_bytes(frames: usize) -> usize {
    8 * frames
}

/// Returns the bytes of the tables at the start of the input; see `integrate.cl`.
fn block_table_bytes(job: &LaunchJob<'_>, frames: usize) -> usize {
    4 * frames * (job.tile_count() + 2)
}

/// Writes the input of a launch to `out`: the tables, then the chunks. Frames that the device can't
/// decode are decoded here.
///
/// Returns the indices of the frames that were written, and the number of bytes. A frame that can't
/// be decoded is left out, and its error is appended to `outputs`.
pub(super) fn write_input(
    job: &LaunchJob<'_>,
    frames: Vec<LaunchFrame<'_>>,
    out: &mut [u8],
    outputs: &mut Vec<(usize, FrameOutcome)>,
) -> (Vec<usize>, usize) {
    let (tiles, frame_bytes) = (job.tile_count(), job.frame_bytes());
    let table_bytes = block_table_bytes(job, frames.len());
    let (tables, chunks) = out.split_at_mut(table_bytes);
    let mut tables = tables.chunks_exact_mut(4 * (tiles + 2));
    let mut at = 0;
    let mut indices = Vec::new();
    for LaunchFrame { index, stored, block_offsets } in frames {
        let is_native = block_offsets.is_none();
        let starts: Vec<u32> = match block_offsets {
            Some(block_offsets) => {
                chunks[at..at + stored.bytes.len()].copy_from_slice(stored.bytes);
                block_offsets.starts
            }
            None => {
                let decoded = job.pipeline.decode(
                    stored.filter_mask,
                    stored.bytes,
                    &mut chunks[at..at + frame_bytes],
                );
                if let Err(why) = decoded {
                    outputs.push((index, FrameOutcome::DecodeFailed(why)));
                    continue;
                }
                let DevicePlan { variant, matrix, .. } = &job.plans[0];
                let end = matrix.block_pixels as usize * variant.dtype.size();
                (0..tiles)
                    .map(|tile| tile * variant.block_bytes)
                    .chain([end])
                    .map(|at| at as u32)
                    .collect()
            }
        };
        let Some(table) = tables.next() else { unreachable!("there are as many tables as frames") };
        let offsets = starts.into_iter().map(|start| (table_bytes + at) as u32 + start);
        let words = [u32::from(is_native)].into_iter().chain(offsets);
        table
            .as_chunks_mut()
            .0
            .iter_mut()
            .zip(words)
            .for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        at += if is_native { frame_bytes } else { stored.bytes.len() };
        indices.push(index);
    }
    (indices, table_bytes + at)
}
