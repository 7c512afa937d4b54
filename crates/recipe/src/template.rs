//! The recipe that `plan-split --print-recipe` prints: every key with its meaning and its default
//! or value.

use std::fmt::Write as _;

use geometry::Unit;
use toml::{Table, Value};

use crate::resolve::{default_error_model, default_split};
use crate::{ErrorModel, RecipeFile, Settings};

/// Every key with a comment, and its default or an example commented out. `{units}` and
/// `{error-models}` stand for lists of names.
const TEMPLATE: &str = include_str!("template.toml");

/// The line of the template in whose place the units are listed.
const UNITS_LINE: &str = "#   {units}";

impl RecipeFile {
    /// Returns the recipe in TOML with every key: the values of `flags` and of this file, and
    /// commented-out defaults, which may follow from the values. Paths are absolute, so that the text may be saved anywhere.
    pub fn to_toml(&self, flags: &Settings) -> String {
        let (settings, detectors) = self.settings_and_sections();
        let directory = std::env::current_dir().unwrap_or_default();
        let merge = |settings: &Settings| {
            let mut all = flags.clone().with_defaults(settings.clone());
            all.resolve_paths_from(&directory);
            all
        };
        let table = |settings: &Settings| to_table(&merge(settings));
        let error_models = ErrorModel::list(|_| true);
        let (mut values, mut defaults) = (table(settings), dependent_defaults(&merge(settings)));
        let mut text = String::new();
        for line in TEMPLATE.lines() {
            let key =
                line.strip_prefix('#').and_then(|line| line.split_once(" = ")).map(|(key, _)| key);
            let assignment = |from: &mut Table| key.and_then(|key| Some((key, from.remove(key)?)));
            match (assignment(&mut values), assignment(&mut defaults)) {
                (Some((key, value)), _) => write_assignment(&mut text, key, &value),
                (None, Some((key, value))) => {
                    text.push('#');
                    write_assignment(&mut text, key, &value);
                }
                (None, None) if line == UNITS_LINE => write_units(&mut text),
                (None, None) => {
                    _ = writeln!(text, "{}", line.replace("{error-models}", &error_models))
                }
            }
        }
        for (name, section) in detectors {
            _ = writeln!(text, "\n[detector.{}]", Value::String(name.clone()));
            // Flags override sections, too.
            for (key, value) in table(section) {
                write_assignment(&mut text, &key, &value);
            }
        }
        text
    }
}

fn to_table(settings: &Settings) -> Table {
    Table::try_from(settings).expect("settings hold nothing that TOML can't")
}

/// Returns the defaults that depend on other settings.
fn dependent_defaults(settings: &Settings) -> Table {
    to_table(&Settings {
        split: Some(default_split(settings)),
        error_model: Some(default_error_model(settings)),
        ..Settings::default()
    })
}

/// Writes a comment with a line for each unit: its name, and what an axis in it is called.
fn write_units(text: &mut String) {
    for unit in Unit::all() {
        _ = writeln!(text, "#   {:<11} {}", unit.name(), unit.label());
    }
}

