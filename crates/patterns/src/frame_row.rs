//! What an integration gives: sums per bin, those of a frame and those that frames share.

use crate::{PatternAxes, Status};

/// What the pixels of a bin weigh, one value a bin (azimuth-major for a cake). With `w` the share of
/// a pixel that falls in the bin, and `n` the pixel's normalization (solid angle, polarization, flat):
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinWeights {
    /// `W`, the sum of `w n`; zero where the bin has no pixel.
    pub norm: Vec<f64>,
    /// `W₂`, the sum of `w² n²`.
    pub norm_sq: Vec<f64>,
    /// `C`, the sum of `w`.
    pub count: Vec<f64>,
}

/// What all frames of a recipe share.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedBins {
    /// Where the bins are.
    pub axes: PatternAxes,
    /// The bins' weights in a frame that invalidates no pixel.
    pub weights: BinWeights,
}

/// One frame's sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameRow {
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
    pub weight_override: Option<BinWeights>,
}

impl FrameRow {
    /// A frame without a pattern.
    pub fn without_sums(frame: u64, status: Status, monitor: f64) -> Self {
        Self { frame, status, monitor, ..Self::default() }
    }

    /// Whether there are sums. A frame with a bad monitor may have them, and no pattern.
    pub fn has_sums(&self) -> bool {
        !self.signal.is_empty()
    }

    /// Whether both rows say the same of the frame, to the bit.
    pub fn is_bit_identical(&self, other: &Self) -> bool {
        let exceptions = match (&self.weight_override, &other.weight_override) {
            (Some(one), Some(two)) => {
                equal_bits(&one.norm, &two.norm)
                    && equal_bits(&one.norm_sq, &two.norm_sq)
                    && equal_bits(&one.count, &two.count)
            }
            (None, None) => true,
            _ => false,
        };
        exceptions
            && (self.frame, self.status) == (other.frame, other.status)
            && equal_bits(&[self.monitor], &[other.monitor])
            && equal_bits(&self.signal, &other.signal)
            && match (&self.variance, &other.variance) {
                (Some(one), Some(two)) => equal_bits(one, two),
                (one, two) => one.is_none() && two.is_none(),
            }
    }
}

/// Equal bits; any NaN equals any other.
fn equal_bits(one: &[f64], two: &[f64]) -> bool {
    one.len() == two.len() && one.iter().zip(two).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}
