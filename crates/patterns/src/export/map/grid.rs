//! [`MapGrid`]: the cells of a map, found from the positions of its frames.

mod still_axis;
#[cfg(test)]
mod tests;

use still_axis::StillAxis;

/// Largest distance of a position from its line of the grid, in steps. Of two lines that count as
/// one, positions are a quarter of the joint step from their mean.
const MAX_DEVIATION: f64 = 0.2;

/// Largest number of cells per frame: a map may be incomplete, and a grid with more gaps than that
/// is none.
const MAX_CELLS_PER_FRAME: usize = 3;

/// Smallest step, as a fraction of the range of positions.
const MIN_STEP: f64 = 1e-7;

/// A grid with at most one frame in each cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MapGrid {
    /// Position of each row: the mean over its frames or, if it has none, where it would be.
    pub slow: Vec<f64>,
    /// Position of each column.
    pub fast: Vec<f64>,
    /// Index of the frame in each cell, row by row; `None` where nothing was measured.
    pub cells: Vec<Option<usize>>,
}

impl MapGrid {
    /// Finds the grid on which frames lie, in whatever order they were measured; `None` if they lie
    /// on none. `positions` are slow and fast positions of each frame, finite, in the order of the
    /// frames; `same_units` is true if both axes are known to have the same units.
    ///
    /// Steps are guessed from the differences between consecutive frames, and between sorted
    /// positions and groups of them. Of all pairs of steps with which each position is near a line
    /// and no cell has two frames, the one with the fewest cells is taken. An axis has a single
    /// line only if its motor stood still ([`StillAxis`]).
    pub fn find(positions: &[[f64; 2]], same_units: bool) -> Option<Self> {
        let values = [0, 1]
            .map(|axis| positions.iter().map(|position| position[axis]).collect::<Vec<f64>>());
        let [slow, fast] = values.each_ref().map(|values| find_lattices(values));
        let [still_slow, still_fast] =
            values.each_ref().map(|values| StillAxis::new(values, same_units));
        let limit = positions.len().saturating_mul(MAX_CELLS_PER_FRAME);
        let mut best: Option<(usize, Self)> = None;
        for slow in &slow {
            for fast in &fast {
                let is_still_or_moves = still_slow.agrees(slow.step, fast.step)
                    && still_fast.agrees(fast.step, slow.step);
                let cells = slow.lines().saturating_mul(fast.lines());
                if is_still_or_moves
                    && cells <= limit
                    && best.as_ref().is_none_or(|(least, _)| cells < *least)
                {
                    best = Self::new(slow, fast).map(|grid| (cells, grid)).or(best);
                }
            }
        }
        best.map(|(_, grid)| grid)
    }

    /// Puts each frame into its cell; `None` if two frames have the same.
    fn new(slow: &Lattice, fast: &Lattice) -> Option<Self> {
        let mut cells = vec![None; slow.lines().checked_mul(fast.lines())?];
        for (frame, (row, column)) in slow.line_of.iter().zip(&fast.line_of).enumerate() {
            let cell = cells.get_mut(row.checked_mul(fast.lines())?.checked_add(*column)?)?;
            if cell.replace(frame).is_some() {
                return None;
            }
        }
        Some(Self { slow: slow.positions.clone(), fast: fast.positions.clone(), cells })
    }
}

/// Equidistant lines along one axis.
struct Lattice {
    /// Line of each frame.
    line_of: Vec<usize>,
    /// Position of each line.
    positions: Vec<f64>,
    /// Distance of neighbouring lines; `None` of a single line.
    step: Option<f64>,
}

impl Lattice {
    fn lines(&self) -> usize {
        self.positions.len()
    }

