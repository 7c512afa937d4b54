//! Single images: TIFF, CBF, EDF, NPY and Fit2D mask files, told apart by their content.
//!
//! Beamlines keep masks, darks and flats in these formats, and whole scans as numbered series of them.
//! Only the pixels are read, as the numbers that the file holds: no scaling, no flip, row 0 first.
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
use std::io::{self, BufReader, Read, Seek};
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
    /// Format of the file.
    pub format: ImageFormat,
    /// Rows and columns of the first image.
    pub shape: [usize; 2],
    /// The pixels' type in the first image.
    pub kind: Dtype,
    /// Number of images in the file.
    pub frames: usize,
    /// True if the format supports a checksum of the pixels, but this file has none.
    pub is_unverified: bool,
}

/// Format of an image file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// Tagged Image File Format, written by Dectris, EPICS and most cameras.
    Tiff,
    /// Crystallographic Binary File, written by Dectris (miniCBF).
    Cbf,
    /// ESRF data format.
    Edf,
    /// Array in NumPy's own format.
    Npy,
    /// Mask file of Fit2D.
    Fit2d,
}

impl ImageFormat {
    /// Returns the name of the format in records: `tiff`, `cbf`, `edf`, `npy`, `fit2d`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiff => "tiff",
            Self::Cbf => "cbf",
            Self::Edf => "edf",
            Self::Npy => "npy",
            Self::Fit2d => "fit2d",
        }
    }
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
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
    #[error("{}: not an image: expected TIFF, CBF, EDF, NPY or a Fit2D mask, found {found}", path.display())]
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
        /// Format that the file violates.
        format: ImageFormat,
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
/// See [`ImageError`]. A damaged or hostile file gives an error; memory is only allocated for pixels that the
/// file is large enough to hold.
pub fn read(path: &Path) -> Result<Image, ImageError> {
    read_frame(path, 0)
}

/// Reads image `frame`, counted from 0, of a file with several images.
///
/// # Errors
/// Fails like [`read`], or if `frame` is beyond the last image.
pub fn read_frame(path: &Path, frame: usize) -> Result<Image, ImageError> {
    let (format, mut content) = open_image(path)?;
    decode_frame(format, &mut content, frame).map_err(|err| err.into_image_error(path, format))
}

/// Reads the header of a file without its pixels.
///
/// # Errors
/// Fails like [`read`].
pub fn probe(path: &Path) -> Result<ImageHeader, ImageError> {
    let opened = open_ahead::open(path).map_err(|why| ImageError::Io { path: path.to_owned(), why })?;
    probe_opened(path, &opened)
}

/// Reads the header of an open file, like [`probe`].
pub(crate) fn probe_opened(path: &Path, file: &File) -> Result<ImageHeader, ImageError> {
    let (format, mut content) = detect_format_of_open(path, file)?;
    read_header(format, &mut content).map_err(|err| err.into_image_error(path, format))
}

fn open_image(path: &Path) -> Result<(ImageFormat, FileBytes<BufReader<File>>), ImageError> {
    detect_format_of_open(
        path,
        untrusted_file::open(path).map_err(|why| ImageError::Io { path: path.to_owned(), why })?,
    )
}

fn detect_format_of_open<R: Read + Seek>(
    path: &Path,
    file: R,
) -> Result<(ImageFormat, FileBytes<BufReader<R>>), ImageError> {
    let io = |why| ImageError::Io { path: path.to_owned(), why };
    let mut content = FileBytes::new(BufReader::new(file)).map_err(io)?;
    let start = content.read_start().map_err(io)?;
    let unknown = || ImageError::Unknown { path: path.to_owned(), found: FirstBytes::new(&start) };
    Ok((detect_format(&start).ok_or_else(unknown)?, content))
}

/// Returns the format of a file with these first bytes.
fn detect_format(start: &[u8]) -> Option<ImageFormat> {
    match start {
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(ImageFormat::Tiff),
        _ if start.starts_with(b"###CBF") => Some(ImageFormat::Cbf),
        _ if start.starts_with(npy::MAGIC) => Some(ImageFormat::Npy),
        _ if fit2d::is_mask(start) => Some(ImageFormat::Fit2d),
        _ if start.trim_ascii_start().starts_with(b"{") => Some(ImageFormat::Edf),
        _ => None,
    }
}

fn read_header<R: Read + Seek>(format: ImageFormat, content: &mut FileBytes<R>) -> Result<ImageHeader, FormatError> {
    let (shape, kind, frames) = match format {
        ImageFormat::Tiff => tiff::read_header(content)?,
        ImageFormat::Cbf => cbf::read_header(content)?,
        ImageFormat::Edf => edf::read_header(content)?,
        ImageFormat::Npy => npy::read_header(content)?,
        ImageFormat::Fit2d => fit2d::read_header(content)?,
    };
    let lacks_checksum = format == ImageFormat::Cbf && !cbf::has_checksum(content)?;
    Ok(ImageHeader { format, shape, kind, frames, is_unverified: lacks_checksum })
}

fn decode_frame<R: Read + Seek>(
    format: ImageFormat,
    content: &mut FileBytes<R>,
    frame: usize,
) -> Result<Image, FormatError> {
    match format {
        ImageFormat::Tiff => tiff::read_image(content, frame),
        ImageFormat::Cbf => cbf::read_image(content, frame),
        ImageFormat::Edf => edf::read_image(content, frame),
        ImageFormat::Npy => npy::read_image(content, frame),
        ImageFormat::Fit2d => fit2d::read_image(content, frame),
    }
}

#[cfg(test)]
mod tests;
