//! Opening a file to look and not to touch.

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_ACC_SWMR_READ, H5Fopen};
use hdf5_sys::h5p::{H5P_CLS_FILE_ACCESS, H5Pcreate, H5Pset, H5Pset_file_locking};

use manners::foreign;

use super::{Flaw, Handle, Object, handle, status};

impl Object {
    /// Opens a file, read-only and without a lock.
    ///
    /// A file of the newest format that is being written, or whose writer died, says so in its first
    /// block, and the library refuses it. It is then opened as SWMR readers do, and if its writer
    /// does not write that way, as `h5clear` does, though the mark is cleared in memory alone.
    pub(crate) fn open_file(path: &Path) -> Result<Self, Flaw> {
        // The library would wait for the writer of a FIFO.
        foreign::check(path)?;
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Flaw::new("a path holds a NUL byte"))?;
        let open = |flags, access: &Handle| {
            // SAFETY: the name ends in NUL and the property list is valid.
            handle(|| unsafe { H5Fopen(name.as_ptr(), flags, access.0) })
        };
        let [plain, clearing] = access()?;
        let first = match open(H5F_ACC_RDONLY, plain) {
            Err(flaw) if flaw.why.contains("already open for") => flaw,
            opened => return opened.map(Self),
        };
        open(H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, plain)
            .or_else(|_| open(H5F_ACC_RDONLY, clearing))
            .map(Self)
            .map_err(|flaw| if flaw.errno.is_some() { flaw } else { first })
    }
}

/// How files are opened: without a lock; and the same, with the mark of a writer cleared in memory.
fn access() -> Result<&'static [Handle; 2], Flaw> {
    static ACCESS: OnceLock<Result<[Handle; 2], Flaw>> = OnceLock::new();
    ACCESS.get_or_init(|| Ok([unlocked()?, clearing()?])).as_ref().map_err(Clone::clone)
}

fn unlocked() -> Result<Handle, Flaw> {
    // SAFETY: the class is a constant that the library sets when it starts, which the lock sees to.
    let access = handle(|| unsafe { H5Pcreate(*H5P_CLS_FILE_ACCESS) })?;
    // SAFETY: the property list is valid.
    status(|| unsafe { H5Pset_file_locking(access.0, 0, 1) })?;
    Ok(access)
}

fn clearing() -> Result<Handle, Flaw> {
    let access = unlocked()?;
    let mut clear = true;
    let value: *mut c_void = (&raw mut clear).cast();
    // SAFETY: the name ends in NUL; the value is a C `bool`, as the property is, and the library copies it.
    status(|| unsafe { H5Pset(access.0, c"clear_status_flags".as_ptr(), value) })?;
    Ok(access)
}
