//! Groups, texts and numbers as NeXus files hold them.

use std::path::Path;

use hdf5::types::VarLenUnicode;
use hdf5::{File, Group, H5Type, Location, Result};

/// Makes a file, and takes no lock on it: a program that another thread starts meanwhile would
/// inherit the lock, and keep it for as long as it runs.
pub fn create(path: &Path) -> Result<File> {
    File::with_options().with_fapl(|access| access.file_locking(false)).create(path)
}

/// A text of this dataset's kind; none of those written here holds a NUL.
fn text(value: &str) -> VarLenUnicode {
    value.parse().expect("texts here hold no NUL")
}

/// Sets a text attribute.
pub(crate) fn attribute(of: &Location, name: &str, value: &str) -> Result<()> {
    of.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&text(value))
}

/// Makes a group of a NeXus class.
pub fn group(parent: &Group, name: &str, class: &str) -> Result<Group> {
    let group = parent.create_group(name)?;
    attribute(&group, "NX_class", class)?;
    Ok(group)
}

/// Writes a text.
pub fn string(parent: &Group, name: &str, value: &str) -> Result<()> {
    parent.new_dataset::<VarLenUnicode>().create(name)?.write_scalar(&text(value))
}

/// Writes one number.
pub(crate) fn scalar<T: H5Type>(parent: &Group, name: &str, value: T) -> Result<()> {
    parent.new_dataset::<T>().create(name)?.write_scalar(&value)
}

/// Writes one number with its unit.
pub(crate) fn quantity(parent: &Group, name: &str, value: f64, unit: &str) -> Result<()> {
    scalar(parent, name, value)?;
    attribute(&*parent.dataset(name)?, "units", unit)
}

/// Writes numbers, with a unit where they have one.
pub(crate) fn numbers(parent: &Group, name: &str, values: &[f64], unit: &str) -> Result<()> {
    let dataset = parent.new_dataset_builder().with_data(values).create(name)?;
    if unit.is_empty() { Ok(()) } else { attribute(&dataset, "units", unit) }
}
