//! Integration on OpenCL devices.
//!
//! [`all_devices`] lists the devices, [`Device::open`] compiles kernels for one, and
//! [`DeviceQueues`] integrates frames on it: the counterpart of [`crate::integrate_frames`].
//!
//! Flow of a batch: [`DeviceQueues`] splits it into launches and gives each to a command queue in
//! turn. A launch copies the stored chunks and the offsets of their blocks to the device. For each
//! plan, two kernels run: the first decodes frames, and after the second the sums of each bin are
//! complete. Then the sums are read back, and the CPU completes them to [`crate::Sums`].
//!
//! - Sums (`integrate.cl`): a work-group decompresses the blocks of one frame to its local memory,
//!   unshuffles them there and adds the pixels to the bins. Decoded frames never reach the device's
//!   global memory. Frames do not share sums and each sum has a fixed order, so the results of a
//!   device are the same bytes on every run and in every batch. They agree with
//!   [`crate::accumulate_frame`] up to the rounding of doubles, or of pairs of floats on devices
//!   without doubles. The CPU computes norms, and weights without invalid pixels; these are equal
//!   to the bit.
//! - Statistics of all pixels of a bin (`csr.cl`): decoded frames are kept in the device's global
//!   memory. The kernels sum in the order of [`crate::CsrMatrix`] and give the same bytes.
//!
//! Several plans share one copy of the chunks, and the kernels run once for each plan. Plans don't
//! affect each other.
//!
//! The device decodes bitshuffled LZ4. For all other codecs the CPU decodes, and sends pixels. If
//! the device finds a frame damaged, the CPU decodes it again and decides.
//!
//! The OpenCL library is loaded when it is first used (see crate `opencl-loader`). If it is not
//! installed, [`all_devices`] returns an error that says what is missing.
//!
//! ```no_run
//! use std::error::Error;
//! use std::sync::Arc;
//!
//! use kernels::opencl::{Device, DeviceQueues, DeviceSettings, all_devices};
//! use kernels::{IntegrationPlan, InvalidValues, Pipeline, EncodedFrame, Sums};
//!
//! fn integrate(pipeline: &Pipeline, plan: &IntegrationPlan, chunks: &[Vec<u8>]) -> Result<Vec<Sums>, Box<dyn Error>> {
//!     let devices = all_devices()?;
//!     let description = devices.iter().find(|device| device.unusable.is_none()).ok_or("no usable device")?;
//!     let device = Arc::new(Device::open(description, DeviceSettings::default())?);
//!     let mut queues = DeviceQueues::new(device, 2)?;
//!     let frames: Vec<_> = chunks.iter().map(|bytes| EncodedFrame { bytes, filter_mask: 0 }).collect();
//!     let sums = queues.integrate(pipeline, plan, &InvalidValues::none(), &frames)?;
//!     Ok(sums.into_iter().collect::<Result<_, _>>()?)
//! }
//! ```
#![allow(unsafe_code)] // OpenCL is a C interface. Each unsafe block says what it relies on.

mod arguments;
mod buffer;
mod csr;
mod device;
mod device_queues;
mod discovery;
mod error;
mod job;
mod launch;
mod launch_buffers;
mod matrix;
mod program;
mod queue;
mod slot_layout;
mod slots;

pub use device::{Device, DeviceSettings, StageTimes};
pub use device_queues::DeviceQueues;
pub use discovery::{DeviceDescription, DeviceKind, OpenClUnavailable, PciAddress, all_devices};
pub use error::DeviceError;
