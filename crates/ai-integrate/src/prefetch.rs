//! Reading ahead: threads that open files and wait for the disk, so that those that integrate do not.
//!
//! A reader takes a window at a time, in the order of the frames, opens its sources, and reads what the system does not have
//! in its cache. What it has is left where it is: a thread that integrates copies that in no time, and has it in its own
//! cache then. A window that is ready waits in its reader's hands for a thread, so there are never more than readers, and no
//! more bytes than [`MAX_PREFETCH_BYTES`] for each.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use filter::Filter;
use frames::source::{Chunk, FrameChunks as Where};

use crate::batches::FrameLocation;
use crate::sources::SourcePool;

/// Bytes of a window that are read ahead; the rest is read when it is needed.
pub const MAX_PREFETCH_BYTES: u64 = 64 << 20;

/// How many readers a task has: as many files or places of a file can be waited for at once.
pub fn prefetch_threads(threads: usize) -> usize {
    threads.clamp(4, 32)
}

/// What the readers of a task share.
pub struct Prefetcher<'a> {
    filter: &'a Filter,
    sources: &'a SourcePool<'a>,
    /// Buffers that are to be filled again.
    free_buffers: Mutex<Vec<Vec<u8>>>,
}

/// A window that is ready for a thread.
#[derive(Default)]
pub struct Prefetched {
    /// What was read of it, by source and offset.
    chunks: HashMap<(usize, u64), io::Result<Vec<u8>>>,
    /// Bytes that were read.
    pub bytes: u64,
    /// Seconds that it took to make it ready.
    pub seconds: f64,
}

impl<'a> Prefetcher<'a> {
    /// For the sources of a task.
    pub fn new(filter: &'a Filter, sources: &'a SourcePool<'a>) -> Self {
        Self { filter, sources, free_buffers: Mutex::default() }
    }

    /// Makes the places of a window ready. What can't be opened or read is found again, and told, by the thread that needs it. A filter
    /// that drains reads no more.
    pub fn prefetch(&self, places: &[FrameLocation]) -> Prefetched {
        let began = Instant::now();
        let mut load = Prefetched::default();
        for run in sorted_by_source(places).chunk_by(|one, two| one.source == two.source) {
            if self.filter.is_draining() {
                break;
            }
            self.read_source(run, &mut load);
        }
        load.seconds = began.elapsed().as_secs_f64();
        load
    }

    /// Reads what is not at hand of a source.
    fn read_source(&self, run: &[FrameLocation], load: &mut Prefetched) {
        let source = run[0].source;
        let Some(open) = self.sources.open_ahead(source) else { return };
        let of_row = |place: &FrameLocation| match open.store.frame_chunks(place.row) {
            Where::Whole(chunk) => vec![chunk],
            Where::Pieces(chunks) => chunks,
            Where::Absent(_) | Where::Damaged(_) => Vec::new(),
        };
        let mut chunks: Vec<Chunk> = run.iter().flat_map(of_row).collect();
        chunks.sort_unstable_by_key(|chunk| chunk.offset);
        chunks.dedup_by_key(|chunk| chunk.offset);
        let mut left = MAX_PREFETCH_BYTES.saturating_sub(load.bytes);
        let fits = |chunk: &Chunk| left.checked_sub(chunk.len).inspect(|rest| left = *rest).is_some();
        chunks.retain(|chunk| !open.store.is_cached(chunk));
        let count = chunks.iter().copied().take_while(fits).count();
        chunks.truncate(count);
        let read = open.store.read_chunks(&chunks, || self.take_buffer(), || !self.filter.is_draining());
        for (chunk, bytes) in chunks.iter().zip(read) {
            let Some(bytes) = bytes else { break };
            load.bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            load.chunks.insert((source, chunk.offset), bytes);
        }
    }

    fn take_buffer(&self) -> Vec<u8> {
        self.free_buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Takes what was read of a chunk, if it was, and puts it in the place of a buffer of no more use.
    pub fn take(
        &self,
        load: &mut Prefetched,
        source: usize,
        chunk: &Chunk,
        bytes: &mut Vec<u8>,
    ) -> Option<io::Result<()>> {
        let read = load.chunks.remove(&(source, chunk.offset))?;
        Some(read.map(|read| {
            let spare = std::mem::replace(bytes, read);
            if spare.capacity() > 0 {
                self.free_buffers.lock().unwrap_or_else(PoisonError::into_inner).push(spare);
            }
        }))
    }
}

/// The places of a window in the order in which they are worked on: one source after the other.
pub fn sorted_by_source(places: &[FrameLocation]) -> Vec<FrameLocation> {
    let mut by_source = places.to_vec();
    by_source.sort_by_key(|place| (place.source, place.recipe_set));
    by_source
}
