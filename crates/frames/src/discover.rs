//! The scans of a file: which detectors they have, and where each frame is.
//!
//! | file | entry | detector |
//! |---|---|---|
//! | Bliss master | `1.1`, `2.1`, … | each detector of `instrument` that has images |
//! | collection of Bliss masters | the scans of the masters that it links to | |
//! | Lima 1 or 2 file, NeXus file with NXdetector | its NXentry | its NXdetector |
//! | Dectris master or data file | `includes_entry` | the NXdetector, or `data` |
//! | a dataset, `file.h5::/path` | `1.1` | the dataset's name |
//! | TIFF, CBF, EDF, NPY image, or a numbered series of them | `1.1` | the file's name |

mod acquisition;
pub(crate) mod dataset_cache;
mod dectris;
mod detector;
mod entry;
pub(crate) mod error;
mod file_content_cache;
mod frame_map;
pub(crate) mod frame_selection;
mod image_operation;
mod images;
pub(crate) mod linked_file;
mod links;
mod never_taken;
mod open_files;
mod plain_dataset;
mod remote_walk;
mod stored_dataset;
mod unfinished_lima;
pub(crate) mod unusable;
mod walk;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use records::{Acquisition, RawPath};
use serde::{Deserialize, Serialize};
use system::untrusted_file;

pub use images::{NumberedFileName, group_series, scattered_numbers};
pub(crate) use remote_walk::DiscoverRequest;

use crate::dataset_path::DatasetPath;
use crate::ffi::Hdf5Object;
use crate::hdf5_worker::{self, ConversationError, FilterConnection, WorkerFailure, WorkerRequest};
use crate::image::{self, FirstBytes};
use crate::open_ahead;
use error::DiscoverError;
use walk::FileWalk;

/// Selects the scans to discover. Files of scans that are not selected are not opened, so that
/// skipping a scan costs little.
pub trait ScanFilter {
    /// Returns whether an entry of this name is selected. In a collection, the name of the link is
    /// asked for, too.
    fn includes_entry(&self, name: &str) -> bool {
        let _ = name;
        true
    }

    /// Returns whether a detector of this name is selected.
    fn includes_detector(&self, name: &str) -> bool {
        let _ = name;
        true
    }

    /// Returns whether a scan with this title and start time, each as written in the file, is
    /// selected.
    fn includes_scan(&self, title: Option<&str>, start_time: Option<&str>) -> bool {
        let _ = (title, start_time);
        true
    }

    /// Returns whether entries that are external links into `file` are selected. A walk that visits
    /// `file` itself declines them, so that its scans are not reported twice.
    fn includes_linked_file(&self, file: &Path) -> bool {
        let _ = file;
        true
    }

    /// Returns whether the same files will be searched again. If so, the contents of unchanged
    /// files are remembered.
    fn looks_again(&self) -> bool {
        false
    }
}

/// Selects every scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllScans;

impl ScanFilter for AllScans {}

/// One result of a search: a scan, or the reason why there is none.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// File in which it was found.
    pub file: PathBuf,
    /// Path of the dataset in `file`; empty if the result concerns the whole file.
    pub dataset: String,
    /// Files that belong to the scan, and are therefore not searched for other scans.
    pub files: Vec<PathBuf>,
    /// Kind of the result, with its data.
    pub kind: DiscoveryKind,
}

/// Kinds of results of a search in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DiscoveryKind {
    /// One detector of one scan. `below` is only the master's file name, because the directory from
    /// which the search started is known to the caller alone.
    Scan(Box<Acquisition>),
    /// A detector that the filter did not select.
    Excluded {
        /// Name of the entry.
        entry: String,
        /// Name of the detector.
        detector: String,
    },
    /// A detector without frames, and the reason: the scan is still being written, or was aborted.
    NoFrames(String),
    /// A file without detectors.
    NoDetectors {
        /// Number of NXentry groups in the file.
        entries: usize,
        /// Number of those that are scans by their names, which need not have images.
        bliss_entries: usize,
    },
    /// A final file of azpipe. Its links to raw files don't make it a master.
    FinalFile,
    /// Something that can't be read.
    Failed {
        /// Reason, in one line.
        why: String,
        /// True if a later attempt may succeed, because the file is being written or the system
        /// failed.
        retryable: bool,
        /// True if the system failed, so that nothing is known about the contents.
        unreadable: bool,
    },
}

