//! Files of every kind that frames are read from, made by the HDF5 library itself.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod build;
mod dectris;
mod ffi;
mod hostile;
mod images;
mod layouts;
mod masters;
mod untouched;
mod virtuals;
