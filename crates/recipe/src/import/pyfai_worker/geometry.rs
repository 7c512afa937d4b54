//! The geometry of a worker's configuration: in the configuration itself, or in a PONI file that it
//! names.

use serde_json::{Map, Value, json};

use super::WorkerConfig;
use crate::import::{file_url, refuse};
use crate::{RecipeError, Settings};
use std::path::Path;

/// Keys of a geometry in JSON, each with the key in a PONI file.
const PONI_KEYS: [(&str, &str); 11] = [
    ("detector", "Detector"),
    ("detector_config", "Detector_config"),
    ("dist", "Distance"),
    ("distance", "Distance"),
    ("poni1", "Poni1"),
    ("poni2", "Poni2"),
    ("rot1", "Rot1"),
    ("rot2", "Rot2"),
    ("rot3", "Rot3"),
    ("wavelength", "Wavelength"),
    ("parallax", "Parallax"),
];

impl WorkerConfig<'_> {
    /// Sets the geometry. From version 4 on it is the object under key `poni`. Before, the
    /// geometry's keys are at the top level, and `poni` may name a file whose values they override.
    pub(super) fn set_geometry(&self, settings: &mut Settings) -> Result<(), RecipeError> {
        let flat = self.flat_geometry_keys();
        match self.value("poni") {
            Some(Value::Object(keys)) => settings.geometry = Some(self.poni_text(keys)?),
            Some(Value::String(name)) => {
                let directory = self.path.parent().unwrap_or(Path::new(""));
                let file = file_url::resolve_file_url(name, directory)
                    .or_else(|why| refuse(self.path, "poni", why))?;
                if flat.is_empty() {
                    settings.poni = Some(file);
                    return Ok(());
                }
                let text = system::untrusted_file::read_text(&file);
                let text = text.map_err(|why| RecipeError::Io { path: file.to_path_buf(), why })?;
                settings.geometry =
                    Some(format!("{}\n{}", text.trim_end(), self.poni_text(&flat)?));
            }
            Some(other) => {
                return self.unsupported("poni", other, "a geometry, or the name of a PONI file");
            }
            None if flat.is_empty() => {
                return refuse(self.path, "poni", "missing; expected a geometry");
            }
            None => settings.geometry = Some(self.poni_text(&flat)?),
        }
        Ok(())
    }

    /// Returns the geometry's keys at the top level, as versions before 4 have them. The keys with
    /// which version 1 describes the detector (pixel size, shape, spline) are moved into
    /// `detector_config`.
    fn flat_geometry_keys(&self) -> Map<String, Value> {
        let given = |(key, _): &(&str, &str)| Some(((*key).to_owned(), self.value(key)?.clone()));
        let mut keys: Map<String, Value> = PONI_KEYS.iter().filter_map(given).collect();
        let detector = keys.get("detector").and_then(Value::as_str).map(str::to_lowercase);
        let is_generic = detector.as_deref().is_none_or(|name| name == "detector");
        if !keys.contains_key("detector_config") {
            let mut config = Map::new();
            let mut move_key = |from: &str, to: &str| {
                self.value(from).map(|value| config.insert(to.to_owned(), value.clone()));
            };
            if is_generic {
                move_key("pixel1", "pixel1");
                move_key("pixel2", "pixel2");
            }
            move_key("splineFile", "splineFile");
            move_key("splinefile", "splineFile");
            if !config.is_empty() && is_generic {
                self.value("shape")
                    .map(|shape| config.insert("max_shape".to_owned(), shape.clone()));
                keys.entry("detector").or_insert_with(|| json!("Detector"));
            }
            if keys.contains_key("detector") {
                keys.insert("detector_config".to_owned(), Value::Object(config));
            }
        }
        keys
    }

    /// Converts the keys of a geometry to the text of a PONI file.
    fn poni_text(&self, keys: &Map<String, Value>) -> Result<String, RecipeError> {
        // The version decides whether parallax is corrected; all else is as in 2.1.
        let version = keys.get("poni_version").and_then(Value::as_f64);
        let has_parallax = version.is_some_and(|version| version >= 3.0);
        let mut text = format!("poni_version: {}\n", if has_parallax { "3" } else { "2.1" });
        let is_known =
            |key: &String| PONI_KEYS.iter().any(|(known, _)| known == key) || key == "poni_version";
        if let Some(key) = keys.keys().find(|key| !is_known(key)) {
            return Err(crate::import::unknown_key(
                self.path,
                key,
                PONI_KEYS.iter().map(|(known, _)| *known),
            ));
        }
        for (key, poni_key) in PONI_KEYS {
            match keys.get(key) {
                None | Some(Value::Null) => (),
                Some(Value::String(value)) => text += &format!("{poni_key}: {value}\n"),
                Some(Value::Bool(value)) => {
                    text += &format!("{poni_key}: {}\n", if *value { "True" } else { "False" })
                }
                Some(other) => text += &format!("{poni_key}: {other}\n"),
            }
        }
        Ok(text)
    }
}
