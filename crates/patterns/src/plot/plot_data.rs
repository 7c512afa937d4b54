//! Content of a plot, reduced to the number of cells that can be shown.

use crate::axes::ends;
use crate::output::{self, OutputFile};
use crate::{PatternAxis, Status};

/// Content of a plot.
pub(super) struct PlotData {
    pub title: String,
    pub radial: PatternAxis,
    /// Outer edges of the radial axis.
    pub radial_range: (f64, f64),
    pub map: Option<IntensityMap>,
    /// Mean of each radial bin over all frames (and chi); NaN if no frame has a value.
    pub mean: Vec<f64>,
    /// Standard error of each mean, from the frames' errors; NaN if they have none.
    pub error: Vec<f64>,
    /// Title of the intensities with their unit.
    pub intensity: String,
    /// Number of frames with a pattern, and number of all frames.
    pub frames: (u64, u64),
}

/// Map of intensities over the radial axis and a second axis, which is chi for cakes and the frame
/// otherwise.
pub(super) struct IntensityMap {
    /// Label of the second axis, and its outer edges.
    pub label: String,
    pub range: (f64, f64),
    /// True if the second axis counts frames.
    pub counts_frames: bool,
    /// Rows of cells of equal size, in ascending order of the second axis; NaN for a cell without
    /// data.
    pub rows: Vec<Vec<f64>>,
}

/// Sums and numbers of values, from which means are computed.
#[derive(Clone, Default)]
struct CellMeans {
    sums: Vec<f64>,
    counts: Vec<u64>,
}

impl CellMeans {
    fn new(size: usize) -> Self {
        Self { sums: vec![0.0; size], counts: vec![0; size] }
    }

    fn add(&mut self, at: usize, value: f32) {
        if value.is_finite() {
            self.sums[at] += f64::from(value);
            self.counts[at] = self.counts[at].saturating_add(1);
        }
    }

    /// Returns the standard errors of means, if squared errors were added.
    fn errors(&self) -> Vec<f64> {
        self.sums.iter().zip(&self.counts).map(|(sum, count)| sum.sqrt() / *count as f64).collect()
    }

    fn values(&self) -> Vec<f64> {
        self.sums.iter().zip(&self.counts).map(|(sum, count)| sum / *count as f64).collect()
    }
}

impl PlotData {
    /// Reads a final file row by row, and reduces it to at most `cells` columns and rows.
    ///
    /// # Errors
    /// Fails if the final file can't be read.
    pub fn from_output(
        output: &OutputFile,
        cells: (usize, usize),
    ) -> Result<Self, output::OutputError> {
        let axes = &output.shared.axes;
        let (radial, total) = (axes.radial.centers.len(), output.status.len());
        let (cells_wide, cells_high) = cells;
        let columns = radial.min(cells_wide);
        let lines = axes.chi.as_ref().map_or(total, |chi| chi.centers.len());
        let rows = lines.min(cells_high);
        let (mut mean, mut squared_errors) = (CellMeans::new(radial), CellMeans::new(radial));
        let mut map = vec![CellMeans::new(columns); rows];
        let mut patterns = output.rows()?;
        for frame in (0..total).filter(|frame| output.status[*frame] == Status::Ok) {
            let (pattern, errors) = patterns.pattern(frame)?;
            for turn in errors.as_deref().unwrap_or_default().chunks(radial.max(1)) {
                turn.iter()
                    .enumerate()
                    .for_each(|(bin, error)| squared_errors.add(bin, error * error));
            }
            for (turn, bins) in pattern.chunks(radial.max(1)).enumerate() {
                let line = if axes.chi.is_some() { turn } else { frame };
                let row = &mut map[cell_of(line, rows, lines)];
                for (bin, &value) in bins.iter().enumerate() {
                    mean.add(bin, value);
                    row.add(cell_of(bin, columns, radial), value);
                }
            }
        }
        let counts_frames = axes.chi.is_none();
        let (label, edges) = match axes.chi.as_ref().zip(axes.chi_edges(&output.recipe)) {
            Some((chi, edges)) => (chi.plot_label(), edges),
            None => ("frame".to_owned(), (0..=total).map(|frame| frame as f64 - 0.5).collect()),
        };
        let radial_edges = axes.radial_edges(&output.recipe);
        let lines_of_map = resample(map.iter().map(CellMeans::values), &edges, rows, cells_high);
        let to_columns =
            |row: Vec<f64>| resample(row.into_iter(), &radial_edges, columns, cells_wide);
        let map_rows = lines_of_map.into_iter().map(to_columns).collect();
        let scan = &output.task.acquisition;
        let title = scan.title.as_deref().unwrap_or_default();
        let integrated = output.status.iter().filter(|status| **status == Status::Ok).count();
        Ok(Self {
            title: format!("{} {} {title}", scan.detector, scan.entry).trim().to_owned(),
            radial: axes.radial.clone(),
            radial_range: ends(&radial_edges),
            map: (rows > 1).then(|| IntensityMap {
                label,
                range: ends(&edges),
                counts_frames,
                rows: map_rows,
            }),
            mean: mean.values(),
            error: squared_errors.errors(),
            intensity: output.intensity_label()?,
            frames: (integrated as u64, total as u64),
        })
    }
}

/// Returns the values of cells of equal width. `values` are those of `cells` cells that join
/// equally many bins each, and `edges` are the edges of the bins. If the bins are of equal width,
/// so are the cells, up to a bin, which is less than can be seen. Otherwise, the value at the
/// centre of each of `count` cells is taken.
fn resample<T: Clone>(
    values: impl Iterator<Item = T>,
    edges: &[f64],
    cells: usize,
    count: usize,
) -> Vec<T> {
    let values: Vec<T> = values.collect();
    let bins = edges.len().saturating_sub(1);
    let (first, last) = ends(edges);
    let width = (last - first) / bins.max(1) as f64;
    if edges.windows(2).all(|edge| (edge[1] - edge[0] - width).abs() <= 1e-6 * width.abs()) {
        return values;
    }
    let at = |cell: usize| {
        let center = first + (last - first) * (cell as f64 + 0.5) / count as f64;
        let bin = edges.partition_point(|edge| *edge <= center).saturating_sub(1);
        values.get(cell_of(bin, cells, bins)).or(values.last()).cloned()
    };
    (0..count).filter_map(at).collect()
}

/// Returns the cell that a bin is in. There are at most some hundred cells, so the product does not
/// saturate.
fn cell_of(bin: usize, cells: usize, bins: usize) -> usize {
    bin.saturating_mul(cells).checked_div(bins).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_wide_as_the_bins_in_them() {
        let cells = |values: &[i32], edges: &[f64]| {
            resample(values.iter().copied(), edges, values.len(), 10)
        };
        assert_eq!(cells(&[1, 2, 3], &[0.0, 2.0, 4.0, 6.0]), [1, 2, 3]);
        assert_eq!(cells(&[1, 2, 3], &[0.0, 1.0, 4.0, 10.0]), [1, 2, 2, 2, 3, 3, 3, 3, 3, 3]);
        // Bins 0 and 1 are in the first cell, bin 2 is in the second one.
        assert_eq!(cells(&[1, 2], &[0.0, 1.0, 4.0, 10.0]), [1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }
}
