//! Datasets of HDF5 files: rows, lists and texts.

use std::ops::Range;

use hdf5::datatype::ByteOrder;
use hdf5::filters::Filter;
use hdf5::plist::dataset_create::Layout;
use hdf5::types::{TypeDescriptor, VarLenUnicode};
use hdf5::{Extent, H5Type, Hyperslab, SliceOrIndex};
use hdf5_filters::bitshuffle::{self, BlockCodec};
use ndarray::{ArrayViewD, IxDyn};

use crate::compression::{Compression, DEFLATE_LEVEL};

use super::attributes::{self, Attributes, check_size};
use super::error::{ErrorLatch, Hdf5Error, Result};

/// Number type of a dataset.
pub(crate) trait DatasetElement: H5Type + Copy + Sync {}
impl<T: H5Type + Copy + Sync> DatasetElement for T {}

/// A dataset of an open file.
pub(crate) struct Dataset {
    dataset: hdf5::Dataset,
    name: String,
    health: ErrorLatch,
}

/// Storage of a dataset's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatasetStorage {
    /// One piece of the file, without chunks.
    Contiguous,
    /// Chunks of this many rows; the dataset can grow.
    Chunked(usize),
    /// Chunks of this shape, in this compression; the number of rows may change if `is_resizable`.
    Compressed { chunk: [usize; 3], compression: Compression, is_resizable: bool },
}

impl DatasetStorage {
    pub(super) fn create<T: H5Type>(
        &self,
        group: &hdf5::Group,
        name: &str,
        shape: &[usize],
    ) -> std::result::Result<hdf5::Dataset, hdf5::Error> {
        let builder = group.new_dataset::<T>().obj_track_times(false);
        match self {
            Self::Contiguous => builder.shape(shape).create(name),
            Self::Chunked(rows) => {
                let extents = std::iter::once(Extent::resizable(shape[0]));
                let extents = extents.chain(shape[1..].iter().map(|&size| Extent::fixed(size)));
                let chunk: Vec<usize> =
                    std::iter::once(*rows).chain(shape[1..].iter().copied()).collect();
                builder.chunk(chunk).shape(extents.collect::<Vec<_>>()).create(name)
            }
            Self::Compressed { chunk, compression, is_resizable } => {
                let builder = builder.chunk(*chunk);
                let builder = match compression.block_codec() {
                    Some(codec) => {
                        let parameters = codec.parameters(size_of::<T>() as u32);
                        builder.add_filter(bitshuffle::ID as _, &parameters)
                    }
                    None if *compression == Compression::Gzip => {
                        builder.shuffle().deflate(DEFLATE_LEVEL)
                    }
                    None => builder,
                };
                let rows = match is_resizable {
                    true => Extent::resizable(shape[0]),
                    false => Extent::fixed(shape[0]),
                };
                let row = shape[1..].iter().map(|&size| Extent::fixed(size));
                builder.shape(std::iter::once(rows).chain(row).collect::<Vec<_>>()).create(name)
            }
        }
    }
}

impl Dataset {
    pub(super) fn new(dataset: hdf5::Dataset, name: &str, health: &ErrorLatch) -> Self {
        Self { dataset, name: name.to_owned(), health: health.clone() }
    }

    pub(super) fn descriptor(&self) -> std::result::Result<TypeDescriptor, hdf5::Error> {
        self.dataset.dtype()?.to_descriptor()
    }

    /// Returns the size in each dimension.
    pub fn shape(&self) -> Result<Vec<usize>> {
        self.health.call(|| self.dataset.space().map(|space| space.shape()))
    }

    /// Returns the number of values.
    pub fn size(&self) -> Result<usize> {
        let shape = self.shape()?;
        Ok(shape.iter().fold(1, |size: usize, extent| size.saturating_mul(*extent)))
    }

