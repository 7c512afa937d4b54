//! [`ImageStack`], the images of a file or dataset: in chunks that are decoded as those of frames, in
//! whatever files they are stored, or as the HDF5 library reads them.

use std::fmt;
use std::path::{Path, PathBuf};

use frames::dataset_files::{DatasetFiles, dataset_files};
use frames::discover::{AllScans, DiscoveryKind, discover};
use frames::hdf5_array::{self, Hdf5ArrayError};
use frames::image::ImageError;
use frames::source::{FrameChunks, SourceError, SourceReader};
use kernels::{Pipeline, PixelType};
use recipe::FileRef;
use records::{AbsentKind, Source};

use crate::IntegratorError;
use crate::frame_assembly::{AssembleError, Assembler};
use crate::image_role::{ImageRole, image_error, may_pass};

/// Returns the files besides its own that a dataset's values are in; none for a file without datasets.
/// An error comes again, with the role of the image, where the image is opened.
pub fn linked_files(file: &FileRef) -> Vec<PathBuf> {
    let dataset = file.dataset.as_deref();
    let found = dataset.map(|dataset| dataset_files(&file.path, dataset));
    found.and_then(Result::ok).map(|files| files.others).unwrap_or_default()
}

/// A file of images, open.
pub struct ImageStack<'a> {
    role: &'static str,
    file: &'a FileRef,
    shape: [usize; 2],
    pixels: StoredPixels,
}

/// Where the pixels of images are.
enum StoredPixels {
    /// In chunks that are decoded as frames are.
    Chunks(StoredImages),
    /// In memory, read by the HDF5 library: booleans, and masks with chunks that were never written.
    Values(Vec<f64>),
}

/// Images in chunks of one dataset or, for a virtual one, as Bliss makes, of several.
struct StoredImages {
    sources: Vec<ImageSource>,
    /// The source of each image, and the row there.
    places: Vec<(usize, u64)>,
}

/// A dataset of images.
struct ImageSource {
    store: SourceReader,
    dtype: PixelType,
    pipeline: Pipeline,
}

