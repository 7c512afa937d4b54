//! Import of the INI configuration of ESRF's integrator, with its defaults.

use std::path::Path;
use std::str::FromStr;

use geometry::Unit;
use records::RawPath;

use super::{file_url, ini, refuse, unknown_key};
use crate::one_or_many::OneOrMany;
use crate::settings::is_detector_file;
use crate::{ErrorModel, Quantiles, RecipeError, Settings, SigmaClip, Split};

const SECTION_DATASET: &str = "dataset";
const SECTION_INTEGRATION: &str = "azimuthal integration";
const SECTION_DISTRIBUTION: &str = "computations distribution";
const SECTION_OUTPUT: &str = "output";
const SECTION_PIPELINE: &str = "pipeline";

/// All sections and their keys.
const INTEGRATOR_KEYS: [(&str, &[&str]); 5] = [
    // Newer versions of the integrator have `detector` and `mask_file` in the next section.
    (SECTION_DATASET, &["location", "hdf5_entry", "layout", "detector", "mask_file"]),
    (
        SECTION_INTEGRATION,
        &[
            "n_pts",
            "unit",
            "detector",
            "detector_name",
            "detector_suffix",
            "mask_file",
            "flatfield_file",
            "dark_file",
            "poni_file",
            "error_model",
            "azimuthal_range",
            "radial_range",
            "ai_method",
            "polarization_factor",
            "correct_solid_angle",
            "correct_detector_attenuation",
            "average_xy",
            "pixel_splitting",
            "trim_method",
            "trim_n_pts",
            "trim_bounds",
        ],
    ),
    (
        SECTION_DISTRIBUTION,
        &[
            "partition",
            "n_workers",
            "cores_per_worker",
            "ai_engines_per_worker",
            "time",
            "memory_per_worker",
            "python_executables",
            "workspace_path",
        ],
    ),
    (
        SECTION_OUTPUT,
        &[
            "location",
            "existing_output",
            "repack_output",
            "partial_files_subfolder",
            "file_mode",
            "try_metadata",
        ],
    ),
    (SECTION_PIPELINE, &["verbosity"]),
];

/// Keys that are not part of a recipe, each with the command of azpipe that takes the key's value
/// instead.
const KEYS_OF_OTHER_FILTERS: [(&str, &str, &str); 14] = [
    (SECTION_DATASET, "location", "scan-find"),
    (SECTION_DATASET, "hdf5_entry", "scan-find --entry"),
    (
        SECTION_DATASET,
        "layout",
        "gather --layout integrator to get the integrator's dataset names, here in place of layout",
    ),
    (SECTION_INTEGRATION, "detector_name", "scan-find --detector"),
    (SECTION_INTEGRATION, "average_xy", "gather --average"),
    (SECTION_DISTRIBUTION, "partition", "slurm-emit --partition"),
    (SECTION_DISTRIBUTION, "n_workers", "slurm-emit --n-workers"),
    (SECTION_DISTRIBUTION, "cores_per_worker", "slurm-emit --cores-per-worker"),
    (SECTION_DISTRIBUTION, "ai_engines_per_worker", "slurm-emit --ai-engines-per-worker"),
    (SECTION_DISTRIBUTION, "time", "slurm-emit --time"),
    (SECTION_DISTRIBUTION, "memory_per_worker", "slurm-emit --mem"),
    (SECTION_OUTPUT, "location", "plan-split --out"),
    (SECTION_OUTPUT, "repack_output", "gather --layout copy (for 1) or virtual (for 0), here for"),
    (SECTION_PIPELINE, "verbosity", "-q or -v in place of verbosity"),
];

/// Keys that azpipe does not need.
const IGNORED_KEYS: [(&str, &str); 6] = [
    (SECTION_INTEGRATION, "detector_suffix"),
    (SECTION_INTEGRATION, "ai_method"),
    (SECTION_INTEGRATION, "trim_n_pts"),
    (SECTION_DISTRIBUTION, "python_executables"),
    (SECTION_DISTRIBUTION, "workspace_path"),
    (SECTION_OUTPUT, "file_mode"),
];

