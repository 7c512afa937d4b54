//! Why HDF5 can't be read or written, told apart by type.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use frames::watchdog;

/// Why an HDF5 file, or something in it, can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Hdf5Error {
    /// The file system refused: nothing is known of what is in the file.
    #[error("{0}")]
    Io(io::Error),
    /// The file is as it was left, and there is no such object in it.
    #[error("no object {0:?} in it")]
    NotFound(String),
    /// Bytes are not those that were written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The HDF5 library can't do it, or what is stored is not what was expected.
    #[error("{0}")]
    Library(String),
}

/// What comes of reading or writing HDF5.
pub(crate) type Result<T> = std::result::Result<T, Hdf5Error>;

impl Hdf5Error {
    /// Returns an equal error: those of the file system can't be cloned.
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
        Self::Library(why.to_string())
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

/// The first error that the storage of a file met, which the library may have forgotten or garbled.
#[derive(Clone, Debug)]
pub(super) struct ErrorLatch {
    failure: Arc<Mutex<Option<Hdf5Error>>>,
    /// The file that is read; `None` where it is being written, and lost with its first error.
    read: Option<Arc<PathBuf>>,
}

impl ErrorLatch {
    /// Returns that of a file that is being written, and to which nothing has happened.
    pub fn of_written() -> Self {
        Self { failure: Arc::default(), read: None }
    }

    /// Returns that of a file that is read, and to which nothing has happened.
    pub fn of_read(path: &Path) -> Self {
        Self { failure: Arc::default(), read: Some(Arc::new(path.to_path_buf())) }
    }

    /// Makes a call of the library. One that reads a file is watched, for a damaged file may keep it for ever.
    pub fn call<T, E: Into<Hdf5Error>>(&self, call: impl FnOnce() -> std::result::Result<T, E>) -> Result<T> {
        let done = self.watch(call);
        self.check(done)
    }

    /// Makes a call of the library that a damaged file may keep for ever.
    pub fn watch<T>(&self, call: impl FnOnce() -> T) -> T {
        match &self.read {
            Some(path) => watchdog::watch(path, call),
            None => call(),
        }
    }

    /// Notes an error, if it is the first.
    pub fn record(&self, why: Hdf5Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// Whether an error was noted and not told.
    pub fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns what a call of the library gave, or the storage's error where there was one.
    pub fn check<T, E: Into<Hdf5Error>>(&self, done: std::result::Result<T, E>) -> Result<T> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            None => done.map_err(Into::into),
            Some(why) => {
                let why = why.try_clone();
                if self.read.is_some() {
                    *failure = None;
                }
                Err(why)
            }
        }
    }

    /// Returns what a call of the library gave, whether its bytes are as they were written or not: for what has a checksum of
    /// its own.
    pub fn check_unverified<T, E: Into<Hdf5Error>>(&self, done: std::result::Result<T, E>) -> Result<T> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if self.read.is_some() {
            failure.take_if(|why| matches!(why, Hdf5Error::Damaged(_)));
        }
        drop(failure);
        self.check(done)
    }
}
