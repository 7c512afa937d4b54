//! The pixels of frames as a recipe sees them, for a picture that shows whether geometry and mask
//! are right: their mean counts, 2theta, and which of them are masked.

use frames::source::{FrameChunks, SourceError, SourceReader};
use geometry::Unit;
use kernels::{Pipeline, PixelType};
use recipe::Recipe;
use records::{Acquisition, FrameLayout};

use crate::frame_assembly::{AssembleError, Assembler};
use crate::image_role::may_pass;
use crate::image_stack::pixels_to_f64;
use crate::invalid_values::InvalidValueCache;
use crate::setup::{self, PixelGeometry};
use crate::{IntegratorError, invalid_values};

/// The positions and masks of a frame's pixels. Arrays are row-major and have one item per pixel.
pub struct PixelView {
    /// 2theta of each pixel's centre, in degrees.
    pub two_theta: Vec<f64>,
    /// True for pixels in the gaps of the detector and its other pixels that never measure.
    pub gaps: Vec<bool>,
    /// True for all masked pixels: gaps, mask files and masked regions.
    pub mask: Vec<bool>,
    /// Name of the detector.
    pub detector: String,
}

impl PixelView {
    /// Reads the recipe's PONI text, detector and masks for frames of this layout.
    ///
    /// # Errors
    /// The errors of [`crate::check()`] about geometry and masks.
    pub fn new(recipe: &Recipe, layout: &FrameLayout) -> Result<Self, IntegratorError> {
        let pixels = PixelGeometry::new(recipe, layout)?;
        let unit = Unit::parse("2th_deg").expect("a unit of the table");
        let (view, geometry) = (&pixels.view, pixels.geometry());
        let two_theta = geometry.radial_centers(unit).expect("2theta needs no wavelength");
        let two_theta = view.select_frame_pixels(two_theta);
        let gaps = if recipe.detector_mask { view.detector().gap_mask() } else { None };
        let gaps = gaps
            .map_or_else(|| vec![false; two_theta.len()], |gaps| view.select_frame_pixels(gaps));
        let detector = view.detector().name.clone();
        Ok(Self { two_theta, gaps, detector, mask: pixels.into_mask() })
    }
}

/// The mean of some frames.
pub struct MeanFrame {
    /// Mean counts of each pixel over the frames in which it has a valid value; NaN if there are
    /// none.
    pub counts: Vec<f64>,
    /// The number of averaged frames.
    pub frames: u64,
}

/// A frame can't be read or decoded.
#[derive(Debug, thiserror::Error)]
#[error("frame {frame}: {why}")]
pub struct FrameError {
    /// The frame's number in the scan.
    pub frame: u64,
    /// The file, and what is wrong with it.
    pub why: String,
    /// True if the system failed, so that the frame may be readable later.
    pub retryable: bool,
}

impl MeanFrame {
    /// Reads and averages frames of a scan, without the pixel values that the recipe excludes.
    ///
    /// # Errors
    /// A frame has no data or can't be read or decoded; the recipe excludes all values.
    pub fn read(recipe: &Recipe, scan: &Acquisition, frames: &[u64]) -> Result<Self, PreviewError> {
        let layout = recipe.framing(&scan.frame_layout());
        let dtype: PixelType =
            scan.dtype.parse().map_err(|why| IntegratorError::Coding(format!("frames: {why}")))?;
        let (_, view) = setup::read_detector_view(recipe, &layout)?;
        // The picture shows counts as they are, of scans with any exposure time.
        let uncorrected = Recipe { dead_time: None, ..recipe.clone() };
        let dummy = &view.detector().dummy;
        let rule = invalid_values::build_invalid_values(&uncorrected, dummy, dtype)?;
        let mut is_invalid = InvalidValueCache::new(&rule, dtype);
        let mut mean = FrameMean::default();
        let mut open: Option<(usize, FrameReader)> = None;
        for &frame in frames {
            let Some((index, row)) = find_row(scan, frame) else {
                let why = "no file has it".to_owned();
                return Err(FrameError { frame, why, retryable: false }.into());
            };
            if open.as_ref().is_none_or(|(number, _)| *number != index) {
                let source =
                    FrameReader::open(scan, index, dtype).map_err(|(why, retryable)| {
                        let file = scan.short_name(&scan.sources[index].file);
                        // The error of the library may begin with the file.
                        let why = if why.contains(&file) { why } else { format!("{file}: {why}") };
                        FrameError { frame, why, retryable }
                    })?;
                open = Some((index, source));
            }
            let (_, source) = open.as_ref().expect("it was opened");
            let pixels = source.read(row).map_err(|(why, retryable)| {
                let why = format!("{}: {why}", scan.short_name(&scan.sources[index].file));
                FrameError { frame, why, retryable }
            })?;
            mean.add(&pixels, |value| is_invalid.contains(value));
        }
        Ok(mean.finish())
    }
}

