//! Where the pixels of a frame are stored: the chunks that hold it, or the reason why there are
//! none.

/// Reason of a frame whose chunks are not all written.
pub const NOT_WRITTEN: &str = "not written";

/// Chunks that hold the pixels of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameChunks {
    /// One chunk that holds exactly this frame.
    Whole(Chunk),
    /// Several chunks, or one chunk that also holds other frames or extends beyond the frame.
    /// Ordered by rows first.
    Pieces(Vec<Chunk>),
    /// The file holds no data for the frame, with the reason.
    NoData(String),
    /// Unknown, because the file is damaged, with the reason.
    Damaged(String),
}

/// A contiguous range of stored bytes, and the pixels that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Offset in the file. No other chunk of the source has the same offset.
    pub offset: u64,
    /// Number of stored bytes.
    pub len: u64,
    /// Bit k is set if filter k of the coding was skipped.
    pub filter_mask: u32,
    /// First frame (row of the dataset), row and column that the chunk holds.
    pub origin: [u64; 3],
    /// Number of frames, rows and columns after decoding. The chunk may extend beyond the frame,
    /// and beyond the last frame.
    pub shape: [u64; 3],
}
