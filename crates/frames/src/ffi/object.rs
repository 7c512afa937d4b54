//! Opens files, groups and datasets, and reads the links between them.

use std::ffi::{CStr, OsString, c_char, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr::null;

use hdf5_sys::h5::{H5_index_t, H5_iter_order_t};
use hdf5_sys::h5f::H5Fget_name;
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5l::{
    H5L_info2_t, H5Lexists, H5Lget_info2, H5Lget_val, H5Literate2, H5Lunpack_elink_val,
};
use hdf5_sys::h5o::H5Oopen;
use hdf5_sys::h5p::H5P_DEFAULT;

use super::external_link_guard::link_access;
use super::{
    Hdf5Id, LibraryError, MAX_NAME_BYTES, c_string, call_for_id, call_for_status, raw, read_string,
    with_library_lock, zeroed_buffer,
};

/// An open file, group or dataset. A file is used as its root group.
#[derive(Debug)]
pub(crate) struct Hdf5Object(pub(super) Hdf5Id);

/// Type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectType {
    Group,
    Dataset,
    Other,
}

/// A link: its name in a group, and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hdf5Link {
    pub name: String,
    pub target: LinkTarget,
}

/// Target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkTarget {
    /// An object of this file.
    Hard,
    /// A path in the same file.
    Soft(String),
    /// A path in another file, whose name is given as written in the link.
    External(PathBuf, String),
    /// A user-defined link, or a path that is not UTF-8.
    Other,
}

const LINK_HARD: i32 = 0;
const LINK_SOFT: i32 = 1;
const LINK_EXTERNAL: i32 = 64;

impl Hdf5Object {
    /// Opens the object at a path below this one, following all links.
    pub(crate) fn open(&self, path: &str) -> Result<Self, LibraryError> {
        let path = c_string(path)?;
        let access = link_access()?;
        // SAFETY: the identifier is open for as long as this object's handle lives, and the list
        // for as long as the program. The path is a `CString`, which ends in NUL and outlives the
        // call; the library copies what it keeps of it.
        call_for_id(|| unsafe { H5Oopen(self.0.0, path.as_ptr(), access) }).map(Self)
    }

    /// Opens an object like [`Hdf5Object::open`]. `kind` names it in the error for a path that
    /// doesn't exist.
    ///
    /// # Errors
    /// The path doesn't exist; or a link on it leads nowhere, or the object is damaged, and the
    /// error says so.
    pub(crate) fn open_existing(&self, path: &str, kind: &str) -> Result<Self, LibraryError> {
        self.open(path).map_err(|err| match self.find_link(path) {
            _ if err.errno.is_some() => err,
            Err(why) if why.errno.is_some() => why,
            Ok(None) => LibraryError::new(format!("no such {kind}")),
            Ok(Some(LinkTarget::Soft(target))) => {
                LibraryError::new(format!("can't follow the link to {target}: {}", err.why))
            }
            Ok(Some(LinkTarget::External(file, target))) => LibraryError::new(format!(
                "can't follow the link to {}::{target}: {}",
                file.display(),
                err.why
            )),
            Ok(Some(LinkTarget::Hard | LinkTarget::Other)) | Err(_) => {
                LibraryError::new(format!("not readable as HDF5: {}", err.why))
            }
        })
    }

    /// Returns the target of the last link on a path from this group, or of the first one that
    /// can't be followed, or `None` if there is no such path.
    ///
    /// # Errors
    /// A group on the path can't be read.
    fn find_link(&self, path: &str) -> Result<Option<LinkTarget>, LibraryError> {
        let mut names = path.split('/').filter(|name| !name.is_empty() && *name != ".").peekable();
        let mut opened = None;
        while let Some(name) = names.next() {
            let at: &Self = opened.as_ref().unwrap_or(self);
            if at.object_type() != ObjectType::Group {
                return Ok(None);
            }
            let Some(target) = at.read_link(name)? else { return Ok(None) };
            if names.peek().is_none() {
                return Ok(Some(target));
            }
            opened = match at.open(name) {
                Ok(next) => Some(next),
                Err(why) if why.errno.is_some() => return Err(why),
                Err(_) => return Ok(Some(target)),
            };
        }
        Ok(None)
    }

