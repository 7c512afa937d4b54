//! Reads the mappings of virtual datasets: which elements correspond to which elements of the
//! sources.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use hdf5_sys::h5p::{
    H5Pget_virtual_count, H5Pget_virtual_dsetname, H5Pget_virtual_filename,
    H5Pget_virtual_srcspace, H5Pget_virtual_vspace,
};
use hdf5_sys::h5s::{
    H5S_UNLIMITED, H5Sget_regular_hyperslab, H5Sget_select_hyper_blocklist,
    H5Sget_select_hyper_nblocks,
};

use super::dataspace::dataspace_shape;
use super::{
    Hdf5Id, LibraryError, call_for_id, call_for_status, raw, read_string, with_library_lock,
    zeroed_buffer,
};

/// Maximum number of coordinates in the boxes of a selection.
const MAX_BOX_CORNERS: u64 = 1 << 26;

/// A mapping: the k-th element of `virtual_selection`, in row-major order, is the k-th one of
/// `source_selection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VirtualMapping {
    /// Source file; `.` is the file of the virtual dataset itself.
    pub file: PathBuf,
    pub dataset: String,
    /// True if a name has the number of a block in it (`%b`), so that there are as many sources as
    /// exist.
    pub has_block_number: bool,
    /// Selected elements of the virtual dataset.
    pub virtual_selection: ElementSelection,
    /// Selected elements of the source.
    pub source_selection: ElementSelection,
}

/// A selection of a dataset's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElementSelection {
    /// All elements.
    All,
    /// A regular hyperslab: in each dimension, `count` blocks of `block` elements, with starts
    /// `stride` elements apart.
    Regular(Vec<Hyperslab>),
    /// A union of boxes, each given by its first and last element.
    Boxes(Vec<(Vec<u64>, Vec<u64>)>),
    /// Single elements, or an empty selection.
    Other,
}

impl ElementSelection {
    /// Returns whether the selection is unlimited: it extends with the dataset.
    pub(crate) fn is_unlimited(&self) -> bool {
        matches!(self, Self::Regular(axes) if axes.iter().any(|axis| axis.count.is_none() || axis.block.is_none()))
    }

    /// Returns the number of selected elements, out of `all`; 0 if it is unknown, as of an unlimited
    /// selection.
    pub(crate) fn count(&self, all: u64) -> u64 {
        let product = |lengths: &mut dyn Iterator<Item = u64>| {
            lengths.fold(1, |all: u64, length| all.saturating_mul(length))
        };
        match self {
            Self::All => all,
            Self::Regular(axes) => product(
                &mut axes
                    .iter()
                    .map(|axis| axis.count.unwrap_or(0).saturating_mul(axis.block.unwrap_or(0))),
            ),
            Self::Boxes(boxes) => {
                let count = |(first, last): &(Vec<u64>, Vec<u64>)| {
                    let pairs = first.iter().zip(last);
                    product(
                        &mut pairs
                            .map(|(first, last)| last.saturating_sub(*first).saturating_add(1)),
                    )
                };
                boxes.iter().map(count).fold(0, u64::saturating_add)
            }
            Self::Other => 0,
        }
    }
}

/// A regular selection in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hyperslab {
    pub start: u64,
    pub stride: u64,
    /// Number of blocks; `None` if unlimited.
    pub count: Option<u64>,
    /// Elements per block; `None` if unlimited.
    pub block: Option<u64>,
}

/// Reads the mappings of a virtual dataset from its creation properties.
pub(super) fn read_mappings(creation: &Hdf5Id) -> Result<Vec<VirtualMapping>, LibraryError> {
    let mut count = 0;
    // SAFETY: the list is open for as long as its handle lives; the library writes one `size_t`,
    // which `count` is.
    call_for_status(|| unsafe { H5Pget_virtual_count(creation.0, &raw mut count) })?;
    (0..count).map(|index| read_mapping(creation, index)).collect()
}

fn read_mapping(creation: &Hdf5Id, index: usize) -> Result<VirtualMapping, LibraryError> {
    // SAFETY: the list is open for as long as its handle lives, and returns an error for a mapping
    // that it does not have. `read_string` passes NULL with length 0, of which nothing is written,
    // and then buffers of the length that it says. The dataspaces are new ones, which belong to
    // their handles.
    unsafe {
        let file = read_string(|buffer, length| {
            H5Pget_virtual_filename(creation.0, index, buffer, length) as i64
        })?;
        let dataset = read_string(|buffer, length| {
            H5Pget_virtual_dsetname(creation.0, index, buffer, length) as i64
        })?;
        let here = call_for_id(|| H5Pget_virtual_vspace(creation.0, index))?;
        let there = call_for_id(|| H5Pget_virtual_srcspace(creation.0, index))?;
        named_mapping(file, dataset, read_selection(&here)?, read_selection(&there)?)
    }
}

