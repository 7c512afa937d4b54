//! The NeXus tree around the patterns, in which viewers and notebooks find the default plot.

use std::time::SystemTime;

use recipe::Recipe;

use super::writer::OutputContent;
use super::{OutputSpec, counters, raw_links, timestamp};
use crate::h5::{self, Dataset, Group, Result};
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
}

/// Groups of a new final file.
pub(super) struct NexusTree {
    pub process: Group,
    pub integrated: Group,
    pub coverage: Group,
}

impl NexusTree {
    /// Creates the tree, with everything that doesn't depend on a frame.
    pub fn create(root: &Group, content: &OutputContent) -> Result<Self> {
        let OutputContent { target, recipe, shared, .. } = content;
        let scan = &target.task().acquisition;
        let (entry_name, process_name) =
            (entry_name(&scan.entry), format!("{}_integrate", escape_name(&scan.detector)));
        set_nexus_class(root, "NXroot")?;
        root.set_text(name::CREATOR, PROGRAM)?;
        root.set_text("creator_version", env!("CARGO_PKG_VERSION"))?;
        root.set_text("default", &entry_name)?;
        let entry = create_nexus_group(root, &entry_name, "NXentry")?;
        entry.set_text("default", &format!("{process_name}/{}", name::INTEGRATED))?;
        for (name, text) in [("title", &scan.title), ("start_time", &scan.start_time), ("end_time", &scan.end_time)] {
            text.as_ref().map_or(Ok(()), |text| entry.write_text(name, text).map(drop))?;
        }
        let process = create_nexus_group(&entry, &process_name, "NXprocess")?;
        process.set_text("default", name::INTEGRATED)?;
        process.write_text("program", PROGRAM)?;
        process.write_text("version", env!("CARGO_PKG_VERSION"))?;
        process.write_text("date", &timestamp::format_iso8601(SystemTime::now()))?;
        write_configuration(&process, target, recipe)?;
        let integrated = create_nexus_group(&process, name::INTEGRATED, "NXdata")?;
        let title = format!("{} {}", scan.detector, scan.title.as_deref().unwrap_or_default());
        let frames: Vec<i64> = (0..target.frames() as i64).collect();
        write_axes(&integrated, shared, title.trim(), Some(PointAxis { numbers: &frames, label: "frame" }))?;
        for (name, values, meaning) in [
            (name::NORM, &shared.weights.norm, "sum of normalization"),
            (name::NORM_SQ, &shared.weights.norm_sq, "sum of squared normalization"),
            (name::COUNT, &shared.weights.count, "sum of pixel shares"),
        ] {
            let dataset = integrated.write_array(name, values, &shared.axes.shape())?;
            dataset.set_text("long_name", meaning)?;
        }
        let coverage = create_nexus_group(&process, name::COVERAGE, "NXcollection")?;
        counters::write_counters_and_positioners(&process, content)?;
        raw_links::write_raw_links(
            &entry,
            content,
            &format!("{}_integrated", escape_name(&scan.detector)),
            &integrated,
        )?;
        Ok(Self { process, integrated, coverage })
    }

    /// Adds attributes to the datasets of patterns, after they were written.
    pub fn describe(&self, shared: &SharedBins, has_errors: bool) -> Result<()> {
        let intensity = self.integrated.dataset(name::INTENSITY)?;
        set_interpretation(&intensity, shared)?;
        if has_errors {
            set_interpretation(&self.integrated.dataset(name::ERRORS)?, shared)?;
        }
        Ok(())
    }

    /// Writes the status of each frame, and the meaning of the numbers.
    pub fn write_status(&self, status: &[Status]) -> Result<()> {
        let numbers: Vec<u8> = status.iter().map(|status| *status as u8).collect();
        let dataset = self.integrated.write_list(name::FRAME_STATUS, &numbers)?;
        let (values, meanings) = (Status::ALL.map(|status| status as u8), Status::ALL.map(Status::name).join(" "));
        dataset.set_numbers("flag_values", &values)?;
        dataset.set_text("flag_meanings", &meanings)?;
        dataset.set_text("description", Status::DESCRIPTION)
    }

    /// Writes the monitor of each frame, with the name of the counter and the reference.
    pub fn write_monitor(&self, counter: &str, monitor: &[f64], reference: f64) -> Result<()> {
        let dataset = self.integrated.write_list(name::MONITOR, monitor)?;
        dataset.set_text("long_name", counter)?;
        dataset.set_number(name::REFERENCE, reference)
    }
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

fn set_nexus_class(group: &Group, nexus_class: &str) -> Result<()> {
    group.set_text("NX_class", nexus_class)
}

fn write_configuration(process: &Group, target: &OutputSpec, recipe: &Recipe) -> Result<()> {
    let note = create_nexus_group(process, name::CONFIGURATION, "NXnote")?;
    note.write_text("type", "application/toml")?;
    note.write_text(name::DATA, &recipe.to_toml())?;
    note.write_text("description", "the recipe, with the digests of all files that it names")?;
    note.write_text("poni", &recipe.poni)?;
    note.write_text("recipe_digest", &target.task().recipe_digest)?;
    note.write_text("scan", &target.task().scan)?;
    let versions = format!("azpipe {}\nhdf5 {}\n", env!("CARGO_PKG_VERSION"), h5::library_version());
    note.write_text("versions", &versions)?;
    Ok(())
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
