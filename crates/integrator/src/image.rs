//! Masks, darks, flats and variances as numbers, from image files or HDF5 datasets.

use std::fmt;

use frames::store::{Row, Store};
use kernels::{Pipeline, PixelType};
use recipe::FileRef;
use records::{Source, Spans};

use crate::Error;
use crate::assemble::Assembler;

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not 0 where masked.
    Mask,
    /// Counts without beam.
    Dark,
    /// Relative response.
    Flat,
    /// The variance of the counts.
    Variance,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Mask => "mask",
            Self::Dark => "dark",
            Self::Flat => "flat",
            Self::Variance => "variance",
        }
    }
}

/// The pixels of an image of `shape` (rows, columns), row-major: a TIFF, CBF, EDF or NPY file, or a 2-D
/// dataset, or the first frame of a 3-D one.
pub fn load(role: Role, file: &FileRef, shape: [usize; 2]) -> Result<Vec<f64>, Error> {
    let name = match &file.dataset {
        Some(dataset) => format!("{}::{dataset}", file.path.display()),
        None => file.path.display().to_string(),
    };
    let role = role.name();
    let unreadable = |why: &dyn fmt::Display| Error::Image { role, name: name.clone(), why: why.to_string() };
    let Some(dataset) = &file.dataset else {
        let image = frames::image::read(&file.path).map_err(|why| unreadable(&why))?;
        if image.shape != shape {
            return Err(Error::Shape { role, name, found: image.shape, expected: shape });
        }
        return Ok(image.pixels.to_f64());
    };
    let one = Spans::all(1);
    let source = Source {
        file: file.path.clone(),
        dataset: dataset.clone(),
        frames: one.clone(),
        rows: one,
        ..Source::default()
    };
    let store = Store::open(&source, shape.map(|length| length as u64)).map_err(|why| unreadable(&why))?;
    first_frame(&store, shape).map_err(|why| unreadable(&why))
}

fn first_frame(store: &Store, shape: [usize; 2]) -> Result<Vec<f64>, String> {
    let coding = store.coding();
    let dtype: PixelType = coding.dtype.name().parse().map_err(|why| format!("{why}"))?;
    let filters: Vec<(u32, &[u32])> =
        coding.filters.iter().map(|filter| (filter.id, filter.values.as_slice())).collect();
    let pipeline = Pipeline::from_hdf5(&filters, dtype, coding.big_endian).map_err(|why| why.to_string())?;
    let chunks = match store.chunks_of(0) {
        Row::Whole(chunk) => vec![chunk],
        Row::Pieces(chunks) => chunks,
        Row::Absent(why) => return Err(why),
    };
    let mut assembler = Assembler::default();
    let frame = assembler.frame(&pipeline, shape, 0, &chunks, |chunk, stored| store.read(chunk, stored));
    frame.map(|(pixels, _)| numbers(pixels, dtype)).map_err(|why| why.to_string())
}

/// Native-endian pixels as numbers.
pub fn numbers(pixels: &[u8], dtype: PixelType) -> Vec<f64> {
    macro_rules! read {
        ($type:ty) => {
            pixels.as_chunks().0.iter().map(|bytes| <$type>::from_ne_bytes(*bytes) as f64).collect()
        };
    }
    match dtype {
        PixelType::U8 => read!(u8),
        PixelType::I8 => read!(i8),
        PixelType::U16 => read!(u16),
        PixelType::I16 => read!(i16),
        PixelType::U32 => read!(u32),
        PixelType::I32 => read!(i32),
        PixelType::U64 => read!(u64),
        PixelType::I64 => read!(i64),
        PixelType::F32 => read!(f32),
        PixelType::F64 => read!(f64),
    }
}
