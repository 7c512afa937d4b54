//! A master file as the Bliss writer leaves it.

use std::path::Path;

use hdf5::{File, Group, Hyperslab, Result, SliceOrIndex};

use crate::frame::beam;
use crate::lima::{EXPOSURE, dataset_path, descriptor};
use crate::nexus::{attribute, create, group, numbers, quantity, scalar, string};
use crate::{Defect, Scan};

/// Seconds from one point of a scan to the next.
const PERIOD: f64 = 0.105;
/// Seconds since 1970 of the first scan's start, 2026-03-04T10:20:30+01:00.
const START: f64 = 1_772_616_030.0;
/// Counts of the monitor in the full beam.
const MONITOR: f64 = 1e6;
/// The scanned motor's first and last position in degrees.
const TURN: [f64; 2] = [-90.0, 90.0];

/// The master of a dataset.
pub(crate) struct Master {
    file: File,
    sample: &'static str,
}

impl Master {
    /// Makes a master without scans.
    pub(crate) fn create(path: &Path, sample: &'static str) -> Result<Self> {
        let file = create(path)?;
        attribute(&file, "NX_class", "NXroot")?;
        attribute(&file, "creator", "Bliss")?;
        attribute(&file, "publisher_version", "2.0.4")?;
        attribute(&file, "file_time", "2026-03-04T10:20:30.000000+01:00")?;
        attribute(&file, "file_name", &path.to_string_lossy())?;
        attribute(&file, "default", "1.1")?;
        Ok(Self { file, sample })
    }

    /// Adds a scan: the entry of its fast chain, with the frames, and that of a slow one without.
    pub(crate) fn add(&mut self, scan: &Scan<'_>) -> Result<()> {
        let fast = self.entry(scan, 1)?;
        let points = scan.points();
        let instrument = fast.group("instrument")?;
        self.counters(&fast, scan)?;
        self.positioners(&fast, scan)?;
        detector(&instrument, scan)?;
        if scan.defect != Some(Defect::Running) {
            let device = scan.options.detector.device;
            images(&instrument.group(device)?, scan)?;
            link(&fast, device, &format!("{device}/image"))?;
        }

        let slow = self.entry(scan, 2)?;
        let current: Vec<f64> =
            (0..=points / 10).map(|point| 195.3 - 0.01 * point as f64).collect();
        counter(&slow, "machine_current", &current, "mA")
    }

    fn entry(&self, scan: &Scan<'_>, chain: usize) -> Result<Group> {
        let name = format!("{}.{chain}", scan.number);
        let entry = group(&self.file, &name, "NXentry")?;
        let points = scan.options.frames;
        string(
            &entry,
            "title",
            &format!("ascan rot {} {} {} {EXPOSURE}", TURN[0], TURN[1], points.saturating_sub(1)),
        )?;
        string(&entry, "start_time", &time(scan.number, 30))?;
        let status = match scan.defect {
            Some(Defect::Running) => "RUNNING",
            Some(Defect::Aborted) => "FAILED",
            _ => "SUCCEEDED",
        };
        if scan.defect != Some(Defect::Running) {
            string(&entry, "end_time", &time(scan.number, 55))?;
            let reason =
                if scan.defect == Some(Defect::Aborted) { "USER_ABORT" } else { "SUCCESS" };
            string(&entry, "end_reason", reason)?;
        }
        let writer = group(&entry, "writer", "NXnote")?;
        string(&writer, "status", status)?;
        let sample = group(&entry, "sample", "NXsample")?;
        string(&sample, "name", self.sample)?;
        let parameters = group(&entry, "scan_parameters", "NXparameters")?;
        quantity(&parameters, "count_time", EXPOSURE, "s")?;
        let instrument = group(&entry, "instrument", "NXinstrument")?;
        string(&instrument, "name", "ESRF-ID31")?;
        group(&entry, "measurement", "NXcollection")?;
        Ok(entry)
    }

    fn counters(&self, entry: &Group, scan: &Scan<'_>) -> Result<()> {
        let points =
            |value: &dyn Fn(usize) -> f64| (0..scan.points()).map(value).collect::<Vec<_>>();
        counter(entry, "elapsed_time", &points(&|point| point as f64 * PERIOD), "s")?;
        counter(
            entry,
            "epoch",
            &points(&|point| START + 60.0 * scan.number as f64 + point as f64 * PERIOD),
            "s",
        )?;
        counter(
            entry,
            "monitor",
            &points(&|point| (MONITOR * beam(scan.options, point)).round()),
            "",
        )
    }

