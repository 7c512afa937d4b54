//! Measures how far the beam and the detector are from where the PONI file has them, by the lines of a
//! calibrant, and writes it as a NeXus file: `NAME.drift.h5`. Nothing is corrected.
//!
//! ```text
//! /entry                  NXentry    title, start_time, end_time; process (program, version, final_file)
//!   drift                 NXdata     of each frame (points): x, y, distance with their errors, chi2, positions, frame_status;
//!                                    of patterns of one dimension no x and y
//!   average               NXcollection: the same numbers of the average of all frames, the scatter of positions, and
//!                                    doubt, if there is any: few_lines, outliers, scatter or distance
//!   calibrant             NXcollection: name, wavelength, and of each line d_spacing, two_theta, fwhm, line_use, sectors;
//!                                    the numbers of lines used and left out, by reason
//! ```
//!
//! **Signs.** Each value is the true one less that of the PONI file: x of `Poni2`, y of `Poni1`, distance
//! of `Distance`. Added to the PONI file, they correct it.
//!
//! **Method.** In each sector of a cake, of 10 degrees or more, the position of each line is fitted
//! ([`peak`]), with the shape that the line has in the average of the frames ([`lines`]). The
//! displacement is fitted to all positions of a frame ([`Displacement`]). Where a frame differs from the
//! average, the lines are fitted again about where that displacement has them, and narrower if they are
//! wider in the average because the beam moves ([`frame_fit`]). Patterns of one dimension have
//! one position of each line, and determine the distance alone.

mod displacement;
mod doubt;
mod frame_fit;
mod least_squares;
mod lines;
mod peak;
mod sectors;

use std::path::PathBuf;
use std::thread::{self, Builder, ScopedJoinHandle};

use geometry::{DetectorPlane, Poni};
use recipe::ErrorMeasure;
use system::ownership::ReplacePolicy;

pub use displacement::Displacement;
use displacement::Parameters;
pub use doubt::DriftDoubt;
use frame_fit::FrameFit;
use lines::Lines;
pub use lines::{CalibrantLine, LineUse};
use peak::ProfileBin;
use sectors::Sectors;

use super::ExportError;
use super::hdf5_file::{Hdf5Export, WriteError, write_hdf5_file, write_undated_entry};
use super::mean_pattern::MeanPattern;
use crate::Status;
use crate::h5::{self, Group};
use crate::output::{OutputFile, create_nexus_group, write_statuses};
use crate::row_blocks::rows_in;

/// Approximate size of the patterns that are in memory at once.
const BATCH_BYTES: usize = 1 << 26;
/// Most frames that the widths of lines are taken from.
const SAMPLE_FRAMES: usize = 16;
/// Components of a displacement in the order of files: dataset, title, and index in [`Displacement`].
const COMPONENTS: [(&str, &str, usize); 3] = [
    ("x", "true Poni2 - Poni2 of the PONI file (m)", 1),
    ("y", "true Poni1 - Poni1 of the PONI file (m)", 0),
    ("distance", "true distance - distance of the PONI file (m)", 2),
];

/// Calibrant in the beam.
#[derive(Clone, Debug, PartialEq)]
pub struct DriftRequest {
    /// Name of the calibrant.
    pub calibrant: String,
    /// d-spacings of its lines in angstrom, in descending order.
    pub spacings: Vec<f64>,
}

/// A drift that was measured.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    /// Name of the calibrant.
    pub calibrant: String,
    /// Wavelength in metres.
    pub wavelength: f64,
    /// Distance of the PONI file in metres.
    pub distance: f64,
    /// True if patterns are cakes, which show the beam; otherwise the distance alone is known.
    pub has_beam: bool,
    /// Lines of the calibrant.
    pub lines: Vec<CalibrantLine>,
    /// Displacement in each frame.
    pub frames: Vec<Displacement>,
    /// Displacement in the average of the frames.
    pub average: Displacement,
}

impl Drift {
    /// Returns how many lines are used, or left out for a reason.
    pub fn count(&self, line_use: LineUse) -> usize {
        self.lines.iter().filter(|line| line.line_use == line_use).count()
    }

    /// Returns how many lines are left out for each reason, such as `1 too weak, 2 out of range`; empty
    /// if none are.
    pub fn describe_left_out(&self) -> String {
        let reasons = LineUse::ALL.into_iter().filter(|line_use| *line_use != LineUse::Used);
        let counted = reasons.map(|line_use| (self.count(line_use), line_use.reason()));
        let counted = counted.filter(|(count, _)| *count > 0);
        counted.map(|(count, why)| format!("{count} {why}")).collect::<Vec<_>>().join(", ")
    }

    /// Returns the name and index in [`Displacement`] of each component that patterns show: x, y and
    /// distance, or the distance alone.
    pub fn components(&self) -> impl Iterator<Item = (&'static str, usize)> {
        components(self).map(|(name, _, axis)| (name, axis))
    }

