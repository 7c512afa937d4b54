//! NeXus files by the application definitions NXazint1d and NXazint2d, with the patterns of all
//! frames of a scan. Source: <https://manual.nexusformat.org/classes/applications/NXazint1d.html>.
//!
//! ```text
//! /<N>.<M>                       NXentry   definition, title, start_time, end_time,
//!                                          solid_angle_applied, polarization_applied, normalization_applied, monitor_applied
//!   instrument                   NXinstrument   name; monochromator (wavelength, energy); source (name, type, probe)
//!   reduction                    NXprocess      program, version, date, reference; input (every setting of the recipe)
//!   monitor                      NXmonitor      data, if the recipe has a monitor
//!   data                         NXdata         I, I_errors (nImg[, nEta], nRad), the axes, their edges, norm, frame_status
//! ```

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::SystemTime;

use geometry::{Poni, Unit, quantity};
use system::ownership::ReplacePolicy;

use super::hdf5_file::{Hdf5Export, MARK, WriteError, write_hdf5_file};
use super::{ExportContent, ExportError, ExportFormat, PatternReduction};
use crate::PatternAxis;
use crate::compression::Compression;
use crate::h5::{self, Group};
use crate::output::{KEV_ANGSTROM, OutputFile, create_nexus_group, entry_name, format_iso8601};
use crate::rounding::NAN32;
use crate::row_writer::RowWriter;

/// Citation of the method and its formulas.
const CITATION: &str =
    "Ashiotis et al., J. Appl. Cryst. 48 (2015) 510-519, https://doi.org/10.1107/S1600576715004306";
const ARBITRARY: &str = "arbitrary units";

/// The format.
pub(super) struct NxAzint;

impl ExportFormat for NxAzint {
    fn name(&self) -> &'static str {
        "nxazint"
    }

    fn help(&self) -> &'static str {
        "All frames in one NeXus file by the definition NXazint1d, or NXazint2d for cakes; the unit must be 2theta or q"
    }

    fn content(&self) -> ExportContent {
        ExportContent::AllFrames
    }

    fn write(
        &self,
        output: &OutputFile,
        _: Option<PatternReduction>,
        policy: &ReplacePolicy,
    ) -> Result<Vec<PathBuf>, ExportError> {
        let (radial, wavelength) = (self.radial_name(output)?, self.wavelength(output)?);
        let export = Hdf5Export { extension: "nxs", mark: "reduction/program" };
        write_hdf5_file(&export, output, policy, |file| {
            let entry = write_entry(file, output, wavelength)?;
            write_rows(NxDataWriter::create(&entry, output, radial)?, output)
        })
    }
}

impl NxAzint {
    /// Returns the name of the radial axis in the definition.
    fn radial_name(&self, output: &OutputFile) -> Result<&'static str, ExportError> {
        let axis = &output.shared.axes.radial;
        match Unit::parse(&format!("{}_{}", axis.name, axis.units)).map(Unit::quantity) {
            Ok(found) if *found == quantity::Q => Ok("q"),
            Ok(found) if *found == quantity::TWO_THETA => Ok("2theta"),
            _ => Err(ExportError::Axis {
                path: output.path.clone(),
                axis: axis.label(),
                wanted_by: format!("--export {}", self.name()),
                expected: "q or 2th",
            }),
        }
    }

    /// Returns the wavelength in metres.
    fn wavelength(&self, output: &OutputFile) -> Result<f64, ExportError> {
        let poni = Poni::parse(&output.recipe.poni).map_err(|why| why.to_string());
        let known = poni.and_then(|poni| poni.wavelength.ok_or("none is given".to_owned()));
        known.map_err(|why| ExportError::Wavelength {
            path: output.path.clone(),
            format: self.name(),
            why,
        })
    }
}

