//! Stored frames in, sums out, on a device: the counterpart of [`crate::integrate_by_all`].

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::device::{Device, DeviceMatrix};
use super::error::DeviceError;
use super::program::Method;
use super::queue::{Aim, Found, Input, Job, Output, Photons, Queue};
use crate::backend;
use crate::bitmap::bits_of;
use crate::decode::DecodeError;
use crate::decode::bitshuffle::{Codec, Places, default_block};
use crate::invalid::Invalid;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::{Plan, Totals};
use crate::sums::Sums;
use crate::{Pipeline, Scratch, Stored, Target, integrate_all};

/// The longest block, decoded, that fits into a work-group's memory.
const LONGEST_BLOCK: usize = 8192;

/// Blocks of fewer pixels are decoded by the processor: their matrix would be larger than it is worth.
const FEWEST_ELEMENTS: usize = 128;

/// Frames of a launch at the most.
const MOST_FRAMES: usize = 64;

/// The queues that one thread has on a device, and the memory that they use.
pub struct Queues {
    device: Arc<Device>,
    queues: Vec<Queue>,
    /// Frames of a launch, as far as memory allows.
    most: usize,
    /// For frames that the device can't decode.
    processor: Scratch,
    /// By plan, the last frame's invalid pixels, and the sums without them: detectors mark the same pixels again and again.
    last_invalid: HashMap<u64, LastInvalid>,
    /// What the last call was for stays with the device until the next one.
    matrices: Vec<Arc<DeviceMatrix>>,
    disputed: u64,
}

/// The sums of a frame by each plan.
type Row = Result<Vec<Sums>, DecodeError>;

/// A frame of a call, by its number there, and where its blocks are if the device decodes them.
#[derive(Clone)]
struct Framed {
    index: usize,
    places: Option<Places>,
}

/// Frames whose blocks are of one size.
struct Group {
    block_bytes: usize,
    frames: Vec<Framed>,
}

/// What came of frames, and those that are to be launched again, fewer at a time.
struct Launched {
    outputs: Vec<(usize, Output)>,
    left: Vec<Framed>,
}

struct LastInvalid {
    bitmap: Vec<u8>,
    totals: Totals,
}

