//! Safe wrappers for calls of the HDF5 library: global lock, owned handles, errors as text.
//!
//! The library has one lock for all calls and files, so this module reads only metadata; pixels are
//! read without the library. Files are opened read-only and without any file lock.
#![allow(unsafe_code)]

mod bitshuffle_filter;
mod dataset;
mod dataspace;
mod dimension_scales;
pub(crate) mod driver;
mod exists;
mod external_link_guard;
mod file;
mod library_start;
mod lookup3;
mod object;
mod raw;
mod stored_chunk;
mod values;
mod virtual_layout;
mod virtual_mappings;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use hdf5::{ErrorFrame, MinorErrorCode};
use hdf5_sys::h5i::{H5Idec_ref, hid_t};
use rustix::io::Errno;

pub(crate) use dataset::{
    ElementClass, ElementType, ExternalSegment, PipelineFilter, StorageLayout, StoredChunk,
};
pub use dimension_scales::{ScaledDataset, attach_dimension_scales};
pub use exists::{attribute_exists, link_exists};
pub use library_start::start_library;
pub(crate) use object::{Hdf5Link, Hdf5Object, LinkTarget, ObjectType};
pub use stored_chunk::{read_chunk, write_chunk};
pub(crate) use virtual_mappings::{ElementSelection, Hyperslab, VirtualMapping};

/// Error of a call of the HDF5 library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct LibraryError {
    /// Reason in one line: the failed system call's, or else the first error that the library
    /// reported.
    pub why: String,
    /// The `errno` of a failed system call. The file could not be read, which says nothing about
    /// its contents.
    pub errno: Option<i32>,
}

impl LibraryError {
    /// Returns an error that is not due to a system call.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), errno: None }
    }

    /// Returns the error for memory that could not be allocated, which is no defect of the file.
    pub(crate) fn no_memory(what: impl Display) -> Self {
        Self {
            why: format!("not enough memory for {what}"),
            errno: Some(Errno::NOMEM.raw_os_error()),
        }
    }

    /// Returns the error of the failed system call, which is no defect of the file.
    ///
    /// # Errors
    /// Returns `self` if no system call failed, so that the file itself is invalid.
    pub fn into_io(self) -> Result<io::Error, Self> {
        self.errno.map(io::Error::from_raw_os_error).ok_or(self)
    }
}

impl From<io::Error> for LibraryError {
    fn from(why: io::Error) -> Self {
        Self { why: why.to_string(), errno: why.raw_os_error() }
    }
}

impl From<hdf5::Error> for LibraryError {
    fn from(why: hdf5::Error) -> Self {
        if is_memory_error(&why) { Self::no_memory(&why) } else { Self::new(why.to_string()) }
    }
}

/// An identifier of the library, released on drop.
#[derive(Debug)]
struct Hdf5Id(hid_t);

impl Drop for Hdf5Id {
    fn drop(&mut self) {
        // SAFETY: the handle owns one reference to a valid identifier. A failure leaves nothing to
        // do.
        with_library_lock(|| unsafe { H5Idec_ref(self.0) });
    }
}

/// Number of library calls and listed chunks so far.
static CALL_COUNT: AtomicU64 = AtomicU64::new(0);

/// Returns a counter that increases as long as the library makes progress.
pub(crate) fn call_count() -> u64 {
    CALL_COUNT.load(Relaxed)
}

thread_local! {
    /// The `errno` of a storage that failed during the current call of the library, which doesn't
    /// keep it.
    static STORAGE_ERRNO: Cell<Option<i32>> = const { Cell::new(None) };
}

/// Records why a storage makes the current call fail. A missing file is not recorded, because the
/// library looks for it in several places.
fn record_storage_error(why: &io::Error) {
    if why.kind() != io::ErrorKind::NotFound {
        STORAGE_ERRNO.set(why.raw_os_error());
    }
}

fn count_call() {
    CALL_COUNT.fetch_add(1, Relaxed);
}

