//! The results of an integration: the sums of a frame, and the bins and weights that all frames
//! share.

use std::sync::Arc;

use crate::sparse_pixels::SparseFrame;
use crate::{PatternAxes, Status};

/// Weights of the bins: sums over the pixels of a bin, with one value per bin (azimuth-major for a
/// cake). `w` is the fraction of a pixel that falls in the bin, and `n` the pixel's normalization
/// (solid angle, polarization, flat).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinWeights {
    /// `W`, the sum of `w n`; zero for a bin without pixels.
    pub norm: Vec<f64>,
    /// `W₂`, the sum of `w² n²`.
    pub norm_sq: Vec<f64>,
    /// `C`, the sum of `w`.
    pub count: Vec<f64>,
}

/// Axes and weights that all frames of a recipe have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedBins {
    /// Axes of the bins.
    pub axes: PatternAxes,
    /// Weights of the bins in a frame whose only invalid pixels are the masked ones.
    pub weights: BinWeights,
}

/// Sums of one frame, as a part stores them. ai-integrate makes it from `kernels::Sums`, and adds
/// the frame's number, status, monitor and digest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameRow {
    /// Number of the frame in its scan.
    pub frame: u64,
    /// [`Status::Ok`], or the reason why the frame has no pattern.
    pub status: Status,
    /// XXH3-64 of the frame's stored bytes, in the order of their chunks; 0 if there are none.
    pub stored_digest: u64,
    /// Monitor value of the frame; NaN if there is none.
    pub monitor: f64,
    /// `S`, the sum of `w` × (counts - dark), one value per bin; empty if the frame has no sums.
    pub signal: Vec<f64>,
    /// `V`, the sum of `w² σ²`, one value per bin; `None` without an error model.
    pub variance: Option<Vec<f64>>,
    /// Weights of this frame, if it has invalid pixels that other frames don't have;
    /// `kernels::WeightOverride`. Rows of frames with the same invalid pixels share it. Files store
    /// it in the group `exceptions`.
    pub weight_override: Option<Arc<BinWeights>>,
    /// Pixels that sigma clipping rejected; `None` if they were not asked for, and in rows that are
    /// read for their sums.
    pub sparse: Option<SparseFrame>,
}

impl FrameRow {
    /// Creates the row of a frame without sums.
    pub fn without_sums(frame: u64, status: Status, monitor: f64) -> Self {
        Self { frame, status, monitor, ..Self::default() }
    }

    /// Returns the weights of the frame, `shared` if it has none of its own.
    pub fn weights<'a>(&'a self, shared: &'a BinWeights) -> &'a BinWeights {
        self.weight_override.as_deref().unwrap_or(shared)
    }

    /// Returns whether the frame has sums. A frame with an unusable monitor has sums and no
    /// pattern.
    pub fn has_sums(&self) -> bool {
        !self.signal.is_empty()
    }
}
