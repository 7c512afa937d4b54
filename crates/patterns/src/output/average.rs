//! Average patterns: patterns over all frames of a scan, or over ranges of equally many frames.
//!
//! Each bin is computed over the n frames that have a pattern, from the sums S, V and W of each
//! frame and the ratio g of its monitor:
//!
//! | method | intensity | error |
//! |---|---|---|
//! | mean | Σ S / Σ W g | √(Σ V) / Σ W g |
//! | sum | n times the mean | n times the mean's error |
//! | median | median of S / (W g) | scatter of such medians, from the median of √V / (W g) ([`super::averaging`]) |
//!
//! V is the variance of the photon counts. Single patterns assume at least one photon per pixel and
//! frame, as pyFAI does. In an average of sparse frames, which have many pixels without a photon,
//! this minimum would be most of the error. Averages therefore assume at least one photon per bin
//! in all frames together ([`crate::variance`]).

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::str::FromStr;

use crate::rounding::NAN64;

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

    /// Returns the range of frames of each pattern, for a scan of `total` frames. The ranges don't
    /// depend on which frames are missing. The last range may be shorter.
    pub fn ranges(self, total: u64) -> Vec<Range<u64>> {
        let every = self.every.map_or(total.max(1), NonZeroU64::get);
        let count = if self.every.is_some() { total.div_ceil(every) } else { 1 };
        let starts = (0..count).map(|index| index.saturating_mul(every));
        starts.map(|start| start..total.min(start.saturating_add(every))).collect()
    }
}

/// Formats the average as on the command line: `mean`, or `mean,100` with the number of frames per
/// pattern.
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
        const EXPECTED: &str = "expected mean, sum or median, optionally with the number of frames per pattern, as in mean,100";
        let (name, every) =
            text.split_once(',').map_or((text, None), |(name, every)| (name, Some(every)));
        let method =
            AverageMethod::ALL.into_iter().find(|method| method.name() == name).ok_or(EXPECTED)?;
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

impl AveragePattern {
    /// Returns the average of no frame: NaN, and not the value of empty bins, because nothing was
    /// measured in any.
    pub(super) fn of_no_frames(bins: usize, has_errors: bool) -> Self {
        let unknown = vec![NAN64; bins];
        Self { frames: 0, errors: has_errors.then(|| unknown.clone()), intensity: unknown }
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
            average
                .ranges(total)
                .into_iter()
                .map(|range| (range.start, range.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(4, 10), [(0, 4), (4, 8), (8, 10)]);
        assert_eq!((ends(10, 10), ends(3, 0)), (vec![(0, 10)], vec![]));
        // 0 is none: all frames, of which there may be none.
        assert_eq!((ends(0, 7), ends(0, 0)), (vec![(0, 7)], vec![(0, 0)]));
    }
}
