//! Names in final files, and the groups and axes of NeXus.

use crate::h5::{Dataset, Group, Result};
use crate::{PatternAxis, SharedBins};

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
}

/// Value of `creator` and `program`.
pub(super) const PROGRAM: &str = "azpipe";

/// Returns the name of the NXentry; `1.1` if the scan has no entry.
pub(super) fn entry_name(entry: &str) -> String {
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

/// First axis of several patterns.
pub(super) struct PointAxis<'a> {
    /// Number of each pattern.
    pub numbers: &'a [i64],
    /// Meaning of the numbers.
    pub label: &'a str,
}

/// Writes the axes of an NXdata group. The axis `points`, if any, is the first.
pub(super) fn write_axes(group: &Group, shared: &SharedBins, title: &str, points: Option<PointAxis>) -> Result<()> {
    let mut names: Vec<&str> = points.iter().map(|_| name::POINTS).collect();
    names.extend(shared.axes.iter().map(|axis| axis.name.as_str()));
    group.set_text("signal", name::INTENSITY)?;
    group.set_texts("axes", &names)?;
    for (index, name) in (0u32..).zip(&names) {
        group.set_number(&format!("{name}_indices"), index)?;
    }
    if let Some(points) = points {
        let dataset = group.write_list(name::POINTS, points.numbers)?;
        dataset.set_text("long_name", points.label)?;
    }
    shared.axes.iter().try_for_each(|axis| write_axis(group, axis))?;
    group.write_text("title", title).map(drop)
}

fn write_axis(group: &Group, axis: &PatternAxis) -> Result<()> {
    let dataset = group.write_list(&axis.name, &axis.centers)?;
    dataset.set_text("units", &axis.units)?;
    dataset.set_text("long_name", &axis.label())
}

/// Sets the interpretation of a dataset's last dimensions: a curve or an image.
pub(super) fn set_interpretation(dataset: &Dataset, shared: &SharedBins) -> Result<()> {
    let interpretation = if shared.axes.chi.is_some() { "image" } else { "spectrum" };
    dataset.set_text("interpretation", interpretation)
}
