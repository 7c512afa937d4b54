//! Readout modes of known detectors: the hardware binning that follows from pixel size or frame
//! shape.

use super::table::{BinningModes, DetectorEntry};

/// A readout mode of a detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Readout {
    /// Rows and columns of the unbinned detector, where they are known.
    pub(crate) unbinned: Option<[usize; 2]>,
    /// Number of pixels read as one, along the slow and the fast axis.
    pub(crate) binning: [usize; 2],
    /// Size of the binned pixels in metres, if it is not the binning times the unbinned size.
    pub(crate) listed_pixel_size: Option<[f64; 2]>,
}

impl Readout {
    /// Returns rows and columns of an image.
    pub(crate) fn shape(&self) -> Option<[usize; 2]> {
        self.unbinned.map(|[rows, columns]| [rows / self.binning[0], columns / self.binning[1]])
    }
}

impl DetectorEntry {
    /// Returns whether only the detector's own pixel size, or multiples of it, are possible.
    pub(crate) fn has_fixed_pixel_size(&self) -> bool {
        self.wide.is_some() || !matches!(self.modes, BinningModes::None)
    }

    /// Returns the readout mode that a pixel size implies.
    pub(crate) fn readout(&self, max_shape: Option<[usize; 2]>, pixel: [f64; 2]) -> Readout {
        let unbinned = max_shape.or(self.shape);
        let plain = Readout { unbinned, binning: [1, 1], listed_pixel_size: None };
        let (Some(own), Some(binning)) = (self.pixel, self.binning) else { return plain };
        let ratio = [0, 1].map(|axis| pixel[axis] / own[axis] * binning[axis] as f64);
        match self.modes {
            BinningModes::None => plain,
            BinningModes::Any | BinningModes::Binning(_) => {
                Readout { binning: ratio.map(|ratio| (ratio.round() as usize).max(1)), ..plain }
            }
            BinningModes::Side(_) => {
                let side = |count: usize, ratio: f64| (count as f64 / ratio).round() as usize;
                let scanned =
                    unbinned.map(|[rows, columns]| [side(rows, ratio[0]), side(columns, ratio[1])]);
                Readout { unbinned: scanned, ..plain }
            }
        }
    }

    /// Returns the readout mode that gives frames of shape `frames` (rows, columns); `None` if
    /// there is none.
    pub(crate) fn readout_for(&self, unbinned: [usize; 2], frames: [usize; 2]) -> Option<Readout> {
        let binning = [unbinned[0].checked_div(frames[0])?, unbinned[1].checked_div(frames[1])?];
        let binned = Readout { unbinned: Some(unbinned), binning, listed_pixel_size: None };
        match &self.modes {
            BinningModes::None => None,
            BinningModes::Any => {
                let whole =
                    binning[0] * frames[0] == unbinned[0] && binning[1] * frames[1] == unbinned[1];
                whole.then_some(binned)
            }
            BinningModes::Binning(sizes) => {
                let listed = Some([*sizes.get(&binning[0])?, *sizes.get(&binning[1])?]);
                // A side that is no multiple of the binning may lose up to two binned pixels.
                let near = |axis: usize| {
                    unbinned[axis] - binning[axis] * frames[axis] <= 2 * binning[axis]
                };
                (near(0) && near(1)).then_some(Readout { listed_pixel_size: listed, ..binned })
            }
            BinningModes::Side(sizes) => {
                let listed = Some([*sizes.get(&frames[0])?, *sizes.get(&frames[1])?]);
                Some(Readout { unbinned: Some(frames), binning: [1, 1], listed_pixel_size: listed })
            }
        }
    }
}
