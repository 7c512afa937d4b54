//! One window of frames, on one thread: read, decode, integrate.

use std::io;
use std::time::Instant;

use frames::store::{Chunk, Row as Where};
use integrator::opencl::DeviceError;
use integrator::{AssembleError, Assembler, DecodeError, Decoder, Scratch, Stored, Sums, Ways};
use patterns::{Row, Weights};
use xxhash_rust::xxh3::xxh3_64;

use crate::aboard::{Aboard, Batch, Berth};
use crate::ahead::{Ahead, Load, in_runs};
use crate::monitor::Monitor;
use crate::pass::Pass;
use crate::sources::{Loss, Open, Sources};
use crate::work::Place;

/// What a window gave.
#[derive(Default)]
pub struct Yield {
    /// How many frames it had.
    pub frames: usize,
    /// The rows, each with its recipe's place in the task, frames rising.
    pub rows: Vec<(usize, Row)>,
    /// The frames that were lost, each with its source and reason.
    pub losses: Vec<(u64, usize, Loss)>,
    /// What is suspicious about the frames.
    pub warnings: Vec<String>,
    /// Which ways the frames took through the kernels.
    pub ways: Ways,
    /// Frames that were put together from chunks.
    pub in_pieces: u64,
    /// Stored bytes read.
    pub read_bytes: u64,
    /// Those of them that were read before a thread asked for them, for they were not in the system's cache.
    pub ahead_bytes: u64,
    /// By recipe's place in the task, frames that a device integrated, and its share of the bytes sent to it.
    pub by_device: Vec<(usize, usize, u64)>,
    /// Why the device was left.
    pub trouble: Option<DeviceError>,
    /// Seconds of reading.
    pub read: f64,
    /// Seconds of decoding and integrating.
    pub integrate: f64,
}

impl Yield {
    /// A frame's row for each recipe of its pass.
    fn push(&mut self, pass: &Pass<'_>, frame: u64, stored_digest: u64, sums: Vec<Sums>) {
        for ((&recipe, monitor), sums) in pass.recipes.iter().zip(&pass.monitors).zip(sums) {
            self.rows.push((recipe, row(frame, monitor, stored_digest, sums)));
        }
    }
}

/// A thread at work: its memory is kept from window to window.
pub struct Worker<'a> {
    passes: &'a [Pass<'a>],
    sources: &'a Sources<'a>,
    ahead: &'a Ahead<'a>,
    batch: usize,
    buffers: Vec<Vec<u8>>,
    scratch: Scratch,
    aboard: Aboard<'a>,
    assembler: Assembler,
    /// The source that `assembler` keeps chunks of.
    assembled: Option<usize>,
}

/// A frame of the batch being read.
struct Read {
    place: Place,
    filter_mask: u32,
    /// XXH3-64 of its stored bytes.
    digest: u64,
}

