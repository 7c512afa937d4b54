//! How a dataset is laid out: extents, pixel type, filters, and where its chunks are.

use std::ffi::{OsString, c_char, c_uint, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr::null_mut;

use hdf5::globals::{H5T_IEEE_F32BE, H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_IEEE_F64LE};
use hdf5_sys::h5d::{H5Dchunk_iter, H5Dget_create_plist, H5Dget_offset, H5Dget_space, H5Dget_type, H5Dread};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::{
    H5P_DEFAULT, H5Pget_chunk, H5Pget_external, H5Pget_external_count, H5Pget_filter2, H5Pget_nfilters,
};
use hdf5_sys::h5s::{H5S_ALL, H5Sget_simple_extent_dims, H5Sget_simple_extent_ndims};
use hdf5_sys::h5t::{H5Tequal, H5Tget_offset, H5Tget_precision, H5Tget_size};

use super::selection::{Mapping, mappings};
use super::{Flaw, Handle, Object, buffer, get_on, handle, links, locked, raw, status};

/// The library's limit on the number of dimensions.
const MAX_RANK: usize = 32;

/// The most entries of a chunk index: one that leads into itself has no end.
const MOST_CHUNKS: usize = 1 << 26;

/// The most bytes of a dataset in an object's header, of which the format allows 64 KiB.
const MOST_COMPACT: u64 = 1 << 20;

/// The most values of a filter.
const MOST_FILTER_VALUES: usize = 1 << 16;

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

/// What kind of thing an element of a dataset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementClass {
    /// An integer all of whose bits count.
    Integer,
    /// A floating-point number of IEEE's single or double precision.
    Float,
    /// A number with a name, such as a boolean.
    Enum,
    /// A text of either kind.
    Text,
    /// Anything else: also integers that use some of their bits, and other floating-point numbers.
    Other,
}

/// What a number is, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PixelType {
    pub class: ElementClass,
    pub bytes: u64,
    pub signed: bool,
    pub big_endian: bool,
}

