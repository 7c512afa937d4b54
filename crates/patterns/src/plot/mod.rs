//! Pictures of finals: all frames as a map, and their mean as a curve. PNG or SVG, by the file's name.
//!
//! The font is built in, so that a picture looks the same on a node without fonts or a display.

mod canvas;
mod reduce;
mod scale;

use std::io;
use std::path::{Path, PathBuf};

use filter::atomic;
use filter::ownership::{OwnedFiles, ReplacePolicy, has_mark};

use crate::finals::{self, Final};

/// Width and height of a picture in pixels.
const SIZE: (u32, u32) = (1200, 900);

/// Columns and rows of a map: a cell is about two pixels of a bitmap.
const BITMAP_CELLS: (usize, usize) = (480, 240);

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The final can't be read.
    #[error(transparent)]
    Final(#[from] finals::Error),
    /// A name that says neither PNG nor SVG.
    #[error("{}: expected a name that ends in .png or .svg", path.display())]
    Kind {
        /// The name.
        path: PathBuf,
    },
    /// The picture can't be drawn or written.
    #[error("{}: {why}", path.display())]
    Write {
        /// The picture.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The file system refused.
    #[error("{}: {why}", path.display())]
    Io {
        /// The picture.
        path: PathBuf,
        /// What it said.
        why: io::Error,
    },
}

impl Error {
    /// Returns the error of the file system, where it is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Final(why) => why.io_error(),
            Self::Io { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// What kind of picture a name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pixels.
    Png,
    /// Shapes.
    Svg,
}

impl Kind {
    /// By the end of the name.
    ///
    /// # Errors
    /// Another end than `.png` and `.svg`.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("png") => Ok(Self::Png),
            Some("svg") => Ok(Self::Svg),
            _ => Err(Error::Kind { path: path.to_path_buf() }),
        }
    }
}

/// A picture of a final, the bytes of a PNG file.
///
/// # Errors
/// A final that can't be read.
pub fn png(of: &Final) -> Result<Vec<u8>, Error> {
    let picture = reduce::Picture::of(of, BITMAP_CELLS)?;
    let wrong = |why: Box<dyn std::error::Error>| Error::Write { path: of.path.clone(), why: why.to_string() };
    canvas::png(&picture, SIZE).map_err(wrong)
}

/// Claims the pictures of a kind that azpipe drew.
fn claim(kind: Kind, policy: &ReplacePolicy) -> OwnedFiles {
    let claim = match kind {
        Kind::Png => OwnedFiles::new("a picture", |path| has_mark(path, b"\x89PNG", canvas::PNG_MARK)),
        Kind::Svg => OwnedFiles::new("a picture", |path| has_mark(path, b"<svg", canvas::SVG_MARK.as_bytes())),
    };
    claim.with_policy(policy)
}

/// Checks that a picture can be drawn into a file: its name says what kind, and what is there may be replaced.
///
/// # Errors
/// A name of no known kind; somebody else's file.
pub fn check(path: &Path, policy: &ReplacePolicy) -> Result<(), Error> {
    let why = claim(Kind::of(path)?, policy).check(path);
    why.map_err(|why| Error::Io { path: path.to_path_buf(), why })
}

/// Draws a final into a file, which appears whole, in place of an earlier picture.
///
/// # Errors
/// A name of no known kind; a final that can't be read; a file that can't be written; somebody else's file.
pub fn draw(of: &Final, path: &Path, policy: &ReplacePolicy) -> Result<(), Error> {
    check(path, policy)?;
    let kind = Kind::of(path)?;
    let cells = match kind {
        Kind::Png => BITMAP_CELLS,
        // Shapes cost more each.
        Kind::Svg => (240, 80),
    };
    let picture = reduce::Picture::of(of, cells)?;
    let bytes = match kind {
        Kind::Png => canvas::png(&picture, SIZE),
        Kind::Svg => canvas::svg(&picture, SIZE),
    };
    let bytes = bytes.map_err(|why| Error::Write { path: path.to_path_buf(), why: why.to_string() })?;
    let written = atomic::write(path, bytes, &claim(kind, policy));
    written.map_err(|why| Error::Io { path: path.to_path_buf(), why })
}
