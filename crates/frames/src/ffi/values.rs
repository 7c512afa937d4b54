//! Reads numbers and texts from datasets and attributes, converting their stored types.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use hdf5::globals::{H5T_C_S1, H5T_NATIVE_DOUBLE};
use hdf5_sys::h5::{H5_index_t, H5_iter_order_t};
use hdf5_sys::h5a::{H5Aexists, H5Aget_space, H5Aget_type, H5Aopen, H5Aopen_by_idx, H5Aread};
use hdf5_sys::h5d::{H5Dget_space, H5Dget_type, H5Dread};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5s::{
    H5S_seloper_t, H5Scopy, H5Screate_simple, H5Sget_simple_extent_npoints, H5Sselect_hyperslab,
};
use hdf5_sys::h5t::{
    H5T_VARIABLE, H5Tcopy, H5Tget_size, H5Tis_variable_str, H5Treclaim, H5Tset_size,
};

use super::dataset::element_class;
use super::dataspace::dataspace_shape;
use super::{
    ElementClass, Hdf5Id, Hdf5Object, LibraryError, c_string, call_for_id, call_for_status,
    call_to_read, raw, with_library_lock, zeroed_buffer,
};

/// Maximum number of array elements to read. The corners of 16 million pixels are 200 million
/// numbers.
const MAX_NUMBERS: u64 = 1 << 28;

/// Maximum size of a text in bytes.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Maximum number of elements of an attribute whose first element is read.
const MAX_TEXTS: u64 = 1 << 16;

/// Reads the elements of an attribute or a dataset, or only the first element of a dataset.
struct ValueReader<'a> {
    kind: Hdf5Id,
    /// Dataspace of the elements to read.
    space: Hdf5Id,
    /// Reads all elements of `space` as the given type into the given buffer.
    read: &'a dyn Fn(hid_t, *mut c_void) -> i32,
}

impl Hdf5Object {
    /// Reads the elements of the dataset as numbers, row-major. Booleans become 0 and 1.
    pub(crate) fn read_numbers(&self) -> Result<Vec<f64>, LibraryError> {
        self.check_source_files()?;
        let id = self.0.0;
        // SAFETY: the dataset is open for as long as this object lives, the dataspace for as long
        // as its handle. H5Dread writes as many elements as `whole` has, of a type that
        // `ValueReader` says, and `ValueReader` gives a buffer of that number. It is told of the
        // very dataspace that was counted: a virtual dataset, whose sources grow, may have more by
        // now.
        unsafe {
            let space = call_for_id(|| H5Dget_space(id))?;
            let whole = space.0;
            let read = |kind, buffer| H5Dread(id, kind, whole, whole, H5P_DEFAULT, buffer);
            ValueReader { kind: call_for_id(|| H5Dget_type(id))?, space, read: &read }
                .read_numbers()
        }
    }

    /// Reads only the first element of the dataset as text, or returns `None` if it holds no text.
    pub(crate) fn read_text(&self) -> Result<Option<String>, LibraryError> {
        self.with_first_element(|holder| holder.read_text())
    }

    /// Reads only the first element of the dataset as a number, or returns `None` if it holds no
    /// number.
    pub(crate) fn read_first_number(&self) -> Result<Option<f64>, LibraryError> {
        self.with_first_element(|holder| match holder.is_number() {
            true => Ok(holder.read_numbers()?.first().copied()),
            false => Ok(None),
        })
    }

