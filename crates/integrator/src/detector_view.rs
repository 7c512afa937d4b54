//! [`DetectorView`], the detector as the frames show it: a part of it, or the detector flipped,
//! rotated or binned.

use std::ops::Range;

use geometry::{Detector, DetectorError, PixelMapping};
use records::FrameLayout;

use crate::IntegratorError;

/// Maps between the pixels of frames and the pixels of the detector as it is read out.
pub struct DetectorView(PixelMapping);

impl DetectorView {
    /// Makes the view of frames of this layout.
    ///
    /// # Errors
    /// A layout that frames of this detector can't have.
    pub fn new(detector: &Detector, layout: &FrameLayout) -> Result<Self, DetectorError> {
        PixelMapping::new(detector, layout).map(Self)
    }

    /// Returns the detector as it is read out, with hardware binning if the frames have it.
    pub fn detector(&self) -> &Detector {
        &self.0.detector
    }

    /// Returns the rows and columns of the detector as it is read out.
    pub fn detector_shape(&self) -> [usize; 2] {
        self.0.full()
    }

    /// Returns the rows and columns of the frames.
    pub fn frame_shape(&self) -> [usize; 2] {
        self.0.shape()
    }

    /// Selects the values of the frames' pixels from an array with a value per detector pixel.
    pub fn select_frame_pixels<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        if self.0.is_identity() {
            values
        } else {
            self.0.pixels().map(|pixel| values[pixel]).collect()
        }
    }

    /// Extends a mask of the frames' pixels to the detector. Pixels outside the frames are masked.
    pub fn detector_mask(&self, of_frames: &[bool]) -> Vec<bool> {
        if self.0.is_identity() {
            return of_frames.to_vec();
        }
        let mut mask = vec![true; self.detector_shape().iter().product()];
        self.0.pixels().zip(of_frames).for_each(|(pixel, masked)| mask[pixel] = *masked);
        mask
    }

    /// Returns the indices of the detector pixels of a range of the frames' pixels.
    pub fn detector_pixels(&self, of_frames: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        self.0.pixels_of(of_frames)
    }

    /// Loads a mask of the frames' shape, or of the whole detector, binned or not, from which it
    /// selects the frames' pixels. `load` reads a mask that must have the given rows and columns.
    ///
    /// # Errors
    /// The error of `load` for the frames' shape, if no shape fits; any other error of `load`.
    pub fn load_mask(
        &self,
        load: impl Fn([usize; 2]) -> Result<Vec<bool>, IntegratorError>,
    ) -> Result<Vec<bool>, IntegratorError> {
        match (self.load_image(&load), self.0.unbinned()) {
            (Err(error), Some(unbinned)) => load(unbinned)
                .map(|mask| self.select_frame_pixels(self.0.binned_mask(&mask)))
                .map_err(|second| more_telling_error(error, second)),
            (mask, _) => mask,
        }
    }

    /// Loads an image of the frames' shape, or of the whole detector as it is read out, from which
    /// it selects the frames' pixels. `load` reads an image that must have the given rows and
    /// columns.
    ///
    /// # Errors
    /// The error of `load` for the frames' shape, if no shape fits; any other error of `load`.
    pub fn load_image<T: Copy>(
        &self,
        load: impl Fn([usize; 2]) -> Result<Vec<T>, IntegratorError>,
    ) -> Result<Vec<T>, IntegratorError> {
        match load(self.frame_shape()) {
            Err(error) if self.frame_shape() != self.detector_shape() => {
                load(self.detector_shape())
                    .map(|image| self.select_frame_pixels(image))
                    .map_err(|second| more_telling_error(error, second))
            }
            image => image,
        }
    }
}

/// Returns the error of two attempts to load an image: the first one, unless the second one says
/// more than that another shape does not fit, either.
fn more_telling_error(first: IntegratorError, second: IntegratorError) -> IntegratorError {
    if matches!(second, IntegratorError::Shape { .. }) { first } else { second }
}

#[cfg(test)]
mod tests {
    use records::ImageOperation;

    use super::*;

    /// Makes the view of frames of 10 x 20 pixels, cut from a Pilatus 100k whose pixels were binned
    /// 2 x 2.
    fn view() -> DetectorView {
        let detector = Detector::by_name("Pilatus100k").unwrap();
        let (binning, region) = ([2, 2], [5, 5, 10, 20]);
        let operation = ImageOperation {
            full: Some([195, 487]),
            binning,
            flip: [false; 2],
            rotation: 0,
            region,
        };
        DetectorView::new(&detector, &FrameLayout { shape: [10, 20], operation: Some(operation) })
            .unwrap()
    }

    fn shape_error(expected: [usize; 2]) -> IntegratorError {
        IntegratorError::Shape {
            role: "mask",
            name: "m.edf".to_owned(),
            found: [195, 487],
            expected,
        }
    }

    fn io_error() -> IntegratorError {
        IntegratorError::Image {
            role: "mask",
            name: "m.edf".to_owned(),
            why: "Input/output error".to_owned(),
        }
    }

    #[test]
    fn an_image_that_can_not_be_read_is_not_said_to_have_another_shape() {
        let view = view();
        let load = |fails_from: usize| {
            move |shape: [usize; 2]| -> Result<Vec<bool>, IntegratorError> {
                let attempt = [[10, 20], [97, 243], [195, 487]]
                    .iter()
                    .position(|known| *known == shape)
                    .unwrap();
                Err(if attempt >= fails_from { io_error() } else { shape_error(shape) })
            }
        };
        for fails_from in [0, 1, 2] {
            let error = view.load_mask(load(fails_from)).unwrap_err();
            assert_eq!(error.to_string(), io_error().to_string(), "{fails_from}");
        }
        for fails_from in [0, 1] {
            let error = view.load_image(load(fails_from)).unwrap_err();
            assert_eq!(error.to_string(), io_error().to_string(), "{fails_from}");
        }
        let error = view.load_mask(load(3)).unwrap_err();
        assert_eq!(error.to_string(), shape_error([10, 20]).to_string());
    }
}
