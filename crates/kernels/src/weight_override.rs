//! [`WeightOverride`], the weights of the bins of a frame with invalid pixels.

/// A frame's own norm, norm_sq and count, which take the place of the plan's because pixels that
/// the plan uses are invalid in this frame. Exactly zero in a bin without valid pixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeightOverride {
    /// Σ w n, where n is the pixel's normalization (solid angle, polarization, flat field,
    /// absorption).
    pub norm: Vec<f64>,
    /// Σ w² n².
    pub norm_sq: Vec<f64>,
    /// Σ w.
    pub count: Vec<f64>,
}
