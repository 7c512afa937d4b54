//! Where the pixels are: Bliss, Lima, Dectris and other HDF5 files, and single images.
//!
//! [`discover`] says which scans a file holds, and which rows of which files their frames are. [`source`]
//! opens one of those files and says where in it the stored bytes of a frame are, and how they are
//! coded; decoding them is not done here. [`image`] reads single images, [`hdf5_array`] small arrays.
//!
//! Files are opened read-only and without HDF5's file lock: the beamline may still be writing them.
//! The HDF5 library is asked for metadata alone, the bytes of frames are read past it.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod coding;
pub mod dataset_path;
pub mod discover;
pub mod hdf5_array;
pub mod hdf5_worker;
pub mod image;
pub mod source;
pub mod watchdog;

mod chunk_grid;
mod coalesced_read;
mod ffi;
mod frame_shape;
mod open_ahead;
mod page_cache;

pub use ffi::driver::{ByteKind, SharedStorage, Storage, create_with_storage, open_with_storage};
pub use open_ahead::{open, open_ahead, prefetch_to_read};

pub use ffi::{attribute_exists, link_exists, write_chunk};
