//! Paths of any bytes but NUL, carried through JSON without loss.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The marker before the base64 of a path, between [`RawPath`] and the `_b64` field. No path can
/// begin with it, because a path holds no NUL.
const B64_MARKER: &str = "\0b64:";

/// The marker as JSON has it.
pub(crate) const B64_IN_JSON: &str = r"\u0000b64:";

/// A path in a record, which may hold any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawPath(PathBuf);

impl RawPath {
    /// Returns the path.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Returns whether the path stays below the directory that it is joined to: it is relative, not
    /// empty, and has no `..` component.
    pub fn is_contained(&self) -> bool {
        use std::path::Component::{CurDir, Normal};
        self.0.components().next().is_some()
            && self.0.components().all(|part| matches!(part, Normal(_) | CurDir))
    }
}

/// Returns the relative path from a directory to a file, both absolute, by their names only, with
/// `..` for each directory to leave. The relative path stays the same when both are moved together.
pub fn relative_path(directory: &Path, file: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) =
        (directory.components().collect(), file.components().collect());
    let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
    let up = from[shared..].iter().map(|_| std::path::Component::ParentDir);
    up.chain(to[shared..].iter().copied()).collect()
}

impl Deref for RawPath {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for RawPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl<T: Into<PathBuf>> From<T> for RawPath {
    fn from(path: T) -> Self {
        Self(path.into())
    }
}

impl Serialize for RawPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let bytes = self.0.as_os_str().as_bytes();
                serializer.serialize_str(&format!("{B64_MARKER}{}", STANDARD.encode(bytes)))
            }
        }
    }
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let bytes = match text.strip_prefix(B64_MARKER) {
            Some(coded) => STANDARD.decode(coded).map_err(D::Error::custom)?,
            None => text.into_bytes(),
        };
        if bytes.contains(&0) {
            return Err(D::Error::custom("a path with a NUL byte: no file has such a name"));
        }
        Ok(Self(PathBuf::from(OsString::from_vec(bytes))))
    }
}

/// Renames each field that holds a marked path to `<name>_b64`, at any depth.
pub(crate) fn move_to_b64_fields(value: Value) -> Value {
    rename_fields(value, &|key, value| match value {
        Value::String(text) if text.starts_with(B64_MARKER) => {
            (format!("{key}_b64"), Value::String(text[B64_MARKER.len()..].to_owned()))
        }
        other => (key, other),
    })
}

/// Renames each field `<name>_b64` that holds a string to `<name>` with a marked path.
pub(crate) fn take_b64_fields(value: Value) -> Value {
    rename_fields(value, &|key, value| match (key.strip_suffix("_b64"), value) {
        (Some(stem), Value::String(coded)) if is_path_bytes(&coded) => {
            (stem.to_owned(), Value::String(format!("{B64_MARKER}{coded}")))
        }
        (_, other) => (key, other),
    })
}

/// Returns whether the base64 stands for bytes that a plain string could not hold. Only such bytes
/// are read as a path, so that a user's own `..._b64` field with other content is written
/// unchanged.
fn is_path_bytes(coded: &str) -> bool {
    STANDARD.decode(coded).is_ok_and(|bytes| OsStr::from_bytes(&bytes).to_str().is_none())
}

fn rename_fields(value: Value, field: &impl Fn(String, Value) -> (String, Value)) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| field(key, rename_fields(value, field)))
                .collect::<Map<_, _>>(),
        ),
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| rename_fields(item, field)).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_without_parents_stays_below() {
        for good in ["a", "a/b.h5", "./a"] {
            assert!(RawPath::from(good).is_contained(), "{good}");
        }
        for bad in ["", "/a", "../a", "a/../../b"] {
            assert!(!RawPath::from(bad).is_contained(), "{bad}");
        }
    }

    #[test]
    fn a_path_between_two_places_stays_where_both_are_moved() {
        let between = |from: &str, to: &str| {
            relative_path(Path::new(from), Path::new(to)).display().to_string()
        };
        assert_eq!(between("/raw/s", "/raw/s/scan0001/p3.h5"), "scan0001/p3.h5");
        assert_eq!(between("/raw/s", "/raw/lima/p3.h5"), "../lima/p3.h5");
        assert_eq!(
            between("/a/raw/s", "/a/raw/lima/p3.h5"),
            between("/b/c/raw/s", "/b/c/raw/lima/p3.h5")
        );
        assert_eq!(between("/a/b", "/c"), "../../c");
        assert_eq!(between("/raw/s", "/raw/s2/p3.h5"), "../s2/p3.h5");
    }

    #[test]
    fn bytes_that_are_not_utf8_survive() {
        let path = RawPath::from(OsStr::from_bytes(b"/data/caf\xe9 \"1\"\n.h5"));
        let value = move_to_b64_fields(serde_json::json!({ "file": &path }));
        assert_eq!(value["file_b64"], STANDARD.encode(b"/data/caf\xe9 \"1\"\n.h5"));
        let back = take_b64_fields(value);
        assert_eq!(serde_json::from_value::<RawPath>(back["file"].clone()).unwrap(), path);
    }

    #[test]
    fn a_foreign_b64_field_is_left_alone() {
        let value = serde_json::json!({ "note_b64": "aGVsbG8=", "x_b64": 3 });
        assert_eq!(take_b64_fields(value.clone()), value);
    }
}
