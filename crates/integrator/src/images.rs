//! Reads masks, darks, flats and variances from image files or HDF5 datasets.

use std::{fmt, io};

use frames::hdf5_array::{self, Hdf5ArrayError};
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
/// an HDF5 dataset. Returns the pixels, row-major, of the one image in it.
pub fn load_image(
    role: ImageRole,
    file: &FileRef,
    shape: [usize; 2],
) -> Result<Vec<f64>, IntegratorError> {
    let stack = ImageStack::open_shaped(role, file, shape)?;
    stack.only_image()?;
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
    stack.only_image()?;
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
        for frame in 0..stack.images() {
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
    pixels: StoredPixels,
}

/// Where the pixels of images are.
enum StoredPixels {
    /// In chunks that are decoded as frames are.
    Chunks(Box<SourceReader>, PixelType, Pipeline),
    /// In memory, read by the HDF5 library: booleans, 64-bit integers, chunks that were never written, and
    /// virtual datasets, as Bliss makes for darks.
    Values(Vec<f64>),
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
        let error = |why: &dyn fmt::Display| image_error(role.name(), file, why.to_string(), false);
        if let Some(dataset) = &file.dataset
            && let Ok(header) = frames::image::probe(&file.path)
        {
            let why =
                format!("{} has no datasets: name the file without ::{dataset}", header.format);
            return Err(error(&why));
        }
        let dataset = file.dataset.clone().unwrap_or_default();
        let source = Source { file: file.path.clone(), dataset, ..Source::default() };
        let opened = SourceReader::open_any(&source);
        if let Some((shape, values)) = read_by_library(role, file, &opened)? {
            return Ok(Self {
                role: role.name(),
                file,
                shape,
                pixels: StoredPixels::Values(values),
            });
        }
        let store = opened.map_err(|why| {
            let is_retryable = match &why {
                SourceError::Io { why, .. } | SourceError::Image(ImageError::Io { why, .. }) => {
                    may_pass(why)
                }
                SourceError::NoAnswer { retryable, .. } => *retryable,
                _ => false,
            };
            image_error(role.name(), file, why.to_string(), is_retryable)
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
        let role = role.name();
        Ok(Self {
            role,
            file,
            shape,
            pixels: StoredPixels::Chunks(Box::new(store), dtype, pipeline),
        })
    }

    /// Returns the number of images.
    fn images(&self) -> u64 {
        match &self.pixels {
            StoredPixels::Chunks(store, ..) => store.frames(),
            StoredPixels::Values(values) => (values.len() / (self.shape[0] * self.shape[1])) as u64,
        }
    }

    /// Checks that there is one image.
    fn only_image(&self) -> Result<(), IntegratorError> {
        match self.images() {
            1 => Ok(()),
            images => {
                let why = format!("{images} images: expected one");
                Err(image_error(self.role, self.file, why, false))
            }
        }
    }

    /// Reads an image and returns `value` of each of its pixels, row-major.
    fn frame<T>(&self, row: u64, value: impl Fn(f64) -> T) -> Result<Vec<T>, IntegratorError> {
        let error = |why, is_retryable| image_error(self.role, self.file, why, is_retryable);
        let (store, dtype, pipeline) = match &self.pixels {
            StoredPixels::Chunks(store, dtype, pipeline) => (store, *dtype, pipeline),
            StoredPixels::Values(values) => {
                let size = self.shape[0] * self.shape[1];
                return Ok(values[row as usize * size..][..size]
                    .iter()
                    .map(|&v| value(v))
                    .collect());
            }
        };
        let chunks = match store.frame_chunks(row) {
            FrameChunks::Whole(chunk) => vec![chunk],
            FrameChunks::Pieces(chunks) => chunks,
            FrameChunks::NoData(why) | FrameChunks::Damaged(why) => {
                return Err(error(format!("image {row}: {why}"), false));
            }
        };
        let mut assembler = Assembler::default();
        let read = |chunk: &_, stored: &mut _| store.read_chunk(chunk, stored);
        let mut pixels = Vec::new();
        let frame = assembler.assemble(pipeline, self.shape, (row, &chunks), read, &mut pixels);
        frame.map(|_| map_pixels(&pixels, dtype, value)).map_err(|why| {
            let is_retryable = matches!(&why, AssembleError::Read { why, .. } if may_pass(why));
            error(why.to_string(), is_retryable)
        })
    }
}

/// Rows and columns of images, and the values of all their pixels.
type ImageValues = ([usize; 2], Vec<f64>);

/// Returns rows and columns, and the values, of a dataset that can't be read as frames are and that the
/// HDF5 library can read: an image, or several of one shape. `None` for all others, whose error is that
/// of `opened`, or comes where they are read.
///
/// # Errors
/// Fails if the file could not be read, so that nothing is known of the dataset, or if the library can't
/// read what has no other reader, such as a virtual dataset whose files are away.
fn read_by_library(
    role: ImageRole,
    file: &FileRef,
    opened: &Result<SourceReader, SourceError>,
) -> Result<Option<ImageValues>, IntegratorError> {
    let Some(dataset) = file.dataset.as_deref() else { return Ok(None) };
    let refused = match opened {
        // Of counts, those that were never written are not known to be 0.
        Ok(store) => {
            let lacks_chunks = (0..store.frames())
                .any(|row| matches!(store.frame_chunks(row), FrameChunks::NoData(_)));
            if role != ImageRole::Mask || !lacks_chunks {
                return Ok(None);
            }
            None
        }
        Err(SourceError::Dataset { why, .. }) => Some(why),
        Err(_) => return Ok(None),
    };
    let error = |why: String, is_retryable| image_error(role.name(), file, why, is_retryable);
    let array = match hdf5_array::read_array(&file.path, dataset) {
        Ok(array) => array,
        Err(Hdf5ArrayError::Io { why, .. }) => return Err(error(why.to_string(), may_pass(&why))),
        Err(why @ Hdf5ArrayError::NoAnswer { .. }) => return Err(error(why.to_string(), true)),
        Err(Hdf5ArrayError::Dataset { why, .. }) => {
            let refused = refused.map_or_else(String::new, |refused| format!("{refused}; "));
            return Err(error(format!("{refused}the HDF5 library: {why}"), false));
        }
        Err(why) => return Err(error(why.to_string(), false)),
    };
    let shape = match array.shape[..] {
        [rows, columns] | [_, rows, columns] => [rows as usize, columns as usize],
        _ => return Ok(None),
    };
    let is_image = shape[0] > 0 && shape[1] > 0 && !array.values.is_empty();
    Ok(is_image.then_some((shape, array.values)))
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
