//! The configuration of pyFAI's worker, versions 1 to 5: pyFAI-integrate, pyFAI-diffmap and ewoksxrpd write it.

mod geometry;
mod method;

use std::path::Path;

use records::RawPath;
use serde_json::{Map, Value};

use super::{links, refuse, unknown};
use crate::lists::OneOrMany;
use crate::monitor::MonitorName;
use crate::{Dummy, Error, Settings};

/// The newest version that is known.
const NEWEST: f64 = 5.0;

/// The keys of all versions.
const KEYS: &[&str] = &[
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

/// What the text says, and remarks.
pub(super) fn read(text: &str, path: &Path) -> Result<(Settings, Vec<String>), Error> {
    let wrong = |why: String| Error::Toml { path: path.to_path_buf(), why };
    let value: Value = serde_json::from_str(&without_infinities(text)).map_err(|why| wrong(why.to_string()))?;
    let Value::Object(keys) = value else { return Err(wrong("expected a JSON object".to_owned())) };
    if let Some(key) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
        if key.starts_with("npt_ip") || key.starts_with("unit_ip") || key.starts_with("npt_oop") {
            return refuse(path, key, "fiber integration is not supported");
        }
        return Err(unknown(path, key, KEYS.iter().copied()));
    }
    let file = File { path, keys };
    let version = file.number("version")?.unwrap_or(1.0);
    if version > NEWEST {
        return refuse(path, "version", format!("{version}: expected {NEWEST} at the most"));
    }
    let (mut settings, mut said) = (Settings::default(), Vec::new());
    file.geometry(&mut settings)?;
    file.bins(&mut settings)?;
    file.images(&mut settings)?;
    file.corrections(&mut settings, &mut said)?;
    file.method(&mut settings, &mut said)?;
    if settings.npt_azim.is_some_and(|bins| bins > 1) && settings.azimuth_range.is_none() {
        said.push("azimuth_range: empty is here -180 to 180, there what the pixels cover (--azimuth-range)".to_owned());
    }
    if file.given("opencl_device").is_some() || file.is("do_OpenCL")? == Some(true) {
        said.push("opencl_device, do_OpenCL: here ai-integrate --engine and --device".to_owned());
    }
    Ok((settings, said))
}

struct File<'a> {
    path: &'a Path,
    keys: Map<String, Value>,
}