impl Discovery {
    fn new(file: &Path, dataset: &str, what: DiscoveryKind) -> Self {
        Self { file: file.to_owned(), dataset: dataset.to_owned(), files: Vec::new(), kind: what }
    }

    /// Returns a failed result. `has_ended` says whether the scan is over, if that is known: an
    /// error in a file that is still being written may be gone at the next search, and is therefore
    /// retryable.
    fn failed(file: &Path, dataset: &str, error: &DiscoverError, has_ended: Option<bool>) -> Self {
        let unreadable = error.is_unreadable();
        let retryable = match has_ended {
            None => unreadable || matches!(error, DiscoverError::Damaged(..)),
            Some(has_ended) => unreadable || !has_ended,
        };
        Self::new(
            file,
            dataset,
            DiscoveryKind::Failed { why: error.message(file), retryable, unreadable },
        )
    }

    /// Returns the path of the file or dataset as a user would write it:
    /// `/data/x.h5::/1.1/instrument/p3/data`.
    pub fn display_path(&self) -> String {
        let separator = if self.dataset.is_empty() { "" } else { "::" };
        format!("{}{separator}{}", self.file.display(), self.dataset)
    }
}

/// Returns the scans of a file, or of a dataset `file.h5::/path`.
pub fn discover(path: &Path, select: &dyn ScanFilter) -> Vec<Discovery> {
    let mut all = Vec::new();
    let each = &mut |found| {
        all.push(found);
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = walk(path, select, each);
    all
}

/// Calls `each` for every scan of a file as soon as it is found.
///
/// # Errors
/// An error of `each`, which ends the walk.
pub fn walk<E>(
    path: &Path,
    select: &dyn ScanFilter,
    each: &mut dyn FnMut(Discovery) -> Result<(), E>,
) -> Result<(), E> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some(client) = hdf5_worker::client() else { return walk_in_process(&path, select, each) };
    match remote_walk::walk_in_worker(client, &path, select, each) {
        Ok(()) => Ok(()),
        Err(ConversationError::Stopped(why)) => Err(why),
        Err(ConversationError::Worker(why)) => {
            let what = DiscoveryKind::Failed {
                why: why.to_string(),
                retryable: why.is_retryable(),
                unreadable: why.is_retryable(),
            };
            each(Discovery::new(&path, "", what))
        }
    }
}

/// Walks like [`walk()`], but always calls the HDF5 library in this process.
fn walk_in_process<E>(
    path: &Path,
    select: &dyn ScanFilter,
    each: &mut dyn FnMut(Discovery) -> Result<(), E>,
) -> Result<(), E> {
    if select.looks_again() {
        file_content_cache::begin();
    }
    match DatasetPath::try_parse(path) {
        Err(why) => each(Discovery::failed(path, "", &DiscoverError::from_io(path, &why), None)),
        Ok(DatasetPath { file, dataset: Some(dataset) }) => {
            each(plain_dataset::discover_dataset(&file, &dataset, select))
        }
        Ok(DatasetPath { file, dataset: None }) => match detect_file_kind_in_process(&file) {
            Ok(FileKind::Image) => each(images::discover_images(&[file], select)),
            Ok(FileKind::Hdf5) => FileWalk::new(&file, select, each).walk_file(),
            Err(FileKindError { why, retryable, unreadable }) => each(Discovery::new(
                &file,
                "",
                DiscoveryKind::Failed { why, retryable, unreadable },
            )),
        },
    }
}

/// Returns the scan that a series of image files forms, with the frames in the order of the files.
pub fn discover_series(files: &[PathBuf], select: &dyn ScanFilter) -> Discovery {
    if select.looks_again() {
        file_content_cache::begin();
    }
    images::discover_images(files, select)
}

