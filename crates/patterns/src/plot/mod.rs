//! Pictures of finals: all frames as a map, and their mean as a curve. PNG or SVG, by the file's name.
//!
//! The font is built in, so that a picture looks the same on a node without fonts or a display.

mod canvas;
mod color_scale;
mod plot_data;

use std::io;
use std::path::{Path, PathBuf};

use filter::atomic;
use filter::ownership::{OwnedFiles, ReplacePolicy, has_mark};

use crate::output::{self, OutputFile};

/// Width and height of a picture in pixels.
const PLOT_SIZE: (u32, u32) = (1200, 900);

/// Columns and rows of a map: a cell is about two pixels of a bitmap.
const BITMAP_CELLS: (usize, usize) = (480, 240);

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The final can't be read.
    #[error(transparent)]
    Final(#[from] output::OutputError),
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

impl PlotError {
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
pub enum PlotFormat {
    /// Pixels.
    Png,
    /// Shapes.
    Svg,
}

impl PlotFormat {
    /// By the end of the name.
    ///
    /// # Errors
    /// Another end than `.png` and `.svg`.
    pub fn from_path(path: &Path) -> Result<Self, PlotError> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("png") => Ok(Self::Png),
            Some("svg") => Ok(Self::Svg),
            _ => Err(PlotError::Kind { path: path.to_path_buf() }),
        }
    }
}

/// A picture of a final, the bytes of a PNG file.
///
/// # Errors
/// A final that can't be read.
pub fn render_png(of: &OutputFile) -> Result<Vec<u8>, PlotError> {
    let picture = plot_data::PlotData::from_output(of, BITMAP_CELLS)?;
    let wrong = |why: Box<dyn std::error::Error>| PlotError::Write { path: of.path.clone(), why: why.to_string() };
    canvas::render_png(&picture, PLOT_SIZE).map_err(wrong)
}

/// Claims the pictures of a kind that azpipe drew.
fn owned_plots(kind: PlotFormat, policy: &ReplacePolicy) -> OwnedFiles {
    let claim = match kind {
        PlotFormat::Png => OwnedFiles::new("a picture", |path| has_mark(path, b"\x89PNG", canvas::PNG_MARK)),
        PlotFormat::Svg => OwnedFiles::new("a picture", |path| has_mark(path, b"<svg", canvas::SVG_MARK.as_bytes())),
    };
    claim.with_policy(policy)
}

/// Checks that a picture can be drawn into a file: its name says what kind, and what is there may be replaced.
///
/// # Errors
/// A name of no known kind; somebody else's file.
pub fn check(path: &Path, policy: &ReplacePolicy) -> Result<(), PlotError> {
    let why = owned_plots(PlotFormat::from_path(path)?, policy).check(path);
    why.map_err(|why| PlotError::Io { path: path.to_path_buf(), why })
}

/// Draws a final into a file, which appears whole, in place of an earlier picture.
///
/// # Errors
/// A name of no known kind; a final that can't be read; a file that can't be written; somebody else's file.
pub fn draw(of: &OutputFile, path: &Path, policy: &ReplacePolicy) -> Result<(), PlotError> {
    check(path, policy)?;
    let kind = PlotFormat::from_path(path)?;
    let cells = match kind {
        PlotFormat::Png => BITMAP_CELLS,
        // Shapes cost more each.
        PlotFormat::Svg => (240, 80),
    };
    let picture = plot_data::PlotData::from_output(of, cells)?;
    let bytes = match kind {
        PlotFormat::Png => canvas::render_png(&picture, PLOT_SIZE),
        PlotFormat::Svg => canvas::render_svg(&picture, PLOT_SIZE),
    };
    let bytes = bytes.map_err(|why| PlotError::Write { path: path.to_path_buf(), why: why.to_string() })?;
    let written = atomic::write(path, bytes, &owned_plots(kind, policy));
    written.map_err(|why| PlotError::Io { path: path.to_path_buf(), why })
}
