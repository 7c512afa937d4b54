//! Where the pixels are: Bliss, Lima, Dectris and other HDF5 files, and single images.
//!
//! [`find`] says which scans a file holds, and which rows of which files their frames are. [`store`]
//! opens one of those files and says where in it the stored bytes of a frame are, and how they are
//! coded; decoding them is not done here. [`image`] reads single images, [`hdf5_array`] small arrays.
//!
//! Files are opened read-only and without HDF5's file lock: the beamline may still be writing them.
//! The HDF5 library is asked for metadata alone, the bytes of frames are read past it.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod address;
pub mod coding;
pub mod find;
pub mod hdf5_array;
pub mod image;
pub mod store;
pub mod watchdog;
pub mod worker;

mod cached;
mod ffi;
mod grid;
mod prefetch;
mod run;
mod stack;

pub use ffi::driver::{Bytes, SharedStorage, Storage, create_in, open_in};
pub use prefetch::{open, prefetch, prefetch_to_read};

pub use ffi::{attribute_exists, link_exists, write_chunk};
