//! [`LaunchJob`], the plans and frames that go to a device, and the outcome of each frame.

use std::sync::Arc;

use super::buffer::DeviceBuffer;
use super::matrix::DeviceMatrix;
use super::program::KernelVariant;
use crate::codec::bitshuffle::BlockOffsets;
use crate::codec::{DecodeError, Pipeline};
use crate::encoded_frame::EncodedFrame;
use crate::photon_sums::PhotonSums;
use crate::plan::IntegrationPlan;
use crate::robust::CsrMatrix;

/// The part of a call that all its launches have in common.
pub(super) struct LaunchJob<'a> {
    pub(super) pipeline: &'a Pipeline,
    /// One or more plans, all for frames of the same size in blocks of the same size.
    pub(super) plans: Vec<DevicePlan<'a>>,
}

/// An integration plan prepared for a device.
pub(super) struct DevicePlan<'a> {
    pub(super) plan: &'a IntegrationPlan,
    /// The CSR matrix, for statistics that need all pixels of a bin.
    pub(super) csr: Option<&'a CsrMatrix>,
    pub(super) variant: KernelVariant,
    pub(super) matrix: Arc<DeviceMatrix>,
    /// Ranges of invalid values: pairs of the lowest and the highest pixel, both included.
    pub(super) ranges: Arc<DeviceBuffer>,
    /// Number of ranges.
    pub(super) range_count: u32,
}

impl LaunchJob<'_> {
    /// Returns the bytes of a decoded frame.
    pub(super) fn frame_bytes(&self) -> usize {
        self.plans[0].plan.pixels() * self.plans[0].variant.dtype.size()
    }

    /// Returns the number of tiles of a frame.
    pub(super) fn tile_count(&self) -> usize {
        self.plans[0].matrix.tiles as usize
    }

    /// Returns the bytes of one frame's bitmap of invalid pixels.
    pub(super) fn invalid_bytes(&self) -> usize {
        self.tile_count() * (self.plans[0].variant.elements() / 8 + 1)
    }
}

/// A frame to be integrated.
pub(super) struct LaunchFrame<'a> {
    /// Index of the frame in the call.
    pub(super) index: usize,
    pub(super) stored: EncodedFrame<'a>,
    /// Offsets of the frame's blocks, if the device decodes them; otherwise the CPU decodes the
    /// frame.
    pub(super) block_offsets: Option<BlockOffsets>,
}

/// The outcome of a frame.
pub(super) enum FrameOutcome {
    /// The sums of each plan.
    Sums(Vec<FrameSums>),
    /// The CPU, which decodes the frame for the device, found it damaged.
    DecodeFailed(DecodeError),
    /// The device found the frame damaged.
    DamagedOnDevice,
}

/// The sums of a frame for one plan, as the device computes them.
pub(super) enum FrameSums {
    /// Sums over the photons of all valid pixels, before the plan's static sums are applied.
    Photons(DevicePhotonSums),
    /// Sums over selected pixels, for [`CsrMatrix::sums_from_device`].
    Selected(Vec<f64>),
}

/// Sums over the photons of a frame, and its invalid pixels.
pub(super) struct DevicePhotonSums {
    pub(super) sums: PhotonSums,
    /// Bitmap of the invalid pixels, in the layout of [`super::slot_layout::SlotLayout::used`];
    /// `None` if there are none.
    pub(super) invalid: Option<Vec<u8>>,
}
