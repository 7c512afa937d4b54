//! Gap masks: which parts of an image hold no pixel of the detector.

use serde::Deserialize;

/// The gaps of a detector, in pixels of the unbinned image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum DetectorGaps {
    /// Bands between modules, across the whole image: [first, one past the last].
    Bands { rows: Vec<[usize; 2]>, columns: Vec<[usize; 2]> },
    /// Everything outside the inscribed circle: image plates and tapered cameras.
    Circle {
        /// Always true: the key alone distinguishes this variant in the table.
        #[serde(rename = "circle")]
        _circle: bool,
    },
    /// Everything outside the modules, each given by row and column of its first pixel.
    Modules { modules: Vec<[usize; 2]>, module_size: [usize; 2] },
    /// No gaps.
    #[default]
    None,
}

impl DetectorGaps {
    /// Returns the gap mask of an image of `shape`, binned from `unbinned` (row-major, true is
    /// masked). A binned pixel is masked if any pixel of its block lies in a gap. `None` if the
    /// detector has no gaps.
    pub(crate) fn mask(&self, unbinned: [usize; 2], shape: [usize; 2]) -> Option<Vec<bool>> {
        let [rows, columns] = shape;
        let binning = [unbinned[0] / rows.max(1), unbinned[1] / columns.max(1)];
        let full = match self {
            Self::None => return None,
            // pyFAI draws the circle in the binned image, not in the unbinned one.
            Self::Circle { .. } => return Some(mask_outside_circle([rows, columns])),
            Self::Bands { rows, columns } => mask_bands(unbinned, rows, columns),
            Self::Modules { modules, module_size } => {
                mask_outside_modules(unbinned, modules, *module_size)
            }
        };
        Some(if binning == [1, 1] { full } else { bin_mask(&full, unbinned, binning) })
    }
}

/// Bins a mask of `shape` by blocks of `block` (rows, columns): a block is masked if any of its
/// pixels is. Rows and columns at the end that do not fill a block are dropped.
pub(crate) fn bin_mask(mask: &[bool], shape: [usize; 2], block: [usize; 2]) -> Vec<bool> {
    let [rows, columns] = [shape[0] / block[0], shape[1] / block[1]];
    let mut binned = vec![false; rows * columns];
    for (row, line) in mask.chunks_exact(shape[1]).take(rows * block[0]).enumerate() {
        for (column, _) in
            line[..columns * block[1]].iter().enumerate().filter(|(_, masked)| **masked)
        {
            binned[row / block[0] * columns + column / block[1]] = true;
        }
    }
    binned
}

fn mask_bands(
    [rows, columns]: [usize; 2],
    row_bands: &[[usize; 2]],
    column_bands: &[[usize; 2]],
) -> Vec<bool> {
    let flags = |count: usize, bands: &[[usize; 2]]| -> Vec<bool> {
        (0..count)
            .map(|index| bands.iter().any(|&[start, stop]| (start..stop).contains(&index)))
            .collect()
    };
    let (row_flags, column_flags) = (flags(rows, row_bands), flags(columns, column_bands));
    row_flags
        .iter()
        .flat_map(|&row| column_flags.iter().map(move |&column| row || column))
        .collect()
}

fn mask_outside_modules(
    [rows, columns]: [usize; 2],
    modules: &[[usize; 2]],
    [height, width]: [usize; 2],
) -> Vec<bool> {
    let mut mask = vec![true; rows * columns];
    for &[top, left] in modules {
        for row in top..(top + height).min(rows) {
            mask[row * columns + left..row * columns + (left + width).min(columns)].fill(false);
        }
    }
    mask
}

/// Masks what lies outside a circle around the middle of the image, whose radius is half the number
/// of rows.
fn mask_outside_circle([rows, columns]: [usize; 2]) -> Vec<bool> {
    let [row0, column0] = [(rows / 2) as f64, (columns / 2) as f64];
    let square = |index: usize, center: f64| (index as f64 + 0.5 - center).powi(2);
    (0..rows)
        .flat_map(|row| {
            (0..columns)
                .map(move |column| square(row, row0) + square(column, column0) > row0 * row0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mask: &[bool], columns: usize) -> Vec<String> {
        mask.chunks(columns)
            .map(|row| row.iter().map(|&masked| if masked { '#' } else { '.' }).collect())
            .collect()
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
    fn everything_but_modules_is_masked() {
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
