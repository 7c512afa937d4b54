//! One queue of a device: frames in, sums out, one launch at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ocl::core::{self, CommandQueue, CommandQueueProperties, Event};

use super::buffer::{DeviceBuffer, NO_EVENT, NO_WAIT};
use super::device::{Device, DeviceMatrix};
use super::error::DeviceError;
use super::launch::{BufferSizes, KernelPair, LaunchBuffers, SUM_BYTES, status_bytes, write_input};
use super::program::{KernelKind, KernelVariant};
use crate::codec::DecodeError;
use crate::codec::bitshuffle::BlockOffsets;
use crate::plan::IntegrationPlan;
use crate::{CsrMatrix, Pipeline, StoredFrame};

/// What all launches of a call have in common.
pub(super) struct LaunchJob<'a> {
    pub(super) pipeline: &'a Pipeline,
    /// At least one, for frames of one size in blocks of one size.
    pub(super) plans: Vec<DevicePlan<'a>>,
}

/// A plan, as a device takes it.
pub(super) struct DevicePlan<'a> {
    pub(super) plan: &'a IntegrationPlan,
    /// Set for methods that look at all pixels of a bin.
    pub(super) by_bin: Option<&'a CsrMatrix>,
    pub(super) variant: KernelVariant,
    pub(super) matrix: Arc<DeviceMatrix>,
    /// Invalid values, as pairs of pixels, lowest and highest.
    pub(super) ranges: Arc<DeviceBuffer>,
    pub(super) range_count: u32,
}

impl LaunchJob<'_> {
    /// Bytes of a frame's pixels.
    pub(super) fn frame_bytes(&self) -> usize {
        self.plans[0].plan.pixels() * self.plans[0].variant.dtype.size()
    }

    /// Tiles of a frame.
    pub(super) fn tile_count(&self) -> usize {
        self.plans[0].matrix.tiles as usize
    }

    /// Bytes of one frame's bitmap of invalid pixels.
    pub(super) fn invalid_bytes(&self) -> usize {
        self.tile_count() * (self.plans[0].variant.elements() / 8 + 1)
    }
}

/// A frame to be integrated.
pub(super) struct LaunchFrame<'a> {
    /// Its number in the call.
    pub(super) index: usize,
    pub(super) stored: StoredFrame<'a>,
    /// Where its blocks are, if the device decodes them.
    pub(super) block_offsets: Option<BlockOffsets>,
}

/// What came of a frame.
pub(super) enum FrameOutcome {
    /// Sums by each plan.
    Sums(Vec<FrameSums>),
    /// The processor could not decode it.
    DecodeFailed(DecodeError),
    /// The device could not.
    DamagedOnDevice,
}

/// A frame's sums by a plan.
pub(super) enum FrameSums {
    /// Over its photons.
    Photons(DevicePhotonSums),
    /// As [`ByBin::sums`] takes them.
    Selected(Vec<f64>),
}

/// Sums over a frame's photons.
pub(super) struct DevicePhotonSums {
    pub(super) signal: Vec<f64>,
    pub(super) poisson_excess: Vec<f64>,
    /// Which pixels are invalid, if any: a bit each, by tile, as in [`super::slot_layout::SlotLayout::used`].
    pub(super) invalid: Option<Vec<u8>>,
}

/// A queue, and the memory that its launches use.
pub(super) struct DeviceQueue {
    device: Arc<Device>,
    queue: CommandQueue,
    kernels: Vec<KernelPair>,
    memory: Option<LaunchBuffers>,
    running: Option<RunningLaunch>,
    /// Bytes sent to the device.
    pub(super) sent_bytes: u64,
}

/// A launch that has not been collected.
struct RunningLaunch {
    frames: Vec<usize>,
    outputs: Vec<(usize, FrameOutcome)>,
    /// Bins and variant of each plan.
    plans: Vec<(usize, KernelVariant)>,
    invalid_bytes: usize,
    written: Event,
    /// Of each plan, what integrates, reduces, and is read last.
    steps: Vec<[Event; 3]>,
}

impl DeviceQueue {
    pub(super) fn new(device: Arc<Device>) -> Result<DeviceQueue, DeviceError> {
        let profiled = device.settings.profile.then_some(CommandQueueProperties::PROFILING_ENABLE);
        let queue = core::create_command_queue(&device.context, device.id, profiled)?;
        Ok(DeviceQueue { device, queue, kernels: Vec::new(), memory: None, running: None, sent_bytes: 0 })
    }

    /// Copies frames to the device and starts to integrate them; does not wait.
    pub(super) fn submit(&mut self, job: &LaunchJob<'_>, frames: Vec<LaunchFrame<'_>>) -> Result<(), DeviceError> {
        let submitted = self.try_submit(job, frames);
        if submitted.is_err() {
            self.wait_for_queued();
        }
        submitted
    }

