//! The scans of a file: which detectors they have, and where each frame is.
//!
//! | file | entry | detector |
//! |---|---|---|
//! | Bliss master | `1.1`, `2.1`, … | each detector of `instrument` that has images |
//! | collection of Bliss masters | those of the masters that it links to | |
//! | Lima 1 or 2 file, NeXus file with NXdetector | its NXentry | its NXdetector |
//! | Dectris master or data file | `entry` | the NXdetector, or `data` |
//! | a dataset, `file.h5::/path` | `1.1` | the dataset's name |
//! | TIFF, CBF, EDF, NPY image, or a numbered series of them | `1.1` | the file's name |

mod bare;
mod catalog;
mod dectris;
mod detector;
mod entry;
mod error;
mod images;
mod lima;
mod links;
mod mapped;
mod never_taken;
mod operation;
mod place;
mod stored;
mod traced;
mod unchanged;
mod visit;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use filter::foreign;
use records::Acquisition;
use serde::{Deserialize, Serialize};

pub use images::{Numbered, series};

use crate::address::Address;
use crate::ffi::Object;
use crate::image;
use crate::prefetch;
use crate::worker::{self, Answer, Request};
use error::FindError;
use visit::Visit;

/// Which scans are wanted. What is not wanted costs little: its files are not opened.
pub trait Select {
    /// By the entry's name; in a collection also by that of the link.
    fn entry(&self, name: &str) -> bool {
        let _ = name;
        true
    }

    /// By the detector's name.
    fn detector(&self, name: &str) -> bool {
        let _ = name;
        true
    }

    /// By title and start time, each as the file says it.
    fn scan(&self, title: Option<&str>, start_time: Option<&str>) -> bool {
        let _ = (title, start_time);
        true
    }

    /// By the file of entries that another links to, as collections do: a walk that comes by that
    /// file anyway does not want them twice.
    fn linked(&self, file: &Path) -> bool {
        let _ = file;
        true
    }

    /// Whether the same files will be looked at again. What unchanged files hold is then remembered.
    fn looks_again(&self) -> bool {
        false
    }
}

/// Every scan is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct All;

impl Select for All {}

/// Something that a file holds.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file that it was found in.
    pub file: PathBuf,
    /// The dataset of that file that it is about; empty where it is about the file.
    pub dataset: String,
    /// The files that belong to it, and so are no scans of their own.
    pub files: Vec<PathBuf>,
    /// What it is.
    pub what: What,
}

/// What a file holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum What {
    /// One detector of one scan. Its `below` is the master's name alone: only who walks directories
    /// knows where it was found.
    Scan(Box<Acquisition>),
    /// A detector that is not wanted.
    Unwanted {
        /// Its entry.
        entry: String,
        /// Its name.
        detector: String,
    },
    /// A detector without frames, since its scan is being written or was aborted: which of both.
    NoFrames(String),
    /// A file that has no detectors, and what it has.
    Nothing {
        /// How many NXentry groups.
        entries: usize,
    },
    /// What can't be read, and why.
    Refused {
        /// Why, in one line.
        why: String,
        /// Whether it may be readable later: the file is being written, or the system failed.
        retryable: bool,
        /// Whether the system failed, so that nothing is known of what is there.
        unreadable: bool,
    },
}

impl Found {
    fn new(file: &Path, dataset: &str, what: What) -> Self {
        Self { file: file.to_owned(), dataset: dataset.to_owned(), files: Vec::new(), what }
    }

    fn refused(file: &Path, dataset: &str, why: String, retryable: bool) -> Self {
        Self::new(file, dataset, What::Refused { why, retryable, unreadable: false })
    }

    /// Something that can't be had. `has_ended` says whether its scan is over, if that is known: what is wrong with a file
    /// that is being written may be mended the next time it is looked at.
    fn failed(file: &Path, dataset: &str, error: &FindError, has_ended: Option<bool>) -> Self {
        let unreadable = error.is_unreadable();
        let retryable = match has_ended {
            None => unreadable || matches!(error, FindError::Damaged(..)),
            Some(has_ended) => unreadable || !has_ended,
        };
        Self::new(file, dataset, What::Refused { why: error.why(file), retryable, unreadable })
    }

    /// What it is about, as a user would name it: `/data/x.h5::/1.1/instrument/p3/data`.
    pub fn about(&self) -> String {
        let separator = if self.dataset.is_empty() { "" } else { "::" };
        format!("{}{separator}{}", self.file.display(), self.dataset)
    }
}

