//! Frames of a part of the detector, or of one flipped, turned or binned: which of its pixels they hold.

use binning::Csc;
use geometry::{Detector, DetectorError, PixelMapping};
use records::Framing;

use crate::Error;

/// The part of a detector that frames show.
pub struct Window(PixelMapping);

impl Window {
    /// That of frames of this framing.
    ///
    /// # Errors
    /// Frames that can't come from this detector.
    pub fn of(detector: &Detector, framing: &Framing) -> Result<Self, DetectorError> {
        PixelMapping::new(detector, framing).map(Self)
    }

    /// The detector as it is read out.
    pub fn detector(&self) -> &Detector {
        &self.0.detector
    }

    /// Rows and columns of the detector as it is read out.
    pub fn full(&self) -> [usize; 2] {
        self.0.full()
    }

    /// Rows and columns of the frames.
    pub fn shape(&self) -> [usize; 2] {
        self.0.shape()
    }

    /// The frames' part of values that the detector has.
    pub fn cut<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        if self.0.is_identity() { values } else { self.0.pixels().map(|pixel| values[pixel]).collect() }
    }

    /// The detector's mask of one of the frames: all that they do not show is masked.
    pub fn mask(&self, of_frames: &[bool]) -> Vec<bool> {
        let mut mask = vec![true; self.full().iter().product()];
        self.0.pixels().zip(of_frames).for_each(|(pixel, masked)| mask[pixel] = *masked);
        mask
    }

    /// The frames' part of a matrix over the detector's pixels.
    pub fn cut_matrix(&self, matrix: Csc) -> Csc {
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
    /// As `load`, which reads a mask of a shape.
    pub fn flags(&self, load: impl Fn([usize; 2]) -> Result<Vec<bool>, Error>) -> Result<Vec<bool>, Error> {
        match (self.image(&load), self.0.unbinned()) {
            (Err(error), Some(unbinned)) => {
                load(unbinned).map(|mask| self.cut(self.0.binned_mask(&mask))).map_err(|_| error)
            }
            (mask, _) => mask,
        }
    }

    /// An image of the frames as they are saved, or the frames' part of one of the whole detector as it is read out.
    ///
    /// # Errors
    /// As `load`, which reads an image of a shape.
    pub fn image<T: Copy>(&self, load: impl Fn([usize; 2]) -> Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
        match load(self.shape()) {
            Err(error) if self.shape() != self.full() => {
                load(self.full()).map(|image| self.cut(image)).map_err(|_| error)
            }
            image => image,
        }
    }
}
