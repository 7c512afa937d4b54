//! What a picture shows of a final, reduced to what its pixels can show.

use crate::finals::{self, Final};
use crate::{Axis, Status};

/// The content of a picture.
pub(super) struct Picture {
    pub title: String,
    pub radial: Axis,
    pub map: Option<Map>,
    /// The mean over all frames (and chi) of each radial bin; NaN where there is none.
    pub mean: Vec<f64>,
    /// How many frames have a pattern, of how many.
    pub frames: (u64, u64),
}

/// Intensities over the radial axis and another.
pub(super) struct Map {
    /// The other axis: its label, where it begins, and where it ends.
    pub label: String,
    pub from: f64,
    pub to: f64,
    /// Rows of cells from the lowest of the other axis; NaN where there is no data.
    pub rows: Vec<Vec<f64>>,
}

/// Sums of what is there.
#[derive(Clone, Default)]
struct Means {
    sums: Vec<f64>,
    counts: Vec<u64>,
}

impl Means {
    fn of(size: usize) -> Self {
        Self { sums: vec![0.0; size], counts: vec![0; size] }
    }

    fn add(&mut self, at: usize, value: f32) {
        if value.is_finite() {
            self.sums[at] += f64::from(value);
            self.counts[at] += 1;
        }
    }

    fn values(&self) -> Vec<f64> {
        self.sums.iter().zip(&self.counts).map(|(sum, count)| sum / *count as f64).collect()
    }
}

impl Picture {
    /// Reads a final, one row at a time, into at most `cells` columns and rows.
    ///
    /// # Errors
    /// The final can't be read.
    pub fn of(of: &Final, cells: (usize, usize)) -> Result<Self, finals::Error> {
        let axes = &of.shared.axes;
        let (radial, total) = (axes.radial.centers.len(), of.status.len());
        let columns = radial.min(cells.0);
        let lines = axes.chi.as_ref().map_or(total, |chi| chi.centers.len());
        let rows = lines.min(cells.1);
        let (mut mean, mut map) = (Means::of(radial), vec![Means::of(columns); rows]);
        let mut patterns = of.rows()?;
        for frame in (0..total).filter(|frame| of.status[*frame] == Status::Ok) {
            let (pattern, _) = patterns.pattern(frame)?;
            for (index, value) in pattern.into_iter().enumerate() {
                let line = if axes.chi.is_some() { index / radial } else { frame };
                mean.add(index % radial, value);
                map[line * rows / lines].add(index % radial * columns / radial, value);
            }
        }
        let (label, [from, to]) = match &axes.chi {
            Some(chi) => (chi.label(), chi.limits()),
            None => ("frame".to_owned(), [-0.5, total as f64 - 0.5]),
        };
        let scan = &of.task.acquisition;
        let title = scan.title.as_deref().unwrap_or_default();
        let integrated = of.status.iter().filter(|status| **status == Status::Ok).count();
        Ok(Self {
            title: format!("{} {} {title}", scan.detector, scan.entry).trim().to_owned(),
            radial: axes.radial.clone(),
            map: (rows > 1).then(|| Map { label, from, to, rows: map.iter().map(Means::values).collect() }),
            mean: mean.values(),
            frames: (integrated as u64, total as u64),
        })
    }
}
