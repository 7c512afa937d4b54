//! Reads how a dataset is stored: extents, element type, filters, and the location of its chunks.

use std::ffi::{OsString, c_char, c_uint, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr::null_mut;

use hdf5::globals::{H5T_IEEE_F32BE, H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_IEEE_F64LE};
use hdf5_sys::h5d::{
    H5Dchunk_iter, H5Dget_create_plist, H5Dget_offset, H5Dget_space, H5Dget_type, H5Dread,
};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::{
    H5P_DEFAULT, H5Pget_chunk, H5Pget_external, H5Pget_external_count, H5Pget_filter2,
    H5Pget_nfilters,
};
use hdf5_sys::h5s::H5S_ALL;
use hdf5_sys::h5t::{H5Tequal, H5Tget_offset, H5Tget_precision, H5Tget_size};
use system::untrusted_file;

use super::dataspace::{MAX_RANK, dataspace_shape};
use super::virtual_mappings::{VirtualMapping, read_mappings};
use super::{
    Hdf5Id, Hdf5Object, LibraryError, call_for_id, call_for_status, count_call,
    external_link_guard, raw, virtual_layout, with_library_lock, zeroed_buffer,
};

/// Maximum number of entries in a chunk index. A damaged index may contain a cycle, and would never
/// end.
const MAX_CHUNKS: usize = 1 << 26;

/// Maximum size in bytes of a compact dataset. The format itself allows 64 KiB.
const MAX_COMPACT_BYTES: u64 = 1 << 20;

/// Maximum number of parameters of a filter.
const MAX_CD_VALUES: usize = 1 << 16;

/// Number of frames from which on the mappings of a virtual dataset are decoded without the
/// library, for which they would be too many. One mapping has a frame or more.
const MANY_MAPPINGS: u64 = 2048;

/// Maximum length of a path in Linux.
const PATH_MAX: usize = 4096;

/// Storage layout of a dataset.
#[derive(Debug)]
pub(crate) enum StorageLayout {
    /// In the object header; only the HDF5 library can read it.
    Compact,
    /// Contiguous in this file, from this offset; `None` if nothing has been written.
    Contiguous(Option<u64>),
    /// Contiguous, in segments of other files.
    External(Vec<ExternalSegment>),
    /// In chunks of this shape, compressed by these filters.
    Chunked(Vec<u64>, Vec<PipelineFilter>),
    /// In datasets of other files.
    Virtual(Vec<VirtualMapping>),
}

/// A range of bytes in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExternalSegment {
    pub file: PathBuf,
    pub offset: u64,
    pub size: u64,
}

/// A filter of a pipeline, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PipelineFilter {
    pub id: u32,
    pub values: Vec<u32>,
}

/// Class of a dataset's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementClass {
    /// An integer without padding bits.
    Integer,
    /// An IEEE 754 floating-point number of 32 or 64 bits.
    Float,
    /// An enumeration, such as a boolean.
    Enum,
    /// A text of fixed or variable length.
    Text,
    /// Anything else, including integers with padding bits and other floating-point formats.
    Other,
}

/// Stored type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementType {
    pub class: ElementClass,
    pub bytes: u64,
    pub signed: bool,
    pub big_endian: bool,
}

impl ElementType {
    /// Returns whether the type is an integer or a floating-point number.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.class, ElementClass::Integer | ElementClass::Float)
    }
}

/// An entry of the chunk index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredChunk {
    /// Position of the chunk's first element, for up to four dimensions.
    pub origin: [u64; 4],
    pub filter_mask: u32,
    /// Offset of the chunk from the first byte of the file, including a user block.
    pub offset: u64,
    pub bytes: u64,
}

impl Hdf5Object {
    /// Returns the dataset's extents, empty for a scalar.
    pub(crate) fn shape(&self) -> Result<Vec<u64>, LibraryError> {
        // SAFETY: the call takes only a number; the dataset is open for as long as this object's
        // handle lives.
        let space = call_for_id(|| unsafe { H5Dget_space(self.0.0) })?;
        dataspace_shape(&space)
    }

    /// Returns the type of the dataset's elements.
    pub(crate) fn element_type(&self) -> Result<ElementType, LibraryError> {
        // SAFETY: the call takes only a number; the dataset is open for as long as this object's
        // handle lives.
        let kind = call_for_id(|| unsafe { H5Dget_type(self.0.0) })?;
        let class = element_class(&kind);
        // SAFETY: the type is open for as long as its handle lives. The functions read it and fill
        // in nothing.
        with_library_lock(|| unsafe {
            Ok(ElementType {
                class,
                bytes: H5Tget_size(kind.0) as u64,
                signed: class == ElementClass::Integer
                    && raw::H5Tget_sign(kind.0) == raw::SIGN_TWOS_COMPLEMENT,
                big_endian: raw::H5Tget_order(kind.0) == raw::ORDER_BIG_ENDIAN,
            })
        })
    }

