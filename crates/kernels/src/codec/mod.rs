//! From a stored chunk to pixels: HDF5's filters, undone in memory.
//!
//! Streams come from disks, networks and dying writers, so every length in them is a claim: none is believed before it
//! is compared with what the chunk must decode to, and nothing is allocated that the frame itself would not need. Bytes
//! behind a stream's end are not looked at, nor do the libraries that write such streams.

pub(crate) mod bitshuffle;
mod deflate;
mod error;
mod fletcher32;
mod lz4;
mod pipeline;
mod shuffle;
mod zstd;

pub use error::{DecodeError, StreamFault};
pub use pipeline::Pipeline;
