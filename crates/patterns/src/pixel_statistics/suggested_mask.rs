//! [`SuggestedMask`], the pixels that statistics show to be dead, hot or saturated.
//!
//! A pixel is compared with the 24 pixels around it (5 x 5), of which at least 8 must have valid
//! values; it needs no geometry. A diffraction ring crosses at least five of these 25 pixels, so a
//! pixel that outshines all but two of its neighbours is no ring. A zinger is no hot pixel, because the brightest frame
//! is left out.

use super::StatisticsTotal;

/// How far the neighbours are away, in rows and in columns.
const REACH: usize = 2;
/// The least number of neighbours with valid values.
const FEWEST_NEIGHBOURS: usize = 8;
/// Counts that a pixel must be expected to have, for zero to be strange. By Poisson's law, one pixel
/// in 10^10 has none.
const LEAST_EXPECTED: f64 = 25.0;
/// The neighbour by rank that a hot pixel outshines: the third largest, so that up to three hot
/// pixels side by side are found.
const RANK: usize = 3;
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
        let (means, valid) = (total.means(), total.valid_frames());
        let (zeros, maxima) = (total.zeros(), total.maxima());
        let mut kinds = vec![0; means.len()];
        let mut neighbours = Vec::new();
        let pixels = means.iter().zip(&valid).zip(zeros.iter().zip(&maxima)).zip(&mut kinds);
        for (index, (((mean, valid), (zeros, max)), kinds)) in pixels.enumerate() {
            if *valid == 0 {
                continue;
            }
            if *max >= saturation {
                *kinds |= kind::SATURATED;
            }
            collect_neighbours(&means, columns, index, &mut neighbours);
            if neighbours.len() < FEWEST_NEIGHBOURS {
                continue;
            }
            neighbours.sort_unstable_by(f64::total_cmp);
            let frames = f64::from(*valid);
            let middle = neighbours.len().saturating_sub(1) / 2;
            let (median, high) = (neighbours.get(middle), neighbours.iter().nth_back(RANK - 1));
            if zeros == valid && median.is_some_and(|median| median * frames >= LEAST_EXPECTED) {
                *kinds |= kind::DEAD;
            }
            let is_hot = |high: f64| {
                // A zinger is in one frame only.
                let (own, other) = (mean * frames - max, high * frames);
                let outshines = own > HOT_FACTOR * other;
                outshines && own - other > HOT_SIGMA * other.max(1.0).sqrt()
            };
            if zeros.saturating_mul(2) <= *valid && high.copied().is_some_and(is_hot) {
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

/// Collects the means of the pixels around one that have valid values.
fn collect_neighbours(means: &[f64], columns: usize, index: usize, neighbours: &mut Vec<f64>) {
    neighbours.clear();
    // A frame without columns has no pixels.
    let (Some(row), Some(column)) = (index.checked_div(columns), index.checked_rem(columns)) else {
        return;
    };
    let last = means.len().checked_div(columns).unwrap_or(0);
    for other in row.saturating_sub(REACH)..=row.saturating_add(REACH).min(last) {
        let start = other.saturating_mul(columns);
        let from = start.saturating_add(column.saturating_sub(REACH));
        let end = column.saturating_add(REACH).saturating_add(1).min(columns);
        let line = means.get(from..start.saturating_add(end)).unwrap_or_default();
        let numbered = (from..).zip(line);
        let around = numbered.filter(|(at, mean)| *at != index && !mean.is_nan());
        neighbours.extend(around.map(|(_, mean)| *mean));
    }
}
