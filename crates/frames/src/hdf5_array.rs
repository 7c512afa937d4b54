//! Small arrays of HDF5 files as numbers: counters, masks, darks, flats, pixel corners, texts.
//!
//! These are read through the library, and so with the filters that it has itself: deflate, shuffle
//! and Fletcher's checksum.

use std::path::{Path, PathBuf};

use crate::ffi::{Flaw, Kind, Layout, Object};

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
    with(file, dataset, Kind::Dataset, |object| object.text()?.ok_or_else(|| Flaw::new("not a text")))
}

/// Reads a text attribute of a group or dataset; `None` where it has none of that name.
///
/// # Errors
/// See [`ArrayError`].
pub fn read_text_attribute(file: &Path, object: &str, name: &str) -> Result<Option<String>, ArrayError> {
    with(file, object, Kind::Other, |object| object.text_attribute(name))
}

/// The names in a group, sorted.
///
/// # Errors
/// See [`ArrayError`].
pub fn names(file: &Path, group: &str) -> Result<Vec<String>, ArrayError> {
    with(file, group, Kind::Group, |group| Ok(group.links()?.into_iter().map(|link| link.name).collect()))
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
