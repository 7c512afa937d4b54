//! One queue of a device: frames in, sums out, one launch at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ocl::core::{self, ArgVal, CommandQueue, CommandQueueProperties, Event, Kernel};

use super::device::{Device, DeviceMatrix};
use super::error::DeviceError;
use super::memory::{Buffer, NO_EVENT, NO_WAIT, Pinned};
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

struct Kernels {
    variant: Variant,
    integrate: Kernel,
    reduce: Kernel,
}

/// Buffers for launches of up to `needs`.
struct Memory {
    needs: Needs,
    upload: Pinned,
    download: Pinned,
    input: Buffer,
    ranges: Buffer,
    partial: Buffer,
    sums: Buffer,
    invalid: Buffer,
    /// For each frame how many pixels are invalid; then for each the first damaged tile, all ones if there is none.
    status: Buffer,
}

/// Bytes of buffers.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    frames: usize,
    input: usize,
    ranges: usize,
    partial: usize,
    sums: usize,
    /// Of one frame.
    invalid: usize,
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

/// Bytes of a sum: a double, or two floats.
const REAL: usize = 8;

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

impl Needs {
    fn of(job: &Job<'_>, frames: &[Input<'_>]) -> Needs {
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
    fn or_more(&self, other: &Needs) -> Needs {
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

    fn cover(&self, other: &Needs) -> bool {
        self.frames >= other.frames
            && self.input >= other.input
            && self.ranges >= other.ranges
            && self.partial >= other.partial
            && self.sums >= other.sums
            && self.frames * self.invalid >= other.frames * other.invalid
    }

    fn device_bytes(&self) -> u64 {
        (self.input + self.ranges + self.partial + self.sums + self.frames * self.invalid) as u64
    }
}

impl Memory {
    fn new(device: &Device, queue: &CommandQueue, needs: Needs) -> Result<Memory, DeviceError> {
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
    fn new(device: &Device, variant: Variant) -> Result<Kernels, DeviceError> {
        let program = device.program(variant)?;
        Ok(Kernels {
            variant,
            integrate: core::create_kernel(&program, "integrate")?,
            reduce: core::create_kernel(&program, "reduce")?,
        })
    }

    /// Queues both kernels for `count` frames.
    fn start(
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
fn status_bytes(frames: usize) -> usize {
    8 * frames
}

/// Bytes of one frame's bitmap of invalid pixels.
fn invalid_bytes(job: &Job<'_>) -> usize {
    job.matrix.tiles as usize * (job.variant.elements() / 8 + 1)
}

/// Bytes of the tables at the front of the input; see `integrate.cl`.
fn table_bytes(job: &Job<'_>, frames: usize) -> usize {
    4 * frames * (job.matrix.tiles as usize + 2)
}

/// Writes the input of a launch: tables, then frames, those that the device can't decode decoded. Returns the numbers of the
/// frames, and the bytes written. What can't be decoded is left out.
fn fill(
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
