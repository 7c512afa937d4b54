//! Frames of a part of the detector, or of one flipped, turned or binned: which of its pixels they hold.

use binning::Csc;
use geometry::{Detector, DetectorError, PixelMapping};
use records::FrameLayout;

use crate::IntegratorError;

/// The part of a detector that frames show.
pub struct DetectorView(PixelMapping);

impl DetectorView {
    /// That of frames of this framing.
    ///
    /// # Errors
    /// Frames that can't come from this detector.
    pub fn new(detector: &Detector, framing: &FrameLayout) -> Result<Self, DetectorError> {
        PixelMapping::new(detector, framing).map(Self)
    }

    /// The detector as it is read out.
    pub fn detector(&self) -> &Detector {
        &self.0.detector
    }

    /// Rows and columns of the detector as it is read out.
    pub fn detector_shape(&self) -> [usize; 2] {
        self.0.full()
    }

    /// Rows and columns of the frames.
    pub fn frame_shape(&self) -> [usize; 2] {
        self.0.shape()
    }

    /// The frames' part of values that the detector has.
    pub fn select_frame_pixels<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        if self.0.is_identity() { values } else { self.0.pixels().map(|pixel| values[pixel]).collect() }
    }

    /// The detector's mask of one of the frames: all that they do not show is masked.
    pub fn detector_mask(&self, of_frames: &[bool]) -> Vec<bool> {
        let mut mask = vec![true; self.detector_shape().iter().product()];
        self.0.pixels().zip(of_frames).for_each(|(pixel, masked)| mask[pixel] = *masked);
        mask
    }

    /// The frames' part of a matrix over the detector's pixels.
    pub fn select_frame_columns(&self, matrix: Csc) -> Csc {
        if self.0.is_identity() {
            return matrix;
        }
        let mut cut = Csc { starts: vec![0], bins: Vec::new(), weights: Vec::new(), nbins: matrix.nbins };
        for pixel in self.0.pixels() {
            let (bins, weights) = matrix.entries_of_pixel(pixel);
            cut.bins.extend(bins);
            cut.weights.extend(weights);
            cut.starts.push(cut.bins.len() as u64);
        }
        cut
    }

    /// A mask of the frames as they are saved, or the frames' part of one of the whole detector, binned or not.
    ///
    /// # Errors
    /// As `load_image`, which reads a mask of a shape.
    pub fn load_mask(
        &self,
        load: impl Fn([usize; 2]) -> Result<Vec<bool>, IntegratorError>,
    ) -> Result<Vec<bool>, IntegratorError> {
        match (self.load_image(&load), self.0.unbinned()) {
            (Err(error), Some(unbinned)) => {
                load(unbinned).map(|mask| self.select_frame_pixels(self.0.binned_mask(&mask))).map_err(|_| error)
            }
            (mask, _) => mask,
        }
    }

    /// An image of the frames as they are saved, or the frames' part of one of the whole detector as it is read out.
    ///
    /// # Errors
    /// As `load_image`, which reads an image of a shape.
    pub fn load_image<T: Copy>(
        &self,
        load: impl Fn([usize; 2]) -> Result<Vec<T>, IntegratorError>,
    ) -> Result<Vec<T>, IntegratorError> {
        match load(self.frame_shape()) {
            Err(error) if self.frame_shape() != self.detector_shape() => {
                load(self.detector_shape()).map(|image| self.select_frame_pixels(image)).map_err(|_| error)
            }
            image => image,
        }
    }
}
