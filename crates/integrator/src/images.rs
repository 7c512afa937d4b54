//! Reads masks, darks, flats and variances from image files or HDF5 datasets.

use std::{fmt, io};

use frames::image::ImageError;
use frames::source::{FrameChunks, SourceError, SourceReader};
use kernels::{Pipeline, PixelType};
use recipe::FileRef;
use records::Source;

use crate::IntegratorError;
use crate::frame_assembly::{AssembleError, Assembler};

/// The purpose of an image. Error messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageRole {
    /// A mask: not 0 where masked.
    Mask,
    /// A dark: counts without beam.
    Dark,
    /// A flat field: the relative response of each pixel.
    Flat,
    /// The variance of the counts of each pixel.
    Variance,
}

impl ImageRole {
    /// Returns the word that messages use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mask => "mask",
            Self::Dark => "dark",
            Self::Flat => "flat",
            Self::Variance => "variance",
        }
    }
}

/// Reads an image that must have `shape` (rows, columns): a TIFF, CBF, EDF, NPY or Fit2D file, or
/// an HDF5 dataset. Returns the pixels, row-major, of the first image in it.
pub fn load_image(
    role: ImageRole,
    file: &FileRef,
    shape: [usize; 2],
) -> Result<Vec<f64>, IntegratorError> {
    let stack = ImageStack::open_shaped(role, file, shape)?;
    stack.frame(0, |pixel| pixel)
}

/// Reads a mask as [`load_image`] reads an image: true where its pixel is not 0, or is 0 if it is
/// `inverted`.
pub fn load_mask(
    file: &FileRef,
    shape: [usize; 2],
    inverted: bool,
) -> Result<Vec<bool>, IntegratorError> {
    let stack = ImageStack::open_shaped(ImageRole::Mask, file, shape)?;
    stack.frame(0, |pixel| (pixel != 0.0) != inverted)
}

/// Returns the mean of all images in all files, pixel by pixel; `None` if there is no file. The
/// files are as in [`load_image`]. A pixel that is NaN in one image is NaN in the mean.
pub fn load_mean(
    role: ImageRole,
    files: &[FileRef],
    shape: [usize; 2],
) -> Result<Option<Vec<f64>>, IntegratorError> {
    let (mut sum, mut count) = (Vec::new(), 0);
    for file in files {
        let stack = ImageStack::open_shaped(role, file, shape)?;
        for frame in 0..stack.store.frames() {
            let pixels = stack.frame(frame, |pixel| pixel)?;
            count += 1;
            match sum.is_empty() {
                true => sum = pixels,
                false => sum.iter_mut().zip(pixels).for_each(|(sum, pixel)| *sum += pixel),
            }
        }
    }
    if count > 1 {
        sum.iter_mut().for_each(|sum| *sum /= f64::from(count));
    }
    Ok((count > 0).then_some(sum))
}

/// Checks that a file has images of a type and coding that [`load_image`] can read. Their shape is
/// not checked.
pub fn check_image(role: ImageRole, file: &FileRef) -> Result<(), IntegratorError> {
    ImageStack::open(role, file).map(drop)
}

/// Returns the error of an image, which names the file once although its readers name it, too.
pub fn image_error(
    role: &'static str,
    file: &FileRef,
    why: String,
    is_retryable: bool,
) -> IntegratorError {
    let name = file.name();
    let names = [name.as_str(), &file.path.display().to_string()];
    let rest = names.iter().find_map(|name| {
        let rest = why.strip_prefix(name)?;
        rest.strip_prefix(": ").or_else(|| rest.strip_prefix("::")).map(str::to_owned)
    });
    let why = rest.unwrap_or(why);
    if is_retryable {
        IntegratorError::Unreadable { role, name, why }
    } else {
        IntegratorError::Image { role, name, why }
    }
}

/// Returns whether a file may be readable later. One that is not there was named wrongly, and
/// errors without a system code are in the file's content.
pub fn may_pass(why: &io::Error) -> bool {
    match why.kind() {
        io::ErrorKind::OutOfMemory => true,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            false
        }
        _ => why.raw_os_error().is_some(),
    }
}

