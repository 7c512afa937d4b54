//! Follows paths through hard, soft and external links to the objects that they lead to.
//!
//! The HDF5 library could follow links by itself, but it doesn't report which link failed. After a
//! soft link to an external link, it also names the object by the requested path, in a file that
//! has no such path.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::error::DiscoverError;
use super::linked_file::find_linked_file;
use super::open_files::OpenFiles;
use super::unusable::UnusableError;
use crate::ffi::{Hdf5Link, Hdf5Object, LibraryError, LinkTarget, ObjectType};

/// Maximum number of soft and external links in a path. The HDF5 library allows 16.
const MAX_LINKS: usize = 32;

/// Maximum size of a text in a record, in bytes.
const MAX_RECORD_TEXT_BYTES: usize = 64 << 10;

/// Maximum number of durations that are read: no scan has more frames.
const MAX_DURATIONS: u64 = 10_000_000;

/// Durations: one, or one per frame.
pub(super) struct DurationDataset {
    pub values: Vec<f64>,
    /// As in the file; empty if it names none.
    pub units: String,
}

/// An object, and its location after all links have been followed.
#[derive(Clone, Debug)]
pub(super) struct ResolvedObject {
    /// File that holds the object.
    pub file: PathBuf,
    root: Rc<Hdf5Object>,
    pub object: Rc<Hdf5Object>,
    /// Names on the path from the file's root to the object.
    names: Vec<String>,
    /// Other files that the path led through.
    pub files_passed: Vec<PathBuf>,
}

impl ResolvedObject {
    /// Returns the root group of an open file.
    fn root(file: PathBuf, root: Rc<Hdf5Object>) -> Self {
        Self { file, object: Rc::clone(&root), root, names: Vec::new(), files_passed: Vec::new() }
    }

    /// Returns the path in the file.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.names.join("/"))
    }

    /// Returns the object's name, if it is a direct member of the root group.
    pub(super) fn name_in_root(&self) -> Option<&str> {
        match &self.names[..] {
            [name] => Some(name),
            _ => None,
        }
    }

    /// Opens a member that is a hard link.
    fn member(&self, name: &str) -> Result<Hdf5Object, DiscoverError> {
        self.object.open(name).map_err(|err| DiscoverError::from_library(&self.file, &err))
    }

    /// Reads the links of a group.
    ///
    /// # Errors
    /// The group can't be read.
    pub(super) fn read_links(&self) -> Result<Vec<Hdf5Link>, DiscoverError> {
        self.object.read_links().map_err(|err| DiscoverError::from_library(&self.file, &err))
    }

    /// Returns whether the object's `NX_class` attribute is `class`.
    ///
    /// # Errors
    /// The attribute can't be read.
    pub(super) fn is_class(&self, class: &str) -> Result<bool, DiscoverError> {
        is_class(&self.file, &self.object, class)
    }

    /// Returns whether the `NX_class` attribute of a member, which is a hard link, is `class`.
    ///
    /// # Errors
    /// The member can't be read.
    pub(super) fn is_member_class(&self, name: &str, class: &str) -> Result<bool, DiscoverError> {
        is_class(&self.file, &self.member(name)?, class)
    }

    fn go_to_root(&mut self) {
        self.object = Rc::clone(&self.root);
        self.names.clear();
    }
}

impl OpenFiles {
    /// Opens the root group of a file.
    ///
    /// # Errors
    /// Fails like [`OpenFiles::open`].
    pub(super) fn root(&mut self, path: &Path) -> Result<ResolvedObject, DiscoverError> {
        Ok(ResolvedObject::root(path.to_owned(), self.open(path)?))
    }

