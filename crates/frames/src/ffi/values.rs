//! Numbers and texts, in datasets and attributes, of whatever type they are stored in.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use hdf5::globals::{H5T_C_S1, H5T_NATIVE_DOUBLE};
use hdf5_sys::h5a::{H5Aexists, H5Aget_space, H5Aget_type, H5Aopen, H5Aread};
use hdf5_sys::h5d::{H5Dget_space, H5Dget_type, H5Dread};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5s::{H5S_seloper_t, H5Scopy, H5Screate_simple, H5Sget_simple_extent_npoints, H5Sselect_hyperslab};
use hdf5_sys::h5t::{H5T_VARIABLE, H5Tcopy, H5Tget_size, H5Tis_variable_str, H5Treclaim, H5Tset_size};

use super::dataset::{element_class, extents};
use super::{ElementClass, Flaw, Handle, Object, buffer, c_string, handle, locked, raw, status};

/// The most numbers of an array that are read: the corners of 16 million pixels are 200 million.
const MOST_NUMBERS: u64 = 1 << 28;

/// The longest text that is read.
const LONGEST_TEXT: u64 = 16 << 20;

/// The most elements of an attribute whose first is read.
const MOST_TEXTS: u64 = 1 << 16;

/// Something that holds elements: an attribute, a dataset, or the first element of a dataset.
struct Holder<'a> {
    kind: Handle,
    /// The elements that are read.
    space: Handle,
    /// Reads as many elements as `space` has, of the given type, into the given buffer.
    read: &'a dyn Fn(hid_t, *mut c_void) -> i32,
}

impl Object {
    /// The elements of this dataset as numbers, row-major. Booleans are 0 and 1.
    pub(crate) fn numbers(&self) -> Result<Vec<f64>, Flaw> {
        self.check_files()?;
        let id = self.0.0;
        // SAFETY: the dataset is open for as long as this object lives, the dataspace for as long as its handle. H5Dread writes as many
        // elements as `whole` has, of a type that `Holder` says, and `Holder` gives a buffer of that number. It is told of the
        // very dataspace that was counted: a virtual dataset, whose sources grow, may have more by now.
        unsafe {
            let space = handle(|| H5Dget_space(id))?;
            let whole = space.0;
            let read = |kind, buffer| H5Dread(id, kind, whole, whole, H5P_DEFAULT, buffer);
            Holder { kind: handle(|| H5Dget_type(id))?, space, read: &read }.numbers()
        }
    }

    /// Reads the first element of this dataset as a text, and no other; `None` where it holds none.
    pub(crate) fn text(&self) -> Result<Option<String>, Flaw> {
        self.first(|holder| holder.text())
    }

    /// Reads the first element of this dataset as a number, and no other; `None` where it holds none.
    pub(crate) fn first_number(&self) -> Result<Option<f64>, Flaw> {
        self.first(|holder| match holder.is_number() {
            true => Ok(holder.numbers()?.first().copied()),
            false => Ok(None),
        })
    }

    fn first<T>(&self, take: impl FnOnce(&Holder<'_>) -> Result<Option<T>, Flaw>) -> Result<Option<T>, Flaw> {
        self.check_files()?;
        let id = self.0.0;
        let Some((one, first)) = first_element(id)? else { return Ok(None) };
        // SAFETY: the dataset is open for as long as this object lives, both dataspaces for as long as their handles. H5Dread
        // writes the one element that `first` selects; `one` has room for one, and `Holder` gives a buffer of one.
        unsafe {
            let (memory, file) = (one.0, first.0);
            let read = |kind, buffer| H5Dread(id, kind, memory, file, H5P_DEFAULT, buffer);
            take(&Holder { kind: handle(|| H5Dget_type(id))?, space: one, read: &read })
        }
    }

    /// Reads the first element of an attribute as a text; `None` where there is no such attribute, or it is no text.
    pub(crate) fn text_attribute(&self, name: &str) -> Result<Option<String>, Flaw> {
        let name = c_string(name)?;
        // SAFETY: the object is open for as long as this lives, and the name ends in NUL. H5Aread writes as many elements as
        // the attribute has, of a type that `Holder` says; `Holder` gives a buffer of the number that `space` has, which is
        // the attribute's own.
        unsafe {
            if status(|| H5Aexists(self.0.0, name.as_ptr()))? == 0 {
                return Ok(None);
            }
            let attribute = handle(|| H5Aopen(self.0.0, name.as_ptr(), H5P_DEFAULT))?;
            let read = |kind, buffer| H5Aread(attribute.0, kind, buffer);
            let kind = handle(|| H5Aget_type(attribute.0))?;
            let space = handle(|| H5Aget_space(attribute.0))?;
            Holder { kind, space, read: &read }.text()
        }
    }
}

/// A dataspace of one element in memory, and the dataspace of a dataset with its first element selected; `None` where it has no
/// elements.
fn first_element(dataset: hid_t) -> Result<Option<(Handle, Handle)>, Flaw> {
    // SAFETY: the dataset is open for as long as its object lives.
    let whole = handle(|| unsafe { H5Dget_space(dataset) })?;
    let extents = extents(&whole)?;
    // SAFETY: the dataspace is open for as long as its handle lives.
    if status(|| unsafe { H5Sget_simple_extent_npoints(whole.0) })? == 0 {
        return Ok(None);
    }
    let (start, count) = (vec![0_u64; extents.len()], vec![1_u64; extents.len()]);
    // SAFETY: the dataspace is open; both lists have a number for each of its dimensions, and are read alone. No stride and no
    // block mean 1.
    unsafe {
        let first = handle(|| H5Scopy(whole.0))?;
        if !extents.is_empty() {
            let select = H5S_seloper_t::H5S_SELECT_SET;
            let (start, count) = (start.as_ptr(), count.as_ptr());
            status(|| H5Sselect_hyperslab(first.0, select, start, null_mut(), count, null_mut()))?;
        }
        let one = handle(|| H5Screate_simple(1, [1_u64].as_ptr(), null_mut()))?;
        Ok(Some((one, first)))
    }
}

impl Holder<'_> {
    /// The number of elements. The library multiplies the extents without a look at what the product wraps to.
    fn count(&self) -> Result<u64, Flaw> {
        // SAFETY: the dataspace is open for as long as its handle lives.
        let told = status(|| unsafe { H5Sget_simple_extent_npoints(self.space.0) })?;
        let extents = extents(&self.space)?;
        let product = extents.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
        // A dataspace that has no elements at all has no extents either.
        match product {
            Some(product) if product == told || (extents.is_empty() && told == 0) => Ok(told),
            _ => Err(Flaw::new(format!("extents {extents:?}: more elements than there are numbers"))),
        }
    }