    /// Checks that the dataset holds numbers of type `T`, stored as such, in this shape. Reading
    /// them then converts nothing, and fails only if the file can't be read.
    ///
    /// # Errors
    /// Another type or shape; the file can't be read.
    pub fn check_stored_as<T: H5Type>(&self, shape: &[usize]) -> Result<()> {
        match self.shape()? {
            found if found == shape => self.check_type::<T>(),
            found => Err(Hdf5Error::Damaged(format!(
                "{} has shape {found:?}; expected {shape:?}",
                self.name
            ))),
        }
    }

    /// Checks that the dataset holds numbers of type `T`, stored as such.
    pub fn check_type<T: H5Type>(&self) -> Result<()> {
        let (found, expected) = (self.health.call(|| self.descriptor())?, T::type_descriptor());
        match found == expected {
            true => Ok(()),
            false => Err(Hdf5Error::Damaged(format!(
                "{} has type {found:?}; expected {expected:?}",
                self.name
            ))),
        }
    }

    /// Returns whether the dataset holds numbers of type `T` in the byte order of this machine.
    pub fn is_native<T: H5Type>(&self) -> Result<bool> {
        let order = self.health.call(|| self.dataset.dtype().map(|dtype| dtype.byte_order()))?;
        let native = match cfg!(target_endian = "little") {
            true => ByteOrder::LittleEndian,
            false => ByteOrder::BigEndian,
        };
        Ok(order == native && self.health.call(|| self.descriptor())? == T::type_descriptor())
    }

    /// Returns the class of the numbers; `None` if the dataset holds something else.
    pub fn kind(&self) -> Result<Option<NumberClass>> {
        Ok(match self.health.call(|| self.descriptor())? {
            TypeDescriptor::Float(_) => Some(NumberClass::Float),
            TypeDescriptor::Integer(_) => Some(NumberClass::Integer),
            TypeDescriptor::Unsigned(_) => Some(NumberClass::Unsigned),
            _ => None,
        })
    }

    /// Returns the shape of the chunks; `None` if the dataset has none.
    pub fn chunk_shape(&self) -> Result<Option<Vec<usize>>> {
        self.health.call(|| self.dataset.dcpl()?.get_chunk())
    }

