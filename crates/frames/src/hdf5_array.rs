//! Reads small arrays and texts from HDF5 files through the worker process: monitors, masks, darks, flats, pixel corners.
//!
//! They are read through the HDF5 library, so only its built-in filters are supported: deflate, shuffle and
//! Fletcher's checksum.

use std::path::{Path, PathBuf};

use crate::ffi::{Hdf5Object, LibraryError, ObjectType, StorageLayout};
use crate::hdf5_worker::{self, WorkerAnswer, WorkerFailure, WorkerRequest};

/// An array of numbers with its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Hdf5Array {
    /// Extents of the dataset; empty for a scalar.
    pub shape: Vec<u64>,
    /// Elements in row-major order. Booleans are 0 and 1.
    pub values: Vec<f64>,
}

/// Explains why an array can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Hdf5ArrayError {
    /// The file can't be opened.
    #[error("{}: {why}", file.display())]
    Io {
        /// Path of the file.
        file: PathBuf,
        /// Error of the system.
        why: std::io::Error,
    },
    /// The file is not an HDF5 file, or is damaged.
    #[error("{}: not readable as HDF5: {why}", file.display())]
    NotHdf5 {
        /// Path of the file.
        file: PathBuf,
        /// Error of the HDF5 library.
        why: String,
    },
    /// The HDF5 worker gave no answer, so nothing is known about the contents.
    #[error("{}: {why}", file.display())]
    NoAnswer {
        /// Path of the file.
        file: PathBuf,
        /// Failure of the worker.
        why: String,
    },
    /// The dataset doesn't exist, or can't be read as the requested type.
    #[error("{}::{dataset}: {why}", file.display())]
    Dataset {
        /// Path of the file.
        file: PathBuf,
        /// Path of the dataset.
        dataset: String,
        /// Reason, and what was expected.
        why: String,
    },
}

/// Reads a dataset as numbers of any type and byte order.
///
/// # Errors
/// See [`Hdf5ArrayError`].
pub fn read_numbers(file: &Path, dataset: &str) -> Result<Vec<f64>, Hdf5ArrayError> {
    read_array(file, dataset).map(|array| array.values)
}

/// Reads a dataset as numbers, with its shape.
///
/// # Errors
/// See [`Hdf5ArrayError`].
pub fn read_array(file: &Path, dataset: &str) -> Result<Hdf5Array, Hdf5ArrayError> {
    let request = || WorkerRequest::Array { file: file.into(), dataset: dataset.to_owned(), is_of_written: false };
    ask_worker(file, request, parse_array).unwrap_or_else(|| read_array_in_process(file, dataset))
}

pub(crate) fn read_array_in_process(file: &Path, dataset: &str) -> Result<Hdf5Array, Hdf5ArrayError> {
    with_object(file, dataset, ObjectType::Dataset, |object| {
        if let StorageLayout::Chunked(_, filters) = object.storage_layout()?
            && let Some(filter) = filters.iter().find(|filter| !(1..=3).contains(&filter.id))
        {
            return Err(LibraryError::new(format!(
                "compressed with HDF5 filter {}: expected deflate or none (`h5repack -f GZIP=4 IN OUT` converts a file)",
                filter.id
            )));
        }
        Ok(Hdf5Array { shape: object.shape()?, values: object.read_numbers()? })
    })
}

/// Reads a dataset of numbers, and returns NaN for unwritten elements of a list. HDF5 itself returns the fill
/// value, which can't be distinguished from a measured number.
///
/// # Errors
/// See [`Hdf5ArrayError`].
pub fn read_written_numbers(file: &Path, dataset: &str) -> Result<Vec<f64>, Hdf5ArrayError> {
    let request = || WorkerRequest::Array { file: file.into(), dataset: dataset.to_owned(), is_of_written: true };
    let read = ask_worker(file, request, |answer, bulk| parse_array(answer, bulk).map(|array| array.values));
    read.unwrap_or_else(|| read_written_numbers_in_process(file, dataset))
}

pub(crate) fn read_written_numbers_in_process(file: &Path, dataset: &str) -> Result<Vec<f64>, Hdf5ArrayError> {
    with_object(file, dataset, ObjectType::Dataset, |object| {
        let mut values = object.read_numbers()?;
        match object.storage_layout()? {
            StorageLayout::Contiguous(None) => values.fill(f64::NAN),
            StorageLayout::Chunked(chunk, _) if chunk.len() == 1 => {
                let mut is_written = vec![false; values.len()];
                for stored in object.chunk_index(1)? {
                    let first = usize::try_from(stored.origin[0]).unwrap_or(usize::MAX).min(values.len());
                    let length = usize::try_from(chunk[0]).unwrap_or(usize::MAX);
                    is_written[first..first.saturating_add(length).min(values.len())].fill(true);
                }
                let unwritten = values.iter_mut().zip(is_written).filter(|(_, is_written)| !is_written);
                unwritten.for_each(|(value, _)| *value = f64::NAN);
            }
            _ => (),
        }
        Ok(values)
    })
}

/// Reads the first element of a dataset as text, of fixed or variable length.
///
/// # Errors
/// See [`Hdf5ArrayError`].
pub fn read_text(file: &Path, dataset: &str) -> Result<String, Hdf5ArrayError> {
    let request = || WorkerRequest::Text { file: file.into(), dataset: dataset.to_owned() };
    let read = ask_worker(file, request, |answer, _| match answer {
        WorkerAnswer::Text(text) => Some(text),
        _ => None,
    });
    read.unwrap_or_else(|| read_text_in_process(file, dataset))
}