/// Makes a call while holding the library's lock.
pub(crate) fn with_library_lock<T>(call: impl FnOnce() -> T) -> T {
    let result = hdf5::sync::sync(call);
    count_call();
    result
}

/// Makes a call that returns a new identifier.
fn call_for_id(call: impl FnOnce() -> hid_t) -> Result<Hdf5Id, LibraryError> {
    with_library_lock(|| {
        STORAGE_ERRNO.take();
        let id = call();
        if id < 0 { Err(last_error()) } else { Ok(Hdf5Id(id)) }
    })
}

/// Makes a call that returns a count or a status, where a negative value is an error.
fn call_for_status<N: Into<i64>>(call: impl FnOnce() -> N) -> Result<u64, LibraryError> {
    with_library_lock(|| {
        STORAGE_ERRNO.take();
        u64::try_from(call().into()).map_err(|_| last_error())
    })
}

/// Makes a call that reads elements. For a source of a virtual dataset that it can't open or read,
/// the library returns the fill value and reports no error; this function returns the error of the
/// system.
fn call_to_read<N: Into<i64>>(call: impl FnOnce() -> N) -> Result<u64, LibraryError> {
    with_library_lock(|| {
        let done = call_for_status(call)?;
        match STORAGE_ERRNO.take() {
            Some(errno) if !is_refusal(errno) => Err(io::Error::from_raw_os_error(errno).into()),
            _ => Ok(done),
        }
    })
}

/// Returns whether an error is a lasting refusal of one path, such as a directory without search
/// permission. The library then looks for a source in another place.
fn is_refusal(errno: i32) -> bool {
    let refusals = [Errno::ACCESS, Errno::PERM, Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG];
    refusals.contains(&Errno::from_raw_os_error(errno))
}

/// Messages of failed system calls (lstat and realpath) whose `errno` the library doesn't keep.
/// They are reported as EIO.
const ERRNO_LESS_MESSAGES: [&str; 2] =
    ["can't retrieve stat info for file", "can't retrieve real path for file"];

/// Words in the library's messages for a failed `malloc`. A damaged file may request more than there
/// is, but so may a sound one under a limit, and the library doesn't know which. Its own tables have
/// gaps where it had no memory for an entry.
const NO_MEMORY_WORDS: [&str; 3] = ["memory", "alloc", "in skip list"];

/// The message of [`hdf5::Error::query`] if the library can't create the list of its errors.
const NO_STACK_MESSAGE: &str = "Could not get errorstack";

/// Returns whether the library failed for want of memory, which says nothing about the file.
/// Without memory, the library may fail without a reason; a damaged file always is one.
pub fn is_memory_error(error: &hdf5::Error) -> bool {
    match error {
        hdf5::Error::Internal(why) => why == NO_STACK_MESSAGE,
        hdf5::Error::HDF5(_) => error.stack().is_none_or(|stack| lacks_memory(&stack)),
    }
}

fn lacks_memory(stack: &[ErrorFrame]) -> bool {
    let is_about_memory = |entry: &ErrorFrame| {
        NO_MEMORY_WORDS.iter().any(|word| entry.desc().contains(word))
            || entry.minor_code() == MinorErrorCode::NoSpace
    };
    stack.is_empty() || stack.iter().any(is_about_memory)
}

/// Reads the library's error stack. The innermost entry is the cause, the outer ones are its
/// callers. The file driver includes `errno` in its entry, in a documented format.
fn last_error() -> LibraryError {
    if let Some(errno) = STORAGE_ERRNO.take() {
        return LibraryError {
            why: io::Error::from_raw_os_error(errno).to_string(),
            errno: Some(errno),
        };
    }
    let stack = hdf5::Error::query().ok().and_then(|error| error.stack());
    let Some(inner) = stack.as_ref().and_then(|stack| stack.last()) else {
        return LibraryError::no_memory("the HDF5 library to give a reason");
    };
    match stack.iter().flat_map(|stack| stack.iter()).find_map(|entry| parse_errno(entry.desc())) {
        Some(errno) => LibraryError {
            why: io::Error::from_raw_os_error(errno).to_string(),
            errno: Some(errno),
        },
        None if ERRNO_LESS_MESSAGES.contains(&inner.desc()) => {
            LibraryError { why: inner.desc().to_owned(), errno: Some(Errno::IO.raw_os_error()) }
        }
        None if stack.as_ref().is_some_and(|stack| lacks_memory(stack)) => {
            LibraryError::no_memory("what the file asks for")
        }
        None => LibraryError::new(inner.desc()),
    }
}

