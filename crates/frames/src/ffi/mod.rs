//! The calls into the HDF5 library, made safe: one lock, owned handles, errors in words.
//!
//! The library has one lock for all its calls and all its files, so everything here is for metadata;
//! pixels are read past it. Files are opened read-only, and without a file lock of any kind.
#![allow(unsafe_code)]

mod chunk;
mod dataset;
pub(crate) mod driver;
mod exists;
mod file;
mod links;
mod object;
mod raw;
mod selection;
mod values;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use hdf5_sys::h5i::{H5Idec_ref, hid_t};

pub use chunk::write_chunk;
pub(crate) use dataset::{ElementClass, ElementType, ExternalSegment, PipelineFilter, StorageLayout, StoredChunk};
pub use exists::{attribute_exists, link_exists};
pub(crate) use object::{Hdf5Link, Hdf5Object, LinkTarget, ObjectType};
pub(crate) use selection::{ElementSelection, Hyperslab, VirtualMapping};

/// What went wrong in a call of the library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct LibraryError {
    /// The reason in one line: the system's, where a system call failed, or else what the library noticed first.
    pub why: String,
    /// The number of the system's error where a system call failed: the file could not be looked at, which says nothing
    /// about what is in it.
    pub errno: Option<i32>,
}

impl LibraryError {
    /// Makes a flaw that is no failure of a system call.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), errno: None }
    }

    /// Returns the system's own error where a system call failed, of which the file is innocent.
    ///
    /// # Errors
    /// Gives the flaw back where the file is what is wrong.
    pub(crate) fn into_io(self) -> Result<io::Error, Self> {
        self.errno.map(io::Error::from_raw_os_error).ok_or(self)
    }
}

impl From<io::Error> for LibraryError {
    fn from(why: io::Error) -> Self {
        Self { why: why.to_string(), errno: why.raw_os_error() }
    }
}

/// An identifier of the library, given back when dropped.
#[derive(Debug)]
struct Hdf5Id(hid_t);

impl Drop for Hdf5Id {
    fn drop(&mut self) {
        // SAFETY: the handle owns one reference to a valid identifier. A failure leaves nothing to do.
        with_library_lock(|| unsafe { H5Idec_ref(self.0) });
    }
}

/// How often the library has got on with something.
static CALL_COUNT: AtomicU64 = AtomicU64::new(0);

/// Returns a number that rises as the library gets on.
pub(crate) fn call_count() -> u64 {
    CALL_COUNT.load(Relaxed)
}

thread_local! {
    /// The number of the system's error because of which a storage has failed during a call of the library, which does not keep it.
    static STORAGE_ERRNO: Cell<Option<i32>> = const { Cell::new(None) };
}

/// Notes why a storage fails the call that is under way. A file that is not there is none that failed: the library looks for it
/// in several places.
fn record_storage_error(why: &io::Error) {
    if why.kind() != io::ErrorKind::NotFound {
        STORAGE_ERRNO.set(why.raw_os_error());
    }
}

fn count_call() {
    CALL_COUNT.fetch_add(1, Relaxed);
}

/// Makes a call under the library's lock.
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

/// Makes a call that returns a count or a status, negative where it failed.
fn call_for_status<N: Into<i64>>(call: impl FnOnce() -> N) -> Result<u64, LibraryError> {
    with_library_lock(|| {
        STORAGE_ERRNO.take();
        u64::try_from(call().into()).map_err(|_| last_error())
    })
}

/// What the library says of system calls (lstat and realpath) whose error's number it does not keep. That is taken for EIO.
const ERRNO_LESS_MESSAGES: [&str; 2] = ["can't retrieve stat info for file", "can't retrieve real path for file"];

/// Reads the library's error stack. Its innermost entry says what is wrong, those above it say who asked. The file driver
/// puts the number of a system call's error into its entry, in a form that the library promises to keep.
fn last_error() -> LibraryError {
    if let Some(errno) = STORAGE_ERRNO.take() {
        return LibraryError { why: io::Error::from_raw_os_error(errno).to_string(), errno: Some(errno) };
    }
    let stack = hdf5::Error::query().ok().and_then(|error| error.stack());
    let Some(inner) = stack.as_ref().and_then(|stack| stack.last()) else {
        return LibraryError::new("HDF5 gives no reason");
    };
    match stack.iter().flat_map(|stack| stack.iter()).find_map(|entry| parse_errno(entry.desc())) {
        Some(errno) => LibraryError { why: io::Error::from_raw_os_error(errno).to_string(), errno: Some(errno) },
        None if ERRNO_LESS_MESSAGES.contains(&inner.desc()) => {
            LibraryError { why: inner.desc().to_owned(), errno: Some(rustix::io::Errno::IO.raw_os_error()) }
        }
        None => LibraryError::new(inner.desc()),
    }
}

/// The number in `unable to open file, errno = 24, error message = ...`.
fn parse_errno(description: &str) -> Option<i32> {
    let (_, behind) = description.rsplit_once(", errno = ")?;
    behind.split_once(',')?.0.parse().ok()
}

fn c_string(text: &str) -> Result<CString, LibraryError> {
    CString::new(text).map_err(|_| LibraryError::new("a name holds a NUL byte"))
}

/// The longest name of a link, file or dataset.
const MAX_NAME_BYTES: usize = 1 << 20;

/// Makes a buffer of this many elements, of which a file says that it needs so many.
fn zeroed_buffer<T: Clone>(value: T, count: u64, most: u64) -> Result<Vec<T>, LibraryError> {
    let refuse = || LibraryError::new(format!("{count} elements: expected {most} at the most"));
    let count = usize::try_from(count).ok().filter(|_| count <= most).ok_or_else(refuse)?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(count).map_err(|_| LibraryError::new(format!("no memory for {count} elements")))?;
    buffer.resize(count, value);
    Ok(buffer)
}

/// Reads a text that the library writes into a buffer and whose length it returns.
fn read_string<N: Into<i64>>(call: impl Fn(*mut c_char, usize) -> N) -> Result<Vec<u8>, LibraryError> {
    with_library_lock(|| {
        let length = call_for_status(|| call(std::ptr::null_mut(), 0))?;
        let mut bytes = zeroed_buffer(0_u8, length.saturating_add(1), MAX_NAME_BYTES as u64)?;
        call_for_status(|| call(bytes.as_mut_ptr().cast(), bytes.len()))?;
        let text = CStr::from_bytes_until_nul(&bytes).map_err(|_| LibraryError::new("a name without an end"))?;
        Ok(text.to_bytes().to_vec())
    })
}
