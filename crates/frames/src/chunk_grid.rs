//! The chunk index of a dataset: where the stored bytes of each chunk are, and which index entries
//! are damaged.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ffi::{Hdf5Object, LibraryError, StoredChunk};
use crate::frame_shape::to_three_dimensions;

/// Reason of a frame whose chunks can't be located reliably because its index entries are damaged.
pub(crate) const DAMAGED_INDEX: &str = "damaged chunk index";

/// The written chunks of a dataset, by their position in the stack of frames.
///
/// Not every index entry can be trusted. HDF5's older B-trees have no checksum, so a damaged index
/// may still be readable; an entry that points to another frame's chunk would show one frame twice.
/// An entry that repeats a position, is out of order, or shares bytes with another entry counts as
/// damaged, and so do all frames that the entry may belong to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChunkGrid {
    /// Frames, rows and columns of a chunk.
    chunk: [u64; 3],
    /// Number of chunks that make up one frame, vertically and horizontally.
    chunks_per_frame: [u64; 2],
    /// Chunks per layer: the product of `chunks_per_frame`.
    per_layer: u64,
    /// Locations by chunk number, which counts along columns first, then rows, then frames. At most
    /// one per chunk.
    #[serde(skip)]
    written: Vec<(u64, ChunkLocation)>,
    /// Layers of chunks with a damaged index entry, in ascending order.
    damaged: Vec<u64>,
    /// Total stored size of all chunks, in bytes.
    bytes: u64,
}

/// Location of a chunk's stored bytes in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLocation {
    pub offset: u64,
    pub bytes: u64,
    pub filter_mask: u32,
}

impl ChunkGrid {
    /// Reads the chunk index of a dataset with the given extents.
    ///
    /// # Errors
    /// The HDF5 library fails, or extents and chunk shape don't match.
    pub(crate) fn read(
        dataset: &Hdf5Object,
        extents: &[u64],
        chunk_shape: &[u64],
    ) -> Result<Self, LibraryError> {
        let chunks = dataset.chunk_index(chunk_shape.len())?;
        Self::new(extents, chunk_shape, &chunks, dataset.has_btree_index()?)
    }