/// The scans of a file, or of a dataset `file.h5::/path`.
pub fn scans(path: &Path, select: &dyn Select) -> Vec<Found> {
    let mut all = Vec::new();
    let each = &mut |found| {
        all.push(found);
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = visit(path, select, each);
    all
}

/// Calls `each` with every scan of a file, as soon as it is found.
///
/// # Errors
/// Those of `each`, which end the visit.
pub fn visit<E>(path: &Path, select: &dyn Select, each: &mut dyn FnMut(Found) -> Result<(), E>) -> Result<(), E> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some(client) = worker::running() else { return visit_here(&path, select, each) };
    match client.visit(&path, select, each) {
        Ok(visited) => visited,
        Err(why) => {
            let what =
                What::Refused { why: why.to_string(), retryable: why.is_retryable(), unreadable: why.is_retryable() };
            each(Found::new(&path, "", what))
        }
    }
}

/// As [`visit`], in this process.
pub(crate) fn visit_here<E>(
    path: &Path,
    select: &dyn Select,
    each: &mut dyn FnMut(Found) -> Result<(), E>,
) -> Result<(), E> {
    if select.looks_again() {
        unchanged::begin();
    }
    match Address::look(path) {
        Err(why) => each(Found::failed(path, "", &FindError::from_io(path, &why), None)),
        Ok(Address { file, dataset: Some(dataset) }) => each(bare::found(&file, &dataset, select)),
        Ok(Address { file, dataset: None }) => match kind_here(&file) {
            Ok(FileKind::Image) => each(images::found(&[file], select)),
            Ok(FileKind::Hdf5) => Visit::new(&file, select, each).file(),
            Err(KindError { why, retryable, unreadable }) => {
                each(Found::new(&file, "", What::Refused { why, retryable, unreadable }))
            }
        },
    }
}

/// The scan that a series of image files is, in the order of the files.
pub fn image_series(files: &[PathBuf], select: &dyn Select) -> Found {
    if select.looks_again() {
        unchanged::begin();
    }
    images::found(files, select)
}

/// What a file is, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// HDF5, a user block before it or not.
    Hdf5,
    /// TIFF, CBF, EDF or NPY.
    Image,
}

/// Why it can't be said what a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{why}")]
pub struct KindError {
    /// Why, in one line.
    pub why: String,
    /// Whether it may be readable later: the file is being written, or the system failed.
    pub retryable: bool,
    /// Whether the system failed, so that nothing is known of what is there.
    pub unreadable: bool,
}

/// Says what a file is by its first bytes.
///
/// # Errors
/// It is neither, or can't be looked at.
pub fn kind(file: &Path) -> Result<FileKind, KindError> {
    let Some(client) = worker::running() else { return kind_here(file) };
    let no_answer = |why: String, again| KindError { why, retryable: again, unreadable: again };
    match client.request(&Request::Kind { file: file.into() }) {
        Ok(Ok((Answer::Kind(kind), _))) => kind,
        Ok(_) => Err(no_answer("an answer to another question".to_owned(), false)),
        Err(why) => Err(no_answer(why.to_string(), why.is_retryable())),
    }
}

/// As [`kind`], in this process.
pub(crate) fn kind_here(file: &Path) -> Result<FileKind, KindError> {
    let opened = prefetch::open(file).map_err(|why| {
        let why = image::ImageError::Io { path: file.to_owned(), why };
        kind_error(file, &FindError::from_image(file, &why), false)
    })?;
    let probed = image::probe_opened(file, &opened);
    prefetch::keep(file, opened);
    let found = match probed {
        Ok(_) => return Ok(FileKind::Image),
        Err(image::ImageError::Unknown { found, .. }) if found.starts_with("HDF5") => return Ok(FileKind::Hdf5),
        Err(why @ image::ImageError::Unknown { .. }) => why,
        Err(why) => return Err(kind_error(file, &FindError::from_image(file, &why), false)),
    };
    // Behind a user block, HDF5 is not told by the first bytes.
    match Object::open_file(file) {
        Ok(_) => Ok(FileKind::Hdf5),
        Err(flaw) if flaw.errno.is_some() => Err(kind_error(file, &FindError::from_flaw(file, &flaw), false)),
        Err(_) => {
            let is_begun = is_begun(file).map_err(|why| kind_error(file, &FindError::from_io(file, &why), false))?;
            Err(kind_error(file, &FindError::from_image(file, &found), is_begun))
        }
    }
}

fn kind_error(file: &Path, error: &FindError, is_begun: bool) -> KindError {
    let unreadable = error.is_unreadable();
    KindError { why: error.why(file), retryable: unreadable || is_begun, unreadable }
}

/// Whether a file is one that a writer has made and not got far with: until its first block is written, an HDF5 file is empty
/// or begins with zeros.
fn is_begun(file: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    foreign::open(file)?.take(8).read_to_end(&mut start)?;
    Ok(start.iter().all(|&byte| byte == 0))
}
