//! Restricts external links to regular files, because opening a FIFO or a device could block
//! forever.

use std::ffi::{CStr, OsStr, c_char, c_uint, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;

use hdf5_sys::h5::herr_t;
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::{H5P_CLS_LINK_ACCESS, H5Pcreate, H5Pset_elink_cb};
use system::untrusted_file;

use super::{Hdf5Id, LibraryError, call_for_id, call_for_status};

/// Returns the property list for opening objects.
pub(super) fn link_access() -> Result<hid_t, LibraryError> {
    static ACCESS: OnceLock<Result<Hdf5Id, LibraryError>> = OnceLock::new();
    let made = ACCESS.get_or_init(|| {
        // SAFETY: the class is a static of the library that it sets when it starts, which taking
        // the lock sees to: `call_for_id` calls this under the lock, so that nobody writes to it
        // meanwhile. The call takes only a number.
        let access = call_for_id(|| unsafe { H5Pcreate(*H5P_CLS_LINK_ACCESS) })?;
        // SAFETY: the list is open for as long as its handle lives. The function has the signature
        // of H5L_elink_traverse_t, lives as long as the program, and takes no data; a panic in it
        // aborts and does not unwind into C.
        call_for_status(|| unsafe {
            H5Pset_elink_cb(access.0, Some(on_external_link), null_mut())
        })?;
        Ok(access)
    });
    made.as_ref().map(|access| access.0).map_err(Clone::clone)
}

/// Called by the library before it opens the target of an external link; a negative result refuses.
extern "C" fn on_external_link(
    holder: *const c_char,
    _group: *const c_char,
    name: *const c_char,
    _object: *const c_char,
    _flags: *mut c_uint,
    _access: hid_t,
    _data: *mut c_void,
) -> herr_t {
    // SAFETY: the library gives texts that end in NUL, or NULL, and keeps them for as long as this
    // runs; they are copied.
    let path = |text: *const c_char| unsafe {
        (!text.is_null()).then(|| PathBuf::from(OsStr::from_bytes(CStr::from_ptr(text).to_bytes())))
    };
    let (Some(holder), Some(name)) = (path(holder), path(name)) else { return -1 };
    if candidate_paths(&holder, &name).iter().all(|path| check_not_special(path).is_ok()) {
        0
    } else {
        -1
    }
}

/// Rejects FIFOs, devices and sockets. Directories pass, because the system refuses to open them as
/// files anyway.
pub(super) fn check_not_special(path: &Path) -> io::Result<()> {
    match untrusted_file::check_not_special(path) {
        Err(why) if why.kind() != io::ErrorKind::IsADirectory => Err(why),
        _ => Ok(()),
    }
}

/// Returns all paths at which the library may look for `name` in the file `holder`: relative to the
/// current directory, beside `holder`, and beside the target of `holder` if it is a symbolic link.
pub(super) fn candidate_paths(holder: &Path, name: &Path) -> Vec<PathBuf> {
    let real = holder.canonicalize().ok();
    let directories =
        [Some(holder), real.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let beside = directories.flat_map(|directory| {
        [Some(directory.join(name)), name.file_name().map(|last| directory.join(last))]
            .into_iter()
            .flatten()
    });
    beside.chain([name.to_owned()]).collect()
}
