//! Decodes stored chunks to pixels: undoes HDF5's filters in memory, without the HDF5 library.
//!
//! Chunks may be truncated or corrupt. Therefore every length in a stream is compared with what the chunk must decode
//! to before it is used, and no length from a stream makes azpipe allocate more than a frame needs. Bytes after the end
//! of a stream are ignored, as by the HDF5 plugins that write these streams.

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
