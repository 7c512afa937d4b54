//! The text of a PONI file in a recipe: replacing its detector, and a digest of its values.

use std::collections::BTreeMap;

use records::IdHasher;
use serde_json::Value;

/// Replaces the detector by adding lines at the end: the last line with a key counts.
pub(crate) fn with_detector(text: &str, name: &str, config: &Value) -> String {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}Detector: {name}\nDetector_config: {config}\n")
}

/// Returns a digest of the values in a PONI text. It does not depend on comments, the order of
/// lines, the spelling of numbers, and lines that later ones override.
pub(crate) fn content_digest(text: &str) -> String {
    let mut values = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some((key, value)) = line.split_once(':') {
            let key = match key.trim().to_lowercase() {
                key if key == "dist" => "distance".to_owned(),
                key => key,
            };
            values.insert(key, canonical_value(value.trim()));
        }
    }
    // Keys have the same meaning in all versions from 2 on.
    let claimed = values.get("poni_version").and_then(|version| version.parse::<f64>().ok());
    let is_version_2 =
        values.contains_key("detector_config") || claimed.is_some_and(|version| version >= 2.0);
    values.insert("poni_version".to_owned(), if is_version_2 { "2" } else { "1" }.to_owned());
    let mut digest = IdHasher::new("poni");
    for (key, value) in values {
        digest = digest.add_text(&key).add_text(&value);
    }
    digest.to_hex()
}

/// Returns the canonical spelling of a value: JSON with sorted lower-case keys, numbers as Rust
/// prints them.
fn canonical_value(value: &str) -> String {
    match serde_json::from_str(value) {
        Ok(Value::Object(settings)) => {
            let sorted: BTreeMap<String, Value> = settings
                .into_iter()
                .map(|(key, value)| (key.to_lowercase(), as_float(value)))
                .collect();
            serde_json::to_string(&sorted).expect("what came from JSON goes into JSON")
        }
        _ => value.parse::<f64>().map_or_else(|_| value.to_owned(), |number| number.to_string()),
    }
}

/// Converts numbers to floats, so that `1` and `1.0` are equal.
fn as_float(value: Value) -> Value {
    value.as_f64().map_or(value, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Calibrant: LaB6\nponi_version: 2.1\nDetector: Eiger4M\nDetector_config: {\"orientation\": 3, \
        \"pixel1\": 7.5e-5}\nDistance: 0.1\nWavelength: 1e-10\n";

    #[test]
    fn spelling_and_history_do_not_matter() {
        let other = "Distance: 9\nponi_version: 2\nwavelength:1.0e-10\ndetector: Eiger4M\n# moved\nDist: 1e-1\n\
            Detector_config: {\"pixel1\":0.000075,\"orientation\":3.0}";
        assert_eq!(content_digest(TEXT), content_digest(other));
    }

    #[test]
    fn values_matter() {
        for (from, to) in
            [("0.1", "0.2"), ("Eiger4M", "Eiger1M"), (": 3", ": 2"), ("Wave", "Short")]
        {
            assert_ne!(
                content_digest(TEXT),
                content_digest(&TEXT.replace(from, to)),
                "{from} -> {to}"
            );
        }
    }

    #[test]
    fn another_detector_replaces_the_first() {
        let other = TEXT
            .replace("Eiger4M", "Pilatus1M")
            .replace("{\"orientation\": 3, \"pixel1\": 7.5e-5}", "{}");
        assert_eq!(
            content_digest(&with_detector(TEXT.trim_end(), "Pilatus1M", &serde_json::json!({}))),
            content_digest(&other)
        );
    }
}
