//! The chunks of a stack of frames, by their place in it.

use crate::ffi::StoredChunk;
use crate::stack::three;

/// The chunks of a dataset that have been written.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// Frames, rows and columns of a chunk.
    chunk: [u64; 3],
    /// How many chunks beside and below each other make up a frame.
    across: [u64; 2],
    /// By their number: frames first, then rows, then columns.
    written: Vec<(u64, Place)>,
}

/// Where a chunk's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub offset: u64,
    pub bytes: u64,
    pub filter_mask: u32,
}

impl Grid {
    /// The chunks of a dataset of `rank` dimensions with frames of `shape`.
    pub(crate) fn new(shape: [u64; 2], chunk_shape: &[u64], chunks: &[StoredChunk]) -> Self {
        let rank = chunk_shape.len();
        let chunk = three(chunk_shape, rank, 1).map(|extent| extent.max(1));
        let across = [shape[0].div_ceil(chunk[1]), shape[1].div_ceil(chunk[2])];
        let number = |origin: [u64; 3]| {
            let [frame, row, column] = [origin[0] / chunk[0], origin[1] / chunk[1], origin[2] / chunk[2]];
            (frame * across[0] + row) * across[1] + column
        };
        let place = |stored: &StoredChunk| {
            let StoredChunk { origin, filter_mask, offset, bytes } = *stored;
            (number(three(&origin, rank, 0)), Place { offset, bytes, filter_mask })
        };
        let mut written: Vec<_> = chunks.iter().map(place).collect();
        written.sort_unstable_by_key(|(number, _)| *number);
        Self { chunk, across, written }
    }

    /// Frames, rows and columns of a chunk.
    pub(crate) fn chunk_shape(&self) -> [u64; 3] {
        self.chunk
    }

    /// How many frames lie in one chunk.
    pub(crate) fn depth(&self) -> u64 {
        self.chunk[0]
    }

    /// Whether each of a frame's pixels is in a chunk that has been written.
    pub(crate) fn is_written(&self, frame: u64) -> bool {
        self.layer(frame).len() as u64 == self.per_layer()
    }

    /// The chunks that hold a frame: where each begins, and where its bytes are. Rows first.
    pub(crate) fn of_frame(&self, frame: u64) -> impl Iterator<Item = ([u64; 3], Place)> + '_ {
        self.layer(frame).iter().map(|&(number, place)| (self.origin(number), place))
    }

    fn per_layer(&self) -> u64 {
        self.across[0] * self.across[1]
    }

    fn layer(&self, frame: u64) -> &[(u64, Place)] {
        let first = frame / self.depth() * self.per_layer();
        let from = self.written.partition_point(|(number, _)| *number < first);
        let behind = self.written[from..].partition_point(|(number, _)| *number < first + self.per_layer());
        &self.written[from..from + behind]
    }

    fn origin(&self, number: u64) -> [u64; 3] {
        let (layer, within) = (number / self.per_layer(), number % self.per_layer());
        let (row, column) = (within / self.across[1], within % self.across[1]);
        [layer * self.chunk[0], row * self.chunk[1], column * self.chunk[2]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(origin: [u64; 4], offset: u64) -> StoredChunk {
        StoredChunk { origin, filter_mask: 0, offset, bytes: 10 }
    }

    #[test]
    fn a_frame_in_four_pieces_needs_all_four() {
        let corners = [[0, 0, 0, 0], [0, 0, 4, 0], [0, 3, 0, 0], [0, 3, 4, 0]];
        let mut chunks: Vec<_> = corners.iter().zip(0..).map(|(&origin, k)| stored(origin, k)).collect();
        chunks.push(stored([1, 3, 4, 0], 9));
        let grid = Grid::new([5, 7], &[1, 3, 4], &chunks);
        assert!(grid.is_written(0) && !grid.is_written(1) && !grid.is_written(2));
        let origins: Vec<_> = grid.of_frame(0).map(|(origin, place)| (origin, place.offset)).collect();
        assert_eq!(origins, [([0, 0, 0], 0), ([0, 0, 4], 1), ([0, 3, 0], 2), ([0, 3, 4], 3)]);
    }

    #[test]
    fn the_channel_of_a_raw_file_is_left_out() {
        let grid = Grid::new([5, 7], &[1, 1, 5, 7], &[stored([3, 0, 0, 0], 7)]);
        assert_eq!(grid.of_frame(3).next().map(|(origin, place)| (origin, place.offset)), Some(([3, 0, 0], 7)));
    }

    #[test]
    fn frames_of_one_chunk_share_it() {
        let grid = Grid::new([5, 7], &[4, 5, 7], &[stored([4, 0, 0, 0], 7)]);
        assert!(!grid.is_written(3) && grid.is_written(4) && grid.is_written(7));
    }
}
