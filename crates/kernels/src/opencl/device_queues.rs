//! Integrates batches of stored frames on a device: the counterpart of [`integrate_frames`].

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::device::Device;
use super::error::DeviceError;
use super::job::{DevicePhotonSums, DevicePlan, FrameOutcome, FrameSums, LaunchFrame, LaunchJob};
use super::matrix::DeviceMatrix;
use super::program::KernelKind;
use super::queue::DeviceQueue;
use crate::batch::FrameResult;
use crate::bitmap::iter_bits;
use crate::codec::DecodeError;
use crate::codec::bitshuffle::{BlockOffsets, Codec, default_block_elements};
use crate::decode_paths::DecodePathCounts;
use crate::invalid_pixels::InvalidPixels;
use crate::invalid_values::InvalidValues;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::IntegrationPlan;
use crate::simd::Isa;
use crate::static_sums::StaticSums;
use crate::sums::Sums;
use crate::{EncodedFrame, IntegrationSpec, Pipeline, Scratch, integrate_frames};

/// Maximum bytes of a decoded block, such that the block fits in a work-group's local memory.
const MAX_BLOCK_BYTES: usize = 8192;

/// Minimum number of pixels of a block that the device decodes. For smaller blocks, the tables of
/// the matrix would be larger than the matrix.
const MIN_BLOCK_ELEMENTS: usize = 128;

/// Maximum number of frames per launch.
const MAX_FRAMES_PER_LAUNCH: usize = 64;

/// The command queues that one thread has on a device, with their buffers.
pub struct DeviceQueues {
    device: Arc<Device>,
    queues: Vec<DeviceQueue>,
    /// Maximum number of frames per launch; halved when memory is short.
    max_frames: usize,
    /// Working memory for frames that the device found damaged.
    cpu_scratch: Scratch,
    /// The invalid pixels of the last frame of each plan, by [`IntegrationPlan::id`]. Detectors
    /// mark the same pixels in most frames, so the sums without them can be reused.
    last_invalid: HashMap<u64, LastInvalidPixels>,
    /// The matrices of the last call. Holding them keeps the device from dropping them before the
    /// next call.
    matrices: Vec<Arc<DeviceMatrix>>,
    disputed_frames: u64,
    decode_paths: DecodePathCounts,
}

/// A frame of a call.
#[derive(Clone)]
struct IndexedFrame {
    /// Index of the frame in the call.
    index: usize,
    /// Offsets of the frame's blocks, if the device decodes them.
    block_offsets: Option<BlockOffsets>,
}

/// Frames with blocks of the same size.
struct BlockSizeGroup {
    /// Bytes of a decoded block.
    block_bytes: usize,
    frames: Vec<IndexedFrame>,
}

/// The outcome of some launches.
struct LaunchOutcome {
    /// Frames that are done, by index.
    outputs: Vec<(usize, FrameOutcome)>,
    /// Frames that did not fit in memory, to be launched again, fewer at a time.
    remaining: Vec<IndexedFrame>,
}

/// The invalid pixels of a frame, and the plan's sums without them.
struct LastInvalidPixels {
    bitmap: Vec<u8>,
    totals: StaticSums,
}

impl DeviceQueues {
    /// Creates `count` queues, at least one. With two or more, copying and computing of several
    /// launches overlap.
    ///
    /// # Errors
    /// The driver fails, or the device has been disabled.
    pub fn new(device: Arc<Device>, count: usize) -> Result<DeviceQueues, DeviceError> {
        device.failure().map_or(Ok(()), |why| Err(why.clone()))?;
        let queues = (0..count.max(1))
            .map(|_| DeviceQueue::new(device.clone()))
            .collect::<Result<_, _>>()?;
        Ok(DeviceQueues {
            device,
            queues,
            max_frames: MAX_FRAMES_PER_LAUNCH,
            cpu_scratch: Scratch::default(),
            last_invalid: HashMap::new(),
            matrices: Vec::new(),
            disputed_frames: 0,
            decode_paths: DecodePathCounts::default(),
        })
    }

    /// Forgets what was kept for the next call: the matrices, which others may need the memory of,
    /// and what the plans so far have taught.
    pub fn end_task(&mut self) {
        self.matrices.clear();
        self.last_invalid.clear();
        self.max_frames = MAX_FRAMES_PER_LAUNCH;
        self.decode_paths = DecodePathCounts::default();
    }

