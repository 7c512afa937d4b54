//! The layout `integrator`: the names under which ESRF's integrator stores its results, for scripts
//! that expect them.
//!
//! ```text
//! /azim_01                      azimuthal slice; a pattern has one, a cake one per chi bin
//!   intensities, error          f32 (frames, radial)
//!   azimuthal_range             f64 (2), degrees
//!   intensities_mean_xy, …      from --average mean or median over all frames, with error_mean_xy
//! /q_A^-1                       f64 (radial), named after the unit, @radial = 1
//! /info, /positions, /configuration, /program, /version, /date
//! ```
//!
//! The names are links and views of the datasets in the NeXus tree, and hold no data.

use geometry::{Detector, PixelMapping, Poni};
use recipe::Recipe;

use super::content::OutputContent;
use super::nexus_tree::NexusTree;
use super::schema::name;
use super::{AverageMethod, OutputSpec};
use crate::axes::ends;
use crate::h5::{Group, Result};

/// Adds the names to a final file, after everything else was written.
pub(super) fn write_integrator_names(
    root: &Group,
    tree: &NexusTree,
    content: &OutputContent,
) -> Result<()> {
    let (axes, recipe) = (&content.shared.axes, content.recipe);
    for ((slice, number), range) in (0..).zip(1..).zip(recipe.azimuth_bins()) {
        let azimuth = root.create_group(&format!("azim_{number:02}"))?;
        azimuth.write_list("azimuthal_range", &range)?;
        for (ours, theirs) in [(name::INTENSITY, "intensities"), (name::ERRORS, "error")] {
            link_dataset(
                &azimuth,
                theirs,
                &tree.integrated,
                ours,
                axes.chi.as_ref().map(|_| slice),
            )?;
        }
        let method =
            content.average.filter(|average| average.every.is_none()).map(|average| average.method);
        if let Some(method @ (AverageMethod::Mean | AverageMethod::Median)) = method {
            let averaged = tree.process.group(name::AVERAGED)?;
            for (ours, theirs) in [(name::INTENSITY, "intensities"), (name::ERRORS, "error")] {
                let theirs = format!("{theirs}_{}_xy", method.name());
                link_dataset(&azimuth, &theirs, &averaged, ours, axes.chi.as_ref().map(|_| slice))?;
            }
        }
    }
    let radial = format!("{}/{}", tree.integrated.name(), axes.radial.name);
    root.link_hard(&radial, recipe.unit.name())?;
    let radial = root.dataset(recipe.unit.name())?;
    radial.set_number("radial", 1_i64)?;
    for name in ["program", "version", "date"] {
        root.link_hard(&format!("{}/{name}", tree.process.name()), name)?;
    }
    write_info(root, content.target, recipe)?;
    write_positions(root, tree, content.target)?;
    write_configuration(root, content.target, recipe)
}

/// Links a dataset under another name: all of it, or one entry of its last dimension but one.
fn link_dataset(
    into: &Group,
    name: &str,
    of: &Group,
    dataset: &str,
    slice: Option<usize>,
) -> Result<()> {
    let Some(source) = of.dataset_if_there(dataset)? else { return Ok(()) };
    let path = format!("{}/{dataset}", of.name());
    let Some(slice) = slice else { return into.link_hard(&path, name) };
    let dimension =
        source.shape()?.len().checked_sub(2).ok_or("a cake without a dimension of slices")?;
    into.create_view(name, &source, &path, Some((dimension, slice))).map(drop)
}

