//! One command queue of a device: submits a launch, waits for it, and reads its results back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ocl::core::{self, CommandQueue, CommandQueueProperties, Event};

use super::buffer::{NO_EVENT, NO_WAIT};
use super::device::Device;
use super::error::DeviceError;
use super::job::{DevicePhotonSums, FrameOutcome, FrameSums, LaunchFrame, LaunchJob};
use super::launch::KernelPair;
use super::launch_buffers::{
    BufferSizes, LaunchBuffers, PlanLaunch, SUM_BYTES, status_bytes, write_input,
};
use super::program::{KernelKind, KernelVariant};
use crate::photon_sums::PhotonSums;

/// A command queue, and the buffers that its launches use.
pub(super) struct DeviceQueue {
    device: Arc<Device>,
    queue: CommandQueue,
    kernels: Vec<KernelPair>,
    memory: Option<LaunchBuffers>,
    running: Option<RunningLaunch>,
    /// Bytes sent to the device so far.
    pub(super) sent_bytes: u64,
}

/// A launch whose results have not been read yet.
struct RunningLaunch {
    /// Indices of the frames on the device.
    frames: Vec<usize>,
    /// Outcomes that are known already.
    outputs: Vec<(usize, FrameOutcome)>,
    /// Number of bins and kernel variant of each plan.
    plans: Vec<(usize, KernelVariant)>,
    invalid_bytes: usize,
    /// The end of the copy of the input.
    input_written: Event,
    /// For each plan, the ends of its first kernel, its second kernel, and the read of its results.
    plan_events: Vec<[Event; 3]>,
}

impl DeviceQueue {
    /// Creates a command queue. Buffers are allocated for the first launch.
    pub(super) fn new(device: Arc<Device>) -> Result<DeviceQueue, DeviceError> {
        let profiled = device.settings.profile.then_some(CommandQueueProperties::PROFILING_ENABLE);
        let queue = core::create_command_queue(&device.context, device.id, profiled)?;
        Ok(DeviceQueue {
            device,
            queue,
            kernels: Vec::new(),
            memory: None,
            running: None,
            sent_bytes: 0,
        })
    }

    /// Enqueues the integration of some frames without waiting for it. The results of the launch
    /// before must have been read.
    pub(super) fn submit(
        &mut self,
        job: &LaunchJob<'_>,
        frames: Vec<LaunchFrame<'_>>,
    ) -> Result<(), DeviceError> {
        let submitted = self.try_submit(job, frames);
        if submitted.is_err() {
            self.wait_for_queued();
        }
        submitted
    }

    /// Waits for all enqueued commands, so that none of them uses memory that is about to be
    /// reused.
    ///
    /// It waits for a marker with a timeout: `clFinish` would never return for a device that hangs.
    fn wait_for_queued(&mut self) {
        let mut end = Event::null();
        let marked =
            core::enqueue_marker_with_wait_list(&self.queue, NO_WAIT, Some(&mut end), None);
        match marked.and_then(|()| core::flush(&self.queue)) {
            // If the marker failed, the commands before it have ended, too.
            Ok(()) => drop(self.wait(&end)),
            // Commands may still be running, so their memory is leaked.
            Err(_) => std::mem::forget(self.memory.take()),
        }
    }

    /// Frees the buffers. Some drivers report that memory is short only when it is used; the next
    /// launch then needs less.
    pub(super) fn free_buffers(&mut self) {
        self.memory = None;
    }

