//! Processes one batch of frames on one thread: reads, decodes and integrates it.

use std::io;
use std::time::Instant;

use frames::source::{Chunk, FrameChunks as Where};
use integrator::{
    AssembleError, Assembler, DecodeError, Decoder, EncodedFrame, PixelStatistics, Sums,
};
use memory_model::frames_assembled_at_once;
use patterns::FrameRow;
use patterns::part::RowEncoder;
use records::format_frames;
use system::memory;
use xxhash_rust::xxh3::xxh3_64;

use crate::batch_output::BatchOutput;
use crate::batches::FrameLocation;
use crate::bins::LastWeights;
use crate::device::worker::{DeviceBatch, DeviceOutcome, DeviceWorker, SharedDevice};
use crate::error::MAX_RANGES_IN_MESSAGE;
use crate::integrated_frame::{CakeCollector, IntegratedFrame};
use crate::prefetch::{Prefetched, Prefetcher, sorted_by_source};
use crate::recipe_group::RecipeGroup;
use crate::sources::{FrameLoss, OpenSource, SourcePool};
use crate::worker_memory::{BorrowedMemory, WorkerMemory};

/// A worker thread's state, whose buffers are reused from batch to batch.
pub struct IntegrationWorker<'a> {
    recipe_groups: &'a [RecipeGroup<'a>],
    sources: &'a SourcePool<'a>,
    prefetcher: &'a Prefetcher<'a>,
    batch_frames: usize,
    memory: BorrowedMemory<'a>,
    device: DeviceWorker<'a>,
    /// True if there is a device.
    has_device: bool,
    encoders: Vec<Option<RowEncoder>>,
    /// The last weights of each recipe's frames.
    weights: Vec<LastWeights>,
    statistics: &'a [Option<&'a PixelStatistics>],
    assembler: Assembler,
    /// The source whose chunks `assembler` keeps.
    assembled: Option<usize>,
}

/// A frame of the current batch whose stored bytes have been read.
struct FrameRead {
    location: FrameLocation,
    filter_mask: u32,
    /// The XXH3-64 of its stored bytes.
    digest: u64,
}

