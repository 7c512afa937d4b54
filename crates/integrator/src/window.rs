//! Frames of a region of the detector: which of its pixels they hold.

use binning::Csc;
use geometry::Detector;
use recipe::Recipe;

use crate::Error;

/// The part of a detector that frames show.
pub struct Window {
    /// Row and column of the detector that the frames' first pixel is.
    origin: [usize; 2],
    /// Rows and columns of the frames.
    shape: [usize; 2],
    /// Rows and columns of the detector as it is read out.
    pub full: [usize; 2],
}

impl Window {
    /// That of frames of `shape`: the region that the recipe says, or the whole detector.
    ///
    /// # Errors
    /// A region that is not on the detector, or of one whose shape is not known.
    pub fn of(recipe: &Recipe, detector: &Detector, shape: [usize; 2]) -> Result<Self, Error> {
        let Some(roi) = recipe.roi else { return Ok(Self { origin: [0, 0], shape, full: shape }) };
        let origin = roi.map(|start| start as usize);
        let wrong = |why: String| Err(Error::Unsupported(format!("roi {},{}: {why}", roi[0], roi[1])));
        match detector.shape {
            None => wrong("the PONI's detector has no shape; expected one that names it or says max_shape".to_owned()),
            Some(full) if (0..2).any(|axis| origin[axis].saturating_add(shape[axis]) > full[axis]) => wrong(format!(
                "frames of {} x {} pixels reach beyond the detector's {} x {}",
                shape[0], shape[1], full[0], full[1]
            )),
            Some(full) => Ok(Self { origin, shape, full }),
        }
    }

    fn is_whole(&self) -> bool {
        self.shape == self.full
    }

    /// The detector's pixel that each pixel of a frame is.
    fn pixels(&self) -> impl Iterator<Item = usize> {
        let ([top, left], [rows, columns], width) = (self.origin, self.shape, self.full[1]);
        (top..top + rows).flat_map(move |row| (left..left + columns).map(move |column| row * width + column))
    }

    /// The frames' part of values that the detector has.
    pub fn cut<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        if self.is_whole() { values } else { self.pixels().map(|pixel| values[pixel]).collect() }
    }

    /// The detector's mask of one of the frames: all that they do not show is masked.
    pub fn mask(&self, of_frames: &[bool]) -> Vec<bool> {
        let mut mask = vec![true; self.full[0] * self.full[1]];
        self.pixels().zip(of_frames).for_each(|(pixel, masked)| mask[pixel] = *masked);
        mask
    }

    /// The frames' part of a matrix over the detector's pixels.
    pub fn cut_matrix(&self, matrix: Csc) -> Csc {
        if self.is_whole() {
            return matrix;
        }
        let mut cut = Csc { starts: vec![0], bins: Vec::new(), weights: Vec::new(), nbins: matrix.nbins };
        for pixel in self.pixels() {
            let (bins, weights) = matrix.of_pixel(pixel);
            cut.bins.extend(bins);
            cut.weights.extend(weights);
            cut.starts.push(cut.bins.len() as u64);
        }
        cut
    }

    /// An image of the frames, or the frames' part of one of the whole detector.
    ///
    /// # Errors
    /// As `load`, which reads an image of a shape.
    pub fn image<T: Copy>(&self, load: impl Fn([usize; 2]) -> Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
        match load(self.shape) {
            Err(error) if !self.is_whole() => load(self.full).map(|image| self.cut(image)).map_err(|_| error),
            image => image,
        }
    }
}
