//! Patterns of many frames: of all of a scan, or of every so many.
//!
//! Bin by bin, over the n frames that have a pattern, with the sums S, V and W of each and the ratio g of its
//! monitor:
//!
//! | method | intensity | error |
//! |---|---|---|
//! | mean | Σ S / Σ W g | √(Σ V) / Σ W g |
//! | sum | n times the mean | n times its error |
//! | median | median of S / (W g) | c m / √n, with m the median of √V / (W g) |
//!
//! with V the variance by the counts themselves, no less than one photon's in all frames together ([`crate::variance`]): the
//! variance that each pixel of each frame has at the least in single patterns would be most of the error of sparse frames.
//! The first two thus propagate counting errors. The median's factor c is 1 up to two frames, where it is
//! the mean, and √(π/2) beyond: the limit for normal noise, at most 15 % more than what few frames scatter by
//! (Kenney and Keeping, *Mathematics of Statistics*, § 7.12). Taking m as a median too keeps one wild frame out of
//! the error as it is kept out of the value. The median is that of the patterns as they are stored, in f32, so
//! that it can be had of a final whose sums have gone.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::str::FromStr;

use super::Error;
use super::merge::{Frames, Merged};
use crate::variance::Counted;
use crate::{Finish, Row, Weights};

/// Bytes that the frames of one median may take at a time; of more, blocks of bins are read in turn.
const MOST_BYTES: usize = 1 << 29;

/// How frames become one pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Each frame counts by what it measured.
    Mean,
    /// The mean times the number of frames that have a pattern.
    Sum,
    /// Half of the frames are below it; the middle of the two in question where their number is even.
    Median,
}

/// Which patterns of many frames a final has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// How frames become one.
    pub method: Method,
    /// Of how many frames in turn; `None` for all of the scan.
    pub every: Option<NonZeroU64>,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::Mean, Self::Sum, Self::Median];

    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Median => "median",
        }
    }
}

impl Average {
    /// One pattern of all frames.
    pub fn of_all(method: Method) -> Self {
        Self { method, every: None }
    }

    /// The frames of each pattern of a scan of `total`: ranges by number, whatever is missing in them. The
    /// last may be shorter.
    pub fn ranges(self, total: u64) -> Vec<Range<u64>> {
        let every = self.every.map_or(total.max(1), NonZeroU64::get);
        let count = if self.every.is_some() { total.div_ceil(every) } else { 1 };
        (0..count).map(|index| index * every..total.min((index + 1) * every)).collect()
    }
}

/// `mean`, or with a number of frames `mean,100`.
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
        const EXPECTED: &str = "expected mean, sum or median, and perhaps of how many frames in turn, as in mean,100";
        let (name, every) = text.split_once(',').map_or((text, None), |(name, every)| (name, Some(every)));
        let method = Method::ALL.into_iter().find(|method| method.name() == name).ok_or(EXPECTED)?;
        let every = every.map(|every| every.parse().map_err(|_| EXPECTED)).transpose()?;
        Ok(Self { method, every })
    }
}

/// One pattern of many frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    /// How many frames it was made of.
    pub frames: u64,
    /// Intensity of each bin.
    pub intensity: Vec<f64>,
    /// Error of each bin, as the recipe has it, where there is an error model.
    pub errors: Option<Vec<f64>>,
}

/// Sums over frames, in the frames' order.
pub(super) struct Accumulator {
    frames: u64,
    signal: Vec<f64>,
    variance: Option<Counted>,
    norm: Vec<f64>,
    norm_sq: Vec<f64>,
}

impl Accumulator {
    pub fn new(bins: usize, finish: &Finish) -> Self {
        let variance = finish.has_errors().then(|| Counted::new(bins));
        let zeros = || vec![0.0; bins];
        Self { frames: 0, signal: zeros(), variance, norm: zeros(), norm_sq: zeros() }
    }

    /// Adds a frame with a pattern and these sums; `shared` are the weights of frames without their own.
    pub fn add(&mut self, merged: &Merged, row: &Row, shared: &Weights, finish: &Finish) {
        let scale = merged.scale;
        let weights = row.exception.as_ref().unwrap_or(shared);
        self.frames += 1;
        self.signal.iter_mut().zip(&row.signal).for_each(|(sum, value)| *sum += value);
        self.norm.iter_mut().zip(&weights.norm).for_each(|(sum, norm)| *sum += norm * scale);
        let squares = self.norm_sq.iter_mut().zip(&weights.norm_sq);
        squares.for_each(|(sum, norm_sq)| *sum += norm_sq * scale * scale);
        if let Some(sums) = &mut self.variance {
            match &merged.counted {
                Some((counted, members)) => sums.add_members(counted, *members),
                None => finish.variances().add_frame(row, weights, shared, sums),
            }
        }
    }

    /// Their mean, or their sum; begins anew.
    pub fn take(&mut self, method: Method, finish: &Finish) -> Pattern {
        let sums = std::mem::replace(self, Self::new(self.signal.len(), finish));
        let factor = if method == Method::Sum { sums.frames as f64 } else { 1.0 };
        let times = |values: Vec<f64>| values.into_iter().map(|value| value * factor).collect();
        let intensity = times(finish.quotients(&sums.signal, &sums.norm, 1.0, |sum| sum));
        let errors = sums.variance.map(|variance| {
            let variance = finish.variances().floor_sums(&variance, sums.frames);
            times(finish.deviations(&variance, &sums.norm, &sums.norm_sq, 1.0))
        });
        Pattern { frames: sums.frames, intensity, errors }
    }
}