    pub(crate) fn storage_layout(&self) -> Result<StorageLayout, LibraryError> {
        if self.shape()?.first().is_some_and(|frames| *frames >= MANY_MAPPINGS)
            && let Some(mappings) = self.decode_mappings()
        {
            return Ok(StorageLayout::Virtual(mappings));
        }
        self.layout_by_library()
    }

    /// Returns the layout as the library knows it.
    pub(super) fn layout_by_library(&self) -> Result<StorageLayout, LibraryError> {
        // SAFETY: the call takes only a number; the dataset is open for as long as this object's
        // handle lives.
        let creation = call_for_id(|| unsafe { H5Dget_create_plist(self.0.0) })?;
        // SAFETY: the call takes only a number; the list is open for as long as its handle lives.
        // The result is declared as an integer.
        match with_library_lock(|| unsafe { raw::H5Pget_layout(creation.0) }) {
            raw::LAYOUT_COMPACT => Ok(StorageLayout::Compact),
            raw::LAYOUT_CHUNKED => {
                Ok(StorageLayout::Chunked(chunk_shape(&creation)?, read_filters(&creation)?))
            }
            raw::LAYOUT_VIRTUAL => Ok(StorageLayout::Virtual(read_mappings(&creation)?)),
            raw::LAYOUT_CONTIGUOUS => match read_segments(&creation)? {
                none if none.is_empty() => {
                    // SAFETY: the call takes only a number; the dataset is open for as long as this
                    // object's handle lives.
                    let offset = with_library_lock(|| unsafe { H5Dget_offset(self.0.0) });
                    // A missing address has all bits set.
                    Ok(StorageLayout::Contiguous((offset != u64::MAX).then_some(offset)))
                }
                segments => Ok(StorageLayout::External(segments)),
            },
            _ => Err(LibraryError::new(
                "an unknown storage layout: expected compact, contiguous, chunked or virtual",
            )),
        }
    }

    /// Returns the mappings of a virtual dataset as they are stored in the file, or `None` if only
    /// the library can say what they are, or that there are none.
    pub(super) fn decode_mappings(&self) -> Option<Vec<VirtualMapping>> {
        let mut info = raw::ObjectInfo::default();
        // SAFETY: the dataset is open for as long as this object's handle lives. The library fills
        // in one structure, which outlives the call.
        call_for_status(|| unsafe { raw::H5Oget_info3(self.0.0, &raw mut info, raw::INFO_BASIC) })
            .ok()?;
        let address = u64::from_le_bytes(*info.token.first_chunk()?);
        let file = untrusted_file::open(&self.file_name().ok()?).ok()?;
        virtual_layout::read_mappings(&file, address)
    }

    /// Rejects a dataset for which the library would open something other than a regular file.
    pub(super) fn check_source_files(&self) -> Result<(), LibraryError> {
        let names: Vec<PathBuf> = match self.storage_layout()? {
            StorageLayout::Virtual(mappings) => {
                mappings.into_iter().map(|mapping| mapping.file).collect()
            }
            StorageLayout::External(segments) => {
                segments.into_iter().map(|segment| segment.file).collect()
            }
            _ => return Ok(()),
        };
        let holder = self.file_name()?;
        names
            .iter()
            .flat_map(|name| external_link_guard::candidate_paths(&holder, name))
            .try_for_each(|path| {
                external_link_guard::check_not_special(&path)
                    .map_err(|why| LibraryError::new(format!("{}: {why}", path.display())))
            })
    }

    /// Returns the written chunks in the order of the index.
    pub(crate) fn chunk_index(&self, rank: usize) -> Result<Vec<StoredChunk>, LibraryError> {
        let rank = rank.min(self.shape()?.len()).min(4);
        let mut found =
            ChunkCollector { rank, chunks: Vec::new(), most: MAX_CHUNKS, refusal: None };
        let data: *mut c_void = (&raw mut found).cast();
        // SAFETY: the dataset is open for as long as the object lives. `collect_chunk` takes `data`
        // for a `ChunkCollector`, which it is, and which outlives the call; nothing else has access
        // to it until the library is done. The library gives `collect_chunk` an origin of as many
        // numbers as the dataset has dimensions, and `rank` is no more: they were asked for above.
        let iterated = call_for_status(|| unsafe {
            H5Dchunk_iter(self.0.0, H5P_DEFAULT, Some(collect_chunk), data)
        });
        if let Some(refusal) = found.refusal {
            return Err(refusal.into_error(found.chunks.len()));
        }
        iterated?;
        Ok(found.chunks)
    }

