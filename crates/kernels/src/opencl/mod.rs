//! Integration on OpenCL devices.
//!
//! The library is found when it is first asked for (see the crate `opencl-loader`): where there is none, [`devices`]
//! says what is missing, and nothing else happens.
#![allow(unsafe_code)] // OpenCL is a C interface; each use says why it is sound.

mod discovery;

pub use discovery::{Description, DeviceKind, Pci, Unavailable, devices};