    /// Waits for what has been queued: it must not use memory that is about to be used for something else. `clFinish` would wait
    /// for ever for a device that hangs.
    fn wait_for_queued(&mut self) {
        let mut end = Event::null();
        let marked = core::enqueue_marker_with_wait_list(&self.queue, NO_WAIT, Some(&mut end), None);
        match marked.and_then(|()| core::flush(&self.queue)) {
            // Commands that failed have ended, too.
            Ok(()) => drop(self.wait(&end)),
            // Nobody knows what still goes on.
            Err(_) => std::mem::forget(self.memory.take()),
        }
    }

    /// Gives back the memory that launches use: some drivers find out that there is too little of it only when it is used.
    pub(super) fn free_buffers(&mut self) {
        self.memory = None;
    }

    fn try_submit(&mut self, job: &LaunchJob<'_>, frames: Vec<LaunchFrame<'_>>) -> Result<(), DeviceError> {
        self.prepare(job, &frames)?;
        let Some(memory) = &mut self.memory else { unreachable!("prepared") };
        let mut outputs = Vec::new();
        let before = status_bytes(memory.sizes.frames);
        let (indices, sent) = write_input(job, frames, &mut memory.upload.as_mut_slice()[before..], &mut outputs);
        let count = indices.len();
        let mut written = Event::null();
        let mut steps: Vec<[Event; 3]> = job.plans.iter().map(|_| std::array::from_fn(|_| Event::null())).collect();
        if count > 0 {
            let queue = &self.queue;
            // The status comes first: neither invalid pixels nor damage are known.
            let status = status_bytes(count);
            memory.upload.as_mut_slice()[..status / 2].fill(0);
            memory.upload.as_mut_slice()[status / 2..status].fill(0xff);
            let input = &memory.upload.as_mut_slice()[before..before + sent];
            // SAFETY: the memory is pinned, and not touched until `collect` has waited for the last command.
            unsafe {
                core::enqueue_write_buffer(queue, &memory.input.mem, false, 0, input, NO_WAIT, Some(&mut written))?;
            }
            self.sent_bytes += (sent + job.plans.len() * status) as u64;
            for (number, (aim, [integrated, reduced, read])) in job.plans.iter().zip(&mut steps).enumerate() {
                let kernels = self.kernels.iter().find(|kernels| kernels.variant == aim.variant).expect("prepared");
                let results = &memory.results[number];
                let before = &memory.upload.as_mut_slice()[..status];
                // SAFETY: as above.
                unsafe {
                    core::enqueue_write_buffer(queue, &results.status.mem, false, 0, before, NO_WAIT, NO_EVENT)?;
                }
                kernels.enqueue(queue, aim, count as u32, memory, number, [integrated, reduced])?;
                let (sums, after) = memory.download.as_mut_slice()[number * memory.sizes.readback_bytes()..]
                    .split_at_mut(memory.sizes.sums);
                let sums = &mut sums[..count * aim.variant.sums_per_bin() * aim.plan.nbins() * SUM_BYTES];
                let after = &mut after[..status];
                // SAFETY: as above.
                unsafe {
                    core::enqueue_read_buffer(queue, &results.sums.mem, false, 0, sums, NO_WAIT, NO_EVENT)?;
                    core::enqueue_read_buffer(queue, &results.status.mem, false, 0, after, NO_WAIT, Some(read))?;
                }
            }
            core::flush(queue)?;
        }
        let plans = job.plans.iter().map(|aim| (aim.plan.nbins(), aim.variant)).collect();
        let invalid_bytes = job.invalid_bytes();
        self.running = Some(RunningLaunch { frames: indices, outputs, plans, invalid_bytes, written, steps });
        Ok(())
    }

