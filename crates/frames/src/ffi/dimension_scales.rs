//! HDF5 dimension scales: attributes that name the axes of a dataset, from which h5py, netCDF4 and
//! xarray take dimensions and coordinates.
//!
//! The attributes are those of the HDF5 Dimension Scale Specification, which the high-level library
//! would write, too:
//!
//! | attribute | of | |
//! |---|---|---|
//! | `CLASS`, `NAME` | the scale | `DIMENSION_SCALE`, and the scale's name: texts of fixed length that end in NUL |
//! | `REFERENCE_LIST` | the scale | each dataset that uses the scale, with the dimension |
//! | `DIMENSION_LIST` | the dataset | for each dimension, a list of its scales |

use std::ffi::{c_uint, c_void};
use std::mem::offset_of;
use std::ptr;

use hdf5_sys::h5a::{H5Acreate2, H5Awrite};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5r::H5R_type_t::H5R_OBJECT1;
use hdf5_sys::h5r::{H5Rcreate, hobj_ref_t};
use hdf5_sys::h5s::{H5S_class_t, H5Screate, H5Screate_simple};
use hdf5_sys::h5t::{
    H5T_C_S1, H5T_NATIVE_UINT, H5T_STD_REF_OBJ, H5T_class_t, H5Tcopy, H5Tcreate, H5Tinsert,
    H5Tset_size, H5Tvlen_create, hvl_t,
};

use super::{Hdf5Id, LibraryError, c_string, call_for_id, call_for_status, with_library_lock};

const CLASS: &str = "DIMENSION_SCALE";

/// A dataset and the scales of its dimensions.
pub struct ScaledDataset<'a> {
    /// Name of the dataset in its group.
    pub name: &'a str,
    /// Names of the scales, which are datasets of the same group, one for each dimension.
    pub scales: Vec<&'a str>,
}

/// An entry of `REFERENCE_LIST`.
#[repr(C)]
struct ScaleUse {
    dataset: hobj_ref_t,
    dimension: c_uint,
}

/// Makes datasets of a group the dimension scales of other datasets of the group. None of them may
/// have scales, or be one, before.
///
/// # Errors
/// The HDF5 library fails; a dataset or scale does not exist.
pub fn attach_dimension_scales(
    group: &hdf5::Group,
    datasets: &[ScaledDataset],
) -> Result<(), LibraryError> {
    let mut scales: Vec<&str> =
        datasets.iter().flat_map(|dataset| dataset.scales.iter().copied()).collect();
    scales.sort_unstable();
    scales.dedup();
    for scale in scales {
        let mut uses = Vec::new();
        for ScaledDataset { name, scales } in datasets {
            for (dimension, _) in (0..).zip(scales).filter(|(_, used)| **used == scale) {
                uses.push(ScaleUse { dataset: reference(group, name)?, dimension });
            }
        }
        write_scale(group, scale, &uses)?;
    }
    datasets.iter().try_for_each(|dataset| write_dimension_list(group, dataset))
}

fn write_scale(group: &hdf5::Group, name: &str, uses: &[ScaleUse]) -> Result<(), LibraryError> {
    let scale = open(group, name)?;
    write_text(scale.id(), "CLASS", CLASS)?;
    write_text(scale.id(), "NAME", name)?;
    // SAFETY: a size of a type in bytes; the library's constants are initialized once a file is
    // open.
    let kind =
        call_for_id(|| unsafe { H5Tcreate(H5T_class_t::H5T_COMPOUND, size_of::<ScaleUse>()) })?;
    for (member, offset, kind_of_member) in [
        ("dataset", offset_of!(ScaleUse, dataset), *H5T_STD_REF_OBJ),
        ("dimension", offset_of!(ScaleUse, dimension), *H5T_NATIVE_UINT),
    ] {
        let member = c_string(member)?;
        // SAFETY: the type is open, and has room for the member at its offset in `ScaleUse`.
        call_for_status(|| unsafe { H5Tinsert(kind.0, member.as_ptr(), offset, kind_of_member) })?;
    }
    write_list(scale.id(), "REFERENCE_LIST", &kind, uses)
}

