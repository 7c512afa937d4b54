//! Single images: TIFF, CBF, EDF, NPY and Fit2D mask files, told apart by their content.
//!
//! Beamlines keep masks, darks and flats in these formats, and whole scans as numbered series of
//! them. Only the pixels are read, as the numbers that the file holds: no scaling, no flip, row 0
//! first.
//!
//! | format | what is read |
//! |---|---|
//! | TIFF | grey images of 8 to 64 bits, integer or float, strips or tiles, classic and BigTIFF; every page |
//! | CBF | one image of any integer type in `x-CBF_BYTE_OFFSET`, `Content-MD5` verified if present |
//! | EDF | every image of a file, either byte order, uncompressed |
//! | NPY | one 2-D array, or a 3-D one as a stack, C or Fortran order, booleans as 0 and 1 |
//! | Fit2D | a mask of one bit a pixel, as 0 and 1 |

mod cbf;
mod edf;
mod file_bytes;
mod fit2d;
mod npy;
mod pixel_data;
mod tiff;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use file_bytes::{FileBytes, FormatError};
pub use pixel_data::{Dtype, PixelData};
use records::format_count;
use system::untrusted_file;

use crate::open_ahead;

/// Pixels of one frame, as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Pixels in row-major order, `shape[0] * shape[1]` of them.
    pub pixels: PixelData,
}

/// Header of an image file, read without its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Name of the file's format: `tiff`, `cbf`, `edf`, `npy`, `fit2d`.
    pub format: &'static str,
    /// Rows and columns of the first image.
    pub shape: [usize; 2],
    /// The pixels' type in the first image.
    pub kind: Dtype,
    /// Number of images in the file.
    pub frames: usize,
    /// True if the format supports a checksum of the pixels, but this file has none.
    pub is_unverified: bool,
}

/// A format of image files. Each is a constant in its own module, and an entry of [`FORMATS`].
struct ImageFormat {
    /// Name of the format in records and errors.
    name: &'static str,
    /// Name in the list of the formats that are expected.
    label: &'static str,
    /// Lower-case suffixes of the names of such files.
    suffixes: &'static [&'static str],
    /// Set if a search of a directory takes files with these suffixes for frames.
    is_searched_for: bool,
    /// Returns whether a file that starts with these bytes has this format.
    has_format: fn(start: &[u8]) -> bool,
    /// Reads the header of the first image, and counts the images, without reading pixels.
    read_header: fn(&mut FileBytes<'_>) -> Result<ImageHeader, FormatError>,
    /// Returns the offset of the end of the first image in a file with several, which stays the same as
    /// others are appended; `None` if there is one.
    first_image_end: fn(&mut FileBytes<'_>) -> Result<Option<u64>, FormatError>,
    /// Reads an image, counted from 0, as it is stored: no scaling, no flip, row 0 first.
    read_image: fn(&mut FileBytes<'_>, usize) -> Result<Image, FormatError>,
}

/// All formats, in the order in which they are recognized. EDF is the last, because its mark is a
/// single brace.
const FORMATS: [&ImageFormat; 5] = [&tiff::TIFF, &cbf::CBF, &npy::NPY, &fit2d::FIT2D, &edf::EDF];

/// Returns the lower-case suffixes of the image files that a search of a directory reads. Arrays
/// and masks are not among them: they are read only if they are named.
pub fn searched_suffixes() -> impl Iterator<Item = &'static str> {
    FORMATS
        .into_iter()
        .filter(|format| format.is_searched_for)
        .flat_map(|format| format.suffixes)
        .copied()
}

/// Returns whether this is the lower-case suffix of a format's files.
pub fn is_image_suffix(suffix: &str) -> bool {
    FORMATS.into_iter().any(|format| format.suffixes.contains(&suffix))
}

/// Returns the formats in words: `TIFF, CBF, NPY, a Fit2D mask or EDF`.
fn expected_formats() -> String {
    let labels = FORMATS.map(|format| format.label);
    let (last, others) = labels.split_last().expect("formats");
    format!("{} or {last}", others.join(", "))
}

/// Explains why an image can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file can't be opened or read.
    #[error("{}: {why}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
    /// The format is unknown.
    #[error("{}: not an image: expected {}, found {found}", path.display(), expected_formats())]
    Unknown {
        /// Path of the file.
        path: PathBuf,
        /// The first bytes of the file.
        found: FirstBytes,
    },
    /// The file violates its format, or uses a feature that is not supported.
    #[error("{}: {format}: {why}", path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Name of the format that the file violates.
        format: &'static str,
        /// Position and kind of the violation, and what was expected.
        why: String,
    },
    /// The frame number is beyond the last frame.
    #[error("{}: no frame {frame}: {} in the file", path.display(), format_count(*frames, "frame"))]
    NoFrame {
        /// Path of the file.
        path: PathBuf,
        /// Requested frame, counted from 0.
        frame: usize,
        /// Number of frames in the file.
        frames: usize,
    },
}

