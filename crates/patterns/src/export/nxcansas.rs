//! Small-angle patterns by the NeXus definition NXcanSAS 1.1, which SasView reads. Source:
//! <https://manual.nexusformat.org/classes/applications/NXcanSAS.html>.
//!
//! ```text
//! /sasentry01                    NXentry, SASentry: one average pattern; `sasentry02` and so on for further ones
//!   definition, title, run       text
//!   sasdata01                    NXdata, SASdata
//!     Q, I, Idev                 f64 (points): 1/nm or 1/angstrom, arbitrary units, and Idev in the units of I
//!   sasinstrument01              NXinstrument, SASinstrument
//!     sasdetector01              NXdetector, SASdetector: name, SDD
//!     sassource01                NXsource, SASsource: radiation, incident_wavelength
//!   sasprocess01                 NXprocess, SASprocess: name, date, description; sasprocessnote01 (recipe, poni)
//! ```
//!
//! Each average is an entry of its own, because readers make one data set of each. Points without
//! data, or without an error above zero, are left out, because a fit can't weight them.

use std::path::PathBuf;
use std::time::SystemTime;

use geometry::{Poni, Unit, quantity};
use recipe::ErrorMeasure;
use system::ownership::ReplacePolicy;

use super::averages::Averages;
use super::hdf5_file::{Hdf5Export, MARK, WriteError, write_hdf5_file};
use super::{Background, ExportContent, ExportError, ExportFormat};
use crate::h5::{self, Group};
use crate::output::{AveragePattern, OutputFile, create_nexus_group, format_iso8601};

/// Units of intensities that are not on an absolute scale.
const ARBITRARY: &str = "a.u.";

/// The format.
pub(super) struct NxCanSas;

impl ExportFormat for NxCanSas {
    fn name(&self) -> &'static str {
        "nxcansas"
    }

    fn help(&self) -> &'static str {
        "Averaged patterns in one HDF5 file by the definition NXcanSAS, for SasView; the unit must be q"
    }

    fn content(&self) -> ExportContent {
        ExportContent::Averages
    }

    fn write(
        &self,
        output: &OutputFile,
        background: Option<&Background>,
        policy: &ReplacePolicy,
    ) -> Result<Vec<PathBuf>, ExportError> {
        let averages = Averages::new(output, background, self.name())?;
        let axis = self.q_axis(output)?;
        let extension = if background.is_some() { "subtracted.nxcansas.h5" } else { "nxcansas.h5" };
        let export = Hdf5Export { extension, mark: "sasprocess01/name" };
        write_hdf5_file(&export, output, policy, |file| {
            file.set_text("NX_class", "NXroot")?;
            file.set_text("canSAS_class", "SASroot")?;
            // Readers take entries in alphabetical order.
            let digits = averages.ranges.len().to_string().len().max(2);
            for index in 0..averages.ranges.len() {
                let name = format!("sasentry{:0digits$}", index.saturating_add(1));
                if index == 0 {
                    file.set_text("default", &name)?;
                }
                let entry = create_class(file, &name, "NXentry", "SASentry")?;
                write_entry(&entry, output, &averages, index, &axis)?;
            }
            Ok(())
        })
    }
}

/// Values of q at the centres of the bins.
struct QAxis {
    values: Vec<f64>,
    units: &'static str,
}

impl NxCanSas {
    /// Returns the axis in a unit of the definition.
    ///
    /// # Errors
    /// Fails if the axis is not q.
    fn q_axis(&self, output: &OutputFile) -> Result<QAxis, ExportError> {
        let axis = &output.shared.axes.radial;
        let unit = Unit::parse(&format!("{}_{}", axis.name, axis.units)).ok();
        let unit = unit.filter(|unit| *unit.quantity() == quantity::Q).ok_or_else(|| {
            ExportError::Axis {
                path: output.path.clone(),
                axis: axis.label(),
                format: self.name(),
                expected: "q, such as q_nm^-1",
            }
        })?;
        if unit.axis_units() == "A^-1" {
            return Ok(QAxis { values: axis.centers.clone(), units: "1/angstrom" });
        }
        Ok(QAxis { values: axis.centers.iter().map(|q| q / unit.scale()).collect(), units: "1/nm" })
    }
}

fn create_class(
    parent: &Group,
    name: &str,
    nexus_class: &str,
    cansas_class: &str,
) -> h5::Result<Group> {
    let group = create_nexus_group(parent, name, nexus_class)?;
    group.set_text("canSAS_class", cansas_class)?;
    Ok(group)
}