/// Returns the mapping with these names, as they are written in the file.
///
/// # Errors
/// The name of the dataset is not UTF-8.
pub(super) fn named_mapping(
    file: Vec<u8>,
    dataset: Vec<u8>,
    virtual_selection: ElementSelection,
    source_selection: ElementSelection,
) -> Result<VirtualMapping, LibraryError> {
    let has_block_number = has_block_number(&file) || has_block_number(&dataset);
    Ok(VirtualMapping {
        has_block_number,
        file: OsString::from_vec(unescape_percent(file)).into(),
        dataset: String::from_utf8(unescape_percent(dataset))
            .map_err(|_| LibraryError::new("a name is not UTF-8"))?,
        virtual_selection,
        source_selection,
    })
}

/// Returns whether the name of a source has the number of a block in it: `%b`, or `%2b` for the
/// third dimension (H5Pset_virtual).
fn has_block_number(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        rest = rest.get(at.saturating_add(1)..).unwrap_or_default();
        match rest.iter().find(|byte| !byte.is_ascii_digit()) {
            Some(b'b') => return true,
            Some(b'%') if rest.first() == Some(&b'%') => rest = &rest[1..],
            _ => (),
        }
    }
    false
}

/// Replaces each `%%` in the name of a source by the `%` that it stands for (H5Pset_virtual).
fn unescape_percent(name: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut bytes = name.into_iter().peekable();
    while let Some(byte) = bytes.next() {
        out.push(byte);
        if byte == b'%' {
            bytes.next_if_eq(&b'%');
        }
    }
    out
}

fn read_selection(space: &Hdf5Id) -> Result<ElementSelection, LibraryError> {
    // SAFETY: the call takes only a number; the dataspace is open for as long as its handle lives.
    // The result is declared as an integer.
    match with_library_lock(|| unsafe { raw::H5Sget_select_type(space.0) }) {
        raw::SELECTED_ALL => Ok(ElementSelection::All),
        raw::SELECTED_HYPERSLABS => read_hyperslab(space),
        _ => Ok(ElementSelection::Other),
    }
}

fn read_hyperslab(space: &Hdf5Id) -> Result<ElementSelection, LibraryError> {
    let rank = dataspace_shape(space)?.len();
    let [mut start, mut stride, mut count, mut block] =
        [const { Vec::new() }; 4].map(|mut empty: Vec<u64>| {
            empty.resize(rank, 0);
            empty
        });
    // SAFETY: the library writes a number a dimension into each buffer, and each has as many:
    // `rank` was read from this dataspace, which is a copy that only its handle has. A selection
    // that is not regular is an error of the call, which writes nothing then.
    let regular = call_for_status(|| unsafe {
        let (start, stride, count, block) =
            (start.as_mut_ptr(), stride.as_mut_ptr(), count.as_mut_ptr(), block.as_mut_ptr());
        H5Sget_regular_hyperslab(space.0, start, stride, count, block)
    });
    if regular.is_err() {
        return read_boxes(space, rank);
    }
    let limit = |value: u64| (value != H5S_UNLIMITED).then_some(value);
    let hyperslab = |at: usize| Hyperslab {
        start: start[at],
        stride: stride[at],
        count: limit(count[at]),
        block: limit(block[at]),
    };
    Ok(ElementSelection::Regular((0..rank).map(hyperslab).collect()))
}

fn read_boxes(space: &Hdf5Id, rank: usize) -> Result<ElementSelection, LibraryError> {
    // SAFETY: the call takes only a number; the dataspace is open for as long as its handle lives.
    let count = call_for_status(|| unsafe { H5Sget_select_hyper_nblocks(space.0) })?;
    let numbers = (rank as u64).saturating_mul(2);
    if numbers == 0 {
        return Ok(ElementSelection::Other);
    }
    let mut corners = zeroed_buffer(0_u64, count.saturating_mul(numbers), MAX_BOX_CORNERS)?;
    // SAFETY: the library writes `count` boxes at most, of two numbers a dimension each. The buffer
    // has the product of both, which did not wrap: `zeroed_buffer` refuses what saturated. The
    // dataspace is a copy that only its handle has, so that its rank is the one of before.
    call_for_status(|| unsafe {
        H5Sget_select_hyper_blocklist(space.0, 0, count, corners.as_mut_ptr())
    })?;
    let corner_pair = |pair: &[u64]| (pair[..rank].to_vec(), pair[rank..].to_vec());
    Ok(ElementSelection::Boxes(
        corners.chunks_exact(rank.saturating_mul(2)).map(corner_pair).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_in_names_of_sources_are_those_of_hdf5() {
        let names = ["a", "a%%b", "a%b", "a%12b", "%%%b", "%%%%", "10%% c%%_0.h5"];
        let numbered = [false, false, true, true, true, false, false];
        assert_eq!(names.map(|name| has_block_number(name.as_bytes())), numbered);
        let unescaped = [names[0], names[1], names[5], names[6]]
            .map(|name| String::from_utf8(unescape_percent(name.into())).unwrap());
        assert_eq!(unescaped, ["a", "a%b", "%%", "10% c%_0.h5"]);
    }
}
