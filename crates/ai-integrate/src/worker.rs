//! Processes one batch of frames on one thread: reads, decodes and integrates it.

use std::io;
use std::time::Instant;

use frames::source::{Chunk, FrameChunks as Where};
use integrator::opencl::DeviceError;
use integrator::{AssembleError, Assembler, DecodeError, DecodePathCounts, Decoder, Scratch, StoredFrame, Sums};
use patterns::{BinWeights, FrameRow};
use xxhash_rust::xxh3::xxh3_64;

use crate::batches::FrameLocation;
use crate::device::worker::{DeviceBatch, DeviceWorker, SharedDevice};
use crate::monitor::MonitorValues;
use crate::prefetch::{Prefetched, Prefetcher, sorted_by_source};
use crate::recipe_group::RecipeGroup;
use crate::sources::{FrameLoss, OpenSource, SourcePool};

/// The output of a batch.
#[derive(Default)]
pub struct BatchOutput {
    /// The number of frames in the batch.
    pub frames: usize,
    /// The rows in ascending order of frames, each with its recipe's index in the task.
    pub rows: Vec<(usize, FrameRow)>,
    /// The frames that were lost, each with its source and reason.
    pub losses: Vec<(u64, usize, FrameLoss)>,
    /// Warnings about suspicious frames.
    pub warnings: Vec<String>,
    /// How often the kernels took each decode path.
    pub decode_paths: DecodePathCounts,
    /// The number of frames assembled from several chunks.
    pub assembled_frames: u64,
    /// The number of stored bytes read.
    pub read_bytes: u64,
    /// The number of stored bytes that were prefetched, because they were not in the page cache.
    pub prefetched_bytes: u64,
    /// The recipe's index in the task, the number of frames that the device integrated, and its share of the bytes
    /// sent.
    pub by_device: Vec<(usize, usize, u64)>,
    /// The error that made this thread stop using the device.
    pub device_error: Option<DeviceError>,
    /// The time spent reading, in seconds.
    pub read_seconds: f64,
    /// The time spent decoding and integrating, in seconds.
    pub integrate_seconds: f64,
}

impl BatchOutput {
    /// Adds a frame's row for each recipe of its group.
    fn push(&mut self, pass: &RecipeGroup<'_>, frame: u64, stored_digest: u64, sums: Vec<Sums>) {
        for ((&recipe, monitor), sums) in pass.recipes.iter().zip(&pass.monitors).zip(sums) {
            self.rows.push((recipe, frame_row(frame, monitor, stored_digest, sums)));
        }
    }
}

/// A worker thread's state, whose buffers are reused from batch to batch.
pub struct IntegrationWorker<'a> {
    recipe_groups: &'a [RecipeGroup<'a>],
    sources: &'a SourcePool<'a>,
    prefetcher: &'a Prefetcher<'a>,
    batch_frames: usize,
    buffers: Vec<Vec<u8>>,
    scratch: Scratch,
    device: DeviceWorker<'a>,
    assembler: Assembler,
    /// The source whose chunks `assembler` keeps.
    assembled: Option<usize>,
}

/// A frame of the current batch whose stored bytes have been read.
struct FrameRead {
    place: FrameLocation,
    filter_mask: u32,
    /// The XXH3-64 of its stored bytes.
    digest: u64,
}

