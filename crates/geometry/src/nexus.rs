//! What a NeXus detector file says about a detector.

use crate::PixelCorners;

/// The contents of a NeXus detector file as pyFAI writes it (NXdetector), read by whoever has HDF5.
#[derive(Clone, Debug, Default)]
pub struct NexusDetector {
    /// The name of the group, or of the file.
    pub name: String,
    /// `shape`, or `max_shape` where there is no `shape`: rows and columns.
    pub shape: Option<[usize; 2]>,
    /// `pixel_size` along the slow and the fast axis, metres.
    pub pixel_size: Option<[f64; 2]>,
    /// `pixel_corners`, where pixels are not an even grid.
    pub corners: Option<PixelCorners>,
    /// `mask`, row-major, true where it is not zero.
    pub mask: Option<Vec<bool>>,
    /// `orientation`, 1 to 4.
    pub orientation: Option<u64>,
    /// `dummy`.
    pub dummy: Option<f64>,
    /// `delta_dummy`.
    pub delta: Option<f64>,
}