/// The kind of a file, detected from its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// HDF5, with or without a user block.
    Hdf5,
    /// TIFF, CBF, EDF or NPY.
    Image,
}

/// Explains why the kind of a file can't be detected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{why}")]
pub struct FileKindError {
    /// Reason, in one line.
    pub why: String,
    /// True if a later attempt may succeed, because the file is being written or the system failed.
    pub retryable: bool,
    /// True if the system failed, so that nothing is known about the contents.
    pub unreadable: bool,
}

/// Detects the kind of a file from its first bytes.
///
/// # Errors
/// The file is neither HDF5 nor a known image format, or can't be read.
pub fn detect_file_kind(file: &Path) -> Result<FileKind, FileKindError> {
    let Some(client) = hdf5_worker::client() else { return detect_file_kind_in_process(file) };
    let no_answer = |why: String, again| FileKindError { why, retryable: again, unreadable: again };
    match client.request(&FileKindRequest { file: file.into() }) {
        Ok(Ok((kind, _))) => kind,
        Ok(Err(
            WorkerFailure::Hdf5(why)
            | WorkerFailure::Io { why, .. }
            | WorkerFailure::Dataset { why, .. },
        )) => Err(no_answer(why, false)),
        Err(why) => Err(no_answer(why.to_string(), why.is_retryable())),
    }
}

/// Asks the worker for the kind of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileKindRequest {
    file: RawPath,
}

impl WorkerRequest for FileKindRequest {
    const NAME: &'static str = "file-kind";
    type Message = ();
    type Answer = Result<FileKind, FileKindError>;

    fn answer(self, _: &FilterConnection<'_>) -> Result<(Self::Answer, Vec<u8>), WorkerFailure> {
        Ok((detect_file_kind_in_process(self.file.as_ref()), Vec::new()))
    }
}

/// Detects the kind of a file like [`detect_file_kind`], but always calls the HDF5 library in this
/// process.
fn detect_file_kind_in_process(file: &Path) -> Result<FileKind, FileKindError> {
    let opened = open_ahead::open(file).map_err(|why| {
        let why = image::ImageError::Io { path: file.to_owned(), why };
        file_kind_error(file, &DiscoverError::from_image(file, &why), false)
    })?;
    let probed = image::probe_opened(file, &opened);
    open_ahead::keep_open(file, opened);
    let found = match probed {
        Ok(_) => return Ok(FileKind::Image),
        Err(image::ImageError::Unknown { found: FirstBytes::Hdf5, .. }) => {
            return Ok(FileKind::Hdf5);
        }
        Err(why @ image::ImageError::Unknown { .. }) => why,
        Err(why) => {
            return Err(file_kind_error(file, &DiscoverError::from_image(file, &why), false));
        }
    };
    // With a user block, the HDF5 signature is not at the start of the file.
    match Hdf5Object::open_file(file) {
        Ok(_) => Ok(FileKind::Hdf5),
        Err(err) if err.errno.is_some() => {
            Err(file_kind_error(file, &DiscoverError::from_library(file, &err), false))
        }
        Err(_) => {
            let is_begun = is_still_empty(file)
                .map_err(|why| file_kind_error(file, &DiscoverError::from_io(file, &why), false))?;
            Err(file_kind_error(file, &DiscoverError::from_image(file, &found), is_begun))
        }
    }
}

fn file_kind_error(file: &Path, error: &DiscoverError, is_begun: bool) -> FileKindError {
    let unreadable = error.is_unreadable();
    FileKindError { why: error.message(file), retryable: unreadable || is_begun, unreadable }
}

/// Returns whether a file was created but holds no data yet: until its first block is written, an
/// HDF5 file is empty or begins with zeros.
fn is_still_empty(file: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    untrusted_file::open(file)?.take(8).read_to_end(&mut start)?;
    Ok(start.iter().all(|&byte| byte == 0))
}