impl<'a> IntegrationWorker<'a> {
    /// Creates a worker that integrates `batch` frames at once, on the device if there is one.
    pub fn new(
        passes: &'a [RecipeGroup<'a>],
        sources: &'a SourcePool<'a>,
        ahead: &'a Prefetcher<'a>,
        batch: usize,
        berth: Option<&'a SharedDevice>,
    ) -> Self {
        Self {
            recipe_groups: passes,
            sources,
            prefetcher: ahead,
            batch_frames: batch,
            buffers: vec![Vec::new(); batch],
            scratch: Scratch::default(),
            device: DeviceWorker::new(berth),
            assembler: Assembler::default(),
            assembled: None,
        }
    }

    /// Integrates the frames of a batch that has been prefetched.
    pub fn process_batch(&mut self, places: &[FrameLocation], mut load: Prefetched) -> BatchOutput {
        let (ahead_bytes, read) = (load.bytes, load.seconds);
        let mut out = BatchOutput {
            frames: places.len(),
            prefetched_bytes: ahead_bytes,
            read_seconds: read,
            ..BatchOutput::default()
        };
        for run in
            sorted_by_source(places).chunk_by(|one, two| (one.source, one.recipe_set) == (two.source, two.recipe_set))
        {
            let index = run[0].source;
            match self.sources.open(index) {
                Ok(open) => run
                    .chunks(self.batch_frames)
                    .for_each(|batch| self.process_chunk(&open, batch, &mut load, &mut out)),
                Err(loss) => run.iter().for_each(|place| self.record_loss(*place, &loss, &mut out)),
            }
            self.sources.release(index, run.len() as u64);
        }
        out.decode_paths = self.scratch.take_decode_paths();
        out.rows.sort_by_key(|(_, row)| row.frame);
        out
    }

    fn process_chunk(
        &mut self,
        open: &OpenSource,
        places: &[FrameLocation],
        load: &mut Prefetched,
        out: &mut BatchOutput,
    ) {
        let began = Instant::now();
        let mut batch: Vec<FrameRead> = Vec::with_capacity(places.len());
        let mut in_pieces = Vec::new();
        for &place in places {
            match open.store.frame_chunks(place.row) {
                Where::Whole(chunk) => {
                    let stored = &mut self.buffers[batch.len()];
                    match read_chunk(self.prefetcher, load, open, place.source, &chunk, stored) {
                        // The digest is computed while the bytes are in the CPU's cache.
                        Ok(()) => {
                            let digest = xxh3_64(stored);
                            batch.push(FrameRead { place, filter_mask: chunk.filter_mask, digest });
                        }
                        Err(why) => self.record_loss(place, &FrameLoss::from_io_error(&why, &why), out),
                    }
                }
                Where::Pieces(chunks) => in_pieces.push((place, chunks)),
                Where::Absent(why) => self.record_loss(place, &FrameLoss::absent(why), out),
                Where::Damaged(why) => self.record_loss(place, &FrameLoss::corrupt(&why), out),
            }
        }
        out.read_bytes += self.buffers[..batch.len()].iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        let have_read = Instant::now();
        let pass = &self.recipe_groups[places[0].recipe_set];
        self.integrate(pass, &open.decoder, &batch, out);
        out.assembled_frames += in_pieces.len() as u64;
        let at_a_time = frames_assembled_at_once(pass.integrators.frame_bytes(), self.batch_frames);
        in_pieces.chunks(at_a_time).for_each(|frames| self.assemble_and_integrate(pass, open, frames, load, out));
        out.read_seconds += (have_read - began).as_secs_f64();
        out.integrate_seconds += have_read.elapsed().as_secs_f64();
    }

    fn integrate(&mut self, pass: &RecipeGroup<'_>, decoder: &Decoder, batch: &[FrameRead], out: &mut BatchOutput) {
        let pairs = self.buffers.iter().zip(batch);
        let stored: Vec<StoredFrame<'_>> =
            pairs.map(|(bytes, frame)| StoredFrame { bytes, filter_mask: frame.filter_mask }).collect();
        if let Some(first) = stored.first() {
            out.warnings.extend(pass.integrators.warn_of_dummies(decoder, first));
        }
        let numbers: Vec<u64> = batch.iter().map(|frame| frame.place.frame).collect();
        let (together, scratch) = (&pass.integrators, &mut self.scratch);
        let sums = match self.device.integrate(together, decoder, &stored, &numbers, scratch) {
            Some(Ok(DeviceBatch { sums, sent_bytes })) => {
                let frames = sums.iter().filter(|sums| sums.is_ok()).count();
                let by_recipe = sent_bytes.into_iter().map(|(recipe, bytes)| (pass.recipes[recipe], frames, bytes));
                out.by_device.extend(by_recipe);
                sums
            }
            other => {
                out.device_error = other.and_then(Result::err).or(out.device_error.take());
                pass.integrators.integrate(decoder, &stored, &mut self.scratch)
            }
        };
        for (sums, frame) in sums.into_iter().zip(batch) {
            match sums {
                Ok(sums) => out.push(pass, frame.place.frame, frame.digest, sums),
                Err(why @ DecodeError::Memory(_)) => self.record_loss(
                    frame.place,
                    &FrameLoss::from_io_error(&io::ErrorKind::OutOfMemory.into(), &why),
                    out,
                ),
                Err(why) => self.record_loss(frame.place, &FrameLoss::corrupt(&why), out),
            }
        }
    }

    /// Assembles frames from their chunks, and integrates the assembled pixels.
    fn assemble_and_integrate(
        &mut self,
        pass: &RecipeGroup<'_>,
        open: &OpenSource,
        frames: &[(FrameLocation, Vec<Chunk>)],
        load: &mut Prefetched,
        out: &mut BatchOutput,
    ) {
        let mut batch = Vec::with_capacity(frames.len());
        for &(place, ref chunks) in frames {
            if self.assembled.replace(place.source) != Some(place.source) {
                self.assembler = Assembler::default();
            }
            let (ahead, read_bytes) = (self.prefetcher, &mut out.read_bytes);
            let read = |chunk: &Chunk, stored: &mut Vec<u8>| {
                *read_bytes += chunk.len;
                read_chunk(ahead, load, open, place.source, chunk, stored)
            };
            let pixels = &mut self.buffers[batch.len()];
            match pass.integrators.assemble(&open.decoder, &mut self.assembler, (place.row, chunks), read, pixels) {
                Ok(digest) => batch.push(FrameRead { place, filter_mask: 0, digest }),
                Err(error) => {
                    let loss = match &error {
                        AssembleError::Read { why, .. } => FrameLoss::from_io_error(why, &error),
                        AssembleError::Decode { .. } => FrameLoss::corrupt(&error),
                    };
                    self.record_loss(place, &loss, out);
                }
            }
        }
        self.integrate(pass, &pass.integrators.native_decoder(), &batch, out);
    }

    fn record_loss(&self, place: FrameLocation, loss: &FrameLoss, out: &mut BatchOutput) {
        let pass = &self.recipe_groups[place.recipe_set];
        for (&recipe, monitor) in pass.recipes.iter().zip(&pass.monitors) {
            out.rows.push((recipe, FrameRow::without_sums(place.frame, loss.status, monitor.value(place.frame))));
        }
        out.losses.push((place.frame, place.source, loss.clone()));
    }
}

