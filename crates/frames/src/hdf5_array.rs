//! Reads small arrays and texts from HDF5 files through the worker process: monitors, masks, darks,
//! flats, pixel corners.
//!
//! They are read through the HDF5 library, so only its built-in filters are supported: deflate,
//! shuffle and Fletcher's checksum.

pub(crate) mod virtual_sources;

use std::path::{Path, PathBuf};

use records::RawPath;
use serde::{Deserialize, Serialize};

use crate::ffi::{Hdf5Object, LibraryError, ObjectType, StorageLayout};
use crate::hdf5_worker::{
    self, FilterConnection, WorkerClient, WorkerError, WorkerFailure, WorkerRequest,
};
use virtual_sources::{VirtualSourceError, check_sources};

/// An array of numbers with its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Hdf5Array {
    /// Extents of the dataset; empty for a scalar.
    pub shape: Vec<u64>,
    /// Elements in row-major order. Booleans are 0 and 1.
    pub values: Vec<f64>,
}

impl Hdf5Array {
    /// Returns the array whose elements are these bytes, as the worker sends them.
    fn from_bytes(shape: Vec<u64>, bytes: &[u8]) -> Self {
        Self {
            shape,
            values: bytes.as_chunks().0.iter().copied().map(f64::from_le_bytes).collect(),
        }
    }
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
        /// True if the library hung or crashed, as it does on damaged files.
        suggests_damage: bool,
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
    let Some(client) = hdf5_worker::client() else { return read_array_in_process(file, dataset) };
    let request =
        ArrayRequest { file: file.into(), dataset: dataset.to_owned(), is_of_written: false };
    let (shape, bulk) = ask_worker(client, file, &request)?;
    Ok(Hdf5Array::from_bytes(shape, &bulk))
}

