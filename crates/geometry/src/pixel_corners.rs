//! Corners of all pixels of a detector that is no regular grid, as NeXus detector files store them.

/// The corners of all pixels: an array of rows x columns x corners A, B, C, D x coordinates z, y, x
/// in metres from the detector's origin. A is the corner at the lower indices, B its neighbour
/// along the slow axis, C the opposite corner, D the neighbour of A along the fast axis.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelCorners {
    shape: [usize; 2],
    values: Vec<f32>,
    is_flat: bool,
}

/// Number of array elements per pixel: four corners with z, y, x each.
const VALUES_PER_PIXEL: usize = 12;

/// An array does not hold four corners for every pixel.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("pixel_corners has {found} numbers; expected {rows} x {columns} x 4 x 3")]
pub struct CornersLengthError {
    /// Number of elements in the array.
    pub found: usize,
    /// Rows of the detector.
    pub rows: usize,
    /// Columns of the detector.
    pub columns: usize,
}

impl PixelCorners {
    /// Wraps the array `pixel_corners`, given in row-major order.
    ///
    /// # Errors
    /// `values` is not twelve numbers for each pixel of `shape` (rows, columns).
    pub fn new(shape: [usize; 2], values: Vec<f32>) -> Result<Self, CornersLengthError> {
        let [rows, columns] = shape;
        if values.len() != rows * columns * VALUES_PER_PIXEL {
            return Err(CornersLengthError { found: values.len(), rows, columns });
        }
        let is_flat = values.iter().step_by(3).all(|&z| z == 0.0);
        Ok(Self { shape, values, is_flat })
    }

    /// Returns rows and columns of the detector.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Returns whether all corners lie in the detector's plane, z = 0.
    pub fn is_flat(&self) -> bool {
        self.is_flat
    }

    /// Returns the corners A, B, C, D of a pixel as [z, y, x].
    pub(crate) fn corners_of(&self, pixel: usize) -> [[f64; 3]; 4] {
        let values = &self.values[pixel * VALUES_PER_PIXEL..(pixel + 1) * VALUES_PER_PIXEL];
        [0, 3, 6, 9].map(|at| [values[at], values[at + 1], values[at + 2]].map(f64::from))
    }

    /// Returns the outer corners of blocks of `block` (rows, columns) pixels. Rows and columns at
    /// the end that do not fill a block are dropped.
    pub(crate) fn binned(&self, block: [usize; 2]) -> Self {
        let shape = [self.shape[0] / block[0], self.shape[1] / block[1]];
        let mut values = Vec::with_capacity(shape[0] * shape[1] * VALUES_PER_PIXEL);
        for (row, column) in
            (0..shape[0]).flat_map(|row| (0..shape[1]).map(move |column| (row, column)))
        {
            let [top, left] = [row * block[0], column * block[1]];
            let [bottom, right] = [top + block[0] - 1, left + block[1] - 1];
            for (corner, (row, column)) in
                [(top, left), (bottom, left), (bottom, right), (top, right)].iter().enumerate()
            {
                let at = (row * self.shape[1] + column) * VALUES_PER_PIXEL + corner * 3;
                values.extend(&self.values[at..at + 3]);
            }
        }
        Self { shape, values, is_flat: self.is_flat }
    }

    /// Returns the mean of a pixel's corners as [z, y, x].
    pub(crate) fn center(&self, pixel: usize) -> [f64; 3] {
        let corners = self.corners_of(pixel);
        // Rounded to single precision, as pyFAI does for the same file.
        [0, 1, 2].map(|axis| {
            f64::from(corners.map(|corner| corner[axis] * 0.25).iter().sum::<f64>() as f32)
        })
    }

    /// Returns whether all corners of a pixel are finite; otherwise the pixel has no position and
    /// is masked.
    pub(crate) fn is_finite(&self, pixel: usize) -> bool {
        self.values[pixel * VALUES_PER_PIXEL..(pixel + 1) * VALUES_PER_PIXEL]
            .iter()
            .all(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_of_another_shape_is_refused() {
        let message = PixelCorners::new([2, 1], vec![0.0; 12]).unwrap_err().to_string();
        assert_eq!(message, "pixel_corners has 12 numbers; expected 2 x 1 x 4 x 3");
    }

    #[test]
    fn binned_pixels_have_the_outer_corners_of_their_block() {
        // Two pixels above each other, [z, y, x] of A, B, C, D each.
        let pixel =
            |y: f32| [[0., y, 0.], [0., y + 1., 0.], [0., y + 1., 2.], [0., y, 2.]].concat();
        let corners =
            PixelCorners::new([2, 1], [pixel(0.0), pixel(1.5)].concat()).unwrap().binned([2, 1]);
        assert_eq!(corners.shape(), [1, 1]);
        assert_eq!(
            corners.corners_of(0),
            [[0., 0., 0.], [0., 2.5, 0.], [0., 2.5, 2.], [0., 0., 2.]]
        );
    }

    #[test]
    fn a_center_is_the_mean_of_the_corners() {
        let corners =
            PixelCorners::new([1, 1], vec![0., 0., 0., 0., 1., 0., 4., 1., 2., 0., 0., 2.])
                .unwrap();
        assert_eq!(corners.center(0), [1.0, 0.5, 1.0]);
        assert!(!corners.is_flat());
    }
}