    /// Returns the compression of the chunks; `None` if the dataset has no chunks, or other filters
    /// than azpipe writes.
    pub fn compression(&self) -> Result<Option<Compression>> {
        let found = self.health.call(|| {
            let creation = self.dataset.dcpl()?;
            Ok::<_, hdf5::Error>((creation.get_layout()?, creation.get_filters()?))
        });
        Ok(match found? {
            (Layout::Chunked, filters) => match &filters[..] {
                [] => Some(Compression::None),
                [Filter::Shuffle, Filter::Deflate(_)] => Some(Compression::Gzip),
                [Filter::User(id, parameters)] if *id == bitshuffle::ID as i32 => {
                    match BlockCodec::from_parameters(parameters) {
                        Some(BlockCodec::Lz4) => Some(Compression::Lz4),
                        Some(BlockCodec::Zstd) => Some(Compression::Zstd),
                        None => None,
                    }
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns whether the values are those of other datasets, in files that may be missing. The
    /// library then gives fill values.
    pub fn is_virtual(&self) -> Result<bool> {
        self.health
            .call(|| self.dataset.dcpl()?.get_layout().map(|layout| layout == Layout::Virtual))
    }

    /// Reads all values, the last dimension fastest.
    pub fn values<T: H5Type>(&self) -> Result<Vec<T>> {
        check_size(self.size()?, size_of::<T>(), &self.name)?;
        self.health.call(|| self.dataset.read_raw())
    }

    /// Reads the text of a dataset that holds one.
    pub fn text(&self) -> Result<String> {
        let text: VarLenUnicode = self.health.call(|| self.dataset.read_scalar())?;
        attributes::check_utf8(&text, &self.name)
    }

    /// Reads consecutive rows, one after the other.
    pub fn rows<T: H5Type>(&self, range: Range<usize>) -> Result<Vec<T>> {
        let read = self.read_rows(range)?;
        self.health.check(read)
    }

    /// Reads consecutive rows, damaged or not, for a caller that has a checksum of each row. A
    /// damaged row doesn't prevent reading its neighbours.
    pub fn rows_unverified<T: H5Type>(&self, range: Range<usize>) -> Result<Vec<T>> {
        let read = self.read_rows(range)?;
        self.health.check_unverified(read)
    }

    fn read_rows<T: H5Type>(
        &self,
        range: Range<usize>,
    ) -> Result<std::result::Result<Vec<T>, hdf5::Error>> {
        let shape = self.shape()?;
        if range.start > range.end || shape.first().is_none_or(|rows| range.end > *rows) {
            let rows = shape.first().copied().unwrap_or_default();
            return Err(format!("{}: rows {range:?} of {rows}", self.name).into());
        }
        let row = shape[1..]
            .iter()
            .try_fold(1_usize, |all, size| all.checked_mul(*size))
            .unwrap_or(usize::MAX);
        check_size(row.saturating_mul(range.len()), size_of::<T>(), &self.name)?;
        let rows = row_selection(range, shape.len().saturating_sub(1));
        let read = self.health.watch(|| self.dataset.read_slice::<T, _, IxDyn>(rows));
        Ok(read.map(|values| values.into_raw_vec_and_offset().0))
    }

    /// Writes consecutive rows from `first` on.
    pub fn write_rows<T: H5Type>(&self, first: usize, values: &[T], row: &[usize]) -> Result<()> {
        let width = row.iter().fold(1_usize, |width, extent| width.saturating_mul(*extent));
        let rows = values.len().checked_div(width).unwrap_or_default();
        let shape: Vec<usize> = std::iter::once(rows).chain(row.iter().copied()).collect();
        let block = ArrayViewD::from_shape(shape, values).map_err(|why| why.to_string())?;
        self.health.check(
            self.dataset
                .write_slice(block, row_selection(first..first.saturating_add(rows), row.len())),
        )
    }

    /// Changes the number of rows of a chunked dataset.
    pub fn resize(&self, rows: usize, row: &[usize]) -> Result<()> {
        let shape: Vec<usize> = std::iter::once(rows).chain(row.iter().copied()).collect();
        self.health.check(self.dataset.resize(shape))
    }

    /// Writes the stored bytes of the chunk that starts at `offset`.
    pub fn write_chunk(&self, offset: &[u64], stored: &[u8]) -> Result<()> {
        self.health.check(frames::write_chunk(&self.dataset, offset, stored))
    }

    /// Reads the stored bytes of the chunk that starts at `offset`.
    pub fn read_chunk(&self, offset: &[u64]) -> Result<Vec<u8>> {
        self.health.call(|| frames::read_chunk(&self.dataset, offset))
    }

    /// Reads the stored bytes of the chunk that starts at `offset`, damaged or not, for a caller that
    /// has a checksum of what they hold.
    pub fn chunk_unverified(&self, offset: &[u64]) -> Result<Vec<u8>> {
        let read = self.health.watch(|| frames::read_chunk(&self.dataset, offset));
        self.health.check_unverified(read)
    }

    /// Creates a text attribute.
    pub fn set_text(&self, name: &str, text: &str) -> Result<()> {
        self.attributes().set_text(name, text)
    }

    /// Creates a numeric attribute.
    pub fn set_number<T: H5Type>(&self, name: &str, number: T) -> Result<()> {
        self.attributes().set_number(name, number)
    }

    /// Creates an attribute with a list of numbers.
    pub fn set_numbers<T: H5Type>(&self, name: &str, numbers: &[T]) -> Result<()> {
        self.attributes().set_numbers(name, numbers)
    }

    /// Reads a text attribute.
    pub fn text_attribute(&self, name: &str) -> Result<String> {
        self.attributes().text(name)
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes { at: &self.dataset, health: &self.health }
    }
}

/// Class of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberClass {
    Float,
    Integer,
    Unsigned,
}

fn row_selection(range: Range<usize>, dimensions: usize) -> Hyperslab {
    let whole = std::iter::repeat_n(SliceOrIndex::from(..), dimensions);
    Hyperslab::from(std::iter::once(SliceOrIndex::from(range)).chain(whole).collect::<Vec<_>>())
}
