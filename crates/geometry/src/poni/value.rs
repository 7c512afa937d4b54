//! Values of a PONI file, which are JSON or plain text.

use serde_json::Value;

use super::PoniError;
use crate::format_number;

/// Parses a finite number from a JSON number or a string.
pub(super) fn parse_number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.parse().ok()?,
        other => other.as_f64()?,
    };
    f64::is_finite(number).then_some(number)
}

/// Formats a value as the file spells it: strings without quotes.
pub(super) fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the error for a value that is not what the key takes.
pub(super) fn value_error(key: &str, value: impl ToString, expected: &'static str) -> PoniError {
    PoniError::Value { key: key.to_owned(), value: value.to_string(), expected }
}

/// Returns the error for a number that is out of range.
pub(super) fn number_error(key: &str, value: f64, expected: &'static str) -> PoniError {
    value_error(key, format_number(value), expected)
}
