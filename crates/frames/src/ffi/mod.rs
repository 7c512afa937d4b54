//! The calls into the HDF5 library, made safe: one lock, owned handles, errors in words.
//!
//! The library has one lock for all its calls and all its files, so everything here is for metadata;
//! pixels are read past it. Files are opened read-only, and without a file lock of any kind.
#![allow(unsafe_code)]

mod chunk;
mod dataset;
mod file;
mod object;
mod selection;
mod values;

use std::ffi::{CStr, CString, c_char};

use hdf5_sys::h5i::{H5Idec_ref, hid_t};

pub use chunk::write_chunk;
pub(crate) use dataset::{Filter, Layout, PixelType, Segment, StoredChunk};
pub(crate) use object::{Kind, Link, Object, Target};
pub(crate) use selection::{Comb, Mapping, Selected};

/// What the library says went wrong, from the call that noticed it first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Flaw(pub String);

/// An identifier of the library, given back when dropped.
#[derive(Debug)]
struct Handle(hid_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle owns one reference to a valid identifier. A failure leaves nothing to do.
        locked(|| unsafe { H5Idec_ref(self.0) });
    }
}

/// Makes a call under the library's lock.
fn locked<T>(call: impl FnOnce() -> T) -> T {
    hdf5::sync::sync(call)
}

/// Makes a call that returns a new identifier.
fn handle(call: impl FnOnce() -> hid_t) -> Result<Handle, Flaw> {
    locked(|| {
        let id = call();
        if id < 0 { Err(flaw()) } else { Ok(Handle(id)) }
    })
}

/// Makes a call that returns a count or a status, negative where it failed.
fn status<N: Into<i64>>(call: impl FnOnce() -> N) -> Result<u64, Flaw> {
    locked(|| u64::try_from(call().into()).map_err(|_| flaw()))
}

/// The innermost entry of the library's error stack: it says what is wrong, those above it say who asked.
fn flaw() -> Flaw {
    let stack = hdf5::Error::query().ok().and_then(|error| error.stack());
    let inner = stack.as_ref().and_then(|stack| stack.last());
    Flaw(inner.map_or_else(|| "HDF5 gives no reason".to_owned(), |frame| frame.desc().to_owned()))
}

fn c_string(text: &str) -> Result<CString, Flaw> {
    CString::new(text).map_err(|_| Flaw("a name holds a NUL byte".to_owned()))
}

/// Reads a text that the library writes into a buffer and whose length it returns.
fn text_of<N: Into<i64>>(call: impl Fn(*mut c_char, usize) -> N) -> Result<Vec<u8>, Flaw> {
    locked(|| {
        let length = status(|| call(std::ptr::null_mut(), 0))? as usize;
        let mut bytes = vec![0_u8; length + 1];
        status(|| call(bytes.as_mut_ptr().cast(), bytes.len()))?;
        let text = CStr::from_bytes_until_nul(&bytes).map_err(|_| Flaw("a name without an end".to_owned()))?;
        Ok(text.to_bytes().to_vec())
    })
}
