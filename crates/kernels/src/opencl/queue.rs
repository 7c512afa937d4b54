//! One queue of a device: frames in, sums out, one launch at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ocl::core::{self, CommandQueue, CommandQueueProperties, Event};

use super::device::{Device, DeviceMatrix};
use super::error::DeviceError;
use super::launch::{Kernels, Memory, Needs, REAL, fill, invalid_bytes, status_bytes};
use super::memory::{NO_EVENT, NO_WAIT};
use super::program::Variant;
use crate::decode::DecodeError;
use crate::decode::bitshuffle::Places;
use crate::plan::Plan;
use crate::{Pipeline, Stored};

/// What all launches of a call have in common.
pub(super) struct Job<'a> {
    pub(super) plan: &'a Plan,
    pub(super) pipeline: &'a Pipeline,
    /// Invalid values, as pairs of pixels, lowest and highest.
    pub(super) ranges: &'a [u8],
    pub(super) variant: Variant,
    pub(super) matrix: Arc<DeviceMatrix>,
}

/// A frame to be integrated.
pub(super) struct Input<'a> {
    /// Its number in the call.
    pub(super) index: usize,
    pub(super) stored: Stored<'a>,
    /// Where its blocks are, if the device decodes them.
    pub(super) places: Option<Places>,
}

/// What came of a frame.
pub(super) enum Output {
    /// The photons' sums.
    Photons {
        signal: Vec<f64>,
        excess: Vec<f64>,
        /// Which pixels are invalid, if any: a bit each, by tile, as in [`super::layout::Layout::used`].
        invalid: Option<Vec<u8>>,
    },
    /// The processor could not decode it.
    Undecoded(DecodeError),
    /// The device could not.
    Damaged,
}

/// A queue, and the memory that its launches use.
pub(super) struct Queue {
    device: Arc<Device>,
    queue: CommandQueue,
    kernels: Option<Kernels>,
    memory: Option<Memory>,
    running: Option<Running>,
    /// Bytes sent to the device.
    pub(super) sent: u64,
}

/// A launch that has not been collected.
struct Running {
    frames: Vec<usize>,
    outputs: Vec<(usize, Output)>,
    nbins: usize,
    variant: Variant,
    invalid_bytes: usize,
    events: [Event; 4],
}

impl Queue {
    pub(super) fn new(device: Arc<Device>) -> Result<Queue, DeviceError> {
        let profiled = device.settings.profile.then_some(CommandQueueProperties::PROFILING_ENABLE);
        let queue = core::create_command_queue(&device.context, device.id, profiled)?;
        Ok(Queue { device, queue, kernels: None, memory: None, running: None, sent: 0 })
    }

    /// Copies frames to the device and starts to integrate them; does not wait.
    pub(super) fn submit(&mut self, job: &Job<'_>, frames: Vec<Input<'_>>) -> Result<(), DeviceError> {
        let submitted = self.try_submit(job, frames);
        if submitted.is_err() {
            // What was queued must not use memory that is about to be used for something else.
            let _ = core::finish(&self.queue);
            self.running = None;
        }
        submitted
    }

    fn try_submit(&mut self, job: &Job<'_>, frames: Vec<Input<'_>>) -> Result<(), DeviceError> {
        self.prepare(job, &frames)?;
        let (Some(kernels), Some(memory)) = (&self.kernels, &mut self.memory) else { unreachable!("prepared") };
        let mut outputs = Vec::new();
        let before = status_bytes(memory.needs.frames);
        let (indices, sent) = fill(job, frames, &mut memory.upload.all()[before..], &mut outputs);
        let (count, sent) = (indices.len(), before + sent);
        let mut events = std::array::from_fn(|_| Event::null());
        let [written, integrated, reduced, read] = &mut events;
        if count > 0 {
            let queue = &self.queue;
            // The status comes first: neither invalid pixels nor damage are known.
            let status = status_bytes(count);
            let (states, input) = memory.upload.all()[..sent].split_at_mut(before);
            states[..status / 2].fill(0);
            states[status / 2..status].fill(0xff);
            // SAFETY: the memory is pinned, and not touched until `collect` has waited for the last command.
            unsafe {
                core::enqueue_write_buffer(queue, &memory.status.mem, false, 0, &states[..status], NO_WAIT, NO_EVENT)?;
                core::enqueue_write_buffer(queue, &memory.input.mem, false, 0, input, NO_WAIT, Some(written))?;
            }
            kernels.start(queue, job, count as u32, memory, [integrated, reduced])?;
            let bytes = count * job.variant.quantities() * job.plan.nbins() * REAL;
            let (sums, status) = memory.download.all().split_at_mut(bytes);
            // SAFETY: as above.
            unsafe {
                core::enqueue_read_buffer(queue, &memory.sums.mem, false, 0, sums, NO_WAIT, NO_EVENT)?;
                let status = &mut status[..status_bytes(count)];
                core::enqueue_read_buffer(queue, &memory.status.mem, false, 0, status, NO_WAIT, Some(read))?;
            }
            core::flush(queue)?;
            self.sent += (sent - before + status_bytes(count)) as u64;
        }
        let (nbins, variant, invalid_bytes) = (job.plan.nbins(), job.variant, invalid_bytes(job));
        self.running = Some(Running { frames: indices, outputs, nbins, variant, invalid_bytes, events });
        Ok(())
    }