    /// Builds the grid from the chunks in the order of the index. `is_sorted` says that the index
    /// lists chunks in ascending order, so that a chunk out of order is damage.
    fn new(
        extents: &[u64],
        chunk_shape: &[u64],
        chunks: &[StoredChunk],
        is_sorted: bool,
    ) -> Result<Self, LibraryError> {
        let rank = chunk_shape.len();
        if extents.len() != rank {
            return Err(LibraryError::new(format!(
                "chunks of {rank} dimensions in a dataset of {} dimensions",
                extents.len()
            )));
        }
        let extents = to_three_dimensions(extents, rank, 1);
        let chunk = to_three_dimensions(chunk_shape, rank, 1).map(|extent| extent.max(1));
        let across = [extents[1].div_ceil(chunk[1]), extents[2].div_ceil(chunk[2])];
        let layers = extents[0].div_ceil(chunk[0]);
        // The total number of chunks fits in u64, so the numbers of single chunks do, too.
        let per_layer =
            across[0].checked_mul(across[1]).filter(|layer| layer.checked_mul(layers).is_some());
        let per_layer = per_layer.ok_or_else(|| {
            LibraryError::new("extents with more chunks than a 64-bit number can count")
        })?;
        let mut damaged = BTreeSet::new();
        let mut written: Vec<(u64, ChunkLocation)> = Vec::with_capacity(chunks.len());
        for StoredChunk { origin, filter_mask, offset, bytes } in chunks.iter().copied() {
            let origin = to_three_dimensions(&origin, rank, 0);
            // Chunks beyond the extents are not part of the dataset; their frames count as not
            // written.
            if origin.iter().zip(extents).any(|(origin, extent)| *origin >= extent) {
                continue;
            }
            let [frame, row, column] = [0, 1, 2].map(|axis| divide(origin[axis], chunk[axis]));
            let before = frame.saturating_mul(across[0]).saturating_add(row);
            let number = before.saturating_mul(across[1]).saturating_add(column);
            match written.last() {
                Some((before, _)) if is_sorted && *before >= number => {
                    damaged.extend([*before, number])
                }
                _ => (),
            }
            written.push((number, ChunkLocation { offset, bytes, filter_mask }));
        }
        written.sort_unstable_by_key(|(number, _)| *number);
        damaged
            .extend(written.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0));
        damaged.extend(overlapping(&written));
        written.dedup_by_key(|(number, _)| *number);
        let bytes =
            written.iter().fold(0, |sum: u64, (_, location)| sum.saturating_add(location.bytes));
        let mut damaged: Vec<u64> =
            damaged.into_iter().map(|number| divide(number, per_layer)).collect();
        damaged.dedup();
        Ok(Self { chunk, chunks_per_frame: across, per_layer, written, damaged, bytes })
    }

    /// Frames, rows and columns of a chunk.
    pub(crate) fn chunk_shape(&self) -> [u64; 3] {
        self.chunk
    }

    /// Returns the number of frames that share one chunk.
    pub(crate) fn frames_per_chunk(&self) -> u64 {
        self.chunk[0]
    }

    /// Returns the total stored size of all chunks, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether all chunks of a frame have been written, according to the undamaged part of
    /// the index.
    pub(crate) fn is_written(&self, frame: u64) -> bool {
        self.chunks_in_layer(frame).len() as u64 == self.per_layer && !self.is_damaged(frame)
    }

    /// Returns whether a damaged index entry may belong to this frame.
    pub(crate) fn is_damaged(&self, frame: u64) -> bool {
        self.damaged.binary_search(&divide(frame, self.frames_per_chunk())).is_ok()
    }

    /// Returns the chunks that hold a frame, top row first: the first element of each, and its
    /// location.
    pub(crate) fn frame_chunks(
        &self,
        frame: u64,
    ) -> impl Iterator<Item = ([u64; 3], ChunkLocation)> + '_ {
        self.chunks_in_layer(frame)
            .iter()
            .map(|&(number, location)| (self.origin(number), location))
    }

    /// Removes the chunk list and returns it as bytes, because JSON would be slow for millions of
    /// chunks.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let words = |(number, location): &(u64, ChunkLocation)| {
            [*number, location.offset, location.bytes, u64::from(location.filter_mask)]
                .map(u64::to_le_bytes)
        };
        std::mem::take(&mut self.written).iter().flat_map(words).flatten().collect()
    }

    /// Restores the chunk list from the bytes that [`take_bytes`](Self::take_bytes) returned.
    pub(crate) fn restore_bytes(&mut self, bulk: &[u8]) {
        let words = |words: &[[u8; 8]; 4]| {
            let [number, offset, bytes, mask] = words.map(u64::from_le_bytes);
            (number, ChunkLocation { offset, bytes, filter_mask: mask as u32 })
        };
        self.written = bulk.as_chunks().0.as_chunks().0.iter().map(words).collect();
    }

    fn chunks_in_layer(&self, frame: u64) -> &[(u64, ChunkLocation)] {
        let first = divide(frame, self.frames_per_chunk()).saturating_mul(self.per_layer);
        let end = first.saturating_add(self.per_layer);
        let from_first =
            &self.written[self.written.partition_point(|(number, _)| *number < first)..];
        &from_first[..from_first.partition_point(|(number, _)| *number < end)]
    }

    fn origin(&self, number: u64) -> [u64; 3] {
        let (before, column) =
            (divide(number, self.chunks_per_frame[1]), remainder(number, self.chunks_per_frame[1]));
        let (layer, row) =
            (divide(before, self.chunks_per_frame[0]), remainder(before, self.chunks_per_frame[0]));
        [
            layer.saturating_mul(self.chunk[0]),
            row.saturating_mul(self.chunk[1]),
            column.saturating_mul(self.chunk[2]),
        ]
    }
}

/// Divides, and returns 0 for a divisor of 0, which a damaged worker may send as the size of
/// something.
fn divide(number: u64, size: u64) -> u64 {
    number.checked_div(size).unwrap_or_default()
}

/// Returns the remainder of the division, and 0 for a divisor of 0.
fn remainder(number: u64, size: u64) -> u64 {
    number.checked_rem(size).unwrap_or_default()
}