impl<'a> ImageStack<'a> {
    /// Opens images that must have this shape (rows, columns).
    pub fn open_shaped(
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

    /// Opens images of any shape.
    pub fn open(role: ImageRole, file: &'a FileRef) -> Result<Self, IntegratorError> {
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
        let files = match &file.dataset {
            Some(dataset) => Some(find_files(role, file, dataset, &opened)?),
            None => None,
        };
        let elsewhere = files.filter(|files| !files.is_stored_here);
        let here = elsewhere.is_none();
        let name = role.name();
        if let Some((dataset, files)) = file.dataset.as_deref().zip(elsewhere)
            && let Some((shape, images)) =
                StoredImages::open_elsewhere(role, file, dataset, files.is_written)?
        {
            return Ok(Self { role: name, file, shape, pixels: StoredPixels::Chunks(images) });
        }
        if let Some((shape, values)) = read_by_library(role, file, &opened, here)? {
            return Ok(Self { role: name, file, shape, pixels: StoredPixels::Values(values) });
        }
        let store = opened.map_err(|why| source_error(role, file, &why))?;
        if store.frames() == 0 {
            return Err(error(&"0 images; expected at least one"));
        }
        let shape = store.shape().map(|length| length as usize);
        let places = (0..store.frames()).map(|row| (0, row)).collect();
        let sources = vec![ImageSource::new(store).map_err(|why| error(&why))?];
        let pixels = StoredPixels::Chunks(StoredImages { sources, places });
        Ok(Self { role: name, file, shape, pixels })
    }

    /// Returns the number of images.
    pub fn images(&self) -> u64 {
        match &self.pixels {
            StoredPixels::Chunks(images) => images.places.len() as u64,
            StoredPixels::Values(values) => (values.len() / (self.shape[0] * self.shape[1])) as u64,
        }
    }

    /// Checks that there is one image.
    pub fn only_image(&self) -> Result<(), IntegratorError> {
        match self.images() {
            1 => Ok(()),
            images => {
                let why = format!("{images} images: expected one");
                Err(image_error(self.role, self.file, why, false))
            }
        }
    }

    /// Reads an image and returns `value` of each of its pixels, row-major.
    pub fn frame<T>(&self, row: u64, value: impl Fn(f64) -> T) -> Result<Vec<T>, IntegratorError> {
        let error = |why, is_retryable| image_error(self.role, self.file, why, is_retryable);
        let (ImageSource { store, dtype, pipeline }, row_there) = match &self.pixels {
            StoredPixels::Chunks(StoredImages { sources, places }) => {
                let (source, row) = places[row as usize];
                (&sources[source], row)
            }
            StoredPixels::Values(values) => {
                let size = self.shape[0] * self.shape[1];
                return Ok(values[row as usize * size..][..size]
                    .iter()
                    .map(|&v| value(v))
                    .collect());
            }
        };
        let chunks = match store.frame_chunks(row_there) {
            FrameChunks::Whole(chunk) => vec![chunk],
            FrameChunks::Pieces(chunks) => chunks,
            FrameChunks::NoData(why) | FrameChunks::Damaged(why) => {
                return Err(error(format!("image {row}: {why}"), false));
            }
        };
        let mut assembler = Assembler::default();
        let read = |chunk: &_, stored: &mut _| store.read_chunk(chunk, stored);
        let mut pixels = Vec::new();
        let frame =
            assembler.assemble(pipeline, self.shape, (row_there, &chunks), read, &mut pixels);
        frame.map(|_| map_pixels(&pixels, *dtype, value)).map_err(|why| {
            let is_retryable = matches!(&why, AssembleError::Read { why, .. } if may_pass(why));
            error(why.to_string(), is_retryable)
        })
    }
}

impl ImageSource {
    /// Returns a dataset with what decodes its chunks, or why nothing does.
    fn new(store: SourceReader) -> Result<Self, String> {
        let coding = store.coding();
        let dtype: PixelType = coding
            .dtype
            .name()
            .parse()
            .map_err(|why: kernels::UnknownPixelType| why.to_string())?;
        let filters: Vec<(u32, &[u32])> =
            coding.filters.iter().map(|filter| (filter.id, filter.values.as_slice())).collect();
        let pipeline = Pipeline::from_hdf5(&filters, dtype, coding.big_endian)
            .map_err(|why| why.to_string())?;
        Ok(Self { store, dtype, pipeline })
    }
}

impl StoredImages {
    /// Opens the images of a dataset that is linked or virtual, where they are stored, and returns
    /// their rows and columns, too. `None` for images that can't be read as frames are, such as those
    /// put together from modules, which the HDF5 library can read: masks, and others that are all written.
    ///
    /// # Errors
    /// An image is missing or was never written, or can't be read. The HDF5 library would return the fill
    /// value for it.
    fn open_elsewhere(
        role: ImageRole,
        file: &FileRef,
        dataset: &str,
        is_written: bool,
    ) -> Result<Option<([usize; 2], Self)>, IntegratorError> {
        let error = |why: String, is_retryable| image_error(role.name(), file, why, is_retryable);
        let mut name = file.path.to_path_buf().into_os_string();
        name.push(format!("::/{}", dataset.trim_start_matches('/')));
        let found = discover(Path::new(&name), &AllScans).pop().map(|found| found.kind);
        let scan = match found {
            Some(DiscoveryKind::Scan(scan)) if scan.frames > 0 => scan,
            Some(DiscoveryKind::Failed { why, unreadable: true, .. }) => {
                return Err(error(why, true));
            }
            _ if role == ImageRole::Mask || is_written => return Ok(None),
            Some(DiscoveryKind::Failed { why, .. }) => return Err(error(why, false)),
            _ => return Err(error("0 images; expected at least one".to_owned(), false)),
        };
        if let Some(absent) = scan.absent.first() {
            let is_away = matches!(absent.kind, AbsentKind::Missing | AbsentKind::Unreadable);
            let is_of_frames_alone = is_written && absent.kind == AbsentKind::Corrupt;
            if !is_away && (role == ImageRole::Mask || is_of_frames_alone) {
                return Ok(None);
            }
            let image = absent.range.iter().next().unwrap_or_default();
            let is_retryable = absent.kind == AbsentKind::Unreadable;
            return Err(error(format!("image {image}: {}", absent.reason), is_retryable));
        }
        let mut images = Self { sources: Vec::new(), places: vec![(0, 0); scan.frames as usize] };
        let mut shape = None;
        for source in &scan.sources {
            let opened = match shape {
                Some(shape) => SourceReader::open(source, shape),
                None => SourceReader::open_any(source),
            };
            let store = opened.map_err(|why| source_error(role, file, &why))?;
            shape.get_or_insert(store.shape());
            for (image, row) in source.frames.iter().zip(source.rows.iter()) {
                images.places[image as usize] = (images.sources.len(), row);
            }
            images.sources.push(ImageSource::new(store).map_err(|why| error(why, false))?);
        }
        let shape = shape.unwrap_or_default().map(|length| length as usize);
        Ok(Some((shape, images)))
    }
}

/// Returns the files of a dataset's values, all of which the recipe must have with their digests.
///
/// # Errors
/// A file can't be read, or the recipe does not have it: the dataset was stored elsewhere when it was
/// made, or an earlier version made it.
fn find_files(
    role: ImageRole,
    file: &FileRef,
    dataset: &str,
    opened: &Result<SourceReader, SourceError>,
) -> Result<DatasetFiles, IntegratorError> {
    let error = |why: String, is_retryable| image_error(role.name(), file, why, is_retryable);
    let files = dataset_files(&file.path, dataset).map_err(|why| match (why, opened) {
        (Hdf5ArrayError::Io { why, .. }, _) => error(why.to_string(), may_pass(&why)),
        (why @ Hdf5ArrayError::NoAnswer { .. }, _) => error(why.to_string(), true),
        (_, Err(why)) => source_error(role, file, why),
        (why, Ok(_)) => error(why.to_string(), false),
    })?;
    let is_known = |path: &PathBuf| file.linked.iter().any(|linked| linked.path.as_path() == path);
    match files.others.iter().find(|path| !is_known(path)) {
        Some(path) => {
            let path = path.display();
            Err(error(
                format!(
                    "its values are in {path}, too, which the recipe does not know: run plan-split again, with --replace if there are \
                     results, which are of other settings"
                ),
                false,
            ))
        }
        None => Ok(files),
    }
}

/// Returns the error for a dataset or file that can't be opened as frames are.
fn source_error(role: ImageRole, file: &FileRef, why: &SourceError) -> IntegratorError {
    let is_retryable = match why {
        SourceError::Io { why, .. } | SourceError::Image(ImageError::Io { why, .. }) => {
            may_pass(why)
        }
        SourceError::NoAnswer { retryable, .. } => *retryable,
        _ => false,
    };
    image_error(role.name(), file, why.to_string(), is_retryable)
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
    here: bool,
) -> Result<Option<ImageValues>, IntegratorError> {
    let Some(dataset) = file.dataset.as_deref() else { return Ok(None) };
    let refused = match opened {
        // It was looked for in the wrong file.
        _ if !here => None,
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
pub fn map_pixels<T>(pixels: &[u8], dtype: PixelType, value: impl Fn(f64) -> T) -> Vec<T> {
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
