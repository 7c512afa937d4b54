//! [`FrameSumAccumulator`]: means and sums of frames.

use crate::output::average::{AverageMethod, AveragePattern};
use crate::variance::PhotonVariance;
use crate::{BinWeights, FrameRow, Normalizer};

/// Sums over frames, added in ascending order of the frames.
pub(crate) struct FrameSumAccumulator {
    frames: u64,
    signal: Vec<f64>,
    variance: Option<PhotonVariance>,
    norm: Vec<f64>,
    norm_sq: Vec<f64>,
}

impl FrameSumAccumulator {
    /// Creates sums of zero.
    pub fn new(bins: usize, normalizer: &Normalizer) -> Self {
        let variance = normalizer.has_errors().then(|| PhotonVariance::new(bins));
        let zeros = || vec![0.0; bins];
        Self { frames: 0, signal: zeros(), variance, norm: zeros(), norm_sq: zeros() }
    }

    /// Adds the sums `row` of a frame that has a pattern. `scale` is the factor of its weights,
    /// `counted` the photon variance of a merged frame and the number of members, and `shared` are
    /// the weights of frames without a weight override.
    pub fn add(
        &mut self,
        row: &FrameRow,
        scale: f64,
        counted: Option<&(PhotonVariance, usize)>,
        shared: &BinWeights,
        normalizer: &Normalizer,
    ) {
        let weights = row.weights(shared);
        self.frames = self.frames.saturating_add(1);
        self.signal.iter_mut().zip(&row.signal).for_each(|(sum, value)| *sum += value);
        self.norm.iter_mut().zip(&weights.norm).for_each(|(sum, norm)| *sum += norm * scale);
        let squares = self.norm_sq.iter_mut().zip(&weights.norm_sq);
        squares.for_each(|(sum, norm_sq)| *sum += norm_sq * scale * scale);
        if let Some(sums) = &mut self.variance {
            match counted {
                Some((counted, members)) => sums.add_members(counted, *members),
                None => normalizer.variance_rule().add_frame_variance(row, weights, shared, sums),
            }
        }
    }

    /// Returns the mean or sum of the frames, and starts again from zero.
    pub fn take(&mut self, method: AverageMethod, normalizer: &Normalizer) -> AveragePattern {
        let sums = std::mem::replace(self, Self::new(self.signal.len(), normalizer));
        if sums.frames == 0 {
            return AveragePattern::of_no_frames(sums.signal.len(), normalizer.has_errors());
        }
        let factor = if method == AverageMethod::Sum { sums.frames as f64 } else { 1.0 };
        let times = |value| value * factor;
        let intensity = normalizer.divide(&sums.signal, &sums.norm, 1.0, |sum| sum);
        let intensity = intensity.map(times).collect();
        let errors = sums.variance.map(|variance| {
            let variance = normalizer.variance_rule().with_floor(&variance, sums.frames);
            let (mut errors, norms) = (Vec::new(), [&sums.norm[..], &sums.norm_sq]);
            normalizer.extend_by_errors(&mut errors, &variance, norms, 1.0, times);
            errors
        });
        AveragePattern { frames: sums.frames, intensity, errors }
    }
}
