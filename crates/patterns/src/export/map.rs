//! Maps: the patterns of a scan over the positions of two motors, as a NeXus file.
//!
//! ```text
//! /entry                  NXentry    title, start_time, end_time; process (program, version, date, final_file)
//!   map                   NXdata     on a grid, [slow, fast] or [slow, fast, bins]:
//!                                    intensity, intensity_errors, the axes, frame, frame_status, positions of each frame
//!                                    otherwise a list of frames with their positions
//! ```
//!
//! Of a radial range, the intensity is the mean over its bins, each weighted by its norm W: Σ W I / Σ W,
//! with the error √(Σ (W σ)²) / Σ W of independent bins, or √(Σ W₂ σ² / Σ W₂) if σ is the standard deviation of
//! a pixel. W and W₂ are those of all pixels. Bins without a pixel take no part. A cell without a frame is NaN,
//! and its `frame` is -1.

mod grid;

use std::path::PathBuf;

use recipe::ErrorMeasure;
use records::Spans;
use system::ownership::ReplacePolicy;

use super::ExportError;
use super::hdf5_file::{Hdf5Export, WriteError, write_entry, write_hdf5_file, write_pattern_axes};
use crate::Status;
use crate::compression::Compression;
use crate::h5::{self, Dataset, Group};
use crate::output::{FrameNumbers, OutputFile, axis_dataset_name, create_nexus_group};
use crate::rounding::{NAN32, NAN64};
use crate::row_blocks::rows_in;
use crate::row_writer::RowWriter;
use grid::MapGrid;

/// Status of a cell in which no frame was measured; no frame has it.
const NO_FRAME: u8 = 255;

/// Approximate size of the lines of a map that are in memory at once.
const BATCH_BYTES: usize = 1 << 28;

/// A map that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct MapRequest {
    /// Motor or counter along which neighbouring frames lie.
    pub fast: String,
    /// Motor or counter of the other direction.
    pub slow: String,
    /// Radial ranges in the unit of the patterns, each a map of its own; whole patterns if empty.
    pub ranges: Vec<[f64; 2]>,
}

/// A map that was written.
#[derive(Debug)]
pub struct WrittenMap {
    /// Path of the file.
    pub path: PathBuf,
    /// True if the frames lie on a grid.
    pub is_grid: bool,
    /// Frames that are not in the map, because a position is missing; without those that the scan
    /// never took.
    pub without_position: Spans,
}

/// Writes a map of the patterns of a final file, beside it. A file that exists is replaced if
/// azpipe wrote it, or if `policy` allows it.
///
/// # Errors
/// Fails if a motor or counter is unknown or has no value per frame, if a range has no bin, if a
/// file of somebody else has the path, or if a file can't be read or written.
pub fn write_map(
    output: &OutputFile,
    request: &MapRequest,
    policy: &ReplacePolicy,
) -> Result<WrittenMap, ExportError> {
    let wrong = |why: String| ExportError::Map { path: output.path.clone(), why };
    let [slow, fast] = [&request.slow, &request.fast].map(|name| output.frame_numbers(name));
    let axes = [slow?, fast?];
    let ranges: Vec<RangeBins> = request
        .ranges
        .iter()
        .map(|range| RangeBins::new(output, *range))
        .collect::<Result<_, String>>()
        .map_err(wrong)?;
    let position = |frame: usize| {
        let found = axes.each_ref().map(|axis| axis.values.get(frame).copied().unwrap_or(NAN64));
        Some((frame, found)).filter(|(_, found)| found.iter().all(|value| value.is_finite()))
    };
    let positions: Vec<(usize, [f64; 2])> = (0..output.status.len()).filter_map(position).collect();
    let is_missing = |(frame, status): &(usize, &Status)| {
        **status != Status::NeverTaken && position(*frame).is_none()
    };
    let without_position = output.status.iter().enumerate().filter(is_missing);
    let without_position: Spans = without_position.map(|(frame, _)| frame as u64).collect();
    let found: Vec<[f64; 2]> = positions.iter().map(|(_, position)| *position).collect();
    let [slow, fast] = axes.each_ref().map(|axis| axis.units.as_ref());
    let grid = MapGrid::find(&found, slow.is_some() && slow == fast);
    let map = MapData { output, axes: &axes, ranges: &ranges, positions: &positions };
    let export = Hdf5Export { extension: "map.h5", mark: "process/program" };
    let mut paths = write_hdf5_file(&export, output, policy, |file| {
        let (entry, _) = write_entry(file, output, "map")?;
        let group = create_nexus_group(&entry, "map", "NXdata")?;
        match &grid {
            Some(grid) => map.write_grid(&group, grid),
            None => map.write_list(&group),
        }
    })?;
    Ok(WrittenMap {
        path: paths.pop().unwrap_or_default(),
        is_grid: grid.is_some(),
        without_position,
    })
}

