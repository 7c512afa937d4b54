//! Which of a detector's pixels frames show, and in which order.

use records::{Framing, Operation};

use crate::{Detector, DetectorError, gaps};

/// The part of a detector that frames show, and how its image was flipped and turned.
pub struct PixelMapping {
    /// The detector as it is read out: binned, where frames are.
    pub detector: Detector,
    /// Its rows and columns.
    detector_shape: [usize; 2],
    /// Rows and columns of the image before it was binned, and how many were added up to one.
    unbinned: ([usize; 2], [usize; 2]),
    /// Whether the order of its rows, and that of its columns, was reversed.
    flip: [bool; 2],
    /// Quarter turns clockwise, after the flips.
    quarter_turns: u64,
    /// Row and column of the turned image that frames begin at.
    origin: [usize; 2],
    /// Rows and columns of the frames.
    frame_shape: [usize; 2],
}

impl PixelMapping {
    /// That of frames of this framing.
    ///
    /// # Errors
    /// Frames that can't come from this detector, or an operation that contradicts itself or them.
    pub fn new(detector: &Detector, framing: &Framing) -> Result<Self, DetectorError> {
        let shape = to_usize(framing.shape);
        let as_it_is = |detector: Detector| Self {
            detector,
            detector_shape: shape,
            unbinned: (shape, [1, 1]),
            flip: [false, false],
            quarter_turns: 0,
            origin: [0, 0],
            frame_shape: shape,
        };
        let Some(operation) = &framing.operation else { return detector.for_frames(shape).map(as_it_is) };
        // Some cameras say a larger image than they have; the PONI knows it better.
        let cut_at_end = operation.keeps_pixels() && operation.full.is_some() && operation.region[..2] == [0, 0];
        if cut_at_end && detector.shape == Some(shape) {
            return Ok(as_it_is(detector.clone()));
        }
        let [row, column, rows, columns] = operation.region.map(|number| number as usize);
        let refused = |why: String| Err(operation_error(detector, operation, why));
        if operation.rotation % 90 != 0 {
            return refused("expected a rotation by 0, 90, 180 or 270 degrees".to_owned());
        }
        let turns = operation.rotation / 90 % 4;
        if turns % 2 == 1 && operation.binning[0] != operation.binning[1] {
            return refused("Lima does not say along which axis the two binnings are".to_owned());
        }
        if [rows, columns] != shape {
            return refused(format!("but frames have {} x {} pixels", shape[0], shape[1]));
        }
        let detector = binned(detector, operation, shape)?;
        let full = detector.shape.unwrap_or(shape);
        let by = to_usize(operation.binning);
        let unbinned = (operation.full.map_or([full[0] * by[0], full[1] * by[1]], to_usize), by);
        let turned = if turns % 2 == 1 { [full[1], full[0]] } else { full };
        if (0..2).any(|axis| [row, column][axis].saturating_add(shape[axis]) > turned[axis]) {
            return refused(format!(
                "frames of {rows} x {columns} pixels reach beyond the detector's {} x {}",
                turned[0], turned[1]
            ));
        }
        Ok(Self {
            detector,
            detector_shape: full,
            unbinned,
            flip: operation.flip,
            quarter_turns: turns,
            origin: [row, column],
            frame_shape: shape,
        })
    }

    /// Rows and columns of the detector as it is read out.
    pub fn full(&self) -> [usize; 2] {
        self.detector_shape
    }

    /// Rows and columns of the image before it was binned; `None` where it was not.
    pub fn unbinned(&self) -> Option<[usize; 2]> {
        let (shape, by) = self.unbinned;
        (by != [1, 1]).then_some(shape)
    }

    /// The mask of the detector as it is read out, of one of its image before it was binned: a pixel is masked where any
    /// part of it is.
    pub fn binned_mask(&self, mask: &[bool]) -> Vec<bool> {
        let (shape, by) = self.unbinned;
        gaps::grouped(mask, shape, by)
    }

    /// Rows and columns of the frames.
    pub fn shape(&self) -> [usize; 2] {
        self.frame_shape
    }

    /// Whether frames show all pixels of the detector in their order.
    pub fn is_identity(&self) -> bool {
        (self.frame_shape, self.flip, self.quarter_turns) == (self.detector_shape, [false, false], 0)
    }

    /// The detector's pixel that each pixel of a frame is, both row-major.
    pub fn pixels(&self) -> impl Iterator<Item = usize> + '_ {
        let ([top, left], [rows, columns]) = (self.origin, self.frame_shape);
        (top..top + rows)
            .flat_map(move |row| (left..left + columns).map(move |column| self.detector_pixel(row, column)))
    }

    /// The detector's pixel at a place of the turned image. A turn by 90 degrees brings the first column to the top
    /// row, and the last row to the first column.
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

/// The detector as the operation's binning leaves it.
fn binned(detector: &Detector, operation: &Operation, frames: [usize; 2]) -> Result<Detector, DetectorError> {
    let binning = to_usize(operation.binning);
    let Some(full) = operation.full.map(to_usize).or(detector.shape) else {
        let why = "the PONI's detector has no shape; expected one that names it or says max_shape";
        return Err(operation_error(detector, operation, why.to_owned()));
    };
    if (0..2).any(|axis| !(1..=full[axis]).contains(&binning[axis])) {
        return Err(operation_error(detector, operation, format!("of an image of {} x {} pixels", full[0], full[1])));
    }
    // A PONI file may be of the binned detector already.
    if binning != [1, 1] && detector.shape == Some([full[0] / binning[0], full[1] / binning[1]]) {
        return Ok(detector.clone());
    }
    match detector.for_frames(full) {
        Ok(whole) => whole.with_binning(binning),
        Err(_) if detector.shape == Some(frames) => {
            let why = format!(
                "from {} x {} pixels, and the PONI's detector has the frames' {} x {}: expected the PONI of the whole \
                 detector, or --image-operation off, which takes it for one of the frames as they are saved",
                full[0], full[1], frames[0], frames[1]
            );
            Err(operation_error(detector, operation, why))
        }
        Err(why) => Err(why),
    }
}

fn operation_error(detector: &Detector, operation: &Operation, why: String) -> DetectorError {
    DetectorError::Operation { name: detector.name.clone(), operation: operation.words(), why }
}

fn to_usize(lengths: [u64; 2]) -> [usize; 2] {
    lengths.map(|length| length as usize)
}

#[cfg(test)]
mod tests;
