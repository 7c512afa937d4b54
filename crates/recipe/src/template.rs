//! A recipe written out in full: every key with what it means, and what is set.

use std::fmt::Write as _;

use toml::{Table, Value};

use crate::{RecipeFile, Settings};

/// Every key, with its default or an example behind a `#`.
const TEMPLATE: &str = include_str!("template.toml");

impl RecipeFile {
    /// The recipe in TOML, with every key and its default; `flags` go before what the file says. Its paths are absolute,
    /// so that it may be kept anywhere.
    pub fn to_toml(&self, flags: &Settings) -> String {
        let (settings, detectors) = self.settings_and_sections();
        let here = std::env::current_dir().unwrap_or_default();
        let table = |settings: &Settings| {
            let mut all = flags.clone().with_defaults(settings.clone());
            all.resolve_paths_from(&here);
            Table::try_from(all).expect("settings hold nothing that TOML can't")
        };
        let mut set = table(settings);
        let mut text = String::new();
        for line in TEMPLATE.lines() {
            let key = line.strip_prefix('#').and_then(|line| line.split_once(" = ")).map(|(key, _)| key);
            match key.and_then(|key| Some((key, set.remove(key)?))) {
                Some((key, value)) => write_assignment(&mut text, key, &value),
                None => _ = writeln!(text, "{line}"),
            }
        }
        for (name, section) in detectors {
            _ = writeln!(text, "\n[detector.{}]", Value::String(name.clone()));
            // A flag goes before the sections too.
            for (key, value) in table(section) {
                write_assignment(&mut text, &key, &value);
            }
        }
        text
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

    /// The template with the lines of its keys uncommented.
    fn uncommented(wanted: impl Fn(&str) -> bool) -> String {
        let line = |line: &'static str| match line.strip_prefix('#').and_then(|line| line.split_once(" = ")) {
            Some((key, _)) if wanted(key) && !key.contains(' ') => &line[1..],
            _ => line,
        };
        TEMPLATE.split("\n## Detectors").next().unwrap().lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_key_stands_in_it_once_and_reads_back() {
        let settings = Settings::parse(&uncommented(|_| true), Path::new("t")).unwrap();
        let set = Table::try_from(&settings).unwrap();
        let keys =
            TEMPLATE.lines().filter(|line| line.starts_with('#') && line.contains(" = ") && !line.starts_with("# "));
        // The section's own example is one more.
        assert_eq!(
            (keys.count() - 1, set.len()),
            (crate::settings::SETTING_KEYS.len(), crate::settings::SETTING_KEYS.len())
        );
    }

    #[test]
    fn what_is_said_to_be_the_default_is_it() {
        let defaults = ["npt", "npt-azim", "unit", "azimuth-range", "split", "detector-mask", "dummy", "solid-angle"];
        let more = ["error-model", "error", "empty", "image-operation"];
        let geometry = "geometry = 'Distance: 1'\n";
        let resolve = |text: &str| Recipe::resolve(&Settings::parse(text, Path::new("t")).unwrap()).unwrap();
        let text = uncommented(|key| defaults.contains(&key) || more.contains(&key));
        let said = resolve(&format!("{geometry}{text}"));
        let none = resolve(geometry);
        assert_eq!(Recipe { azimuth_range: None, ..said }, none);
    }

    #[test]
    fn what_is_set_comes_back_with_flags_and_sections() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.toml");
        let text = "geometry = \"Distance: 1\\nPoni1: 0\\n\"\nnpt = 30\nmonitor = ['a', {name = 'b', reference = 2}, 5.0]\n\
            mask-region = 'circle:1,2,3'\ndummy = -1\n[detector.'eig*']\nnpt = 40\nempty = 0\n";
        std::fs::write(&path, text).unwrap();
        let sheet = RecipeFile::read(&path).unwrap();
        let flags = Settings { npt_azim: Some(4), ..Settings::default() };
        let printed = sheet.to_toml(&flags);
        std::fs::write(&path, &printed).unwrap();
        let again = RecipeFile::read(&path).unwrap();
        for ((_, found), (_, expected)) in again.sections().into_iter().zip(sheet.sections()) {
            assert_eq!(found, flags.clone().with_defaults(expected), "{printed}");
        }
        assert!(
            printed.contains("geometry = '''\nDistance: 1\nPoni1: 0\n'''\n") && printed.contains("#unit = "),
            "{printed}"
        );
    }
}