    pub(crate) fn object_type(&self) -> ObjectType {
        // SAFETY: the call takes only a number, and returns an error value for an invalid
        // identifier.
        match with_library_lock(|| unsafe { raw::H5Iget_type(self.0.0) }) {
            raw::IS_FILE | raw::IS_GROUP => ObjectType::Group,
            raw::IS_DATASET => ObjectType::Dataset,
            _ => ObjectType::Other,
        }
    }

    /// Returns the name of the file that holds this object. It differs from the opened file if the
    /// path led through an external link.
    pub(crate) fn file_name(&self) -> Result<PathBuf, LibraryError> {
        // SAFETY: the identifier is open for as long as this object's handle lives. `read_string`
        // passes NULL with length 0, of which nothing is written, and then a buffer of the length
        // that it says: the library writes at most that many bytes, a NUL among them.
        let name =
            read_string(|buffer, length| unsafe { H5Fget_name(self.0.0, buffer, length) as i64 })?;
        Ok(OsString::from_vec(name).into())
    }

    /// Reads the target of a link in this group, or returns `None` if there is no such link.
    ///
    /// # Errors
    /// The group can't be read, so that it is unknown whether the link exists.
    pub(crate) fn read_link(&self, name: &str) -> Result<Option<LinkTarget>, LibraryError> {
        let name = c_string(name)?;
        with_library_lock(|| {
            let mut info = H5L_info2_t::default();
            // SAFETY: the group is open for as long as this object's handle lives, and the name is
            // a `CString`, which ends in NUL. The library fills in one structure of version 2,
            // which is what the bindings declare; `info` lives for longer.
            match call_for_status(|| unsafe {
                H5Lget_info2(self.0.0, name.as_ptr(), &raw mut info, H5P_DEFAULT)
            }) {
                Ok(_) => {
                    // SAFETY: the structure was filled in by the call above, which did not fail,
                    // and is borrowed for the read alone.
                    let link = unsafe { link_type(&raw const info) };
                    link_target(self.0.0, &name, link).map(Some)
                }
                // SAFETY: as for the call above: an open group, and a name that ends in NUL.
                // Nothing is filled in.
                Err(err) => match call_for_status(|| unsafe {
                    H5Lexists(self.0.0, name.as_ptr(), H5P_DEFAULT)
                })? {
                    0 => Ok(None),
                    _ => Err(err),
                },
            }
        })
    }

    /// Reads the links of this group in order of name. Links whose name is not UTF-8 are skipped,
    /// because records can't hold them.
    pub(crate) fn read_links(&self) -> Result<Vec<Hdf5Link>, LibraryError> {
        let (index, order) = (H5_index_t::H5_INDEX_NAME, H5_iter_order_t::H5_ITER_INC);
        with_library_lock(|| {
            let mut found: Vec<(Vec<u8>, i32)> = Vec::new();
            let data: *mut c_void = (&raw mut found).cast();
            // SAFETY: the group is open for as long as this object's handle lives. `data` is the
            // vector that `collect_link` takes it for; it outlives the call, and is not accessed
            // here before the call returns. Without a place to go on from, the library writes to
            // nothing else; its lock, which is held, keeps others from changing the group
            // meanwhile.
            call_for_status(|| unsafe {
                H5Literate2(self.0.0, index, order, std::ptr::null_mut(), Some(collect_link), data)
            })?;
            let named = found
                .into_iter()
                .filter_map(|(name, kind)| Some((String::from_utf8(name).ok()?, kind)));
            named
                .map(|(name, kind)| {
                    let target = link_target(self.0.0, &c_string(&name)?, kind)?;
                    Ok(Hdf5Link { name, target })
                })
                .collect()
        })
    }
}