fn read_array_in_process(file: &Path, dataset: &str) -> Result<Hdf5Array, Hdf5ArrayError> {
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

/// Reads a dataset of numbers, and returns NaN for unwritten elements of a list. HDF5 itself
/// returns the fill value, which can't be distinguished from a measured number.
///
/// # Errors
/// See [`Hdf5ArrayError`].
pub fn read_written_numbers(file: &Path, dataset: &str) -> Result<Vec<f64>, Hdf5ArrayError> {
    let Some(client) = hdf5_worker::client() else {
        return read_written_numbers_in_process(file, dataset);
    };
    let request =
        ArrayRequest { file: file.into(), dataset: dataset.to_owned(), is_of_written: true };
    let (shape, bulk) = ask_worker(client, file, &request)?;
    Ok(Hdf5Array::from_bytes(shape, &bulk).values)
}

fn read_written_numbers_in_process(file: &Path, dataset: &str) -> Result<Vec<f64>, Hdf5ArrayError> {
    with_object(file, dataset, ObjectType::Dataset, |object| {
        let mut values = object.read_numbers()?;
        match object.storage_layout()? {
            StorageLayout::Contiguous(None) => values.fill(f64::NAN),
            StorageLayout::Chunked(chunk, _) if chunk.len() == 1 => {
                let mut is_written = vec![false; values.len()];
                for stored in object.chunk_index(1)? {
                    let first =
                        usize::try_from(stored.origin[0]).unwrap_or(usize::MAX).min(values.len());
                    let length = usize::try_from(chunk[0]).unwrap_or(usize::MAX);
                    is_written[first..first.saturating_add(length).min(values.len())].fill(true);
                }
                let unwritten =
                    values.iter_mut().zip(is_written).filter(|(_, is_written)| !is_written);
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
    let Some(client) = hdf5_worker::client() else { return read_text_in_process(file, dataset) };
    let request = TextRequest { file: file.into(), dataset: dataset.to_owned() };
    let (text, _) = ask_worker(client, file, &request)?;
    Ok(text)
}

fn read_text_in_process(file: &Path, dataset: &str) -> Result<String, Hdf5ArrayError> {
    with_object(file, dataset, ObjectType::Dataset, |object| {
        object.read_text()?.ok_or_else(|| LibraryError::new("not text: expected a string"))
    })
}

/// Reads a text attribute of a group or dataset, or returns `None` if it doesn't exist.
///
/// # Errors
/// See [`Hdf5ArrayError`].
pub fn read_text_attribute(
    file: &Path,
    object: &str,
    name: &str,
) -> Result<Option<String>, Hdf5ArrayError> {
    let Some(client) = hdf5_worker::client() else {
        return read_text_attribute_in_process(file, object, name);
    };
    let request =
        AttributeRequest { file: file.into(), object: object.to_owned(), name: name.to_owned() };
    let (text, _) = ask_worker(client, file, &request)?;
    Ok(text)
}

fn read_text_attribute_in_process(
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
    let Some(client) = hdf5_worker::client() else { return list_group_in_process(file, group) };
    let request = GroupRequest { file: file.into(), group: group.to_owned() };
    let (names, _) = ask_worker(client, file, &request)?;
    Ok(names)
}

fn list_group_in_process(file: &Path, group: &str) -> Result<Vec<String>, Hdf5ArrayError> {
    with_object(file, group, ObjectType::Group, |group| {
        Ok(group.read_links()?.into_iter().map(|link| link.name).collect())
    })
}

/// Sends a request to the worker process, and returns its answer and the bytes that follow it.
fn ask_worker<R: WorkerRequest>(
    client: &WorkerClient,
    file: &Path,
    request: &R,
) -> Result<(R::Answer, Vec<u8>), Hdf5ArrayError> {
    match client.request(request) {
        Ok(answer) => answer.map_err(|failure| failure.into_array_error(file)),
        Err(why) => Err(Hdf5ArrayError::no_answer(file, &why)),
    }
}

/// Asks the worker for a dataset as numbers, optionally with NaN for unwritten elements.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ArrayRequest {
    file: RawPath,
    dataset: String,
    is_of_written: bool,
}

impl WorkerRequest for ArrayRequest {
    const NAME: &'static str = "array";
    type Message = ();
    /// The shape; the numbers follow as bytes.
    type Answer = Vec<u64>;

    fn answer(self, _: &FilterConnection<'_>) -> Result<(Vec<u64>, Vec<u8>), WorkerFailure> {
        let (file, dataset) = (self.file.as_ref(), self.dataset.as_str());
        let Hdf5Array { shape, values } = if self.is_of_written {
            let values = read_written_numbers_in_process(file, dataset)?;
            Hdf5Array { shape: vec![values.len() as u64], values }
        } else {
            read_array_in_process(file, dataset)?
        };
        Ok((shape, values.iter().flat_map(|value| value.to_le_bytes()).collect()))
    }
}

/// Asks the worker for the first element of a dataset as text.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TextRequest {
    file: RawPath,
    dataset: String,
}

impl WorkerRequest for TextRequest {
    const NAME: &'static str = "text";
    type Message = ();
    type Answer = String;

    fn answer(self, _: &FilterConnection<'_>) -> Result<(String, Vec<u8>), WorkerFailure> {
        Ok((read_text_in_process(self.file.as_ref(), &self.dataset)?, Vec::new()))
    }
}

/// Asks the worker for a text attribute.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AttributeRequest {
    file: RawPath,
    object: String,
    name: String,
}

impl WorkerRequest for AttributeRequest {
    const NAME: &'static str = "attribute";
    type Message = ();
    type Answer = Option<String>;

    fn answer(self, _: &FilterConnection<'_>) -> Result<(Option<String>, Vec<u8>), WorkerFailure> {
        Ok((
            read_text_attribute_in_process(self.file.as_ref(), &self.object, &self.name)?,
            Vec::new(),
        ))
    }
}

/// Asks the worker for the names in a group.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GroupRequest {
    file: RawPath,
    group: String,
}

impl WorkerRequest for GroupRequest {
    const NAME: &'static str = "group";
    type Message = ();
    type Answer = Vec<String>;

    fn answer(self, _: &FilterConnection<'_>) -> Result<(Vec<String>, Vec<u8>), WorkerFailure> {
        Ok((list_group_in_process(self.file.as_ref(), &self.group)?, Vec::new()))
    }
}

impl Hdf5ArrayError {
    pub(crate) fn no_answer(file: &Path, why: &WorkerError) -> Self {
        Self::NoAnswer {
            file: file.to_owned(),
            why: why.to_string(),
            suggests_damage: why.suggests_damage(),
        }
    }
}

impl From<Hdf5ArrayError> for WorkerFailure {
    fn from(error: Hdf5ArrayError) -> Self {
        match error {
            Hdf5ArrayError::Io { why, .. } => Self::from_io(&why),
            Hdf5ArrayError::NotHdf5 { why, .. } | Hdf5ArrayError::NoAnswer { why, .. } => {
                Self::Hdf5(why)
            }
            Hdf5ArrayError::Dataset { dataset, why, .. } => Self::Dataset { dataset, why },
        }
    }
}

impl WorkerFailure {
    pub(crate) fn into_array_error(self, file: &Path) -> Hdf5ArrayError {
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
    let wrong =
        |why| Hdf5ArrayError::Dataset { file: file.to_owned(), dataset: path.to_owned(), why };
    let opened = Hdf5Object::open_file(file).map_err(|err| failed(err, &not_hdf5))?;
    let object = opened.open_existing(path, "object").map_err(|err| failed(err, &wrong))?;
    if kind != ObjectType::Other && object.object_type() != kind {
        return Err(wrong(format!(
            "expected a {}",
            if kind == ObjectType::Group { "group" } else { "dataset" }
        )));
    }
    if kind == ObjectType::Dataset {
        check_sources(&object).map_err(|err| match err {
            VirtualSourceError::Library(err) => failed(err, &wrong),
            VirtualSourceError::Unreadable(why) => Hdf5ArrayError::Io {
                file: file.to_owned(),
                why: std::io::Error::new(why.kind(), format!("{path}: {why}")),
            },
            VirtualSourceError::Unusable(why) => wrong(why),
        })?;
    }
    take(&object).map_err(|err| failed(err, &wrong))
}