    /// Follows a path that starts at a group.
    ///
    /// # Errors
    /// The path doesn't exist, or a part of it can't be read.
    pub(super) fn resolve(
        &mut self,
        from: &ResolvedObject,
        path: &str,
    ) -> Result<ResolvedObject, DiscoverError> {
        let mut at = from.clone();
        let mut ahead = reversed_names(path);
        let mut links = 0_usize;
        if path.starts_with('/') {
            at.go_to_root();
        }
        while let Some(name) = ahead.pop() {
            let no_object = |at: &ResolvedObject| {
                let names: Vec<&str> = at
                    .names
                    .iter()
                    .chain([&name])
                    .chain(ahead.iter().rev())
                    .map(String::as_str)
                    .collect();
                DiscoverError::NoObject(at.file.clone(), format!("/{}", names.join("/")))
            };
            if at.object.object_type() != ObjectType::Group {
                return Err(no_object(&at));
            }
            let target = at
                .object
                .read_link(&name)
                .map_err(|err| DiscoverError::from_library(&at.file, &err))?;
            links = links.saturating_add(usize::from(!matches!(target, Some(LinkTarget::Hard))));
            if links > MAX_LINKS {
                return Err(
                    UnusableError::TooManyLinks { path: path.to_owned(), most: MAX_LINKS }.into()
                );
            }
            match target {
                None | Some(LinkTarget::Other) => return Err(no_object(&at)),
                Some(LinkTarget::Hard) => {
                    at.object = Rc::new(at.member(&name)?);
                    at.names.push(name);
                }
                Some(LinkTarget::Soft(path)) => {
                    if path.starts_with('/') {
                        at.go_to_root();
                    }
                    ahead.extend(reversed_names(&path));
                }
                Some(LinkTarget::External(file, path)) => {
                    let file = find_linked_file(&at.file, &file)?;
                    let mut via = std::mem::take(&mut at.files_passed);
                    via.push(std::mem::take(&mut at.file));
                    at = ResolvedObject {
                        files_passed: via,
                        ..ResolvedObject::root(file.clone(), self.open(&file)?)
                    };
                    ahead.extend(reversed_names(&path));
                }
            }
        }
        Ok(at)
    }

    /// Follows a path like [`OpenFiles::resolve`], and returns `None` if it doesn't exist.
    ///
    /// # Errors
    /// A part of the path can't be read.
    pub(super) fn try_resolve(
        &mut self,
        from: &ResolvedObject,
        path: &str,
    ) -> Result<Option<ResolvedObject>, DiscoverError> {
        match self.resolve(from, path) {
            Ok(found) => Ok(Some(found)),
            Err(why) if why.is_missing() => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Reads the first element of a dataset as text, or returns `None` if there is no dataset or
    /// text.
    ///
    /// # Errors
    /// The dataset can't be read.
    pub(super) fn read_text(
        &mut self,
        from: &ResolvedObject,
        path: &str,
    ) -> Result<Option<String>, DiscoverError> {
        let text = self.read_value(from, path, Hdf5Object::read_text)?;
        match text.as_ref().map_or(0, String::len) {
            0..=MAX_RECORD_TEXT_BYTES => Ok(text),
            len => {
                let (path, most) = (path.to_owned(), MAX_RECORD_TEXT_BYTES);
                Err(UnusableError::TextLength { path, len, most }.into())
            }
        }
    }

    /// Reads the first element of a dataset as a number, or returns `None` if there is no dataset
    /// or number.
    ///
    /// # Errors
    /// The dataset can't be read.
    pub(super) fn read_number(
        &mut self,
        from: &ResolvedObject,
        path: &str,
    ) -> Result<Option<f64>, DiscoverError> {
        self.read_value(from, path, Hdf5Object::read_first_number)
    }

    /// Reads a dataset of durations with its unit, or returns `None` if there is no dataset or
    /// number.
    ///
    /// # Errors
    /// The dataset can't be read.
    pub(super) fn read_duration(
        &mut self,
        from: &ResolvedObject,
        path: &str,
    ) -> Result<Option<DurationDataset>, DiscoverError> {
        self.read_value(from, path, |object| {
            let count = object.shape()?.iter().fold(1, |count: u64, &n| count.saturating_mul(n));
            if !object.element_type()?.is_number() || count == 0 || count > MAX_DURATIONS {
                return Ok(None);
            }
            let units = object.read_text_attribute("units")?.unwrap_or_default();
            Ok(Some(DurationDataset { values: object.read_numbers()?, units }))
        })
    }

    fn read_value<T>(
        &mut self,
        from: &ResolvedObject,
        path: &str,
        read: impl FnOnce(&Hdf5Object) -> Result<Option<T>, LibraryError>,
    ) -> Result<Option<T>, DiscoverError> {
        let Some(found) = self
            .try_resolve(from, path)?
            .filter(|found| found.object.object_type() == ObjectType::Dataset)
        else {
            return Ok(None);
        };
        read(&found.object).map_err(|err| match DiscoverError::from_library(&found.file, &err) {
            DiscoverError::Damaged(file, why) => {
                DiscoverError::Damaged(file, format!("{}: {why}", found.path()))
            }
            other => other,
        })
    }
}

/// Splits a path into names, in reverse order.
fn reversed_names(path: &str) -> Vec<String> {
    path.split('/')
        .filter(|name| !name.is_empty() && *name != ".")
        .rev()
        .map(str::to_owned)
        .collect()
}

fn is_class(file: &Path, object: &Hdf5Object, class: &str) -> Result<bool, DiscoverError> {
    let value = object
        .read_text_attribute("NX_class")
        .map_err(|err| DiscoverError::from_library(file, &err))?;
    Ok(value.is_some_and(|value| value == class))
}