/// Writes the patterns of all frames.
fn write_rows(data: NxDataWriter, output: &OutputFile) -> Result<(), WriteError> {
    let NxDataWriter { mut intensity, mut errors } = data;
    let (mut rows, bins) = (output.rows()?, output.shared.axes.bins());
    for frame in 0..output.status.len() {
        let (values, sigmas) = rows.pattern(frame)?;
        intensity.push(values)?;
        if let Some(errors) = &mut errors {
            errors.push(sigmas.unwrap_or_else(|| vec![NAN32; bins]))?;
        }
    }
    intensity.flush()?;
    errors.iter_mut().try_for_each(RowWriter::flush)?;
    Ok(())
}

fn write_entry(root: &Group, output: &OutputFile, wavelength: f64) -> h5::Result<Group> {
    let (scan, recipe) = (&output.task.acquisition, &output.recipe);
    root.set_text("NX_class", "NXroot")?;
    let entry_name = entry_name(&scan.entry);
    root.set_text("default", &entry_name)?;
    let entry = create_nexus_group(root, &entry_name, "NXentry")?;
    entry.set_text("default", "data")?;
    let definition = if output.shared.axes.chi.is_some() { "NXazint2d" } else { "NXazint1d" };
    entry.write_text("definition", definition)?;
    for (name, text) in
        [("title", &scan.title), ("start_time", &scan.start_time), ("end_time", &scan.end_time)]
    {
        text.as_ref().map_or(Ok(()), |text| entry.write_text(name, text).map(drop))?;
    }
    for (name, applied) in [
        ("solid_angle_applied", recipe.solid_angle),
        ("polarization_applied", recipe.polarization.is_some()),
        ("normalization_applied", true),
        ("monitor_applied", !recipe.monitor.is_empty()),
    ] {
        entry.write_scalar(name, applied)?;
    }
    write_instrument(&entry, output, wavelength)?;
    write_reduction(&entry, output)?;
    if let Some(counter) = &recipe.monitor_name() {
        let monitor = create_nexus_group(&entry, "monitor", "NXmonitor")?;
        monitor.write_list("data", &output.monitor)?;
        monitor.write_text("name", counter)?;
    }
    Ok(entry)
}

/// Names of beamline and source, as in the raw file; `unknown` if they are not there.
fn write_instrument(entry: &Group, output: &OutputFile, wavelength: f64) -> h5::Result<()> {
    let scan = &output.task.acquisition;
    let path = |name: &str| format!("/{}/instrument/{name}", scan.entry);
    let read = ["name", "source/name", "source/type", "source/probe"].map(path);
    let unread = |why: &dyn Display| {
        let why = format!("{}: names of the beamline and its source: {why}", scan.file.display());
        h5::Hdf5Error::Io(std::io::Error::other(why))
    };
    let raw = match h5::Hdf5File::open_objects_of_others(
        &scan.file,
        &read.each_ref().map(String::as_str),
        &[],
    ) {
        Err(h5::Hdf5Error::Io(why)) if why.kind() != ErrorKind::NotFound => {
            return Err(unread(&why));
        }
        // As far as is known: the process that reads it may have had no memory.
        Err(why @ h5::Hdf5Error::Damaged(_)) => return Err(unread(&why)),
        raw => raw.ok(),
    };
    let text = |name: &str, otherwise: &str| match raw.as_ref().map(|raw| raw.text(&path(name))) {
        Some(Err(why @ (h5::Hdf5Error::Io(_) | h5::Hdf5Error::Damaged(_)))) => Err(unread(&why)),
        Some(Ok(text)) => Ok(text),
        _ => Ok(otherwise.to_owned()),
    };
    let instrument = create_nexus_group(entry, "instrument", "NXinstrument")?;
    instrument.write_text("name", &text("name", "unknown")?)?;
    let monochromator = create_nexus_group(&instrument, "monochromator", "NXmonochromator")?;
    let angstroms = wavelength * 1e10;
    for (name, value, units) in
        [("wavelength", angstroms, "angstrom"), ("energy", KEV_ANGSTROM / angstroms, "keV")]
    {
        let dataset = monochromator.write_scalar(name, value)?;
        dataset.set_text("units", units)?;
    }
    let source = create_nexus_group(&instrument, "source", "NXsource")?;
    source.write_text("name", &text("source/name", "unknown")?)?;
    source.write_text("type", &text("source/type", "Synchrotron X-ray Source")?)?;
    source.write_text("probe", &text("source/probe", "x-ray")?)?;
    Ok(())
}

