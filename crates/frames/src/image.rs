//! Single images: TIFF, CBF, EDF, NPY and Fit2D mask files, told apart by their content.
//!
//! Beamlines keep masks, darks and flats in these formats, and whole scans as numbered series of them.
//! Only the pixels are read, as the numbers that the file holds: no scaling, no flip, row 0 first.
//!
//! | format | what is read |
//! |---|---|
//! | TIFF | grey images of 8 to 64 bits, integer or float, strips or tiles, classic and BigTIFF; every page |
//! | CBF | one image of any integer type in `x-CBF_BYTE_OFFSET`, `Content-MD5` verified where there is one |
//! | EDF | every image of a file, either byte order, uncompressed |
//! | NPY | one 2-D array, or a 3-D one as a stack, C or Fortran order, booleans as 0 and 1 |
//! | Fit2D | a mask of one bit a pixel, as 0 and 1 |

mod cbf;
mod edf;
mod file;
mod fit2d;
mod npy;
mod pixels;
mod tiff;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use file::{Content, Flaw};
use filter::foreign;
pub use pixels::{PixelKind, Pixels};

use crate::prefetch;

/// A frame as its file holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Row-major, `shape[0] * shape[1]` of them.
    pub pixels: Pixels,
}

/// What a file says of its images before their pixels are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How the file is written.
    pub format: Format,
    /// Rows and columns of the first image.
    pub shape: [usize; 2],
    /// The pixels' type in the first image.
    pub kind: PixelKind,
    /// How many images the file holds.
    pub frames: usize,
    /// Whether the format has a checksum of the pixels, and this file has none.
    pub lacks_checksum: bool,
}

/// The image formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tagged image file format, as Dectris, EPICS and most cameras write it.
    Tiff,
    /// Crystallographic binary file, as Dectris writes it (miniCBF).
    Cbf,
    /// ESRF data format.
    Edf,
    /// NumPy array.
    Npy,
    /// Mask of Fit2D.
    Fit2d,
}

impl Format {
    /// The format's name in records: `tiff`, `cbf`, `edf`, `npy`, `fit2d`.
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

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Why an image could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The system would not give the bytes.
    #[error("{}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// No format that is known here.
    #[error("{}: not an image: expected TIFF, CBF, EDF, NPY or a Fit2D mask, found {found}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What the first bytes look like.
        found: String,
    },
    /// The file breaks its format's rules, or uses a part of them that is not read here.
    #[error("{}: {format}: {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Which format's rules.
        format: Format,
        /// Where and how, and what was expected.
        why: String,
    },
    /// A frame number beyond the last.
    #[error("{}: no frame {frame}: the file has {frames}", path.display())]
    NoFrame {
        /// The file.
        path: PathBuf,
        /// The frame asked for, from 0.
        frame: usize,
        /// How many there are.
        frames: usize,
    },
}

/// Reads the first image of a file.
///
/// # Errors
/// See [`ImageError`]. A hostile or damaged file is an error; memory is only taken for pixels that
/// the file's size can account for.
pub fn read(path: &Path) -> Result<Image, ImageError> {
    read_frame(path, 0)
}

/// Reads image `frame`, counted from 0, of a file with several.
///
/// # Errors
/// As [`read`]; a frame beyond the last.
pub fn read_frame(path: &Path, frame: usize) -> Result<Image, ImageError> {
    let (format, mut content) = open(path)?;
    decode(format, &mut content, frame).map_err(|flaw| flaw.at(path, format))
}

/// Reads what a file says of its images, and none of their pixels.
///
/// # Errors
/// As [`read`].
pub fn probe(path: &Path) -> Result<Header, ImageError> {
    let opened = prefetch::open(path).map_err(|why| ImageError::Io { path: path.to_owned(), why })?;
    probe_opened(path, &opened)
}

/// As [`probe`], of an open file.
pub(crate) fn probe_opened(path: &Path, file: &File) -> Result<Header, ImageError> {
    let (format, mut content) = recognize_opened(path, file)?;
    header(format, &mut content).map_err(|flaw| flaw.at(path, format))
}

fn open(path: &Path) -> Result<(Format, Content<BufReader<File>>), ImageError> {
    recognize_opened(path, foreign::open(path).map_err(|why| ImageError::Io { path: path.to_owned(), why })?)
}

fn recognize_opened<R: Read + Seek>(path: &Path, file: R) -> Result<(Format, Content<BufReader<R>>), ImageError> {
    let io = |why| ImageError::Io { path: path.to_owned(), why };
    let mut content = Content::new(BufReader::new(file)).map_err(io)?;
    let start = content.start().map_err(io)?;
    let unknown = || ImageError::Unknown { path: path.to_owned(), found: describe(&start) };
    Ok((recognize(&start).ok_or_else(unknown)?, content))
}

/// The format whose files begin like this.
fn recognize(start: &[u8]) -> Option<Format> {
    match start {
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(Format::Tiff),
        _ if start.starts_with(b"###CBF") => Some(Format::Cbf),
        _ if start.starts_with(npy::MAGIC) => Some(Format::Npy),
        _ if fit2d::is_mask(start) => Some(Format::Fit2d),
        _ if start.trim_ascii_start().starts_with(b"{") => Some(Format::Edf),
        _ => None,
    }
}

fn describe(start: &[u8]) -> String {
    if start.is_empty() {
        return "an empty file".to_owned();
    }
    if start.starts_with(b"\x89HDF\r\n\x1a\n") {
        return "HDF5 (name the dataset: FILE::/PATH)".to_owned();
    }
    format!("\"{}\"", start[..start.len().min(8)].escape_ascii())
}

fn header<R: Read + Seek>(format: Format, content: &mut Content<R>) -> Result<Header, Flaw> {
    let (shape, kind, frames) = match format {
        Format::Tiff => tiff::header(content)?,
        Format::Cbf => cbf::header(content)?,
        Format::Edf => edf::header(content)?,
        Format::Npy => npy::header(content)?,
        Format::Fit2d => fit2d::header(content)?,
    };
    let lacks_checksum = format == Format::Cbf && !cbf::has_checksum(content)?;
    Ok(Header { format, shape, kind, frames, lacks_checksum })
}

fn decode<R: Read + Seek>(format: Format, content: &mut Content<R>, frame: usize) -> Result<Image, Flaw> {
    match format {
        Format::Tiff => tiff::read(content, frame),
        Format::Cbf => cbf::read(content, frame),
        Format::Edf => edf::read(content, frame),
        Format::Npy => npy::read(content, frame),
        Format::Fit2d => fit2d::read(content, frame),
    }
}

#[cfg(test)]
mod tests;
