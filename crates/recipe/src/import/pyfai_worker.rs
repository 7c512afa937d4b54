//! Import of the JSON configuration of pyFAI's worker, versions 1 to 5, as pyFAI-integrate and
//! ewoksxrpd write it. The files of pyFAI-diffmap, which hold it in a section `ai`, are refused.

mod geometry;
mod method;

use std::path::Path;

use ::geometry::Unit;
use records::RawPath;
use serde_json::{Map, Value};

use super::{file_url, refuse, unknown_key};
use crate::monitor::MonitorSetting;
use crate::one_or_many::OneOrMany;
use crate::settings::EXPECTED_RECIPE;
use crate::{DummySetting, RecipeError, Settings};

/// Newest supported version of the format.
const NEWEST_VERSION: f64 = 5.0;

/// Keys of all versions.
const WORKER_KEYS: &[&str] = &[
    "application",
    "version",
    "poni",
    "nbpt_rad",
    "nbpt_azim",
    "unit",
    "chi_discontinuity_at_0",
    "polarization_description",
    "polarization_factor",
    "polarization_offset",
    "normalization_factor",
    "val_dummy",
    "dummy",
    "delta_dummy",
    "correct_solid_angle",
    "dark_current",
    "dark_current_image",
    "flat_field",
    "flat_field_image",
    "mask_file",
    "mask_image",
    "error_model",
    "method",
    "opencl_device",
    "azimuth_range",
    "azimuth_range_min",
    "azimuth_range_max",
    "azimuthal_range_min",
    "azimuthal_range_max",
    "radial_range",
    "radial_range_min",
    "radial_range_max",
    "integrator_class",
    "integrator_method",
    "integrator_name",
    "extra_options",
    "monitor_name",
    "shape",
    "do_2D",
    "do_OpenCL",
    "do_mask",
    "do_dark",
    "do_flat",
    "do_polarization",
    "do_dummy",
    "do_radial_range",
    "do_azimuthal_range",
    "do_azimuth_range",
    "do_solid_angle",
    "do_poisson",
    "dist",
    "poni1",
    "poni2",
    "rot1",
    "rot2",
    "rot3",
    "wavelength",
    "detector",
    "detector_config",
    "pixel1",
    "pixel2",
    "splineFile",
    "splinefile",
    "poni_version",
];

/// Reads the settings, and remarks on keys that are not applied or are applied differently.
pub(super) fn read(text: &str, path: &Path) -> Result<(Settings, Vec<String>), RecipeError> {
    let syntax_error = |why: String| RecipeError::Syntax { path: path.to_path_buf(), why };
    let value: Value = serde_json::from_str(&replace_nonfinite(text))
        .map_err(|why| syntax_error(format!("{why}; {EXPECTED_RECIPE}")))?;
    let Value::Object(mut keys) = value else {
        return Err(syntax_error("expected a JSON object".to_owned()));
    };
    // A configuration of pyFAI-diffmap has the worker's in its section `ai`; the rest says which
    // files it reads and writes.
    let section = keys.remove("ai");
    let is_diffmap = section.is_some();
    if let Some(section) = section {
        let Value::Object(worker) = section else {
            return refuse(
                path,
                "ai",
                format!(
                    "{section}: expected the worker's configuration, as pyFAI-diffmap writes it"
                ),
            );
        };
        keys = worker;
    }
    if let Some(key) = keys.keys().find(|key| !WORKER_KEYS.contains(&key.as_str())) {
        if key.starts_with("npt_ip") || key.starts_with("unit_ip") || key.starts_with("npt_oop") {
            return refuse(path, key, "fiber integration is not supported");
        }
        return Err(unknown_key(path, key, WORKER_KEYS.iter().copied()));
    }
    let file = WorkerConfig { path, keys };
    let version = file.number_value("version")?.unwrap_or(1.0);
    if version > NEWEST_VERSION {
        return refuse(path, "version", format!("{version}: expected at most {NEWEST_VERSION}"));
    }
    let (mut settings, mut remarks) = (Settings::default(), Vec::new());
    if is_diffmap {
        remarks.push(
            "a configuration of pyFAI-diffmap: its section `ai` is used; name the data to scan-find, and the results by --out"
                .to_owned(),
        );
    }
    file.set_geometry(&mut settings)?;
    file.set_bins(&mut settings)?;
    file.set_images(&mut settings)?;
    file.set_corrections(&mut settings, &mut remarks)?;
    file.set_method(&mut settings, &mut remarks)?;
    if settings.npt_azim.is_some_and(|bins| bins > 1) && settings.azimuth_range.is_none() {
        remarks.push(
            "azimuth_range: empty, so the azimuthal axis is -180 to 180 degrees; pyFAI's spans the pixels. Set \
             --azimuth-range for equal axes"
                .to_owned(),
        );
    }
    if file.value("opencl_device").is_some() || file.bool_value("do_OpenCL")? == Some(true) {
        remarks
            .push("opencl_device, do_OpenCL: not part of a recipe; use ai-integrate --engine and --device".to_owned());
    }
    Ok((settings, remarks))
}