pub(crate) fn read_text_in_process(file: &Path, dataset: &str) -> Result<String, Hdf5ArrayError> {
    with_object(file, dataset, ObjectType::Dataset, |object| {
        object.read_text()?.ok_or_else(|| LibraryError::new("not text: expected a string"))
    })
}

/// Reads a text attribute of a group or dataset, or returns `None` if it doesn't exist.
///
/// # Errors
/// See [`Hdf5ArrayError`].
pub fn read_text_attribute(file: &Path, object: &str, name: &str) -> Result<Option<String>, Hdf5ArrayError> {
    let request = || WorkerRequest::Attribute { file: file.into(), object: object.to_owned(), name: name.to_owned() };
    let read = ask_worker(file, request, |answer, _| match answer {
        WorkerAnswer::Attribute(text) => Some(text),
        _ => None,
    });
    read.unwrap_or_else(|| read_text_attribute_in_process(file, object, name))
}

pub(crate) fn read_text_attribute_in_process(
    file: &Path,
    object: &str,
    name: &str,
) -> Result<Option<String>, Hdf5ArrayError> {
    with_object(file, object, ObjectType::Other, |object| object.read_text_attribute(name))
}

/// Returns the names of a group's members, sorted.
///
/// # Errors
/// See [`Hdf5ArrayError`].
pub fn list_group(file: &Path, group: &str) -> Result<Vec<String>, Hdf5ArrayError> {
    let request = || WorkerRequest::Names { file: file.into(), group: group.to_owned() };
    let read = ask_worker(file, request, |answer, _| match answer {
        WorkerAnswer::Names(names) => Some(names),
        _ => None,
    });
    read.unwrap_or_else(|| list_group_in_process(file, group))
}

pub(crate) fn list_group_in_process(file: &Path, group: &str) -> Result<Vec<String>, Hdf5ArrayError> {
    with_object(file, group, ObjectType::Group, |group| {
        Ok(group.read_links()?.into_iter().map(|link| link.name).collect())
    })
}

fn parse_array(answer: WorkerAnswer, bulk: Vec<u8>) -> Option<Hdf5Array> {
    let WorkerAnswer::Array { shape } = answer else { return None };
    Some(Hdf5Array { shape, values: bulk.as_chunks().0.iter().copied().map(f64::from_le_bytes).collect() })
}

/// Sends a request to the worker process, if there is one.
fn ask_worker<T>(
    file: &Path,
    request: impl FnOnce() -> WorkerRequest,
    take: impl FnOnce(WorkerAnswer, Vec<u8>) -> Option<T>,
) -> Option<Result<T, Hdf5ArrayError>> {
    let client = hdf5_worker::client()?;
    let no_answer = |why: String| Hdf5ArrayError::NoAnswer { file: file.to_owned(), why };
    Some(match client.request(&request()) {
        Ok(Ok((answer, bulk))) => {
            take(answer, bulk).ok_or_else(|| no_answer(hdf5_worker::UNEXPECTED_ANSWER.to_owned()))
        }
        Ok(Err(failure)) => Err(failure.into_array_error(file)),
        Err(why) => Err(no_answer(why.to_string())),
    })
}

impl From<Hdf5ArrayError> for WorkerFailure {
    fn from(error: Hdf5ArrayError) -> Self {
        match error {
            Hdf5ArrayError::Io { why, .. } => Self::from_io(&why),
            Hdf5ArrayError::NotHdf5 { why, .. } | Hdf5ArrayError::NoAnswer { why, .. } => Self::Hdf5(why),
            Hdf5ArrayError::Dataset { dataset, why, .. } => Self::Dataset { dataset, why },
        }
    }
}

impl WorkerFailure {
    fn into_array_error(self, file: &Path) -> Hdf5ArrayError {
        let file = file.to_owned();
        match self {
            Self::Io { errno, why } => Hdf5ArrayError::Io { file, why: Self::to_io(errno, why) },
            Self::Hdf5(why) => Hdf5ArrayError::NotHdf5 { file, why },
            Self::Dataset { dataset, why } => Hdf5ArrayError::Dataset { file, dataset, why },
        }
    }
}

fn with_object<T>(
    file: &Path,
    path: &str,
    kind: ObjectType,
    take: impl FnOnce(&Hdf5Object) -> Result<T, LibraryError>,
) -> Result<T, Hdf5ArrayError> {
    // A failure of the system says nothing about the contents of the file.
    let failed = |err: LibraryError, wrong: &dyn Fn(String) -> Hdf5ArrayError| match err.into_io() {
        Ok(why) => Hdf5ArrayError::Io { file: file.to_owned(), why },
        Err(LibraryError { why, .. }) => wrong(why),
    };
    let not_hdf5 = |why| Hdf5ArrayError::NotHdf5 { file: file.to_owned(), why };
    let wrong = |why| Hdf5ArrayError::Dataset { file: file.to_owned(), dataset: path.to_owned(), why };
    let opened = Hdf5Object::open_file(file).map_err(|err| failed(err, &not_hdf5))?;
    let object = opened.open(path).map_err(|err| failed(err, &|_| wrong("no such object".to_owned())))?;
    if kind != ObjectType::Other && object.object_type() != kind {
        return Err(wrong(format!("expected a {}", if kind == ObjectType::Group { "group" } else { "dataset" })));
    }
    take(&object).map_err(|err| failed(err, &wrong))
}
