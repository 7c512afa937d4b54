//! Stored frames in, sums out, on a device: the counterpart of [`crate::integrate_by_all`].

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::device::{Device, DeviceMatrix};
use super::error::DeviceError;
use super::program::KernelKind;
use super::queue::{DevicePhotonSums, DevicePlan, DeviceQueue, FrameOutcome, FrameSums, LaunchFrame, LaunchJob};
use crate::bitmap::iter_bits;
use crate::codec::DecodeError;
use crate::codec::bitshuffle::{BlockOffsets, Codec, default_block_elements};
use crate::invalid_values::InvalidValues;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::{IntegrationPlan, StaticSums};
use crate::simd;
use crate::sums::Sums;
use crate::{IntegrationSpec, Pipeline, Scratch, StoredFrame, integrate_frames};

/// The longest block, decoded, that fits into a work-group's memory.
const MAX_BLOCK_BYTES: usize = 8192;

/// Blocks of fewer pixels are decoded by the processor: their matrix would be larger than it is worth.
const MIN_BLOCK_ELEMENTS: usize = 128;

/// Frames of a launch at the most.
const MAX_FRAMES_PER_LAUNCH: usize = 64;

/// The queues that one thread has on a device, and the memory that they use.
pub struct DeviceQueues {
    device: Arc<Device>,
    queues: Vec<DeviceQueue>,
    /// Frames of a launch, as far as memory allows.
    max_frames: usize,
    /// For frames that the device can't decode.
    cpu_scratch: Scratch,
    /// By plan, the last frame's invalid pixels, and the sums without them: detectors mark the same pixels again and again.
    last_invalid: HashMap<u64, LastInvalidPixels>,
    /// What the last call was for stays with the device until the next one.
    matrices: Vec<Arc<DeviceMatrix>>,
    disputed_frames: u64,
}

/// The sums of a frame by each plan.
type FrameResult = Result<Vec<Sums>, DecodeError>;

/// A frame of a call, by its number there, and where its blocks are if the device decodes them.
#[derive(Clone)]
struct IndexedFrame {
    index: usize,
    block_offsets: Option<BlockOffsets>,
}

/// Frames whose blocks are of one size.
struct BlockSizeGroup {
    block_bytes: usize,
    frames: Vec<IndexedFrame>,
}

/// What came of frames, and those that are to be launched again, fewer at a time.
struct LaunchOutcome {
    outputs: Vec<(usize, FrameOutcome)>,
    remaining: Vec<IndexedFrame>,
}

struct LastInvalidPixels {
    bitmap: Vec<u8>,
    totals: StaticSums,
}