    /// Assigns positions to lines that are `step` apart; `None` if they don't fit.
    fn fit(values: &[f64], step: f64) -> Option<Self> {
        let origin = values.iter().copied().fold(f64::INFINITY, f64::min);
        let (origin, step) = refine(values, origin, step)?;
        let number = |value: &f64| (value - origin) / step;
        let fits = |value: &f64| (number(value) - number(value).round()).abs() <= MAX_DEVIATION;
        if !values.iter().all(fits) {
            return None;
        }
        let numbers: Vec<i64> = values.iter().map(|value| number(value).round() as i64).collect();
        let first = *numbers.iter().min()?;
        let lines =
            usize::try_from(numbers.iter().max()?.checked_sub(first)?).ok()?.checked_add(1)?;
        if lines > values.len().saturating_mul(MAX_CELLS_PER_FRAME) {
            return None;
        }
        let line_of: Vec<usize> =
            numbers.iter().map(|number| number.saturating_sub(first) as usize).collect();
        let mut sums = vec![(0.0, 0_u32); lines];
        for (line, value) in line_of.iter().zip(values) {
            sums[*line].0 += value;
            sums[*line].1 = sums[*line].1.saturating_add(1);
        }
        let position = |(line, (sum, count)): (usize, &(f64, u32))| match count {
            0 => origin + step * (first as f64 + line as f64),
            count => sum / f64::from(*count),
        };
        let positions: Vec<f64> = sums.iter().enumerate().map(position).collect();
        Some(Self { step: (lines > 1).then_some(step), positions, line_of })
    }

    /// Returns a lattice of a single line.
    fn single(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Self { line_of: vec![0; values.len()], positions: vec![mean], step: None }
    }
}

/// Returns origin and step by linear regression of positions over the numbers of their lines.
fn refine(values: &[f64], origin: f64, step: f64) -> Option<(f64, f64)> {
    let numbers: Vec<f64> = values.iter().map(|value| ((value - origin) / step).round()).collect();
    let count = values.len() as f64;
    let (mean_number, mean) =
        (numbers.iter().sum::<f64>() / count, values.iter().sum::<f64>() / count);
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (number, value) in numbers.iter().zip(values) {
        covariance += (number - mean_number) * (value - mean);
        variance += (number - mean_number).powi(2);
    }
    let step = covariance / variance;
    (step.is_finite() && step > 0.0).then_some((mean - step * mean_number, step))
}

/// Returns the mean of each group of sorted values, between which there are gaps of more than
/// `fraction` of the largest one. Differences between lines are too small by the jitter where they
/// are taken between single values.
fn mean_of_groups(sorted: &[f64], fraction: f64) -> Vec<f64> {
    let largest = sorted.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    let groups = sorted.chunk_by(|one, next| next - one <= fraction * largest);
    groups.map(|group| group.iter().sum::<f64>() / group.len() as f64).collect()
}

/// Returns the lattices on which the positions of one axis may lie.
fn find_lattices(values: &[f64]) -> Vec<Lattice> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let differences = |values: &[f64]| -> Vec<f64> {
        values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect()
    };
    let range = sorted.last().zip(sorted.first()).map_or(0.0, |(last, first)| last - first);
    let grouped = [0.5, 0.1].map(|fraction| differences(&mean_of_groups(&sorted, fraction)));
    let mut steps = Vec::new();
    for differences in [differences(values), differences(&sorted)].into_iter().chain(grouped) {
        let largest = differences.iter().copied().fold(0.0, f64::max);
        for fraction in [0.5, 0.1, 1e-3] {
            let mut large: Vec<f64> =
                differences.iter().copied().filter(|step| *step > fraction * largest).collect();
            large.sort_by(f64::total_cmp);
            if let Some(median) = large.get(large.len() / 2) {
                // Of interlaced lines, neighbours come later.
                steps.extend([1.0, 2.0, 3.0, 4.0].map(|parts| median / parts));
            }
        }
    }
    steps.retain(|step| *step > MIN_STEP * range);
    steps.sort_by(f64::total_cmp);
    steps.dedup_by(|next, earlier| (*next - *earlier).abs() <= 1e-6 * *next);
    let mut lattices = vec![Lattice::single(values)];
    lattices.extend(steps.into_iter().filter_map(|step| Lattice::fit(values, step)));
    lattices
}