    fn with_first_element<T>(
        &self,
        take: impl FnOnce(&ValueReader<'_>) -> Result<Option<T>, LibraryError>,
    ) -> Result<Option<T>, LibraryError> {
        self.check_source_files()?;
        let id = self.0.0;
        let Some((one, first)) = select_first_element(id)? else { return Ok(None) };
        // SAFETY: the dataset is open for as long as this object lives, both dataspaces for as long
        // as their handles. H5Dread writes the one element that `with_first_element` selects; `one`
        // has room for one, and `ValueReader` gives a buffer of one.
        unsafe {
            let (memory, file) = (one.0, first.0);
            let read = |kind, buffer| H5Dread(id, kind, memory, file, H5P_DEFAULT, buffer);
            take(&ValueReader { kind: call_for_id(|| H5Dget_type(id))?, space: one, read: &read })
        }
    }

    /// Reads all attributes that can be read, and drops them.
    ///
    /// # Errors
    /// The system can't read the file.
    pub(crate) fn read_attributes(&self) -> Result<(), LibraryError> {
        for index in 0..MAX_TEXTS {
            let (by_name, upwards) = (H5_index_t::H5_INDEX_NAME, H5_iter_order_t::H5_ITER_INC);
            // SAFETY: the object is open for as long as this lives, and `.` names itself in a
            // literal that ends in NUL. H5Aread writes as many elements as the attribute has, of a
            // type that `ValueReader` says; `ValueReader` gives a buffer of the number that `space`
            // has, which is the attribute's own.
            unsafe {
                let opened = call_for_id(|| {
                    let (own, defaults) = (c".".as_ptr(), H5P_DEFAULT);
                    H5Aopen_by_idx(self.0.0, own, by_name, upwards, index, defaults, defaults)
                });
                let attribute = match opened {
                    Ok(attribute) => attribute,
                    Err(why) if why.errno.is_some() => return Err(why),
                    // Behind the last attribute, or one that can't be opened.
                    Err(_) => return Ok(()),
                };
                let read = |kind, buffer| H5Aread(attribute.0, kind, buffer);
                let kind = call_for_id(|| H5Aget_type(attribute.0))?;
                let space = call_for_id(|| H5Aget_space(attribute.0))?;
                match (ValueReader { kind, space, read: &read }.read_text()) {
                    Err(why) if why.errno.is_some() => return Err(why),
                    _ => (),
                }
            }
        }
        Ok(())
    }

    /// Reads the first element of an attribute as text, or returns `None` if the attribute doesn't
    /// exist or is no text.
    pub(crate) fn read_text_attribute(&self, name: &str) -> Result<Option<String>, LibraryError> {
        Ok(self.with_attribute(name, |attribute| attribute.read_text())?.flatten())
    }

    /// Reads the first element of an attribute as a number, or returns `None` if the attribute
    /// doesn't exist or is no number.
    pub(crate) fn read_number_attribute(&self, name: &str) -> Result<Option<f64>, LibraryError> {
        let read = |attribute: &ValueReader<'_>| match attribute.is_number() {
            true => Ok(attribute.read_numbers()?.first().copied()),
            false => Ok(None),
        };
        Ok(self.with_attribute(name, read)?.flatten())
    }

    /// Passes an attribute to `take`, or returns `None` if it doesn't exist.
    fn with_attribute<T>(
        &self,
        name: &str,
        take: impl FnOnce(&ValueReader<'_>) -> Result<T, LibraryError>,
    ) -> Result<Option<T>, LibraryError> {
        let name = c_string(name)?;
        // SAFETY: the object is open for as long as this lives, and the name ends in NUL. H5Aread
        // writes as many elements as the attribute has, of a type that `ValueReader` says;
        // `ValueReader` gives a buffer of the number that `space` has, which is the attribute's
        // own.
        unsafe {
            if call_for_status(|| H5Aexists(self.0.0, name.as_ptr()))? == 0 {
                return Ok(None);
            }
            let attribute = call_for_id(|| H5Aopen(self.0.0, name.as_ptr(), H5P_DEFAULT))?;
            let read = |kind, buffer| H5Aread(attribute.0, kind, buffer);
            let kind = call_for_id(|| H5Aget_type(attribute.0))?;
            let space = call_for_id(|| H5Aget_space(attribute.0))?;
            take(&ValueReader { kind, space, read: &read }).map(Some)
        }
    }
}

/// Returns a dataspace of one element for memory, and the dataset's dataspace with its first
/// element selected, or `None` if the dataset is empty.
fn select_first_element(dataset: hid_t) -> Result<Option<(Hdf5Id, Hdf5Id)>, LibraryError> {
    // SAFETY: the dataset is open for as long as its object lives.
    let whole = call_for_id(|| unsafe { H5Dget_space(dataset) })?;
    let extents = dataspace_shape(&whole)?;
    // SAFETY: the dataspace is open for as long as its handle lives.
    if call_for_status(|| unsafe { H5Sget_simple_extent_npoints(whole.0) })? == 0 {
        return Ok(None);
    }
    let (start, count) = (vec![0_u64; extents.len()], vec![1_u64; extents.len()]);
    // SAFETY: the dataspace is open; both lists have a number for each of its dimensions, and are
    // read alone. No stride and no block mean 1.
    unsafe {
        let first = call_for_id(|| H5Scopy(whole.0))?;
        if !extents.is_empty() {
            let select = H5S_seloper_t::H5S_SELECT_SET;
            let (start, count) = (start.as_ptr(), count.as_ptr());
            call_for_status(|| {
                H5Sselect_hyperslab(first.0, select, start, null_mut(), count, null_mut())
            })?;
        }
        let one = call_for_id(|| H5Screate_simple(1, [1_u64].as_ptr(), null_mut()))?;
        Ok(Some((one, first)))
    }
}

impl ValueReader<'_> {
    /// Returns the number of elements, and an error if the product of the extents overflows, which
    /// the library ignores.
    fn count(&self) -> Result<u64, LibraryError> {
        // SAFETY: the dataspace is open for as long as its handle lives.
        let told = call_for_status(|| unsafe { H5Sget_simple_extent_npoints(self.space.0) })?;
        let extents = dataspace_shape(&self.space)?;
        let product =
            extents.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
        // A null dataspace has no elements, and no extents either.
        match product {
            Some(product) if product == told || (extents.is_empty() && told == 0) => Ok(told),
            _ => Err(LibraryError::new(format!(
                "extents {extents:?}: more elements than a 64-bit number can count"
            ))),
        }
    }