    /// Enqueues a launch. If it fails, some of its commands may have been enqueued.
    fn try_submit(
        &mut self,
        job: &LaunchJob<'_>,
        frames: Vec<LaunchFrame<'_>>,
    ) -> Result<(), DeviceError> {
        self.prepare(job, &frames)?;
        let Some(memory) = &mut self.memory else { unreachable!("prepared") };
        let mut outputs = Vec::new();
        let status_capacity = status_bytes(memory.sizes.frames);
        let (indices, sent) = write_input(
            job,
            frames,
            &mut memory.upload.as_mut_slice()[status_capacity..],
            &mut outputs,
        );
        let count = indices.len();
        let mut input_written = Event::null();
        let mut plan_events: Vec<[Event; 3]> =
            job.plans.iter().map(|_| std::array::from_fn(|_| Event::null())).collect();
        if count > 0 {
            let queue = &self.queue;
            // The initial status: no invalid pixels, no damaged tile.
            let status_len = status_bytes(count);
            memory.upload.as_mut_slice()[..status_len / 2].fill(0);
            memory.upload.as_mut_slice()[status_len / 2..status_len].fill(0xff);
            let input = &memory.upload.as_mut_slice()[status_capacity..status_capacity + sent];
            // SAFETY: The write does not block, so the device reads `input` after this call, when
            // the borrow has ended. `input` is in the pinned buffer, which stays at its address. It
            // is neither written nor freed before the command has ended: `wait_and_read`, which
            // must come before the next `submit`, waits for the last event of the launch, and after
            // an error `submit` waits for all commands. If the device doesn't answer, the buffers
            // are leaked. The device buffer has at least `sent` bytes (`BufferSizes`). Reusing
            // `upload` before `wait_and_read` would break this.
            unsafe {
                let end = Some(&mut input_written);
                core::enqueue_write_buffer(
                    queue,
                    &memory.input.mem,
                    false,
                    0,
                    input,
                    NO_WAIT,
                    end,
                )?;
            }
            self.sent_bytes += (sent + job.plans.len() * status_len) as u64;
            for (plan_index, (device_plan, [integrated, reduced, read])) in
                job.plans.iter().zip(&mut plan_events).enumerate()
            {
                let kernels =
                    self.kernels.iter().find(|kernels| kernels.variant == device_plan.variant);
                let kernels = kernels.expect("`prepare` has made the kernels of all plans");
                let results = &memory.results[plan_index];
                let initial_status = &memory.upload.as_mut_slice()[..status_len];
                // SAFETY: The write does not block. The initial status is in the pinned buffer,
                // which is neither written nor freed before the command has ended, for the same
                // reasons as the input above. All plans read the same bytes, and nothing writes
                // them. The device buffer has `status_bytes(sizes.frames)` bytes, and `prepare` has
                // made sure that `count` is not above `sizes.frames`.
                unsafe {
                    let status = &results.status.mem;
                    core::enqueue_write_buffer(
                        queue,
                        status,
                        false,
                        0,
                        initial_status,
                        NO_WAIT,
                        NO_EVENT,
                    )?;
                }
                let launch = PlanLaunch { queue, device_plan, frames: count, memory, results };
                kernels.enqueue(&launch, [integrated, reduced])?;
                let (sums, status) = memory.download.as_mut_slice()
                    [plan_index * memory.sizes.readback_bytes()..]
                    .split_at_mut(memory.sizes.sums);
                let sum_count = device_plan.variant.sums_per_bin() * device_plan.plan.nbins();
                let sums = &mut sums[..count * sum_count * SUM_BYTES];
                let status = &mut status[..status_len];
                // SAFETY: The reads do not block, so the device writes `sums` and `status` after
                // these calls, when the borrows have ended. Both are in the pinned buffer, in a
                // region that belongs to this plan alone, and are not accessed or freed before the
                // read's event has ended: `wait_and_read` waits for the events of all plans first,
                // and after an error `submit` waits for all commands or the buffers are leaked. The
                // device buffers are at least as long (`BufferSizes`). Overlapping regions of two
                // plans would break this.
                unsafe {
                    core::enqueue_read_buffer(
                        queue,
                        &results.sums.mem,
                        false,
                        0,
                        sums,
                        NO_WAIT,
                        NO_EVENT,
                    )?;
                    core::enqueue_read_buffer(
                        queue,
                        &results.status.mem,
                        false,
                        0,
                        status,
                        NO_WAIT,
                        Some(read),
                    )?;
                }
            }
            core::flush(queue)?;
        }
        let plans = job
            .plans
            .iter()
            .map(|device_plan| (device_plan.plan.nbins(), device_plan.variant))
            .collect();
        let invalid_bytes = job.invalid_bytes();
        self.running = Some(RunningLaunch {
            frames: indices,
            outputs,
            plans,
            invalid_bytes,
            input_written,
            plan_events,
        });
        Ok(())
    }

