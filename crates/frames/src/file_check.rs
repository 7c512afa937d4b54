//! Lets the worker process read the structure of a file before this process does.
//!
//! A file without checksums may make the HDF5 library crash or hang. A process that needs the
//! library itself, because it copies from file to file, first has the worker make the calls that
//! read the file's structure: if one of them does not return, only the worker is lost, and the file
//! is known to be damaged.

use std::collections::HashSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use records::RawPath;
use serde::{Deserialize, Serialize};

use crate::ffi::{Hdf5Object, LibraryError, LinkTarget, ObjectType, StorageLayout};
use crate::hdf5_array::virtual_sources::{VirtualSourceError, find_unstored_source};
use crate::hdf5_worker::{self, FilterConnection, WorkerClient, WorkerFailure, WorkerRequest};

/// Maximum number of objects that are read of a file. Links may form a ring.
const MAX_OBJECTS: usize = 1 << 16;

/// Maximum depth of groups that are read.
const MAX_DEPTH: usize = 32;

/// Maximum number of files that are remembered.
const MAX_REMEMBERED: usize = 1 << 12;

/// Explains why a file must not be read by this process.
#[derive(Debug, thiserror::Error)]
pub enum FileCheckError {
    /// The library hangs or crashes on the file.
    #[error("{0}")]
    Damaged(String),
    /// The file could not be checked, so nothing is known about it.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Path, kind of check and requested objects, device, inode, size, and time of last change of a file.
type CheckedFile = (PathBuf, Vec<String>, [u64; 3], (i64, i64));

/// The files that were found to be readable.
static CHECKED: LazyLock<Mutex<HashSet<CheckedFile>>> = LazyLock::new(Mutex::default);

/// Has the worker read the objects `read_whole` of a file with all their content, and only open the
/// objects `open_only`, or list them if they are groups. Objects that don't exist or that the
/// library refuses pass: the caller gets the error when it reads them. Does nothing in a program
/// without a worker.
///
/// # Errors
/// The library hangs or crashes on the file; the file could not be read.
pub fn check_file(
    file: &Path,
    read_whole: &[&str],
    open_only: &[&str],
) -> Result<(), FileCheckError> {
    let Some(client) = hdf5_worker::client() else { return Ok(()) };
    let version = file_version(file, "check", &[read_whole, open_only], &file.metadata()?);
    if checked().contains(&version) {
        return Ok(());
    }
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let request =
        CheckRequest { file: file.into(), read: texts(read_whole), open: texts(open_only) };
    if ask_worker(client, &request)?.is_some() {
        remember(version);
    }
    Ok(())
}

/// Checks that a virtual dataset of a file that azpipe wrote shows only datasets that are stored.
/// The library would read one that shows itself, also by other files, until its stack overflows.
/// Has the worker look at the sources, or this process in a program without a worker. A dataset
/// that doesn't exist or that the library refuses passes, and so does one that isn't virtual.
///
/// # Errors
/// A source is virtual itself, or the library hangs or crashes on one; a file could not be read.
pub fn check_virtual_dataset(file: &Path, dataset: &str) -> Result<(), FileCheckError> {
    let version = file_version(file, "virtual", &[&[dataset]], &file.metadata()?);
    if checked().contains(&version) {
        return Ok(());
    }
    let found = match hdf5_worker::client() {
        Some(client) => {
            let request = VirtualDatasetRequest { file: file.into(), dataset: dataset.to_owned() };
            ask_worker(client, &request)?
        }
        None => Some(find_unstored_source_in_process(file, dataset)?),
    };
    match found {
        Some(None) => remember(version),
        Some(Some(source)) => {
            return Err(FileCheckError::Damaged(format!(
                "{dataset} shows {source}; expected datasets that are stored"
            )));
        }
        None => (),
    }
    Ok(())
}

/// Returns the worker's answer; `None` if the library refuses the file, as it will in this process.
fn ask_worker<R: WorkerRequest>(
    client: &WorkerClient,
    request: &R,
) -> Result<Option<R::Answer>, FileCheckError> {
    match client.request(request) {
        Ok(Ok((answer, _))) => Ok(Some(answer)),
        Ok(Err(WorkerFailure::Io { errno, why })) => Err(WorkerFailure::to_io(errno, why).into()),
        Ok(Err(WorkerFailure::Hdf5(_) | WorkerFailure::Dataset { .. })) => Ok(None),
        Err(why) if why.suggests_damage() => Err(FileCheckError::Damaged(why.to_string())),
        Err(why) => Err(io::Error::other(why.to_string()).into()),
    }
}

fn remember(version: CheckedFile) {
    let mut checked = checked();
    if checked.len() >= MAX_REMEMBERED {
        checked.clear();
    }
    checked.insert(version);
}

fn checked() -> std::sync::MutexGuard<'static, HashSet<CheckedFile>> {
    CHECKED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_version(file: &Path, check: &str, objects: &[&[&str]], about: &Metadata) -> CheckedFile {
    let names = std::iter::once(&check).chain(objects.iter().copied().flatten());
    let objects = names.map(|name| (*name).to_owned()).collect();
    let id = [about.dev(), about.ino(), about.len()];
    (file.to_owned(), objects, id, (about.mtime(), about.mtime_nsec()))
}

/// Asks the worker to read the structure of a file's objects, like a process that reads them itself
/// afterwards.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CheckRequest {
    file: RawPath,
    /// Objects that are read with all that is in them.
    read: Vec<String>,
    /// Objects that are only opened, and listed if they are groups.
    open: Vec<String>,
}