    fn is_number(&self) -> bool {
        // SAFETY: the type is open for as long as its handle lives.
        let class = with_library_lock(|| unsafe { raw::H5Tget_class(self.kind.0) });
        matches!(class, raw::TYPE_INTEGER | raw::TYPE_FLOAT | raw::TYPE_ENUM)
    }

    fn read_numbers(&self) -> Result<Vec<f64>, LibraryError> {
        if !self.is_number() {
            return Err(LibraryError::new(
                "not numbers: expected integers or floating-point numbers",
            ));
        }
        let mut numbers = zeroed_buffer(0.0_f64, self.count()?, MAX_NUMBERS)?;
        call_to_read(|| (self.read)(*H5T_NATIVE_DOUBLE, numbers.as_mut_ptr().cast()))?;
        Ok(numbers)
    }

    fn read_text(&self) -> Result<Option<String>, LibraryError> {
        let count = self.count()?;
        if element_class(&self.kind) != ElementClass::Text || count == 0 {
            return Ok(None);
        }
        // SAFETY: the type is open for as long as its handle lives.
        let bytes = match call_for_status(|| unsafe { H5Tis_variable_str(self.kind.0) })? {
            0 => self.read_fixed_text(count)?,
            _ => self.read_variable_text(count)?,
        };
        if bytes.len() as u64 > MAX_TEXT_BYTES {
            return Err(LibraryError::new(format!(
                "a text of {} bytes: expected at most {MAX_TEXT_BYTES}",
                bytes.len()
            )));
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Reads texts of fixed length, padded with NUL or spaces.
    fn read_fixed_text(&self, count: u64) -> Result<Vec<u8>, LibraryError> {
        // SAFETY: the type is open for as long as its handle lives.
        let size = with_library_lock(|| unsafe { H5Tget_size(self.kind.0) });
        let mut bytes = zeroed_buffer(0_u8, count.saturating_mul(size as u64), MAX_TEXT_BYTES)?;
        call_to_read(|| (self.read)(self.kind.0, bytes.as_mut_ptr().cast()))?;
        bytes.truncate(size);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        Ok(bytes.trim_ascii_end().to_vec())
    }

    /// Reads texts of variable length, which the library allocates.
    fn read_variable_text(&self, count: u64) -> Result<Vec<u8>, LibraryError> {
        let mut texts = zeroed_buffer(null_mut::<c_char>(), count, MAX_TEXTS)?;
        // SAFETY: both types and the dataspace are open for as long as their handles live. The
        // buffer has a pointer for each of the `count` elements that the library reads; the library
        // fills each with NULL or a text that it has allocated and that ends in NUL, for the type
        // in memory is a variable-length text. H5Treclaim frees these and gets the same type,
        // number and buffer; none of them is used afterwards.
        unsafe {
            let kind = call_for_id(|| H5Tcopy(*H5T_C_S1))?;
            call_for_status(|| H5Tset_size(kind.0, H5T_VARIABLE))?;
            call_for_status(|| raw::H5Tset_cset(kind.0, raw::H5Tget_cset(self.kind.0)))?;
            // After a failed read, the buffer may hold anything. Its pointers are neither read nor
            // freed.
            call_to_read(|| (self.read)(kind.0, texts.as_mut_ptr().cast()))?;
            let first = match texts.first() {
                Some(text) if !text.is_null() => CStr::from_ptr(*text).to_bytes().to_vec(),
                _ => Vec::new(),
            };
            call_for_status(|| {
                H5Treclaim(kind.0, self.space.0, H5P_DEFAULT, texts.as_mut_ptr().cast())
            })?;
            Ok(first)
        }
    }
}