    /// Returns the displacement in the average in micrometres: name, value and error of each component.
    pub fn average_in_micrometres(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let Displacement { value, error, .. } = self.average;
        self.components().map(move |(name, axis)| (name, value[axis] * 1e6, error[axis] * 1e6))
    }

    /// Returns the number of frames in which the displacement is known.
    pub fn known_frames(&self) -> usize {
        self.frames.iter().filter(|frame| frame.is_known()).count()
    }
}

/// The largest tilt of a detector in radians for patterns of one dimension. The shift of a ring with the
/// distance depends on the azimuth by the tilt, and a pattern does not tell which part of the ring the
/// detector has: up to here, the distance is wrong by 3 % of itself at the most.
const MAX_TILT: f64 = 0.02;

/// The widest azimuthal bins in degrees. Of a bin that the detector covers in part, the azimuth is not
/// known better.
const MAX_AZIMUTHAL_BIN: f64 = 15.0;

/// Measures the drift in a final file, and writes it beside it. Returns the path, too. A file that
/// exists is replaced if azpipe wrote it and nobody changed it, or if `policy` allows it.
///
/// # Errors
/// Fails if the detector moves, if the axis is not one of 2θ, q, d*² and d, without wavelength or
/// standard errors, if too few lines are found in the average of the frames, if a file of somebody else has the
/// path, or if a file can't be read or written.
pub fn write_drift(
    output: &OutputFile,
    request: &DriftRequest,
    policy: &ReplacePolicy,
) -> Result<(PathBuf, Drift), ExportError> {
    let drift = measure(output, request)?;
    let export = Hdf5Export { extension: "drift.h5", mark: "process/program" };
    let mut paths = write_hdf5_file(&export, output, policy, |file| write(file, output, &drift))?;
    Ok((paths.pop().unwrap_or_default(), drift))
}

fn measure(output: &OutputFile, request: &DriftRequest) -> Result<Drift, ExportError> {
    let wrong = |why: String| ExportError::Drift { path: output.path.clone(), why };
    let recipe = &output.recipe;
    if recipe.has_moving_geometry() {
        return Err(wrong(
            "the detector or the sample moves; expected frames of one geometry, of which --drift measures the change".into(),
        ));
    }
    let poni = Poni::parse(&recipe.poni).map_err(|why| wrong(format!("its PONI file: {why}")))?;
    let Some(wavelength) = poni.wavelength else {
        return Err(wrong(
            "its PONI file has no wavelength, by which lines have angles; add `Wavelength: METRES` to it, and integrate again"
                .into(),
        ));
    };
    if !crate::Normalizer::new(recipe).has_errors() {
        return Err(wrong(
            "has no errors, by which lines are fitted; integrate with another --error-model than no".into(),
        ));
    }
    if recipe.error != ErrorMeasure::Sem {
        return Err(wrong(
            "its errors are standard deviations of pixels; expected those of means: integrate with --error sem".into(),
        ));
    }
    let sectors =
        Sectors::new(&output.shared, recipe, wavelength).ok_or_else(|| ExportError::Axis {
            path: output.path.clone(),
            axis: output.shared.axes.radial.label(),
            wanted_by: "--drift".into(),
            expected: "2th, q, d*2 or d",
        })?;
    let has_beam = output.shared.axes.chi.is_some();
    if !has_beam && poni.rot1.hypot(poni.rot2) > MAX_TILT {
        return Err(wrong(format!(
            "patterns of one dimension of a detector that is tilted by {:.3} rad, whose rings shift by azimuth with the \
             distance; expected {MAX_TILT} at most: integrate cakes, with --npt-azim 36",
            poni.rot1.hypot(poni.rot2)
        )));
    }
    let widest = sectors.widest_bin().to_degrees();
    if has_beam && widest > MAX_AZIMUTHAL_BIN + 1e-6 {
        return Err(wrong(format!(
            "its azimuthal bins are {widest:.1} degrees wide, and detectors cover parts of such bins; expected \
             {MAX_AZIMUTHAL_BIN} at most: integrate with --npt-azim 36"
        )));
    }
    let (mean, errors) = average(output)?;
    let average = sectors.bins(&mean, &errors);
    let lines = Lines::find(&request.spacings, wavelength, &sectors, &average);
    let parameters = if has_beam { Parameters::BeamAndDistance } else { Parameters::Distance };
    let plane = DetectorPlane::new(&poni);
    let unknown = Displacement::unknown(0);
    let mut fit =
        FrameFit { plane: &plane, lines: &lines, parameters, average: unknown, width: 1.0 };
    let average = fit.measure_average(&average);
    fit.average = average;
    let mut drift = Drift {
        calibrant: request.calibrant.clone(),
        wavelength,
        distance: poni.dist,
        has_beam,
        lines: lines.all.clone(),
        frames: Vec::new(),
        average,
    };
    if !average.is_known() {
        return Err(wrong(describe_too_few(&drift)));
    }
    let sample = read_sample(output, &sectors)?;
    fit.width = fit.find_width(sample.iter());
    drift.frames = measure_frames(output, &sectors, &fit)?;
    Ok(drift)
}