impl WorkerRequest for CheckRequest {
    const NAME: &'static str = "check";
    type Message = ();
    type Answer = ();

    fn answer(self, _: &FilterConnection<'_>) -> Result<((), Vec<u8>), WorkerFailure> {
        match check_in_process(self.file.as_ref(), &self.read, &self.open) {
            Ok(()) => Ok(((), Vec::new())),
            Err(why) => Err(WorkerFailure::from_io(&why)),
        }
    }
}

/// Asks the worker for a source of a virtual dataset that is not stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VirtualDatasetRequest {
    file: RawPath,
    dataset: String,
}

impl WorkerRequest for VirtualDatasetRequest {
    const NAME: &'static str = "virtual-dataset";
    type Message = ();
    type Answer = Option<String>;

    fn answer(self, _: &FilterConnection<'_>) -> Result<(Option<String>, Vec<u8>), WorkerFailure> {
        match find_unstored_source_in_process(self.file.as_ref(), &self.dataset) {
            Ok(found) => Ok((found, Vec::new())),
            Err(why) => Err(WorkerFailure::from_io(&why)),
        }
    }
}

fn find_unstored_source_in_process(file: &Path, dataset: &str) -> io::Result<Option<String>> {
    let found = Hdf5Object::open_file(file)
        .and_then(|root| root.open(dataset))
        .map_err(VirtualSourceError::from)
        .and_then(|object| find_unstored_source(&object));
    match found {
        Ok(found) => Ok(found),
        Err(VirtualSourceError::Unreadable(why)) => Err(why),
        Err(VirtualSourceError::Unusable(_)) => Ok(None),
        Err(VirtualSourceError::Library(why)) => pass_unusable(Err(why)).map(|()| None),
    }
}

/// Reads objects of a file by calling the HDF5 library in this process.
///
/// # Errors
/// The system can't read the file.
fn check_in_process(file: &Path, read: &[String], open: &[String]) -> io::Result<()> {
    let root = match Hdf5Object::open_file(file) {
        Ok(root) => root,
        Err(why) => return why.into_io().map_or(Ok(()), Err),
    };
    let mut budget = MAX_OBJECTS;
    for path in read {
        pass_unusable(root.open(path).and_then(|object| read_object(&object, 0, &mut budget)))?;
    }
    for path in open {
        pass_unusable(root.open(path).and_then(|object| list_group(&object)))?;
    }
    Ok(())
}

/// Reads the links of an object that is a group.
fn list_group(object: &Hdf5Object) -> Result<(), LibraryError> {
    if object.object_type() == ObjectType::Group { object.read_links().map(drop) } else { Ok(()) }
}

/// Drops errors of the library, and keeps errors of the system.
fn pass_unusable(result: Result<(), LibraryError>) -> io::Result<()> {
    match result.map_err(LibraryError::into_io) {
        Err(Ok(why)) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

/// Reads the attributes of an object, and its chunk index and text or its members, so far as they
/// are in this file.
fn read_object(object: &Hdf5Object, depth: usize, budget: &mut usize) -> Result<(), LibraryError> {
    *budget = budget.saturating_sub(1);
    object.read_attributes()?;
    match object.object_type() {
        ObjectType::Dataset => {
            let (shape, kind) = (object.shape()?, object.element_type()?);
            if let StorageLayout::Chunked(..) = object.storage_layout()? {
                object.chunk_index(shape.len())?;
            }
            if !kind.is_number() {
                object.read_text()?;
            }
        }
        ObjectType::Group if depth < MAX_DEPTH => {
            for link in object.read_links()? {
                if *budget == 0 {
                    return Ok(());
                }
                if link.target == LinkTarget::Hard {
                    match object
                        .open(&link.name)
                        .and_then(|member| read_object(&member, depth.saturating_add(1), budget))
                    {
                        Err(why) if why.errno.is_some() => return Err(why),
                        _ => (),
                    }
                }
            }
        }
        ObjectType::Group | ObjectType::Other => (),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::create_file_with_link;

    #[test]
    fn an_object_that_the_system_can_not_open_does_not_pass() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.h5");
        create_file_with_link(&path, "entry", "b.h5");
        let check = |read: &[&str], open: &[&str]| {
            let [read, open] = [read, open]
                .map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            check_in_process(&path, &read, &open)
        };
        for (read, open) in [(&["entry"][..], &[][..]), (&[][..], &["entry"][..])] {
            check(read, open).expect("a file that is missing is seen by the caller");
        }
        let unreadable = directory.path().join("b.h5");
        std::os::unix::fs::symlink(&unreadable, &unreadable).unwrap();
        for (read, open) in [(&["entry"][..], &[][..]), (&[][..], &["entry"][..])] {
            check(read, open).expect_err("a link to itself can't be opened");
        }
    }
}
