//! Checks of values that several records hold.

use crate::RawPath;
use crate::error::FieldError;

/// Checks an id. Ids name directories and are stored in headers of fixed length, so they must be
/// short and plain.
pub(crate) fn check_id(field: &'static str, text: &str) -> Result<(), FieldError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        true => Ok(()),
        false => Err(FieldError::Id { field, text: text.to_owned() }),
    }
}

/// Checks that a path is absolute: records are read in any directory, and a relative path would
/// lead to another file.
pub(crate) fn check_absolute(field: &'static str, path: &RawPath) -> Result<(), FieldError> {
    match path.is_absolute() {
        true => Ok(()),
        false => Err(FieldError::RelativePath { field, path: path.to_path_buf() }),
    }
}