/// The bins of a radial range.
struct RangeBins {
    /// Title, such as `10 to 12 q (nm⁻¹)`.
    label: String,
    /// The bins that have pixels.
    bins: Vec<RangeBin>,
    error: ErrorMeasure,
}

/// A bin of a radial range.
struct RangeBin {
    index: usize,
    /// W.
    norm: f64,
    /// W₂.
    norm_sq: f64,
}

impl RangeBins {
    fn new(output: &OutputFile, [low, high]: [f64; 2]) -> Result<Self, String> {
        if output.recipe.has_moving_geometry() {
            return Err(format!(
                "--map-range {low},{high}: the geometry differs between frames, so the bins have other pixels in each; \
                 expected frames of one geometry"
            ));
        }
        let radial = &output.shared.axes.radial;
        let weights = &output.shared.weights;
        let norms = weights.norm.iter().zip(&weights.norm_sq).enumerate();
        let is_inside = |bin: usize| {
            let center =
                bin.checked_rem(radial.centers.len()).and_then(|at| radial.centers.get(at));
            center.is_some_and(|center| (low..=high).contains(center))
        };
        let bins: Vec<RangeBin> = norms
            .filter(|(index, (norm, _))| is_inside(*index) && **norm > 0.0)
            .map(|(index, (&norm, &norm_sq))| RangeBin { index, norm, norm_sq })
            .collect();
        if bins.is_empty() {
            let (first, last) = crate::axes::ends(&radial.centers);
            return Err(format!(
                "--map-range {low},{high}: no bin with pixels there; bins are at {first} to {last} {}",
                radial.units
            ));
        }
        let label = format!("{low} to {high} {}", radial.plot_label());
        Ok(Self { label, bins, error: output.recipe.error })
    }

    /// Returns the weighted mean of a pattern's bins and its error. NaN if all of them
    /// are.
    fn mean(&self, intensity: &[f32], errors: Option<&[f32]>) -> (f64, f64) {
        let (mut signal, mut variance, mut sum_norm, mut sum_norm_sq) = (0.0, 0.0, 0.0, 0.0);
        for &RangeBin { index, norm, norm_sq } in &self.bins {
            let value = intensity.get(index).map_or(NAN64, |value| f64::from(*value));
            if value.is_nan() {
                continue;
            }
            let error = errors.and_then(|errors| errors.get(index));
            let error = error.map_or(NAN64, |error| f64::from(*error));
            signal += norm * value;
            variance += match self.error {
                ErrorMeasure::Sem => (norm * error).powi(2),
                ErrorMeasure::Std => norm_sq * error.powi(2),
            };
            sum_norm += norm;
            sum_norm_sq += norm_sq;
        }
        if sum_norm == 0.0 {
            return (NAN64, NAN64);
        }
        let error = match self.error {
            ErrorMeasure::Sem => variance.sqrt() / sum_norm,
            ErrorMeasure::Std => (variance / sum_norm_sq).sqrt(),
        };
        (signal / sum_norm, error)
    }
}

/// The sources of a map.
struct MapData<'a> {
    output: &'a OutputFile,
    /// Slow and fast axis.
    axes: &'a [FrameNumbers; 2],
    ranges: &'a [RangeBins],
    /// Frames with their positions, slow and fast.
    positions: &'a [(usize, [f64; 2])],
}

/// The order in which patterns are written.
struct MapCells<'a> {
    /// Frame of each cell; `None` where nothing was measured.
    frames: Vec<Option<usize>>,
    /// Shape of the cells.
    shape: Vec<usize>,
    /// Names of the axes.
    axes: Vec<&'a str>,
}

