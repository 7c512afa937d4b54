//! Small-angle patterns by the NeXus definition NXcanSAS 1.1, which SasView reads. Source:
//! <https://manual.nexusformat.org/classes/applications/NXcanSAS.html>.
//!
//! ```text
//! /sasentry01                    NXentry, SASentry: one average pattern; `sasentry02` and so on for further ones
//!   definition, title, run       text
//!   sasdata01                    NXdata, SASdata
//!     Q, I, Idev                 f64 (points): 1/nm or 1/angstrom, 1/cm or arbitrary units, and Idev in the units of I
//!     I_scaling, I_scaling_dev   1, and the relative error that all absolute I have in common
//!   sassample01                  NXsample, SASsample: thickness, transmission, if they are used
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

use geometry::Poni;
use recipe::ErrorMeasure;
use system::ownership::ReplacePolicy;

use super::averages::Averages;
use super::hdf5_file::{Hdf5Export, MARK, WriteError, write_hdf5_file};
use super::q_axis::QAxis;
use super::{AbsoluteScale, ExportContent, ExportError, ExportFormat, PatternReduction};
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
        reduction: Option<PatternReduction>,
        policy: &ReplacePolicy,
    ) -> Result<Vec<PathBuf>, ExportError> {
        let averages = Averages::new(output, reduction, self.name())?;
        let axis = QAxis::new(output, format_args!("--export {}", self.name()))?;
        let extension = match reduction.map(PatternReduction::name) {
            Some("absolute") => "absolute.nxcansas.h5",
            Some(_) => "subtracted.nxcansas.h5",
            None => "nxcansas.h5",
        };
        let export = Hdf5Export { extension, mark: "sasprocess01/name" };
        write_hdf5_file(&export, output, policy, |file| {
            file.set_text("NX_class", "NXroot")?;
            file.set_text("canSAS_class", "SASroot")?;
            // Readers take entries in alphabetical order.
            let digits = averages.ranges.len().to_string().len().max(2);
            for (number, index) in averages.indices().enumerate() {
                let name = format!("sasentry{:0digits$}", number.saturating_add(1));
                if number == 0 {
                    file.set_text("default", &name)?;
                }
                let entry = create_class(file, &name, "NXentry", "SASentry")?;
                write_entry(&entry, output, &averages, index, &axis)?;
            }
            Ok(())
        })
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
    write_data(entry, output, averages.reduction(), &pattern, axis)?;
    write_sample(entry, averages, index)?;
    write_instrument(entry, output)?;
    write_process(entry, output, averages.reduction(), &average)?;
    Ok(())
}

/// Writes the points that have data.
fn write_data(
    entry: &Group,
    output: &OutputFile,
    reduction: Option<PatternReduction>,
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
    let units = reduction.and_then(PatternReduction::units).unwrap_or(ARBITRARY);
    intensity.set_text("units", units)?;
    if let Some(errors) = &pattern.errors {
        intensity.set_text("uncertainties", "Idev")?;
        let errors = data.write_list("Idev", &values_at(errors))?;
        errors.set_text("units", units)?;
        errors.set_text(
            "long_name",
            match output.recipe.error {
                ErrorMeasure::Sem => "standard error of the mean",
                ErrorMeasure::Std => "standard deviation of a pixel",
            },
        )?;
    }
    let absolute = reduction.and_then(|reduction| reduction.absolute);
    if let Some(error) = absolute.and_then(AbsoluteScale::relative_error) {
        intensity.set_text("scaling_factor", "I_scaling")?;
        let scaling = data.write_scalar("I_scaling", 1.0)?;
        scaling.set_text("units", "")?;
        scaling.set_text("uncertainties", "I_scaling_dev")?;
        data.write_scalar("I_scaling_dev", error)?.set_text("units", "")?;
    }
    Ok(())
}

/// Writes the thickness and the mean transmission of the sample, if they are used.
fn write_sample(entry: &Group, averages: &Averages, index: usize) -> Result<(), WriteError> {
    let Some(PatternReduction { transmission, absolute, .. }) = averages.reduction() else {
        return Ok(());
    };
    if transmission.is_none() && absolute.is_none() {
        return Ok(());
    }
    let sample = create_class(entry, "sassample01", "NXsample", "SASsample")?;
    if let Some(AbsoluteScale { thickness, .. }) = absolute {
        // SasView takes it for millimetres, whatever the units.
        sample.write_scalar("thickness", thickness.0 * 10.0)?.set_text("units", "mm")?;
    }
    if let (Some(_), Some(terms)) = (transmission, averages.terms(index)?) {
        sample.write_scalar("transmission", terms.transmission)?;
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
    if !output.recipe.has_moving_detector() {
        // Distance along the beam; that of the PONI file is along the detector's normal.
        let distance = poni.dist / (poni.rot1.cos() * poni.rot2.cos());
        detector.write_scalar("SDD", distance * 1e3)?.set_text("units", "mm")?;
    }
    if let Some(wavelength) = poni.wavelength {
        source
            .write_scalar("incident_wavelength", wavelength * 1e10)?
            .set_text("units", "angstrom")?;
    }
    Ok(())
}

fn write_process(
    entry: &Group,
    output: &OutputFile,
    reduction: Option<PatternReduction>,
    average: &str,
) -> h5::Result<()> {
    let process = create_class(entry, "sasprocess01", "NXprocess", "SASprocess")?;
    process.write_text("name", MARK)?;
    process.write_text("date", &format_iso8601(SystemTime::now()))?;
    let version = env!("CARGO_PKG_VERSION");
    process.write_text(
        "description",
        &format!("azimuthal integration by azpipe {version}, {average}"),
    )?;
    process.write_text("term01", &format!("recipe_digest = {}", output.task.recipe_digest))?;
    if let Some(AbsoluteScale { factor, .. }) = reduction.and_then(|reduction| reduction.absolute) {
        let error = factor.error.map(|error| format!(" +- {error}")).unwrap_or_default();
        process.write_text("term02", &format!("calibration_factor = {}{error}", factor.value))?;
    }
    let note = create_class(&process, "sasprocessnote01", "NXcollection", "SASprocessnote")?;
    note.write_text("recipe", &output.recipe.to_toml())?;
    match output.recipe.common_poni() {
        Some(poni) => note.write_text("poni", poni).map(drop),
        None => Ok(()),
    }
}