fn write_dimension_list(group: &hdf5::Group, dataset: &ScaledDataset) -> Result<(), LibraryError> {
    let mut references = dataset
        .scales
        .iter()
        .map(|scale| reference(group, scale))
        .collect::<Result<Vec<_>, _>>()?;
    let lists: Vec<hvl_t> = references
        .iter_mut()
        .map(|scale| hvl_t { len: 1, p: ptr::from_mut(scale).cast() })
        .collect();
    // SAFETY: the constant is a type of the library.
    let kind = call_for_id(|| unsafe { H5Tvlen_create(*H5T_STD_REF_OBJ) })?;
    write_list(open(group, dataset.name)?.id(), "DIMENSION_LIST", &kind, &lists)
}

fn open(group: &hdf5::Group, name: &str) -> Result<hdf5::Dataset, LibraryError> {
    group.dataset(name).map_err(|why| LibraryError::new(format!("{name}: {why}")))
}

/// Returns the reference to a dataset of the group.
fn reference(group: &hdf5::Group, name: &str) -> Result<hobj_ref_t, LibraryError> {
    let (name, mut reference): (_, hobj_ref_t) = (c_string(name)?, 0);
    let into = ptr::from_mut(&mut reference).cast::<c_void>();
    // SAFETY: the group is open while it is borrowed, the name ends in NUL, and `reference` has
    // room for an object reference.
    call_for_status(|| unsafe { H5Rcreate(into, group.id(), name.as_ptr(), H5R_OBJECT1, -1) })?;
    Ok(reference)
}

/// Writes a text of fixed length that ends in NUL: other forms don't make a scale.
fn write_text(at: hid_t, attribute: &str, text: &str) -> Result<(), LibraryError> {
    let text = c_string(text)?;
    let bytes = text.as_bytes_with_nul();
    // SAFETY: the constant is a type of the library.
    let kind = call_for_id(|| unsafe { H5Tcopy(*H5T_C_S1) })?;
    // SAFETY: the type is open.
    call_for_status(|| unsafe { H5Tset_size(kind.0, bytes.len()) })?;
    // SAFETY: no argument is a pointer.
    let space = call_for_id(|| unsafe { H5Screate(H5S_class_t::H5S_SCALAR) })?;
    // SAFETY: `bytes` has as many bytes as the type.
    unsafe { write_attribute(at, attribute, &kind, &space, bytes.as_ptr().cast()) }
}

/// Writes an attribute with a list of values whose type in memory is `kind`.
fn write_list<T>(
    at: hid_t,
    attribute: &str,
    kind: &Hdf5Id,
    values: &[T],
) -> Result<(), LibraryError> {
    let length = values.len() as u64;
    // SAFETY: the pointer leads to the one extent.
    let space = call_for_id(|| unsafe { H5Screate_simple(1, &raw const length, ptr::null()) })?;
    // SAFETY: the callers give the type of `values`, of which there are as many as the space has.
    unsafe { write_attribute(at, attribute, kind, &space, values.as_ptr().cast()) }
}

/// # Safety
/// `values` leads to values of the type `kind`, as many as `space` has.
unsafe fn write_attribute(
    at: hid_t,
    name: &str,
    kind: &Hdf5Id,
    space: &Hdf5Id,
    values: *const c_void,
) -> Result<(), LibraryError> {
    let name = c_string(name)?;
    with_library_lock(|| {
        // SAFETY: object, type and space are open, and the name ends in NUL.
        let attribute = call_for_id(|| unsafe {
            H5Acreate2(at, name.as_ptr(), kind.0, space.0, H5P_DEFAULT, H5P_DEFAULT)
        })?;
        // SAFETY: by the contract of this function. The library reads the values and keeps none.
        call_for_status(|| unsafe { H5Awrite(attribute.0, kind.0, values) }).map(drop)
    })
}
