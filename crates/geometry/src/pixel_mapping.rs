//! Mapping from the pixels of saved frames (binned, flipped, rotated, cut) to the pixels of the
//! detector.

use std::ops::Range;

use records::{FrameLayout, ImageOperation};

use crate::detector::PixelBinning;
use crate::{Detector, DetectorError, gaps};

/// The mapping from the pixels of frames to those of the detector: the inverse of the image
/// operation (binning, flip, rotation, region) that the camera applied when it saved the frames.
pub struct PixelMapping {
    /// The detector as read out: with the binning of the frames.
    pub detector: Detector,
    /// Rows and columns of `detector`.
    detector_shape: [usize; 2],
    binning: PixelBinning,
    /// True where the order of rows, or of columns, was reversed.
    flip: [bool; 2],
    /// Clockwise rotation after the flip, in quarter turns.
    quarter_turns: u64,
    /// Row and column of the rotated image at which frames begin.
    origin: [usize; 2],
    /// Rows and columns of the frames.
    frame_shape: [usize; 2],
}

impl PixelMapping {
    /// Makes the mapping for frames of this shape and image operation.
    ///
    /// # Errors
    /// The frames can't come from this detector, or the operation contradicts itself, the frames or
    /// the detector.
    pub fn new(detector: &Detector, framing: &FrameLayout) -> Result<Self, DetectorError> {
        let shape = to_usize(framing.shape);
        let identity = |detector: Detector| Self {
            detector,
            detector_shape: shape,
            binning: PixelBinning { block: [1, 1], unbinned_shape: shape },
            flip: [false, false],
            quarter_turns: 0,
            origin: [0, 0],
            frame_shape: shape,
        };
        let Some(operation) = &framing.operation else {
            return detector.for_frames(shape).map(identity);
        };
        // Some cameras claim a larger image than they have. The PONI file's shape is more reliable.
        let cut_at_end = operation.preserves_pixels()
            && operation.full.is_some()
            && operation.region[..2] == [0, 0];
        if cut_at_end && detector.shape == Some(shape) {
            return Ok(identity(detector.clone()));
        }
        let [row, column, rows, columns] = operation.region.map(|number| number as usize);
        let refuse = |why: String| Err(operation_error(detector, operation, why));
        if operation.rotation % 90 != 0 {
            return refuse("expected a rotation by 0, 90, 180 or 270 degrees".to_owned());
        }
        let quarter_turns = operation.rotation / 90 % 4;
        if quarter_turns % 2 == 1 && operation.binning[0] != operation.binning[1] {
            return refuse(
                "Lima does not record which axis has which binning; expected equal binnings of rotated frames"
                    .to_owned(),
            );
        }
        if [rows, columns] != shape {
            return refuse(format!(
                "expected frames of {rows} x {columns} pixels, found {} x {}",
                shape[0], shape[1]
            ));
        }
        let detector = bin_detector(detector, operation, shape)?;
        let detector_shape = detector.shape.unwrap_or(shape);
        let block = to_usize(operation.binning);
        let unbinned_shape = operation
            .full
            .map_or([detector_shape[0] * block[0], detector_shape[1] * block[1]], to_usize);
        let rotated_shape = if quarter_turns % 2 == 1 {
            [detector_shape[1], detector_shape[0]]
        } else {
            detector_shape
        };
        if (0..2).any(|axis| [row, column][axis].saturating_add(shape[axis]) > rotated_shape[axis])
        {
            return refuse(format!(
                "frames of {rows} x {columns} pixels reach beyond the detector's {} x {}",
                rotated_shape[0], rotated_shape[1]
            ));
        }
        Ok(Self {
            detector,
            detector_shape,
            binning: PixelBinning { block, unbinned_shape },
            flip: operation.flip,
            quarter_turns,
            origin: [row, column],
            frame_shape: shape,
        })
    }

    /// Returns rows and columns of the whole detector after binning, before flips, rotation and
    /// region.
    pub fn full(&self) -> [usize; 2] {
        self.detector_shape
    }