/// Keys that the integrator accepts and never reads.
const KEYS_INTEGRATOR_IGNORES: [(&str, &str); 2] =
    [(SECTION_OUTPUT, "partial_files_subfolder"), (SECTION_OUTPUT, "try_metadata")];

/// Returns whether this line is the header of one of the integrator's sections.
pub(super) fn is_section(line: &str) -> bool {
    let name = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    name.is_some_and(|name| INTEGRATOR_KEYS.iter().any(|(known, _)| *known == name))
}

/// Reads the sections of a configuration of ESRF's integrator, for settings that are not part of a
/// recipe.
///
/// # Errors
/// Fails if the file is no INI file, or has a section or key that the integrator does not have.
pub fn read_sections(text: &str, path: &Path) -> Result<Vec<ini::IniSection>, RecipeError> {
    let sections =
        ini::parse(text).map_err(|why| RecipeError::Syntax { path: path.to_path_buf(), why })?;
    for (section, keys) in sections.iter().filter(|(section, _)| section.to_lowercase() != "other")
    {
        let Some((_, known)) = INTEGRATOR_KEYS.iter().find(|(known, _)| known == section) else {
            return Err(unknown_key(
                path,
                section,
                INTEGRATOR_KEYS.iter().map(|(known, _)| *known),
            ));
        };
        if let Some((key, _)) = keys.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            return Err(unknown_key(path, key, known.iter().copied()));
        }
    }
    Ok(sections)
}

/// Reads the settings, and remarks on keys that are not applied or are applied differently.
pub(super) fn read(text: &str, path: &Path) -> Result<(Settings, Vec<String>), RecipeError> {
    let sections = read_sections(text, path)?;
    let file = IntegratorConfig { path, sections };
    let settings = file.settings()?;
    Ok((settings, file.remarks()))
}

struct IntegratorConfig<'a> {
    path: &'a Path,
    sections: Vec<ini::IniSection>,
}