impl Queues {
    /// `count` queues, at least one: with two or more, copying, decoding and reducing of several launches overlap.
    ///
    /// # Errors
    /// The driver fails, or the device has been given up.
    pub fn new(device: Arc<Device>, count: usize) -> Result<Queues, DeviceError> {
        device.trouble().map_or(Ok(()), |why| Err(why.clone()))?;
        let queues = (0..count.max(1)).map(|_| Queue::new(device.clone())).collect::<Result<_, _>>()?;
        let processor = Scratch::default();
        let (last_invalid, matrices) = (HashMap::new(), Vec::new());
        Ok(Queues { device, queues, most: MOST_FRAMES, processor, last_invalid, matrices, disputed: 0 })
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Bytes sent to the device for frames, so far.
    pub fn sent_bytes(&self) -> u64 {
        self.queues.iter().map(|queue| queue.sent).sum()
    }

    /// How many frames the device has refused that the processor did decode, so far: none, or it can't be trusted.
    pub fn disputed(&self) -> u64 {
        self.disputed
    }

    /// Frames that a launch takes, as far as memory allows.
    pub fn frames_a_launch(&self) -> usize {
        self.most
    }

    /// As [`Queues::integrate_by_all`] by one plan.
    ///
    /// # Errors
    /// As there.
    pub fn integrate(
        &mut self,
        pipeline: &Pipeline,
        plan: &Plan,
        invalid: &Invalid,
        frames: &[Stored<'_>],
    ) -> Result<Vec<Result<Sums, DecodeError>>, DeviceError> {
        let rows = self.integrate_by_all(pipeline, &[Target { plan, invalid, by_bin: None }], frames)?;
        Ok(rows.into_iter().map(|row| row.map(|mut sums| sums.remove(0))).collect())
    }

    /// Decodes frames of the pipeline's type and integrates them by several plans for frames of one size, each with its rule
    /// for invalid pixels and its method; a frame is sent once for all of them. Sums agree with those of [`crate::accumulate`]
    /// but for the rounding of sums, and norms of invalid pixels to the bit; those by methods that look at all pixels of a bin
    /// are the bytes of [`crate::ByBin`]. They are the same each time on one device, however many frames and plans come
    /// together. A frame that does not decode is an error of its own, as [`integrate_all`] words it.
    ///
    /// # Errors
    /// The device fails, which leaves nothing done, and gives it up unless it lacks just memory or the ability.
    pub fn integrate_by_all(
        &mut self,
        pipeline: &Pipeline,
        targets: &[Target<'_>],
        frames: &[Stored<'_>],
    ) -> Result<Vec<Row>, DeviceError> {
        self.device.trouble().map_or(Ok(()), |why| Err(why.clone()))?;
        // The crate `ocl` panics at error codes that it does not know.
        let rows = catch_unwind(AssertUnwindSafe(|| self.try_integrate(pipeline, targets, frames)));
        let rows =
            rows.unwrap_or_else(|_| Err(DeviceError::Failed("the driver's answer is not understood".to_owned())));
        if let Err(why @ DeviceError::Failed(_)) = &rows {
            self.device.give_up(why.clone());
        }
        rows
    }

    fn try_integrate(
        &mut self,
        pipeline: &Pipeline,
        targets: &[Target<'_>],
        frames: &[Stored<'_>],
    ) -> Result<Vec<Row>, DeviceError> {
        let Some(Target { plan, .. }) = targets.first() else {
            return Ok(frames.iter().map(|_| Ok(Vec::new())).collect());
        };
        let mut results: Vec<Option<Row>> = frames.iter().map(|_| None).collect();
        for Group { block_bytes, frames: mut todo } in by_block(pipeline, plan, frames) {
            let aims = targets.iter().map(|target| self.aim(pipeline, block_bytes, target));
            let job = Job { pipeline, aims: aims.collect::<Result<_, _>>()? };
            self.matrices = job.aims.iter().map(|aim| aim.matrix.clone()).collect();
            while !todo.is_empty() {
                let Launched { outputs, left } = self.launch(&job, frames, todo)?;
                todo = left;
                for (index, output) in outputs {
                    results[index] = Some(match output {
                        Output::Sums(all) => {
                            Ok(job.aims.iter().zip(all).map(|(aim, sums)| self.complete(aim, sums)).collect())
                        }
                        Output::Undecoded(why) => Err(why),
                        Output::Damaged => {
                            let alone = &frames[index..=index];
                            let found = integrate_all(pipeline, targets, alone, &mut self.processor).remove(0);
                            self.disputed += u64::from(found.is_ok());
                            found
                        }
                    });
                }
            }
        }
        Ok(results.into_iter().map(|result| result.expect("each frame is in one group")).collect())
    }

    /// A plan as the device takes it, for frames in blocks of so many bytes.
    fn aim<'a>(
        &self,
        pipeline: &Pipeline,
        block_bytes: usize,
        &Target { plan, invalid, by_bin }: &Target<'a>,
    ) -> Result<Aim<'a>, DeviceError> {
        if by_bin.is_some_and(|by_bin| !by_bin.is_sums()) {
            return Err(DeviceError::Unsupported("medians and quantiles".to_owned()));
        }
        let method = by_bin.map_or(Method::Sums { variance: plan.counts_variance() }, |_| Method::ByBin);
        let variant = self.device.variant(pipeline.dtype(), block_bytes, method);
        let matrix = self.device.matrix(plan, by_bin, variant.elements())?;
        let ranges = with_pixel!(pipeline.dtype(), ranges(invalid));
        let range_count = (ranges.len() / (2 * pipeline.dtype().size())) as u32;
        Ok(Aim { plan, by_bin, variant, matrix, ranges: self.device.ranges(ranges)?, range_count })
    }

    /// Launches frames, as many at a time as memory allows, on all queues in turn.
    fn launch<'a>(
        &mut self,
        job: &Job<'_>,
        frames: &'a [Stored<'a>],
        todo: Vec<Framed>,
    ) -> Result<Launched, DeviceError> {
        let size = todo.len().div_ceil(self.queues.len()).clamp(1, self.most);
        let mut outputs = Vec::new();
        let mut short = None;
        for (turn, launch) in todo.chunks(size).enumerate() {
            let number = turn % self.queues.len();
            let input = |Framed { index, places }: &Framed| Input {
                index: *index,
                stored: frames[*index],
                places: places.clone(),
            };
            let queue = &mut self.queues[number];
            let done = queue.collect().and_then(|done| {
                outputs.extend(done);
                queue.submit(job, launch.iter().map(input).collect())
            });
            if let Err(why) = done {
                short = Some(why);
                break;
            }
        }
        for queue in &mut self.queues {
            match queue.collect() {
                Ok(done) => outputs.extend(done),
                Err(why) => short = short.or(Some(why)),
            }
        }
        match short {
            None => return Ok(Launched { outputs, left: Vec::new() }),
            Some(DeviceError::Memory(_)) if size > 1 => {
                self.most = size / 2;
                self.queues.iter_mut().for_each(Queue::release);
            }
            Some(why) => return Err(why),
        }
        let is_done = |index: usize| outputs.iter().any(|(done, _)| *done == index);
        let left = todo.into_iter().filter(|frame| !is_done(frame.index)).collect();
        Ok(Launched { outputs, left })
    }

    /// A frame's sums, from what the device found.
    fn complete(&mut self, aim: &Aim<'_>, found: Found) -> Sums {
        let plan = aim.plan;
        let Photons { signal, excess, invalid } = match (found, aim.by_bin) {
            (Found::Photons(photons), _) => photons,
            (Found::Chosen(numbers), Some(by_bin)) => return by_bin.sums(plan, &numbers),
            (Found::Chosen(_), None) => unreachable!("pixels are chosen by methods that look at all of a bin"),
        };
        let Some(bitmap) = invalid else { return Sums::complete(plan, signal, excess, None) };
        let last = self.last_invalid.remove(&plan.id()).filter(|last| last.bitmap == bitmap);
        let last = last.unwrap_or_else(|| {
            let pixels = pixels(&bitmap, aim.variant.elements(), aim.matrix.whole);
            LastInvalid { totals: backend::totals_without(plan, &pixels), bitmap }
        });
        let sums = Sums::complete(plan, signal, excess, Some(&last.totals));
        self.last_invalid.insert(plan.id(), last);
        sums
    }
}

/// The frames by the blocks that they are in. It does not depend on the other frames in which group a frame is.
fn by_block(pipeline: &Pipeline, plan: &Plan, frames: &[Stored<'_>]) -> Vec<Group> {
    let size = pipeline.dtype().size();
    let decoded = default_block(size) * size;
    let mut groups: Vec<Group> = Vec::new();
    for (index, stored) in frames.iter().enumerate() {
        let places = places(pipeline, stored, plan.pixels() * size);
        let block_bytes = places.as_ref().map_or(decoded, |places| places.block_bytes);
        let frame = Framed { index, places };
        match groups.iter_mut().find(|group| group.block_bytes == block_bytes) {
            Some(group) => group.frames.push(frame),
            None => groups.push(Group { block_bytes, frames: vec![frame] }),
        }
    }
    groups
}

/// Where a frame's blocks are, if the device can decode them. A stream whose framing is damaged it can't.
fn places(pipeline: &Pipeline, stored: &Stored<'_>, frame_bytes: usize) -> Option<Places> {
    let bitshuffle = pipeline.bitshuffle_alone(stored.filter_mask).filter(|b| b.codec == Codec::Lz4)?;
    let places = Places::of(bitshuffle, stored.bytes, frame_bytes).ok()?;
    let elements = places.block_bytes / pipeline.dtype().size();
    (elements >= FEWEST_ELEMENTS && places.block_bytes <= LONGEST_BLOCK).then_some(places)
}

/// The invalid ranges as the kernels take them.
fn ranges<T: Pixel>(invalid: &Invalid) -> Vec<u8> {
    let bytes = |pixel: T| pixel.bits().into().to_le_bytes()[..T::SIZE].to_vec();
    invalid.of::<T>().ranges().iter().flat_map(|&(low, high)| [bytes(low), bytes(high)].concat()).collect()
}

/// The invalid pixels, rising, of a bitmap by tile: for each its eights of pixels, then those behind the last block.
fn pixels(bitmap: &[u8], elements: usize, whole: u32) -> Vec<u32> {
    let columns = elements / 8;
    let mut pixels = Vec::new();
    for (tile, of_tile) in bitmap.chunks_exact(columns + 1).enumerate() {
        for (column, &byte) in of_tile.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            let first = if column == columns { whole } else { (tile * elements + 8 * column) as u32 };
            pixels.extend(bits_of(byte.into()).map(|bit| first + bit as u32));
        }
    }
    pixels
}
