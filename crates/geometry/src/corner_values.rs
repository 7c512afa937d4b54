//! [`CornerValues`], a value at each corner of each pixel, and [`PixelIntervals`], what pixels cover
//! along a coordinate.

use multiversion::multiversion;

use crate::points::BLOCK;

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

    /// Copies the values at the corners of pixels, at most [`BLOCK`], to an array for each of the
    /// corners A, B, C, D. The values after those of the last pixel stay.
    ///
    /// # Panics
    /// There are more pixels, or a pixel is not on the detector.
    pub fn copy_corners(&self, pixels: &[usize], corners: &mut [[T; BLOCK]; 4]) {
        let CornerLayout::Grid { columns } = self.layout else {
            for (index, &pixel) in pixels.iter().enumerate() {
                for (values, value) in corners.iter_mut().zip(self.of_pixel(pixel)) {
                    values[index] = value;
                }
            }
            return;
        };
        let mut done = 0;
        while let Some(&first) = pixels.get(done) {
            // Pixels side by side in a row have their corners side by side, too.
            let (row, column) = (first / columns, first % columns);
            let side_by_side = pixels[done..].iter().zip(first..).take(columns - column);
            let count = side_by_side.take_while(|(pixel, next)| **pixel == *next).count();
            let above = first + row;
            let below = above + columns + 1;
            for (values, start) in corners.iter_mut().zip([above, below, below + 1, above + 1]) {
                values[done..done + count].copy_from_slice(&self.values[start..start + count]);
            }
            done += count;
        }
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
        let (center, corners) = (self.centers[pixel], self.corners.of_pixel(pixel));
        match self.coordinate {
            Coordinate::Linear => largest_distance(corners, |corner| distance(corner, center)),
            Coordinate::Angle => largest_distance(corners, |corner| angle_between(corner, center)),
        }
    }

    /// Returns the interval of a pixel: centre minus half width, centre plus half width.
    #[inline]
    pub fn interval(&self, pixel: usize) -> (f64, f64) {
        let (center, half_width) = (self.centers[pixel], self.half_width(pixel));
        (center - half_width, center + half_width)
    }

    /// Returns the intervals of pixels, at most [`BLOCK`], as [`PixelIntervals::interval`] does.
    ///
    /// # Panics
    /// There are more pixels, or a pixel is not on the detector.
    pub fn of_pixels(&self, pixels: &[usize]) -> IntervalBlock {
        let (mut centers, mut corners) = ([0.0; BLOCK], [[0.0; BLOCK]; 4]);
        for (center, &pixel) in centers.iter_mut().zip(pixels) {
            *center = self.centers[pixel];
        }
        self.corners.copy_corners(pixels, &mut corners);
        let mut intervals = IntervalBlock { min: [0.0; BLOCK], max: [0.0; BLOCK] };
        match self.coordinate {
            Coordinate::Linear => set_intervals(&centers, &corners, &mut intervals, distance),
            Coordinate::Angle => set_intervals(&centers, &corners, &mut intervals, angle_between),
        }
        intervals
    }
}

/// The intervals of a block of pixels. Those after the last pixel have no meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalBlock {
    /// Lower end of each interval.
    pub min: [f64; BLOCK],
    /// Upper end of each interval.
    pub max: [f64; BLOCK],
}

/// Returns the largest distance of a corner; those that are NaN are left out.
#[inline(always)]
fn largest_distance(corners: [f32; 4], distance: impl Fn(f64) -> f64) -> f64 {
    // `f64::max` would give the same, also for NaN, and take longer.
    let longer = |longest, distance| if distance > longest { distance } else { longest };
    corners.into_iter().map(|corner| distance(f64::from(corner))).fold(0.0, longer)
}

/// Returns the distance of two values along a line.
#[inline(always)]
fn distance(a: f64, b: f64) -> f64 {
    (a - b).abs()
}

/// Returns the shorter way round the circle between two angles that differ by at most 2π.
#[inline(always)]
fn angle_between(a: f64, b: f64) -> f64 {
    let distance = (a - b).abs();
    let other_way = std::f64::consts::TAU - distance;
    if other_way < distance { other_way } else { distance }
}

/// Sets intervals from the centres and corners of pixels; `distance` is that of two values.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
fn set_intervals<F: Fn(f64, f64) -> f64>(
    centers: &[f64; BLOCK],
    corners: &[[f32; BLOCK]; 4],
    intervals: &mut IntervalBlock,
    distance: F,
) {
    for index in 0..BLOCK {
        let (center, corners) = (centers[index], [0, 1, 2, 3].map(|corner| corners[corner][index]));
        let half_width = largest_distance(corners, |corner| distance(corner, center));
        (intervals.min[index], intervals.max[index]) = (center - half_width, center + half_width);
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

    #[test]
    fn the_corners_of_a_block_are_those_of_its_pixels() {
        // 5 x 7 pixels, in the order of frames, reversed, by columns, and one of them again.
        let nodes = CornerValues::new((0..48).collect(), CornerLayout::Grid { columns: 7 });
        let separate = CornerValues::new((0..140).collect(), CornerLayout::Separate);
        let orders: [Vec<usize>; 5] = [
            (0..35).collect(),
            (0..35).rev().collect(),
            (0..35).map(|pixel| pixel % 5 * 7 + pixel / 5).collect(),
            vec![6, 7, 8, 8, 9, 34, 33],
            vec![],
        ];
        for values in [nodes, separate] {
            for order in &orders {
                let mut corners = [[-1; BLOCK]; 4];
                values.copy_corners(order, &mut corners);
                for (index, pixel) in order.iter().enumerate() {
                    let found = [0, 1, 2, 3].map(|corner| corners[corner][index]);
                    assert_eq!(found, values.of_pixel(*pixel), "pixel {pixel}");
                }
                assert!(corners.iter().all(|values| values[order.len()] == -1));
            }
        }
    }

    #[test]
    fn the_intervals_of_a_block_are_those_of_its_pixels() {
        for coordinate in [Coordinate::Linear, Coordinate::Angle] {
            // 3 x 9 pixels whose corners are on both sides of the discontinuity of an angle; one
            // has no centre, and one corner is missing.
            let number = |index: usize| (index * 37 % 63) as f32 * 0.1 - 3.1;
            let mut values: Vec<f32> = (0..40).map(number).collect();
            values[13] = f32::NAN;
            let corners = CornerValues::new(values, CornerLayout::Grid { columns: 9 });
            let mut centers: Vec<f64> = (0..27).map(|pixel| f64::from(number(pixel + 5))).collect();
            centers[20] = f64::NAN;
            let intervals = PixelIntervals::new(centers, corners, coordinate);
            let found = intervals.of_pixels(&(0..27).collect::<Vec<_>>());
            for pixel in 0..27 {
                let (min, max) = intervals.interval(pixel);
                let found = [found.min[pixel], found.max[pixel]].map(f64::to_bits);
                assert_eq!(found, [min, max].map(f64::to_bits), "{coordinate:?} {pixel}");
            }
        }
    }
}