impl IntegratorConfig<'_> {
    /// Returns the value of a key; `None` if it is absent or empty.
    fn value(&self, section: &str, key: &str) -> Option<&str> {
        let (_, keys) = self.sections.iter().find(|(name, _)| name == section)?;
        let (_, value) = keys.iter().find(|(name, _)| name == key)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns the value of a key of section `azimuthal integration`, or of its older place in
    /// section `dataset`.
    fn integration_value(&self, key: &str) -> Option<&str> {
        match self.value(SECTION_INTEGRATION, key) {
            None if matches!(key, "detector" | "mask_file") => self.value(SECTION_DATASET, key),
            value => value,
        }
    }

    fn unsupported<T>(&self, key: &str, value: &str, expected: &str) -> Result<T, RecipeError> {
        refuse(self.path, key, format!("{value}: expected {expected}"))
    }

    fn parse_value<T: FromStr>(
        &self,
        key: &str,
        default: &str,
        expected: &str,
    ) -> Result<T, RecipeError> {
        let value = self.integration_value(key).unwrap_or(default);
        value.parse().or_else(|_| self.unsupported(key, value, expected))
    }

    /// Parses comma-separated numbers, with or without brackets; an empty key gives no numbers.
    fn parse_numbers(&self, key: &str) -> Result<Vec<f64>, RecipeError> {
        let value = self.integration_value(key).unwrap_or("");
        let inner = value.trim_matches(['(', ')', '[', ']']);
        let numbers: Result<Vec<f64>, _> =
            inner.split(',').map(|number| number.trim().parse()).collect();
        match numbers {
            _ if inner.is_empty() => Ok(Vec::new()),
            Ok(numbers) => Ok(numbers),
            Err(_) => self.unsupported(key, value, "comma-separated numbers"),
        }
    }

    fn parse_bool(&self, key: &str, default: bool) -> Result<bool, RecipeError> {
        match self.integration_value(key).map(str::to_lowercase).as_deref() {
            None => Ok(default),
            Some("1" | "true" | "yes" | "on" | "y") => Ok(true),
            Some("0" | "false" | "no" | "off" | "n") => Ok(false),
            Some(other) => self.unsupported(key, other, "0 or 1"),
        }
    }

    fn file_value(&self, key: &str) -> Result<Option<RawPath>, RecipeError> {
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let file = self
            .integration_value(key)
            .map(|name| file_url::resolve_file_url(name, directory))
            .transpose();
        file.or_else(|why| refuse(self.path, key, why))
    }

    fn unit(&self) -> Result<Unit, RecipeError> {
        let name = self.integration_value("unit").unwrap_or("r_mm");
        Unit::parse(name).or_else(|why| refuse(self.path, "unit", why.to_string()))
    }

    fn settings(&self) -> Result<Settings, RecipeError> {
        let file =
            |key| -> Result<_, RecipeError> { Ok(self.file_value(key)?.map(OneOrMany::One)) };
        let polarization: f64 = self.parse_value("polarization_factor", "0.99", "a number")?;
        let mut settings = Settings {
            poni: self.file_value("poni_file")?,
            poni_detector: match self.integration_value("detector").map(RawPath::from) {
                Some(name) if is_detector_file(&name) => self.file_value("detector")?,
                name => name,
            },
            npt: Some(self.parse_value("n_pts", "2500", "a number of bins")?),
            unit: Some(self.unit()?),
            mask: file("mask_file")?,
            flat: file("flatfield_file")?,
            dark: file("dark_file")?,
            polarization: Some(polarization),
            solid_angle: Some(self.parse_bool("correct_solid_angle", true)?),
            split: Some(self.split()?),
            error_model: Some(self.error_model()?),
            radial_range: match self.parse_numbers("radial_range")?[..] {
                [] => None,
                [low, high] => Some([low, high]),
                _ => {
                    return self.unsupported(
                        "radial_range",
                        self.integration_value("radial_range").unwrap_or(""),
                        "two numbers",
                    );
                }
            },
            ..Settings::default()
        };
        self.set_azimuth(&mut settings)?;
        self.set_outlier_rejection(&mut settings)?;
        // The value only matters for a remark, but a wrong one is an error.
        self.parse_bool("correct_detector_attenuation", true)?;
        if let Some(value) = self.value(SECTION_OUTPUT, "existing_output")
            && value.to_lowercase() == "raise"
        {
            let why = format!(
                "{value}: not supported, because finished frames are found and skipped; remove the key"
            );
            return refuse(self.path, "existing_output", why);
        }
        Ok(settings)
    }

    fn split(&self) -> Result<Split, RecipeError> {
        match self.integration_value("pixel_splitting") {
            None | Some("0" | "no") => Ok(Split::No),
            Some("BBox" | "bbox") => Ok(Split::BBox),
            Some("full") => Ok(Split::Full),
            Some(other) => self.unsupported("pixel_splitting", other, "no, BBox or full"),
        }
    }

    fn error_model(&self) -> Result<ErrorModel, RecipeError> {
        match self.integration_value("error_model").unwrap_or("hybrid").to_lowercase().as_str() {
            "none" => Ok(ErrorModel::No),
            "poisson" => Ok(ErrorModel::Poisson),
            "hybrid" => Ok(ErrorModel::Hybrid),
            other => self.unsupported("error_model", other, "hybrid, poisson or None"),
        }
    }

    /// Sets the azimuthal range; its slices become the azimuthal bins of a cake.
    fn set_azimuth(&self, settings: &mut Settings) -> Result<(), RecipeError> {
        let (low, high, slices) = match self.parse_numbers("azimuthal_range")?[..] {
            [] => return Ok(()),
            [low, high, slices] if slices >= 1.0 && slices.fract() == 0.0 => {
                (low, high, slices as u64)
            }
            _ => {
                let value = self.integration_value("azimuthal_range").unwrap_or("");
                return self.unsupported("azimuthal_range", value, "(min, max, number of slices)");
            }
        };
        settings.npt_azim = (slices > 1).then_some(slices);
        settings.azimuth_range = ((low, high) != (-180.0, 180.0)).then_some([low, high]);
        Ok(())
    }

    fn set_outlier_rejection(&self, settings: &mut Settings) -> Result<(), RecipeError> {
        let bounds = self.parse_numbers("trim_bounds")?;
        let given = self.integration_value("trim_bounds").unwrap_or("nothing");
        let method = self.integration_value("trim_method").unwrap_or("");
        match (method, &bounds[..]) {
            ("" | "default", _) => return Ok(()),
            ("sigma_clip" | "sigmaclip" | "sigma-clip", [threshold, ..]) => {
                settings.sigma_clip = Some(SigmaClip { threshold: *threshold, max_iter: 5 });
                settings.split = Some(Split::No);
            }
            ("median" | "medfilt", &[low, high]) => {
                settings.median = Some(Quantiles { low, high });
                settings.error_model = Some(ErrorModel::No);
            }
            ("sigma_clip" | "sigmaclip" | "sigma-clip", _) => {
                return self.unsupported("trim_bounds", given, "a number of standard deviations");
            }
            ("median" | "medfilt", _) => {
                return self.unsupported("trim_bounds", given, "two percentiles");
            }
            (other, _) => return self.unsupported("trim_method", other, "median or sigma_clip"),
        }
        match settings.npt_azim {
            Some(_) => self.unsupported(
                "azimuthal_range",
                "several slices",
                "one slice with a trim_method",
            ),
            None => Ok(()),
        }
    }

    /// Returns remarks on keys that are not applied, or are applied differently.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let given =
            |(section, key): &(&'static str, &'static str)| self.value(section, key).map(|_| *key);
        let list = |keys: &[(&'static str, &'static str)]| {
            keys.iter().filter_map(given).collect::<Vec<_>>().join(", ")
        };
        let never_read = list(&KEYS_INTEGRATOR_IGNORES);
        if !never_read.is_empty() {
            remarks
                .push(format!("{never_read}: ignored, as by the integrator, which never reads it"));
        }
        let not_needed = list(&IGNORED_KEYS);
        if !not_needed.is_empty() {
            remarks.push(format!("{not_needed}: ignored, because azpipe does not need it"));
        }
        for (section, key, command) in KEYS_OF_OTHER_FILTERS {
            if let Some(value) = self.value(section, key) {
                let value = value.replace('\n', " ");
                remarks.push(format!(
                    "[{section}] {key}: not part of a recipe; use {command} {value}"
                ));
            }
        }
        if self.parse_bool("correct_detector_attenuation", true).unwrap_or(true) {
            remarks.push(
                "correct_detector_attenuation: not applied. The integrator assumes a sensor of 1 mm CdTe and takes 2θ for \
                 the angle of incidence; --sensor CdTe,1mm uses the true angle of incidence, which is 2θ if the detector \
                 is perpendicular to the beam. For a correct result, pass the detector's own sensor"
                    .to_owned(),
            );
        }
        let has_slices = self
            .parse_numbers("azimuthal_range")
            .is_ok_and(|range| matches!(range[..], [_, _, slices] if slices > 1.0));
        if has_slices && self.split().is_ok_and(|split| split != Split::No) {
            remarks.push(
                "azimuthal_range: pixels in two slices are split between them; the integrator counts them whole in both. \
                 For the integrator's result, pass one recipe per slice, each with --azimuth-range"
                    .to_owned(),
            );
        }
        if self.integration_value("radial_range").is_none() {
            remarks.push(
                "radial_range: empty, so the axis spans the unmasked pixels; the integrator's spans the centres of all \
                 pixels. Set --radial-range for equal axes"
                    .to_owned(),
            );
        }
        if self.integration_value("trim_method").is_some_and(|method| method.starts_with("med")) {
            remarks.push(
                "trim_method: quantiles are those of all pixels of a bin; the integrator's are those of azimuthal bins \
                 and leave out zeros. Pass --dummy 0 to leave out zeros"
                    .to_owned(),
            );
        }
        if let Some("skip" | "overwrite" | "reprocess_if_conffile_more_recent") =
            self.value(SECTION_OUTPUT, "existing_output")
        {
            remarks.push(
                "existing_output: frames integrated with the same recipe are skipped; pass ai-integrate --force to \
                 integrate them again"
                    .to_owned(),
            );
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
