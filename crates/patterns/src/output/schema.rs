//! Names in final files, and the groups and axes of NeXus.

use frames::ScaledDataset;

use crate::axes::print_degrees;
use crate::h5::{Dataset, Group, Result};
use crate::{PatternAxis, SharedBins, Status};

/// Names of groups, datasets and attributes.
pub(super) mod name {
    pub const CREATOR: &str = "creator";
    pub const INTEGRATED: &str = "integrated";
    pub const AVERAGED: &str = "averaged";
    pub const CONFIGURATION: &str = "configuration";
    pub const COVERAGE: &str = "coverage";
    pub const DATA: &str = "data";
    pub const INTENSITY: &str = "intensity";
    pub const ERRORS: &str = "intensity_errors";
    pub const SIGNAL: &str = "signal";
    pub const VARIANCE: &str = "variance";
    pub const NORM: &str = "norm";
    pub const NORM_SQ: &str = "norm_sq";
    pub const COUNT: &str = "count";
    pub const POINTS: &str = "points";
    pub const FRAME_STATUS: &str = "frame_status";
    pub const MONITOR: &str = "monitor";
    pub const TASK: &str = "task";
    pub const PARTS: &str = "parts";
    pub const ROW_DIGEST: &str = "row_digest";
    pub const STORED_DIGEST: &str = "stored_digest";
    pub const DATA_DIGEST: &str = "data_digest";
    pub const COVERAGE_DIGEST: &str = "coverage_digest";
    pub const REFERENCE: &str = "reference";
    pub const COUNTERS: &str = "counters";
    pub const POSITIONERS: &str = "positioners";
    pub const LAYOUT: &str = "layout";
    pub const METHOD: &str = "method";
    pub const FRAMES: &str = "frames";
    pub const AVERAGED_DIGEST: &str = "averaged_digest";
    pub const CHECKSUMS: &str = "checksums";
    pub const INSTRUMENT: &str = "instrument";
    pub const SAMPLE: &str = "sample";
    pub const RAW_FILE: &str = "raw_file";
    pub const RAW_FILE_DENIED: &str = "raw_file_denied";
    pub const COUNTED: &str = "counted";
}

/// Value of `creator` and `program`.
pub(super) const PROGRAM: &str = "azpipe";

/// Returns the name of the NXentry; `1.1` if the scan has no entry.
pub(crate) fn entry_name(entry: &str) -> String {
    if entry.is_empty() { "1.1".to_owned() } else { escape_name(entry) }
}

/// Replaces the characters of a name that HDF5 takes for a path.
pub(super) fn escape_name(name: &str) -> String {
    match name {
        "" | "." | ".." => "detector".to_owned(),
        name => name.replace('/', "_"),
    }
}

/// Creates a group of a NeXus class.
pub(crate) fn create_nexus_group(parent: &Group, name: &str, nexus_class: &str) -> Result<Group> {
    let group = parent.create_group(name)?;
    set_nexus_class(&group, nexus_class)?;
    Ok(group)
}

pub(super) fn set_nexus_class(group: &Group, nexus_class: &str) -> Result<()> {
    group.set_text("NX_class", nexus_class)
}

/// The one motor that was scanned.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScannedMotor {
    /// Name of the dataset: that of the motor, or `motor_NAME` if another dataset has the name.
    pub name: String,
    /// Position at each frame, strictly ascending or descending.
    pub positions: Vec<f64>,
    pub units: Option<String>,
}

impl ScannedMotor {
    /// Returns the title of the axis, such as `rot (°)`.
    fn label(&self) -> String {
        match &self.units {
            Some(units) => format!("{} ({})", self.name, print_degrees(units)),
            None => self.name.clone(),
        }
    }
}

/// First axis of several patterns: their numbers or, if a motor was scanned, its positions.
pub(super) struct FrameAxis<'a> {
    /// Number of each pattern.
    pub numbers: &'a [i64],
    /// Meaning of the numbers.
    pub label: &'a str,
    /// Motor whose positions are the axis; the numbers are there, too.
    pub motor: Option<&'a ScannedMotor>,
}