/// Returns the numbers of the chunks whose bytes overlap with the bytes of another chunk.
fn overlapping(written: &[(u64, ChunkLocation)]) -> Vec<u64> {
    let mut by_offset: Vec<&(u64, ChunkLocation)> = written.iter().collect();
    by_offset.sort_by_key(|(_, location)| location.offset);
    let mut found = Vec::new();
    let mut furthest: Option<(u64, u64)> = None;
    for (number, location) in by_offset {
        match furthest {
            // Two empty chunks at the same offset count as damaged, too.
            Some((end, other)) if location.offset < end => found.extend([*number, other]),
            _ => (),
        }
        let end = location.offset.saturating_add(location.bytes.max(1));
        if furthest.is_none_or(|(furthest, _)| end > furthest) {
            furthest = Some((end, *number));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(origin: [u64; 4], offset: u64) -> StoredChunk {
        StoredChunk { origin, filter_mask: 0, offset, bytes: 10 }
    }

    fn grid(extents: &[u64], chunk: &[u64], chunks: &[StoredChunk]) -> ChunkGrid {
        ChunkGrid::new(extents, chunk, chunks, true).unwrap()
    }

    #[test]
    fn a_frame_in_four_pieces_needs_all_four() {
        let corners = [[0, 0, 0, 0], [0, 0, 4, 0], [0, 3, 0, 0], [0, 3, 4, 0]];
        let mut chunks: Vec<_> =
            corners.iter().zip(0..).map(|(&origin, k)| stored(origin, 10 * k)).collect();
        chunks.push(stored([1, 3, 4, 0], 90));
        let grid = grid(&[3, 5, 7], &[1, 3, 4], &chunks);
        assert!(grid.is_written(0) && !grid.is_written(1) && !grid.is_written(2));
        let origins: Vec<_> =
            grid.frame_chunks(0).map(|(origin, location)| (origin, location.offset)).collect();
        assert_eq!(origins, [([0, 0, 0], 0), ([0, 0, 4], 10), ([0, 3, 0], 20), ([0, 3, 4], 30)]);
    }

    #[test]
    fn the_channel_of_a_raw_file_is_left_out() {
        let grid = grid(&[4, 1, 5, 7], &[1, 1, 5, 7], &[stored([3, 0, 0, 0], 7)]);
        assert_eq!(
            grid.frame_chunks(3).next().map(|(origin, location)| (origin, location.offset)),
            Some(([3, 0, 0], 7))
        );
    }

    #[test]
    fn frames_of_one_chunk_share_it() {
        let grid = grid(&[8, 5, 7], &[4, 5, 7], &[stored([4, 0, 0, 0], 7)]);
        assert!(!grid.is_written(3) && grid.is_written(4) && grid.is_written(7));
    }

    /// Describes each of five frames of two chunks each: written, damaged or not written.
    fn said(chunks: &[StoredChunk]) -> String {
        let grid = grid(&[5, 2, 4], &[1, 1, 4], chunks);
        let letter = |frame| match (grid.is_written(frame), grid.is_damaged(frame)) {
            (true, false) => 'w',
            (false, true) => 'd',
            (false, false) => '-',
            (true, true) => '!',
        };
        (0..5).map(letter).collect()
    }

    #[test]
    fn an_entry_that_stands_twice_out_of_order_or_on_another_is_damaged() {
        let sound: Vec<StoredChunk> =
            (0..10).map(|k| stored([k / 2, k % 2, 0, 0], 10 * k)).collect();
        assert_eq!(said(&sound), "wwwww");
        assert_eq!(said(&sound[..7]), "www--");
        let with = |at: usize, change: &dyn Fn(&mut StoredChunk)| {
            let mut chunks = sound.clone();
            change(&mut chunks[at]);
            said(&chunks)
        };
        assert_eq!(with(3, &|chunk| chunk.origin = sound[2].origin), "wdwww", "twice the same");
        assert_eq!(
            with(3, &|chunk| chunk.origin = sound[6].origin),
            "w-ddw",
            "out of order and twice"
        );
        assert_eq!(with(3, &|chunk| chunk.origin[0] = 1 << 40), "w-www", "behind the end");
        assert_eq!(with(3, &|chunk| chunk.origin[0] = u64::MAX), "w-www", "behind the end");
        assert_eq!(with(3, &|chunk| chunk.offset = 60), "wdwdw", "in the same location");
        assert_eq!(with(3, &|chunk| chunk.offset = 65), "wdwdw", "on two");
        assert_eq!(with(3, &|chunk| chunk.bytes = 31), "wdddw", "over three");
        assert_eq!(with(3, &|chunk| chunk.bytes = u64::MAX), "wdddd", "over all behind it");
        assert_eq!(with(3, &|chunk| chunk.bytes = 0), "wwwww", "told when it is decoded");
    }

    #[test]
    fn extents_and_chunks_of_any_size_do_not_overflow() {
        let huge = u64::MAX;
        for (extents, chunk) in [
            ([huge; 3], [1; 3]),
            ([huge; 3], [huge; 3]),
            ([0; 3], [1; 3]),
            ([huge, 1, 1], [1, huge, 0]),
        ] {
            let chunks =
                [stored([huge - 1, 0, 0, 0], huge), stored([huge, huge, huge, huge], huge - 1)];
            if let Ok(grid) = ChunkGrid::new(&extents, &chunk, &chunks, true) {
                for frame in [0, 1, huge] {
                    let _ = (
                        grid.is_written(frame),
                        grid.is_damaged(frame),
                        grid.frame_chunks(frame).count(),
                    );
                }
            }
        }
        assert!(ChunkGrid::new(&[1, 2, 3], &[1, 2], &[], true).is_err());
    }

    #[test]
    fn chunks_travel_as_bytes() {
        let sound = grid(
            &[5, 2, 4],
            &[1, 1, 4],
            &[stored([1, 0, 0, 0], u64::MAX - 9), stored([1, 1, 0, 0], 7)],
        );
        let mut sent = sound.clone();
        let bulk = sent.take_bytes();
        assert!(sent.written.is_empty());
        let text = serde_json::to_string(&sent).unwrap();
        let mut back: ChunkGrid = serde_json::from_str(&text).unwrap();
        back.restore_bytes(&bulk);
        assert_eq!(format!("{back:?}"), format!("{sound:?}"));
    }
}