fn write_reduction(entry: &Group, output: &OutputFile) -> h5::Result<()> {
    let reduction = create_nexus_group(entry, "reduction", "NXprocess")?;
    reduction.write_text("program", MARK)?;
    reduction.write_text("version", env!("CARGO_PKG_VERSION"))?;
    reduction.write_text("date", &format_iso8601(SystemTime::now()))?;
    reduction.write_text("reference", CITATION)?;
    let note =
        "azimuth: 0 along the fast axis of the image, towards its slow axis, as pyFAI has it";
    reduction.write_text("note", note)?;
    let input = create_nexus_group(&reduction, "input", "NXparameters")?;
    let settings: toml::Table =
        toml::from_str(&output.recipe.to_toml()).map_err(|why| why.to_string())?;
    for (name, value) in settings {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        input.write_text(&name, &text)?;
    }
    input.write_text("recipe_digest", &output.task.recipe_digest).map(drop)
}

/// Writes the datasets with one row per frame.
struct NxDataWriter {
    intensity: RowWriter<f32>,
    errors: Option<RowWriter<f32>>,
}

impl NxDataWriter {
    fn create(entry: &Group, output: &OutputFile, radial: &str) -> h5::Result<Self> {
        let axes = &output.shared.axes;
        let data = create_nexus_group(entry, "data", "NXdata")?;
        let names = [Some("."), axes.chi.as_ref().map(|_| "azimuthal_axis"), Some("radial_axis")];
        data.set_text("signal", "I")?;
        data.set_texts("axes", &names.into_iter().flatten().collect::<Vec<_>>())?;
        data.set_text("interpretation", if axes.chi.is_some() { "image" } else { "spectrum" })?;
        write_axis(
            &data,
            "radial_axis",
            radial,
            &format!("{radial} bin edges"),
            &axes.radial,
            &axes.radial_edges(&output.recipe),
        )?;
        if let Some((chi, edges)) = axes.chi.as_ref().zip(axes.chi_edges(&output.recipe)) {
            write_axis(
                &data,
                "azimuthal_axis",
                "azimuthal bin center",
                "azimuthal bin edges",
                chi,
                &edges,
            )?;
        }
        // That of a detector that moves differs between frames.
        if !output.recipe.has_moving_geometry() {
            let norm = data.write_array("norm", &output.shared.weights.norm, &axes.shape())?;
            set_name_and_units(
                &norm,
                "effective number of pixels contributing to the corresponding bin",
                ARBITRARY,
            )?;
        }
        let status: Vec<u8> = output.status.iter().map(|status| *status as u8).collect();
        data.write_list("frame_status", &status)?;
        let table = |name, meaning| -> h5::Result<RowWriter<f32>> {
            let table = RowWriter::with_rows(
                &data,
                name,
                output.status.len(),
                &axes.shape(),
                Compression::Gzip,
            )?;
            set_name_and_units(&data.dataset(name)?, meaning, ARBITRARY)?;
            Ok(table)
        };
        let errors = output.recipe.error_model != recipe::ErrorModel::No;
        Ok(Self {
            intensity: table("I", "intensity")?,
            errors: errors.then(|| table("I_errors", "estimated intensity error")).transpose()?,
        })
    }
}

/// Writes an axis and the edges of its bins.
fn write_axis(
    data: &Group,
    name: &str,
    meaning: &str,
    edges_meaning: &str,
    axis: &PatternAxis,
    edges: &[f64],
) -> h5::Result<()> {
    set_name_and_units(&data.write_list(name, &axis.centers)?, meaning, &axis.units)?;
    let edges = data.write_list(&format!("{name}_edges"), edges)?;
    set_name_and_units(&edges, edges_meaning, &axis.units)
}

fn set_name_and_units(dataset: &h5::Dataset, meaning: &str, units: &str) -> h5::Result<()> {
    dataset.set_text("long_name", meaning)?;
    dataset.set_text("units", units)
}
