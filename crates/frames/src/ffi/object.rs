//! Files, groups and datasets, and the links between them.

use std::ffi::{CStr, OsString, c_char, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr::null;

use hdf5_sys::h5::{H5_index_t, H5_iter_order_t};
use hdf5_sys::h5f::H5Fget_name;
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5l::{H5L_info2_t, H5Lexists, H5Lget_info2, H5Lget_val, H5Literate2, H5Lunpack_elink_val};
use hdf5_sys::h5o::H5Oopen;
use hdf5_sys::h5p::H5P_DEFAULT;

use super::links::link_access;
use super::{Flaw, Handle, LONGEST_NAME, buffer, c_string, handle, locked, raw, status, text_of};

/// An open file, group or dataset. A file stands for its root group.
#[derive(Debug)]
pub(crate) struct Object(pub(super) Handle);

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Group,
    Dataset,
    Other,
}

/// A name in a group, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub name: String,
    pub target: Target,
}

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An object of this file.
    Hard,
    /// A path in this file.
    Soft(String),
    /// A path in another file, whose name is as the link says it.
    External(PathBuf, String),
    /// A kind of link that only its author knows, or a path that is not UTF-8.
    Other,
}

const HARD: i32 = 0;
const SOFT: i32 = 1;
const EXTERNAL: i32 = 64;

impl Object {
    /// Opens what is at a path below this object, through whatever links lie on the way.
    pub(crate) fn open(&self, path: &str) -> Result<Self, Flaw> {
        let path = c_string(path)?;
        let access = link_access()?;
        // SAFETY: the identifier is valid and the path ends in NUL.
        handle(|| unsafe { H5Oopen(self.0.0, path.as_ptr(), access) }).map(Self)
    }

    pub(crate) fn kind(&self) -> Kind {
        // SAFETY: the identifier is valid.
        match locked(|| unsafe { raw::H5Iget_type(self.0.0) }) {
            raw::IS_FILE | raw::IS_GROUP => Kind::Group,
            raw::IS_DATASET => Kind::Dataset,
            _ => Kind::Other,
        }
    }

    /// The file that holds this object, which is another than the one that was opened where an
    /// external link lay on the way.
    pub(crate) fn file_name(&self) -> Result<PathBuf, Flaw> {
        // SAFETY: the identifier is valid; the buffer has the length that is told with it.
        let name = text_of(|buffer, length| unsafe { H5Fget_name(self.0.0, buffer, length) as i64 })?;
        Ok(OsString::from_vec(name).into())
    }

    /// Reads where a link of this group leads; `None` where there is no such link.
    ///
    /// # Errors
    /// The group can't be looked through, which is not the same as the link not being there.
    pub(crate) fn link(&self, name: &str) -> Result<Option<Target>, Flaw> {
        let name = c_string(name)?;
        locked(|| {
            let mut info = H5L_info2_t::default();
            // SAFETY: the name ends in NUL; the library fills in the structure.
            match status(|| unsafe { H5Lget_info2(self.0.0, name.as_ptr(), &raw mut info, H5P_DEFAULT) }) {
                // SAFETY: the structure is filled in.
                Ok(_) => target(self.0.0, &name, unsafe { link_type(&raw const info) }).map(Some),
                // SAFETY: the name ends in NUL.
                Err(flaw) => match status(|| unsafe { H5Lexists(self.0.0, name.as_ptr(), H5P_DEFAULT) })? {
                    0 => Ok(None),
                    _ => Err(flaw),
                },
            }
        })
    }

    /// The links of this group, by name. One whose name is not UTF-8 can't stand in a record, and is
    /// passed over.
    pub(crate) fn links(&self) -> Result<Vec<Link>, Flaw> {
        let (index, order) = (H5_index_t::H5_INDEX_NAME, H5_iter_order_t::H5_ITER_INC);
        locked(|| {
            let mut found: Vec<(Vec<u8>, i32)> = Vec::new();
            let data: *mut c_void = (&raw mut found).cast();
            // SAFETY: `data` is the vector that `collect` takes it for, and outlives the call.
            status(|| unsafe { H5Literate2(self.0.0, index, order, std::ptr::null_mut(), Some(collect), data) })?;
            let named = found.into_iter().filter_map(|(name, kind)| Some((String::from_utf8(name).ok()?, kind)));
            named
                .map(|(name, kind)| {
                    let target = target(self.0.0, &c_string(&name)?, kind)?;
                    Ok(Link { name, target })
                })
                .collect()
        })
    }
}

/// Adds the name and the type of a link to the vector at `data`.
unsafe extern "C" fn collect(_group: hid_t, name: *const c_char, info: *const H5L_info2_t, data: *mut c_void) -> i32 {
    // SAFETY: the library gives a text that ends in NUL and a filled-in structure; `data` is the
    // vector that `links` gave it, and nobody else has it.
    unsafe {
        let found = &mut *data.cast::<Vec<(Vec<u8>, i32)>>();
        found.push((CStr::from_ptr(name).to_bytes().to_vec(), link_type(info)));
    }
    0
}

/// The type of a link as a number: authors may register types that the enum does not have.
///
/// # Safety
/// `info` points to a structure that the library has filled in.
unsafe fn link_type(info: *const H5L_info2_t) -> i32 {
    // SAFETY: the field is a C enum, which has the size of an `i32`.
    unsafe { (&raw const (*info).type_).cast::<i32>().read() }
}

/// Where a link of this type leads.
fn target(group: hid_t, name: &CStr, kind: i32) -> Result<Target, Flaw> {
    if kind != SOFT && kind != EXTERNAL {
        return Ok(if kind == HARD { Target::Hard } else { Target::Other });
    }
    let mut info = H5L_info2_t::default();
    // SAFETY: the name ends in NUL; the library fills in the structure.
    status(|| unsafe { H5Lget_info2(group, name.as_ptr(), &raw mut info, H5P_DEFAULT) })?;
    // SAFETY: for soft and external links, the union holds the length of the value.
    let length = unsafe { *info.u.val_size() };
    // A NUL behind the value, whatever the file holds.
    let mut value = buffer(0_u8, (length as u64).saturating_add(1), LONGEST_NAME as u64)?;
    // SAFETY: the buffer has the length that is told with it.
    status(|| unsafe { H5Lget_val(group, name.as_ptr(), value.as_mut_ptr().cast(), length, H5P_DEFAULT) })?;
    if kind == SOFT {
        value.truncate(value.iter().position(|&byte| byte == 0).unwrap_or(length));
        return Ok(String::from_utf8(value).map_or(Target::Other, Target::Soft));
    }
    let (mut file, mut path) = (null(), null());
    // SAFETY: the value is what H5Lget_val gave. The texts lie in it and end in NUL.
    let (file, path) = unsafe {
        let unpack = || {
            H5Lunpack_elink_val(value.as_ptr().cast(), length, null::<u32>().cast_mut(), &raw mut file, &raw mut path)
        };
        status(unpack)?;
        (CStr::from_ptr(file).to_bytes().to_vec(), CStr::from_ptr(path).to_bytes().to_vec())
    };
    Ok(String::from_utf8(path).map_or(Target::Other, |path| Target::External(OsString::from_vec(file).into(), path)))
}