fn write_entry(
    entry: &Group,
    output: &OutputFile,
    averages: &Averages,
    index: usize,
    axis: &QAxis,
) -> Result<(), WriteError> {
    let (pattern, scan) = (averages.read(index)?, &output.task.acquisition);
    let range = &averages.ranges[index];
    let frames = if averages.are_of_ranges() {
        format!(" from {} to {}", range.start, range.end.saturating_sub(1))
    } else {
        String::new()
    };
    let average = format!("{}{frames}", averages.describe(&pattern));
    let stem = scan.file.file_stem().unwrap_or_default().to_string_lossy();
    entry.set_text("version", "1.1")?;
    entry.set_text("default", "sasdata01")?;
    entry.write_text("definition", "NXcanSAS")?;
    entry.write_text("title", &format!("{stem} {} {}: {average}", scan.entry, scan.detector))?;
    entry.write_text("run", &scan.entry)?;
    write_data(entry, output, &pattern, axis)?;
    write_instrument(entry, output)?;
    write_process(entry, output, &average)?;
    Ok(())
}

/// Writes the points that have data.
fn write_data(
    entry: &Group,
    output: &OutputFile,
    pattern: &AveragePattern,
    axis: &QAxis,
) -> h5::Result<()> {
    let has_error = |bin: usize| pattern.errors.as_ref().is_none_or(|errors| errors[bin] > 0.0);
    let bins: Vec<usize> = (0..axis.values.len())
        .filter(|bin| pattern.intensity[*bin].is_finite() && has_error(*bin))
        .collect();
    let values_at = |values: &[f64]| -> Vec<f64> { bins.iter().map(|bin| values[*bin]).collect() };
    let data = create_class(entry, "sasdata01", "NXdata", "SASdata")?;
    data.set_text("signal", "I")?;
    data.set_texts("axes", &["Q"])?;
    data.set_text("I_axes", "Q")?;
    data.set_number("Q_indices", 0_i64)?;
    if let Some(start_time) = &output.task.acquisition.start_time {
        data.set_text("timestamp", start_time)?;
    }
    data.write_list("Q", &values_at(&axis.values))?.set_text("units", axis.units)?;
    let intensity = data.write_list("I", &values_at(&pattern.intensity))?;
    intensity.set_text("units", ARBITRARY)?;
    if let Some(errors) = &pattern.errors {
        intensity.set_text("uncertainties", "Idev")?;
        let errors = data.write_list("Idev", &values_at(errors))?;
        errors.set_text("units", ARBITRARY)?;
        errors.set_text(
            "long_name",
            match output.recipe.error {
                ErrorMeasure::Sem => "standard error of the mean",
                ErrorMeasure::Std => "standard deviation of a pixel",
            },
        )?;
    }
    Ok(())
}

fn write_instrument(entry: &Group, output: &OutputFile) -> h5::Result<()> {
    let instrument = create_class(entry, "sasinstrument01", "NXinstrument", "SASinstrument")?;
    let detector = create_class(&instrument, "sasdetector01", "NXdetector", "SASdetector")?;
    detector.write_text("name", &output.task.acquisition.detector)?;
    let source = create_class(&instrument, "sassource01", "NXsource", "SASsource")?;
    source.write_text("radiation", "x-ray")?;
    let poni = Poni::parse(&output.recipe.poni).map_err(|why| why.to_string())?;
    // Distance along the beam; that of the PONI file is along the detector's normal.
    let distance = poni.dist / (poni.rot1.cos() * poni.rot2.cos());
    detector.write_scalar("SDD", distance * 1e3)?.set_text("units", "mm")?;
    if let Some(wavelength) = poni.wavelength {
        source
            .write_scalar("incident_wavelength", wavelength * 1e10)?
            .set_text("units", "angstrom")?;
    }
    Ok(())
}

fn write_process(entry: &Group, output: &OutputFile, average: &str) -> h5::Result<()> {
    let process = create_class(entry, "sasprocess01", "NXprocess", "SASprocess")?;
    process.write_text("name", MARK)?;
    process.write_text("date", &format_iso8601(SystemTime::now()))?;
    let version = env!("CARGO_PKG_VERSION");
    process.write_text(
        "description",
        &format!("azimuthal integration by azpipe {version}, {average}"),
    )?;
    process.write_text("term01", &format!("recipe_digest = {}", output.task.recipe_digest))?;
    let note = create_class(&process, "sasprocessnote01", "NXcollection", "SASprocessnote")?;
    note.write_text("recipe", &output.recipe.to_toml())?;
    note.write_text("poni", &output.recipe.poni)?;
    Ok(())
}