struct WorkerConfig<'a> {
    path: &'a Path,
    keys: Map<String, Value>,
}

impl WorkerConfig<'_> {
    /// Returns the value of a key; `None` if it is absent or null.
    fn value(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    /// Returns the first of several keys that is given, with its value. Versions of the format have
    /// different names.
    fn first_value<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, &Value)> {
        keys.iter().find_map(|key| Some((*key, self.value(key)?)))
    }

    fn unsupported<T>(&self, key: &str, value: &Value, expected: &str) -> Result<T, RecipeError> {
        refuse(self.path, key, format!("{value}: expected {expected}"))
    }

    fn number_value(&self, key: &str) -> Result<Option<f64>, RecipeError> {
        let number = |value: &Value| match value.as_f64() {
            Some(number) => Ok(number),
            None => self.unsupported(key, value, "a number"),
        };
        self.value(key).map(number).transpose()
    }

    fn count_value(&self, key: &str) -> Result<Option<u64>, RecipeError> {
        match self.number_value(key)? {
            Some(count) if count >= 0.0 && count.fract() == 0.0 => Ok(Some(count as u64)),
            Some(other) => self.unsupported(key, &other.into(), "a whole number"),
            None => Ok(None),
        }
    }

    fn bool_value(&self, key: &str) -> Result<Option<bool>, RecipeError> {
        let to_bool = |value: &Value| match value {
            Value::Bool(value) => Ok(*value),
            Value::Number(number) => Ok(number.as_f64() != Some(0.0)),
            other => self.unsupported(key, other, "true or false"),
        };
        self.value(key).map(to_bool).transpose()
    }

    /// Returns false if a `do_…` key switches a feature off, true if it is absent or switches the
    /// feature on.
    fn is_not_disabled(&self, key: &str) -> Result<bool, RecipeError> {
        Ok(self.bool_value(key)? != Some(false))
    }

    fn text_value(&self, key: &str) -> Result<Option<&str>, RecipeError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => self.unsupported(key, other, "a string"),
        }
    }

    /// Returns the files of a key, unless the key `switch` disables them. Version 1 has them as
    /// comma-separated text, later versions as a list.
    fn file_values(
        &self,
        keys: &[&str],
        switch: &str,
    ) -> Result<Option<OneOrMany<RawPath>>, RecipeError> {
        let Some((key, value)) = self.first_value(keys) else { return Ok(None) };
        if !self.is_not_disabled(switch)? {
            return Ok(None);
        }
        let names: Vec<String> = match value {
            Value::String(text) => text
                .split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect(),
            Value::Array(list) => {
                let name = |value: &Value| value.as_str().map(str::to_owned);
                match list.iter().map(name).collect() {
                    Some(names) => names,
                    None => return self.unsupported(key, value, "file names"),
                }
            }
            other => return self.unsupported(key, other, "a file or a list of files"),
        };
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let files: Result<Vec<RawPath>, String> =
            names.iter().map(|name| file_url::resolve_file_url(name, directory)).collect();
        files.map(OneOrMany::from_items).or_else(|why| refuse(self.path, key, why))
    }

    fn set_images(&self, settings: &mut Settings) -> Result<(), RecipeError> {
        settings.mask = self.file_values(&["mask_file", "mask_image"], "do_mask")?;
        settings.dark = self.file_values(&["dark_current", "dark_current_image"], "do_dark")?;
        settings.flat = self.file_values(&["flat_field", "flat_field_image"], "do_flat")?;
        Ok(())
    }

    fn set_bins(&self, settings: &mut Settings) -> Result<(), RecipeError> {
        settings.npt = self.count_value("nbpt_rad")?;
        if settings.npt.is_none() {
            return refuse(self.path, "nbpt_rad", "missing; expected the number of radial bins");
        }
        settings.npt_azim = self.count_value("nbpt_azim")?.filter(|&count| count > 1);
        if !self.is_not_disabled("do_2D")? {
            settings.npt_azim = None;
        }
        settings.unit = Some(self.unit()?);
        settings.radial_range =
            self.range_value("radial_range", &["radial_range"], &["do_radial_range"])?;
        let azimuth = ["azimuth_range", "azimuthal_range"];
        settings.azimuth_range = self.range_value(
            "azimuth_range",
            &azimuth,
            &["do_azimuthal_range", "do_azimuth_range"],
        )?;
        if self.bool_value("chi_discontinuity_at_0")? == Some(true) && settings.npt_azim.is_some() {
            settings.azimuth_range = settings.azimuth_range.or(Some([0.0, 360.0]));
        }
        Ok(())
    }

    fn unit(&self) -> Result<Unit, RecipeError> {
        let name = match self.value("unit") {
            // The worker's default.
            None => "2th_deg",
            Some(Value::String(unit)) => unit,
            Some(Value::Array(units)) => match &units[..] {
                [Value::String(unit)] => unit,
                [Value::String(unit), Value::String(chi)] if chi == "chi_deg" => unit,
                _ => {
                    return self.unsupported(
                        "unit",
                        &Value::Array(units.clone()),
                        "a radial unit and chi_deg",
                    );
                }
            },
            Some(other) => return self.unsupported("unit", other, "the name of a unit"),
        };
        Unit::parse(name).or_else(|why| refuse(self.path, "unit", why.to_string()))
    }

    /// Returns a range, given as a pair or as keys `…_min` and `…_max`, unless one of the keys
    /// `switches` disables it. Limits that are infinite or null count as absent.
    fn range_value(
        &self,
        key: &str,
        stems: &[&str],
        switches: &[&str],
    ) -> Result<Option<[f64; 2]>, RecipeError> {
        for switch in switches {
            if !self.is_not_disabled(switch)? {
                return Ok(None);
            }
        }
        let pair = match self.value(key) {
            Some(Value::Array(pair)) if pair.len() == 2 => [pair[0].as_f64(), pair[1].as_f64()],
            Some(other) => return self.unsupported(key, other, "two numbers"),
            None => {
                let mut limits = [None, None];
                for stem in stems {
                    limits[0] = limits[0].or(self.number_value(&format!("{stem}_min"))?);
                    limits[1] = limits[1].or(self.number_value(&format!("{stem}_max"))?);
                }
                limits
            }
        };
        match pair {
            [Some(low), Some(high)] => Ok(Some([low, high])),
            [None, None] => Ok(None),
            [low, high] => {
                let shown =
                    |limit: Option<f64>| limit.map_or("none".to_owned(), |limit| limit.to_string());
                refuse(
                    self.path,
                    key,
                    format!("{} to {}: expected both limits, or none", shown(low), shown(high)),
                )
            }
        }
    }

    fn set_corrections(
        &self,
        settings: &mut Settings,
        remarks: &mut Vec<String>,
    ) -> Result<(), RecipeError> {
        settings.solid_angle =
            self.bool_value("correct_solid_angle")?.or(self.bool_value("do_solid_angle")?);
        if self.is_not_disabled("do_polarization")? {
            let [factor, offset] = self.polarization()?;
            settings.polarization = factor;
            settings.polarization_offset =
                offset.filter(|offset| *offset != 0.0).map(f64::to_degrees);
        }
        let dummy = self.number_value("val_dummy")?.or(self.number_value("dummy")?);
        let has_dummy = self.is_not_disabled("do_dummy")?;
        if let Some(value) = dummy.filter(|_| has_dummy) {
            let delta = self.number_value("delta_dummy")?.unwrap_or(0.0);
            settings.dummy = Some(DummySetting::Value { value, delta });
            remarks.push(format!(
                "val_dummy {value}: pyFAI also writes it to empty bins; use --empty for the value of empty bins"
            ));
        }
        let factor = self.number_value("normalization_factor")?.filter(|factor| *factor != 1.0);
        let mut monitors: Vec<MonitorSetting> =
            factor.map(MonitorSetting::Number).into_iter().collect();
        if let Some(name) = self.text_value("monitor_name")?.filter(|name| !name.is_empty()) {
            let counter = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(name);
            remarks.push(format!(
                "monitor_name {name}: the monitor is the scan's counter {counter}, with reference 1"
            ));
            monitors.push(MonitorSetting::Name(counter.to_owned()));
        }
        settings.monitor = OneOrMany::from_items(monitors);
        Ok(())
    }

    /// Returns the polarization factor, and the offset of the plane of polarization in radians.
    fn polarization(&self) -> Result<[Option<f64>; 2], RecipeError> {
        let offset = self.number_value("polarization_offset")?;
        let Some((key, value)) =
            self.first_value(&["polarization_description", "polarization_factor"])
        else {
            return Ok([None, None]);
        };
        match (value.as_f64(), value.as_array().map(Vec::as_slice)) {
            (Some(factor), _) => Ok([Some(factor), offset]),
            (_, Some([factor])) if factor.is_number() => Ok([factor.as_f64(), offset]),
            (_, Some([factor, offset])) if factor.is_number() && offset.is_number() => {
                Ok([factor.as_f64(), offset.as_f64()])
            }
            // pyFAI writes a description without a factor if there is no correction.
            (_, Some([] | [Value::Null] | [Value::Null, _])) => Ok([None, None]),
            _ => self.unsupported(key, value, "a factor, or a factor and an angle in radians"),
        }
    }
}

/// Replaces infinities and NaN outside strings by null. Python writes them for absent limits, but
/// they are no JSON.
fn replace_nonfinite(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (text, false);
    while let Some(character) = rest.chars().next() {
        let number = ["-Infinity", "Infinity", "NaN"]
            .into_iter()
            .find(|name| !in_string && rest.starts_with(name));
        let length = match (number, character) {
            (Some(number), _) => {
                json.push_str("null");
                rest = &rest[number.len()..];
                continue;
            }
            (None, '\\') if in_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, character) => {
                in_string ^= character == '"';
                character.len_utf8()
            }
        };
        json.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    json
}

#[cfg(test)]
mod tests;