    /// Returns whether the chunk index is a B-tree, which lists chunks in ascending order of
    /// position.
    pub(crate) fn has_btree_index(&self) -> Result<bool, LibraryError> {
        let mut kind = -1;
        // SAFETY: the dataset is open for as long as the object lives; the library fills in one
        // enum, which is an `int`.
        call_for_status(|| unsafe { raw::H5Dget_chunk_index_type(self.0.0, &raw mut kind) })?;
        Ok(kind == raw::INDEX_BTREE)
    }

    /// Reads all elements of the dataset, row-major, in the stored byte order, with filters undone.
    pub(crate) fn read_raw_elements(&self) -> Result<Vec<u8>, LibraryError> {
        // SAFETY: the dataset is open for as long as the object lives.
        let kind = call_for_id(|| unsafe { H5Dget_type(self.0.0) })?;
        let pixel = self.element_type()?;
        if !pixel.is_number() {
            return Err(LibraryError::new(
                "not numbers: expected integers or floating-point numbers",
            ));
        }
        let product = |product: u64, extent: &u64| product.checked_mul(*extent);
        let size = self.shape()?.iter().try_fold(pixel.bytes, product);
        let size = size.ok_or_else(|| {
            LibraryError::new("extents with more elements than a 64-bit number can count")
        })?;
        let mut bytes = zeroed_buffer(0_u8, size, MAX_COMPACT_BYTES)?;
        // SAFETY: the buffer has the product of the dataset's extents and the size of an element in
        // its own type, which is the type that the elements are read as; they are numbers, so that
        // no pointer is written. The extents are those of the open dataset, which is read-only, and
        // so the same in both calls.
        call_for_status(|| unsafe {
            H5Dread(self.0.0, kind.0, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.as_mut_ptr().cast())
        })?;
        Ok(bytes)
    }
}

struct ChunkCollector {
    /// Number of dimensions to keep of each position, at most four.
    rank: usize,
    chunks: Vec<StoredChunk>,
    /// Maximum number of chunks.
    most: usize,
    /// Why a chunk was not added.
    refusal: Option<ChunkRefusal>,
}

/// Reason for which the chunks of an index are not collected any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkRefusal {
    TooMany,
    NoMemory,
}

impl ChunkRefusal {
    /// Returns the error for an index of which `count` entries were read.
    fn into_error(self, count: usize) -> LibraryError {
        match self {
            Self::TooMany => {
                LibraryError::new(format!("damaged chunk index: more than {count} entries"))
            }
            Self::NoMemory => LibraryError::no_memory(format_args!(
                "the chunk index, of which {count} entries have been read"
            )),
        }
    }
}

impl ChunkCollector {
    /// Adds a chunk, or records why it can't be added. Never panics.
    fn add(&mut self, chunk: StoredChunk) -> Result<(), ChunkRefusal> {
        let refusal = if self.chunks.len() >= self.most {
            ChunkRefusal::TooMany
        } else if self.chunks.try_reserve(1).is_err() {
            ChunkRefusal::NoMemory
        } else {
            self.chunks.push(chunk);
            return Ok(());
        };
        self.refusal = Some(refusal);
        Err(refusal)
    }
}

/// Adds a chunk to the [`ChunkCollector`] at `data`.
unsafe extern "C" fn collect_chunk(
    origin: *const u64,
    filter_mask: c_uint,
    offset: u64,
    bytes: u64,
    data: *mut c_void,
) -> i32 {
    // SAFETY: `data` is the structure that `chunk_index` gave the library, which hands it on as it
    // is, and nobody else has access to it while the library iterates. `origin` has as many numbers
    // as the dataset has dimensions, `rank` or more, and is valid during this call. Nothing here
    // panics, so nothing unwinds into C: `ChunkCollector::add` requests memory in a way that can
    // fail, and `count_call` adds to an atomic number.
    let (origin, found) = unsafe {
        let found = &mut *data.cast::<ChunkCollector>();
        (std::slice::from_raw_parts(origin, found.rank), found)
    };
    let mut chunk = StoredChunk { origin: [0; 4], filter_mask, offset, bytes };
    chunk.origin.iter_mut().zip(origin).for_each(|(to, from)| *to = *from);
    count_call();
    if found.add(chunk).is_ok() { 0 } else { -1 }
}

