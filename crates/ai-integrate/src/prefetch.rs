//! Prefetching: threads that open files and wait for the disk, so that worker threads do not.
//!
//! A prefetch thread takes one batch at a time in the order of the frames, opens its sources, and
//! reads the chunks that are not in the page cache. Cached chunks are left to the worker thread,
//! which copies them quickly and then has them in its own CPU cache. A prefetch thread holds its
//! batch until a worker takes it, so there are never more batches waiting than prefetch threads,
//! and at most [`MAX_PREFETCH_BYTES`] for each.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use filter::Filter;
use frames::source::{Chunk, FrameChunks as Where};
use memory_model::MAX_PREFETCH_BYTES;

use crate::batches::FrameLocation;
use crate::sources::SourcePool;

/// The state that the prefetch threads of a task share.
pub struct Prefetcher<'a> {
    filter: &'a Filter,
    sources: &'a SourcePool<'a>,
    /// Buffers to reuse.
    free_buffers: Mutex<Vec<Vec<u8>>>,
}

/// A prefetched batch.
#[derive(Default)]
pub struct Prefetched {
    /// The chunks read, by source and offset.
    chunks: HashMap<(usize, u64), io::Result<Vec<u8>>>,
    /// The number of bytes read.
    pub bytes: u64,
    /// The time that prefetching took, in seconds.
    pub seconds: f64,
}

impl<'a> Prefetcher<'a> {
    /// Creates a prefetcher for the sources of a task.
    pub fn new(filter: &'a Filter, sources: &'a SourcePool<'a>) -> Self {
        Self { filter, sources, free_buffers: Mutex::default() }
    }

    /// Prefetches the frames of a batch. A file that can't be opened or read is not an error here:
    /// the worker thread that needs it fails again and reports it. When the filter drains, nothing
    /// more is read.
    pub fn prefetch(&self, locations: &[FrameLocation]) -> Prefetched {
        let began = Instant::now();
        let mut prefetched = Prefetched::default();
        for run in sorted_by_source(locations).chunk_by(|one, two| one.source == two.source) {
            if self.filter.is_draining() {
                break;
            }
            self.read_source(run, &mut prefetched);
        }
        prefetched.seconds = began.elapsed().as_secs_f64();
        prefetched
    }

    /// Reads the chunks of one source that are not in the page cache.
    fn read_source(&self, run: &[FrameLocation], prefetched: &mut Prefetched) {
        let source = run[0].source;
        let Some(open) = self.sources.open_ahead(source) else { return };
        let of_row = |location: &FrameLocation| match open.store.frame_chunks(location.row) {
            Where::Whole(chunk) => vec![chunk],
            Where::Pieces(chunks) => chunks,
            Where::NoData(_) | Where::Damaged(_) => Vec::new(),
        };
        let mut chunks: Vec<Chunk> = run.iter().flat_map(of_row).collect();
        chunks.sort_unstable_by_key(|chunk| chunk.offset);
        chunks.dedup_by_key(|chunk| chunk.offset);
        let mut left = MAX_PREFETCH_BYTES.saturating_sub(prefetched.bytes);
        let fits =
            |chunk: &Chunk| left.checked_sub(chunk.len).inspect(|rest| left = *rest).is_some();
        chunks.retain(|chunk| !open.store.is_cached(chunk));
        let count = chunks.iter().copied().take_while(fits).count();
        chunks.truncate(count);
        let read =
            open.store.read_chunks(&chunks, || self.take_buffer(), || !self.filter.is_draining());
        for (chunk, bytes) in chunks.iter().zip(read) {
            let Some(bytes) = bytes else { break };
            prefetched.bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            prefetched.chunks.insert((source, chunk.offset), bytes);
        }
    }

    fn take_buffer(&self) -> Vec<u8> {
        self.free_buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Swaps a prefetched chunk, if there is one, with a buffer that is free for reuse.
    pub fn take(
        &self,
        prefetched: &mut Prefetched,
        source: usize,
        chunk: &Chunk,
        bytes: &mut Vec<u8>,
    ) -> Option<io::Result<()>> {
        let read = prefetched.chunks.remove(&(source, chunk.offset))?;
        Some(read.map(|read| {
            let spare = std::mem::replace(bytes, read);
            if spare.capacity() > 0 {
                self.free_buffers.lock().unwrap_or_else(PoisonError::into_inner).push(spare);
            }
        }))
    }
}

/// Returns the locations of a batch in the order in which they are processed: one source after the
/// other.
pub fn sorted_by_source(locations: &[FrameLocation]) -> Vec<FrameLocation> {
    let mut by_source = locations.to_vec();
    by_source.sort_by_key(|location| (location.source, location.recipe_set));
    by_source
}
