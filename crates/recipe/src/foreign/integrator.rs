//! The configuration of ESRF's integrator: its sections, keys and defaults.

use std::path::Path;
use std::str::FromStr;

use records::RawPath;

use super::{ini, links, refuse, unknown};
use crate::lists::OneOrMany;
use crate::settings::is_file;
use crate::{Error, ErrorModel, Quantiles, Settings, SigmaClip, Split};

const DATASET: &str = "dataset";
const INTEGRATION: &str = "azimuthal integration";
const DISTRIBUTION: &str = "computations distribution";
const OUTPUT: &str = "output";
const PIPELINE: &str = "pipeline";

/// Every section and its keys.
const KEYS: [(&str, &[&str]); 5] = [
    // The last two have moved to the next section since.
    (DATASET, &["location", "hdf5_entry", "layout", "detector", "mask_file"]),
    (
        INTEGRATION,
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
        DISTRIBUTION,
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
    (OUTPUT, &["location", "existing_output", "repack_output", "partial_files_subfolder", "file_mode", "try_metadata"]),
    (PIPELINE, &["verbosity"]),
];

/// Keys that say nothing about a pattern, and what says the same here: a flag that takes their value, or words.
const ELSEWHERE: [(&str, &str, &str); 14] = [
    (DATASET, "location", "scan-find FILES, such as"),
    (DATASET, "hdf5_entry", "scan-find --entry"),
    (
        DATASET,
        "layout",
        "gather --layout integrator, for the names that scripts of its users read, whatever the layout:",
    ),
    (INTEGRATION, "detector_name", "scan-find --detector"),
    (INTEGRATION, "average_xy", "gather --average"),
    (DISTRIBUTION, "partition", "slurm-emit --partition"),
    (DISTRIBUTION, "n_workers", "slurm-emit --n-workers"),
    (DISTRIBUTION, "cores_per_worker", "slurm-emit --cores-per-worker"),
    (DISTRIBUTION, "ai_engines_per_worker", "slurm-emit --ai-engines-per-worker"),
    (DISTRIBUTION, "time", "slurm-emit --time"),
    (DISTRIBUTION, "memory_per_worker", "slurm-emit --mem"),
    (OUTPUT, "location", "plan-split --out"),
    (OUTPUT, "repack_output", "gather --layout (copy for 1, virtual for 0):"),
    (PIPELINE, "verbosity", "-q or -v, for a verbosity of"),
];

/// Keys that need no counterpart.
const NEEDLESS: [(&str, &str); 6] = [
    (INTEGRATION, "detector_suffix"),
    (INTEGRATION, "ai_method"),
    (INTEGRATION, "trim_n_pts"),
    (DISTRIBUTION, "python_executables"),
    (DISTRIBUTION, "workspace_path"),
    (OUTPUT, "file_mode"),
];

/// Keys that the integrator accepts and never reads.
const NEVER_READ: [(&str, &str); 2] = [(OUTPUT, "partial_files_subfolder"), (OUTPUT, "try_metadata")];

/// Whether this line begins one of the integrator's sections.
pub(super) fn is_section(line: &str) -> bool {
    let name = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    name.is_some_and(|name| KEYS.iter().any(|(known, _)| *known == name))
}

/// What the text says, and remarks.
pub(super) fn read(text: &str, path: &Path) -> Result<(Settings, Vec<String>), Error> {
    let sections = ini::parse(text).map_err(|why| Error::Toml { path: path.to_path_buf(), why })?;
    for (section, keys) in sections.iter().filter(|(section, _)| section.to_lowercase() != "other") {
        let Some((_, known)) = KEYS.iter().find(|(known, _)| known == section) else {
            return Err(unknown(path, section, KEYS.iter().map(|(known, _)| *known)));
        };
        if let Some((key, _)) = keys.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            return Err(unknown(path, key, known.iter().copied()));
        }
    }
    let file = File { path, sections };
    let settings = file.settings()?;
    Ok((settings, file.remarks()))
}

struct File<'a> {
    path: &'a Path,
    sections: Vec<ini::Section>,
}