/// Adds the name and the type of a link to the vector at `data`.
unsafe extern "C" fn collect_link(
    _group: hid_t,
    name: *const c_char,
    info: *const H5L_info2_t,
    data: *mut c_void,
) -> i32 {
    // SAFETY: H5Literate2 promises a text that ends in NUL and a filled-in structure, both valid
    // during this call; they are copied. `data` is the vector that `read_links` gave it, to which
    // nobody else has access until the library is done. A panic, for lack of memory, does not
    // unwind into C: at the end of an `extern "C"` function it aborts.
    unsafe {
        let found = &mut *data.cast::<Vec<(Vec<u8>, i32)>>();
        found.push((CStr::from_ptr(name).to_bytes().to_vec(), link_type(info)));
    }
    0
}

/// Returns the type of a link as a number, because user-defined types are missing in the bindings'
/// enum.
///
/// # Safety
/// `info` points to a structure that the library has filled in.
unsafe fn link_type(info: *const H5L_info2_t) -> i32 {
    // SAFETY: by the function's own condition the structure is there. The field is a C enum with a
    // negative value, which C compilers of this system keep as an `int`: four bytes, aligned as an
    // `i32`. No reference to it is made and its Rust enum is not read, so that a value which the
    // enum does not list is no undefined behaviour.
    unsafe { (&raw const (*info).type_).cast::<i32>().read() }
}

/// Reads the target of a link of this type.
fn link_target(group: hid_t, name: &CStr, kind: i32) -> Result<LinkTarget, LibraryError> {
    if kind != LINK_SOFT && kind != LINK_EXTERNAL {
        return Ok(if kind == LINK_HARD { LinkTarget::Hard } else { LinkTarget::Other });
    }
    let mut info = H5L_info2_t::default();
    // SAFETY: the caller has the group open, and the name ends in NUL. The library fills in one
    // structure, which outlives the call.
    call_for_status(|| unsafe { H5Lget_info2(group, name.as_ptr(), &raw mut info, H5P_DEFAULT) })?;
    // SAFETY: `object_type` was read from this link under the library's lock, and is soft or
    // external: for these the library sets the length of the union. It was zeroed before, and any
    // bytes are a number: were the link another one by now, the length would be wrong, and no more
    // than `length` bytes are written whatever it is.
    let length = unsafe { *info.u.val_size() };
    // Ensures a terminating NUL, whatever the file contains.
    let mut value = zeroed_buffer(0_u8, (length as u64).saturating_add(1), MAX_NAME_BYTES as u64)?;
    // SAFETY: an open group, and a name that ends in NUL, as above. The library writes `length`
    // bytes at most, and the buffer has one more.
    call_for_status(|| unsafe {
        H5Lget_val(group, name.as_ptr(), value.as_mut_ptr().cast(), length, H5P_DEFAULT)
    })?;
    if kind == LINK_SOFT {
        value.truncate(value.iter().position(|&byte| byte == 0).unwrap_or(length));
        return Ok(String::from_utf8(value).map_or(LinkTarget::Other, LinkTarget::Soft));
    }
    let (mut file, mut path) = (null(), null());
    // SAFETY: the value has `length` bytes of this link. H5Lunpack_elink_val refuses a value that
    // does not end in NUL or has no second text before its end, and else points to both in the
    // value, which outlives this call; NULL for the flags is allowed. The texts are copied, and the
    // pointers are not used where the call fails, for `?` leaves before.
    let (file, path) = unsafe {
        let unpack = || {
            H5Lunpack_elink_val(
                value.as_ptr().cast(),
                length,
                null::<u32>().cast_mut(),
                &raw mut file,
                &raw mut path,
            )
        };
        call_for_status(unpack)?;
        (CStr::from_ptr(file).to_bytes().to_vec(), CStr::from_ptr(path).to_bytes().to_vec())
    };
    Ok(String::from_utf8(path).map_or(LinkTarget::Other, |path| {
        LinkTarget::External(OsString::from_vec(file).into(), path)
    }))
}
