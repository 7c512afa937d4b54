//! Checks the sources of a virtual dataset before it is read. The HDF5 library returns the fill
//! value for a source that it can't open, and reports no error.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::discover::error::DiscoverError;
use crate::discover::linked_file::find_linked_file;
use crate::ffi::{Hdf5Object, LibraryError, ObjectType, StorageLayout, VirtualMapping};

/// Maximum nesting of virtual datasets.
const MAX_DEPTH: usize = 64;

/// Explains why a virtual dataset can't be read.
pub(super) enum VirtualSourceError {
    /// The library can't say how the dataset is stored.
    Library(LibraryError),
    /// The system can't read a source. The error has the kind that the system gives, and names the
    /// source.
    Unreadable(io::Error),
    /// A source is missing or invalid.
    Unusable(String),
}

impl From<LibraryError> for VirtualSourceError {
    fn from(why: LibraryError) -> Self {
        Self::Library(why)
    }
}

/// Checks that all sources of a virtual dataset can be opened, and the sources of those that are
/// virtual themselves. Other datasets pass.
///
/// # Errors
/// A source is missing, can't be opened, or is no dataset.
pub(super) fn check_sources(object: &Hdf5Object) -> Result<(), VirtualSourceError> {
    check_below(object, 0, &mut HashSet::new())
}

fn check_below(
    object: &Hdf5Object,
    depth: usize,
    checked: &mut HashSet<(PathBuf, String)>,
) -> Result<(), VirtualSourceError> {
    let StorageLayout::Virtual(mappings) = object.storage_layout()? else { return Ok(()) };
    if depth >= MAX_DEPTH {
        return Err(VirtualSourceError::Unusable(format!(
            "virtual datasets more than {MAX_DEPTH} levels deep"
        )));
    }
    let holder = object.file_name()?;
    // Of sources with the number of a block in their names there are as many as exist.
    let named = mappings.into_iter().filter(|mapping| !mapping.has_block_number);
    for VirtualMapping { file, dataset, .. } in named {
        let file = find_linked_file(&holder, &file).map_err(describe_search)?;
        if checked.insert((file.clone(), dataset.clone())) {
            check_below(&open_source(&file, &dataset)?, depth.saturating_add(1), checked)?;
        }
    }
    Ok(())
}

fn describe_search(error: DiscoverError) -> VirtualSourceError {
    match error {
        DiscoverError::Unreadable(file, why) => source_unreadable(&file, why),
        DiscoverError::FileMissing(name) => VirtualSourceError::Unusable(format!(
            "file missing: {}: expected the source of this virtual dataset",
            name.display()
        )),
        other => VirtualSourceError::Unusable(other.message(Path::new(""))),
    }
}

/// Returns the error for a source that the system can't read, of the kind that it gives.
fn source_unreadable(file: &Path, err: LibraryError) -> VirtualSourceError {
    let message = format!("source {}: {}", file.display(), err.why);
    let kind = err.into_io().map_or(io::ErrorKind::Other, |why| why.kind());
    VirtualSourceError::Unreadable(io::Error::new(kind, message))
}

fn open_source(file: &Path, dataset: &str) -> Result<Hdf5Object, VirtualSourceError> {
    let failed = |err: LibraryError, what: &str| match err.errno {
        Some(_) => source_unreadable(file, err),
        None => {
            VirtualSourceError::Unusable(format!("source {}{what}: {}", file.display(), err.why))
        }
    };
    let root = Hdf5Object::open_file(file).map_err(|err| failed(err, ": not readable as HDF5"))?;
    let source = root
        .open_existing(dataset, "dataset")
        .map_err(|err| failed(err, &format!("::{dataset}")))?;
    match source.object_type() {
        ObjectType::Dataset => Ok(source),
        _ => Err(failed(LibraryError::new("expected a dataset"), &format!("::{dataset}"))),
    }
}