impl File<'_> {
    /// The value of a key, where it is given and not empty.
    fn get(&self, section: &str, key: &str) -> Option<&str> {
        let (_, keys) = self.sections.iter().find(|(name, _)| name == section)?;
        let (_, value) = keys.iter().find(|(name, _)| name == key)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// A key of the section that most of them are in.
    fn of(&self, key: &str) -> Option<&str> {
        let moved = matches!(key, "detector" | "mask_file").then(|| self.get(DATASET, key)).flatten();
        self.get(INTEGRATION, key).or(moved)
    }

    fn refuse<T>(&self, key: &str, value: &str, expected: &str) -> Result<T, Error> {
        refuse(self.path, key, format!("{value}: expected {expected}"))
    }

    fn parsed<T: FromStr>(&self, key: &str, default: &str, expected: &str) -> Result<T, Error> {
        let value = self.of(key).unwrap_or(default);
        value.parse().or_else(|_| self.refuse(key, value, expected))
    }

    /// Numbers with commas, in brackets or without; none where the key is empty.
    fn numbers(&self, key: &str) -> Result<Vec<f64>, Error> {
        let value = self.of(key).unwrap_or("");
        let inner = value.trim_matches(['(', ')', '[', ']']);
        let numbers: Result<Vec<f64>, _> = inner.split(',').map(|number| number.trim().parse()).collect();
        match numbers {
            _ if inner.is_empty() => Ok(Vec::new()),
            Ok(numbers) => Ok(numbers),
            Err(_) => self.refuse(key, value, "numbers with commas between"),
        }
    }

    fn switch(&self, key: &str, default: bool) -> Result<bool, Error> {
        match self.of(key).map(str::to_lowercase).as_deref() {
            None => Ok(default),
            Some("1" | "true" | "yes" | "on" | "y") => Ok(true),
            Some("0" | "false" | "no" | "off" | "n") => Ok(false),
            Some(other) => self.refuse(key, other, "0 or 1"),
        }
    }

    fn file(&self, key: &str) -> Result<Option<RawPath>, Error> {
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let named = self.of(key).map(|name| links::file(name, directory)).transpose();
        named.or_else(|why| refuse(self.path, key, why))
    }

    fn settings(&self) -> Result<Settings, Error> {
        let file = |key| -> Result<_, Error> { Ok(self.file(key)?.map(OneOrMany::One)) };
        let polarization: f64 = self.parsed("polarization_factor", "0.99", "a number")?;
        let mut settings = Settings {
            poni: self.file("poni_file")?,
            poni_detector: match self.of("detector").map(RawPath::from) {
                Some(name) if is_file(&name) => self.file("detector")?,
                name => name,
            },
            npt: Some(self.parsed("n_pts", "2500", "a number of bins")?),
            unit: Some(self.of("unit").unwrap_or("r_mm").to_owned()),
            mask: file("mask_file")?,
            flat: file("flatfield_file")?,
            dark: file("dark_file")?,
            polarization: Some(polarization),
            solid_angle: Some(self.switch("correct_solid_angle", true)?),
            split: Some(self.split()?),
            error_model: Some(self.error_model()?),
            radial_range: match self.numbers("radial_range")?[..] {
                [] => None,
                [low, high] => Some([low, high]),
                _ => return self.refuse("radial_range", self.of("radial_range").unwrap_or(""), "two numbers"),
            },
            ..Settings::default()
        };
        self.azimuth(&mut settings)?;
        self.trim(&mut settings)?;
        // Looked at for errors; what they say is for other filters.
        self.switch("correct_detector_attenuation", true)?;
        if let Some(other) = self.get(OUTPUT, "existing_output").filter(|value| value.to_lowercase() == "raise") {
            let why = format!("{other}: can't be had: what is done is found and skipped; remove the key");
            return refuse(self.path, "existing_output", why);
        }
        Ok(settings)
    }

    fn split(&self) -> Result<Split, Error> {
        match self.of("pixel_splitting") {
            None | Some("0" | "no") => Ok(Split::No),
            Some("BBox" | "bbox") => Ok(Split::BBox),
            Some("full") => Ok(Split::Full),
            Some(other) => self.refuse("pixel_splitting", other, "no, BBox or full"),
        }
    }

    fn error_model(&self) -> Result<ErrorModel, Error> {
        match self.of("error_model").unwrap_or("hybrid").to_lowercase().as_str() {
            "none" => Ok(ErrorModel::No),
            "poisson" => Ok(ErrorModel::Poisson),
            "hybrid" => Ok(ErrorModel::Hybrid),
            other => self.refuse("error_model", other, "hybrid, poisson or None"),
        }
    }

    /// Slices of a range become the azimuthal bins of a cake.
    fn azimuth(&self, settings: &mut Settings) -> Result<(), Error> {
        let (low, high, slices) = match self.numbers("azimuthal_range")?[..] {
            [] => return Ok(()),
            [low, high, slices] if slices >= 1.0 && slices.fract() == 0.0 => (low, high, slices as u64),
            _ => {
                let value = self.of("azimuthal_range").unwrap_or("");
                return self.refuse("azimuthal_range", value, "(min, max, number of slices)");
            }
        };
        settings.npt_azim = (slices > 1).then_some(slices);
        settings.azimuth_range = ((low, high) != (-180.0, 180.0)).then_some([low, high]);
        Ok(())
    }

    fn trim(&self, settings: &mut Settings) -> Result<(), Error> {
        let bounds = self.numbers("trim_bounds")?;
        let given = self.of("trim_bounds").unwrap_or("nothing");
        let method = self.of("trim_method").unwrap_or("");
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
                return self.refuse("trim_bounds", given, "a number of standard deviations");
            }
            ("median" | "medfilt", _) => return self.refuse("trim_bounds", given, "two percentiles"),
            (other, _) => return self.refuse("trim_method", other, "median or sigma_clip"),
        }
        match settings.npt_azim {
            Some(_) => self.refuse("azimuthal_range", "several slices", "one slice beside a trim_method"),
            None => Ok(()),
        }
    }

    /// What is not taken over as it stands.
    fn remarks(&self) -> Vec<String> {
        let mut said = Vec::new();
        let given = |(section, key): &(&'static str, &'static str)| self.get(section, key).map(|_| *key);
        let list = |keys: &[(&'static str, &'static str)]| keys.iter().filter_map(given).collect::<Vec<_>>().join(", ");
        let never = list(&NEVER_READ);
        if !never.is_empty() {
            said.push(format!("{never}: the integrator never reads them, and here they have no counterpart"));
        }
        let needless = list(&NEEDLESS);
        if !needless.is_empty() {
            said.push(format!("{needless}: not needed here"));
        }
        for (section, key, here) in ELSEWHERE {
            if let Some(value) = self.get(section, key) {
                said.push(format!("[{section}] {key}: here {here} {}", value.replace('\n', " ")));
            }
        }
        if self.switch("correct_detector_attenuation", true).unwrap_or(true) {
            said.push(
                "correct_detector_attenuation: not applied. The integrator weighs every detector's pixels as 1 mm of CdTe \
                 at the angle 2θ; --sensor CdTe,1mm does so at the true angle of incidence, which is the same where the \
                 detector stands square to the beam, and --sensor with the detector's own sensor is right"
                    .to_owned(),
            );
        }
        let slices =
            self.numbers("azimuthal_range").is_ok_and(|range| matches!(range[..], [_, _, slices] if slices > 1.0));
        if slices && self.split().is_ok_and(|split| split != Split::No) {
            said.push(
                "azimuthal_range: pixels that two slices share are split between them, and not counted whole in both; for \
                 that give a recipe with --azimuth-range once a slice"
                    .to_owned(),
            );
        }
        if self.of("radial_range").is_none() {
            said.push(
                "radial_range: empty is here what unmasked pixels cover, there what all pixels' centres do".to_owned(),
            );
        }
        if self.of("trim_method").is_some_and(|method| method.starts_with("med")) {
            said.push(
                "trim_method: quantiles are of all pixels of a bin, there of a regrouping in azimuth that takes counts of \
                 zero for no measurement; --dummy 0 does so here"
                    .to_owned(),
            );
        }
        if let Some("skip" | "overwrite" | "reprocess_if_conffile_more_recent") = self.get(OUTPUT, "existing_output") {
            said.push(
                "existing_output: what is done by the same recipe is skipped; ai-integrate --force does it again"
                    .to_owned(),
            );
        }
        said
    }
}

#[cfg(test)]
mod tests;
