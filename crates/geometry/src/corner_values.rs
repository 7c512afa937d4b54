//! [`CornerValues`], a value at each corner of each pixel, and [`PixelIntervals`], what pixels cover
//! along a coordinate.

/// A value at each corner A, B, C, D of each pixel, row-major. Corners that the pixels of a grid
/// share have one value, so that a pixel of a large detector takes the memory of one value, not of
/// four.
#[derive(Clone, Debug, PartialEq)]
pub struct CornerValues<T> {
    values: Vec<T>,
    layout: CornerLayout,
}

/// Where the values of a pixel's corners are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CornerLayout {
    /// At the nodes of a grid with so many columns of pixels, and one more of nodes.
    Grid {
        /// Columns of pixels.
        columns: usize,
    },
    /// Side by side, four for each pixel.
    Separate,
}

impl<T: Copy> CornerValues<T> {
    pub(crate) fn new(values: Vec<T>, layout: CornerLayout) -> Self {
        Self { values, layout }
    }

    /// Returns the values at the corners A, B, C, D of a pixel.
    #[inline]
    pub fn of_pixel(&self, pixel: usize) -> [T; 4] {
        match self.layout {
            CornerLayout::Grid { columns } => {
                // Each row of nodes has one more than the pixels.
                let above = pixel + pixel / columns;
                let below = above + columns + 1;
                let ([a, d], [b, c]) = (self.pair(above), self.pair(below));
                [a, b, c, d]
            }
            CornerLayout::Separate => {
                let ([a, b], [c, d]) = (self.pair(4 * pixel), self.pair(4 * pixel + 2));
                [a, b, c, d]
            }
        }
    }

    #[inline]
    fn pair(&self, at: usize) -> [T; 2] {
        [self.values[at], self.values[at + 1]]
    }
}

/// The interval that each pixel covers along one coordinate: as far on both sides of its centre as
/// its farthest corner. Half widths are computed where they are asked for, from corners rounded to
/// single precision.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelIntervals {
    /// Centre of each pixel.
    pub centers: Vec<f64>,
    corners: CornerValues<f32>,
    coordinate: Coordinate,
}

/// How the distance between two values of a coordinate is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Coordinate {
    /// Along a line.
    Linear,
    /// The shorter way round a circle, in radians.
    Angle,
}

impl PixelIntervals {
    pub(crate) fn new(
        centers: Vec<f64>,
        corners: CornerValues<f32>,
        coordinate: Coordinate,
    ) -> Self {
        Self { centers, corners, coordinate }
    }

    /// Returns the half width of a pixel: the largest distance of a corner from the centre.
    #[inline]
    pub fn half_width(&self, pixel: usize) -> f64 {
        let center = self.centers[pixel];
        let distance = |corner: f32| {
            let distance = (f64::from(corner) - center).abs();
            match self.coordinate {
                Coordinate::Linear => distance,
                Coordinate::Angle => distance.min(std::f64::consts::TAU - distance),
            }
        };
        // `f64::max` would give the same, also for NaN, and take longer.
        let longer = |longest, distance| if distance > longest { distance } else { longest };
        self.corners.of_pixel(pixel).map(distance).into_iter().fold(0.0, longer)
    }

    /// Returns the interval of a pixel: centre minus half width, centre plus half width.
    #[inline]
    pub fn interval(&self, pixel: usize) -> (f64, f64) {
        let (center, half_width) = (self.centers[pixel], self.half_width(pixel));
        (center - half_width, center + half_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_of_a_grid_share_corners() {
        // 2 x 3 pixels, whose nodes are numbered row by row.
        let nodes = CornerValues::new((0..12).collect(), CornerLayout::Grid { columns: 3 });
        assert_eq!(nodes.of_pixel(0), [0, 4, 5, 1]);
        assert_eq!(nodes.of_pixel(2), [2, 6, 7, 3]);
        assert_eq!(nodes.of_pixel(3), [4, 8, 9, 5]);
        assert_eq!(nodes.of_pixel(5), [6, 10, 11, 7]);
        let separate = CornerValues::new((0..8).collect(), CornerLayout::Separate);
        assert_eq!(separate.of_pixel(1), [4, 5, 6, 7]);
    }

    #[test]
    fn a_half_width_is_the_way_to_the_farthest_corner() {
        let corners = |values: [f32; 4]| CornerValues::new(values.to_vec(), CornerLayout::Separate);
        let radial =
            PixelIntervals::new(vec![1.0], corners([0.5, 1.25, 1.75, 1.0]), Coordinate::Linear);
        assert_eq!((radial.half_width(0), radial.interval(0)), (0.75, (0.25, 1.75)));
        let chi = PixelIntervals::new(vec![3.0], corners([-3.0, 3.0, 3.0, 3.0]), Coordinate::Angle);
        assert!((chi.half_width(0) - (std::f64::consts::TAU - 6.0)).abs() < 1e-15);
    }
}