fn write_info(root: &Group, target: &OutputSpec, recipe: &Recipe) -> Result<()> {
    let (info, scan) = (root.create_group("info")?, &target.task().acquisition);
    let mut texts = vec![
        ("calibration_file", poni_file(recipe)),
        ("title", scan.title.clone().unwrap_or_default()),
        ("start_time", scan.start_time.clone().unwrap_or_default()),
        ("end_time", scan.end_time.clone().unwrap_or_default()),
        ("pyfai_method", format!("{}, azpipe", setting_name(&recipe.split))),
        ("pyFAI_version", format!("azpipe {}", env!("CARGO_PKG_VERSION"))),
    ];
    let masks: Vec<String> =
        recipe.mask.iter().map(|mask| mask.path.display().to_string()).collect();
    texts.push(("mask_file", masks.join(",")));
    let corrections =
        [("solid_angle", recipe.solid_angle), ("polarization", recipe.polarization.is_some())];
    let corrections: Vec<&str> =
        corrections.into_iter().filter(|(_, applied)| *applied).map(|(name, _)| name).collect();
    texts.push(("geometric_corrections", corrections.join(",")));
    texts.iter().try_for_each(|(name, text)| info.write_text(name, text).map(drop))?;
    let files: Vec<String> = target
        .recorded_stamps()
        .sources(target.frames())
        .iter()
        .map(|file| file.file.display().to_string())
        .collect();
    info.write_texts("datafiles", &files)?;
    let number = |name, value: Option<f64>, unit| -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let dataset = info.write_list(name, &[value])?;
        dataset.set_text("unit", unit)
    };
    number("exposure time", scan.exposure_time, "s")?;
    let poni = Poni::parse(&recipe.poni).ok();
    let framing = recipe.framing(&scan.frame_layout());
    let view = poni
        .as_ref()
        .and_then(|poni| PixelMapping::new(&Detector::from_poni(poni).ok()?, &framing).ok());
    number(
        "S-D distance (mm)",
        poni.as_ref().filter(|_| !recipe.has_moving_detector()).map(|poni| poni.dist * 1e3),
        "mm",
    )?;
    number("pixel size (mm)", view.map(|view| view.detector.pixel2 * 1e3), "mm")?;
    number(
        "wavelength (A)",
        poni.and_then(|poni| poni.wavelength).map(|wavelength| wavelength * 1e10),
        "A",
    )
}

/// Links the counters and motor positions of the scan.
fn write_positions(root: &Group, tree: &NexusTree, target: &OutputSpec) -> Result<()> {
    let positions = root.create_group("positions")?;
    if let Some(seconds) = target.task().acquisition.exposure_time {
        positions.write_list("exposure_time", &[seconds])?;
    }
    for copies in [name::COUNTERS, name::POSITIONERS] {
        if !tree.process.contains(copies)? {
            continue;
        }
        let copies = tree.process.group(copies)?;
        for name in copies.member_names()? {
            if !positions.contains(&name)? {
                positions.link_hard(&format!("{}/{name}", copies.name()), &name)?;
            }
        }
    }
    Ok(())
}

/// Writes the recipe's settings under the keys of the integrator's configuration file.
fn write_configuration(root: &Group, target: &OutputSpec, recipe: &Recipe) -> Result<()> {
    let configuration = root.create_group("configuration")?;
    configuration.write_text("config_file", &recipe.to_toml())?;
    let all = configuration.create_group("configuration")?;
    let scan = &target.task().acquisition;
    let pair = |range: Option<[f64; 2]>| {
        range.map(|[low, high]| format!("({low}, {high})")).unwrap_or_default()
    };
    let slices = recipe.azimuth_bins();
    let bounds: Vec<f64> = slices.into_iter().flatten().collect();
    let azimuths = <[f64; 2]>::from(ends(&bounds));
    let sections: [(&str, &[(&str, String)]); 2] = [
        (
            "dataset",
            &[("location", scan.file.display().to_string()), ("hdf5_entry", scan.entry.clone())],
        ),
        (
            "azimuthal integration",
            &[
                ("n_pts", recipe.npt.to_string()),
                ("unit", recipe.unit.to_string()),
                ("detector_name", scan.detector.clone()),
                ("poni_file", poni_file(recipe)),
                ("error_model", setting_name(&recipe.error_model)),
                (
                    "azimuthal_range",
                    format!("({}, {}, {})", azimuths[0], azimuths[1], recipe.npt_azim),
                ),
                ("radial_range", pair(recipe.radial_range)),
                ("polarization_factor", recipe.polarization.unwrap_or(0.0).to_string()),
                ("correct_solid_angle", u8::from(recipe.solid_angle).to_string()),
                ("pixel_splitting", setting_name(&recipe.split)),
            ],
        ),
    ];
    for (section, keys) in sections {
        let section = all.create_group(section)?;
        keys.iter().try_for_each(|(key, value)| section.write_text(key, value).map(drop))?;
    }
    Ok(())
}

/// Returns the path of the PONI file; empty if the frames have several.
fn poni_file(recipe: &Recipe) -> String {
    match recipe.has_moving_detector() {
        true => String::new(),
        false => recipe.poni_file.display().to_string(),
    }
}

/// Returns the name of a setting's value in recipe files.
fn setting_name(choice: &impl serde::Serialize) -> String {
    serde_json::to_value(choice)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}