impl DeviceQueues {
    /// `count` queues, at least one: with two or more, copying, decoding and reducing of several launches overlap.
    ///
    /// # Errors
    /// The driver fails, or the device has been given up.
    pub fn new(device: Arc<Device>, count: usize) -> Result<DeviceQueues, DeviceError> {
        device.failure().map_or(Ok(()), |why| Err(why.clone()))?;
        let queues = (0..count.max(1)).map(|_| DeviceQueue::new(device.clone())).collect::<Result<_, _>>()?;
        let processor = Scratch::default();
        let (last_invalid, matrices) = (HashMap::new(), Vec::new());
        Ok(DeviceQueues {
            device,
            queues,
            max_frames: MAX_FRAMES_PER_LAUNCH,
            cpu_scratch: processor,
            last_invalid,
            matrices,
            disputed_frames: 0,
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Bytes sent to the device for frames, so far.
    pub fn sent_bytes(&self) -> u64 {
        self.queues.iter().map(|queue| queue.sent_bytes).sum()
    }

    /// How many frames the device has refused that the processor did decode, so far: none, or it can't be trusted.
    pub fn disputed(&self) -> u64 {
        self.disputed_frames
    }

    /// Frames that a launch takes, as far as memory allows.
    pub fn frames_per_launch(&self) -> usize {
        self.max_frames
    }

    /// As [`DeviceQueues::integrate_batch_multi`] by one plan.
    ///
    /// # Errors
    /// As there.
    pub fn integrate(
        &mut self,
        pipeline: &Pipeline,
        plan: &IntegrationPlan,
        invalid: &InvalidValues,
        frames: &[StoredFrame<'_>],
    ) -> Result<Vec<Result<Sums, DecodeError>>, DeviceError> {
        let rows = self.integrate_batch_multi(pipeline, &[IntegrationSpec { plan, invalid, csr: None }], frames)?;
        Ok(rows.into_iter().map(|row| row.map(|mut sums| sums.remove(0))).collect())
    }

    /// Decodes frames of the pipeline's type and integrates them by several plans for frames of one size, each with its rule
    /// for invalid pixels and its method; a frame is sent once for all of them. Sums agree with those of [`crate::accumulate`]
    /// but for the rounding of sums, and norms of invalid pixels to the bit; those by methods that look at all pixels of a bin
    /// are the bytes of [`crate::ByBin`]. They are the same each time on one device, however many frames and plans come
    /// together. A frame that does not decode is an error of its own, as [`integrate_frames`] words it.
    ///
    /// # Errors
    /// The device fails, which leaves nothing done, and gives it up unless it lacks just memory or the ability.
    pub fn integrate_batch_multi(
        &mut self,
        pipeline: &Pipeline,
        targets: &[IntegrationSpec<'_>],
        frames: &[StoredFrame<'_>],
    ) -> Result<Vec<FrameResult>, DeviceError> {
        self.device.failure().map_or(Ok(()), |why| Err(why.clone()))?;
        // The crate `ocl` panics at error codes that it does not know.
        let rows = catch_unwind(AssertUnwindSafe(|| self.try_integrate(pipeline, targets, frames)));
        let rows =
            rows.unwrap_or_else(|_| Err(DeviceError::Failed("the driver's answer is not understood".to_owned())));
        if let Err(why @ DeviceError::Failed(_)) = &rows {
            self.device.disable(why.clone());
        }
        rows
    }

    fn try_integrate(
        &mut self,
        pipeline: &Pipeline,
        targets: &[IntegrationSpec<'_>],
        frames: &[StoredFrame<'_>],
    ) -> Result<Vec<FrameResult>, DeviceError> {
        let Some(IntegrationSpec { plan, .. }) = targets.first() else {
            return Ok(frames.iter().map(|_| Ok(Vec::new())).collect());
        };
        let mut results: Vec<Option<FrameResult>> = frames.iter().map(|_| None).collect();
        for BlockSizeGroup { block_bytes, frames: mut todo } in group_by_block_size(pipeline, plan, frames) {
            let aims = targets.iter().map(|target| self.device_plan(pipeline, block_bytes, target));
            let job = LaunchJob { pipeline, plans: aims.collect::<Result<_, _>>()? };
            self.matrices = job.plans.iter().map(|aim| aim.matrix.clone()).collect();
            while !todo.is_empty() {
                let LaunchOutcome { outputs, remaining: left } = self.launch(&job, frames, todo)?;
                todo = left;
                for (index, output) in outputs {
                    results[index] = Some(match output {
                        FrameOutcome::Sums(all) => {
                            Ok(job.plans.iter().zip(all).map(|(aim, sums)| self.complete(aim, sums)).collect())
                        }
                        FrameOutcome::DecodeFailed(why) => Err(why),
                        FrameOutcome::DamagedOnDevice => {
                            let alone = &frames[index..=index];
                            let found = integrate_frames(pipeline, targets, alone, &mut self.cpu_scratch).remove(0);
                            self.disputed_frames += u64::from(found.is_ok());
                            found
                        }
                    });
                }
            }
        }
        Ok(results.into_iter().map(|result| result.expect("each frame is in one group")).collect())
    }

    /// A plan as the device takes it, for frames in blocks of so many bytes.
    fn device_plan<'a>(
        &self,
        pipeline: &Pipeline,
        block_bytes: usize,
        &IntegrationSpec { plan, invalid, csr: by_bin }: &IntegrationSpec<'a>,
    ) -> Result<DevicePlan<'a>, DeviceError> {
        if by_bin.is_some_and(|by_bin| !by_bin.is_order_free()) {
            return Err(DeviceError::Unsupported("medians and quantiles".to_owned()));
        }
        let method = by_bin.map_or(KernelKind::Sums { variance: plan.has_count_variance() }, |_| KernelKind::Csr);
        let variant = self.device.variant(pipeline.dtype(), block_bytes, method);
        let matrix = self.device.matrix(plan, by_bin, variant.elements())?;
        let ranges = with_pixel!(pipeline.dtype(), encode_ranges(invalid));
        let range_count = (ranges.len() / (2 * pipeline.dtype().size())) as u32;
        Ok(DevicePlan { plan, by_bin, variant, matrix, ranges: self.device.ranges(ranges)?, range_count })
    }

    /// Launches frames, as many at a time as memory allows, on all queues in turn.
    fn launch<'a>(
        &mut self,
        job: &LaunchJob<'_>,
        frames: &'a [StoredFrame<'a>],
        todo: Vec<IndexedFrame>,
    ) -> Result<LaunchOutcome, DeviceError> {
        let size = todo.len().div_ceil(self.queues.len()).clamp(1, self.max_frames);
        let mut outputs = Vec::new();
        let mut short = None;
        for (turn, launch) in todo.chunks(size).enumerate() {
            let number = turn % self.queues.len();
            let input = |IndexedFrame { index, block_offsets: places }: &IndexedFrame| LaunchFrame {
                index: *index,
                stored: frames[*index],
                block_offsets: places.clone(),
            };
            let queue = &mut self.queues[number];
            let done = queue.wait_and_read().and_then(|done| {
                outputs.extend(done);
                queue.submit(job, launch.iter().map(input).collect())
            });
            if let Err(why) = done {
                short = Some(why);
                break;
            }
        }
        for queue in &mut self.queues {
            match queue.wait_and_read() {
                Ok(done) => outputs.extend(done),
                Err(why) => short = short.or(Some(why)),
            }
        }
        match short {
            None => return Ok(LaunchOutcome { outputs, remaining: Vec::new() }),
            Some(DeviceError::OutOfMemory(_)) if size > 1 => {
                self.max_frames = size / 2;
                self.queues.iter_mut().for_each(DeviceQueue::free_buffers);
            }
            Some(why) => return Err(why),
        }
        let is_done = |index: usize| outputs.iter().any(|(done, _)| *done == index);
        let left = todo.into_iter().filter(|frame| !is_done(frame.index)).collect();
        Ok(LaunchOutcome { outputs, remaining: left })
    }

    /// A frame's sums, from what the device found.
    fn complete(&mut self, aim: &DevicePlan<'_>, found: FrameSums) -> Sums {
        let plan = aim.plan;
        let DevicePhotonSums { signal, poisson_excess: excess, invalid } = match (found, aim.by_bin) {
            (FrameSums::Photons(photons), _) => photons,
            (FrameSums::Selected(numbers), Some(by_bin)) => return by_bin.sums_from_device(plan, &numbers),
            (FrameSums::Selected(_), None) => unreachable!("pixels are chosen by methods that look at all of a bin"),
        };
        let Some(bitmap) = invalid else { return Sums::from_photon_sums(plan, signal, excess, None) };
        let last = self.last_invalid.remove(&plan.id()).filter(|last| last.bitmap == bitmap);
        let last = last.unwrap_or_else(|| {
            let pixels = pixels_of_bitmap(&bitmap, aim.variant.elements(), aim.matrix.block_pixels);
            LastInvalidPixels { totals: simd::static_sums_without(plan, &pixels), bitmap }
        });
        let sums = Sums::from_photon_sums(plan, signal, excess, Some(&last.totals));
        self.last_invalid.insert(plan.id(), last);
        sums
    }
}

/// The frames by the blocks that they are in. It does not depend on the other frames in which group a frame is.
fn group_by_block_size(pipeline: &Pipeline, plan: &IntegrationPlan, frames: &[StoredFrame<'_>]) -> Vec<BlockSizeGroup> {
    let size = pipeline.dtype().size();
    let decoded = default_block_elements(size) * size;
    let mut groups: Vec<BlockSizeGroup> = Vec::new();
    for (index, stored) in frames.iter().enumerate() {
        let places = block_offsets(pipeline, stored, plan.pixels() * size);
        let block_bytes = places.as_ref().map_or(decoded, |places| places.block_bytes);
        let frame = IndexedFrame { index, block_offsets: places };
        match groups.iter_mut().find(|group| group.block_bytes == block_bytes) {
            Some(group) => group.frames.push(frame),
            None => groups.push(BlockSizeGroup { block_bytes, frames: vec![frame] }),
        }
    }
    groups
}

/// Where a frame's blocks are, if the device can decode them. A stream whose framing is damaged it can't.
fn block_offsets(pipeline: &Pipeline, stored: &StoredFrame<'_>, frame_bytes: usize) -> Option<BlockOffsets> {
    let bitshuffle = pipeline.only_bitshuffle(stored.filter_mask).filter(|b| b.codec == Codec::Lz4)?;
    let places = BlockOffsets::scan(bitshuffle, stored.bytes, frame_bytes).ok()?;
    let elements = places.block_bytes / pipeline.dtype().size();
    (elements >= MIN_BLOCK_ELEMENTS && places.block_bytes <= MAX_BLOCK_BYTES).then_some(places)
}

/// The invalid ranges as the kernels take them.
fn encode_ranges<T: Pixel>(invalid: &InvalidValues) -> Vec<u8> {
    let bytes = |pixel: T| pixel.bits().into().to_le_bytes()[..T::SIZE].to_vec();
    invalid.for_type::<T>().ranges().iter().flat_map(|&(low, high)| [bytes(low), bytes(high)].concat()).collect()
}

/// The invalid pixels, rising, of a bitmap by tile: for each its eights of pixels, then those behind the last block.
fn pixels_of_bitmap(bitmap: &[u8], elements: usize, whole: u32) -> Vec<u32> {
    let columns = elements / 8;
    let mut pixels = Vec::new();
    for (tile, of_tile) in bitmap.chunks_exact(columns + 1).enumerate() {
        for (column, &byte) in of_tile.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            let first = if column == columns { whole } else { (tile * elements + 8 * column) as u32 };
            pixels.extend(iter_bits(byte.into()).map(|bit| first + bit as u32));
        }
    }
    pixels
}
