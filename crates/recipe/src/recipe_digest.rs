//! The digest of a recipe, and how two recipes differ.

use records::{IdHasher, RawPath};

use crate::{FileRef, Recipe, poni_text};

/// The key of the geometries of frames.
const TABLE_KEY: &str = "poni-table";

impl Recipe {
    /// Returns the digest that identifies the recipe, 64 hexadecimal digits. It depends on all
    /// settings, the values in the PONI text and the content of all files, but not on paths.
    pub fn digest(&self) -> String {
        let canonical = serde_json::to_string(&self.without_paths())
            .expect("a recipe holds nothing that JSON can't");
        IdHasher::new("recipe").add_text(&canonical).to_hex()
    }

    /// Returns the settings in which the recipe `now` differs from this one, each with both values:
    /// `npt: 300, now 400`. Geometries of frames that follow from motors are named by the setting that
    /// the user has given.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let fields = |recipe: &Self| match serde_json::to_value(recipe.without_paths()) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let (before, after) = (fields(self), fields(now));
        let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
        let is_derived = |key: &str| {
            let was_derived = now.poni_table.is_empty() && has_motors(self);
            key == TABLE_KEY && (has_motors(now) || was_derived)
        };
        let differing = keys.filter(|key| before.get(*key) != after.get(*key) && !is_derived(key));
        let shown = |fields: &serde_json::Map<String, serde_json::Value>, key: &str| match fields
            .get(key)
        {
            None => "none".to_owned(),
            Some(value) if value.is_number() || value.is_boolean() => value.to_string(),
            Some(serde_json::Value::String(text)) if key != "poni" => text.clone(),
            Some(serde_json::Value::Array(list))
                if list.iter().all(serde_json::Value::is_number) && list.len() < 5 =>
            {
                serde_json::Value::Array(list.clone()).to_string()
            }
            // Files and long texts are not shown.
            Some(_) => "set".to_owned(),
        };
        let pair = |key: &String| match (shown(&before, key), shown(&after, key)) {
            (before, after) if before == after => key.clone(),
            (before, after) => format!("{key}: {before}, now {after}"),
        };
        differing.map(pair).chain(self.moved_motors(now)).collect()
    }

    /// Describes that motors of the same names were elsewhere; `None` if nothing changed, or if other
    /// settings say what did.
    fn moved_motors(&self, now: &Self) -> Option<String> {
        let tables = [self, now].map(|recipe| recipe.without_paths().poni_table);
        let goniometer = now.goniometer.as_ref().filter(|now| {
            let earlier = self.goniometer.as_ref();
            earlier.is_some_and(|earlier| {
                (&earlier.sha256, &earlier.motors) == (&now.sha256, &now.motors)
            })
        });
        let incident =
            now.incident_angle_motor().filter(|now| self.incident_angle_motor() == Some(now));
        let of_detector = goniometer.iter().flat_map(|file| file.motors.iter().map(String::as_str));
        let motors: Vec<&str> = of_detector.chain(incident).collect();
        let key = match (goniometer, &now.goniometer) {
            (Some(_), _) => "goniometer",
            // The PONI files of the table may differ, too.
            (None, None) if now.has_moving_detector() => "poni-table and incident-angle",
            _ => "incident-angle",
        };
        let has_moved = tables[0] != tables[1] && !motors.is_empty();
        has_moved.then(|| format!("{key}: other positions of {}", motors.join(", ")))
    }

    /// Returns the part of the recipe that is in its digest: without paths, and with a digest of
    /// the PONI file's values in place of its text.
    fn without_paths(&self) -> Self {
        let mut recipe = self.clone();
        recipe.poni = poni_text::content_digest(&self.poni);
        recipe.poni_file = RawPath::default();
        recipe.goniometer.iter_mut().for_each(|file| file.path = RawPath::default());
        recipe.poni_table.iter_mut().for_each(|range| *range = range.without_path());
        recipe.files_mut().for_each(FileRef::clear_paths);
        recipe
    }
}

/// Returns whether geometries of frames follow from motors.
fn has_motors(recipe: &Recipe) -> bool {
    recipe.goniometer.is_some() || recipe.incident_angle_motor().is_some()
}