    fn positioners(&self, entry: &Group, scan: &Scan<'_>) -> Result<()> {
        let instrument = entry.group("instrument")?;
        let rot = group(&instrument, "rot", "NXpositioner")?;
        let step = (TURN[1] - TURN[0]) / (scan.options.frames.max(2) - 1) as f64;
        let values: Vec<f64> =
            (0..scan.points()).map(|point| TURN[0] + step * point as f64).collect();
        numbers(&rot, "value", &values, "deg")?;
        link(entry, "rot", "rot/value")?;
        for (name, rot) in [
            ("positioners", None),
            ("positioners_start", Some(TURN[0])),
            ("positioners_end", Some(TURN[1])),
        ] {
            let all = group(&instrument, name, "NXcollection")?;
            match rot {
                Some(position) => quantity(&all, "rot", position, "deg")?,
                None => all.link_soft(&format!("{}/instrument/rot/value", entry.name()), "rot")?,
            }
            for (motor, position, unit) in
                [("samy", 0.5, "mm"), ("samz", 12.25, "mm"), ("energy", 37.1, "keV")]
            {
                quantity(&all, motor, position, unit)?;
            }
        }
        Ok(())
    }
}

/// A counter in `instrument`, and its link in `measurement`.
fn counter(entry: &Group, name: &str, values: &[f64], unit: &str) -> Result<()> {
    numbers(&group(&entry.group("instrument")?, name, "NXdetector")?, "data", values, unit)?;
    link(entry, name, &format!("{name}/data"))
}

/// A soft link in `measurement` to something below `instrument`.
fn link(entry: &Group, name: &str, target: &str) -> Result<()> {
    entry.group("measurement")?.link_soft(&format!("{}/instrument/{target}", entry.name()), name)
}

/// The detector's settings.
fn detector(instrument: &Group, scan: &Scan<'_>) -> Result<()> {
    let options = scan.options;
    let detector = group(instrument, options.detector.device, "NXdetector")?;
    string(&detector, "type", "lima")?;
    string(&detector, "description", options.detector.name)?;
    for axis in ["x_pixel_size", "y_pixel_size"] {
        quantity(&detector, axis, options.detector.pixel, "m")?;
    }
    let acquisition = group(&detector, "acq_parameters", "NXcollection")?;
    scalar(&acquisition, "acq_expo_time", EXPOSURE)?;
    scalar(&acquisition, "acq_nb_frames", options.frames as i64)?;
    string(&acquisition, "acq_mode", "SINGLE")?;
    string(&acquisition, "saving_mode", "AUTO_FRAME")?;
    string(&acquisition, "saving_prefix", &format!("{}_", options.detector.device))?;
    let control = group(&detector, "ctrl_parameters", "NXcollection")?;
    string(&control, "saving_format", "HDF5BS")?;
    scalar(&control, "saving_frame_per_file", options.frames_per_file as i64)
}

/// The virtual dataset over the Lima files, which are named as seen from the master.
fn images(detector: &Group, scan: &Scan<'_>) -> Result<()> {
    let options = scan.options;
    let [rows, columns] = options.detector.shape;
    let source = dataset_path(scan);
    let whole = (options.frames, rows, columns);
    let mut builder =
        detector.new_dataset_builder().empty_as(descriptor(options.dtype)).shape(whole);
    for file in 0..scan.files() {
        let range = scan.frames_of(file);
        let all = SliceOrIndex::from(..);
        let target = Hyperslab::from(vec![SliceOrIndex::from(range.clone()), all, all]);
        builder = builder.virtual_map(
            escape_percent(&scan.file(file)),
            escape_percent(&source),
            (range.len(), rows, columns),
            ..,
            whole,
            target,
        );
    }
    let image = builder.create("image")?;
    attribute(&image, "interpretation", "image")?;
    detector.link_soft("image", "data")
}

/// A second of the minute that a scan took, local time.
fn time(scan: usize, second: usize) -> String {
    let minute = 20 + scan;
    format!(
        "2026-03-{:02}T{:02}:{:02}:{second:02}.000000+01:00",
        4 + minute / 1440,
        (10 + minute / 60) % 24,
        minute % 60
    )
}

/// Escapes the name of a source of a virtual dataset, in which HDF5 takes `%b` for a number.
fn escape_percent(name: &str) -> String {
    name.replace('%', "%%")
}
