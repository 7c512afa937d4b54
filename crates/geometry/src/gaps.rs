//! Gap masks: the parts of an image where a detector has no pixels.

use serde::Deserialize;

/// The gaps of a detector, in pixels of the unbinned image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum DetectorGaps {
    /// Bands between modules that span the image: [first, one past the last].
    Bands { rows: Vec<[usize; 2]>, columns: Vec<[usize; 2]> },
    /// Everything outside of the inscribed circle: image plates and tapered cameras.
    Circle {
        /// Always true; its key is what tells this kind from the others.
        #[serde(rename = "circle")]
        _circle: bool,
    },
    /// Everything outside of the modules, given by the row and the column of their first pixel.
    Modules { modules: Vec<[usize; 2]>, module_size: [usize; 2] },
    /// No gaps.
    #[default]
    None,
}

impl DetectorGaps {
    /// The mask of an image of `shape`, binned from `unbinned`; true where there is no value, row-major.
    /// A binned pixel is masked where any of its pixels lies in a gap. `None` without gaps.
    pub(crate) fn mask(&self, unbinned: [usize; 2], shape: [usize; 2]) -> Option<Vec<bool>> {
        let [rows, columns] = shape;
        let binning = [unbinned[0] / rows.max(1), unbinned[1] / columns.max(1)];
        let full = match self {
            Self::None => return None,
            // A circle is drawn in the image as it is, binned or not.
            Self::Circle { .. } => return Some(mask_outside_circle([rows, columns])),
            Self::Bands { rows, columns } => mask_bands(unbinned, rows, columns),
            Self::Modules { modules, module_size } => mask_outside_modules(unbinned, modules, *module_size),
        };
        Some(if binning == [1, 1] { full } else { grouped(&full, unbinned, binning) })
    }
}

/// The mask of an image of `shape` after so many of its rows and columns were added up to one: a pixel is masked
/// where any part of it is. Pixels at the end that do not fill one are lost.
pub(crate) fn grouped(full: &[bool], shape: [usize; 2], by: [usize; 2]) -> Vec<bool> {
    let [rows, columns] = [shape[0] / by[0], shape[1] / by[1]];
    let mut mask = vec![false; rows * columns];
    for (row, line) in full.chunks_exact(shape[1]).take(rows * by[0]).enumerate() {
        for (column, _) in line[..columns * by[1]].iter().enumerate().filter(|(_, masked)| **masked) {
            mask[row / by[0] * columns + column / by[1]] = true;
        }
    }
    mask
}

fn mask_bands([rows, columns]: [usize; 2], row_bands: &[[usize; 2]], column_bands: &[[usize; 2]]) -> Vec<bool> {
    let flags = |count: usize, bands: &[[usize; 2]]| -> Vec<bool> {
        (0..count).map(|index| bands.iter().any(|&[start, stop]| (start..stop).contains(&index))).collect()
    };
    let (row_flags, column_flags) = (flags(rows, row_bands), flags(columns, column_bands));
    row_flags.iter().flat_map(|&row| column_flags.iter().map(move |&column| row || column)).collect()
}

fn mask_outside_modules([rows, columns]: [usize; 2], modules: &[[usize; 2]], [height, width]: [usize; 2]) -> Vec<bool> {
    let mut mask = vec![true; rows * columns];
    for &[top, left] in modules {
        for row in top..(top + height).min(rows) {
            mask[row * columns + left..row * columns + (left + width).min(columns)].fill(false);
        }
    }
    mask
}

/// The circle has its centre in the middle of the image and the half of its rows as radius.
fn mask_outside_circle([rows, columns]: [usize; 2]) -> Vec<bool> {
    let [row0, column0] = [(rows / 2) as f64, (columns / 2) as f64];
    let square = |index: usize, centre: f64| (index as f64 + 0.5 - centre).powi(2);
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| square(row, row0) + square(column, column0) > row0 * row0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mask: &[bool], columns: usize) -> Vec<String> {
        mask.chunks(columns).map(|row| row.iter().map(|&masked| if masked { '#' } else { '.' }).collect()).collect()
    }

    #[test]
    fn bands_cross() {
        let gaps = DetectorGaps::Bands { rows: vec![[1, 2]], columns: vec![[2, 4]] };
        let mask = gaps.mask([3, 5], [3, 5]).unwrap();
        assert_eq!(drawn(&mask, 5), ["..##.", "#####", "..##."]);
    }

    #[test]
    fn a_binned_pixel_is_masked_where_any_part_of_it_is() {
        let gaps = DetectorGaps::Bands { rows: vec![], columns: vec![[1, 2]] };
        let mask = gaps.mask([4, 7], [2, 3]).unwrap();
        assert_eq!(drawn(&mask, 3), ["#..", "#.."]);
    }

    #[test]
    fn modules_are_what_is_left() {
        let gaps = DetectorGaps::Modules { modules: vec![[0, 1], [1, 3]], module_size: [1, 2] };
        let mask = gaps.mask([2, 5], [2, 5]).unwrap();
        assert_eq!(drawn(&mask, 5), ["#..##", "###.."]);
    }

    #[test]
    fn a_circle_leaves_the_corners() {
        let mask = DetectorGaps::Circle { _circle: true }.mask([8, 8], [4, 4]).unwrap();
        assert_eq!(drawn(&mask, 4), ["#..#", "....", "....", "#..#"]);
    }
}
