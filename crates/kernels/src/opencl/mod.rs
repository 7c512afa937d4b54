//! Integration on OpenCL devices.
//!
//! Chunks cross the bus as they are stored, with the places of their blocks beside them. A work-group decodes blocks of
//! one frame into the memory that it has to itself, unshuffles them there, and adds the pixels to the bins
//! that the blocks reach: a frame never passes through the device's memory. Two frames' sums do not meet, and each sum has one
//! order, so results are the same bytes on every run of a device, whatever the batch; with those of [`crate::accumulate`]
//! they agree to the rounding of doubles, or of pairs of floats where a device has no doubles. Norms and invalid
//! pixels' exceptions are made by the processor, and equal to the bit.
//!
//! Several plans share what is sent, and the kernels run once for each: what one gives does not depend on the others.
//!
//! Methods that look at all pixels of a bin are given whole frames in the device's memory (`by_bin.cl`), and keep the order of
//! [`crate::ByBin`]: their results are its bytes.
//!
//! Bitshuffled LZ4 is decoded by the device; all else by the processor, which sends pixels. A frame that the device
//! finds damaged is looked at again by the processor, whose word counts.
//!
//! The library is found when it is first asked for (see the crate `opencl-loader`): where there is none, [`all_devices`]
//! says what is missing, and nothing else happens.
#![allow(unsafe_code)] // OpenCL is a C interface; each use says why it is sound.

mod buffer;
mod csr;
mod device;
mod discovery;
mod error;
mod launch;
mod program;
mod queue;
mod queues;
mod slot_layout;

pub use device::{Device, DeviceSettings, StageTimes};
pub use discovery::{DeviceDescription, DeviceKind, OpenClUnavailable, PciAddress, all_devices};
pub use error::DeviceError;
pub use queues::DeviceQueues;