/// Returns the class of a type.
pub(super) fn element_class(kind: &Hdf5Id) -> ElementClass {
    // SAFETY: the type is open for as long as its handle lives, the constants for as long as the
    // library is. The functions read types and fill in nothing.
    with_library_lock(|| unsafe {
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

fn chunk_shape(creation: &Hdf5Id) -> Result<Vec<u64>, LibraryError> {
    let mut shape = vec![0; MAX_RANK];
    // SAFETY: the list is open for as long as its handle lives; the library writes at most as many
    // numbers as it is told, which the buffer has room for.
    let rank = call_for_status(|| unsafe {
        H5Pget_chunk(creation.0, MAX_RANK as i32, shape.as_mut_ptr())
    })?;
    shape.truncate(rank as usize);
    Ok(shape)
}

fn read_filters(creation: &Hdf5Id) -> Result<Vec<PipelineFilter>, LibraryError> {
    // SAFETY: the call takes only a number; the list is open for as long as its handle lives.
    let count = call_for_status(|| unsafe { H5Pget_nfilters(creation.0) })?;
    (0..count as c_uint).map(|index| read_filter(creation.0, index)).collect()
}

fn read_filter(creation: hid_t, index: c_uint) -> Result<PipelineFilter, LibraryError> {
    let mut values = vec![0; 32];
    loop {
        let mut count = values.len();
        let mut flags = 0;
        // SAFETY: the caller has the list open. The library writes as many values as `count` says
        // at most, which the buffer has, then how many there are, and the flags; all three outlive
        // the call. No name is asked for, of length 0.
        let id = call_for_status(|| unsafe {
            let (flags, count) = (&raw mut flags, &raw mut count);
            H5Pget_filter2(
                creation,
                index,
                flags,
                count,
                values.as_mut_ptr(),
                0,
                null_mut(),
                null_mut(),
            )
        })?;
        let room = values.len();
        if count > MAX_CD_VALUES {
            return Err(LibraryError::new(format!(
                "a filter with {count} parameters: expected at most {MAX_CD_VALUES}"
            )));
        }
        values.resize(count, 0);
        if count <= room {
            return Ok(PipelineFilter { id: id as u32, values });
        }
    }
}

/// Reads the segments of an external dataset.
fn read_segments(creation: &Hdf5Id) -> Result<Vec<ExternalSegment>, LibraryError> {
    // SAFETY: the call takes only a number; the list is open for as long as its handle lives.
    let count = call_for_status(|| unsafe { H5Pget_external_count(creation.0) })?;
    (0..count as c_uint).map(|index| read_segment(creation.0, index)).collect()
}

fn read_segment(creation: hid_t, index: c_uint) -> Result<ExternalSegment, LibraryError> {
    let mut name = vec![0_u8; PATH_MAX];
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the caller has the list open. The library writes as many bytes of the name as the
    // buffer has room for at most, without a NUL where there are more, and two numbers of the types
    // that are borrowed.
    call_for_status(|| unsafe {
        let text = name.as_mut_ptr().cast::<c_char>();
        H5Pget_external(creation, index, name.len(), text, &raw mut offset, &raw mut size)
    })?;
    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
    let offset = u64::try_from(offset)
        .map_err(|_| LibraryError::new("external storage with a negative offset"))?;
    Ok(ExternalSegment { file: OsString::from_vec(name).into(), offset, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_may_have_as_many_entries_as_the_limit_and_one_more_is_damage() {
        let chunk = StoredChunk { origin: [0; 4], filter_mask: 0, offset: 0, bytes: 1 };
        let mut found = ChunkCollector { rank: 1, chunks: Vec::new(), most: 3, refusal: None };
        for _ in 0..3 {
            assert_eq!(found.add(chunk), Ok(()));
        }
        let refusal = found.add(chunk).unwrap_err();
        let error = refusal.into_error(found.chunks.len());
        assert_eq!(
            (error.why.as_str(), error.errno),
            ("damaged chunk index: more than 3 entries", None)
        );
    }

    #[test]
    fn an_index_that_does_not_fit_into_memory_is_not_damaged() {
        let error = ChunkRefusal::NoMemory.into_error(1000);
        assert!(error.why.contains("not enough memory for the chunk index"), "{error}");
        assert_eq!(error.into_io().unwrap().kind(), std::io::ErrorKind::OutOfMemory);
    }
}
