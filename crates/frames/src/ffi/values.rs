//! Numbers and texts, in datasets and attributes, of whatever type they are stored in.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use hdf5::globals::{H5T_C_S1, H5T_NATIVE_DOUBLE};
use hdf5_sys::h5a::{H5Aexists, H5Aget_space, H5Aget_type, H5Aopen, H5Aread};
use hdf5_sys::h5d::{H5Dget_space, H5Dget_type, H5Dread};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5s::{H5S_ALL, H5Sget_simple_extent_npoints};
use hdf5_sys::h5t::{
    H5T_VARIABLE, H5T_class_t, H5Tcopy, H5Tget_class, H5Tget_cset, H5Tget_size, H5Tis_variable_str, H5Treclaim,
    H5Tset_cset, H5Tset_size,
};

use super::{Flaw, Handle, Object, c_string, handle, locked, status};

/// Something that holds elements: an attribute or a dataset.
struct Holder<'a> {
    kind: Handle,
    space: Handle,
    read: &'a dyn Fn(hid_t, *mut c_void) -> i32,
}

impl Object {
    /// The elements of this dataset as numbers, row-major. Booleans are 0 and 1.
    pub(crate) fn numbers(&self) -> Result<Vec<f64>, Flaw> {
        self.hold(|holder| holder.numbers())
    }

    /// The first element of this dataset as a text.
    pub(crate) fn text(&self) -> Result<String, Flaw> {
        self.hold(|holder| holder.text())
    }

    /// The first element of an attribute as a text; `None` where there is no such attribute.
    pub(crate) fn text_attribute(&self, name: &str) -> Option<String> {
        self.hold_attribute(name, |holder| holder.text())
    }

    fn hold<T>(&self, take: impl FnOnce(&Holder<'_>) -> Result<T, Flaw>) -> Result<T, Flaw> {
        let id = self.0.0;
        self.check_files()?;
        // SAFETY: the identifier is valid. `Holder` gives buffers that hold all elements.
        unsafe {
            let read = |kind, buffer| H5Dread(id, kind, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer);
            take(&Holder { kind: handle(|| H5Dget_type(id))?, space: handle(|| H5Dget_space(id))?, read: &read })
        }
    }

    fn hold_attribute<T>(&self, name: &str, take: impl FnOnce(&Holder<'_>) -> Result<T, Flaw>) -> Option<T> {
        let name = c_string(name).ok()?;
        // SAFETY: the identifier is valid and the name ends in NUL. `Holder` gives buffers that hold
        // all elements.
        unsafe {
            if status(|| H5Aexists(self.0.0, name.as_ptr())) != Ok(1) {
                return None;
            }
            let attribute = handle(|| H5Aopen(self.0.0, name.as_ptr(), H5P_DEFAULT)).ok()?;
            let read = |kind, buffer| H5Aread(attribute.0, kind, buffer);
            let kind = handle(|| H5Aget_type(attribute.0)).ok()?;
            let space = handle(|| H5Aget_space(attribute.0)).ok()?;
            take(&Holder { kind, space, read: &read }).ok()
        }
    }
}

impl Holder<'_> {
    fn count(&self) -> Result<usize, Flaw> {
        // SAFETY: the dataspace is valid.
        status(|| unsafe { H5Sget_simple_extent_npoints(self.space.0) }).map(|count| count as usize)
    }

    fn class(&self) -> H5T_class_t {
        // SAFETY: the type is valid.
        locked(|| unsafe { H5Tget_class(self.kind.0) })
    }

    fn numbers(&self) -> Result<Vec<f64>, Flaw> {
        match self.class() {
            H5T_class_t::H5T_INTEGER | H5T_class_t::H5T_FLOAT | H5T_class_t::H5T_ENUM => (),
            _ => return Err(Flaw::new("not numbers")),
        }
        let mut numbers = vec![0.0; self.count()?];
        status(|| (self.read)(*H5T_NATIVE_DOUBLE, numbers.as_mut_ptr().cast()))?;
        Ok(numbers)
    }

    fn text(&self) -> Result<String, Flaw> {
        let count = self.count()?;
        if self.class() != H5T_class_t::H5T_STRING || count == 0 {
            return Err(Flaw::new("not a text"));
        }
        // SAFETY: the type is valid.
        let bytes = match status(|| unsafe { H5Tis_variable_str(self.kind.0) })? {
            0 => self.fixed_text(count)?,
            _ => self.variable_text(count)?,
        };
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Texts of one length, filled up with NUL or spaces.
    fn fixed_text(&self, count: usize) -> Result<Vec<u8>, Flaw> {
        // SAFETY: the type is valid.
        let size = locked(|| unsafe { H5Tget_size(self.kind.0) });
        let mut bytes = vec![0_u8; size * count];
        status(|| (self.read)(self.kind.0, bytes.as_mut_ptr().cast()))?;
        let end = bytes[..size].iter().position(|&byte| byte == 0).unwrap_or(size);
        Ok(bytes[..end].trim_ascii_end().to_vec())
    }

    /// Texts of their own lengths, which the library allocates.
    fn variable_text(&self, count: usize) -> Result<Vec<u8>, Flaw> {
        // SAFETY: the types and the dataspace are valid; the library fills in one pointer an element, to a
        // text that ends in NUL, or NULL, and takes them back.
        unsafe {
            let kind = handle(|| H5Tcopy(*H5T_C_S1))?;
            status(|| H5Tset_size(kind.0, H5T_VARIABLE))?;
            status(|| H5Tset_cset(kind.0, H5Tget_cset(self.kind.0)))?;
            let mut texts: Vec<*mut c_char> = vec![null_mut(); count];
            status(|| (self.read)(kind.0, texts.as_mut_ptr().cast()))?;
            let first = if texts[0].is_null() { Vec::new() } else { CStr::from_ptr(texts[0]).to_bytes().to_vec() };
            status(|| H5Treclaim(kind.0, self.space.0, H5P_DEFAULT, texts.as_mut_ptr().cast()))?;
            Ok(first)
        }
    }
}
