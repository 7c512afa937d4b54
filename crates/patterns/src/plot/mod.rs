//! Plots of final files: all frames as a map, and their mean as a curve. The extension of the path
//! selects PNG, SVG or PDF.
//!
//! The font is part of the program, so that plots look the same on a node without fonts or a
//! display.

mod canvas;
mod curve;
mod drift_curves;
mod palette_image;
mod pdf;
mod pixels;
mod plot_data;
mod render;
mod scan_curves;
mod value_scale;
mod vector_backend;

use std::io;
use std::path::{Path, PathBuf};

use system::atomic;
use system::ownership::{OwnershipRule, ReplacePolicy};

use crate::export::Drift;
use crate::output::{self, OutputFile};
use render::Picture;

pub use scan_curves::{ScanArrangement, ScanCurves};

/// Columns and rows of a map, about two pixels per cell on a screen.
const MAP_CELLS: (usize, usize) = (480, 240);

/// Reason why a plot can't be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The final file can't be read.
    #[error(transparent)]
    Final(#[from] output::OutputError),
    /// The path has none of the extensions of plots.
    #[error("{}: expected a name that ends in .png, .svg or .pdf", path.display())]
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
    /// Vector graphics for web pages and drawing programs.
    Svg,
    /// Vector graphics for print.
    Pdf,
}

impl PlotFormat {
    /// Returns the format for the extension of a path.
    ///
    /// # Errors
    /// Fails if the extension is none of a plot.
    pub fn from_path(path: &Path) -> Result<Self, PlotError> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("png") => Ok(Self::Png),
            Some("svg") => Ok(Self::Svg),
            Some("pdf") => Ok(Self::Pdf),
            _ => Err(PlotError::Kind { path: path.to_path_buf() }),
        }
    }
}

/// Plot of a final file for a report, and the mean pattern in numbers.
#[derive(Clone, Debug)]
pub struct Illustration {
    /// Bytes of a PNG file.
    pub png: Vec<u8>,
    /// Title of the radial axis with its unit.
    pub radial_label: String,
    /// Title of the intensities with their unit.
    pub intensity_label: String,
    /// Centres of the radial bins.
    pub centers: Vec<f64>,
    /// Mean of each radial bin over all frames (and chi); NaN if no frame has a value.
    pub mean: Vec<f64>,
    /// Standard error of each mean; NaN if the frames have no errors.
    pub error: Vec<f64>,
}

/// Draws a final file for a report.
///
/// # Errors
/// Fails if the final file can't be read.
pub fn illustrate(output: &OutputFile) -> Result<Illustration, PlotError> {
    let data = plot_data::PlotData::from_output(output, MAP_CELLS)?;
    let wrong = |why: Box<dyn std::error::Error>| PlotError::Write {
        path: output.path.clone(),
        why: why.to_string(),
    };
    let png = Picture::Final(&data).to_png().map_err(wrong)?;
    Ok(Illustration {
        png,
        radial_label: data.radial.plot_label(),
        intensity_label: data.intensity,
        centers: data.radial.centers,
        mean: data.mean,
        error: data.error,
    })
}

/// Draws a drift over the frames for a report: the bytes of a PNG file.
///
/// # Errors
/// Fails if it can't be drawn.
pub fn illustrate_drift(drift: &Drift) -> Result<Vec<u8>, PlotError> {
    Picture::Drift(drift).to_png().map_err(|why| PlotError::Write {
        path: PathBuf::from(&drift.calibrant),
        why: why.to_string(),
    })
}

/// Claims the plots of a format that azpipe drew and nobody changed.
fn owned_plots(kind: PlotFormat, policy: &ReplacePolicy) -> OwnershipRule {
    let format = match kind {
        PlotFormat::Png => file_mark::PNG,
        PlotFormat::Svg => render::SVG,
        PlotFormat::Pdf => pdf::FORMAT,
    };
    format.ownership("a picture, or it was changed since", policy)
}

/// Checks that a plot can be written to a path: its extension is known, its directory can be written
/// to, and an existing file may be replaced.
///
/// # Errors
/// Fails if the extension is unknown, if the directory does not exist or can't be written to, or if
/// the file is somebody else's.
pub fn check(path: &Path, policy: &ReplacePolicy) -> Result<(), PlotError> {
    let rule = owned_plots(PlotFormat::from_path(path)?, policy);
    file_mark::check_target(path, &rule)
        .map_err(|why| PlotError::Io { path: path.to_path_buf(), why })
}

/// Draws a final file into a plot, which appears complete and replaces an earlier plot.
///
/// # Errors
/// Fails if the extension is unknown, if a file can't be read or written, or if the file is
/// somebody else's.
pub fn draw(output: &OutputFile, path: &Path, policy: &ReplacePolicy) -> Result<(), PlotError> {
    check(path, policy)?;
    let data = plot_data::PlotData::from_output(output, MAP_CELLS)?;
    write(&Picture::Final(&data), path, policy)
}

/// Returns whether a picture exists, and has the content of none of these plots of final files.
/// Content that can't be read counts as another one.
pub fn is_other_picture(picture: &Path, plots: &[&Path]) -> bool {
    let digest = |path: &Path| file_mark::digest_file(path).ok();
    let of_picture = digest(picture);
    let is_same = |plot: &&Path| of_picture.is_some() && digest(plot) == of_picture;
    picture.symlink_metadata().is_ok() && !plots.iter().any(is_same)
}

/// Draws the mean patterns of several scans into a plot, which appears complete and replaces an
/// earlier plot.
///
/// # Errors
/// Fails if the extension is unknown, if the file can't be written, or if it is somebody else's.
pub fn draw_scans(
    curves: &ScanCurves,
    path: &Path,
    policy: &ReplacePolicy,
) -> Result<(), PlotError> {
    check(path, policy)?;
    write(&Picture::Scans(curves), path, policy)
}

fn write(picture: &Picture, path: &Path, policy: &ReplacePolicy) -> Result<(), PlotError> {
    let kind = PlotFormat::from_path(path)?;
    let bytes = match kind {
        PlotFormat::Png => picture.to_png(),
        PlotFormat::Svg => picture.to_svg(),
        PlotFormat::Pdf => picture.to_pdf(),
    };
    let bytes =
        bytes.map_err(|why| PlotError::Write { path: path.to_path_buf(), why: why.to_string() })?;
    let written = atomic::write(path, bytes, &owned_plots(kind, policy));
    written.map_err(|why| PlotError::Io { path: path.to_path_buf(), why })
}
