//! Small arrays of HDF5 files as numbers: counters, masks, darks, flats, pixel corners, texts.
//!
//! These are read through the library, and so with the filters that it has itself: deflate, shuffle
//! and Fletcher's checksum.

use std::path::{Path, PathBuf};

use crate::ffi::{Flaw, Kind, Layout, Object};
use crate::worker::{self, Answer, Failure, Request};

/// Numbers of one dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The extents; none for a scalar.
    pub shape: Vec<u64>,
    /// Row-major. Booleans are 0 and 1.
    pub values: Vec<f64>,
}

/// Why an array can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The system does not let us open the file.
    #[error("{}: {why}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// Not an HDF5 file, or a damaged one.
    #[error("{}: not readable as HDF5: {why}", file.display())]
    NotHdf5 {
        /// The file.
        file: PathBuf,
        /// What the library says.
        why: String,
    },
    /// Nobody can say what the file holds: the library did not get on with it.
    #[error("{}: {why}", file.display())]
    NoAnswer {
        /// The file.
        file: PathBuf,
        /// What the library did.
        why: String,
    },
    /// The dataset is not there, or can't be read as what was asked for.
    #[error("{}::{dataset}: {why}", file.display())]
    Dataset {
        /// The file.
        file: PathBuf,
        /// The dataset.
        dataset: String,
        /// What is wrong.
        why: String,
    },
}

/// Reads a dataset as numbers, whatever their type and byte order.
///
/// # Errors
/// See [`ArrayError`].
pub fn read_numbers(file: &Path, dataset: &str) -> Result<Vec<f64>, ArrayError> {
    read_array(file, dataset).map(|array| array.values)
}

/// Reads a dataset as numbers, with its extents.
///
/// # Errors
/// See [`ArrayError`].
pub fn read_array(file: &Path, dataset: &str) -> Result<Array, ArrayError> {
    let request = || Request::Array { file: file.into(), dataset: dataset.to_owned(), is_of_written: false };
    ask(file, request, array_of).unwrap_or_else(|| read_array_here(file, dataset))
}

pub(crate) fn read_array_here(file: &Path, dataset: &str) -> Result<Array, ArrayError> {
    with(file, dataset, Kind::Dataset, |object| {
        if let Layout::Chunked(_, filters) = object.layout()?
            && let Some(filter) = filters.iter().find(|filter| !(1..=3).contains(&filter.id))
        {
            return Err(Flaw::new(format!("compressed with filter {}: expected deflate, shuffle or none", filter.id)));
        }
        Ok(Array { shape: object.extents()?, values: object.numbers()? })
    })
}

/// Reads a dataset of numbers, with NaN for each element of a list that has never been written. HDF5 gives the
/// dataset's fill value for these, which can't be told from a number that was measured.
///
/// # Errors
/// See [`ArrayError`].
pub fn read_written_numbers(file: &Path, dataset: &str) -> Result<Vec<f64>, ArrayError> {
    let request = || Request::Array { file: file.into(), dataset: dataset.to_owned(), is_of_written: true };
    let read = ask(file, request, |answer, bulk| array_of(answer, bulk).map(|array| array.values));
    read.unwrap_or_else(|| read_written_numbers_here(file, dataset))
}

