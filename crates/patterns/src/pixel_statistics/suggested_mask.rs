//! [`SuggestedMask`], the pixels that statistics show to be dead, hot or saturated.
//!
//! A pixel is compared with the 24 pixels around it (5 x 5), of which at least 8 must have valid
//! values; it needs no geometry. A diffraction ring crosses these as a line. A pixel of a ring has as
//! many of the line beside it as there are valid pixels on it, so a pixel that outshines all but as
//! many, less one, is no ring: two in the middle of a detector, fewer at its edges and beside gaps. A
//! zinger is no hot pixel, because the brightest frame is left out. The rule is for counts: levels
//! below zero are no light.

use super::StatisticsTotal;

/// How far the neighbours are away, in rows and in columns.
const REACH: usize = 2;
/// The least number of neighbours with valid values.
const FEWEST_NEIGHBOURS: usize = 8;
/// Counts that a pixel must be expected to have, for zero to be strange. By Poisson's law, one pixel
/// in 10^10 has none.
const LEAST_EXPECTED: f64 = 25.0;
/// The neighbour by rank that a hot pixel outshines: the third largest, so that up to three hot
/// pixels side by side are found; a larger one where a line through the pixel has fewer neighbours.
const RANK: usize = 3;
/// Steps in rows and columns along the lines through a pixel.
const LINES: [[isize; 2]; 4] = [[0, 1], [1, 0], [1, 1], [1, -1]];
/// Frames with valid values that a hot pixel has at least, as the brightest one is left out.
const FEWEST_FRAMES: u32 = 2;
/// Factor by which a hot pixel outshines its neighbour.
const HOT_FACTOR: f64 = 3.0;
/// Standard deviations of the counts by which it does.
const HOT_SIGMA: f64 = 10.0;

/// Bits of a pixel that the mask marks.
pub mod kind {
    /// Zero in all frames, where its neighbours are not.
    pub const DEAD: u8 = 1;
    /// Far above its neighbours even without its brightest frame, and not zero in at least half of
    /// the frames.
    pub const HOT: u8 = 2;
    /// At or above the saturation value in at least one frame.
    pub const SATURATED: u8 = 4;
}

/// The pixels that are dead, hot or saturated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedMask {
    /// The sum of the bits of [`kind`] of each pixel; 0 for good ones.
    pub kinds: Vec<u8>,
}

impl SuggestedMask {
    /// Marks pixels of frames with this number of columns, of which a value of `saturation` or more
    /// is saturated.
    pub fn new(total: &StatisticsTotal, columns: usize, saturation: f64) -> Self {
        let (means, valid) = (PixelValues { pixels: total.means(), columns }, total.valid_frames());
        let variances = PixelValues { pixels: total.variances(), columns };
        let (zeros, maxima) = (total.zeros(), total.maxima());
        let mut kinds = vec![0; valid.len()];
        let (mut neighbours, mut spreads) = (Vec::new(), Vec::new());
        let pixels = means.pixels.iter().zip(&valid).zip(zeros.iter().zip(&maxima)).zip(&mut kinds);
        for (index, (((mean, valid), (zeros, max)), kinds)) in pixels.enumerate() {
            if *valid == 0 {
                continue;
            }
            if *max >= saturation {
                *kinds |= kind::SATURATED;
            }
            means.sort_neighbours(index, &mut neighbours);
            if neighbours.len() < FEWEST_NEIGHBOURS {
                continue;
            }
            let frames = f64::from(*valid);
            let is_expected = |median: f64| median * frames >= LEAST_EXPECTED;
            if zeros == valid && median(&neighbours).is_some_and(is_expected) {
                *kinds |= kind::DEAD;
            }
            // A zinger is in one frame only.
            let own = mean * frames - max;
            let outshines = |rank: usize| {
                let high =
                    rank.checked_sub(1).and_then(|before| neighbours.iter().nth_back(before));
                let other = high.filter(|high| **high >= 0.0).map(|high| high * frames);
                other.filter(|other| own > HOT_FACTOR * other)
            };
            let may_be_hot = *valid >= FEWEST_FRAMES
                && zeros.saturating_mul(2) <= *valid
                && outshines(RANK).is_some();
            if !may_be_hot {
                continue;
            }
            variances.sort_neighbours(index, &mut spreads);
            let variance = frames * median(&spreads).unwrap_or(0.0);
            let is_beyond =
                |other: f64| own - other > HOT_SIGMA * other.max(variance).max(1.0).sqrt();
            if outshines(RANK.min(means.fewest_on_a_line(index))).is_some_and(is_beyond) {
                *kinds |= kind::HOT;
            }
        }
        Self { kinds }
    }

    /// Returns the number of pixels that have one of these bits.
    pub fn count(&self, bits: u8) -> usize {
        self.kinds.iter().filter(|kinds| *kinds & bits != 0).count()
    }
}

/// Returns the middle one of sorted values, or the lower of two.
fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// Values of an image's pixels, NaN where they have no value.
struct PixelValues {
    pixels: Vec<f64>,
    columns: usize,
}

impl PixelValues {
    /// Collects the values of the pixels around one, in ascending order.
    fn sort_neighbours(&self, index: usize, neighbours: &mut Vec<f64>) {
        neighbours.clear();
        let columns = self.columns;
        // A frame without columns has no pixels.
        let (Some(row), Some(column)) = (index.checked_div(columns), index.checked_rem(columns))
        else {
            return;
        };
        let last = self.pixels.len().checked_div(columns).unwrap_or(0);
        for other in row.saturating_sub(REACH)..=row.saturating_add(REACH).min(last) {
            let start = other.saturating_mul(columns);
            let from = start.saturating_add(column.saturating_sub(REACH));
            let end = column.saturating_add(REACH).saturating_add(1).min(columns);
            let line = self.pixels.get(from..start.saturating_add(end)).unwrap_or_default();
            let numbered = (from..).zip(line);
            let around = numbered.filter(|(at, value)| *at != index && !value.is_nan());
            neighbours.extend(around.map(|(_, value)| *value));
        }
        neighbours.sort_unstable_by(f64::total_cmp);
    }

    /// Returns the number of neighbours with a value on the line through a pixel that has the
    /// fewest: horizontal, vertical or diagonal.
    fn fewest_on_a_line(&self, index: usize) -> usize {
        let columns = self.columns;
        let (Some(row), Some(column)) = (index.checked_div(columns), index.checked_rem(columns))
        else {
            return 0;
        };
        let has_value = |[down, right]: [isize; 2], step: isize| {
            let at = row
                .checked_add_signed(down.saturating_mul(step))
                .zip(column.checked_add_signed(right.saturating_mul(step)));
            let Some((row, column)) = at.filter(|(_, column)| *column < columns) else {
                return false;
            };
            let value = self.pixels.get(row.saturating_mul(columns).saturating_add(column));
            value.is_some_and(|value| !value.is_nan())
        };
        let on_line =
            |line| [-2, -1, 1, 2].into_iter().filter(|step| has_value(line, *step)).count();
        LINES.into_iter().map(on_line).min().unwrap_or(0)
    }
}
