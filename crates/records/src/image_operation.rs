//! Image operations: how an image was transformed between the detector and the file.

use serde::{Deserialize, Serialize};

/// The operations that Lima applied to each image before saving: binning, then flips of rows and
/// columns, then a rotation, then cutting out a region (Lima, `SoftOpInternalMgr`). Lima's HDF5
/// files record them in `image_operation`; here, rows come before columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageOperation {
    /// Rows and columns of the detector's image before all operations; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<[u64; 2]>,
    /// How many rows and columns were summed into one.
    pub binning: [u64; 2],
    /// Flags for rows and for columns: true if their order was reversed.
    pub flip: [bool; 2],
    /// The rotation in degrees clockwise: 0, 90, 180 or 270.
    pub rotation: u64,
    /// The region's first row and first column, then its numbers of rows and columns.
    pub region: [u64; 4],
}

/// The shape of frames, and the part of the detector that they show.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrameLayout {
    /// The numbers of rows and columns.
    pub shape: [u64; 2],
    /// The operations applied to the frames; `None` if they show the detector unchanged.
    pub operation: Option<ImageOperation>,
}

impl FrameLayout {
    /// Returns the layout of frames that show the detector unchanged.
    pub fn full_frame(shape: [u64; 2]) -> Self {
        Self { shape, operation: None }
    }

    /// Returns the layout of frames that show the region of the detector that begins at this row
    /// and column.
    pub fn region([row, column]: [u64; 2], shape: [u64; 2]) -> Self {
        let region = [row, column, shape[0], shape[1]];
        let operation = ImageOperation {
            full: None,
            binning: [1, 1],
            flip: [false, false],
            rotation: 0,
            region,
        };
        Self { shape, operation: Some(operation) }
    }

    /// Returns a text that is equal for equal layouts, for cache keys: JSON of the shape and the
    /// operation. It does not depend on the names of types, as a text made by
    /// [`Debug`](std::fmt::Debug) would.
    pub fn to_key_text(&self) -> String {
        serde_json::to_string(&(self.shape, &self.operation))
            .expect("numbers and truth values always serialize")
    }
}

impl ImageOperation {
    /// Returns whether the operation leaves frames of this shape unchanged.
    pub fn is_identity(&self, shape: [u64; 2]) -> bool {
        let is_whole = self.full.is_none_or(|full| full == shape);
        is_whole && self.region == [0, 0, shape[0], shape[1]] && self.preserves_pixels()
    }

    /// Returns whether frames hold the detector's pixels in their original order; a region may have
    /// been cut out.
    pub fn preserves_pixels(&self) -> bool {
        (self.binning, self.flip, self.rotation) == ([1, 1], [false, false], 0)
    }

    /// Describes the operation: `binned 2 x 2, rows flipped, turned by 90 degrees, cut to 100 x 80
    /// pixels at row 10, column 20`.
    pub fn describe(&self) -> String {
        let [row, column, rows, columns] = self.region;
        let flipped = match self.flip {
            [false, false] => None,
            [true, false] => Some("rows flipped"),
            [false, true] => Some("columns flipped"),
            [true, true] => Some("rows and columns flipped"),
        };
        let cut =
            self.uncropped_shape().is_none_or(|shape| [0, 0, shape[0], shape[1]] != self.region);
        let words = [
            (self.binning != [1, 1])
                .then(|| format!("binned {} x {}", self.binning[0], self.binning[1])),
            flipped.map(str::to_owned),
            (self.rotation != 0).then(|| format!("turned by {} degrees", self.rotation)),
            cut.then(|| format!("cut to {rows} x {columns} pixels at row {row}, column {column}")),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns the shape of the image that the region is cut from, if it is known.
    fn uncropped_shape(&self) -> Option<[u64; 2]> {
        let [rows, columns] =
            [0, 1].map(|axis| self.full?[axis].checked_div(self.binning[axis].max(1)));
        let shape = [rows?, columns?];
        Some(if self.rotation % 180 == 90 { [shape[1], shape[0]] } else { shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: ImageOperation = ImageOperation {
        full: Some([1043, 981]),
        binning: [2, 2],
        flip: [true, false],
        rotation: 90,
        region: [10, 20, 100, 80],
    };

    #[test]
    fn what_was_done_is_said_in_its_order() {
        let said = "binned 2 x 2, rows flipped, turned by 90 degrees, cut to 100 x 80 pixels at row 10, column 20";
        assert_eq!(DONE.describe(), said);
        let uncut = ImageOperation { region: [0, 0, 490, 521], ..DONE };
        assert_eq!(uncut.describe(), "binned 2 x 2, rows flipped, turned by 90 degrees");
    }

    #[test]
    fn nothing_is_done_to_frames_that_are_the_whole_image() {
        let whole = ImageOperation { binning: [1, 1], flip: [false, false], rotation: 0, ..DONE };
        assert!(
            ImageOperation { region: [0, 0, 1043, 981], ..whole.clone() }.is_identity([1043, 981])
        );
        assert!(
            !ImageOperation { region: [0, 0, 1000, 981], ..whole.clone() }.is_identity([1000, 981])
        );
        assert!(
            !ImageOperation { rotation: 180, region: [0, 0, 1043, 981], ..whole }
                .is_identity([1043, 981])
        );
    }

    #[test]
    fn layouts_that_differ_have_other_keys_and_no_key_names_a_type() {
        let layouts = [
            FrameLayout::full_frame([3, 4]),
            FrameLayout::region([0, 0], [3, 4]),
            FrameLayout::region([1, 0], [3, 4]),
        ];
        let keys = layouts.each_ref().map(FrameLayout::to_key_text);
        assert_eq!(keys[0], "[[3,4],null]");
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2], "{keys:?}");
        assert!(
            keys.iter().all(|key| !key.contains("Layout") && !key.contains("Operation")),
            "{keys:?}"
        );
    }
}
