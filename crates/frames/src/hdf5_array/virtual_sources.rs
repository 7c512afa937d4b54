//! Checks the sources of a virtual dataset before it is read. The HDF5 library returns the fill
//! value for a source that it can't open, and reports no error. It reads a dataset that shows itself
//! until its stack overflows.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::discover::error::DiscoverError;
use crate::discover::linked_file::find_linked_file;
use crate::ffi::{Hdf5Object, LibraryError, ObjectType, StorageLayout, VirtualMapping};

/// Maximum nesting of virtual datasets.
const MAX_DEPTH: usize = 64;

/// Explains why a virtual dataset can't be read.
pub(crate) enum VirtualSourceError {
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
/// virtual themselves, and that none of them shows itself. Other datasets pass.
///
/// # Errors
/// A source is missing, can't be opened, is no dataset, or shows itself.
pub(super) fn check_sources(object: &Hdf5Object) -> Result<(), VirtualSourceError> {
    SourceCheck::default().check_below(object)
}

/// A source: its file, and its path there as the mapping has it.
type DatasetInFile = (PathBuf, String);

/// Sources that were checked, and the chain of those whose own sources are being checked.
#[derive(Default)]
struct SourceCheck {
    checked: HashSet<DatasetInFile>,
    chain: Vec<DatasetInFile>,
}

impl SourceCheck {
    fn check_below(&mut self, object: &Hdf5Object) -> Result<(), VirtualSourceError> {
        let StorageLayout::Virtual(mappings) = object.storage_layout()? else { return Ok(()) };
        if self.chain.len() >= MAX_DEPTH {
            return Err(VirtualSourceError::Unusable(format!(
                "virtual datasets more than {MAX_DEPTH} levels deep"
            )));
        }
        let holder = object.file_name()?;
        // Of sources with the number of a block in their names there are as many as exist.
        let named = mappings.into_iter().filter(|mapping| !mapping.has_block_number);
        for VirtualMapping { file, dataset, .. } in named {
            let source = (find_linked_file(&holder, &file).map_err(describe_search)?, dataset);
            if self.chain.contains(&source) {
                let (file, dataset) = source;
                return Err(VirtualSourceError::Unusable(format!(
                    "a virtual dataset that shows itself, {dataset} of {}: expected stored values",
                    file.file_name().unwrap_or_default().display()
                )));
            }
            if self.checked.insert(source.clone()) {
                let object = open_source(&source.0, &source.1)?;
                self.chain.push(source);
                self.check_below(&object)?;
                self.chain.pop();
            }
        }
        Ok(())
    }
}

/// Returns the first source of a virtual dataset that is not stored, because it is virtual itself,
/// or may not be, because its name has the number of a block; `None` if there is none, or the
/// dataset is not virtual. So a dataset for which this is `None` does not show itself, by whatever
/// other file. Sources that are missing, or that the library refuses, lead no further.
///
/// # Errors
/// The library can't say how the dataset is stored, or the system can't read a source.
pub(crate) fn find_unstored_source(
    object: &Hdf5Object,
) -> Result<Option<String>, VirtualSourceError> {
    let StorageLayout::Virtual(mappings) = object.storage_layout()? else { return Ok(None) };
    let holder = object.file_name()?;
    let mut checked = HashSet::new();
    for VirtualMapping { file, dataset, has_block_number, .. } in mappings {
        if has_block_number {
            return Ok(Some(format!("numbered datasets {dataset} of {}", file.display())));
        }
        if !checked.insert((file.clone(), dataset.clone())) {
            continue;
        }
        let source = find_linked_file(&holder, &file).map_err(describe_search).and_then(|found| {
            let layout = open_source(&found, &dataset)?.storage_layout();
            let layout = layout.map_err(|err| match err.errno {
                Some(_) => source_unreadable(&found, err),
                None => VirtualSourceError::Unusable(err.why),
            })?;
            Ok((layout, found == holder))
        });
        match source {
            Ok((StorageLayout::Virtual(_), is_here)) => {
                let there =
                    if is_here { "the same file".into() } else { file.display().to_string() };
                return Ok(Some(format!("a virtual dataset of {there}")));
            }
            Ok(_) | Err(VirtualSourceError::Unusable(_)) => (),
            Err(VirtualSourceError::Unreadable(why))
                if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(None)
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
    let kind = err.into_io().map_or(ErrorKind::Other, |why| why.kind());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::create_virtual_datasets;
    use crate::hdf5_array::read_numbers;

    #[test]
    fn a_virtual_dataset_that_shows_itself_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let [one, two] = ["one.h5", "two.h5"].map(|name| directory.path().join(name));
        let shown = [
            ("itself", ".", "/itself"),
            ("pair", ".", "/other"),
            ("other", ".", "/pair"),
            ("by name", "one.h5", "/by name"),
            ("by file", "two.h5", "/ring"),
            ("leads to a ring", ".", "/itself"),
            ("twice", ".", "/shows stored"),
            ("shows stored", "two.h5", "/stored"),
            ("shows what is missing", "three.h5", "/stored"),
        ];
        create_virtual_datasets(&one, &shown);
        create_virtual_datasets(&two, &[("ring", "one.h5", "/by file")]);
        let root = Hdf5Object::open_file(&one).unwrap();
        for (name, ..) in shown {
            let object = root.open(name).unwrap();
            let unstored = find_unstored_source(&object);
            let Ok(unstored) = unstored else { panic!("{name} can be examined") };
            let read = read_numbers(&one, name);
            match name {
                "twice" | "shows stored" => {
                    assert_eq!(read.unwrap(), [1.0, 2.0, 3.0, 4.0], "{name}");
                    assert_eq!(unstored.is_some(), name == "twice");
                }
                "shows what is missing" => {
                    assert!(read.unwrap_err().to_string().contains("file missing"));
                    assert_eq!(unstored, None);
                }
                _ => {
                    let said = read.expect_err(name).to_string();
                    assert!(said.contains("a virtual dataset that shows itself"), "{name}: {said}");
                    assert!(unstored.is_some(), "{name}");
                }
            }
        }
    }
}
