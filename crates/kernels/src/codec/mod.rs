//! Decodes stored chunks to pixels: undoes HDF5's filters in memory, without the HDF5 library.
//!
//! Chunks may be truncated or corrupt. Therefore every length in a stream is compared with what the
//! chunk must decode to before it is used, and no length from a stream makes azpipe allocate more
//! than a frame needs. Bytes after the end of a stream are ignored, as by the HDF5 plugins that
//! write these streams.

pub(crate) mod bitshuffle;
mod blosc;
mod deflate;
mod error;
mod filter;
mod fletcher32;
mod lz4;
mod pipeline;
mod shuffle;
mod zstd;

pub use error::{DecodeError, StreamFault};
pub use pipeline::Pipeline;

use filter::SupportedFilter;

/// All filters that azpipe undoes, one line for each.
static FILTERS: [SupportedFilter; 7] = [
    deflate::FILTER,
    shuffle::FILTER,
    fletcher32::FILTER,
    lz4::FILTER,
    bitshuffle::FILTER,
    zstd::FILTER,
    blosc::FILTER,
];

/// Lists the names of all filters that azpipe undoes, for messages: `deflate, shuffle or zstd`.
fn list_names() -> String {
    let names =
        FILTERS.each_ref().map(|filter| hdf5_filters::filter_name(filter.id).unwrap_or("unknown"));
    match names.split_last() {
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