impl<'a> IntegrationWorker<'a> {
    /// Creates a worker that integrates as many frames at once as it has buffers, on the device if
    /// there is one, and adds the pixels of frames to `statistics`.
    pub fn new(
        recipe_groups: &'a [RecipeGroup<'a>],
        encoders: &[Option<RowEncoder>],
        sources: &'a SourcePool<'a>,
        prefetcher: &'a Prefetcher<'a>,
        memory: BorrowedMemory<'a>,
        shared_device: Option<&'a SharedDevice>,
        statistics: &'a [Option<&'a PixelStatistics>],
    ) -> Self {
        Self {
            recipe_groups,
            sources,
            prefetcher,
            batch_frames: memory.buffers.len(),
            memory,
            device: DeviceWorker::new(shared_device),
            has_device: shared_device.is_some(),
            encoders: encoders.to_vec(),
            weights: encoders.iter().map(|_| LastWeights::default()).collect(),
            statistics,
            assembler: Assembler::default(),
            assembled: None,
        }
    }

    /// Integrates the frames of a batch that has been prefetched.
    pub fn process_batch(
        &mut self,
        locations: &[FrameLocation],
        mut prefetched: Prefetched,
    ) -> BatchOutput {
        let mut out = BatchOutput {
            frames: locations.len(),
            prefetched_bytes: prefetched.bytes,
            prefetch_seconds: prefetched.seconds,
            ..BatchOutput::default()
        };
        for run in sorted_by_source(locations)
            .chunk_by(|one, two| (one.source, one.recipe_set) == (two.source, two.recipe_set))
        {
            let index = run[0].source;
            match self.sources.open(index) {
                Ok(open) => run
                    .chunks(self.batch_frames)
                    .for_each(|batch| self.process_chunk(&open, batch, &mut prefetched, &mut out)),
                Err(loss) => {
                    run.iter().for_each(|location| self.record_loss(*location, &loss, &mut out))
                }
            }
            self.sources.release(index, run.len() as u64);
        }
        out.decode_paths = self.memory.scratch.take_decode_paths();
        let WorkerMemory { scratch, patterns, .. } = &mut *self.memory;
        out.encode_rows(&mut self.encoders, scratch, patterns);
        out
    }

    fn process_chunk(
        &mut self,
        open: &OpenSource,
        locations: &[FrameLocation],
        prefetched: &mut Prefetched,
        out: &mut BatchOutput,
    ) {
        let began = Instant::now();
        let mut batch: Vec<FrameRead> = Vec::with_capacity(locations.len());
        let mut in_pieces = Vec::new();
        for &location in locations {
            match open.store.frame_chunks(location.row) {
                Where::Whole(chunk) => {
                    let stored = &mut self.memory.buffers[batch.len()];
                    match read_chunk(
                        self.prefetcher,
                        prefetched,
                        open,
                        location.source,
                        &chunk,
                        stored,
                    ) {
                        // The digest is computed while the bytes are in the CPU's cache.
                        Ok(()) => {
                            let digest = xxh3_64(stored);
                            batch.push(FrameRead {
                                location,
                                filter_mask: chunk.filter_mask,
                                digest,
                            });
                        }
                        Err(why) => {
                            self.record_loss(location, &FrameLoss::from_io_error(&why, &why), out)
                        }
                    }
                }
                Where::Pieces(chunks) => in_pieces.push((location, chunks)),
                Where::NoData(why) => self.record_loss(location, &FrameLoss::absent(why), out),
                Where::Damaged(why) => self.record_loss(location, &FrameLoss::corrupt(&why), out),
            }
        }
        out.read_bytes += self.memory.buffers[..batch.len()]
            .iter()
            .map(|buffer| buffer.len() as u64)
            .sum::<u64>();
        let have_read = Instant::now();
        let group = &self.recipe_groups[locations[0].recipe_set];
        self.integrate(group, &open.decoder, &batch, out);
        out.assembled_frames += in_pieces.len() as u64;
        let at_a_time =
            frames_assembled_at_once(group.integrators.frame_bytes(), self.batch_frames);
        in_pieces
            .chunks(at_a_time)
            .for_each(|frames| self.assemble_and_integrate(group, open, frames, prefetched, out));
        out.read_seconds += (have_read - began).as_secs_f64();
        out.integrate_seconds += have_read.elapsed().as_secs_f64();
    }

    fn integrate(
        &mut self,
        group: &RecipeGroup<'_>,
        decoder: &Decoder,
        batch: &[FrameRead],
        out: &mut BatchOutput,
    ) {
        let buffers = std::mem::take(&mut self.memory.buffers);
        let pairs = buffers.iter().zip(batch);
        let stored: Vec<EncodedFrame<'_>> = pairs
            .map(|(bytes, frame)| EncodedFrame { bytes, filter_mask: frame.filter_mask })
            .collect();
        if let Some(first) = stored.first() {
            out.warnings.extend(group.integrators.warn_of_dummies(decoder, first));
        }
        let makes_cakes = !self.has_device && CakeCollector::suits(group, &self.encoders);
        let integrated = if makes_cakes {
            self.make_cakes(group, decoder, batch, &stored)
        } else {
            let sums = self.integrate_frames(group, decoder, batch, &stored, out);
            sums.into_iter().map(|sums| sums.map(IntegratedFrame::Sums)).collect()
        };
        for &index in &group.statistics {
            let Some(statistics) = self.statistics[index] else { continue };
            let pairs = integrated.iter().zip(stored.iter().zip(batch));
            let sound = pairs.filter(|(integrated, _)| integrated.is_ok());
            let (frames, numbers): (Vec<EncodedFrame<'_>>, Vec<u64>) =
                sound.map(|(_, (stored, frame))| (*stored, frame.location.frame)).unzip();
            match statistics.add_frames(decoder, &frames, &mut self.memory.statistics) {
                Ok(()) => out.in_statistics.push((index, numbers)),
                Err(why) => {
                    let frames = numbers.into_iter().collect();
                    let why =
                        format!("one of {}: {why}", format_frames(&frames, MAX_RANGES_IN_MESSAGE));
                    out.statistics_errors.push((index, why));
                }
            }
        }
        for (integrated, frame) in integrated.into_iter().zip(batch) {
            let number = frame.location.frame;
            match integrated {
                Ok(integrated) => {
                    out.push(group, number, frame.digest, integrated, &mut self.weights)
                }
                Err(why @ DecodeError::Memory(_)) => self.record_loss(
                    frame.location,
                    &FrameLoss::from_io_error(&io::ErrorKind::OutOfMemory.into(), &why),
                    out,
                ),
                Err(why) => self.record_loss(frame.location, &FrameLoss::corrupt(&why), out),
            }
        }
        self.memory.buffers = buffers;
    }

    /// Returns the cakes of each frame by each recipe, or why it can't be decoded.
    fn make_cakes(
        &mut self,
        group: &RecipeGroup<'_>,
        decoder: &Decoder,
        batch: &[FrameRead],
        stored: &[EncodedFrame<'_>],
    ) -> Vec<Result<IntegratedFrame, DecodeError>> {
        let numbers: Vec<u64> = batch.iter().map(|frame| frame.location.frame).collect();
        let WorkerMemory { scratch, patterns, .. } = &mut *self.memory;
        let mut cakes = CakeCollector::new(&group.members, &self.encoders, &numbers, patterns);
        let results = group.integrators.integrate_blocks(decoder, stored, scratch, &mut cakes);
        cakes.finish(results)
    }

    /// Returns the sums of each frame by each recipe, or why it can't be decoded.
    fn integrate_frames(
        &mut self,
        group: &RecipeGroup<'_>,
        decoder: &Decoder,
        batch: &[FrameRead],
        stored: &[EncodedFrame<'_>],
        out: &mut BatchOutput,
    ) -> Vec<Result<Vec<Sums>, DecodeError>> {
        if group.members.is_empty() {
            let decode = |frame: &EncodedFrame<'_>| {
                let mut pixels = memory::zeroed(group.integrators.frame_bytes())
                    .map_err(|why| DecodeError::Memory(why.to_string()))?;
                decoder.decode(frame.filter_mask, frame.bytes, &mut pixels).map(|()| Vec::new())
            };
            return stored.iter().map(decode).collect();
        }
        let numbers: Vec<u64> = batch.iter().map(|frame| frame.location.frame).collect();
        match self.device.integrate(
            &group.integrators,
            decoder,
            stored,
            &numbers,
            &mut self.memory.scratch,
        ) {
            DeviceOutcome::Done(DeviceBatch { sums, sent_bytes }) => {
                let frames = sums.iter().filter(|sums| sums.is_ok()).count();
                let by_recipe = sent_bytes
                    .into_iter()
                    .map(|(recipe, bytes)| (group.members[recipe].recipe, frames, bytes));
                out.by_device.extend(by_recipe);
                sums
            }
            DeviceOutcome::UseCpu => {
                group.integrators.integrate(decoder, stored, &mut self.memory.scratch)
            }
            DeviceOutcome::Failed(why) => {
                out.device_error = Some(why);
                group.integrators.integrate(decoder, stored, &mut self.memory.scratch)
            }
        }
    }

    /// Assembles frames from their chunks, and integrates the assembled pixels.
    fn assemble_and_integrate(
        &mut self,
        group: &RecipeGroup<'_>,
        open: &OpenSource,
        frames: &[(FrameLocation, Vec<Chunk>)],
        prefetched: &mut Prefetched,
        out: &mut BatchOutput,
    ) {
        let mut batch = Vec::with_capacity(frames.len());
        for &(location, ref chunks) in frames {
            if self.assembled.replace(location.source) != Some(location.source) {
                self.assembler = Assembler::default();
            }
            let (prefetcher, read_bytes) = (self.prefetcher, &mut out.read_bytes);
            let read = |chunk: &Chunk, stored: &mut Vec<u8>| {
                *read_bytes += chunk.len;
                read_chunk(prefetcher, prefetched, open, location.source, chunk, stored)
            };
            let pixels = &mut self.memory.buffers[batch.len()];
            match group.integrators.assemble(
                &open.decoder,
                &mut self.assembler,
                (location.row, chunks),
                read,
                pixels,
            ) {
                Ok(digest) => batch.push(FrameRead { location, filter_mask: 0, digest }),
                Err(error) => {
                    let loss = match &error {
                        AssembleError::Read { why, .. } => FrameLoss::from_io_error(why, &error),
                        AssembleError::Decode { .. } => FrameLoss::corrupt(&error),
                    };
                    self.record_loss(location, &loss, out);
                }
            }
        }
        self.integrate(group, &group.integrators.native_decoder(), &batch, out);
    }

    fn record_loss(&self, location: FrameLocation, loss: &FrameLoss, out: &mut BatchOutput) {
        let group = &self.recipe_groups[location.recipe_set];
        for (recipe, monitor) in group.recipes() {
            let monitor = monitor.value(location.frame);
            out.push_row(recipe, FrameRow::without_sums(location.frame, loss.status, monitor));
        }
        out.losses.push((location.frame, location.source, loss.clone()));
    }
}

/// Fills `stored` with the stored bytes of a chunk, which are taken from the prefetched ones or
/// read now.
fn read_chunk(
    prefetcher: &Prefetcher<'_>,
    prefetched: &mut Prefetched,
    open: &OpenSource,
    source: usize,
    chunk: &Chunk,
    stored: &mut Vec<u8>,
) -> io::Result<()> {
    prefetcher
        .take(prefetched, source, chunk, stored)
        .unwrap_or_else(|| open.store.read_chunk(chunk, stored))
}