/// A picture's frames can't be read.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The recipe can't be applied.
    #[error(transparent)]
    Recipe(#[from] IntegratorError),
    /// A frame can't be read.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl PreviewError {
    /// Returns whether another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Recipe(why) => why.is_retryable(),
            Self::Frame(why) => why.retryable,
        }
    }
}

/// Returns the source that has a frame, by its index, and the frame's row in it.
fn find_row(scan: &Acquisition, frame: u64) -> Option<(usize, u64)> {
    scan.sources.iter().enumerate().find_map(|(index, source)| {
        let position = source.frames.iter().position(|held| held == frame)?;
        Some((index, source.rows.iter().nth(position)?))
    })
}

/// Why something can't be read, and whether it may be readable later.
type ReadError = (String, bool);

/// Reads the frames of a source: it is open, and it is known how its chunks are decoded.
struct FrameReader {
    reader: SourceReader,
    pipeline: Pipeline,
    shape: [usize; 2],
    dtype: PixelType,
}

impl FrameReader {
    fn open(scan: &Acquisition, index: usize, dtype: PixelType) -> Result<Self, ReadError> {
        let reader = SourceReader::open(&scan.sources[index], scan.shape).map_err(|why| {
            let retryable = match &why {
                SourceError::Io { why, .. } => may_pass(why),
                SourceError::NoAnswer { retryable, .. } => *retryable,
                _ => false,
            };
            (why.to_string(), retryable)
        })?;
        let coding = reader.coding();
        if coding.dtype.name() != dtype.to_string() {
            return Err((
                format!("the pixel type is {}; expected {dtype}", coding.dtype.name()),
                false,
            ));
        }
        let filters: Vec<(u32, &[u32])> =
            coding.filters.iter().map(|filter| (filter.id, filter.values.as_slice())).collect();
        let pipeline = Pipeline::from_hdf5(&filters, dtype, coding.big_endian)
            .map_err(|why| (why.to_string(), false))?;
        Ok(Self { reader, pipeline, shape: scan.shape.map(|length| length as usize), dtype })
    }

    fn read(&self, row: u64) -> Result<Vec<f64>, ReadError> {
        let chunks = match self.reader.frame_chunks(row) {
            FrameChunks::Whole(chunk) => vec![chunk],
            FrameChunks::Pieces(chunks) => chunks,
            FrameChunks::NoData(why) | FrameChunks::Damaged(why) => return Err((why, false)),
        };
        let read = |chunk: &_, stored: &mut _| self.reader.read_chunk(chunk, stored);
        let mut pixels = Vec::new();
        let mut assembler = Assembler::default();
        assembler.assemble(&self.pipeline, self.shape, (row, &chunks), read, &mut pixels).map_err(
            |why| {
                let retryable = matches!(&why, AssembleError::Read { why, .. } if may_pass(why));
                (why.to_string(), retryable)
            },
        )?;
        Ok(pixels_to_f64(&pixels, self.dtype))
    }
}

/// Sums of the valid values of each pixel.
#[derive(Default)]
struct FrameMean {
    sums: Vec<f64>,
    counts: Vec<u32>,
    frames: u64,
}

impl FrameMean {
    fn add(&mut self, pixels: &[f64], mut is_invalid: impl FnMut(f64) -> bool) {
        self.sums.resize(pixels.len(), 0.0);
        self.counts.resize(pixels.len(), 0);
        self.frames += 1;
        for ((sum, count), &value) in self.sums.iter_mut().zip(&mut self.counts).zip(pixels) {
            if value.is_finite() && !is_invalid(value) {
                *sum += value;
                *count += 1;
            }
        }
    }

    fn finish(self) -> MeanFrame {
        // 0 / 0 is NaN.
        let counts = self
            .sums
            .iter()
            .zip(&self.counts)
            .map(|(sum, count)| sum / f64::from(*count))
            .collect();
        MeanFrame { counts, frames: self.frames }
    }
}
