//! From a stored chunk to pixels: HDF5's filters, undone in memory.
//!
//! Streams come from disks, networks and dying writers, so every length in them is a claim: none is believed before it
//! is compared with what the chunk must decode to, and nothing is allocated that the frame itself would not need. Bytes
//! behind a stream's end are not looked at, nor do the libraries that write such streams.

pub(crate) mod bitshuffle;
mod deflate;
mod error;
mod fletcher;
mod lz4;
mod pipeline;
mod shuffle;
mod zstandard;

pub use error::{DecodeError, Fault};
pub use pipeline::Pipeline;