impl PixelType {
    /// Whether it is an integer or a floating-point number.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.class, ElementClass::Integer | ElementClass::Float)
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
        // SAFETY: the call takes a number alone; the dataset is open for as long as this object's handle lives.
        let space = handle(|| unsafe { H5Dget_space(self.0.0) })?;
        extents(&space)
    }

    /// The type of this dataset's elements.
    pub(crate) fn pixel_type(&self) -> Result<PixelType, Flaw> {
        // SAFETY: the call takes a number alone; the dataset is open for as long as this object's handle lives.
        let kind = handle(|| unsafe { H5Dget_type(self.0.0) })?;
        let class = element_class(&kind);
        // SAFETY: the type is open for as long as its handle lives. The functions read it and fill in nothing.
        locked(|| unsafe {
            Ok(PixelType {
                class,
                bytes: H5Tget_size(kind.0) as u64,
                signed: class == ElementClass::Integer && raw::H5Tget_sign(kind.0) == raw::SIGN_TWOS_COMPLEMENT,
                big_endian: raw::H5Tget_order(kind.0) == raw::ORDER_BIG_ENDIAN,
            })
        })
    }

    pub(crate) fn layout(&self) -> Result<Layout, Flaw> {
        // SAFETY: the call takes a number alone; the dataset is open for as long as this object's handle lives.
        let creation = handle(|| unsafe { H5Dget_create_plist(self.0.0) })?;
        // SAFETY: the call takes a number alone; the list is open for as long as its handle lives. What is returned is an integer here.
        match locked(|| unsafe { raw::H5Pget_layout(creation.0) }) {
            raw::LAYOUT_COMPACT => Ok(Layout::Compact),
            raw::LAYOUT_CHUNKED => Ok(Layout::Chunked(chunk_shape(&creation)?, filters(&creation)?)),
            raw::LAYOUT_VIRTUAL => Ok(Layout::Virtual(mappings(&creation)?)),
            raw::LAYOUT_CONTIGUOUS => match segments(&creation)? {
                // SAFETY: the call takes a number alone; the dataset is open for as long as this object's handle lives. An address
                // that is not there has all bits set.
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
        let mut found = Found { rank: rank.min(4), chunks: Vec::new(), is_full: false };
        let data: *mut c_void = (&raw mut found).cast();
        // SAFETY: the dataset is open for as long as the object lives. `collect` takes `data` for a `Found`, which it is, and
        // which outlives the call; nothing else has access to it until the library is done. The library gives `collect` an
        // origin of as many numbers as the dataset has dimensions, which are `rank` or more.
        let iterated = status(|| unsafe { H5Dchunk_iter(self.0.0, H5P_DEFAULT, Some(collect), data) });
        if found.is_full {
            return Err(Flaw::new(format!("damaged chunk index: more than {MOST_CHUNKS} entries")));
        }
        iterated?;
        Ok(found.chunks)
    }

    /// Whether the chunk index lists chunks rising by their place: frames first, then rows, then columns.
    pub(crate) fn has_sorted_index(&self) -> Result<bool, Flaw> {
        let mut kind = -1;
        // SAFETY: the dataset is open for as long as the object lives; the library fills in one enum, which is an `int`.
        status(|| unsafe { raw::H5Dget_chunk_index_type(self.0.0, &raw mut kind) })?;
        Ok(kind == raw::INDEX_BTREE)
    }

    /// The elements of this dataset as they are stored, unfiltered, row-major, in the stored byte order.
    pub(crate) fn stored_elements(&self) -> Result<Vec<u8>, Flaw> {
        // SAFETY: the dataset is open for as long as the object lives.
        let kind = handle(|| unsafe { H5Dget_type(self.0.0) })?;
        let pixel = self.pixel_type()?;
        if !pixel.is_number() {
            return Err(Flaw::new("not numbers"));
        }
        let product = |product: u64, extent: &u64| product.checked_mul(*extent);
        let size = self.extents()?.iter().try_fold(pixel.bytes, product);
        let size = size.ok_or_else(|| Flaw::new("extents that multiply to more than there are numbers"))?;
        let mut bytes = buffer(0_u8, size, MOST_COMPACT)?;
        // SAFETY: the buffer has the product of the dataset's extents and the size of an element in its own type, which is the
        // type that the elements are read as; they are numbers, so that no pointer is written. The extents are those of the
        // open dataset, which is read-only, and so the same in both calls.
        status(|| unsafe { H5Dread(self.0.0, kind.0, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

struct Found {
    /// How many numbers of an origin are taken, four at the most.
    rank: usize,
    chunks: Vec<StoredChunk>,
    /// Whether there were too many to go on.
    is_full: bool,
}

/// Adds a chunk to the [`Found`] at `data`.
unsafe extern "C" fn collect(
    origin: *const u64,
    filter_mask: c_uint,
    offset: u64,
    bytes: u64,
    data: *mut c_void,
) -> i32 {
    // SAFETY: `data` is the structure that `chunks` gave the library, which hands it on as it is, and nobody else has access
    // to it while the library iterates. `origin` has as many numbers as the dataset has dimensions, `rank` or more, and is
    // valid during this call. Nothing here panics: memory is asked for in a way that may fail.
    let (origin, found) = unsafe {
        let found = &mut *data.cast::<Found>();
        (std::slice::from_raw_parts(origin, found.rank), found)
    };
    let mut chunk = StoredChunk { origin: [0; 4], filter_mask, offset, bytes };
    chunk.origin.iter_mut().zip(origin).for_each(|(to, from)| *to = *from);
    get_on();
    if found.chunks.len() >= MOST_CHUNKS || found.chunks.try_reserve(1).is_err() {
        found.is_full = true;
        return -1;
    }
    found.chunks.push(chunk);
    0
}

/// The extents of a dataspace; none for a scalar.
pub(super) fn extents(space: &Handle) -> Result<Vec<u64>, Flaw> {
    // SAFETY: the call takes a number alone; the dataspace is open for as long as its handle lives.
    let rank = status(|| unsafe { H5Sget_simple_extent_ndims(space.0) })?;
    let mut extents = buffer(0, rank, MAX_RANK as u64)?;
    // SAFETY: the library writes a number a dimension, and the buffer has as many: the rank was read from this dataspace, which is a
    // copy that only its handle has. NULL for the largest extents is allowed.
    status(|| unsafe { H5Sget_simple_extent_dims(space.0, extents.as_mut_ptr(), null_mut()) })?;
    Ok(extents)
}

/// Says what kind of thing the elements of this type are.
pub(super) fn element_class(kind: &Handle) -> ElementClass {
    // SAFETY: the type is open for as long as its handle lives, the constants for as long as the library is. The functions
    // read types and fill in nothing.
    locked(|| unsafe {
        let is = |known: hid_t| H5Tequal(kind.0, known) > 0;
        let ieee = [*H5T_IEEE_F32LE, *H5T_IEEE_F64LE, *H5T_IEEE_F32BE, *H5T_IEEE_F64BE];
        let bits = H5Tget_size(kind.0).saturating_mul(8);
        match raw::H5Tget_class(kind.0) {
            raw::TYPE_INTEGER if H5Tget_precision(kind.0) == bits && H5Tget_offset(kind.0) == 0 => {
                ElementClass::Integer
            }
            raw::TYPE_FLOAT if bits == 16 || ieee.into_iter().any(is) => ElementClass::Float,
            raw::TYPE_ENUM => ElementClass::Enum,
            raw::TYPE_STRING => ElementClass::Text,
            _ => ElementClass::Other,
        }
    })
}

fn chunk_shape(creation: &Handle) -> Result<Vec<u64>, Flaw> {
    let mut shape = vec![0; MAX_RANK];
    // SAFETY: the list is open for as long as its handle lives; the library writes as many numbers as it is told of at the most, which
    // the buffer has.
    let rank = status(|| unsafe { H5Pget_chunk(creation.0, MAX_RANK as i32, shape.as_mut_ptr()) })?;
    shape.truncate(rank as usize);
    Ok(shape)
}

fn filters(creation: &Handle) -> Result<Vec<Filter>, Flaw> {
    // SAFETY: the call takes a number alone; the list is open for as long as its handle lives.
    let count = status(|| unsafe { H5Pget_nfilters(creation.0) })?;
    (0..count as c_uint).map(|index| filter(creation.0, index)).collect()
}

fn filter(creation: hid_t, index: c_uint) -> Result<Filter, Flaw> {
    let mut values = vec![0; 32];
    loop {
        let mut count = values.len();
        let mut flags = 0;
        // SAFETY: the caller has the list open. The library writes as many values as `count` says at the most, which the buffer has,
        // then how many there are, and the flags; all three outlive the call. No name is asked for, of length 0.
        let id = status(|| unsafe {
            let (flags, count) = (&raw mut flags, &raw mut count);
            H5Pget_filter2(creation, index, flags, count, values.as_mut_ptr(), 0, null_mut(), null_mut())
        })?;
        let room = values.len();
        if count > MOST_FILTER_VALUES {
            return Err(Flaw::new(format!("a filter of {count} values: expected {MOST_FILTER_VALUES} at the most")));
        }
        values.resize(count, 0);
        if count <= room {
            return Ok(Filter { id: id as u32, values });
        }
    }
}

/// Where the segments of an external dataset are.
fn segments(creation: &Handle) -> Result<Vec<Segment>, Flaw> {
    // SAFETY: the call takes a number alone; the list is open for as long as its handle lives.
    let count = status(|| unsafe { H5Pget_external_count(creation.0) })?;
    (0..count as c_uint).map(|index| segment(creation.0, index)).collect()
}

fn segment(creation: hid_t, index: c_uint) -> Result<Segment, Flaw> {
    let mut name = vec![0_u8; PATH_MAX];
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the caller has the list open. The library writes as many bytes of the name as it is told of at the most, without a
    // NUL where there are more, and two numbers of the types that are borrowed.
    status(|| unsafe {
        let text = name.as_mut_ptr().cast::<c_char>();
        H5Pget_external(creation, index, name.len(), text, &raw mut offset, &raw mut size)
    })?;
    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
    let offset = u64::try_from(offset).map_err(|_| Flaw::new("a segment before its file's first byte"))?;
    Ok(Segment { file: OsString::from_vec(name).into(), offset, size })
}