/// Returns how many frames are assembled before they are integrated together; memory per thread limits it.
pub fn frames_assembled_at_once(frame_bytes: usize, batch: usize) -> usize {
    const MAX_ASSEMBLED_BYTES: usize = 64 << 20;
    (MAX_ASSEMBLED_BYTES / frame_bytes.max(1)).clamp(1, batch)
}

/// Fills `stored` with the stored bytes of a chunk, which are taken from the prefetched ones or read now.
fn read_chunk(
    ahead: &Prefetcher<'_>,
    load: &mut Prefetched,
    open: &OpenSource,
    source: usize,
    chunk: &Chunk,
    stored: &mut Vec<u8>,
) -> io::Result<()> {
    ahead.take(load, source, chunk, stored).unwrap_or_else(|| open.store.read_chunk(chunk, stored))
}

fn frame_row(frame: u64, monitor: &MonitorValues, stored_digest: u64, sums: Sums) -> FrameRow {
    let value = monitor.value(frame);
    let (monitor, status) = (value, monitor.status(value));
    let exception =
        sums.weight_override.map(|own| BinWeights { norm: own.norm, norm_sq: own.norm_sq, count: own.count });
    FrameRow {
        frame,
        status,
        stored_digest,
        monitor,
        signal: sums.signal,
        variance: sums.variance,
        weight_override: exception,
    }
}
