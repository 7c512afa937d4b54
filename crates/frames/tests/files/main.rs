//! Files of every kind that frames are read from, made by the HDF5 library itself.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod bliss;
mod damaged;
mod dectris;
mod ffi;
mod images;
mod no_side_effects;
mod storage_layouts;
mod support;
mod virtual_datasets;