    /// Waits for what was submitted, if anything, and returns what came of each frame.
    pub(super) fn wait_and_read(&mut self) -> Result<Vec<(usize, FrameOutcome)>, DeviceError> {
        let Some(running) = self.running.take() else { return Ok(Vec::new()) };
        let RunningLaunch { frames, mut outputs, plans, invalid_bytes, written, steps } = running;
        let count = frames.len();
        if count == 0 {
            return Ok(outputs);
        }
        // The last first: those before it have ended then, or failed.
        steps.iter().flatten().rev().try_for_each(|event| self.wait(event))?;
        self.device.record_times(&written, &steps);
        let Some(memory) = &mut self.memory else { unreachable!("there was a launch") };
        let (region, before_status) = (memory.sizes.readback_bytes(), memory.sizes.sums);
        // By frame, the photons of each plan, until one says that it is damaged.
        let mut found: Vec<Option<Vec<FrameSums>>> = frames.iter().map(|_| Some(Vec::new())).collect();
        for (results, &(nbins, variant)) in memory.download.as_mut_slice().chunks_exact(region).zip(&plans) {
            let (sums, status) = results.split_at(before_status);
            let word = |at: usize| status[4 * at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            let numbers =
                |bytes: &[u8]| bytes.as_chunks().0.iter().map(|real| variant.decode_sum(*real)).collect::<Vec<f64>>();
            let row = nbins * SUM_BYTES;
            for (at, (all, of_frame)) in
                found.iter_mut().zip(sums.chunks_exact(variant.sums_per_bin() * row)).enumerate()
            {
                let (signal, excess) = of_frame.split_at(row);
                let sums = match variant.method {
                    KernelKind::Csr => FrameSums::Selected(numbers(of_frame)),
                    KernelKind::Sums { .. } => FrameSums::Photons(DevicePhotonSums {
                        signal: numbers(signal),
                        poisson_excess: numbers(excess),
                        // To be read.
                        invalid: (word(at) > 0).then(Vec::new),
                    }),
                };
                *all = all.take().filter(|_| word(count + at) == u32::MAX).map(|mut all| {
                    all.push(sums);
                    all
                });
            }
        }
        for (at, (index, mut all)) in frames.into_iter().zip(found).enumerate() {
            for (plan, sums) in all.iter_mut().flatten().enumerate() {
                if let FrameSums::Photons(DevicePhotonSums { invalid: Some(invalid), .. }) = sums {
                    *invalid = self.read_invalid(plan, at * invalid_bytes, invalid_bytes)?;
                }
            }
            outputs.push((index, all.map_or(FrameOutcome::DamagedOnDevice, FrameOutcome::Sums)));
        }
        Ok(outputs)
    }

    /// A frame's bitmap of invalid pixels by a plan of the launch.
    fn read_invalid(&mut self, plan: usize, offset: usize, len: usize) -> Result<Vec<u8>, DeviceError> {
        let Some(memory) = &mut self.memory else { unreachable!("there was a launch") };
        let mut read = Event::null();
        let (invalid, bitmap) = (&memory.results[plan].invalid.mem, &mut memory.download.as_mut_slice()[..len]);
        // SAFETY: the memory is pinned, and not touched until the command has ended.
        unsafe { core::enqueue_read_buffer(&self.queue, invalid, false, offset, bitmap, NO_WAIT, Some(&mut read)) }?;
        core::flush(&self.queue)?;
        self.wait(&read)?;
        Ok(self.memory.as_mut().map_or_else(Vec::new, |memory| memory.download.as_mut_slice()[..len].to_vec()))
    }

    /// Waits for a command, and so for all before it. To ask now and then costs less than drivers that wait by asking all
    /// the time, and a device that hangs is noticed.
    fn wait(&mut self, event: &Event) -> Result<(), DeviceError> {
        let began = Instant::now();
        let mut pause = Duration::from_micros(5);
        loop {
            match event_status(event)? {
                code @ ..0 => return Err(DeviceError::from_status(code)),
                0 => return Ok(()),
                _ if began.elapsed() > self.device.settings.timeout => {
                    let seconds = began.elapsed().as_secs();
                    let why = DeviceError::Failed(format!("no answer for {seconds} s"));
                    self.device.disable(why.clone());
                    // The device may still write to it.
                    std::mem::forget(self.memory.take());
                    return Err(why);
                }
                _ => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_micros(200));
        }
    }
}

impl DeviceQueue {
    /// Kernels for the job's variants, and memory for these frames.
    fn prepare(&mut self, job: &LaunchJob<'_>, frames: &[LaunchFrame<'_>]) -> Result<(), DeviceError> {
        for aim in &job.plans {
            if self.kernels.iter().all(|kernels| kernels.variant != aim.variant) {
                self.kernels.push(KernelPair::new(&self.device, aim.variant)?);
            }
        }
        let needs = BufferSizes::new(job, frames);
        // Places in the input are numbers of 32 bits.
        if needs.input > u32::MAX as usize || needs.device_bytes() > self.device.settings.queue_memory {
            return Err(DeviceError::OutOfMemory(format!("{} bytes", needs.device_bytes())));
        }
        if self.memory.as_ref().is_none_or(|memory| !memory.sizes.fits(&needs)) {
            // What there is goes first: there may not be room for both.
            let before = self.memory.take().map_or(BufferSizes::default(), |memory| memory.sizes);
            self.memory = Some(LaunchBuffers::new(&self.device, &self.queue, needs.grown_to(&before))?);
        }
        Ok(())
    }
}

impl Drop for DeviceQueue {
    fn drop(&mut self) {
        if self.running.is_some() && self.device.failure().is_none() {
            let _ = self.wait_and_read();
        }
        if self.device.failure().is_some() {
            // To release the objects of a device that fails may fail, too, or never end.
            std::mem::forget((std::mem::take(&mut self.kernels), self.memory.take(), self.running.take()));
        }
    }
}

/// How far a command is: 0 is done, below 0 is an error.
fn event_status(event: &Event) -> Result<i32, DeviceError> {
    let mut status = 0i32;
    // SAFETY: an event that a command has set, and a place for this information, a `cl_int`.
    let code = unsafe {
        ocl::ffi::clGetEventInfo(
            *event.as_ptr_ref(),
            ocl::ffi::CL_EVENT_COMMAND_EXECUTION_STATUS,
            size_of::<i32>(),
            (&raw mut status).cast(),
            std::ptr::null_mut(),
        )
    };
    if code == 0 { Ok(status) } else { Err(DeviceError::Failed(format!("clGetEventInfo: {code}"))) }
}
