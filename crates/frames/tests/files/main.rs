//! Tests reading of frames from files of every kind, most of them written by the HDF5 library.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod arrays;
mod bliss;
mod damaged;
mod dectris;
mod ffi;
mod images;
mod lima;
mod no_side_effects;
mod storage_layouts;
mod support;
mod virtual_datasets;
