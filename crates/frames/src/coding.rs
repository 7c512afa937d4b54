//! The coding of a dataset's pixels: their type, and the filters that were applied to them.

use serde::{Deserialize, Serialize};

use crate::ffi::{ElementClass, ElementType, PipelineFilter};
pub use crate::image::Dtype;

/// Describes how stored bytes of a chunk decode to pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PixelCoding {
    /// Type of the pixels: any but `i64`.
    pub dtype: Dtype,
    /// Byte order of the decoded pixels: `true` for big-endian.
    pub big_endian: bool,
    /// Filters in the order in which they were applied when writing, as HDF5 lists them. Bit k of a
    /// chunk's filter mask means that filter k was skipped for this chunk.
    pub filters: Vec<Hdf5Filter>,
}

/// An HDF5 filter: its number in the HDF Group's registry, and the dataset's parameters for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hdf5Filter {
    /// Registered filter number, for example 1 (deflate), 2 (shuffle), 32004 (LZ4), 32008
    /// (bitshuffle).
    pub id: u32,
    /// Parameters of the filter, which HDF5 calls client data.
    pub values: Vec<u32>,
}

impl PixelCoding {
    pub(crate) fn new(
        stored: ElementType,
        filters: Vec<PipelineFilter>,
    ) -> Result<Self, PixelTypeError> {
        let dtype = dtype_of_element(stored)?;
        let big_endian = stored.big_endian && dtype.size() > 1;
        let filters = filters
            .into_iter()
            .map(|PipelineFilter { id, values }| Hdf5Filter { id, values })
            .collect();
        Ok(Self { dtype, big_endian, filters })
    }

    /// Returns the coding of the unfiltered pixels of a frame, in native byte order.
    pub(crate) fn native_dtype(dtype: Dtype) -> Result<Self, PixelTypeError> {
        match dtype {
            Dtype::I64 => Err(PixelTypeError::SignedLong),
            dtype => Ok(Self::of_image(dtype)),
        }
    }

    /// Returns the coding of the unfiltered pixels of any image, in native byte order.
    pub(crate) fn of_image(dtype: Dtype) -> Self {
        Self { dtype, big_endian: cfg!(target_endian = "big"), filters: Vec::new() }
    }

    /// Returns the name of the coding in records: `none`, `deflate`, `bslz4`, …. Filters without a
    /// name are given by number.
    pub fn name(&self) -> String {
        let names: Vec<String> = self.filters.iter().map(Hdf5Filter::name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join("+") }
    }
}

impl Hdf5Filter {
    /// Returns the filter's name in records. That of bitshuffle says how its blocks are compressed.
    fn name(&self) -> String {
        const BITSHUFFLE: u32 = 32008;
        match (self.id, self.values.get(4)) {
            (BITSHUFFLE, Some(2)) => "bslz4".to_owned(),
            (BITSHUFFLE, Some(3)) => "bszstd".to_owned(),
            // Lima 1 sets no element size for bitshuffle, only block size and codec.
            (BITSHUFFLE, None) if self.values.get(1) == Some(&2) => "bslz4".to_owned(),
            (id, _) => {
                hdf5_filters::filter_name(id).map_or_else(|| format!("filter{id}"), str::to_owned)
            }
        }
    }
}

/// Explains why elements of a type can't be pixels. `Display` uses NumPy's names of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PixelTypeError {
    #[error("int64 elements: expected {PIXEL_TYPES}")]
    SignedLong,
    #[error("float16 elements: expected {PIXEL_TYPES}")]
    HalfFloat,
    #[error("text elements: expected {PIXEL_TYPES}")]
    Text,
    /// A compound, an enumeration, an integer with padding bits, or an unusual floating-point
    /// number.
    #[error("elements of an unknown type with {0} bytes: expected {PIXEL_TYPES}")]
    Unknown(u64),
}

const PIXEL_TYPES: &str = "uint8, int8, uint16, int16, uint32, int32, uint64, float32 or float64";

fn dtype_of_element(stored: ElementType) -> Result<Dtype, PixelTypeError> {
    use Dtype::{F32, F64, I8, I16, I32, U8, U16, U32, U64};
    Ok(match (stored.class, stored.bytes, stored.signed) {
        (ElementClass::Integer, 1, false) => U8,
        (ElementClass::Integer, 1, true) => I8,
        (ElementClass::Integer, 2, false) => U16,
        (ElementClass::Integer, 2, true) => I16,
        (ElementClass::Integer, 4, false) => U32,
        (ElementClass::Integer, 4, true) => I32,
        (ElementClass::Integer, 8, false) => U64,
        (ElementClass::Float, 4, _) => F32,
        (ElementClass::Float, 8, _) => F64,
        (ElementClass::Integer, 8, true) => return Err(PixelTypeError::SignedLong),
        (ElementClass::Float, 2, _) => return Err(PixelTypeError::HalfFloat),
        (ElementClass::Text, ..) => return Err(PixelTypeError::Text),
        (_, bytes, _) => return Err(PixelTypeError::Unknown(bytes)),
    })
}