impl MapData<'_> {
    /// Writes a map on a grid.
    fn write_grid(&self, group: &Group, grid: &MapGrid) -> Result<(), WriteError> {
        let shape = vec![grid.slow.len(), grid.fast.len()];
        let names = self.axis_names();
        for (name, (axis, positions)) in
            names.iter().zip(self.axes.iter().zip([&grid.slow, &grid.fast]))
        {
            describe_axis(&group.write_list(name, positions)?, axis)?;
        }
        let cell = |cell: &Option<usize>| cell.and_then(|index| self.positions.get(index));
        let frames: Vec<Option<usize>> =
            grid.cells.iter().map(|at| cell(at).map(|(frame, _)| *frame)).collect();
        let numbers: Vec<i64> =
            frames.iter().map(|frame| frame.map_or(-1, |frame| frame as i64)).collect();
        let dataset = group.write_array("frame", &numbers, &shape)?;
        dataset.set_text("long_name", "frame in each cell; -1: none was measured")?;
        for (axis, name) in names.iter().enumerate() {
            let value = |at: &Option<usize>| {
                cell(at).and_then(|(_, position)| position.get(axis)).copied().unwrap_or(NAN64)
            };
            let measured: Vec<f64> = grid.cells.iter().map(value).collect();
            let dataset = group.write_array(&format!("{name}_measured"), &measured, &shape)?;
            dataset.set_text("long_name", "position of the frame in each cell")?;
        }
        let axes = names.iter().map(String::as_str).collect();
        self.write_patterns(group, &MapCells { frames, shape, axes })
    }

    /// Writes the frames as a list with their positions.
    fn write_list(&self, group: &Group) -> Result<(), WriteError> {
        let names = self.axis_names();
        for (axis, (name, numbers)) in names.iter().zip(self.axes).enumerate() {
            let all = self.positions.iter().filter_map(|(_, position)| position.get(axis));
            let all: Vec<f64> = all.copied().collect();
            describe_axis(&group.write_list(name, &all)?, numbers)?;
        }
        let frames: Vec<Option<usize>> =
            self.positions.iter().map(|(frame, _)| Some(*frame)).collect();
        let numbers: Vec<i64> = self.positions.iter().map(|(frame, _)| *frame as i64).collect();
        group.write_list("frame", &numbers)?.set_text("long_name", "frame")?;
        // A list of numbers over two lists of positions is what viewers show as a scatter plot.
        let axes: Vec<&str> = match self.ranges {
            [] => vec!["frame"],
            _ => names.iter().map(String::as_str).rev().collect(),
        };
        self.write_patterns(group, &MapCells { shape: vec![frames.len()], frames, axes })
    }

    fn write_status(&self, group: &Group, cells: &MapCells) -> h5::Result<()> {
        let status = |frame: &Option<usize>| {
            frame
                .and_then(|frame| self.output.status.get(frame))
                .map_or(NO_FRAME, |found| *found as u8)
        };
        let all: Vec<u8> = cells.frames.iter().map(status).collect();
        let dataset = group.write_array("frame_status", &all, &cells.shape)?;
        let values: Vec<u8> =
            Status::ALL.iter().map(|status| *status as u8).chain([NO_FRAME]).collect();
        dataset.set_numbers("flag_values", &values)?;
        let meanings = Status::ALL.map(Status::name).join(" ");
        dataset.set_text("flag_meanings", &format!("{meanings} no_frame"))?;
        dataset.set_text("description", Status::DESCRIPTION)
    }

    /// Writes whole patterns, or the means over the ranges, and the status of each frame.
    fn write_patterns(&self, group: &Group, cells: &MapCells) -> Result<(), WriteError> {
        self.write_status(group, cells)?;
        match self.ranges {
            [] => self.write_whole_patterns(group, cells),
            _ => self.write_ranges(group, cells),
        }
    }

    fn write_whole_patterns(&self, group: &Group, cells: &MapCells) -> Result<(), WriteError> {
        let bins = &self.output.shared.axes;
        let interpretation = if bins.chi.is_some() { "image" } else { "spectrum" };
        group.set_text("signal", "intensity")?;
        write_pattern_axes(group, &cells.axes, bins)?;
        let [rows, inner @ ..] = &cells.shape[..] else { return Ok(()) };
        let row: Vec<usize> = inner.iter().copied().chain(bins.shape()).collect();
        let table = |name| -> h5::Result<RowWriter<f32>> {
            let table = RowWriter::with_rows(group, name, *rows, &row, Compression::Gzip)?;
            group.dataset(name)?.set_text("interpretation", interpretation)?;
            Ok(table)
        };
        let has_errors = crate::Normalizer::new(&self.output.recipe).has_errors();
        let mut intensity = table("intensity")?;
        let mut errors = has_errors.then(|| table("intensity_errors")).transpose()?;
        group.dataset("intensity")?.set_text("long_name", &self.output.intensity_label()?)?;
        let (mut source, bins) = (self.output.rows()?, bins.bins());
        let columns = inner.iter().product::<usize>().max(1);
        let line_width = columns.saturating_mul(bins).max(1);
        let lines = rows_in::<[f32; 2]>(BATCH_BYTES, line_width);
        // Lines may go back, or across the order of the frames in the file, which is read forward.
        for batch in cells.frames.chunks(columns.saturating_mul(lines)) {
            let mut values = vec![NAN32; batch.len().saturating_mul(bins)];
            let mut sigmas = if has_errors { values.clone() } else { Vec::new() };
            for (frame, cell) in in_order_of_frames(batch) {
                let (found, error) = source.pattern(frame)?;
                copy_pattern(&mut values, cell, &found);
                copy_pattern(&mut sigmas, cell, &error.unwrap_or_default());
            }
            for line in values.chunks(line_width) {
                intensity.push(line.iter().copied())?;
            }
            for line in sigmas.chunks(line_width) {
                errors.as_mut().map_or(Ok(()), |errors| errors.push(line.iter().copied()))?;
            }
        }
        intensity.flush()?;
        errors.iter_mut().try_for_each(RowWriter::flush)?;
        Ok(())
    }

    fn write_ranges(&self, group: &Group, cells: &MapCells) -> Result<(), WriteError> {
        let MapCells { frames, shape, axes } = cells;
        let has_errors = crate::Normalizer::new(&self.output.recipe).has_errors();
        let nothing = vec![NAN64; frames.len()];
        let mut means = vec![(nothing.clone(), nothing); self.ranges.len()];
        let mut source = self.output.rows()?;
        for (frame, cell) in in_order_of_frames(frames) {
            let (intensity, errors) = source.pattern(frame)?;
            for ((values, sigmas), range) in means.iter_mut().zip(self.ranges) {
                let (value, error) = range.mean(&intensity, errors.as_deref());
                copy_pattern(values, cell, &[value]);
                copy_pattern(sigmas, cell, &[error]);
            }
        }
        let names: Vec<String> =
            (1..=self.ranges.len()).map(|number| format!("range_{number}")).collect();
        group.set_texts("axes", axes)?;
        let mut signals = names.iter().map(String::as_str);
        group.set_text("signal", signals.next().unwrap_or_default())?;
        let others: Vec<&str> = signals.collect();
        if !others.is_empty() {
            group.set_texts("auxiliary_signals", &others)?;
        }
        for ((name, range), (values, errors)) in names.iter().zip(self.ranges).zip(&means) {
            let dataset = group.write_array(name, values, shape)?;
            dataset.set_text("long_name", &range.label)?;
            dataset.set_text(
                "interpretation",
                if axes.len() == shape.len() { "image" } else { "scalar" },
            )?;
            if has_errors {
                group.write_array(&format!("{name}_errors"), errors, shape)?;
            }
        }
        Ok(())
    }

    /// Returns the names of the datasets of both axes.
    fn axis_names(&self) -> [String; 2] {
        self.axes.each_ref().map(|axis| {
            let name = axis_dataset_name(&axis.name, &self.output.shared.axes);
            let is_taken = name == "frame" || name.starts_with("range_");
            if is_taken { format!("motor_{name}") } else { name }
        })
    }
}

/// Returns the cells that have a frame, ordered by frame: (frame, cell).
fn in_order_of_frames(cells: &[Option<usize>]) -> Vec<(usize, usize)> {
    let numbered = cells.iter().enumerate();
    let mut order: Vec<(usize, usize)> =
        numbered.filter_map(|(cell, frame)| frame.map(|frame| (frame, cell))).collect();
    order.sort_unstable();
    order
}

/// Copies the pattern of a cell to its place in `all`, which has those of all cells.
fn copy_pattern<T: Copy>(all: &mut [T], cell: usize, pattern: &[T]) {
    let start = cell.saturating_mul(pattern.len());
    if let Some(place) = all.get_mut(start..start.saturating_add(pattern.len())) {
        place.copy_from_slice(pattern);
    }
}

fn describe_axis(dataset: &Dataset, axis: &FrameNumbers) -> h5::Result<()> {
    match &axis.units {
        Some(units) => {
            dataset.set_text("units", units)?;
            dataset.set_text("long_name", &format!("{} ({units})", axis.name))
        }
        None => dataset.set_text("long_name", &axis.name),
    }
}
