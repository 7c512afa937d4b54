//! The geometry in a worker's configuration: inside of it, or in a PONI file that it names.

use serde_json::{Map, Value, json};

use super::WorkerConfig;
use crate::import::{file_url, refuse};
use crate::{RecipeError, Settings};
use std::path::Path;

/// The keys of a geometry, in JSON and in a PONI file.
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
    /// From version 4 on the geometry is the value of `poni_text`; before, its keys stand among the others, and `poni_text` may
    /// name a file that they override.
    pub(super) fn set_geometry(&self, settings: &mut Settings) -> Result<(), RecipeError> {
        let own = self.flat_geometry_keys();
        match self.value("poni") {
            Some(Value::Object(keys)) => settings.geometry = Some(self.poni_text(keys)?),
            Some(Value::String(name)) => {
                let directory = self.path.parent().unwrap_or(Path::new(""));
                let file = file_url::resolve_file_url(name, directory).or_else(|why| refuse(self.path, "poni", why))?;
                if own.is_empty() {
                    settings.poni = Some(file);
                    return Ok(());
                }
                let text = filter::foreign::read_text(&file);
                let text = text.map_err(|why| RecipeError::Io { path: file.to_path_buf(), why })?;
                settings.geometry = Some(format!("{}\n{}", text.trim_end(), self.poni_text(&own)?));
            }
            Some(other) => return self.unsupported("poni", other, "a geometry, or the name of a PONI file"),
            None if own.is_empty() => return refuse(self.path, "poni", "missing; expected a geometry"),
            None => settings.geometry = Some(self.poni_text(&own)?),
        }
        Ok(())
    }

    /// The geometry's keys of versions before 4, with what version 1 says of the detector beside them in its place.
    fn flat_geometry_keys(&self) -> Map<String, Value> {
        let given = |(key, _): &(&str, &str)| Some(((*key).to_owned(), self.value(key)?.clone()));
        let mut own: Map<String, Value> = PONI_KEYS.iter().filter_map(given).collect();
        let named = own.get("detector").and_then(Value::as_str).map(str::to_lowercase);
        let generic = named.as_deref().is_none_or(|name| name == "detector");
        if !own.contains_key("detector_config") {
            let mut config = Map::new();
            let mut take = |from: &str, to: &str| {
                self.value(from).map(|value| config.insert(to.to_owned(), value.clone()));
            };
            if generic {
                take("pixel1", "pixel1");
                take("pixel2", "pixel2");
            }
            take("splineFile", "splineFile");
            take("splinefile", "splineFile");
            if !config.is_empty() && generic {
                self.value("shape").map(|shape| config.insert("max_shape".to_owned(), shape.clone()));
                own.entry("detector").or_insert_with(|| json!("Detector"));
            }
            if own.contains_key("detector") {
                own.insert("detector_config".to_owned(), Value::Object(config));
            }
        }
        own
    }

    /// The text of a PONI file.
    fn poni_text(&self, keys: &Map<String, Value>) -> Result<String, RecipeError> {
        let mut text = "poni_version: 2.1\n".to_owned();
        let known = |key: &String| PONI_KEYS.iter().any(|(line, _)| *line == key.as_str()) || key == "poni_version";
        if let Some(key) = keys.keys().find(|key| !known(key)) {
            return Err(crate::import::unknown_key(self.path, key, PONI_KEYS.iter().map(|(line, _)| *line)));
        }
        for (key, line) in PONI_KEYS {
            match keys.get(key) {
                None | Some(Value::Null) => (),
                Some(Value::String(word)) => text += &format!("{line}: {word}\n"),
                Some(Value::Bool(on)) => text += &format!("{line}: {}\n", if *on { "True" } else { "False" }),
                Some(other) => text += &format!("{line}: {other}\n"),
            }
        }
        Ok(text)
    }
}
