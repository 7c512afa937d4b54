//! The groups `instrument` and `sample` of a final file: the geometry and the names that are needed
//! without the raw file.

use geometry::{Detector, PixelMapping, Poni};
use recipe::PoniRange;

use super::content::{EXPERIMENT_NAMES, OutputContent};
use super::counters::ignore_unusable;
use super::schema::{create_nexus_group, entry_name, escape_name, name};
use crate::h5::{Group, Result};
use crate::rounding::NAN64;

/// Planck's constant times the speed of light in keV Å, exact in SI units since 2019.
pub(crate) const KEV_ANGSTROM: f64 = 12.398_419_843_320_026;

/// Members of `instrument` that no detector can be called.
const OTHER_MEMBERS: [&str; 2] = ["name", "beam"];

/// Names of the beamline and the sample.
#[derive(Debug, Default)]
pub(super) struct ExperimentNames {
    pub instrument: Option<String>,
    pub sample: Option<String>,
}

impl ExperimentNames {
    /// Reads the names from the raw file or, if that can't be read any more, from the existing
    /// final file.
    ///
    /// # Errors
    /// Fails if the existing final file can't be read.
    pub fn read(raw: Option<&Group>, content: &OutputContent) -> Result<Self> {
        let scan = &content.target.task().acquisition;
        let entry = format!("/{}", entry_name(&scan.entry));
        let read = |file: &Group| {
            let [instrument, sample] =
                EXPERIMENT_NAMES.map(|path| ignore_unusable(file.text(&format!("{entry}/{path}"))));
            Ok(Self { instrument: instrument?, sample: sample? })
        };
        match raw.map(read) {
            Some(Ok(names)) => return Ok(names),
            Some(Err(why)) => content.warn_of_raw_file(why)?,
            None => (),
        }
        let mut names = Self::default();
        if let Some(existing) = content.existing {
            for (group, name) in
                [(name::INSTRUMENT, &mut names.instrument), (name::SAMPLE, &mut names.sample)]
            {
                let (group, path) = (format!("{entry}/{group}"), format!("{entry}/{group}/name"));
                if existing.has_group(&group)? && existing.process.contains(&path)? {
                    *name = Some(existing.process.text(&path)?);
                }
            }
        }
        Ok(names)
    }
}

/// Writes `instrument`, in it the group of the detector, and `sample`, and returns them. A merged
/// final file has several geometries, each with its member. A detector that moves has no distance here:
/// its geometries are in the recipe.
pub(super) fn write_instrument_and_sample(
    entry: &Group,
    content: &OutputContent,
    names: &ExperimentNames,
) -> Result<Vec<Group>> {
    let instrument = create_nexus_group(entry, name::INSTRUMENT, "NXinstrument")?;
    if let Some(name) = &names.instrument {
        instrument.write_text("name", name)?;
    }
    let sample = create_nexus_group(entry, name::SAMPLE, "NXsample")?;
    if let Some(name) = &names.sample {
        sample.write_text("name", name)?;
    }
    if let Some(motor) = content.recipe.incident_angle_motor().filter(|_| !content.is_merged) {
        let angles = incident_angles(&content.recipe.poni_table, content.target.frames() as usize);
        let angles = sample.write_list("incident_angle", &angles)?;
        angles.set_text("units", "deg")?;
        angles.set_text("description", &format!("position of {motor} at each frame"))?;
    }
    let poni = Poni::parse(&content.recipe.poni).ok().filter(|_| !content.is_merged);
    let Some(poni) = poni else { return Ok(vec![instrument, sample]) };
    if let Some(wavelength) = poni.wavelength {
        let (beam, angstroms) =
            (create_nexus_group(&instrument, "beam", "NXbeam")?, wavelength * 1e10);
        write_number(&beam, "incident_wavelength", angstroms, "angstrom")?;
        write_number(&beam, "incident_energy", KEV_ANGSTROM / angstroms, "keV")?;
    }
    let detector = write_detector(&instrument, content, &poni)?;
    Ok(vec![instrument, detector, sample])
}

/// Returns the incident angle of each frame in degrees, NaN for those without.
fn incident_angles(ranges: &[PoniRange], frames: usize) -> Vec<f64> {
    let mut angles = vec![NAN64; frames];
    for PoniRange { first, last, incident_angle, .. } in ranges {
        let first = usize::try_from(*first).unwrap_or(usize::MAX).min(frames);
        let end = usize::try_from(*last).unwrap_or(usize::MAX).saturating_add(1).min(frames);
        angles[first..end.max(first)].fill(incident_angle.unwrap_or(NAN64));
    }
    angles
}

fn write_detector(instrument: &Group, content: &OutputContent, poni: &Poni) -> Result<Group> {
    let scan = &content.target.task().acquisition;
    let name = escape_name(&scan.detector);
    let name = if OTHER_MEMBERS.contains(&name.as_str()) { "detector" } else { &name };
    let group = create_nexus_group(instrument, name, "NXdetector")?;
    let is_moving = content.recipe.has_moving_detector();
    if !is_moving {
        write_number(&group, "distance", poni.dist, "m")?;
    }
    let layout = content.recipe.framing(&scan.frame_layout());
    // The detector of a file may be readable where the frames were integrated only.
    if let Some(view) = Detector::from_poni(poni)
        .ok()
        .and_then(|detector| PixelMapping::new(&detector, &layout).ok())
    {
        group.write_text("description", &view.detector.name)?;
        write_number(&group, "x_pixel_size", view.detector.pixel2, "m")?;
        write_number(&group, "y_pixel_size", view.detector.pixel1, "m")?;
    }
    if is_moving {
        return Ok(group);
    }
    let geometry = create_nexus_group(&group, "poni", "NXcollection")?;
    geometry.set_text(
        "description",
        "geometry as in pyFAI's PONI files; the whole file is in `configuration`",
    )?;
    for (name, value, units) in [
        ("dist", poni.dist, "m"),
        ("poni1", poni.poni1, "m"),
        ("poni2", poni.poni2, "m"),
        ("rot1", poni.rot1, "rad"),
        ("rot2", poni.rot2, "rad"),
        ("rot3", poni.rot3, "rad"),
    ] {
        write_number(&geometry, name, value, units)?;
    }
    Ok(group)
}

fn write_number(group: &Group, name: &str, value: f64, units: &str) -> Result<()> {
    group.write_scalar(name, value)?.set_text("units", units)
}