    /// Waits for what was submitted, if anything, and returns what came of each frame.
    pub(super) fn collect(&mut self) -> Result<Vec<(usize, Output)>, DeviceError> {
        let Some(running) = self.running.take() else { return Ok(Vec::new()) };
        let Running { frames, mut outputs, nbins, variant, invalid_bytes, events } = running;
        let count = frames.len();
        if count == 0 {
            return Ok(outputs);
        }
        self.wait(&events[3])?;
        self.device.note(&events);
        let Some(memory) = &mut self.memory else { unreachable!("there was a launch") };
        let quantities = variant.quantities();
        let row = nbins * REAL;
        let (sums, status) = memory.download.all().split_at(count * quantities * row);
        let words: Vec<u32> =
            status[..status_bytes(count)].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let numbers = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|real| variant.number(*real)).collect::<Vec<f64>>();
        let mut found: Vec<(usize, u32, Output)> = Vec::with_capacity(count);
        for (at, index) in frames.into_iter().enumerate() {
            let of_frame = &sums[at * quantities * row..];
            let output = match words[count + at] {
                u32::MAX => Output::Photons {
                    signal: numbers(&of_frame[..row]),
                    excess: if variant.variance { numbers(&of_frame[row..2 * row]) } else { Vec::new() },
                    invalid: None,
                },
                _ => Output::Damaged,
            };
            found.push((index, words[at], output));
        }
        for (at, (index, invalid_count, mut output)) in found.into_iter().enumerate() {
            if let Output::Photons { invalid, .. } = &mut output
                && invalid_count > 0
            {
                *invalid = Some(self.read_invalid(at * invalid_bytes, invalid_bytes)?);
            }
            outputs.push((index, output));
        }
        Ok(outputs)
    }

    /// A frame's bitmap of invalid pixels.
    fn read_invalid(&mut self, offset: usize, len: usize) -> Result<Vec<u8>, DeviceError> {
        let Some(memory) = &mut self.memory else { unreachable!("there was a launch") };
        let mut read = Event::null();
        let bitmap = &mut memory.download.all()[..len];
        // SAFETY: the memory is pinned, and not touched until the command has ended.
        unsafe {
            core::enqueue_read_buffer(&self.queue, &memory.invalid.mem, false, offset, bitmap, NO_WAIT, Some(&mut read))
        }?;
        core::flush(&self.queue)?;
        self.wait(&read)?;
        Ok(self.memory.as_mut().map_or_else(Vec::new, |memory| memory.download.all()[..len].to_vec()))
    }

    /// Waits for a command, and so for all before it. To ask now and then costs less than drivers that wait by asking all
    /// the time, and a device that hangs is noticed.
    fn wait(&mut self, event: &Event) -> Result<(), DeviceError> {
        let began = Instant::now();
        let mut pause = Duration::from_micros(5);
        loop {
            match status(event)? {
                code @ ..0 => return Err(DeviceError::of_code(code)),
                0 => return Ok(()),
                _ if began.elapsed() > self.device.settings.patience => {
                    let seconds = began.elapsed().as_secs();
                    let why = DeviceError::Failed(format!("no answer for {seconds} s"));
                    self.device.give_up(why.clone());
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

impl Queue {
    /// Kernels for the job's variant, and memory for these frames.
    fn prepare(&mut self, job: &Job<'_>, frames: &[Input<'_>]) -> Result<(), DeviceError> {
        if self.kernels.as_ref().is_none_or(|kernels| kernels.variant != job.variant) {
            self.kernels = Some(Kernels::new(&self.device, job.variant)?);
        }
        let needs = Needs::of(job, frames);
        // Places in the input are numbers of 32 bits.
        if needs.input > u32::MAX as usize || needs.device_bytes() > self.device.settings.queue_memory {
            return Err(DeviceError::Memory(format!("{} bytes", needs.device_bytes())));
        }
        if self.memory.as_ref().is_none_or(|memory| !memory.needs.cover(&needs)) {
            // What there is goes first: there may not be room for both.
            let before = self.memory.take().map_or(Needs::default(), |memory| memory.needs);
            self.memory = Some(Memory::new(&self.device, &self.queue, needs.or_more(&before))?);
        }
        let Some(memory) = &self.memory else { unreachable!("just made") };
        if !job.ranges.is_empty() {
            // SAFETY: the call returns when the bytes are copied.
            unsafe {
                core::enqueue_write_buffer(&self.queue, &memory.ranges.mem, true, 0, job.ranges, NO_WAIT, NO_EVENT)
            }?;
        }
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.running.is_some() && self.device.trouble().is_none() {
            let _ = self.collect();
        }
        if self.device.trouble().is_some() {
            // To release the objects of a device that fails may fail, too, or never end.
            std::mem::forget((self.kernels.take(), self.memory.take(), self.running.take()));
        }
    }
}

/// How far a command is: 0 is done, below 0 is an error.
fn status(event: &Event) -> Result<i32, DeviceError> {
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