/// Parses the number in `unable to open file, errno = 24, error message = ...`.
fn parse_errno(description: &str) -> Option<i32> {
    let (_, behind) = description.rsplit_once(", errno = ")?;
    behind.split_once(',')?.0.parse().ok()
}

fn c_string(text: &str) -> Result<CString, LibraryError> {
    CString::new(text)
        .map_err(|_| LibraryError::new("a name with a NUL byte: HDF5 has no such names"))
}

/// Maximum length of the name of a link, file or dataset, in bytes.
const MAX_NAME_BYTES: usize = 1 << 20;

/// Allocates a buffer of `count` elements, as requested by a file, or returns an error if it
/// exceeds `most`.
fn zeroed_buffer<T: Clone>(value: T, count: u64, most: u64) -> Result<Vec<T>, LibraryError> {
    let refuse = || LibraryError::new(format!("{count} elements: expected at most {most}"));
    let count = usize::try_from(count).ok().filter(|_| count <= most).ok_or_else(refuse)?;
    let mut buffer = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    buffer
        .try_reserve_exact(count)
        .map_err(|_| LibraryError::no_memory(format_args!("{bytes} bytes")))?;
    buffer.resize(count, value);
    Ok(buffer)
}

/// Reads a text by a call that fills a buffer and returns the text's length.
fn read_string<N: Into<i64>>(
    call: impl Fn(*mut c_char, usize) -> N,
) -> Result<Vec<u8>, LibraryError> {
    with_library_lock(|| {
        let length = call_for_status(|| call(std::ptr::null_mut(), 0))?;
        let mut bytes = zeroed_buffer(0_u8, length.saturating_add(1), MAX_NAME_BYTES as u64)?;
        call_for_status(|| call(bytes.as_mut_ptr().cast(), bytes.len()))?;
        let text = CStr::from_bytes_until_nul(&bytes)
            .map_err(|_| LibraryError::new("a name that does not end with a NUL byte"))?;
        Ok(text.to_bytes().to_vec())
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a file with an external link to the object of the same name in another file.
    pub(crate) fn create_file_with_link(path: &std::path::Path, name: &str, target: &str) {
        hdf5::File::create(path).unwrap().link_external(target, name, name).unwrap();
    }

    /// Creates datasets of 4 numbers: one that is stored, and for each name one that shows a
    /// dataset of a file.
    pub(crate) fn create_virtual_datasets(path: &std::path::Path, shown: &[(&str, &str, &str)]) {
        let file = hdf5::File::create(path).unwrap();
        file.new_dataset_builder().with_data(&[1.0, 2.0, 3.0, 4.0]).create("stored").unwrap();
        for (name, source, dataset) in shown {
            let builder = file.new_dataset::<f64>().shape([4]);
            builder.virtual_map(source, dataset, [4], .., [4], ..).create(*name).unwrap();
        }
    }

    #[test]
    fn memory_that_is_not_there_is_no_damage() {
        let most = u64::MAX;
        let error = zeroed_buffer(0_u8, 1 << 62, most).unwrap_err();
        assert_eq!(error.why, format!("not enough memory for {} bytes", 1_u64 << 62));
        assert_eq!(error.into_io().unwrap().kind(), io::ErrorKind::OutOfMemory);
        // A file that asks for more than any sound one is damaged.
        let error = zeroed_buffer(0_u8, 11, 10).unwrap_err();
        assert!(error.into_io().is_err());
    }
}
