//! HDF5 as these files are written and read: bounds, locks, names, text.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use hdf5::file::{File, FileBuilder, LibraryVersion};
use hdf5::types::VarLenUnicode;
use hdf5::{Dataset, Error, Group, H5Type, Location, Result};

/// An HDF5 file, and what keeps its name valid.
///
/// The library takes names in UTF-8 only. A file of any other name is reached through its descriptor,
/// which must stay open as long.
pub(crate) struct Open {
    file: File,
    _descriptor: Option<std::fs::File>,
}

impl Open {
    /// Writes what is still in memory, and says if that fails.
    pub fn close(self) -> Result<()> {
        self.file.flush()?;
        self.file.close()
    }
}

impl std::ops::Deref for Open {
    type Target = File;
    fn deref(&self) -> &File {
        &self.file
    }
}

/// Creates a file that HDF5 1.10 reads, with `user_block` bytes before it. The library
/// does not lock it: the name is a temporary one, which its [`manners::atomic::AtomicFile`] locks.
pub(crate) fn create(path: &Path, user_block: u64) -> Result<Open> {
    let mut options = FileBuilder::new();
    options
        .with_fapl(|access| access.libver_bounds(LibraryVersion::Earliest, LibraryVersion::V110).file_locking(false));
    options.with_fcpl(|create| create.userblock(user_block));
    reach(path, true, |path| options.create(path))
}

/// Opens a file to read, without a lock.
pub(crate) fn open(path: &Path) -> Result<Open> {
    let mut options = FileBuilder::new();
    options.with_fapl(|access| access.file_locking(false));
    reach(path, false, |path| options.open(path))
}

fn reach(path: &Path, write: bool, open: impl Fn(&Path) -> Result<File>) -> Result<Open> {
    if path.to_str().is_some() {
        return Ok(Open { file: open(path)?, _descriptor: None });
    }
    let file = OpenOptions::new().read(true).write(write).create(write).open(path);
    let descriptor = file.map_err(|why| Error::from(why.to_string()))?;
    let name = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    Ok(Open { file: open(&name)?, _descriptor: Some(descriptor) })
}

/// Writes a text dataset.
pub(crate) fn write_text(group: &Group, name: &str, text: &str) -> Result<Dataset> {
    let dataset = group.new_dataset::<VarLenUnicode>().obj_track_times(false).create(name)?;
    dataset.write_scalar(&unicode(text))?;
    Ok(dataset)
}

/// Writes a list of texts.
pub(crate) fn write_texts(group: &Group, name: &str, texts: &[String]) -> Result<Dataset> {
    let texts: Vec<VarLenUnicode> = texts.iter().map(|text| unicode(text)).collect();
    write_list(group, name, &texts)
}

/// Reads a text dataset.
pub(crate) fn read_text(group: &Group, name: &str) -> Result<String> {
    Ok(group.dataset(name)?.read_scalar::<VarLenUnicode>()?.as_str().to_owned())
}

/// Writes a one-dimensional dataset.
pub(crate) fn write_list<T: H5Type>(group: &Group, name: &str, values: &[T]) -> Result<Dataset> {
    group.new_dataset_builder().with_data(values).obj_track_times(false).create(name)
}

/// Reads a one-dimensional dataset.
pub(crate) fn read_list<T: H5Type>(group: &Group, name: &str) -> Result<Vec<T>> {
    group.dataset(name)?.read_raw()
}

/// Writes a text attribute.
pub(crate) fn set_text(at: &Location, name: &str, text: &str) -> Result<()> {
    at.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&unicode(text))
}

/// Reads a text attribute.
pub(crate) fn get_text(at: &Location, name: &str) -> Result<String> {
    Ok(at.attr(name)?.read_scalar::<VarLenUnicode>()?.as_str().to_owned())
}

/// Writes an attribute that is a list of texts.
pub(crate) fn set_texts(at: &Location, name: &str, texts: &[&str]) -> Result<()> {
    let texts: Vec<VarLenUnicode> = texts.iter().map(|text| unicode(text)).collect();
    at.new_attr_builder().with_data(&texts).create(name).map(drop)
}

/// Reads an attribute that is a list of texts.
pub(crate) fn get_texts(at: &Location, name: &str) -> Result<Vec<String>> {
    let texts: Vec<VarLenUnicode> = at.attr(name)?.read_raw()?;
    Ok(texts.iter().map(|text| text.as_str().to_owned()).collect())
}

/// Writes an attribute that is a number.
pub(crate) fn set_number<T: H5Type>(at: &Location, name: &str, number: T) -> Result<()> {
    at.new_attr::<T>().create(name)?.write_scalar(&number)
}

/// Reads an attribute that is a number.
pub(crate) fn get_number<T: H5Type>(at: &Location, name: &str) -> Result<T> {
    at.attr(name)?.read_scalar()
}

/// HDF5 texts end at a NUL; no text that is meant to be read holds one.
fn unicode(text: &str) -> VarLenUnicode {
    text.replace('\0', "\u{fffd}").parse().expect("a text without NUL")
}
