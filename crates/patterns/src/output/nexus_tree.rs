//! [`NexusTree`]: the groups around the patterns of a new final file, in which viewers and
//! notebooks find the default plot.

use std::time::SystemTime;

use recipe::{Mean, Recipe};
use records::Acquisition;

use super::content::OutputContent;
use super::counters::ScanNumbers;
use super::instrument::{ExperimentNames, write_instrument_and_sample};
use super::pattern_labels::describe_patterns;
use super::scanned_motor::find_scanned_motor;
use super::schema::{
    FrameAxis, PROGRAM, attach_scales, create_nexus_group, entry_name, escape_name, name,
    set_interpretation, set_nexus_class, write_axes, write_statuses,
};
use super::{OutputSpec, raw_links, timestamp};
use crate::Status;
use crate::h5::{self, Group, Result};

/// Groups of a new final file.
pub(super) struct NexusTree {
    pub process: Group,
    pub integrated: Group,
    pub coverage: Group,
    measurement: Group,
    /// Name of the first axis of the patterns.
    frame_axis: String,
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
        for (name, text) in
            [("title", &scan.title), ("start_time", &scan.start_time), ("end_time", &scan.end_time)]
        {
            text.as_ref().map_or(Ok(()), |text| entry.write_text(name, text).map(drop))?;
        }
        let process = create_nexus_group(&entry, &process_name, "NXprocess")?;
        process.set_text("default", name::INTEGRATED)?;
        process.write_text("program", PROGRAM)?;
        process.write_text("version", env!("CARGO_PKG_VERSION"))?;
        process.write_text("date", &timestamp::format_iso8601(SystemTime::now()))?;
        write_configuration(&process, target, recipe)?;
        let integrated = create_nexus_group(&process, name::INTEGRATED, "NXdata")?;
        let raw = content.raw_file()?;
        let numbers = ScanNumbers::read(raw.as_deref(), content)?;
        let names = ExperimentNames::read(raw.as_deref(), content)?;
        let frames: Vec<i64> = (0..target.frames() as i64).collect();
        let motor = find_scanned_motor(
            &numbers.positioners,
            scan.title.as_deref(),
            target.frames(),
            &shared.axes,
        );
        let frame_axis = FrameAxis { numbers: &frames, label: "frame", motor: motor.as_ref() };
        write_axes(
            &integrated,
            shared,
            &plot_title(scan, names.sample.as_deref()),
            Some(&frame_axis),
        )?;
        let meanings = match content.recipe.mean {
            Mean::Weighted => {
                ["sum of normalization", "sum of squared normalization", "sum of pixel shares"]
            }
            Mean::Unweighted => [
                "sum of pixel shares",
                "sum of squared pixel shares",
                "sum of pixel shares / normalization",
            ],
        };
        let weights = [
            (name::NORM, &shared.weights.norm),
            (name::NORM_SQ, &shared.weights.norm_sq),
            (name::COUNT, &shared.weights.count),
        ];
        for ((name, values), meaning) in weights.into_iter().zip(meanings) {
            let dataset = integrated.write_array(name, values, &shared.axes.shape())?;
            dataset.set_text("long_name", meaning)?;
            if content.recipe.has_moving_geometry() {
                let why = "0, because it differs between frames: that of each is in `exceptions`";
                dataset.set_text("description", why)?;
            }
        }
        let coverage = create_nexus_group(&process, name::COVERAGE, "NXcollection")?;
        numbers.write(&process)?;
        let groups = write_instrument_and_sample(&entry, content, &names)?;
        let measurement = raw_links::write_raw_links(&entry, &groups, content, raw.as_deref())?;
        let frame_axis = frame_axis.name().to_owned();
        Ok(Self { process, integrated, coverage, measurement, frame_axis })
    }

    /// Adds attributes to the datasets, after all were written: titles, units, and the axes as HDF5
    /// dimension scales.
    pub fn describe(&self, content: &OutputContent) -> Result<()> {
        describe_patterns(&self.integrated, content)?;
        attach_scales(&self.integrated, content.shared, Some(&self.frame_axis))?;
        // By the convention CF, from which xarray takes coordinates beside the dimensions.
        let mut coordinates = Vec::new();
        for name in [name::POINTS, name::FRAME_STATUS, name::MONITOR] {
            if name != self.frame_axis && self.integrated.contains(name)? {
                coordinates.push(name);
            }
        }
        for name in [name::INTENSITY, name::ERRORS] {
            if let Some(dataset) = self.integrated.dataset_if_there(name)? {
                dataset.set_text("coordinates", &coordinates.join(" "))?;
            }
        }
        self.show_in_measurement(content)
    }

    /// Shows the patterns in `measurement`: as a virtual dataset, because netCDF4 can't read a file
    /// with a link to a dataset whose axes are in another group.
    fn show_in_measurement(&self, content: &OutputContent) -> Result<()> {
        let intensity = self.integrated.dataset(name::INTENSITY)?;
        if intensity.size()? == 0 {
            return Ok(());
        }
        let path = format!("{}/{}", self.integrated.name(), name::INTENSITY);
        let name = raw_links::patterns_name(&content.target.task().acquisition);
        let shown = self.measurement.create_view(&name, &intensity, &path, None)?;
        set_interpretation(&shown, content.shared)
    }

    /// Writes the status of each frame, and the meaning of the numbers.
    pub fn write_status(&self, status: &[Status]) -> Result<()> {
        write_statuses(&self.integrated, status)
    }

    /// Writes the monitor of each frame, with the name of the counter and the reference.
    pub fn write_monitor(&self, counter: &str, monitor: &[f64], reference: f64) -> Result<()> {
        let dataset = self.integrated.write_list(name::MONITOR, monitor)?;
        dataset.set_text("long_name", counter)?;
        dataset.set_number(name::REFERENCE, reference)
    }
}

/// Returns the title of the plot, such as `LaB6, scan 1.1, pilatus: ascan rot 0 90 100 0.1`.
fn plot_title(scan: &Acquisition, sample: Option<&str>) -> String {
    // Images, and patterns that were merged from several scans, have no entry.
    let entry = (!scan.dataset.is_empty() && !scan.entry.is_empty())
        .then(|| format!("scan {}", scan.entry));
    let sample = sample.filter(|sample| !sample.is_empty()).map(str::to_owned);
    let names: Vec<String> =
        sample.into_iter().chain(entry).chain([scan.detector.clone()]).collect();
    match scan.title.as_deref().unwrap_or_default() {
        "" => names.join(", "),
        title => format!("{}: {title}", names.join(", ")),
    }
}

fn write_configuration(process: &Group, target: &OutputSpec, recipe: &Recipe) -> Result<()> {
    let note = create_nexus_group(process, name::CONFIGURATION, "NXnote")?;
    note.write_text("type", "application/toml")?;
    note.write_text(name::DATA, &recipe.to_toml())?;
    note.write_text("description", "the recipe, with the digests of all files that it names")?;
    if let Some(poni) = recipe.common_poni() {
        note.write_text("poni", poni)?;
    }
    note.write_text("recipe_digest", &target.task().recipe_digest)?;
    note.write_text("scan", &target.task().scan)?;
    let versions =
        format!("azpipe {}\nhdf5 {}\n", env!("CARGO_PKG_VERSION"), h5::library_version());
    note.write_text("versions", &versions)?;
    Ok(())
}
