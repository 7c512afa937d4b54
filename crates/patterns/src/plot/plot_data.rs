//! Content of a plot, reduced to the number of cells that can be shown.

use crate::output::{self, OutputFile};
use crate::{PatternAxis, Status};

/// Content of a plot.
pub(super) struct PlotData {
    pub title: String,
    pub radial: PatternAxis,
    /// Edges of the map's columns: the lower edge of each radial bin in order, and the upper edge of the last one.
    pub columns: Vec<f64>,
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

/// Map of intensities over the radial axis and a second axis, which is chi for cakes and the frame otherwise.
pub(super) struct IntensityMap {
    /// Label of the second axis, and the edges of the rows on it.
    pub label: String,
    pub edges: Vec<f64>,
    /// Rows of cells, in ascending order of the second axis; NaN for a cell without data.
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
    pub fn from_output(output: &OutputFile, cells: (usize, usize)) -> Result<Self, output::OutputError> {
        let axes = &output.shared.axes;
        let (radial, total) = (axes.radial.centers.len(), output.status.len());
        let columns = radial.min(cells.0);
        let lines = axes.chi.as_ref().map_or(total, |chi| chi.centers.len());
        let rows = lines.min(cells.1);
        let (mut mean, mut squared_errors) = (CellMeans::new(radial), CellMeans::new(radial));
        let mut map = vec![CellMeans::new(columns); rows];
        let mut patterns = output.rows()?;
        for frame in (0..total).filter(|frame| output.status[*frame] == Status::Ok) {
            let (pattern, errors) = patterns.pattern(frame)?;
            for turn in errors.as_deref().unwrap_or_default().chunks(radial.max(1)) {
                turn.iter().enumerate().for_each(|(bin, error)| squared_errors.add(bin, error * error));
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
        let (label, edges) = match axes.chi.as_ref().zip(axes.chi_edges(&output.recipe)) {
            Some((chi, edges)) => (chi.plot_label(), edges),
            None => ("frame".to_owned(), (0..=total).map(|frame| frame as f64 - 0.5).collect()),
        };
        let edges = cell_edges(&edges, rows);
        let scan = &output.task.acquisition;
        let title = scan.title.as_deref().unwrap_or_default();
        let integrated = output.status.iter().filter(|status| **status == Status::Ok).count();
        Ok(Self {
            title: format!("{} {} {title}", scan.detector, scan.entry).trim().to_owned(),
            radial: axes.radial.clone(),
            columns: cell_edges(&axes.radial_edges(&output.recipe), columns),
            map: (rows > 1).then(|| IntensityMap { label, edges, rows: map.iter().map(CellMeans::values).collect() }),
            mean: mean.values(),
            error: squared_errors.errors(),
            intensity: output.intensity_label()?,
            frames: (integrated as u64, total as u64),
        })
    }
}

/// Returns the edges of cells that join several bins. There are no more cells than bins; bin `b` of `n` is in cell `b * cells / n`.
fn cell_edges(edges: &[f64], cells: usize) -> Vec<f64> {
    let bins = edges.len().saturating_sub(1);
    (0..=cells).map(|cell| edges[cell.saturating_mul(bins).div_ceil(cells.max(1))]).collect()
}

/// Returns the cell that a bin is in. There are at most some hundred cells, so the product does not saturate.
fn cell_of(bin: usize, cells: usize, bins: usize) -> usize {
    bin.saturating_mul(cells).checked_div(bins).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_wide_as_the_bins_in_them() {
        let edges = [0.0, 1.0, 4.0, 5.0, 9.0, 10.0];
        assert_eq!(cell_edges(&edges, 5), edges);
        // Bins 0 to 4 are in cells 0, 0, 0, 1, 1.
        assert_eq!(cell_edges(&edges, 2), [0.0, 5.0, 10.0]);
        assert_eq!(cell_edges(&[-0.5], 0), [-0.5]);
    }
}
