//! Tests for links and attributes, and returns an error if the library can't tell.

use hdf5::Location;
use hdf5_sys::h5a::H5Aexists;
use hdf5_sys::h5l::H5Lexists;
use hdf5_sys::h5p::H5P_DEFAULT;

use super::{LibraryError, c_string, call_for_status};

/// Returns whether a group has a link of this name, even a dangling one. All parts of a path but
/// the last must exist.
///
/// # Errors
/// The library can't tell.
pub fn link_exists(group: &hdf5::Group, name: &str) -> Result<bool, LibraryError> {
    let exists = || {
        let (id, name) = (group.id(), c_string(name)?);
        // SAFETY: the group is open while it is borrowed, and the name ends in NUL.
        call_for_status(|| unsafe { H5Lexists(id, name.as_ptr(), H5P_DEFAULT) })
    };
    exists().map(|found| found > 0)
}

/// Returns whether a group or dataset has an attribute of this name.
///
/// # Errors
/// The library can't tell.
pub fn attribute_exists(at: &Location, name: &str) -> Result<bool, LibraryError> {
    let exists = || {
        let (id, name) = (at.id(), c_string(name)?);
        // SAFETY: the object is open while it is borrowed, and the name ends in NUL.
        call_for_status(|| unsafe { H5Aexists(id, name.as_ptr()) })
    };
    exists().map(|found| found > 0)
}
