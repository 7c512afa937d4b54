//! How the pixels of a dataset are coded: their type, and the filters they went through.

use serde::{Deserialize, Serialize};

use crate::ffi::{ElementClass, ElementType, PipelineFilter};
pub use crate::image::Dtype;

/// How a chunk's bytes become pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PixelCoding {
    /// The pixels' type, any but `i64`.
    pub dtype: Dtype,
    /// The byte order of pixels that went through no filter or through all.
    pub big_endian: bool,
    /// The filters in the order of writing, as HDF5 lists them. Bit k of a chunk's filter mask says
    /// that filter k was left out.
    pub filters: Vec<Hdf5Filter>,
}

/// A filter by its number in the HDF Group's register, with the values that the dataset gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hdf5Filter {
    /// Such as 1 (deflate), 2 (shuffle), 32004 (LZ4), 32008 (bitshuffle).
    pub id: u32,
    /// The client data.
    pub values: Vec<u32>,
}

impl PixelCoding {
    pub(crate) fn new(stored: ElementType, filters: Vec<PipelineFilter>) -> Result<Self, String> {
        let dtype = dtype_of_element(stored)?;
        let big_endian = stored.big_endian && dtype.size() > 1;
        let filters = filters.into_iter().map(|PipelineFilter { id, values }| Hdf5Filter { id, values }).collect();
        Ok(Self { dtype, big_endian, filters })
    }

    /// Pixels of this machine, unfiltered.
    pub(crate) fn native_dtype(dtype: Dtype) -> Result<Self, String> {
        if dtype == Dtype::I64 {
            return Err(unsupported_dtype("i64"));
        }
        Ok(Self { dtype, big_endian: cfg!(target_endian = "big"), filters: Vec::new() })
    }

    /// The coding's name in records: `none`, `deflate`, `bslz4`, …; filters that have no short name by
    /// their number.
    pub fn name(&self) -> String {
        let names: Vec<String> = self.filters.iter().map(Hdf5Filter::name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join("+") }
    }
}

impl Hdf5Filter {
    fn name(&self) -> String {
        let name = match (self.id, self.values.get(4)) {
            (1, _) => "deflate",
            (2, _) => "shuffle",
            (3, _) => "fletcher32",
            (32004, _) => "lz4",
            (32008, Some(2)) => "bslz4",
            (32008, Some(3)) => "bszstd",
            // Lima 1 gives the filter no element size of its own: block size and codec alone.
            (32008, None) if self.values.get(1) == Some(&2) => "bslz4",
            (32008, _) => "bitshuffle",
            (32015, _) => "zstd",
            (id, _) => return format!("filter{id}"),
        };
        name.to_owned()
    }
}

fn dtype_of_element(stored: ElementType) -> Result<Dtype, String> {
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
        (ElementClass::Integer, 8, true) => return Err(unsupported_dtype("i64")),
        (ElementClass::Float, 2, _) => return Err(unsupported_dtype("f16")),
        (ElementClass::Text, ..) => return Err(unsupported_dtype("text")),
        _ => return Err(unsupported_dtype("of another kind")),
    })
}

fn unsupported_dtype(found: &str) -> String {
    format!("elements are {found}: expected u8, i8, u16, i16, u32, i32, u64, f32 or f64")
}
