//! Finds scans in HDF5 and image files, and reads the stored (still compressed) chunks of their
//! frames.
//!
//! scan-find, plan-split and ai-integrate use this crate for every raw file: Bliss masters, Lima
//! and Lima 2 files, Dectris masters, NeXus files, and TIFF, CBF, EDF or NPY images. Decoding of
//! chunks is left to the caller.
//!
//! # Entry points
//! - [`discover`]: lists the scans of a file, as the records `scan` that say which row of which
//!   file holds each frame.
//! - [`source`]: opens one of these files, locates the chunks of each frame, and reads their bytes.
//! - [`image`]: reads single images; [`hdf5_array`]: reads small arrays and texts from HDF5 files.
//! - [`run_with_worker`]: lets a filter read HDF5 metadata in a separate process, which may crash
//!   or hang on a damaged file.
//! - [`file_check`]: has that process read a file's structure before this one calls the library on
//!   it.
//! - [`open_ahead()`]: opens files early on a thread pool; [`watchdog`]: ends a process whose HDF5
//!   call hangs.
//!
//! # Flow
//! 1. [`discover::discover`] reads the metadata of a master, follows links and virtual datasets,
//!    and returns each detector of each scan with its sources: file, dataset and rows of the
//!    frames.
//! 2. [`source::SourceReader::open`] reads the chunk index of a source once, through the HDF5
//!    library.
//! 3. [`source::SourceReader::frame_chunks`] locates a frame, and
//!    [`source::SourceReader::read_chunk`] reads the stored bytes with positioned reads, from any
//!    number of threads and without the library's lock.
//!
//! Files are opened read-only and without HDF5's file lock, because the beamline may still be
//! writing them.
//!
//! # Example
//! ```no_run
//! use frames::discover::{AllScans, DiscoveryKind, discover};
//! use frames::source::{FrameChunks, SourceReader};
//!
//! for found in discover("/data/sample_0001.h5".as_ref(), &AllScans) {
//!     let DiscoveryKind::Scan(scan) = &found.kind else { continue };
//!     let Some(source) = scan.sources.first() else { continue };
//!     let reader = SourceReader::open_any(source)?;
//!     if let FrameChunks::Whole(chunk) = reader.frame_chunks(0) {
//!         let mut stored = Vec::new();
//!         reader.read_chunk(&chunk, &mut stored)?;
//!         println!("{}: {} bytes, {}", found.display_path(), stored.len(), reader.coding().name());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod coding;
pub mod dataset_files;
pub mod dataset_path;
pub mod discover;
pub mod file_check;
pub mod hdf5_array;
pub mod image;
pub mod source;
pub mod watchdog;

mod chunk;
mod chunk_grid;
mod coalesced_read;
mod ffi;
mod file_timeout;
mod frame_shape;
mod hdf5_worker;
#[cfg(test)]
mod message_tests;
mod open_ahead;
mod page_cache;
mod prefetch;
mod storage_wait;
mod worker_requests;

pub use ffi::driver::{ByteKind, SharedStorage, Storage, create_with_storage, open_with_storage};
pub use file_timeout::{FileTimeoutError, check_file_timeout};
pub use open_ahead::open;
pub use prefetch::{open_ahead, prefetch_to_read};

pub use ffi::{
    LibraryError, ScaledDataset, attach_dimension_scales, attribute_exists, is_memory_error,
    link_exists, read_chunk, start_library, write_chunk,
};
pub use worker_requests::run_with_worker;
