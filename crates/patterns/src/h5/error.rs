//! [`Hdf5Error`]: why an HDF5 file can't be read or written, and [`ErrorLatch`], which keeps the
//! first error of a file.

use std::fmt::Display;
use std::io;

use frames::hdf5_array::Hdf5ArrayError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use frames::file_check::FileCheckError;
use frames::watchdog;

/// Reason why an HDF5 file, or an object in it, can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Hdf5Error {
    /// A system call failed, so the content of the file is unknown.
    #[error("{0}")]
    Io(io::Error),
    /// The file is intact, and has no such object.
    #[error("no object {0:?} in the file")]
    NotFound(String),
    /// Bytes of the file were changed since they were written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The HDF5 library failed, or an object has another type or shape than expected.
    #[error("{0}")]
    Library(String),
}

/// Result of reading or writing HDF5.
pub(crate) type Result<T> = std::result::Result<T, Hdf5Error>;

/// The error without the path of the file, which callers name.
impl From<Hdf5ArrayError> for Hdf5Error {
    fn from(error: Hdf5ArrayError) -> Self {
        match error {
            Hdf5ArrayError::Io { why, .. } => Self::Io(why),
            Hdf5ArrayError::NoAnswer { why, suggests_damage: false, .. } => {
                Self::Io(io::Error::other(why))
            }
            Hdf5ArrayError::NoAnswer { why, .. }
            | Hdf5ArrayError::NotHdf5 { why, .. }
            | Hdf5ArrayError::Dataset { why, .. } => Self::Library(why),
        }
    }
}

impl Hdf5Error {
    /// Returns whether this user has no permission, as another one may have.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Io(why) if why.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Returns an equal error. `Clone` can't be derived because [`io::Error`] isn't cloneable.
    fn try_clone(&self) -> Self {
        match self {
            Self::Io(why) => Self::Io(match why.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(why.kind(), why.to_string()),
            }),
            Self::NotFound(name) => Self::NotFound(name.clone()),
            Self::Damaged(why) => Self::Damaged(why.clone()),
            Self::Library(why) => Self::Library(why.clone()),
        }
    }
}

impl From<hdf5::Error> for Hdf5Error {
    fn from(why: hdf5::Error) -> Self {
        if frames::is_memory_error(&why) { no_memory(&why) } else { Self::Library(why.to_string()) }
    }
}

impl From<frames::LibraryError> for Hdf5Error {
    fn from(why: frames::LibraryError) -> Self {
        match why.into_io() {
            // What a link leads to.
            Ok(why) if why.kind() == io::ErrorKind::NotFound => Self::Library(why.to_string()),
            Ok(why) => Self::Io(why),
            Err(why) => Self::Library(why.to_string()),
        }
    }
}

impl From<FileCheckError> for Hdf5Error {
    fn from(why: FileCheckError) -> Self {
        match why {
            FileCheckError::Damaged(why) => Self::Damaged(why),
            FileCheckError::Io(why) => Self::Io(why),
        }
    }
}

impl From<&str> for Hdf5Error {
    fn from(why: &str) -> Self {
        Self::Library(why.to_owned())
    }
}

impl From<String> for Hdf5Error {
    fn from(why: String) -> Self {
        Self::Library(why)
    }
}

/// Converts an error of the library that is not due to the file.
fn no_memory(why: &dyn Display) -> Hdf5Error {
    let text = format!("the HDF5 library fails, probably for want of memory: {why}");
    Hdf5Error::Io(io::Error::new(io::ErrorKind::OutOfMemory, text))
}

/// First error of a file's storage, which the HDF5 library may have forgotten or garbled.
#[derive(Clone, Debug)]
pub(super) struct ErrorLatch {
    failure: Arc<Mutex<Option<Hdf5Error>>>,
    /// Path of a file that is read; `None` for a file that is written, which is lost after its
    /// first error.
    read: Option<Arc<PathBuf>>,
    /// True if all bytes that the library reads are verified by checksums, or were written by it.
    is_verified: Arc<AtomicBool>,
}

impl ErrorLatch {
    /// Creates the latch of a file that is written.
    pub fn for_writing() -> Self {
        Self { failure: Arc::default(), read: None, is_verified: Arc::new(AtomicBool::new(true)) }
    }