/// Explains that too few lines were found.
fn describe_too_few(drift: &Drift) -> String {
    let left_out = drift.describe_left_out();
    let left_out = match left_out.is_empty() {
        true => String::new(),
        false => format!(" ({left_out})"),
    };
    let expected = match drift.has_beam {
        true => "lines in three sectors or more of the azimuth",
        false => "two lines or more",
    };
    format!(
        "--drift {}: {} of {} lines found in {} positions{left_out}; expected {expected}: check the calibrant, and bins \
         of a third of a line's width",
        drift.calibrant,
        drift.count(LineUse::Used),
        drift.lines.len(),
        drift.average.positions
    )
}

/// Returns the mean of all frames, and its errors.
fn average(output: &OutputFile) -> Result<(Vec<f64>, Vec<f64>), ExportError> {
    let mut mean = MeanPattern::new(output);
    let mut rows = output.rows()?;
    for frame in frames_with_pattern(output) {
        let pattern = rows.pattern(frame)?;
        mean.add(frame, &pattern, &mut rows)?;
    }
    mean.finish()
}

fn frames_with_pattern(output: &OutputFile) -> impl Iterator<Item = usize> {
    let frames = output.status.iter().enumerate();
    frames.filter(|(_, status)| **status == Status::Ok).map(|(frame, _)| frame)
}

/// Returns frames from the whole scan, by sector.
fn read_sample(
    output: &OutputFile,
    sectors: &Sectors,
) -> Result<Vec<Vec<Vec<ProfileBin>>>, ExportError> {
    let frames: Vec<usize> = frames_with_pattern(output).collect();
    let mut rows = output.rows()?;
    let mut sample = Vec::new();
    for frame in frames.iter().step_by(frames.len().div_ceil(SAMPLE_FRAMES).max(1)) {
        let (intensity, errors) = rows.pattern(*frame)?;
        sample.push(sectors.bins(&intensity, &errors.unwrap_or_default()));
    }
    Ok(sample)
}

/// Measures each frame, on all CPUs.
fn measure_frames(
    output: &OutputFile,
    sectors: &Sectors,
    fit: &FrameFit,
) -> Result<Vec<Displacement>, ExportError> {
    let mut found = vec![Displacement::unknown(0); output.status.len()];
    let frames: Vec<usize> = frames_with_pattern(output).collect();
    let threads = system::cpu::available_cpus().max(1);
    let batch = rows_in::<[f32; 2]>(BATCH_BYTES, output.shared.axes.bins());
    let mut rows = output.rows()?;
    for frames in frames.chunks(batch) {
        let mut patterns = Vec::with_capacity(frames.len());
        for frame in frames {
            let (intensity, errors) = rows.pattern(*frame)?;
            patterns.push((*frame, intensity, errors.unwrap_or_default()));
        }
        let of_frame = |(frame, intensity, errors): &(usize, Vec<f32>, Vec<f32>)| {
            (*frame, fit.measure(&sectors.bins(intensity, errors)))
        };
        let share = |patterns: &[(usize, Vec<f32>, Vec<f32>)]| -> Vec<(usize, Displacement)> {
            patterns.iter().map(of_frame).collect()
        };
        let measured: Vec<(usize, Displacement)> = thread::scope(|scope| {
            let shares = patterns.chunks(patterns.len().div_ceil(threads).max(1));
            let workers: Vec<_> = shares
                .map(|patterns| {
                    let worker = Builder::new().spawn_scoped(scope, || share(patterns));
                    // A machine that has no thread to give has this one.
                    worker.map_err(|_| share(patterns))
                })
                .collect();
            let join = |worker: Result<ScopedJoinHandle<'_, Vec<_>>, Vec<_>>| match worker {
                Ok(worker) => worker.join().expect("a fit does not panic"),
                Err(measured) => measured,
            };
            workers.into_iter().flat_map(join).collect()
        });
        for (frame, displacement) in measured {
            found[frame] = displacement;
        }
    }
    Ok(found)
}

