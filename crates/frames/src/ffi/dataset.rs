//! How a dataset is laid out: extents, pixel type, filters, and where its chunks are.

use std::ffi::{OsString, c_char, c_uint, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr::null_mut;

use hdf5_sys::h5d::{
    H5D_layout_t, H5Dchunk_iter, H5Dget_create_plist, H5Dget_offset, H5Dget_space, H5Dget_type, H5Dread,
};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::{
    H5P_DEFAULT, H5Pget_chunk, H5Pget_external, H5Pget_external_count, H5Pget_filter2, H5Pget_layout, H5Pget_nfilters,
};
use hdf5_sys::h5s::{H5S_ALL, H5Sget_simple_extent_dims, H5Sget_simple_extent_ndims};
use hdf5_sys::h5t::{H5T_class_t, H5T_order_t, H5T_sign_t, H5Tget_class, H5Tget_order, H5Tget_sign, H5Tget_size};

use super::selection::{Mapping, mappings};
use super::{Flaw, Handle, Object, handle, links, locked, status};

/// The library's limit on the number of dimensions.
const MAX_RANK: usize = 32;

/// The system's limit on the length of a path.
const PATH_MAX: usize = 4096;

/// How a dataset is stored.
#[derive(Debug)]
pub(crate) enum Layout {
    /// In the object's header: to be had through the library alone.
    Compact,
    /// In one run at this offset; `None` where nothing has been written.
    Contiguous(Option<u64>),
    /// In one run, in segments of other files.
    External(Vec<Segment>),
    /// In chunks of this shape, through these filters.
    Chunked(Vec<u64>, Vec<Filter>),
    /// In datasets of other files.
    Virtual(Vec<Mapping>),
}

/// A run of bytes in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub file: PathBuf,
    pub offset: u64,
    pub size: u64,
}

/// A step of a filter pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub id: u32,
    pub values: Vec<u32>,
}

/// What a number is, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PixelType {
    pub class: H5T_class_t,
    pub bytes: u64,
    pub signed: bool,
    pub big_endian: bool,
}

impl PixelType {
    /// Whether it is an integer or a floating-point number.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.class, H5T_class_t::H5T_INTEGER | H5T_class_t::H5T_FLOAT)
    }
}

/// A chunk as the index has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredChunk {
    /// The first element, in as many dimensions as the dataset has, up to four.
    pub origin: [u64; 4],
    pub filter_mask: u32,
    /// From the file's first byte on, a user block among them.
    pub offset: u64,
    pub bytes: u64,
}

impl Object {
    /// The extents of this dataset; none for a scalar.
    pub(crate) fn extents(&self) -> Result<Vec<u64>, Flaw> {
        // SAFETY: the identifier is valid.
        let space = handle(|| unsafe { H5Dget_space(self.0.0) })?;
        extents(&space)
    }

    /// The type of this dataset's elements.
    pub(crate) fn pixel_type(&self) -> Result<PixelType, Flaw> {
        // SAFETY: the identifier is valid.
        let kind = handle(|| unsafe { H5Dget_type(self.0.0) })?;
        // SAFETY: the type is valid.
        locked(|| unsafe {
            let class = H5Tget_class(kind.0);
            Ok(PixelType {
                class,
                bytes: H5Tget_size(kind.0) as u64,
                signed: class == H5T_class_t::H5T_INTEGER && H5Tget_sign(kind.0) == H5T_sign_t::H5T_SGN_2,
                big_endian: H5Tget_order(kind.0) == H5T_order_t::H5T_ORDER_BE,
            })
        })
    }

    pub(crate) fn layout(&self) -> Result<Layout, Flaw> {
        // SAFETY: the identifier is valid.
        let creation = handle(|| unsafe { H5Dget_create_plist(self.0.0) })?;
        // SAFETY: the property list is valid.
        match locked(|| unsafe { H5Pget_layout(creation.0) }) {
            H5D_layout_t::H5D_COMPACT => Ok(Layout::Compact),
            H5D_layout_t::H5D_CHUNKED => Ok(Layout::Chunked(chunk_shape(&creation)?, filters(&creation)?)),
            H5D_layout_t::H5D_VIRTUAL => Ok(Layout::Virtual(mappings(&creation)?)),
            H5D_layout_t::H5D_CONTIGUOUS => match segments(&creation)? {
                // SAFETY: the identifier is valid. An address that is not there has all bits set.
                none if none.is_empty() => match locked(|| unsafe { H5Dget_offset(self.0.0) }) {
                    u64::MAX => Ok(Layout::Contiguous(None)),
                    offset => Ok(Layout::Contiguous(Some(offset))),
                },
                segments => Ok(Layout::External(segments)),
            },
            _ => Err(Flaw::new("a storage layout of no known kind")),
        }
    }

    /// Refuses a dataset whose elements the library would get from something that is no regular file.
    pub(super) fn check_files(&self) -> Result<(), Flaw> {
        let names: Vec<PathBuf> = match self.layout()? {
            Layout::Virtual(mappings) => mappings.into_iter().map(|mapping| mapping.file).collect(),
            Layout::External(segments) => segments.into_iter().map(|segment| segment.file).collect(),
            _ => return Ok(()),
        };
        let holder = self.file_name()?;
        names
            .iter()
            .flat_map(|name| links::candidates(&holder, name))
            .try_for_each(|path| links::check(&path).map_err(|why| Flaw::new(format!("{}: {why}", path.display()))))
    }

