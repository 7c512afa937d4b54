//! [`NexusTree`]: the groups around the patterns of a new final file, in which viewers and notebooks find the default plot.

use std::time::SystemTime;

use recipe::Recipe;

use super::content::OutputContent;
use super::schema::{
    PROGRAM, PointAxis, create_nexus_group, entry_name, escape_name, name, set_interpretation, set_nexus_class,
    write_axes,
};
use super::{OutputSpec, counters, raw_links, timestamp};
use crate::h5::{self, Group, Result};
use crate::{SharedBins, Status};

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
