//! Writes datasets that the HDF5 crate can't: of either byte order, and virtual ones over any union
//! of frames.
#![allow(unsafe_code)]

use std::ffi::CString;

use frames::source::Dtype;
use hdf5::globals::*;
use hdf5::{Dataset, File, Group};
use hdf5_sys::h5d::{H5Dclose, H5Dcreate2};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::{
    H5P_CLS_DATASET_CREATE, H5P_DEFAULT, H5Pclose, H5Pcreate, H5Pset_chunk, H5Pset_virtual,
};
use hdf5_sys::h5s::{
    H5S_UNLIMITED, H5S_seloper_t, H5Sclose, H5Screate_simple, H5Sselect_hyperslab,
};

/// Creates a chunked dataset of this type and byte order.
pub fn create_chunked(
    file: &File,
    name: &str,
    kind: Dtype,
    big: bool,
    shape: [u64; 3],
    chunk: [u64; 3],
) -> Dataset {
    let stored = match (kind, big) {
        (Dtype::U8, _) => *H5T_STD_U8LE,
        (Dtype::I8, _) => *H5T_STD_I8LE,
        (Dtype::U16, false) => *H5T_STD_U16LE,
        (Dtype::I16, false) => *H5T_STD_I16LE,
        (Dtype::U32, false) => *H5T_STD_U32LE,
        (Dtype::I32, false) => *H5T_STD_I32LE,
        (Dtype::U64, false) => *H5T_STD_U64LE,
        (Dtype::I64, false) => *H5T_STD_I64LE,
        (Dtype::F32, false) => *H5T_IEEE_F32LE,
        (Dtype::F64, false) => *H5T_IEEE_F64LE,
        (Dtype::U16, true) => *H5T_STD_U16BE,
        (Dtype::I16, true) => *H5T_STD_I16BE,
        (Dtype::U32, true) => *H5T_STD_U32BE,
        (Dtype::I32, true) => *H5T_STD_I32BE,
        (Dtype::U64, true) => *H5T_STD_U64BE,
        (Dtype::I64, true) => *H5T_STD_I64BE,
        (Dtype::F32, true) => *H5T_IEEE_F32BE,
        (Dtype::F64, true) => *H5T_IEEE_F64BE,
    };
    // SAFETY: identifiers are valid, and each buffer has the length that is passed with it.
    hdf5::sync::sync(|| unsafe {
        let creation = H5Pcreate(*H5P_CLS_DATASET_CREATE);
        assert!(H5Pset_chunk(creation, 3, chunk.as_ptr()) >= 0);
        create(file, name, stored, &shape, &shape, creation);
    });
    file.dataset(name).unwrap()
}

/// A strided range of frames: first frame, number of frames, and stride.
pub type Run = (u64, u64, u64);

/// A mapping: frames of the virtual dataset; file, dataset and extents of the source; and frames of
/// the source.
pub struct Mapping<'a> {
    pub here: &'a [Run],
    pub file: &'a str,
    pub dataset: &'a str,
    pub extents: [u64; 3],
    pub there: &'a [Run],
}

/// Creates a virtual dataset of u16 over any union of frames. An unlimited number of frames is
/// `H5S_UNLIMITED`.
pub fn create_virtual(group: &Group, name: &str, shape: [u64; 3], mappings: &[Mapping<'_>]) {
    let unlimited =
        mappings.iter().any(|mapping| mapping.here.iter().any(|run| run.1 == H5S_UNLIMITED));
    let most = if unlimited { [H5S_UNLIMITED, shape[1], shape[2]] } else { shape };
    // SAFETY: identifiers are valid, buffers have the length that is passed with them, and names
    // end in NUL.
    hdf5::sync::sync(|| unsafe {
        let creation = H5Pcreate(*H5P_CLS_DATASET_CREATE);
        for mapping in mappings {
            let here = selection(&shape, &most, mapping.here);
            let open = mapping.there.iter().any(|run| run.1 == H5S_UNLIMITED);
            let rows = if open { H5S_UNLIMITED } else { mapping.extents[0] };
            let there = selection(
                &mapping.extents,
                &[rows, mapping.extents[1], mapping.extents[2]],
                mapping.there,
            );
            let (file, dataset) =
                (CString::new(mapping.file).unwrap(), CString::new(mapping.dataset).unwrap());
            assert!(H5Pset_virtual(creation, here, file.as_ptr(), dataset.as_ptr(), there) >= 0);
            H5Sclose(here);
            H5Sclose(there);
        }
        create(group, name, *H5T_STD_U16LE, &shape, &most, creation);
    });
}

unsafe fn selection(shape: &[u64; 3], most: &[u64; 3], runs: &[Run]) -> hid_t {
    // SAFETY: all buffers have three entries.
    unsafe {
        let space = H5Screate_simple(3, shape.as_ptr(), most.as_ptr());
        let mut how = H5S_seloper_t::H5S_SELECT_SET;
        for &(first, count, step) in runs {
            let (start, stride) = ([first, 0, 0], [step, 1, 1]);
            let (count, block) = ([count, 1, 1], [1, shape[1], shape[2]]);
            assert!(
                H5Sselect_hyperslab(
                    space,
                    how,
                    start.as_ptr(),
                    stride.as_ptr(),
                    count.as_ptr(),
                    block.as_ptr()
                ) >= 0
            );
            how = H5S_seloper_t::H5S_SELECT_OR;
        }
        space
    }
}

unsafe fn create(
    group: &Group,
    name: &str,
    stored: hid_t,
    shape: &[u64; 3],
    most: &[u64; 3],
    creation: hid_t,
) {
    let name = CString::new(name).unwrap();
    // SAFETY: all buffers have three entries.
    unsafe {
        let space = H5Screate_simple(3, shape.as_ptr(), most.as_ptr());
        let dataset = H5Dcreate2(
            group.id(),
            name.as_ptr(),
            stored,
            space,
            H5P_DEFAULT,
            creation,
            H5P_DEFAULT,
        );
        assert!(dataset >= 0);
        H5Dclose(dataset);
        H5Sclose(space);
        H5Pclose(creation);
    }
}