    /// The chunks that have been written, in the order of the index.
    pub(crate) fn chunks(&self, rank: usize) -> Result<Vec<StoredChunk>, Flaw> {
        let mut found = Found { rank: rank.min(4), chunks: Vec::new() };
        let data: *mut c_void = (&raw mut found).cast();
        // SAFETY: `data` is the structure that `collect` takes it for, and outlives the call.
        status(|| unsafe { H5Dchunk_iter(self.0.0, H5P_DEFAULT, Some(collect), data) })?;
        Ok(found.chunks)
    }

    /// The elements of this dataset as they are stored, unfiltered, row-major, in the stored byte order.
    pub(crate) fn stored_elements(&self) -> Result<Vec<u8>, Flaw> {
        // SAFETY: the identifier is valid.
        let kind = handle(|| unsafe { H5Dget_type(self.0.0) })?;
        let count: u64 = self.extents()?.iter().product();
        let mut bytes = vec![0_u8; (count * self.pixel_type()?.bytes) as usize];
        // SAFETY: the buffer holds all elements of the dataset in the type that it is read as.
        status(|| unsafe { H5Dread(self.0.0, kind.0, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

struct Found {
    rank: usize,
    chunks: Vec<StoredChunk>,
}

/// Adds a chunk to the [`Found`] at `data`.
unsafe extern "C" fn collect(
    origin: *const u64,
    filter_mask: c_uint,
    offset: u64,
    bytes: u64,
    data: *mut c_void,
) -> i32 {
    // SAFETY: `origin` has as many numbers as the dataset has dimensions; `data` is the structure that
    // `chunks` gave the library, and nobody else has it.
    let (origin, found) = unsafe {
        let found = &mut *data.cast::<Found>();
        (std::slice::from_raw_parts(origin, found.rank), found)
    };
    let mut chunk = StoredChunk { origin: [0; 4], filter_mask, offset, bytes };
    chunk.origin[..found.rank].copy_from_slice(origin);
    found.chunks.push(chunk);
    0
}

/// The extents of a dataspace; none for a scalar.
pub(super) fn extents(space: &Handle) -> Result<Vec<u64>, Flaw> {
    // SAFETY: the dataspace is valid.
    let rank = status(|| unsafe { H5Sget_simple_extent_ndims(space.0) })? as usize;
    let mut extents = vec![0; rank];
    // SAFETY: the buffer has as many entries as the dataspace has dimensions.
    status(|| unsafe { H5Sget_simple_extent_dims(space.0, extents.as_mut_ptr(), null_mut()) })?;
    Ok(extents)
}

fn chunk_shape(creation: &Handle) -> Result<Vec<u64>, Flaw> {
    let mut shape = vec![0; MAX_RANK];
    // SAFETY: the buffer has the length that is told with it.
    let rank = status(|| unsafe { H5Pget_chunk(creation.0, MAX_RANK as i32, shape.as_mut_ptr()) })?;
    shape.truncate(rank as usize);
    Ok(shape)
}

fn filters(creation: &Handle) -> Result<Vec<Filter>, Flaw> {
    // SAFETY: the property list is valid.
    let count = status(|| unsafe { H5Pget_nfilters(creation.0) })?;
    (0..count as c_uint).map(|index| filter(creation.0, index)).collect()
}

fn filter(creation: hid_t, index: c_uint) -> Result<Filter, Flaw> {
    let mut values = vec![0; 32];
    loop {
        let mut count = values.len();
        let mut flags = 0;
        // SAFETY: the buffer has the length that is told with it; no name is asked for.
        let id = status(|| unsafe {
            let (flags, count) = (&raw mut flags, &raw mut count);
            H5Pget_filter2(creation, index, flags, count, values.as_mut_ptr(), 0, null_mut(), null_mut())
        })?;
        let room = values.len();
        values.resize(count, 0);
        if count <= room {
            return Ok(Filter { id: id as u32, values });
        }
    }
}

/// Where the segments of an external dataset are.
fn segments(creation: &Handle) -> Result<Vec<Segment>, Flaw> {
    // SAFETY: the property list is valid.
    let count = status(|| unsafe { H5Pget_external_count(creation.0) })?;
    (0..count as c_uint).map(|index| segment(creation.0, index)).collect()
}

fn segment(creation: hid_t, index: c_uint) -> Result<Segment, Flaw> {
    let mut name = vec![0_u8; PATH_MAX];
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the buffer has the length that is told with it.
    status(|| unsafe {
        let text = name.as_mut_ptr().cast::<c_char>();
        H5Pget_external(creation, index, name.len(), text, &raw mut offset, &raw mut size)
    })?;
    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
    let offset = u64::try_from(offset).map_err(|_| Flaw::new("a segment before its file's first byte"))?;
    Ok(Segment { file: OsString::from_vec(name).into(), offset, size })
}
