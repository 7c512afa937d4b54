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
mod images;
mod lima;
mod mapped;
mod never_taken;
mod operation;
mod place;
mod stored;
mod traced;
mod visit;

use std::path::{Path, PathBuf};

use records::Acquisition;

pub use catalog::{FILE_MISSING, FILE_UNREADABLE};
pub use images::{Numbered, series};

use crate::address::Address;
use crate::ffi::Object;
use crate::image;
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
#[derive(Clone, Debug)]
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
        /// Whether it may be readable later: the file is being written.
        retryable: bool,
    },
}

impl Found {
    fn new(file: &Path, dataset: &str, what: What) -> Self {
        Self { file: file.to_owned(), dataset: dataset.to_owned(), files: Vec::new(), what }
    }

    fn refused(file: &Path, dataset: &str, why: String) -> Self {
        Self::new(file, dataset, What::Refused { why, retryable: false })
    }

    /// A file that the library can't open: it may be in the middle of being written.
    fn unreadable(file: &Path, why: &str) -> Self {
        Self::new(file, "", What::Refused { why: format!("not readable as HDF5: {why}"), retryable: true })
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
    match Address::of(&path) {
        Address { file, dataset: Some(dataset) } => each(bare::found(&file, &dataset, select)),
        Address { file, dataset: None } => match kind(&file) {
            Ok(FileKind::Image) => each(images::found(&[file], select)),
            Ok(FileKind::Hdf5) => Visit::new(&file, select, each).file(),
            Err(why) => each(Found::refused(&file, "", why)),
        },
    }
}

/// The scan that a series of image files is, in the order of the files.
pub fn image_series(files: &[PathBuf], select: &dyn Select) -> Found {
    images::found(files, select)
}

/// What a file is, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// HDF5, a user block before it or not.
    Hdf5,
    /// TIFF, CBF, EDF or NPY.
    Image,
}

/// Says what a file is by its first bytes.
///
/// # Errors
/// Why it is neither, in one line.
pub fn kind(file: &Path) -> Result<FileKind, String> {
    match image::probe(file) {
        Ok(_) => Ok(FileKind::Image),
        // Behind a user block, HDF5 is not told by the first bytes.
        Err(image::ImageError::Unknown { .. }) if Object::open_file(file).is_ok() => Ok(FileKind::Hdf5),
        Err(image::ImageError::Unknown { found, .. }) if found.starts_with("HDF5") => Ok(FileKind::Hdf5),
        Err(image::ImageError::Unknown { found, .. }) => {
            Err(format!("neither HDF5 nor an image (TIFF, CBF, EDF, NPY): found {found}"))
        }
        Err(other) => Err(images::reason(&other)),
    }
}