/// The beginning of a file that is no image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// The file is empty.
    Empty,
    /// The signature of HDF5.
    Hdf5,
    /// Up to eight bytes of anything else.
    Other(Vec<u8>),
}

impl FirstBytes {
    fn new(start: &[u8]) -> Self {
        match start {
            [] => Self::Empty,
            _ if start.starts_with(b"\x89HDF\r\n\x1a\n") => Self::Hdf5,
            _ => Self::Other(start[..start.len().min(8)].to_vec()),
        }
    }
}

impl fmt::Display for FirstBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => out.write_str("an empty file"),
            Self::Hdf5 => out.write_str("HDF5 (name the dataset: FILE::/PATH)"),
            Self::Other(bytes) => write!(out, "\"{}\"", bytes.escape_ascii()),
        }
    }
}

/// Reads the first image of a file.
///
/// # Errors
/// See [`ImageError`]. A damaged or hostile file gives an error; memory is only allocated for
/// pixels that the file is large enough to hold.
pub fn read(path: &Path) -> Result<Image, ImageError> {
    read_frame(path, 0)
}

/// Reads image `frame`, counted from 0, of a file with several images.
///
/// # Errors
/// Fails like [`read`], or if `frame` is beyond the last image.
pub fn read_frame(path: &Path, frame: usize) -> Result<Image, ImageError> {
    let file =
        untrusted_file::open(path).map_err(|why| ImageError::Io { path: path.to_owned(), why })?;
    let (format, mut content) = detect_format(path, file)?;
    (format.read_image)(&mut content, frame).map_err(|err| err.into_image_error(path, format.name))
}

/// Reads the header of a file without its pixels.
///
/// # Errors
/// Fails like [`read`].
pub fn probe(path: &Path) -> Result<ImageHeader, ImageError> {
    let opened =
        open_ahead::open(path).map_err(|why| ImageError::Io { path: path.to_owned(), why })?;
    probe_opened(path, &opened)
}

/// Reads the header of an open file, like [`probe`].
pub(crate) fn probe_opened(path: &Path, file: &File) -> Result<ImageHeader, ImageError> {
    let (format, mut content) = detect_format(path, file)?;
    (format.read_header)(&mut content).map_err(|err| err.into_image_error(path, format.name))
}

/// Returns the offset of the end of the first image in an open file with several images, with its header;
/// `None` for a file with one. It stays the same as images are appended.
///
/// # Errors
/// Fails like [`read`].
pub fn first_image_end(path: &Path, file: &File) -> Result<Option<u64>, ImageError> {
    let (format, mut content) = detect_format(path, file)?;
    (format.first_image_end)(&mut content).map_err(|err| err.into_image_error(path, format.name))
}

fn detect_format<'a>(
    path: &Path,
    file: impl Read + Seek + 'a,
) -> Result<(&'static ImageFormat, FileBytes<'a>), ImageError> {
    let io = |why| ImageError::Io { path: path.to_owned(), why };
    let mut content = FileBytes::new(file).map_err(io)?;
    let start = content.read_start().map_err(io)?;
    let unknown = || ImageError::Unknown { path: path.to_owned(), found: FirstBytes::new(&start) };
    Ok((find_format(&start).ok_or_else(unknown)?, content))
}

/// Returns the format of a file with these first bytes.
fn find_format(start: &[u8]) -> Option<&'static ImageFormat> {
    FORMATS.into_iter().find(|format| (format.has_format)(start))
}

#[cfg(test)]
mod tests;
