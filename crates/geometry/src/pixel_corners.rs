//! Detectors given pixel by pixel: the four corners of each, as NeXus detector files hold them.

/// The corners of all pixels: rows, columns, corners A B C D, and z, y, x in metres from the
/// detector's origin. A is the corner at the lower indices, B the next along the slow axis, C the
/// opposite one, D the next along the fast axis.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelCorners {
    shape: [usize; 2],
    values: Vec<f32>,
    is_flat: bool,
}

/// Numbers of a pixel: four corners of z, y, x.
const VALUES_PER_PIXEL: usize = 12;

/// An array that does not hold four corners for every pixel.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("pixel_corners: {found} numbers: expected {rows} x {columns} x 4 x 3")]
pub struct CornersLengthError {
    /// How many numbers there are.
    pub found: usize,
    /// Rows of the detector.
    pub rows: usize,
    /// Columns of the detector.
    pub columns: usize,
}

impl PixelCorners {
    /// From the array `pixel_corners` in row-major order.
    pub fn new(shape: [usize; 2], values: Vec<f32>) -> Result<Self, CornersLengthError> {
        let [rows, columns] = shape;
        if values.len() != rows * columns * VALUES_PER_PIXEL {
            return Err(CornersLengthError { found: values.len(), rows, columns });
        }
        let flat = values.iter().step_by(3).all(|&z| z == 0.0);
        Ok(Self { shape, values, is_flat: flat })
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Whether all corners lie in the detector's plane.
    pub fn flat(&self) -> bool {
        self.is_flat
    }

    /// The corners A, B, C, D of a pixel as [z, y, x].
    pub(crate) fn corners_of(&self, pixel: usize) -> [[f64; 3]; 4] {
        let values = &self.values[pixel * VALUES_PER_PIXEL..(pixel + 1) * VALUES_PER_PIXEL];
        [0, 3, 6, 9].map(|at| [values[at], values[at + 1], values[at + 2]].map(f64::from))
    }

    /// The corners of the pixels that so many rows and columns make; pixels at the end that do not fill one are lost.
    pub(crate) fn binned(&self, by: [usize; 2]) -> Self {
        let shape = [self.shape[0] / by[0], self.shape[1] / by[1]];
        let mut values = Vec::with_capacity(shape[0] * shape[1] * VALUES_PER_PIXEL);
        for (row, column) in (0..shape[0]).flat_map(|row| (0..shape[1]).map(move |column| (row, column))) {
            let ([top, left], [bottom, right]) =
                ([row * by[0], column * by[1]], [(row + 1) * by[0] - 1, (column + 1) * by[1] - 1]);
            for (corner, (row, column)) in
                [(top, left), (bottom, left), (bottom, right), (top, right)].iter().enumerate()
            {
                let at = (row * self.shape[1] + column) * VALUES_PER_PIXEL + corner * 3;
                values.extend(&self.values[at..at + 3]);
            }
        }
        Self { shape, values, is_flat: self.is_flat }
    }

    /// The mean of a pixel's corners as [z, y, x].
    pub(crate) fn center(&self, pixel: usize) -> [f64; 3] {
        let corners = self.corners_of(pixel);
        // In single precision, as a reader of the same file through pyFAI gets it.
        [0, 1, 2].map(|axis| f64::from(corners.map(|corner| corner[axis] * 0.25).iter().sum::<f64>() as f32))
    }

    /// Whether a pixel's place is known.
    pub(crate) fn is_finite(&self, pixel: usize) -> bool {
        self.values[pixel * VALUES_PER_PIXEL..(pixel + 1) * VALUES_PER_PIXEL].iter().all(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_of_another_shape_is_refused() {
        let message = PixelCorners::new([2, 1], vec![0.0; 12]).unwrap_err().to_string();
        assert_eq!(message, "pixel_corners: 12 numbers: expected 2 x 1 x 4 x 3");
    }

    #[test]
    fn grouped_pixels_have_the_outer_corners() {
        // Two pixels above each other, [z, y, x] of A, B, C, D each.
        let pixel = |y: f32| [[0., y, 0.], [0., y + 1., 0.], [0., y + 1., 2.], [0., y, 2.]].concat();
        let corners = PixelCorners::new([2, 1], [pixel(0.0), pixel(1.5)].concat()).unwrap().binned([2, 1]);
        assert_eq!(corners.shape(), [1, 1]);
        assert_eq!(corners.corners_of(0), [[0., 0., 0.], [0., 2.5, 0.], [0., 2.5, 2.], [0., 0., 2.]]);
    }

    #[test]
    fn a_center_is_the_mean_of_the_corners() {
        let corners = PixelCorners::new([1, 1], vec![0., 0., 0., 0., 1., 0., 4., 1., 2., 0., 0., 2.]).unwrap();
        assert_eq!(corners.center(0), [1.0, 0.5, 1.0]);
        assert!(!corners.flat());
    }
}