    /// Returns the device whose command queues these are.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Returns the bytes sent to the device for frames so far.
    pub fn sent_bytes(&self) -> u64 {
        self.queues.iter().map(|queue| queue.sent_bytes).sum()
    }

    /// Returns the number of frames so far that the device found damaged, but the CPU could decode.
    /// If it is not 0, the device can't be trusted.
    pub fn disputed(&self) -> u64 {
        self.disputed_frames
    }

    /// Returns where the frames of the calls since the last call of this function were decoded.
    pub fn take_decode_paths(&mut self) -> DecodePathCounts {
        std::mem::take(&mut self.decode_paths)
    }

    /// Returns the maximum number of frames per launch, as far as memory has allowed so far.
    pub fn frames_per_launch(&self) -> usize {
        self.max_frames
    }

    /// Integrates frames with one plan; see [`DeviceQueues::integrate_batch_by_plans`].
    ///
    /// # Errors
    /// See [`DeviceQueues::integrate_batch_by_plans`].
    pub fn integrate(
        &mut self,
        pipeline: &Pipeline,
        plan: &IntegrationPlan,
        invalid: &InvalidValues,
        frames: &[EncodedFrame<'_>],
    ) -> Result<Vec<Result<Sums, DecodeError>>, DeviceError> {
        let rows = self.integrate_batch_by_plans(
            pipeline,
            &[IntegrationSpec { plan, invalid, csr: None, collects_rejected: false }],
            frames,
        )?;
        Ok(rows.into_iter().map(|row| row.map(|mut sums| sums.remove(0))).collect())
    }

    /// Decodes frames and integrates them with several plans, each with its own invalid values and
    /// statistic. All plans must be for frames of the same size. Each frame is sent to the device
    /// once.
    ///
    /// Signals and variances agree with [`crate::accumulate_frame`] up to the rounding of sums, and
    /// weights are equal to the bit. Statistics with a CSR matrix are the same bytes as
    /// [`crate::CsrMatrix::integrate`]. A device gives the same bytes for a frame whichever frames
    /// and plans are integrated with it. A frame that can't be decoded gives the error of
    /// [`integrate_frames`]; the other frames are not affected.
    ///
    /// # Errors
    ///
    /// The device fails, lacks memory, or can't do what a plan needs. Then no frame is integrated.
    /// A failed device is disabled; without enough memory or a feature it can still be used for
    /// other plans.
    pub fn integrate_batch_by_plans(
        &mut self,
        pipeline: &Pipeline,
        specs: &[IntegrationSpec<'_>],
        frames: &[EncodedFrame<'_>],
    ) -> Result<Vec<FrameResult>, DeviceError> {
        self.device.failure().map_or(Ok(()), |why| Err(why.clone()))?;
        // Crate `ocl` panics at error codes that it does not know.
        let results =
            catch_unwind(AssertUnwindSafe(|| self.try_integrate(pipeline, specs, frames)));
        let results = results.unwrap_or_else(|_| {
            Err(DeviceError::Failed("the driver returned an unknown error code".to_owned()))
        });
        if let Err(why @ DeviceError::Failed(_)) = &results {
            self.device.disable(why.clone());
        }
        results
    }

    /// Integrates frames; does not disable the device if that fails.
    fn try_integrate(
        &mut self,
        pipeline: &Pipeline,
        specs: &[IntegrationSpec<'_>],
        frames: &[EncodedFrame<'_>],
    ) -> Result<Vec<FrameResult>, DeviceError> {
        let Some(IntegrationSpec { plan, .. }) = specs.first() else {
            return Ok(frames.iter().map(|_| Ok(Vec::new())).collect());
        };
        // The kernels rely on it: they read the pixels of each plan from the same input.
        if specs.iter().any(|spec| spec.plan.pixels() != plan.pixels()) {
            return Err(DeviceError::Unsupported(
                "expected plans for frames of the same size".to_owned(),
            ));
        }
        let mut results: Vec<Option<FrameResult>> = frames.iter().map(|_| None).collect();
        for BlockSizeGroup { block_bytes, frames: mut todo } in
            group_by_block_size(pipeline, plan, frames)
        {
            let on_device = todo.iter().filter(|frame| frame.block_offsets.is_some()).count();
            self.decode_paths.on_device += on_device as u64;
            self.decode_paths.sent_decoded += (todo.len() - on_device) as u64;
            let device_plans =
                specs.iter().map(|spec| self.device_plan(pipeline, block_bytes, spec));
            let job = LaunchJob { pipeline, plans: device_plans.collect::<Result<_, _>>()? };
            self.matrices =
                job.plans.iter().map(|device_plan| device_plan.matrix.clone()).collect();
            while !todo.is_empty() {
                let LaunchOutcome { outputs, remaining } = self.launch(&job, frames, todo)?;
                todo = remaining;
                for (index, output) in outputs {
                    results[index] = Some(match output {
                        FrameOutcome::Sums(all) => Ok(job
                            .plans
                            .iter()
                            .zip(all)
                            .map(|(device_plan, sums)| self.complete(device_plan, sums))
                            .collect()),
                        FrameOutcome::DecodeFailed(why) => Err(why),
                        FrameOutcome::DamagedOnDevice => {
                            let frame = &frames[index..=index];
                            let result =
                                integrate_frames(pipeline, specs, frame, &mut self.cpu_scratch)
                                    .remove(0);
                            self.disputed_frames += u64::from(result.is_ok());
                            result
                        }
                    });
                }
            }
        }
        Ok(results.into_iter().map(|result| result.expect("each frame is in one group")).collect())
    }

    /// Prepares a plan for the device, for frames in blocks of `block_bytes` decoded bytes.
    fn device_plan<'a>(
        &self,
        pipeline: &Pipeline,
        block_bytes: usize,
        &IntegrationSpec { plan, invalid, csr, .. }: &IntegrationSpec<'a>,
    ) -> Result<DevicePlan<'a>, DeviceError> {
        if csr.is_some_and(|csr| !csr.is_order_free()) {
            let why = "medians and quantiles: expected a mean or sigma clipping on a device";
            return Err(DeviceError::Unsupported(why.to_owned()));
        }
        let kind = csr.map_or(KernelKind::Sums(plan.quantities()), |_| KernelKind::Csr);
        let variant = self.device.variant(pipeline.dtype(), block_bytes, kind);
        let matrix = self.device.matrix(plan, csr, variant.elements())?;
        let ranges = with_pixel!(pipeline.dtype(), encode_ranges(invalid));
        let range_count = (ranges.len() / (2 * pipeline.dtype().size())) as u32;
        Ok(DevicePlan {
            plan,
            csr,
            variant,
            matrix,
            ranges: self.device.ranges(ranges)?,
            range_count,
        })
    }

    /// Integrates frames in launches of up to `max_frames`, on all queues in turn.
    ///
    /// If memory is short, `max_frames` is halved, and the frames that are not done are returned as
    /// `remaining`.
    fn launch<'a>(
        &mut self,
        job: &LaunchJob<'_>,
        frames: &'a [EncodedFrame<'a>],
        todo: Vec<IndexedFrame>,
    ) -> Result<LaunchOutcome, DeviceError> {
        let size = todo.len().div_ceil(self.queues.len()).clamp(1, self.max_frames);
        let mut outputs = Vec::new();
        let mut failure = None;
        for (turn, launch) in todo.chunks(size).enumerate() {
            let queue_index = turn % self.queues.len();
            let launch_frame = |IndexedFrame { index, block_offsets }: &IndexedFrame| LaunchFrame {
                index: *index,
                stored: frames[*index],
                block_offsets: block_offsets.clone(),
            };
            let queue = &mut self.queues[queue_index];
            let submitted = queue.wait_and_read().and_then(|done| {
                outputs.extend(done);
                queue.submit(job, launch.iter().map(launch_frame).collect())
            });
            if let Err(why) = submitted {
                failure = Some(why);
                break;
            }
        }
        for queue in &mut self.queues {
            match queue.wait_and_read() {
                Ok(done) => outputs.extend(done),
                Err(why) => failure = failure.or(Some(why)),
            }
        }
        match failure {
            None => return Ok(LaunchOutcome { outputs, remaining: Vec::new() }),
            Some(DeviceError::OutOfMemory(_)) if size > 1 => {
                self.max_frames = size / 2;
                self.queues.iter_mut().for_each(DeviceQueue::free_buffers);
            }
            Some(why) => return Err(why),
        }
        let is_done = |index: usize| outputs.iter().any(|(done, _)| *done == index);
        let remaining = todo.into_iter().filter(|frame| !is_done(frame.index)).collect();
        Ok(LaunchOutcome { outputs, remaining })
    }

    /// Completes the device's sums of a frame with the plan's dark, base variance and weights.
    fn complete(&mut self, device_plan: &DevicePlan<'_>, sums: FrameSums) -> Sums {
        let plan = device_plan.plan;
        let DevicePhotonSums { sums, invalid } = match (sums, device_plan.csr) {
            (FrameSums::Photons(photons), _) => photons,
            (FrameSums::Selected(numbers), Some(csr)) => {
                return csr.sums_from_device(plan, &numbers);
            }
            (FrameSums::Selected(_), None) => {
                unreachable!("only plans with a CSR matrix select pixels")
            }
        };
        let Some(bitmap) = invalid else {
            return Sums::from_photon_sums(plan, sums, None);
        };
        let last = self.last_invalid.remove(&plan.id()).filter(|last| last.bitmap == bitmap);
        let last = last.unwrap_or_else(|| {
            let pixels = pixels_of_bitmap(
                &bitmap,
                device_plan.variant.elements(),
                device_plan.matrix.block_pixels,
            );
            LastInvalidPixels {
                totals: Isa::fastest().run(plan.static_sums_without(&pixels)),
                bitmap,
            }
        });
        let sums = Sums::from_photon_sums(plan, sums, Some(&last.totals));
        self.last_invalid.insert(plan.id(), last);
        sums
    }
}

/// Groups frames by the size of their blocks. The group of a frame does not depend on the other
/// frames, so that its sums don't either.
fn group_by_block_size(
    pipeline: &Pipeline,
    plan: &IntegrationPlan,
    frames: &[EncodedFrame<'_>],
) -> Vec<BlockSizeGroup> {
    let size = pipeline.dtype().size();
    let default_block_bytes = default_block_elements(size) * size;
    let mut groups: Vec<BlockSizeGroup> = Vec::new();
    for (index, stored) in frames.iter().enumerate() {
        let block_offsets = block_offsets(pipeline, stored, plan.pixels() * size);
        let block_bytes =
            block_offsets.as_ref().map_or(default_block_bytes, |offsets| offsets.block_bytes);
        let frame = IndexedFrame { index, block_offsets };
        match groups.iter_mut().find(|group| group.block_bytes == block_bytes) {
            Some(group) => group.frames.push(frame),
            None => groups.push(BlockSizeGroup { block_bytes, frames: vec![frame] }),
        }
    }
    groups
}

/// Returns the offsets of a frame's blocks if the device can decode them. It can't if the codec is
/// not bitshuffled LZ4, the block size does not suit it, or the headers of the blocks are damaged.
fn block_offsets(
    pipeline: &Pipeline,
    stored: &EncodedFrame<'_>,
    frame_bytes: usize,
) -> Option<BlockOffsets> {
    let bitshuffle =
        pipeline.only_bitshuffle(stored.filter_mask).filter(|b| b.codec == Codec::Lz4)?;
    let offsets = BlockOffsets::scan(bitshuffle, stored.bytes, frame_bytes).ok()?;
    let elements = offsets.block_bytes / pipeline.dtype().size();
    (elements >= MIN_BLOCK_ELEMENTS && offsets.block_bytes <= MAX_BLOCK_BYTES).then_some(offsets)
}

/// Encodes the invalid ranges for the kernels: the lowest and the highest pixel of each range, in
/// the pixel type.
fn encode_ranges<T: Pixel>(invalid: &InvalidValues) -> Vec<u8> {
    let bytes = |pixel: T| pixel.bits().into().to_le_bytes()[..T::SIZE].to_vec();
    invalid
        .for_type::<T>()
        .ranges()
        .iter()
        .flat_map(|&(low, high)| [bytes(low), bytes(high)].concat())
        .collect()
}

/// Returns the pixels set in a device's bitmap. See [`super::slot_layout::SlotLayout::used`] for the
/// layout.
fn pixels_of_bitmap(bitmap: &[u8], elements: usize, block_pixels: u32) -> InvalidPixels {
    let columns = elements / 8;
    let of_tile = |(tile, bits): (usize, &[u8])| {
        bits.iter()
            .enumerate()
            .flat_map(move |(column, &byte)| {
                let is_tail = column == columns;
                let first =
                    if is_tail { block_pixels as usize } else { tile * elements + 8 * column };
                iter_bits(byte.into()).map(move |bit| first + bit)
            })
            .collect::<Vec<_>>()
    };
    bitmap.chunks_exact(columns + 1).enumerate().flat_map(of_tile).collect()
}