fn write_assignment(text: &mut String, key: &str, value: &Value) {
    _ = match value.as_str().filter(|text| text.contains('\n') && !text.contains("'''")) {
        Some(lines) => writeln!(text, "{key} = '''\n{lines}'''"),
        None => writeln!(text, "{key} = {value}"),
    };
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Recipe;

    /// Returns the template without the comment signs before the keys that are `wanted`.
    fn uncommented(wanted: impl Fn(&str) -> bool) -> String {
        let line = |line: &'static str| match line
            .strip_prefix('#')
            .and_then(|line| line.split_once(" = "))
        {
            Some((key, _)) if wanted(key) && !key.contains(' ') => &line[1..],
            _ => line,
        };
        TEMPLATE
            .split("\n## Detectors")
            .next()
            .unwrap()
            .lines()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn every_key_is_in_the_template_once_and_parses() {
        let settings = Settings::parse(&uncommented(|_| true), Path::new("t")).unwrap();
        let set = Table::try_from(&settings).unwrap();
        let keys = TEMPLATE.lines().filter(|line| {
            line.starts_with('#') && line.contains(" = ") && !line.starts_with("# ")
        });
        // The example of a section has one more key.
        assert_eq!(
            (keys.count() - 1, set.len()),
            (crate::settings::SETTING_KEYS.len(), crate::settings::SETTING_KEYS.len())
        );
    }

    #[test]
    fn defaults_in_the_template_are_the_defaults() {
        let defaults = [
            "npt",
            "npt-azim",
            "unit",
            "azimuth-range",
            "split",
            "detector-mask",
            "dummy",
            "solid-angle",
        ];
        let more = ["mean", "error-model", "error", "empty", "image-operation"];
        let geometry = "geometry = 'Distance: 1'\n";
        let resolve =
            |text: &str| Recipe::resolve(&Settings::parse(text, Path::new("t")).unwrap()).unwrap();
        let text = uncommented(|key| defaults.contains(&key) || more.contains(&key));
        let explicit = resolve(&format!("{geometry}{text}"));
        let default = resolve(geometry);
        assert_eq!(Recipe { azimuth_range: None, ..explicit }, default);
    }

    #[test]
    fn a_printed_default_is_the_one_that_applies() {
        let file = RecipeFile::default();
        for text in [
            "",
            "unit = 'qoop_nm^-1'",
            "unit = 'qip_A^-1'",
            "sigma-clip = 5",
            "variance = 'v.npy'",
            "variance = 'v.npy'\nsigma-clip = 5",
            "unit = 'r_mm'",
        ] {
            let settings = Settings::parse(text, Path::new("t")).unwrap();
            let printed = file.to_toml(&settings);
            let resolved = Settings {
                geometry: Some("Distance: 1\n".to_owned()),
                variance: None,
                ..settings.clone()
            };
            let split = Recipe::resolve(&resolved).unwrap().split;
            let error_model = default_error_model(&settings);
            for line in
                [format!("#split = \"{split}\""), format!("#error-model = \"{error_model}\"")]
            {
                assert!(
                    printed.lines().any(|printed| printed == line),
                    "{text}: {line}: {printed}"
                );
            }
        }
        let set = Settings::parse("unit = 'qip_nm^-1'\nsplit = 'full'", Path::new("t")).unwrap();
        assert!(file.to_toml(&set).contains("\nsplit = \"full\"\n"));
    }

    #[test]
    fn values_are_printed_with_flags_and_sections() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.toml");
        let text = "geometry = \"Distance: 1\\nPoni1: 0\\n\"\nnpt = 30\nmonitor = ['a', {name = 'b', reference = 2}, 5.0]\n\
            mask-region = 'circle:1,2,3'\ndummy = -1\n[detector.'eig*']\nnpt = 40\nempty = 0\n";
        std::fs::write(&path, text).unwrap();
        let file = RecipeFile::read(&path).unwrap();
        let flags = Settings { npt_azim: Some(4), ..Settings::default() };
        let printed = file.to_toml(&flags);
        std::fs::write(&path, &printed).unwrap();
        let again = RecipeFile::read(&path).unwrap();
        for ((_, found), (_, expected)) in again.sections().into_iter().zip(file.sections()) {
            assert_eq!(found, flags.clone().with_defaults(expected), "{printed}");
        }
        let units = printed
            .lines()
            .filter(|line| Unit::all().any(|unit| line.starts_with(&format!("#   {unit} "))));
        assert_eq!(units.count(), Unit::all().len(), "{printed}");
        assert!(
            printed.contains("geometry = '''\nDistance: 1\nPoni1: 0\n'''\n")
                && printed.contains("#unit = "),
            "{printed}"
        );
    }
}