    /// Creates the latch of a file that is read.
    pub fn for_reading(path: &Path) -> Self {
        let is_verified = Arc::default();
        Self { failure: Arc::default(), read: Some(Arc::new(path.to_path_buf())), is_verified }
    }

    /// Sets whether all bytes that the library reads are verified by checksums. Errors of the
    /// library are then not due to damage.
    pub fn set_verified(&self, is_verified: bool) {
        self.is_verified.store(is_verified, Relaxed);
    }

    /// Calls the HDF5 library under the [watchdog](Self::watch), and returns its result or the
    /// storage's error.
    pub fn call<T, E: Into<Hdf5Error>>(
        &self,
        call: impl FnOnce() -> std::result::Result<T, E>,
    ) -> Result<T> {
        let done = self.watch(call);
        self.check(done)
    }

    /// Calls the HDF5 library. If the file is read, the watchdog looks on, because a damaged file
    /// may keep the library busy forever.
    pub fn watch<T>(&self, call: impl FnOnce() -> T) -> T {
        match &self.read {
            Some(path) => watchdog::watch(path, call),
            None => call(),
        }
    }

    /// Keeps an error if it is the first one.
    pub fn record(&self, why: Hdf5Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// Returns whether there is an error that [`check`](Self::check) has not reported yet.
    pub fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the result of a call of the HDF5 library, or the storage's error if there is one.
    pub fn check<T, E: Into<Hdf5Error>>(&self, done: std::result::Result<T, E>) -> Result<T> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            None => done.map_err(|why| self.explain(why.into())),
            Some(why) => {
                let why = why.try_clone();
                if self.read.is_some() {
                    *failure = None;
                }
                Err(why)
            }
        }
    }

    /// Returns the result of a call of the HDF5 library, even if the bytes that it read were
    /// damaged. Used for values that have a checksum of their own.
    pub fn check_unverified<T, E: Into<Hdf5Error>>(
        &self,
        done: std::result::Result<T, E>,
    ) -> Result<T> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let damage = match self.read {
            Some(_) => failure.take_if(|why| matches!(why, Hdf5Error::Damaged(_))),
            None => None,
        };
        drop(failure);
        match (done, damage) {
            // Such as values that can't be decompressed.
            (Err(_), Some(damage)) => Err(damage),
            (done, _) => self.check(done),
        }
    }

    /// Converts an error of the library while no error of the storage is kept. If all bytes are as
    /// they were written, the library lacks something else, and the file must not count as damaged.
    fn explain(&self, why: Hdf5Error) -> Hdf5Error {
        match why {
            Hdf5Error::Library(why) if self.is_verified.load(Relaxed) => no_memory(&why),
            why => why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> std::result::Result<(), Hdf5Error> {
        Err("can't allocate".into())
    }

    fn damage() -> Hdf5Error {
        Hdf5Error::Damaged("bytes 0 to 7".to_owned())
    }

    #[test]
    fn an_error_of_the_library_in_a_verified_file_is_no_damage() {
        let latch = ErrorLatch::for_reading(Path::new("final.h5"));
        assert!(matches!(latch.check(failed()), Err(Hdf5Error::Library(_))));
        latch.set_verified(true);
        let Err(Hdf5Error::Io(why)) = latch.check(failed()) else { panic!("not an I/O error") };
        assert_eq!(why.kind(), io::ErrorKind::OutOfMemory);
        assert!(matches!(latch.check_unverified(failed()), Err(Hdf5Error::Io(_))));
        // The storage's own error comes first.
        latch.record(damage());
        assert!(matches!(latch.check(failed()), Err(Hdf5Error::Damaged(_))));
        assert!(matches!(latch.check(failed()), Err(Hdf5Error::Io(_))), "told once");
    }

    #[test]
    fn damaged_values_that_are_read_are_values_and_others_are_damaged() {
        let latch = ErrorLatch::for_reading(Path::new("final.h5"));
        latch.set_verified(true);
        latch.record(damage());
        latch.check_unverified::<_, Hdf5Error>(Ok(())).expect("a row has its own checksum");
        latch.record(damage());
        assert!(matches!(latch.check_unverified(failed()), Err(Hdf5Error::Damaged(_))));
        latch.check::<_, Hdf5Error>(Ok(())).expect("told once");
    }
}