fn write(file: &Group, output: &OutputFile, drift: &Drift) -> Result<(), WriteError> {
    let (entry, _) = write_undated_entry(file, output, "drift")?;
    write_frames(&entry, output, drift)?;
    let average = create_nexus_group(&entry, "average", "NXcollection")?;
    for (name, title, axis) in components(drift) {
        let value = average.write_scalar(name, drift.average.value[axis])?;
        describe(&value, title)?;
        let error = average.write_scalar(&format!("{name}_errors"), drift.average.error[axis])?;
        error.set_text("units", "m")?;
    }
    average.write_scalar("chi2", drift.average.chi2)?;
    let scatter = average.write_scalar("scatter", drift.average.scatter)?;
    scatter.set_text(
        "long_name",
        "scatter of the positions beyond their errors, in widths of the lines",
    )?;
    average.write_scalar("positions", drift.average.positions as u64)?;
    if let Some(doubt) = drift.doubt() {
        average.write_text("doubt", doubt.name())?;
    }
    write_calibrant(&entry, drift)?;
    Ok(())
}

/// Returns the components that are known: dataset, title and index.
fn components(drift: &Drift) -> impl Iterator<Item = (&'static str, &'static str, usize)> {
    let skipped = if drift.has_beam { 0 } else { 2 };
    COMPONENTS.into_iter().skip(skipped)
}

fn describe(dataset: &h5::Dataset, title: &str) -> h5::Result<()> {
    dataset.set_text("units", "m")?;
    dataset.set_text("long_name", title)
}

fn write_frames(entry: &Group, output: &OutputFile, drift: &Drift) -> h5::Result<()> {
    let group = create_nexus_group(entry, "drift", "NXdata")?;
    group.set_text("calibrant", &drift.calibrant)?;
    group.set_number("wavelength", drift.wavelength)?;
    group.set_text("wavelength_units", "m")?;
    let names: Vec<&str> = components(drift).map(|(name, _, _)| name).collect();
    let (first, others) = names.split_first().map_or(("", &[][..]), |(one, rest)| (*one, rest));
    group.set_text("signal", first)?;
    if !others.is_empty() {
        group.set_texts("auxiliary_signals", others)?;
    }
    group.set_texts("axes", &["points"])?;
    let title = match drift.has_beam {
        true => format!("displacement by {}", drift.calibrant),
        false => format!(
            "displacement by {}: patterns without azimuth show the distance only",
            drift.calibrant
        ),
    };
    group.write_text("title", &title)?;
    let points: Vec<u64> = (0..drift.frames.len() as u64).collect();
    group.write_list("points", &points)?.set_text("long_name", "frame")?;
    for (name, title, axis) in components(drift) {
        let list = |of: fn(&Displacement) -> &[f64; 3]| -> Vec<f64> {
            drift.frames.iter().map(|frame| of(frame)[axis]).collect()
        };
        describe(&group.write_list(name, &list(|frame| &frame.value))?, title)?;
        let errors = group.write_list(&format!("{name}_errors"), &list(|frame| &frame.error))?;
        errors.set_text("units", "m")?;
    }
    let chi2: Vec<f64> = drift.frames.iter().map(|frame| frame.chi2).collect();
    group.write_list("chi2", &chi2)?.set_text("long_name", "χ² per degree of freedom")?;
    let positions: Vec<u64> = drift.frames.iter().map(|frame| frame.positions as u64).collect();
    group
        .write_list("positions", &positions)?
        .set_text("long_name", "fitted positions of lines")?;
    write_statuses(&group, &output.status)
}

fn write_calibrant(entry: &Group, drift: &Drift) -> h5::Result<()> {
    let group = create_nexus_group(entry, "calibrant", "NXcollection")?;
    group.write_text("name", &drift.calibrant)?;
    group.write_scalar("wavelength", drift.wavelength)?.set_text("units", "m")?;
    let list = |of: fn(&CalibrantLine) -> f64| -> Vec<f64> { drift.lines.iter().map(of).collect() };
    group.write_list("d_spacing", &list(|line| line.spacing))?.set_text("units", "angstrom")?;
    let angles = list(|line| line.two_theta.to_degrees());
    group.write_list("two_theta", &angles)?.set_text("units", "deg")?;
    let widths = group.write_list("fwhm", &list(|line| line.fwhm.to_degrees()))?;
    widths.set_text("units", "deg")?;
    let sectors: Vec<u64> = drift.lines.iter().map(|line| line.sectors as u64).collect();
    group.write_list("sectors", &sectors)?;
    let uses: Vec<u8> = drift.lines.iter().map(|line| line.line_use as u8).collect();
    let line_use = group.write_list("line_use", &uses)?;
    let numbers: Vec<u8> = LineUse::ALL.iter().map(|line_use| *line_use as u8).collect();
    line_use.set_numbers("flag_values", &numbers)?;
    line_use.set_text("flag_meanings", &LineUse::ALL.map(LineUse::name).join(" "))?;
    for line_use in LineUse::ALL {
        group.write_scalar(&format!("lines_{}", line_use.name()), drift.count(line_use) as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
