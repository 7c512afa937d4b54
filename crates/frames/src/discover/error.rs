//! Errors of the search: why a file, or an object in it, can't be used.

use std::io;
use std::path::{Path, PathBuf};

use records::AbsentKind;

use super::frame_selection::SelectionError;
use super::unusable::UnusableError;
use crate::coding::PixelTypeError;
use crate::ffi::LibraryError;
use crate::frame_shape::FrameShapeError;
use crate::image::ImageError;

/// Explains why a file, an object in it, or its frames can't be used. The variants keep three cases
/// apart: missing, unreadable, and invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiscoverError {
    /// A file that a link, a mapping or a series refers to doesn't exist. Holds its name as written
    /// there.
    FileMissing(PathBuf),
    /// The file has no object at this path.
    NoObject(PathBuf, String),
    /// The system failed, so nothing is known about the contents of the file. A later attempt may
    /// succeed.
    Unreadable(PathBuf, LibraryError),
    /// The file violates its format: it is truncated, damaged, or being written.
    Damaged(PathBuf, String),
    /// The object exists but can't be read as frames.
    Unusable(UnusableError),
}

impl From<UnusableError> for DiscoverError {
    fn from(why: UnusableError) -> Self {
        Self::Unusable(why)
    }
}

impl From<FrameShapeError> for DiscoverError {
    fn from(why: FrameShapeError) -> Self {
        Self::Unusable(why.into())
    }
}

impl From<PixelTypeError> for DiscoverError {
    fn from(why: PixelTypeError) -> Self {
        Self::Unusable(why.into())
    }
}

impl From<SelectionError> for DiscoverError {
    fn from(why: SelectionError) -> Self {
        Self::Unusable(why.into())
    }
}

impl DiscoverError {
    /// Returns the error for a failed system call on a file.
    pub(crate) fn from_io(file: &Path, why: &io::Error) -> Self {
        match why.kind() {
            io::ErrorKind::NotFound => Self::FileMissing(file.to_owned()),
            _ => Self::Unreadable(
                file.to_owned(),
                LibraryError { why: why.to_string(), errno: why.raw_os_error() },
            ),
        }
    }

    /// Returns the error for a failed call of the HDF5 library on an object of a file.
    pub(crate) fn from_library(file: &Path, err: &LibraryError) -> Self {
        match err.errno.map(io::Error::from_raw_os_error) {
            Some(why) if why.kind() == io::ErrorKind::NotFound => {
                Self::FileMissing(file.to_owned())
            }
            Some(_) => Self::Unreadable(file.to_owned(), err.clone()),
            None => Self::Damaged(file.to_owned(), format!("not readable as HDF5: {}", err.why)),
        }
    }

    /// Returns the error for an image file.
    pub(crate) fn from_image(file: &Path, error: &ImageError) -> Self {
        match error {
            ImageError::Io { why, .. } if why.raw_os_error().is_some() => Self::from_io(file, why),
            ImageError::Io { why, .. } => Self::Damaged(file.to_owned(), why.to_string()),
            ImageError::Invalid { format, why, .. } => {
                Self::Damaged(file.to_owned(), format!("{format}: {why}"))
            }
            ImageError::Unknown { found, .. } => {
                let why = format!("expected HDF5 or an image (TIFF, CBF, EDF, NPY), found {found}");
                Self::Damaged(file.to_owned(), why)
            }
            ImageError::NoFrame { .. } => Self::Damaged(file.to_owned(), error.to_string()),
        }
    }

