//! The contents of a NeXus detector file.

use crate::PixelCorners;

/// The contents of a NeXus detector file as pyFAI writes it (class NXdetector). Crate `integrator`
/// reads the file; this crate does not link HDF5.
#[derive(Clone, Debug, Default)]
pub struct NexusDetector {
    /// Name of the HDF5 group, or of the file.
    pub name: String,
    /// Dataset `shape`, or `max_shape` if there is no `shape`: rows and columns.
    pub shape: Option<[usize; 2]>,
    /// Dataset `pixel_size`, in metres along the slow and the fast axis.
    pub pixel_size: Option<[f64; 2]>,
    /// Dataset `pixel_corners`, if the pixels are no regular grid.
    pub corners: Option<PixelCorners>,
    /// Dataset `mask`, row-major; true where the dataset is not zero.
    pub mask: Option<Vec<bool>>,
    /// Dataset `orientation`, 1 to 4.
    pub orientation: Option<u64>,
    /// Dataset `dummy`: the value of invalid pixels.
    pub dummy: Option<f64>,
    /// Dataset `delta_dummy`: the largest difference from `dummy` at which a pixel is invalid.
    pub delta: Option<f64>,
}
