//! Average patterns: patterns over all frames of a scan, or over ranges of equally many frames.
//!
//! Each bin is computed over the n frames that have a pattern, from the sums S, V and W of each frame and the ratio g of its
//! monitor:
//!
//! | method | intensity | error |
//! |---|---|---|
//! | mean | Σ S / Σ W g | √(Σ V) / Σ W g |
//! | sum | n times the mean | n times the mean's error |
//! | median | median of S / (W g) | scatter of such medians, from the median of √V / (W g) ([`super::median`]) |
//!
//! V is the variance of the photon counts. Single patterns assume at least one photon per pixel and frame, as pyFAI does. In an
//! average of sparse frames, which have many pixels without a photon, this minimum would be most of the error. Averages
//! therefore assume at least one photon per bin in all frames together ([`crate::variance`]).

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::str::FromStr;

use super::frame_source::OutputFrame;
use crate::variance::PhotonVariance;
use crate::{BinWeights, FrameRow, Normalizer};

/// Method by which several frames become one pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AverageMethod {
    /// Mean; each frame is weighted by its norm and monitor.
    Mean,
    /// The mean times the number of frames that have a pattern.
    Sum,
    /// Median of each bin; the mean of the two middle values if their number is even.
    Median,
}

/// Average patterns that a final file has: the method and the number of frames per pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// Method of averaging.
    pub method: AverageMethod,
    /// Number of frames per pattern; `None` for one pattern of all frames.
    pub every: Option<NonZeroU64>,
}

impl AverageMethod {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::Mean, Self::Sum, Self::Median];

    /// Returns the name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Median => "median",
        }
    }
}

impl Average {
    /// Creates the average of all frames.
    pub fn all_frames(method: AverageMethod) -> Self {
        Self { method, every: None }
    }

    /// Returns the range of frames of each pattern, for a scan of `total` frames. The ranges don't depend on which frames are
    /// missing. The last range may be shorter.
    pub fn ranges(self, total: u64) -> Vec<Range<u64>> {
        let every = self.every.map_or(total.max(1), NonZeroU64::get);
        let count = if self.every.is_some() { total.div_ceil(every) } else { 1 };
        let starts = (0..count).map(|index| index.saturating_mul(every));
        starts.map(|start| start..total.min(start.saturating_add(every))).collect()
    }
}

/// Formats the average as on the command line: `mean`, or `mean,100` with the number of frames per pattern.
impl fmt::Display for Average {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.every {
            Some(every) => write!(f, "{},{every}", self.method.name()),
            None => f.write_str(self.method.name()),
        }
    }
}

impl FromStr for Average {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "expected mean, sum or median, optionally with the number of frames per pattern, as in mean,100";
        let (name, every) = text.split_once(',').map_or((text, None), |(name, every)| (name, Some(every)));
        let method = AverageMethod::ALL.into_iter().find(|method| method.name() == name).ok_or(EXPECTED)?;
        let every = every.map(|every| every.parse().map_err(|_| EXPECTED)).transpose()?;
        Ok(Self { method, every })
    }
}

/// One average pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AveragePattern {
    /// Number of frames that were averaged.
    pub frames: u64,
    /// Intensity of each bin.
    pub intensity: Vec<f64>,
    /// Error of each bin; `None` without an error model.
    pub errors: Option<Vec<f64>>,
}

/// Sums over frames, added in ascending order of the frames.
pub(super) struct FrameSumAccumulator {
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

    /// Adds the sums `row` of a frame that has a pattern. `shared` are the weights of frames without a weight override.
    pub fn add(&mut self, output_frame: &OutputFrame, row: &FrameRow, shared: &BinWeights, normalizer: &Normalizer) {
        let scale = output_frame.scale;
        let weights = row.weight_override.as_ref().unwrap_or(shared);
        self.frames = self.frames.saturating_add(1);
        self.signal.iter_mut().zip(&row.signal).for_each(|(sum, value)| *sum += value);
        self.norm.iter_mut().zip(&weights.norm).for_each(|(sum, norm)| *sum += norm * scale);
        let squares = self.norm_sq.iter_mut().zip(&weights.norm_sq);
        squares.for_each(|(sum, norm_sq)| *sum += norm_sq * scale * scale);
        if let Some(sums) = &mut self.variance {
            match &output_frame.counted {
                Some((counted, members)) => sums.add_members(counted, *members),
                None => normalizer.variance_rule().add_frame_variance(row, weights, shared, sums),
            }
        }
    }

    /// Returns the mean or sum of the frames, and starts again from zero.
    pub fn take(&mut self, method: AverageMethod, normalizer: &Normalizer) -> AveragePattern {
        let sums = std::mem::replace(self, Self::new(self.signal.len(), normalizer));
        let factor = if method == AverageMethod::Sum { sums.frames as f64 } else { 1.0 };
        let times = |values: Vec<f64>| values.into_iter().map(|value| value * factor).collect();
        let intensity = times(normalizer.divide(&sums.signal, &sums.norm, 1.0, |sum| sum));
        let errors = sums.variance.map(|variance| {
            let variance = normalizer.variance_rule().with_floor(&variance, sums.frames);
            times(normalizer.compute_errors(&variance, &sums.norm, &sums.norm_sq, 1.0))
        });
        AveragePattern { frames: sums.frames, intensity, errors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_how_and_of_how_many() {
        let every = |number| NonZeroU64::new(number);
        assert_eq!("median".parse(), Ok(Average::all_frames(AverageMethod::Median)));
        assert_eq!("sum,10".parse(), Ok(Average { method: AverageMethod::Sum, every: every(10) }));
        assert_eq!(Average { method: AverageMethod::Mean, every: every(7) }.to_string(), "mean,7");
        for wrong in ["", "Mean", "mean,", "mean,0", "mean,-1", "mean,1.5", "mean;2"] {
            assert!(wrong.parse::<Average>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_cover_the_scan() {
        let ends = |every, total| {
            let average = Average { method: AverageMethod::Mean, every: NonZeroU64::new(every) };
            average.ranges(total).into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(ends(4, 10), [(0, 4), (4, 8), (8, 10)]);
        assert_eq!((ends(10, 10), ends(3, 0)), (vec![(0, 10)], vec![]));
        // 0 is none: all frames, of which there may be none.
        assert_eq!((ends(0, 7), ends(0, 0)), (vec![(0, 7)], vec![(0, 0)]));
    }
}