impl FrameAxis<'_> {
    /// Returns the name of the dataset with the axis.
    pub fn name(&self) -> &str {
        self.motor.map_or(name::POINTS, |motor| &motor.name)
    }
}

/// Writes the axes of an NXdata group. The axis of frames, if any, is the first.
pub(super) fn write_axes(
    group: &Group,
    shared: &SharedBins,
    title: &str,
    frames: Option<&FrameAxis>,
) -> Result<()> {
    let names: Vec<&str> =
        frames.map(FrameAxis::name).into_iter().chain(radial_and_chi(shared)).collect();
    group.set_text("signal", name::INTENSITY)?;
    group.set_texts("axes", &names)?;
    for (index, name) in (0u32..).zip(&names) {
        group.set_number(&format!("{name}_indices"), index)?;
    }
    if let Some(frames) = frames {
        let dataset = group.write_list(name::POINTS, frames.numbers)?;
        dataset.set_text("long_name", frames.label)?;
        if let Some(motor) = frames.motor {
            group.set_number(&format!("{}_indices", name::POINTS), 0_u32)?;
            let dataset = group.write_list(&motor.name, &motor.positions)?;
            dataset.set_text("long_name", &motor.label())?;
            motor.units.as_ref().map_or(Ok(()), |units| dataset.set_text("units", units))?;
        }
    }
    shared.axes.iter().try_for_each(|axis| write_axis(group, axis))?;
    group.write_text("title", title).map(drop)
}

fn write_axis(group: &Group, axis: &PatternAxis) -> Result<()> {
    let dataset = group.write_list(&axis.name, &axis.centers)?;
    dataset.set_text("units", &axis.units)?;
    dataset.set_text("long_name", &axis.plot_label())
}

fn radial_and_chi(shared: &SharedBins) -> impl Iterator<Item = &str> {
    shared.axes.iter().map(|axis| axis.name.as_str())
}

/// Makes the axes the dimension scales of all datasets of an NXdata group, after they were written.
/// `frames` is the name of the first axis of several patterns.
pub(super) fn attach_scales(
    group: &Group,
    shared: &SharedBins,
    frames: Option<&str>,
) -> Result<()> {
    let bins: Vec<&str> = radial_and_chi(shared).collect();
    let frames: Vec<&str> = frames.into_iter().collect();
    let rows = [frames.clone(), bins.clone()].concat();
    let of_frames = [name::FRAME_STATUS, name::MONITOR, name::POINTS, name::FRAMES];
    let all = [name::INTENSITY, name::ERRORS, name::SIGNAL, name::VARIANCE]
        .map(|name| (name, &rows))
        .into_iter();
    let all = all.chain([name::NORM, name::NORM_SQ, name::COUNT].map(|name| (name, &bins)));
    let all =
        all.chain(of_frames.map(|name| (name, &frames)).into_iter().filter(|_| !frames.is_empty()));
    let mut datasets = Vec::new();
    for (name, scales) in all {
        // An axis has no axis itself.
        if !scales.contains(&name) && group.contains(name)? {
            datasets.push(ScaledDataset { name, scales: scales.clone() });
        }
    }
    group.attach_scales(&datasets)
}

/// Sets the interpretation of a dataset's last dimensions: a curve or an image.
pub(super) fn set_interpretation(dataset: &Dataset, shared: &SharedBins) -> Result<()> {
    let interpretation = if shared.axes.chi.is_some() { "image" } else { "spectrum" };
    dataset.set_text("interpretation", interpretation)
}

/// Writes the status of each frame, with the meanings of the numbers.
pub(crate) fn write_statuses(group: &Group, status: &[Status]) -> Result<()> {
    let numbers: Vec<u8> = status.iter().map(|status| *status as u8).collect();
    let dataset = group.write_list(name::FRAME_STATUS, &numbers)?;
    dataset.set_numbers("flag_values", &Status::ALL.map(|status| status as u8))?;
    dataset.set_text("flag_meanings", &Status::ALL.map(Status::name).join(" "))?;
    dataset.set_text("description", Status::DESCRIPTION)
}