    /// Returns rows and columns of the image before it was binned; `None` if it was not binned.
    pub fn unbinned(&self) -> Option<[usize; 2]> {
        (self.binning.block != [1, 1]).then_some(self.binning.unbinned_shape)
    }

    /// Bins a mask of the unbinned image: a pixel of the detector as read out is masked if any
    /// pixel of its block is.
    pub fn binned_mask(&self, mask: &[bool]) -> Vec<bool> {
        gaps::bin_mask(mask, self.binning.unbinned_shape, self.binning.block)
    }

    /// Returns rows and columns of the frames.
    pub fn shape(&self) -> [usize; 2] {
        self.frame_shape
    }

    /// Returns whether frames show all pixels of the detector, in the detector's order.
    pub fn is_identity(&self) -> bool {
        (self.frame_shape, self.flip, self.quarter_turns)
            == (self.detector_shape, [false, false], 0)
    }

    /// Returns for each pixel of a frame the index of its detector pixel, both row-major.
    pub fn pixels(&self) -> impl Iterator<Item = usize> + '_ {
        self.pixels_of(0..self.frame_shape.iter().product())
    }

    /// Returns the indices of the detector pixels of a range of a frame's pixels.
    pub fn pixels_of(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let ([top, left], columns) = (self.origin, self.frame_shape[1]);
        let is_identity = self.is_identity();
        range.map(move |pixel| match is_identity {
            true => pixel,
            false => self.detector_pixel(top + pixel / columns, left + pixel % columns),
        })
    }

    /// Returns the index of the detector pixel shown at `row` and `column` of the rotated image. A
    /// clockwise quarter turn moves the first column to the first row, and the last row to the
    /// first column.
    fn detector_pixel(&self, row: usize, column: usize) -> usize {
        let [rows, columns] = self.detector_shape;
        let (row, column) = match self.quarter_turns {
            0 => (row, column),
            1 => (rows - 1 - column, row),
            2 => (rows - 1 - row, columns - 1 - column),
            _ => (column, columns - 1 - row),
        };
        let row = if self.flip[0] { rows - 1 - row } else { row };
        let column = if self.flip[1] { columns - 1 - column } else { column };
        row * columns + column
    }
}

/// Returns the detector with the binning of the operation.
fn bin_detector(
    detector: &Detector,
    operation: &ImageOperation,
    frames: [usize; 2],
) -> Result<Detector, DetectorError> {
    let binning = to_usize(operation.binning);
    let Some(full) = operation.full.map(to_usize).or(detector.shape) else {
        let why = "the PONI file gives no detector shape; expected a detector known by name, or max_shape";
        return Err(operation_error(detector, operation, why.to_owned()));
    };
    if (0..2).any(|axis| !(1..=full[axis]).contains(&binning[axis])) {
        let why = format!(
            "expected a binning of 1 x 1 to {} x {}, the size of the image",
            full[0], full[1]
        );
        return Err(operation_error(detector, operation, why));
    }
    // The PONI file may describe the binned detector already.
    if binning != [1, 1] && detector.shape == Some([full[0] / binning[0], full[1] / binning[1]]) {
        return Ok(detector.clone());
    }
    match detector.for_frames(full) {
        Ok(whole) => whole.with_binning(binning),
        Err(_) if detector.shape == Some(frames) => {
            let why = format!(
                "from {} x {} pixels, but the detector in the PONI file has {} x {} as the frames; expected the PONI \
                 file of the whole detector, or --image-operation off if it is the PONI file of the frames as saved",
                full[0], full[1], frames[0], frames[1]
            );
            Err(operation_error(detector, operation, why))
        }
        Err(why) => Err(why),
    }
}

fn operation_error(detector: &Detector, operation: &ImageOperation, why: String) -> DetectorError {
    DetectorError::Operation { name: detector.name.clone(), operation: operation.describe(), why }
}

fn to_usize(lengths: [u64; 2]) -> [usize; 2] {
    lengths.map(|length| length as usize)
}

#[cfg(test)]
mod tests;