    /// Returns the file that exists but is invalid or unreadable, if any.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::NoObject(file, _) | Self::Unreadable(file, _) | Self::Damaged(file, _) => {
                Some(file)
            }
            Self::FileMissing(_) | Self::Unusable(_) => None,
        }
    }

    /// Returns whether something doesn't exist, as opposed to being unreadable.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::FileMissing(_) | Self::NoObject(..))
    }

    /// Returns whether the system failed.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(..))
    }

    /// Returns the first error of the system, since it may pass, or else the first error.
    pub(crate) fn choose_retryable<'a>(
        errors: impl Iterator<Item = &'a Self> + Clone,
    ) -> Option<&'a Self> {
        errors.clone().find(|why| why.is_unreadable()).or_else(|| errors.clone().next())
    }

    /// Returns the kind of absence that a record states for frames with this error.
    pub(crate) fn absent_kind(&self) -> AbsentKind {
        match self {
            Self::FileMissing(_) => AbsentKind::Missing,
            Self::NoObject(..) => AbsentKind::NotWritten,
            Self::Unreadable(..) => AbsentKind::Unreadable,
            Self::Damaged(..) | Self::Unusable(_) => AbsentKind::Corrupt,
        }
    }

    /// Returns the message for a reader who already knows that it concerns `file`, so that the path
    /// is not repeated.
    pub(crate) fn message(&self, file: &Path) -> String {
        let at = |other: &Path, why: &str| match other == file {
            true => why.to_owned(),
            false => format!("{}: {why}", other.display()),
        };
        match self {
            Self::FileMissing(name) if name == file => "no such file or directory".to_owned(),
            Self::FileMissing(name) => format!("file missing: {}", name.display()),
            Self::NoObject(other, path) => at(other, &format!("no dataset {path}")),
            Self::Unreadable(other, LibraryError { why, .. }) | Self::Damaged(other, why) => {
                at(other, why)
            }
            Self::Unusable(why) => why.to_string(),
        }
    }

    /// Returns the reason for absent frames of `file`. The reason calls the file `name`.
    pub(crate) fn reason(&self, file: &Path, name: &Path) -> String {
        match self {
            Self::FileMissing(missing) if missing == file => {
                format!("file missing: {}", name.display())
            }
            Self::FileMissing(_) => self.message(file),
            // The master file, which whoever reads this knows by its path.
            Self::Unreadable(other, LibraryError { why, .. })
                if other != file && !other.ends_with(name) =>
            {
                let other = other.file_name().unwrap_or_default();
                format!("file unreadable: {}: {}: {why}", name.display(), other.display())
            }
            _ => {
                let named = self.file().filter(|own| own.ends_with(name)).unwrap_or(file);
                format!("file unreadable: {}: {}", name.display(), self.message(named))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_system_but_one_is_unreadable() {
        let file = Path::new("/data/p3_0000.h5");
        for number in 1..133 {
            let error = DiscoverError::from_io(file, &io::Error::from_raw_os_error(number));
            let by_library = LibraryError::from(io::Error::from_raw_os_error(number));
            assert_eq!(error, DiscoverError::from_library(file, &by_library));
            let missing = number == 2;
            assert_eq!(
                error.absent_kind(),
                if missing { AbsentKind::Missing } else { AbsentKind::Unreadable },
                "{number}"
            );
            assert_eq!((error.is_missing(), error.is_unreadable()), (missing, !missing));
        }
        let truncated = DiscoverError::from_library(file, &LibraryError::new("truncated file"));
        assert_eq!(
            (truncated.absent_kind(), truncated.is_unreadable()),
            (AbsentKind::Corrupt, false)
        );
    }

    #[test]
    fn a_path_stands_once_in_a_message() {
        let file = Path::new("/data/p3_0000.h5");
        let unreadable = DiscoverError::Unreadable(
            file.to_owned(),
            LibraryError::from(io::Error::from_raw_os_error(116)),
        );
        assert_eq!(unreadable.message(file), "Stale file handle (os error 116)");
        assert_eq!(
            unreadable.message(Path::new("/m.h5")),
            "/data/p3_0000.h5: Stale file handle (os error 116)"
        );
        let name = Path::new("p3_0000.h5");
        assert_eq!(
            unreadable.reason(file, name),
            "file unreadable: p3_0000.h5: Stale file handle (os error 116)"
        );
        assert_eq!(
            DiscoverError::FileMissing(file.to_owned()).reason(file, name),
            "file missing: p3_0000.h5"
        );
    }
}
