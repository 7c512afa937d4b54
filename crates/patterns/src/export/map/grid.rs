//! [`MapGrid`]: the cells of a map, found from the positions of its frames.

/// Largest distance of a position from its line of the grid, in steps.
const MAX_DEVIATION: f64 = 0.25;

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
    /// on none. `positions` are slow and fast positions of each frame, and finite.
    ///
    /// Steps are guessed from the differences between consecutive frames and between sorted
    /// positions. Of all pairs of steps with which each position is near a line and no cell has two
    /// frames, the one with the fewest cells is taken.
    pub fn find(positions: &[[f64; 2]]) -> Option<Self> {
        let [slow, fast] = [0, 1].map(|axis| {
            let values: Vec<f64> = positions.iter().map(|position| position[axis]).collect();
            find_lattices(&values)
        });
        let limit = positions.len().saturating_mul(MAX_CELLS_PER_FRAME);
        let mut best: Option<(usize, Self)> = None;
        for slow in &slow {
            for fast in &fast {
                let cells = slow.lines().saturating_mul(fast.lines());
                if cells <= limit && best.as_ref().is_none_or(|(least, _)| cells < *least) {
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
        Some(Self { positions: sums.iter().enumerate().map(position).collect(), line_of })
    }

    /// Returns a lattice of a single line.
    fn single(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Self { line_of: vec![0; values.len()], positions: vec![mean] }
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

/// Returns the lattices on which the positions of one axis may lie.
fn find_lattices(values: &[f64]) -> Vec<Lattice> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let differences = |values: &[f64]| -> Vec<f64> {
        values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect()
    };
    let range = sorted.last().zip(sorted.first()).map_or(0.0, |(last, first)| last - first);
    let mut steps = Vec::new();
    for differences in [differences(values), differences(&sorted)] {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 (SplitMix64).
    fn draws(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        }
    }

    /// The order in which the cells of a map are measured.
    #[derive(Clone, Copy, Debug)]
    enum Order {
        Raster,
        Snake,
        Interlaced,
    }

    /// Cells of a map of `rows` x `columns`, in an order.
    fn cells(order: Order, rows: usize, columns: usize) -> Vec<[usize; 2]> {
        let mut all = Vec::new();
        let lines: Vec<usize> = match order {
            Order::Interlaced => (0..rows).step_by(2).chain((1..rows).step_by(2)).collect(),
            _ => (0..rows).collect(),
        };
        for row in lines {
            for column in 0..columns {
                let turned = matches!(order, Order::Snake) && row % 2 == 1;
                all.push([row, if turned { columns - 1 - column } else { column }]);
            }
        }
        all
    }

    #[test]
    fn grids_are_found_in_any_order_with_jitter_and_gaps() {
        for seed in 0..60 {
            let mut draw = draws(seed);
            let order = [Order::Raster, Order::Snake, Order::Interlaced][seed as usize % 3];
            let (rows, columns) = (2 + seed as usize % 7, 3 + seed as usize % 11);
            let step = [10_f64.powf(3.0 * draw()), -10_f64.powf(3.0 * draw())];
            let origin = [100.0 * step[0] * draw(), 100.0 * step[1] * draw()];
            let mut all = cells(order, rows, columns);
            // Measured until some frame of the second half, at the least a row and a frame.
            all.truncate((all.len() * 3 / 4).max(2 * columns));
            let jitter = 0.1 * (seed % 2) as f64;
            let positions: Vec<[f64; 2]> = all
                .iter()
                .map(|cell| {
                    [0, 1].map(|axis| {
                        origin[axis] + step[axis] * (cell[axis] as f64 + jitter * draw())
                    })
                })
                .collect();
            let about = format!("{order:?} {rows} x {columns}, seed {seed}");
            let grid = MapGrid::find(&positions).expect(&about);
            let measured_rows = all.iter().map(|cell| cell[0]).max().unwrap() + 1;
            assert_eq!((grid.slow.len(), grid.fast.len()), (measured_rows, columns), "{about}");
            for (frame, [row, column]) in all.iter().enumerate() {
                // The second step is negative, so that columns are counted from the other end.
                let cell = row * columns + columns - 1 - column;
                assert_eq!(grid.cells[cell], Some(frame), "{about}");
                let distance = (grid.slow[*row] - positions[frame][0]).abs();
                assert!(distance <= MAX_DEVIATION * step[0].abs(), "{about}");
            }
            assert_eq!(grid.cells.iter().flatten().count(), all.len(), "{about}");
        }
    }

    #[test]
    fn a_large_map_is_found_though_lines_are_missing() {
        let mut draw = draws(3);
        let all =
            cells(Order::Snake, 80, 120).into_iter().filter(|[row, _]| !(20..25).contains(row));
        let positions: Vec<[f64; 2]> =
            all.map(|cell| [0, 1].map(|axis| cell[axis] as f64 * 1e-3 + 1e-4 * draw())).collect();
        let grid = MapGrid::find(&positions).unwrap();
        assert_eq!((grid.slow.len(), grid.fast.len()), (80, 120));
        assert_eq!(grid.cells.iter().filter(|cell| cell.is_none()).count(), 5 * 120);
    }

    #[test]
    fn a_line_is_a_map_of_one_row() {
        let mut draw = draws(7);
        let positions: Vec<[f64; 2]> =
            (0..20).map(|column| [3.0 + 1e-4 * draw(), f64::from(column)]).collect();
        let grid = MapGrid::find(&positions).unwrap();
        assert_eq!((grid.slow.len(), grid.fast.len()), (1, 20));
        assert!((grid.slow[0] - 3.0).abs() < 1e-4);
    }

    #[test]
    fn positions_that_are_anywhere_or_repeated_are_no_grid() {
        for seed in 0..20 {
            let mut draw = draws(seed);
            let positions: Vec<[f64; 2]> = (0..40).map(|_| [draw(), draw()]).collect();
            assert_eq!(MapGrid::find(&positions), None, "seed {seed}");
        }
        assert_eq!(MapGrid::find(&[[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), None);
        assert_eq!(MapGrid::find(&[]), None);
    }
}