impl<'a> Worker<'a> {
    /// A thread's worth of memory; `batch` frames are integrated side by side, on the device where there is one.
    pub fn new(
        passes: &'a [Pass<'a>],
        sources: &'a Sources<'a>,
        ahead: &'a Ahead<'a>,
        batch: usize,
        berth: Option<&'a Berth>,
    ) -> Self {
        Self {
            passes,
            sources,
            ahead,
            batch,
            buffers: vec![Vec::new(); batch],
            scratch: Scratch::default(),
            aboard: Aboard::new(berth),
            assembler: Assembler::default(),
            assembled: None,
        }
    }

    /// Integrates the frames of a window, which has been made ready.
    pub fn window(&mut self, places: &[Place], mut load: Load) -> Yield {
        let (ahead_bytes, read) = (load.bytes, load.seconds);
        let mut out = Yield { frames: places.len(), ahead_bytes, read, ..Yield::default() };
        for run in in_runs(places).chunk_by(|one, two| (one.source, one.set) == (two.source, two.set)) {
            let index = run[0].source;
            match self.sources.open(index) {
                Ok(open) => run.chunks(self.batch).for_each(|batch| self.batch(&open, batch, &mut load, &mut out)),
                Err(loss) => run.iter().for_each(|place| self.lose(*place, &loss, &mut out)),
            }
            self.sources.release(index, run.len() as u64);
        }
        out.ways = self.scratch.take_ways();
        out.rows.sort_by_key(|(_, row)| row.frame);
        out
    }

    fn batch(&mut self, open: &Open, places: &[Place], load: &mut Load, out: &mut Yield) {
        let began = Instant::now();
        let mut batch: Vec<Read> = Vec::with_capacity(places.len());
        let mut in_pieces = Vec::new();
        for &place in places {
            match open.store.chunks_of(place.row) {
                Where::Whole(chunk) => {
                    let stored = &mut self.buffers[batch.len()];
                    match read(self.ahead, load, open, place.source, &chunk, stored) {
                        // Now, while the bytes are near.
                        Ok(()) => {
                            let digest = xxh3_64(stored);
                            batch.push(Read { place, filter_mask: chunk.filter_mask, digest });
                        }
                        Err(why) => self.lose(place, &Loss::unread(&why, &why), out),
                    }
                }
                Where::Pieces(chunks) => in_pieces.push((place, chunks)),
                Where::Absent(why) => self.lose(place, &Loss::absent(why), out),
                Where::Damaged(why) => self.lose(place, &Loss::corrupt(&why), out),
            }
        }
        out.read_bytes += self.buffers[..batch.len()].iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        let have_read = Instant::now();
        let pass = &self.passes[places[0].set];
        self.integrate(pass, &open.decoder, &batch, out);
        out.in_pieces += in_pieces.len() as u64;
        let at_a_time = assembled_at_a_time(pass.together.frame_bytes(), self.batch);
        in_pieces.chunks(at_a_time).for_each(|frames| self.assemble(pass, open, frames, load, out));
        out.read += (have_read - began).as_secs_f64();
        out.integrate += have_read.elapsed().as_secs_f64();
    }

    fn integrate(&mut self, pass: &Pass<'_>, decoder: &Decoder, batch: &[Read], out: &mut Yield) {
        let pairs = self.buffers.iter().zip(batch);
        let stored: Vec<Stored<'_>> =
            pairs.map(|(bytes, frame)| Stored { bytes, filter_mask: frame.filter_mask }).collect();
        if let Some(first) = stored.first() {
            out.warnings.extend(pass.together.suspect(decoder, first));
        }
        let numbers: Vec<u64> = batch.iter().map(|frame| frame.place.frame).collect();
        let (together, scratch) = (&pass.together, &mut self.scratch);
        let sums = match self.aboard.batch(together, decoder, &stored, &numbers, scratch) {
            Some(Ok(Batch { sums, sent_bytes })) => {
                let frames = sums.iter().filter(|sums| sums.is_ok()).count();
                let by_recipe = sent_bytes.into_iter().map(|(recipe, bytes)| (pass.recipes[recipe], frames, bytes));
                out.by_device.extend(by_recipe);
                sums
            }
            other => {
                out.trouble = other.and_then(Result::err).or(out.trouble.take());
                pass.together.batch(decoder, &stored, &mut self.scratch)
            }
        };
        for (sums, frame) in sums.into_iter().zip(batch) {
            match sums {
                Ok(sums) => out.push(pass, frame.place.frame, frame.digest, sums),
                Err(why @ DecodeError::Memory(_)) => {
                    self.lose(frame.place, &Loss::unread(&io::ErrorKind::OutOfMemory.into(), &why), out)
                }
                Err(why) => self.lose(frame.place, &Loss::corrupt(&why), out),
            }
        }
    }

    /// Puts frames together from their chunks, and integrates them as they are then: pixels.
    fn assemble(
        &mut self,
        pass: &Pass<'_>,
        open: &Open,
        frames: &[(Place, Vec<Chunk>)],
        load: &mut Load,
        out: &mut Yield,
    ) {
        let mut batch = Vec::with_capacity(frames.len());
        for &(place, ref chunks) in frames {
            if self.assembled.replace(place.source) != Some(place.source) {
                self.assembler = Assembler::default();
            }
            let (ahead, read_bytes) = (self.ahead, &mut out.read_bytes);
            let read = |chunk: &Chunk, stored: &mut Vec<u8>| {
                *read_bytes += chunk.len;
                read(ahead, load, open, place.source, chunk, stored)
            };
            let pixels = &mut self.buffers[batch.len()];
            match pass.together.assemble(&open.decoder, &mut self.assembler, (place.row, chunks), read, pixels) {
                Ok(digest) => batch.push(Read { place, filter_mask: 0, digest }),
                Err(error) => {
                    let loss = match &error {
                        AssembleError::Read { why, .. } => Loss::unread(why, &error),
                        AssembleError::Decode { .. } => Loss::corrupt(&error),
                    };
                    self.lose(place, &loss, out);
                }
            }
        }
        self.integrate(pass, &pass.together.native(), &batch, out);
    }

    fn lose(&self, place: Place, loss: &Loss, out: &mut Yield) {
        let pass = &self.passes[place.set];
        for (&recipe, monitor) in pass.recipes.iter().zip(&pass.monitors) {
            out.rows.push((recipe, Row::lost(place.frame, loss.status, monitor.of(place.frame))));
        }
        out.losses.push((place.frame, place.source, loss.clone()));
    }
}

/// How many frames are put together before they are integrated side by side: as many as a thread has memory for.
pub fn assembled_at_a_time(frame_bytes: usize, batch: usize) -> usize {
    const MOST_BYTES: usize = 64 << 20;
    (MOST_BYTES / frame_bytes.max(1)).clamp(1, batch)
}

/// Has the stored bytes of a chunk in `stored`: those that were read ahead, or else now.
fn read(
    ahead: &Ahead<'_>,
    load: &mut Load,
    open: &Open,
    source: usize,
    chunk: &Chunk,
    stored: &mut Vec<u8>,
) -> io::Result<()> {
    ahead.take(load, source, chunk, stored).unwrap_or_else(|| open.store.read(chunk, stored))
}

fn row(frame: u64, monitor: &Monitor, stored_digest: u64, sums: Sums) -> Row {
    let value = monitor.of(frame);
    let (monitor, status) = (value, monitor.status(value));
    let exception = sums.exception.map(|own| Weights { norm: own.norm, norm_sq: own.norm_sq, count: own.count });
    Row { frame, status, stored_digest, monitor, signal: sums.signal, variance: sums.variance, exception }
}