    /// Waits for the submitted launch and returns the outcome of each of its frames; nothing if
    /// there is no launch.
    pub(super) fn wait_and_read(&mut self) -> Result<Vec<(usize, FrameOutcome)>, DeviceError> {
        let Some(running) = self.running.take() else { return Ok(Vec::new()) };
        let RunningLaunch { frames, mut outputs, plans, invalid_bytes, input_written, plan_events } =
            running;
        let count = frames.len();
        if count == 0 {
            return Ok(outputs);
        }
        // The last event first: once it has ended, all others have ended or failed.
        plan_events.iter().flatten().rev().try_for_each(|event| self.wait(event))?;
        self.device.record_times(&input_written, &plan_events);
        let Some(memory) = &mut self.memory else { unreachable!("there was a launch") };
        let (region_bytes, sums_capacity) = (memory.sizes.readback_bytes(), memory.sizes.sums);
        // The sums of each frame, one element per plan; `None` if the frame is damaged.
        let mut frame_sums: Vec<Option<Vec<FrameSums>>> =
            frames.iter().map(|_| Some(Vec::new())).collect();
        for (results, &(nbins, variant)) in
            memory.download.as_mut_slice().chunks_exact(region_bytes).zip(&plans)
        {
            let (sums, status) = results.split_at(sums_capacity);
            let status = |word: usize| {
                status[4 * word..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
            };
            let decode_sums = |bytes: &[u8]| {
                bytes.as_chunks().0.iter().map(|sum| variant.decode_sum(*sum)).collect::<Vec<f64>>()
            };
            let row_bytes = nbins * SUM_BYTES;
            let frame_results = sums.chunks_exact(variant.sums_per_bin() * row_bytes);
            for (number, (sums_of_plans, result)) in
                frame_sums.iter_mut().zip(frame_results).enumerate()
            {
                let sums = match variant.kind {
                    KernelKind::Csr => FrameSums::Selected(decode_sums(result)),
                    KernelKind::Sums(quantities) => FrameSums::Photons(DevicePhotonSums {
                        sums: PhotonSums::new(quantities, {
                            let mut lists = result.chunks_exact(row_bytes).map(decode_sums);
                            // Quantities that are not summed have empty lists.
                            std::array::from_fn(|_| lists.next().unwrap_or_default())
                        }),
                        // The bitmap is read below.
                        invalid: (status(number) > 0).then(Vec::new),
                    }),
                };
                let is_damaged = status(count + number) != u32::MAX;
                if is_damaged {
                    *sums_of_plans = None;
                } else if let Some(sums_of_plans) = sums_of_plans {
                    sums_of_plans.push(sums);
                }
            }
        }
        for (number, (index, mut sums_of_plans)) in frames.into_iter().zip(frame_sums).enumerate() {
            for (plan_index, sums) in sums_of_plans.iter_mut().flatten().enumerate() {
                if let FrameSums::Photons(DevicePhotonSums { invalid: Some(invalid), .. }) = sums {
                    *invalid =
                        self.read_invalid(plan_index, number * invalid_bytes, invalid_bytes)?;
                }
            }
            outputs.push((
                index,
                sums_of_plans.map_or(FrameOutcome::DamagedOnDevice, FrameOutcome::Sums),
            ));
        }
        Ok(outputs)
    }

    /// Reads one frame's bitmap of invalid pixels, and waits for it.
    fn read_invalid(
        &mut self,
        plan_index: usize,
        offset: usize,
        len: usize,
    ) -> Result<Vec<u8>, DeviceError> {
        let Some(memory) = &mut self.memory else { unreachable!("there was a launch") };
        let mut read = Event::null();
        let (invalid, bitmap) =
            (&memory.results[plan_index].invalid.mem, &mut memory.download.as_mut_slice()[..len]);
        // SAFETY: The read does not block, so the device writes `bitmap` after this call, when the
        // borrow has ended. `bitmap` is in the pinned buffer, which is not accessed before `wait`
        // below has seen the end of the command. If the command doesn't end, `wait` leaks the
        // buffers and returns an error. The launch's own results have been copied out of `download`
        // before. `download` has at least `sizes.invalid` bytes, and the device buffer that number
        // for each frame (`LaunchBuffers::new`).
        unsafe {
            core::enqueue_read_buffer(
                &self.queue,
                invalid,
                false,
                offset,
                bitmap,
                NO_WAIT,
                Some(&mut read),
            )
        }?;
        core::flush(&self.queue)?;
        self.wait(&read)?;
        Ok(self
            .memory
            .as_mut()
            .map_or_else(Vec::new, |memory| memory.download.as_mut_slice()[..len].to_vec()))
    }

    /// Waits for a command, and so for all commands before it. A device that exceeds the timeout is
    /// disabled.
    ///
    /// It polls with pauses, because some drivers wait in a busy loop and none has a timeout.
    fn wait(&mut self, event: &Event) -> Result<(), DeviceError> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(5);
        loop {
            match event_status(event)? {
                code @ ..0 => return Err(DeviceError::from_status(code)),
                0 => return Ok(()),
                _ if start.elapsed() > self.device.settings.timeout => {
                    let seconds = start.elapsed().as_secs();
                    let why =
                        DeviceError::Failed(format!("the device did not answer for {seconds} s"));
                    self.device.disable(why.clone());
                    // The device may still write to the buffers, so they are leaked.
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
    /// Compiles the kernels of the job's plans and allocates buffers for the frames, as far as that
    /// is not done.
    fn prepare(
        &mut self,
        job: &LaunchJob<'_>,
        frames: &[LaunchFrame<'_>],
    ) -> Result<(), DeviceError> {
        for device_plan in &job.plans {
            if self.kernels.iter().all(|kernels| kernels.variant != device_plan.variant) {
                self.kernels.push(KernelPair::new(&self.device, device_plan.variant)?);
            }
        }
        let sizes = BufferSizes::new(job, frames);
        let (bytes, limit) = (sizes.device_bytes(), self.device.settings.queue_memory);
        if bytes > limit {
            let why = format!(
                "{bytes} bytes for a launch of {} frames, but a queue may use {limit}",
                frames.len()
            );
            return Err(DeviceError::OutOfMemory(why));
        }
        // Offsets in the input have 32 bits.
        if u32::try_from(sizes.input).is_err() {
            let why = format!(
                "{} bytes of input for {} frames: expected less than 4 GiB",
                sizes.input,
                frames.len()
            );
            return Err(DeviceError::OutOfMemory(why));
        }
        if self.memory.as_ref().is_none_or(|memory| !memory.sizes.fits(&sizes)) {
            // The old buffers are freed first: there may not be enough memory for both.
            let old_sizes =
                self.memory.take().map_or(BufferSizes::default(), |memory| memory.sizes);
            self.memory =
                Some(LaunchBuffers::new(&self.device, &self.queue, sizes.grown_to(&old_sizes))?);
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
            // Releasing the objects of a failed device may fail, too, or never return, so they are
            // leaked.
            std::mem::forget((
                std::mem::take(&mut self.kernels),
                self.memory.take(),
                self.running.take(),
            ));
        }
    }
}

/// Returns the execution status of a command: positive while it is queued or runs, 0 when it has
/// ended, negative after an error.
fn event_status(event: &Event) -> Result<i32, DeviceError> {
    let mut status = 0i32;
    // SAFETY: `clGetEventInfo` writes at most `size_of::<i32>()` bytes to the pointer, which is a
    // `cl_int` that outlives the call; that is the size and type of this property. The last pointer
    // may be null. The event is alive while it is borrowed. It is not null: all events waited for
    // were set by an enqueue call that succeeded, as a launch is only kept in `running` after all
    // of them did. (For a null event, the specification demands the error CL_INVALID_EVENT.)
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
