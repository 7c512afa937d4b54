//! Plots of final files: all frames as a map, and their mean as a curve. The extension of the path selects PNG or SVG.
//!
//! The font is part of the program, so that plots look the same on a node without fonts or a display.

mod canvas;
mod color_scale;
mod plot_data;

use std::io;
use std::path::{Path, PathBuf};

use system::atomic;
use system::ownership::{OwnershipRule, ReplacePolicy, has_mark};

use crate::output::{self, OutputFile};

/// Width and height of a plot in pixels.
const PLOT_SIZE: (u32, u32) = (1200, 900);

/// Columns and rows of a map in a PNG file, about two pixels per cell.
const BITMAP_CELLS: (usize, usize) = (480, 240);

/// Reason why a plot can't be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The final file can't be read.
    #[error(transparent)]
    Final(#[from] output::OutputError),
    /// The path has neither the extension `.png` nor `.svg`.
    #[error("{}: expected a name that ends in .png or .svg", path.display())]
    Kind {
        /// Path of the plot.
        path: PathBuf,
    },
    /// The plot can't be drawn.
    #[error("{}: can't be drawn: {why}", path.display())]
    Write {
        /// Path of the plot or final file.
        path: PathBuf,
        /// Error of the drawing library.
        why: String,
    },
    /// A system call failed.
    #[error("{}: {why}", path.display())]
    Io {
        /// Path of the plot.
        path: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
}

impl PlotError {
    /// Returns the system's error if a system call failed.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Final(why) => why.io_error(),
            Self::Io { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// Format of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotFormat {
    /// Pixels.
    Png,
    /// Vector graphics.
    Svg,
}

impl PlotFormat {
    /// Returns the format for the extension of a path.
    ///
    /// # Errors
    /// Fails if the extension is neither `.png` nor `.svg`.
    pub fn from_path(path: &Path) -> Result<Self, PlotError> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("png") => Ok(Self::Png),
            Some("svg") => Ok(Self::Svg),
            _ => Err(PlotError::Kind { path: path.to_path_buf() }),
        }
    }
}

/// Draws a final file, and returns the bytes of a PNG file.
///
/// # Errors
/// Fails if the final file can't be read.
pub fn render_png(output: &OutputFile) -> Result<Vec<u8>, PlotError> {
    let picture = plot_data::PlotData::from_output(output, BITMAP_CELLS)?;
    let wrong = |why: Box<dyn std::error::Error>| PlotError::Write { path: output.path.clone(), why: why.to_string() };
    canvas::render_png(&picture, PLOT_SIZE).map_err(wrong)
}

/// Claims the plots of a format that azpipe drew.
fn owned_plots(kind: PlotFormat, policy: &ReplacePolicy) -> OwnershipRule {
    let claim = match kind {
        PlotFormat::Png => OwnershipRule::new("a picture", |path| has_mark(path, b"\x89PNG", canvas::PNG_MARK)),
        PlotFormat::Svg => OwnershipRule::new("a picture", |path| has_mark(path, b"<svg", canvas::SVG_MARK.as_bytes())),
    };
    claim.with_policy(policy)
}

/// Checks that a plot can be written to a path: its extension is known, and an existing file may be replaced.
///
/// # Errors
/// Fails if the extension is unknown, or if the file is somebody else's.
pub fn check(path: &Path, policy: &ReplacePolicy) -> Result<(), PlotError> {
    let why = owned_plots(PlotFormat::from_path(path)?, policy).check(path);
    why.map_err(|why| PlotError::Io { path: path.to_path_buf(), why })
}

/// Draws a final file into a plot, which appears complete and replaces an earlier plot.
///
/// # Errors
/// Fails if the extension is unknown, if a file can't be read or written, or if the file is somebody else's.
pub fn draw(output: &OutputFile, path: &Path, policy: &ReplacePolicy) -> Result<(), PlotError> {
    check(path, policy)?;
    let kind = PlotFormat::from_path(path)?;
    let cells = match kind {
        PlotFormat::Png => BITMAP_CELLS,
        // Each cell of an SVG file takes more bytes than a pixel.
        PlotFormat::Svg => (240, 80),
    };
    let picture = plot_data::PlotData::from_output(output, cells)?;
    let bytes = match kind {
        PlotFormat::Png => canvas::render_png(&picture, PLOT_SIZE),
        PlotFormat::Svg => canvas::render_svg(&picture, PLOT_SIZE),
    };
    let bytes = bytes.map_err(|why| PlotError::Write { path: path.to_path_buf(), why: why.to_string() })?;
    let written = atomic::write(path, bytes, &owned_plots(kind, policy));
    written.map_err(|why| PlotError::Io { path: path.to_path_buf(), why })
}