/// The median of a range of frames, which are read once for each block of bins.
///
/// # Errors
/// Those of [`Frames::frame`].
pub(super) fn median(
    range: Range<u64>,
    frames: &mut dyn Frames,
    bins: usize,
    finish: &Finish,
) -> Result<Pattern, Error> {
    let empty = finish.empty_value();
    let mut pattern =
        Pattern { frames: 0, intensity: vec![empty; bins], errors: finish.has_errors().then(|| vec![empty; bins]) };
    let count = (range.end - range.start).max(1) as usize;
    let width = (MOST_BYTES / (2 * size_of::<f32>() * count)).clamp(1, bins.max(1));
    for from in (0..bins).step_by(width) {
        let block = from..bins.min(from + width);
        let (mut values, mut errors) = (vec![Vec::new(); block.len()], vec![Vec::new(); block.len()]);
        pattern.frames = 0;
        for frame in range.clone() {
            let merged = frames.frame(frame as usize)?;
            pattern.frames += u64::from(collect(&merged, frames, &block, &mut values, &mut errors));
        }
        for (bin, (values, errors)) in block.zip(values.iter_mut().zip(&mut errors)) {
            let count = values.len();
            let Some(middle) = middle(values) else { continue };
            pattern.intensity[bin] = middle;
            if let (Some(sigmas), Some(sigma)) = (&mut pattern.errors, self::middle(errors)) {
                sigmas[bin] = if finish.is_sem() { factor(count) * sigma / (count as f64).sqrt() } else { sigma };
            }
        }
    }
    Ok(pattern)
}

/// Adds a frame's values of a block of bins to those of others; says whether it has a pattern.
fn collect(
    merged: &Merged,
    frames: &dyn Frames,
    block: &Range<usize>,
    values: &mut [Vec<f32>],
    errors: &mut [Vec<f32>],
) -> bool {
    let Some((intensity, sigmas)) = &merged.pattern else { return false };
    let own = merged.sums.as_ref().map_or(frames.shared_weights(), |row| frames.weights(row));
    for (at, bin) in block.clone().enumerate() {
        // What an empty bin holds by the recipe is no measurement.
        if own.norm[bin] == 0.0 || intensity[bin].is_nan() {
            continue;
        }
        values[at].push(intensity[bin]);
        errors[at].extend(sigmas.as_ref().map(|sigmas| sigmas[bin]));
    }
    true
}

/// The median; `None` of nothing.
fn middle(values: &mut [f32]) -> Option<f64> {
    let (half, is_even) = (values.len() / 2, values.len().is_multiple_of(2));
    if values.is_empty() {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(half, f32::total_cmp);
    let upper = f64::from(*upper);
    let lower = below.iter().copied().max_by(f32::total_cmp).filter(|_| is_even);
    Some(lower.map_or(upper, |lower| (f64::from(lower) + upper) / 2.0))
}

/// How much wider the median of `count` equal normal values scatters than their mean.
fn factor(count: usize) -> f64 {
    if count <= 2 { 1.0 } else { std::f64::consts::FRAC_PI_2.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_how_and_of_how_many() {
        let every = |number| NonZeroU64::new(number);
        assert_eq!("median".parse(), Ok(Average::of_all(Method::Median)));
        assert_eq!("sum,10".parse(), Ok(Average { method: Method::Sum, every: every(10) }));
        assert_eq!(Average { method: Method::Mean, every: every(7) }.to_string(), "mean,7");
        for wrong in ["", "Mean", "mean,", "mean,0", "mean,-1", "mean,1.5", "mean;2"] {
            assert!(wrong.parse::<Average>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_cover_the_scan() {
        let ends = |every, total| {
            let average = Average { method: Method::Mean, every: NonZeroU64::new(every) };
            average.ranges(total).into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(ends(4, 10), [(0, 4), (4, 8), (8, 10)]);
        assert_eq!((ends(10, 10), ends(3, 0)), (vec![(0, 10)], vec![]));
        // 0 is none: all frames, of which there may be none.
        assert_eq!((ends(0, 7), ends(0, 0)), (vec![(0, 7)], vec![(0, 0)]));
    }

    #[test]
    fn the_median_is_the_middle_one_or_the_middle_of_two() {
        assert_eq!(
            [&mut [][..], &mut [3.0], &mut [4.0, 1.0], &mut [9.0, 1.0, 2.0]].map(middle),
            [None, Some(3.0), Some(2.5), Some(2.0)]
        );
        assert_eq!(middle(&mut [7.0, -1.0, 5.0, 5.5, -3.0, 100.0]), Some(5.25));
    }

    /// The error that is stated is the scatter that is seen: medians of many draws of equal normal values.
    #[test]
    fn the_medians_error_is_what_medians_scatter_by() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        // Box and Muller's transformation.
        let mut normal = || ((-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()) as f32;
        for (count, most) in [(1, 1.03), (2, 1.03), (3, 1.11), (4, 1.18), (11, 1.08), (101, 1.03)] {
            let draws = 20_000;
            let square: f64 = (0..draws)
                .map(|_| middle(&mut (0..count).map(|_| normal()).collect::<Vec<_>>()).expect("some").powi(2))
                .sum();
            let stated = factor(count) / (count as f64).sqrt();
            let ratio = stated / (square / f64::from(draws)).sqrt();
            assert!((0.97..most).contains(&ratio), "{count} frames: stated over seen {ratio}");
        }
    }
}
