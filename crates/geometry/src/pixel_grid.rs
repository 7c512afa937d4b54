//! Where the rows and columns of a flat rectangular detector lie.

use serde::Deserialize;

use crate::Orientation;

/// A detector whose pixels next to the border between two chips are wider than the others.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WidePixels {
    /// Rows and columns of a chip.
    pub(crate) module: [usize; 2],
    /// How much wider these pixels are.
    pub(crate) factor: f64,
}

/// Positions along one axis from the detector's corner, metres, in the order of the image's index.
#[derive(Clone, Debug)]
pub(crate) struct PixelAxis {
    /// Middle of each pixel.
    pub(crate) centers: Vec<f64>,
    /// Borders of the pixels, one more than there are pixels.
    pub(crate) edges: Vec<f64>,
    /// The borders as a table of corners in single precision holds them.
    pub(crate) edges_f32: Vec<f32>,
}

impl PixelAxis {
    fn uniform(count: usize, pixel: f64, reversed: bool) -> Self {
        let place = |index: usize| (if reversed { count - index } else { index }) as f64;
        let centers = (0..count).map(|index| {
            let center = if reversed { place(index) - 0.5 } else { place(index) + 0.5 };
            pixel * center
        });
        Self {
            centers: centers.collect(),
            edges: (0..=count).map(|index| pixel * place(index)).collect(),
            edges_f32: (0..=count).map(|index| pixel as f32 * place(index) as f32).collect(),
        }
    }

    /// The axis with so many pixels added up to one; those at the end that do not fill one are lost.
    pub(crate) fn grouped(&self, by: usize) -> Self {
        let edges: Vec<f64> = self.edges.iter().step_by(by).copied().collect();
        Self {
            centers: edges.windows(2).map(|pair| pair[0] + 0.5 * (pair[1] - pair[0])).collect(),
            edges_f32: self.edges_f32.iter().step_by(by).copied().collect(),
            edges,
        }
    }

    fn with_wide_borders(count: usize, pixel: f64, module: usize, factor: f64, reversed: bool) -> Self {
        let chips = count / module;
        let inner = |index: usize| index.is_multiple_of(module) && (1..chips).contains(&(index / module));
        let at_border = |index: usize| inner(index) || inner(index + 1);
        let mut edges = vec![0.0; count + 1];
        for index in 0..count {
            edges[index + 1] = edges[index] + if at_border(index) { pixel * factor } else { pixel };
        }
        if reversed {
            edges.reverse();
        }
        Self {
            centers: edges.windows(2).map(|pair| pair[0] + 0.5 * (pair[1] - pair[0])).collect(),
            edges_f32: edges.iter().map(|&edge| edge as f32).collect(),
            edges,
        }
    }
}

/// The slow and the fast axis of a detector. `detector_pixel` is the size of a pixel in metres.
pub(crate) fn pixel_axes(
    shape: [usize; 2],
    pixel: [f64; 2],
    wide: Option<WidePixels>,
    orientation: Orientation,
) -> [PixelAxis; 2] {
    [0, 1].map(|axis| {
        let (count, pixel, reversed) = (shape[axis], pixel[axis], orientation.reversed_axes()[axis]);
        match wide {
            None => PixelAxis::uniform(count, pixel, reversed),
            Some(wide) => PixelAxis::with_wide_borders(count, pixel, wide.module[axis], wide.factor, reversed),
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
    fn grouped_pixels_keep_the_borders_that_are_left() {
        let [slow, fast] = pixel_axes([5, 4], [0.5, 2.0], None, Orientation::BottomLeft);
        let (slow, fast) = (slow.grouped(2), fast.grouped(2));
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