impl File<'_> {
    /// The value of a key, where it is given and not null.
    fn given(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    /// The first of these keys that is given: they have been renamed over the versions.
    fn first<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, &Value)> {
        keys.iter().find_map(|key| Some((*key, self.given(key)?)))
    }

    fn refuse<T>(&self, key: &str, value: &Value, expected: &str) -> Result<T, Error> {
        refuse(self.path, key, format!("{value}: expected {expected}"))
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        let number = |value: &Value| match value.as_f64() {
            Some(number) => Ok(number),
            None => self.refuse(key, value, "a number"),
        };
        self.given(key).map(number).transpose()
    }

    fn count(&self, key: &str) -> Result<Option<u64>, Error> {
        match self.number(key)? {
            Some(count) if count >= 0.0 && count.fract() == 0.0 => Ok(Some(count as u64)),
            Some(other) => self.refuse(key, &other.into(), "a whole number"),
            None => Ok(None),
        }
    }

    fn is(&self, key: &str) -> Result<Option<bool>, Error> {
        let truth = |value: &Value| match value {
            Value::Bool(truth) => Ok(*truth),
            Value::Number(number) => Ok(number.as_f64() != Some(0.0)),
            other => self.refuse(key, other, "true or false"),
        };
        self.given(key).map(truth).transpose()
    }

    /// Whether a `do_…` key does not say that what it is about is not to be done.
    fn may(&self, key: &str) -> Result<bool, Error> {
        Ok(self.is(key)? != Some(false))
    }

    fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.given(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => self.refuse(key, other, "a text"),
        }
    }

    /// Files, of which version 1 has a list with commas.
    fn files(&self, keys: &[&str], wanted: &str) -> Result<Option<OneOrMany<RawPath>>, Error> {
        let Some((key, value)) = self.first(keys) else { return Ok(None) };
        if !self.may(wanted)? {
            return Ok(None);
        }
        let names: Vec<String> = match value {
            Value::String(text) => {
                text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
            }
            Value::Array(list) => {
                let name = |value: &Value| value.as_str().map(str::to_owned);
                match list.iter().map(name).collect() {
                    Some(names) => names,
                    None => return self.refuse(key, value, "names of files"),
                }
            }
            other => return self.refuse(key, other, "a file or a list of files"),
        };
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let files: Result<Vec<RawPath>, String> = names.iter().map(|name| links::file(name, directory)).collect();
        files.map(OneOrMany::given).or_else(|why| refuse(self.path, key, why))
    }

    fn images(&self, settings: &mut Settings) -> Result<(), Error> {
        settings.mask = self.files(&["mask_file", "mask_image"], "do_mask")?;
        settings.dark = self.files(&["dark_current", "dark_current_image"], "do_dark")?;
        settings.flat = self.files(&["flat_field", "flat_field_image"], "do_flat")?;
        Ok(())
    }

    fn bins(&self, settings: &mut Settings) -> Result<(), Error> {
        settings.npt = self.count("nbpt_rad")?;
        if settings.npt.is_none() {
            return refuse(self.path, "nbpt_rad", "missing; expected the number of radial bins");
        }
        settings.npt_azim = self.count("nbpt_azim")?.filter(|&count| count > 1);
        if !self.may("do_2D")? {
            settings.npt_azim = None;
        }
        settings.unit = Some(match self.given("unit") {
            // What the worker takes where nothing is said.
            None => "2th_deg".to_owned(),
            Some(Value::String(unit)) => unit.clone(),
            Some(Value::Array(units)) => match &units[..] {
                [Value::String(unit)] => unit.clone(),
                [Value::String(unit), Value::String(chi)] if chi == "chi_deg" => unit.clone(),
                _ => return self.refuse("unit", &Value::Array(units.clone()), "a radial unit, and chi_deg"),
            },
            Some(other) => return self.refuse("unit", other, "the name of a unit"),
        });
        settings.radial_range = self.range("radial_range", &["radial_range"], &["do_radial_range"])?;
        let azimuth = ["azimuth_range", "azimuthal_range"];
        settings.azimuth_range = self.range("azimuth_range", &azimuth, &["do_azimuthal_range", "do_azimuth_range"])?;
        if self.is("chi_discontinuity_at_0")? == Some(true) && settings.npt_azim.is_some() {
            settings.azimuth_range = settings.azimuth_range.or(Some([0.0, 360.0]));
        }
        Ok(())
    }

    /// A range, given as such or as `…_min` and `…_max`; limits that are infinite or null are none.
    fn range(&self, key: &str, stems: &[&str], wanted: &[&str]) -> Result<Option<[f64; 2]>, Error> {
        for wanted in wanted {
            if !self.may(wanted)? {
                return Ok(None);
            }
        }
        let pair = match self.given(key) {
            Some(Value::Array(pair)) if pair.len() == 2 => [pair[0].as_f64(), pair[1].as_f64()],
            Some(other) => return self.refuse(key, other, "two numbers"),
            None => {
                let mut ends = [None, None];
                for stem in stems {
                    ends[0] = ends[0].or(self.number(&format!("{stem}_min"))?);
                    ends[1] = ends[1].or(self.number(&format!("{stem}_max"))?);
                }
                ends
            }
        };
        match pair {
            [Some(low), Some(high)] => Ok(Some([low, high])),
            [None, None] => Ok(None),
            [low, high] => {
                let shown = |end: Option<f64>| end.map_or("none".to_owned(), |end| end.to_string());
                refuse(self.path, key, format!("{} to {}: expected both limits, or none", shown(low), shown(high)))
            }
        }
    }

    fn corrections(&self, settings: &mut Settings, said: &mut Vec<String>) -> Result<(), Error> {
        settings.solid_angle = self.is("correct_solid_angle")?.or(self.is("do_solid_angle")?);
        if self.may("do_polarization")? {
            let [factor, offset] = self.polarization()?;
            settings.polarization = factor;
            settings.polarization_offset = offset.filter(|offset| *offset != 0.0).map(f64::to_degrees);
        }
        let dummy = self.number("val_dummy")?.or(self.number("dummy")?);
        if let Some(value) = dummy.filter(|_| self.may("do_dummy").unwrap_or(true)) {
            let delta = self.number("delta_dummy")?.unwrap_or(0.0);
            settings.dummy = Some(Dummy::Value { value, delta });
            said.push(format!(
                "val_dummy {value}: pyFAI writes it into empty bins too; here they are what --empty says"
            ));
        }
        let factor = self.number("normalization_factor")?.filter(|factor| *factor != 1.0);
        let mut monitors: Vec<MonitorName> = factor.map(MonitorName::Number).into_iter().collect();
        if let Some(name) = self.text("monitor_name")?.filter(|name| !name.is_empty()) {
            let counter = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(name);
            said.push(format!("monitor_name {name}: the scan's counter {counter}, over 1"));
            monitors.push(MonitorName::Name(counter.to_owned()));
        }
        settings.monitor = OneOrMany::given(monitors);
        Ok(())
    }

    /// Factor, and the offset of its plane in radians.
    fn polarization(&self) -> Result<[Option<f64>; 2], Error> {
        let offset = self.number("polarization_offset")?;
        let Some((key, value)) = self.first(&["polarization_description", "polarization_factor"]) else {
            return Ok([None, None]);
        };
        match (value.as_f64(), value.as_array().map(Vec::as_slice)) {
            (Some(factor), _) => Ok([Some(factor), offset]),
            (_, Some([factor])) if factor.is_number() => Ok([factor.as_f64(), offset]),
            (_, Some([factor, own])) if factor.is_number() && own.is_number() => Ok([factor.as_f64(), own.as_f64()]),
            // What pyFAI writes for no correction is a description without a factor.
            (_, Some([] | [Value::Null] | [Value::Null, _])) => Ok([None, None]),
            _ => self.refuse(key, value, "a factor, or a factor and an angle in radians"),
        }
    }
}

/// Python writes infinities and NaN as JSON has no words for: they stand for no limit.
fn without_infinities(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut rest, mut in_text) = (text, false);
    while let Some(letter) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| !in_text && rest.starts_with(word));
        let length = match (word, letter) {
            (Some(word), _) => {
                kept.push_str("null");
                rest = &rest[word.len()..];
                continue;
            }
            (None, '\\') if in_text => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, letter) => {
                in_text ^= letter == '"';
                letter.len_utf8()
            }
        };
        kept.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    kept
}

#[cfg(test)]
mod tests;
