//! What an integration gives: sums per bin, those of a frame and those that frames share.

use crate::{Axes, Status};

/// What the pixels of a bin weigh, one value a bin (azimuth-major for a cake). With `w` the share of
/// a pixel that falls in the bin, and `n` the pixel's normalization (solid angle, polarization, flat):
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// `W`, the sum of `w n`; zero where the bin has no pixel.
    pub norm: Vec<f64>,
    /// `W₂`, the sum of `w² n²`.
    pub norm_sq: Vec<f64>,
    /// `C`, the sum of `w`.
    pub count: Vec<f64>,
}

/// What all frames of a recipe share.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Where the bins are.
    pub axes: Axes,
    /// The bins' weights in a frame that invalidates no pixel.
    pub weights: Weights,
}

/// One frame's sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its number in the scan.
    pub frame: u64,
    /// Whether it has sums, or why not.
    pub status: Status,
    /// XXH3-64 of its stored bytes, in the order of their chunks; 0 where there are none.
    pub stored_digest: u64,
    /// Its monitor; NaN where it has none.
    pub monitor: f64,
    /// `S`, the sum of `w` × counts less the dark, one value a bin; empty without a pattern.
    pub signal: Vec<f64>,
    /// `V`, the sum of `w² σ²`; absent without an error model.
    pub variance: Option<Vec<f64>>,
    /// The frame's own weights, where it invalidates pixels that others do not.
    pub exception: Option<Weights>,
}

impl Row {
    /// A frame without a pattern.
    pub fn lost(frame: u64, status: Status, monitor: f64) -> Self {
        Self { frame, status, monitor, ..Self::default() }
    }

    /// Whether there are sums. A frame with a bad monitor may have them, and no pattern.
    pub fn has_sums(&self) -> bool {
        !self.signal.is_empty()
    }

    /// Whether both rows say the same of the frame, to the bit.
    pub fn agrees(&self, other: &Self) -> bool {
        let exceptions = match (&self.exception, &other.exception) {
            (Some(one), Some(two)) => {
                same(&one.norm, &two.norm) && same(&one.norm_sq, &two.norm_sq) && same(&one.count, &two.count)
            }
            (None, None) => true,
            _ => false,
        };
        exceptions
            && (self.frame, self.status) == (other.frame, other.status)
            && same(&[self.monitor], &[other.monitor])
            && same(&self.signal, &other.signal)
            && match (&self.variance, &other.variance) {
                (Some(one), Some(two)) => same(one, two),
                (one, two) => one.is_none() && two.is_none(),
            }
    }
}

/// Equal bits; any NaN equals any other.
fn same(one: &[f64], two: &[f64]) -> bool {
    one.len() == two.len() && one.iter().zip(two).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}
