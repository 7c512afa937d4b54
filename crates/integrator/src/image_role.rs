//! [`ImageRole`], the purpose of an image of a recipe, and the error that names it.

use std::io;

use recipe::FileRef;

use crate::IntegratorError;

/// The purpose of an image. Error messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageRole {
    /// A mask: not 0 where masked.
    Mask,
    /// A dark: counts without beam.
    Dark,
    /// A flat field: the relative response of each pixel.
    Flat,
    /// The variance of the counts of each pixel.
    Variance,
}

impl ImageRole {
    /// Returns the word that messages use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mask => "mask",
            Self::Dark => "dark",
            Self::Flat => "flat",
            Self::Variance => "variance",
        }
    }
}

/// Returns the error of an image, which names the file once although its readers name it, too.
pub fn image_error(
    role: &'static str,
    file: &FileRef,
    why: String,
    is_retryable: bool,
) -> IntegratorError {
    let name = file.name();
    let names = [name.as_str(), &file.path.display().to_string()];
    let rest = names.iter().find_map(|name| {
        let rest = why.strip_prefix(name)?;
        rest.strip_prefix(": ").or_else(|| rest.strip_prefix("::")).map(str::to_owned)
    });
    let why = rest.unwrap_or(why);
    if is_retryable {
        IntegratorError::Unreadable { role, name, why }
    } else {
        IntegratorError::Image { role, name, why }
    }
}

/// Returns whether a file may be readable later. One that is not there was named wrongly, and
/// errors without a system code are in the file's content.
pub fn may_pass(why: &io::Error) -> bool {
    match why.kind() {
        io::ErrorKind::OutOfMemory => true,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            false
        }
        _ => why.raw_os_error().is_some(),
    }
}
