//! Picture of a detector's frame for checking a geometry: the counts with masked pixels, beam
//! centre and rings of a calibrant on them, and below it the mean counts over 2theta with the same
//! rings.
//!
//! The font is part of the program, so that pictures look the same on a node without fonts or a
//! display.

mod contrast;
mod drawing;
mod screen;

use std::io;
use std::path::{Path, PathBuf};

use system::atomic;
use system::ownership::{OwnershipRule, ReplacePolicy};

/// Reason why a picture can't be drawn. Messages begin with its path.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The path does not have the extension `.png`.
    #[error("{}: expected a name that ends in .png", path.display())]
    Extension {
        /// Path of the picture.
        path: PathBuf,
    },
    /// The drawing library failed.
    #[error("{}: can't be drawn: {why}", path.display())]
    Draw {
        /// Path of the picture.
        path: PathBuf,
        /// Error of the library.
        why: String,
    },
    /// The file is somebody else's or can't be written.
    #[error("{}: {why}", path.display())]
    Io {
        /// Path of the picture.
        path: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
}

/// Content of the picture. Arrays are row-major and have an item per pixel.
pub struct DetectorImage {
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Counts of each pixel; NaN where no frame has a valid value.
    pub counts: Vec<f64>,
    /// Kind of each pixel.
    pub kinds: Vec<PixelKind>,
    /// 2theta of each pixel's centre in degrees.
    pub two_theta: Vec<f64>,
    /// 2theta of the rings in degrees, ascending.
    pub rings: Vec<f64>,
    /// Name of the calibrant, or of the list of d-spacings, that gives the rings.
    pub ring_name: String,
    /// Title, and lines of text below it.
    pub title: String,
    /// Lines below the title.
    pub notes: Vec<String>,
}

/// Kind of a pixel, by the reason why it is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelKind {
    /// The pixel is integrated.
    Valid,
    /// The pixel is in a gap of the detector, or never measures.
    Gap,
    /// A mask file or region masks the pixel.
    Masked,
    /// The values of the pixel mean "no measurement", or are beyond the limits of valid values.
    Invalid,
}

impl DetectorImage {
    /// Returns row and column of the point where the beam hits the detector, in pixels from the
    /// outer corner of the first pixel; `None` if it is outside the image.
    pub fn beam_center(&self) -> Option<[f64; 2]> {
        let [rows, columns] = self.shape;
        let least = (0..self.two_theta.len())
            .min_by(|a, b| self.two_theta[*a].total_cmp(&self.two_theta[*b]))?;
        let (row, column) = (least.checked_div(columns)?, least.checked_rem(columns)?);
        let inside = |index: usize, length: usize| index > 0 && index.saturating_add(1) < length;
        if !inside(row, rows) || !inside(column, columns) {
            return None;
        }
        // tan² of 2theta is a parabola along each axis, up to the tilt of the detector.
        let at = |pixel: usize| self.two_theta[pixel].to_radians().tan().powi(2);
        let vertex = |before: f64, here: f64, after: f64| {
            0.5 * (before - after) / (before - 2.0 * here + after)
        };
        let down =
            vertex(at(least.checked_sub(columns)?), at(least), at(least.checked_add(columns)?));
        let right = vertex(at(least.checked_sub(1)?), at(least), at(least.checked_add(1)?));
        let center = [row as f64 + 0.5 + down, column as f64 + 0.5 + right];
        (down.abs() <= 1.0 && right.abs() <= 1.0).then_some(center)
    }

    /// Returns the bytes of a PNG file.
    ///
    /// # Errors
    /// Fails if the drawing library does.
    pub fn render_png(&self) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        drawing::render_png(self)
    }

    /// Draws the picture into a PNG file, which appears complete and replaces an earlier picture.
    ///
    /// # Errors
    /// Fails if the file is somebody else's or can't be written.
    pub fn draw(&self, path: &Path, policy: &ReplacePolicy) -> Result<(), PictureError> {
        check(path, policy)?;
        let failed = |why: Box<dyn std::error::Error>| PictureError::Draw {
            path: path.to_owned(),
            why: why.to_string(),
        };
        let bytes = self.render_png().map_err(failed)?;
        atomic::write(path, bytes, &own_pictures(policy))
            .map_err(|why| PictureError::Io { path: path.to_owned(), why })
    }
}

/// Checks that the picture can be written to a path: the name ends in `.png`, its directory can be
/// written to, and an existing file may be replaced.
///
/// # Errors
/// Fails if it has another extension, if the directory does not exist or can't be written to, or if
/// the file is somebody else's.
pub fn check(path: &Path, policy: &ReplacePolicy) -> Result<(), PictureError> {
    if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png")) {
        return Err(PictureError::Extension { path: path.to_owned() });
    }
    file_mark::check_target(path, &own_pictures(policy))
        .map_err(|why| PictureError::Io { path: path.to_owned(), why })
}

/// Returns the rule by which pictures are azpipe's own.
fn own_pictures(policy: &ReplacePolicy) -> OwnershipRule {
    file_mark::PNG.ownership("a picture, or it was changed since", policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an image of a flat detector at 1 m with pixels of 1 mm, which the beam hits at a point
    /// in pixels.
    fn image(shape: [usize; 2], [row, column]: [f64; 2]) -> DetectorImage {
        let pixels = shape[0] * shape[1];
        let two_theta = |pixel: usize| {
            let (down, right) =
                ((pixel / shape[1]) as f64 + 0.5 - row, (pixel % shape[1]) as f64 + 0.5 - column);
            (down.hypot(right) * 1e-3).atan().to_degrees()
        };
        DetectorImage {
            shape,
            counts: vec![1.0; pixels],
            kinds: vec![PixelKind::Valid; pixels],
            two_theta: (0..pixels).map(two_theta).collect(),
            rings: vec![0.5, 1.0],
            ring_name: "LaB6".to_owned(),
            title: "scan".to_owned(),
            notes: vec!["note".to_owned()],
        }
    }

    #[test]
    fn the_beam_center_is_found_to_a_hundredth_of_a_pixel() {
        for center in [[10.25, 30.5], [12.0, 8.875], [1.6, 2.4]] {
            let found = image([20, 40], center).beam_center().unwrap();
            assert!(
                (0..2).all(|axis| (found[axis] - center[axis]).abs() < 0.01),
                "{center:?}: {found:?}"
            );
        }
        for center in [[-3.0, 10.0], [10.0, 45.0], [0.2, 10.0]] {
            assert_eq!(image([20, 40], center).beam_center(), None, "{center:?}");
        }
        assert_eq!(image([0, 0], [0.0; 2]).beam_center(), None);
    }

    #[test]
    fn images_of_any_shape_and_content_can_be_drawn() {
        for shape in [[1, 1], [1, 1280], [3000, 2], [20, 40], [0, 0]] {
            let mut image = image(shape, [10.0, 20.0]);
            assert!(image.render_png().unwrap().starts_with(b"\x89PNG"), "{shape:?}");
            image.counts.fill(f64::NAN);
            image.kinds.fill(PixelKind::Invalid);
            image.rings.clear();
            assert!(image.render_png().is_ok(), "{shape:?}");
        }
    }

    #[test]
    fn only_png_files_are_written() {
        let why =
            check(Path::new("/tmp/p.svg"), &ReplacePolicy::default()).unwrap_err().to_string();
        assert_eq!(why, "/tmp/p.svg: expected a name that ends in .png");
    }
}