/// A file of images, open.
struct ImageStack<'a> {
    role: &'static str,
    file: &'a FileRef,
    shape: [usize; 2],
    store: SourceReader,
    dtype: PixelType,
    pipeline: Pipeline,
}

impl<'a> ImageStack<'a> {
    fn open_shaped(
        role: ImageRole,
        file: &'a FileRef,
        expected: [usize; 2],
    ) -> Result<Self, IntegratorError> {
        let stack = Self::open(role, file)?;
        if stack.shape != expected {
            return Err(IntegratorError::Shape {
                role: stack.role,
                name: file.name(),
                found: stack.shape,
                expected,
            });
        }
        Ok(stack)
    }

    fn open(role: ImageRole, file: &'a FileRef) -> Result<Self, IntegratorError> {
        let role = role.name();
        let error = |why: &dyn fmt::Display| image_error(role, file, why.to_string(), false);
        if let Some(dataset) = &file.dataset
            && let Ok(header) = frames::image::probe(&file.path)
        {
            let why =
                format!("{} has no datasets: name the file without ::{dataset}", header.format);
            return Err(error(&why));
        }
        let dataset = file.dataset.clone().unwrap_or_default();
        let source = Source { file: file.path.clone(), dataset, ..Source::default() };
        let store = SourceReader::open_any(&source).map_err(|why| {
            let is_retryable = match &why {
                SourceError::Io { why, .. } | SourceError::Image(ImageError::Io { why, .. }) => {
                    may_pass(why)
                }
                SourceError::NoAnswer { retryable, .. } => *retryable,
                _ => false,
            };
            image_error(role, file, why.to_string(), is_retryable)
        })?;
        if store.frames() == 0 {
            return Err(error(&"0 images; expected at least one"));
        }
        let coding = store.coding();
        let dtype: PixelType = coding.dtype.name().parse().map_err(|why| error(&why))?;
        let filters: Vec<(u32, &[u32])> =
            coding.filters.iter().map(|filter| (filter.id, filter.values.as_slice())).collect();
        let pipeline =
            Pipeline::from_hdf5(&filters, dtype, coding.big_endian).map_err(|why| error(&why))?;
        let shape = store.shape().map(|length| length as usize);
        Ok(Self { role, file, shape, store, dtype, pipeline })
    }

    /// Reads an image and returns `value` of each of its pixels, row-major.
    fn frame<T>(&self, row: u64, value: impl Fn(f64) -> T) -> Result<Vec<T>, IntegratorError> {
        let error = |why, is_retryable| image_error(self.role, self.file, why, is_retryable);
        let chunks = match self.store.frame_chunks(row) {
            FrameChunks::Whole(chunk) => vec![chunk],
            FrameChunks::Pieces(chunks) => chunks,
            FrameChunks::NoData(why) | FrameChunks::Damaged(why) => {
                return Err(error(format!("image {row}: {why}"), false));
            }
        };
        let mut assembler = Assembler::default();
        let read = |chunk: &_, stored: &mut _| self.store.read_chunk(chunk, stored);
        let mut pixels = Vec::new();
        let frame =
            assembler.assemble(&self.pipeline, self.shape, (row, &chunks), read, &mut pixels);
        frame.map(|_| map_pixels(&pixels, self.dtype, value)).map_err(|why| {
            let is_retryable = matches!(&why, AssembleError::Read { why, .. } if may_pass(why));
            error(why.to_string(), is_retryable)
        })
    }
}

/// Converts native-endian pixels to f64.
pub fn pixels_to_f64(pixels: &[u8], dtype: PixelType) -> Vec<f64> {
    map_pixels(pixels, dtype, |pixel| pixel)
}

/// Returns `value` of each native-endian pixel.
fn map_pixels<T>(pixels: &[u8], dtype: PixelType, value: impl Fn(f64) -> T) -> Vec<T> {
    macro_rules! read {
        ($type:ty) => {{
            let pixels = pixels.as_chunks().0.iter();
            pixels.map(|bytes| value(<$type>::from_ne_bytes(*bytes) as f64)).collect()
        }};
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
