//! Positions of the rows and columns of a flat detector with rectangular pixels.

use serde::Deserialize;

use crate::Orientation;

/// Wide pixels on both sides of the border between two chips, as on Imxpad detectors.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WidePixels {
    /// Rows and columns of a chip.
    pub(crate) module: [usize; 2],
    /// Size of a wide pixel relative to the others.
    pub(crate) factor: f64,
}

/// Pixel positions along one axis, in metres from the detector's corner and in the order of the
/// image's index.
#[derive(Clone, Debug)]
pub(crate) struct PixelAxis {
    /// Centre of each pixel.
    pub(crate) centers: Vec<f64>,
    /// Edges of the pixels, one more than there are pixels.
    pub(crate) edges: Vec<f64>,
    /// Edges computed in single precision, as pyFAI's arrays of corners hold them.
    pub(crate) edges_f32: Vec<f32>,
}

impl PixelAxis {
    /// Makes an axis of `count` pixels of equal size.
    fn uniform(count: usize, pixel: f64, reversed: bool) -> Self {
        let edge_index = |index: usize| (if reversed { count - index } else { index }) as f64;
        let centers = (0..count).map(|index| {
            let center = if reversed { edge_index(index) - 0.5 } else { edge_index(index) + 0.5 };
            pixel * center
        });
        Self {
            centers: centers.collect(),
            edges: (0..=count).map(|index| pixel * edge_index(index)).collect(),
            edges_f32: (0..=count).map(|index| pixel as f32 * edge_index(index) as f32).collect(),
        }
    }

    /// Returns the axis with blocks of `block` pixels joined into one. Pixels at the end that do
    /// not fill a block are dropped.
    pub(crate) fn binned(&self, block: usize) -> Self {
        let edges: Vec<f64> = self.edges.iter().step_by(block).copied().collect();
        Self {
            centers: centers_between(&edges),
            edges_f32: self.edges_f32.iter().step_by(block).copied().collect(),
            edges,
        }
    }

    /// Makes an axis whose pixels next to the border of two chips are larger by `factor`.
    fn with_wide_borders(
        count: usize,
        pixel: f64,
        module: usize,
        factor: f64,
        reversed: bool,
    ) -> Self {
        let chips = count / module;
        let is_chip_border =
            |index: usize| index.is_multiple_of(module) && (1..chips).contains(&(index / module));
        let is_wide = |index: usize| is_chip_border(index) || is_chip_border(index + 1);
        let mut edges = vec![0.0; count + 1];
        for index in 0..count {
            edges[index + 1] = edges[index] + if is_wide(index) { pixel * factor } else { pixel };
        }
        if reversed {
            edges.reverse();
        }
        Self {
            centers: centers_between(&edges),
            edges_f32: edges.iter().map(|&edge| edge as f32).collect(),
            edges,
        }
    }
}

/// Returns the middle between each edge and the next.
fn centers_between(edges: &[f64]) -> Vec<f64> {
    edges.windows(2).map(|pair| pair[0] + 0.5 * (pair[1] - pair[0])).collect()
}

/// Returns the slow and the fast axis of a detector of `shape` (rows, columns) with pixels of size
/// `pixel` in metres.
pub(crate) fn pixel_axes(
    shape: [usize; 2],
    pixel: [f64; 2],
    wide: Option<WidePixels>,
    orientation: Orientation,
) -> [PixelAxis; 2] {
    [0, 1].map(|axis| {
        let (count, pixel, reversed) =
            (shape[axis], pixel[axis], orientation.reversed_axes()[axis]);
        match wide {
            None => PixelAxis::uniform(count, pixel, reversed),
            Some(wide) => {
                PixelAxis::with_wide_borders(count, pixel, wide.module[axis], wide.factor, reversed)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reversed_axis_begins_at_the_far_end() {
        let [slow, fast] = pixel_axes([2, 3], [0.5, 2.0], None, Orientation::BottomLeft);
        assert_eq!((slow.centers, slow.edges), (vec![0.25, 0.75], vec![0.0, 0.5, 1.0]));
        assert_eq!((fast.centers, fast.edges), (vec![5.0, 3.0, 1.0], vec![6.0, 4.0, 2.0, 0.0]));
    }

    #[test]
    fn binned_pixels_keep_the_edges_of_their_block() {
        let [slow, fast] = pixel_axes([5, 4], [0.5, 2.0], None, Orientation::BottomLeft);
        let (slow, fast) = (slow.binned(2), fast.binned(2));
        assert_eq!(
            (slow.centers, slow.edges, slow.edges_f32),
            (vec![0.5, 1.5], vec![0.0, 1.0, 2.0], vec![0.0, 1.0, 2.0])
        );
        assert_eq!((fast.centers, fast.edges), (vec![6.0, 2.0], vec![8.0, 4.0, 0.0]));
    }

    #[test]
    fn pixels_at_inner_borders_are_wider() {
        let wide = WidePixels { module: [2, 3], factor: 2.0 };
        let [slow, fast] = pixel_axes([6, 3], [1.0, 1.0], Some(wide), Orientation::BottomRight);
        assert_eq!(slow.edges, [0.0, 1.0, 3.0, 5.0, 7.0, 9.0, 10.0]);
        assert_eq!(slow.centers, [0.5, 2.0, 4.0, 6.0, 8.0, 9.5]);
        assert_eq!(fast.edges, [0.0, 1.0, 2.0, 3.0]);
    }
}