pub(crate) fn read_written_numbers_here(file: &Path, dataset: &str) -> Result<Vec<f64>, ArrayError> {
    with(file, dataset, Kind::Dataset, |object| {
        let mut values = object.numbers()?;
        match object.layout()? {
            Layout::Contiguous(None) => values.fill(f64::NAN),
            Layout::Chunked(chunk, _) if chunk.len() == 1 => {
                let mut is_written = vec![false; values.len()];
                for stored in object.chunks(1)? {
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

/// Reads a text dataset, its first element where there are several; of either kind of text.
///
/// # Errors
/// See [`ArrayError`].
pub fn read_text(file: &Path, dataset: &str) -> Result<String, ArrayError> {
    let request = || Request::Text { file: file.into(), dataset: dataset.to_owned() };
    let read = ask(file, request, |answer, _| match answer {
        Answer::Text(text) => Some(text),
        _ => None,
    });
    read.unwrap_or_else(|| read_text_here(file, dataset))
}

pub(crate) fn read_text_here(file: &Path, dataset: &str) -> Result<String, ArrayError> {
    with(file, dataset, Kind::Dataset, |object| object.text()?.ok_or_else(|| Flaw::new("not a text")))
}

/// Reads a text attribute of a group or dataset; `None` where it has none of that name.
///
/// # Errors
/// See [`ArrayError`].
pub fn read_text_attribute(file: &Path, object: &str, name: &str) -> Result<Option<String>, ArrayError> {
    let request = || Request::Attribute { file: file.into(), object: object.to_owned(), name: name.to_owned() };
    let read = ask(file, request, |answer, _| match answer {
        Answer::Attribute(text) => Some(text),
        _ => None,
    });
    read.unwrap_or_else(|| read_text_attribute_here(file, object, name))
}

pub(crate) fn read_text_attribute_here(file: &Path, object: &str, name: &str) -> Result<Option<String>, ArrayError> {
    with(file, object, Kind::Other, |object| object.text_attribute(name))
}

/// The names in a group, sorted.
///
/// # Errors
/// See [`ArrayError`].
pub fn names(file: &Path, group: &str) -> Result<Vec<String>, ArrayError> {
    let request = || Request::Names { file: file.into(), group: group.to_owned() };
    let read = ask(file, request, |answer, _| match answer {
        Answer::Names(names) => Some(names),
        _ => None,
    });
    read.unwrap_or_else(|| names_here(file, group))
}

pub(crate) fn names_here(file: &Path, group: &str) -> Result<Vec<String>, ArrayError> {
    with(file, group, Kind::Group, |group| Ok(group.links()?.into_iter().map(|link| link.name).collect()))
}

fn array_of(answer: Answer, bulk: Vec<u8>) -> Option<Array> {
    let Answer::Array { shape } = answer else { return None };
    Some(Array { shape, values: bulk.as_chunks().0.iter().copied().map(f64::from_le_bytes).collect() })
}

/// Has a worker answer, where workers read.
fn ask<T>(
    file: &Path,
    request: impl FnOnce() -> Request,
    take: impl FnOnce(Answer, Vec<u8>) -> Option<T>,
) -> Option<Result<T, ArrayError>> {
    let client = worker::running()?;
    let no_answer = |why: String| ArrayError::NoAnswer { file: file.to_owned(), why };
    Some(match client.request(&request()) {
        Ok(Ok((answer, bulk))) => {
            take(answer, bulk).ok_or_else(|| no_answer("an answer to another question".to_owned()))
        }
        Ok(Err(failure)) => Err(failure.into_array_error(file)),
        Err(why) => Err(no_answer(why.to_string())),
    })
}

impl From<ArrayError> for Failure {
    fn from(error: ArrayError) -> Self {
        match error {
            ArrayError::Io { why, .. } => Self::from_io(&why),
            ArrayError::NotHdf5 { why, .. } | ArrayError::NoAnswer { why, .. } => Self::Hdf5(why),
            ArrayError::Dataset { dataset, why, .. } => Self::Dataset { dataset, why },
        }
    }
}

impl Failure {
    fn into_array_error(self, file: &Path) -> ArrayError {
        let file = file.to_owned();
        match self {
            Self::Io { errno, why } => ArrayError::Io { file, why: Self::to_io(errno, why) },
            Self::Hdf5(why) => ArrayError::NotHdf5 { file, why },
            Self::Dataset { dataset, why } => ArrayError::Dataset { file, dataset, why },
        }
    }
}

fn with<T>(
    file: &Path,
    path: &str,
    kind: Kind,
    take: impl FnOnce(&Object) -> Result<T, Flaw>,
) -> Result<T, ArrayError> {
    // What the system refuses says nothing of what the file holds.
    let failed = |flaw: Flaw, wrong: &dyn Fn(String) -> ArrayError| match flaw.into_io() {
        Ok(why) => ArrayError::Io { file: file.to_owned(), why },
        Err(Flaw { why, .. }) => wrong(why),
    };
    let not_hdf5 = |why| ArrayError::NotHdf5 { file: file.to_owned(), why };
    let wrong = |why| ArrayError::Dataset { file: file.to_owned(), dataset: path.to_owned(), why };
    let opened = Object::open_file(file).map_err(|flaw| failed(flaw, &not_hdf5))?;
    let object = opened.open(path).map_err(|flaw| failed(flaw, &|_| wrong("no such object".to_owned())))?;
    if kind != Kind::Other && object.kind() != kind {
        return Err(wrong(format!("expected a {}", if kind == Kind::Group { "group" } else { "dataset" })));
    }
    take(&object).map_err(|flaw| failed(flaw, &wrong))
}