    fn is_number(&self) -> bool {
        // SAFETY: the type is open for as long as its handle lives.
        let class = locked(|| unsafe { raw::H5Tget_class(self.kind.0) });
        matches!(class, raw::TYPE_INTEGER | raw::TYPE_FLOAT | raw::TYPE_ENUM)
    }

    fn numbers(&self) -> Result<Vec<f64>, Flaw> {
        if !self.is_number() {
            return Err(Flaw::new("not numbers"));
        }
        let mut numbers = buffer(0.0_f64, self.count()?, MOST_NUMBERS)?;
        status(|| (self.read)(*H5T_NATIVE_DOUBLE, numbers.as_mut_ptr().cast()))?;
        Ok(numbers)
    }

    fn text(&self) -> Result<Option<String>, Flaw> {
        let count = self.count()?;
        if element_class(&self.kind) != ElementClass::Text || count == 0 {
            return Ok(None);
        }
        // SAFETY: the type is open for as long as its handle lives.
        let bytes = match status(|| unsafe { H5Tis_variable_str(self.kind.0) })? {
            0 => self.fixed_text(count)?,
            _ => self.variable_text(count)?,
        };
        if bytes.len() as u64 > LONGEST_TEXT {
            return Err(Flaw::new(format!("a text of {} bytes: expected {LONGEST_TEXT} at the most", bytes.len())));
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Texts of one length, filled up with NUL or spaces.
    fn fixed_text(&self, count: u64) -> Result<Vec<u8>, Flaw> {
        // SAFETY: the type is open for as long as its handle lives.
        let size = locked(|| unsafe { H5Tget_size(self.kind.0) });
        let mut bytes = buffer(0_u8, count.saturating_mul(size as u64), LONGEST_TEXT)?;
        status(|| (self.read)(self.kind.0, bytes.as_mut_ptr().cast()))?;
        bytes.truncate(size);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        Ok(bytes.trim_ascii_end().to_vec())
    }

    /// Texts of their own lengths, which the library allocates.
    fn variable_text(&self, count: u64) -> Result<Vec<u8>, Flaw> {
        let mut texts = buffer(null_mut::<c_char>(), count, MOST_TEXTS)?;
        // SAFETY: both types and the dataspace are open for as long as their handles live. The buffer has a pointer for each
        // of the `count` elements that the library reads; the library fills each with NULL or a text that it has allocated
        // and that ends in NUL, for the type in memory is a variable-length text. H5Treclaim frees these and is told of the
        // same type, number and buffer; none of them is used after it.
        unsafe {
            let kind = handle(|| H5Tcopy(*H5T_C_S1))?;
            status(|| H5Tset_size(kind.0, H5T_VARIABLE))?;
            status(|| raw::H5Tset_cset(kind.0, raw::H5Tget_cset(self.kind.0)))?;
            // A read that fails may leave anything in the buffer, which is therefore not looked at, nor freed.
            status(|| (self.read)(kind.0, texts.as_mut_ptr().cast()))?;
            let first = match texts.first() {
                Some(text) if !text.is_null() => CStr::from_ptr(*text).to_bytes().to_vec(),
                _ => Vec::new(),
            };
            status(|| H5Treclaim(kind.0, self.space.0, H5P_DEFAULT, texts.as_mut_ptr().cast()))?;
            Ok(first)
        }
    }
}
