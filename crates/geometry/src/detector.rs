//! A detector as an experiment uses it: shape, pixels, gaps, and the values that mean "no value".

mod error;

use std::sync::Arc;

pub use error::DetectorError;

use crate::gaps;
use crate::known_detectors::{self, DetectorEntry, Readout};
use crate::pixel_grid::{self, PixelAxis};
use crate::{DetectorConfig, DetectorSpec, DummyRule, NexusDetector, Orientation, PixelCorners, Poni};

/// A detector, known by name, described by a PONI file, or read from a NeXus detector file.
#[derive(Clone, Debug)]
pub struct Detector {
    /// Its class name in pyFAI, or the name that its file gives.
    pub name: String,
    /// Size of a pixel along the slow axis, metres.
    pub pixel1: f64,
    /// Size of a pixel along the fast axis, metres.
    pub pixel2: f64,
    /// Rows and columns of its images; `None` where the frames have to tell.
    pub shape: Option<[usize; 2]>,
    /// Which corner the first pixel is.
    pub orientation: Orientation,
    /// Which pixel values are no values.
    pub dummy: DummyRule,
    readout: Readout,
    origin: DetectorOrigin,
    /// The image whose pixels were added up to this one's.
    software_binning: Option<PixelBinning>,
}

/// Pixels that are added up to larger ones.
#[derive(Clone, Copy, Debug)]
struct PixelBinning {
    /// How many rows and columns to one.
    by: [usize; 2],
    /// Rows and columns before.
    from: [usize; 2],
}

/// Where a detector's own facts come from.
#[derive(Clone, Debug)]
enum DetectorOrigin {
    /// The table of known detectors.
    Known(&'static DetectorEntry),
    /// A file, with a mask and, where pixels are not an even grid, all corners.
    File { mask: Option<Arc<Vec<bool>>>, corners: Option<Arc<PixelCorners>> },
}

/// Where the pixels of a detector are, for one shape of frames.
pub(crate) enum PixelPositions {
    /// Rows and columns.
    Grid([PixelAxis; 2]),
    /// One by one.
    Corners(Arc<PixelCorners>),
}

impl Detector {
    /// The detector that a PONI file names and configures. One that it describes by a file must be read
    /// from there: see [`DetectorSpec::file`] and [`Detector::from_nexus`].
    pub fn from_poni(poni: &Poni) -> Result<Self, DetectorError> {
        let DetectorSpec { name, config, first_version } = &poni.detector;
        if let Some(path) = poni.detector.file() {
            return Err(DetectorError::File(path.to_owned()));
        }
        let name = name.as_deref().unwrap_or("Detector");
        let entry = known_detectors::entry_by_name(name)?;
        let both_sizes = config.pixel1.is_some() && config.pixel2.is_some();
        let any_size = config.pixel1.is_some() || config.pixel2.is_some();
        if *first_version && any_size && !(entry.has_fixed_pixel_size() && both_sizes) {
            return Self::from_entry(known_detectors::entry_by_name("detector")?, config);
        }
        Self::from_entry(entry, config)
    }

    /// A detector by name or alias, as it is without any setting.
    pub fn by_name(name: &str) -> Result<Self, DetectorError> {
        Self::from_entry(known_detectors::entry_by_name(name)?, &DetectorConfig::default())
    }

    fn from_entry(entry: &'static DetectorEntry, config: &DetectorConfig) -> Result<Self, DetectorError> {
        let name = entry.class.clone();
        if let Some(why) = &entry.refused {
            return Err(DetectorError::Refused { name, why });
        }
        if let Some(key) = config.unknown.first() {
            return Err(DetectorError::Setting { name, key: key.clone() });
        }
        let size = |given: Option<f64>, axis: usize| {
            given.or(entry.pixel.map(|pixel| pixel[axis])).ok_or_else(|| DetectorError::NoPixelSize(name.clone()))
        };
        let [pixel1, pixel2] = [size(config.pixel1, 0)?, size(config.pixel2, 1)?];
        entry.check_config(config, [pixel1, pixel2])?;
        let readout = entry.readout(config.max_shape, [pixel1, pixel2]);
        let table_orientation = entry.orientation.and_then(Orientation::from_number);
        Ok(Self {
            name,
            pixel1,
            pixel2,
            shape: readout.shape(),
            orientation: config.orientation.or(table_orientation).unwrap_or_default(),
            dummy: DummyRule { dummy: entry.dummy, delta: entry.delta, counter: entry.counter },
            readout,
            origin: DetectorOrigin::Known(entry),
            software_binning: None,
        })
    }

    /// A detector from the contents of a NeXus detector file. The PONI file's orientation, where it gives
    /// one, overrides the file's.
    pub fn from_nexus(file: NexusDetector, spec: &DetectorSpec) -> Result<Self, DetectorError> {
        let name = file.name;
        let shape = file.shape.or(file.corners.as_ref().map(PixelCorners::shape));
        let shape = shape.ok_or_else(|| DetectorError::NoShape(name.clone()))?;
        let [pixel1, pixel2] = file.pixel_size.ok_or_else(|| DetectorError::NoPixelSize(name.clone()))?;
        let number = file.orientation.unwrap_or(3);
        let own = Orientation::from_number(number)
            .ok_or_else(|| DetectorError::Orientation { name: name.clone(), number })?;
        let detector = Self {
            name,
            pixel1,
            pixel2,
            shape: Some(shape),
            orientation: spec.config.orientation.unwrap_or(own),
            dummy: DummyRule { dummy: file.dummy, delta: file.delta, counter: is_counter(file.dummy, file.delta) },
            readout: Readout { unbinned: Some(shape), binning: [1, 1], listed_pixel_size: None },
            origin: DetectorOrigin::File { mask: file.mask.map(Arc::new), corners: None },
            software_binning: None,
        };
        detector.check_mask()?;
        match file.corners {
            Some(corners) => detector.with_corners(corners),
            None => Ok(detector),
        }
    }

    /// The same detector with the corners of every pixel given. They place the pixels of the image as it
    /// is stored, so that an orientation other than 3 has no meaning and is refused.
    pub fn with_corners(mut self, corners: PixelCorners) -> Result<Self, DetectorError> {
        self.fits(corners.shape())?;
        if self.orientation != Orientation::BottomRight {
            return Err(DetectorError::OrientedCorners { name: self.name, number: self.orientation.number() });
        }
        let mask = self.gap_mask().map(Arc::new);
        self.shape = Some(corners.shape());
        self.origin = DetectorOrigin::File { mask, corners: Some(Arc::new(corners)) };
        Ok(self)
    }

    /// Whether frames of this shape (rows, columns) can come from this detector, binned or not.
    pub fn fits(&self, shape: [usize; 2]) -> Result<(), DetectorError> {
        self.for_frames(shape).map(|_| ())
    }

    /// The detector as it is when its frames have this shape: a generic one takes it, one that can be
    /// binned changes the size of its pixels.
    pub fn for_frames(&self, shape: [usize; 2]) -> Result<Self, DetectorError> {
        let Some(own) = self.shape else {
            let readout = Readout { unbinned: Some(shape), ..self.readout };
            return Ok(Self { shape: Some(shape), readout, ..self.clone() });
        };
        if own == shape {
            return Ok(self.clone());
        }
        let other = match (&self.origin, self.readout.unbinned) {
            (DetectorOrigin::Known(entry), Some(unbinned)) => entry.readout_for(unbinned, shape),
            _ => None,
        };
        let readout =
            other.ok_or_else(|| DetectorError::Shape { name: self.name.clone(), detector: own, frames: shape })?;
        let scale = |axis: usize| readout.binning[axis] as f64 / self.readout.binning[axis] as f64;
        let [pixel1, pixel2] = readout.listed_pixel_size.unwrap_or([self.pixel1 * scale(0), self.pixel2 * scale(1)]);
        Ok(Self { pixel1, pixel2, shape: Some(shape), readout, ..self.clone() })
    }

    /// The detector with so many rows and columns of pixels added up to one; those that do not fill one are lost.
    /// One that is known to be read out so has the size of pixels that it then has. Its shape must be known.
    ///
    /// # Errors
    /// The shape is not known, or too small.
    pub fn with_binning(&self, by: [usize; 2]) -> Result<Self, DetectorError> {
        let from = self.shape.ok_or_else(|| DetectorError::NoShape(self.name.clone()))?;
        if by == [1, 1] {
            return Ok(self.clone());
        }
        let shape = [0, 1].map(|axis| from[axis].checked_div(by[axis]).unwrap_or(0));
        if shape.contains(&0) || self.software_binning.is_some() {
            return Err(DetectorError::Shape { name: self.name.clone(), detector: from, frames: shape });
        }
        let readout = [0, 1].map(|axis| self.readout.binning[axis] * by[axis]);
        if let Ok(known) = self.for_frames(shape)
            && known.readout.binning == readout
        {
            return Ok(known);
        }
        let [pixel1, pixel2] = [self.pixel1 * by[0] as f64, self.pixel2 * by[1] as f64];
        Ok(Self {
            pixel1,
            pixel2,
            shape: Some(shape),
            software_binning: Some(PixelBinning { by, from }),
            ..self.clone()
        })
    }

    /// The pixels that are none, row-major, true where masked: gaps between modules, the mask of a
    /// detector file, pixels without a place. `None` where there are none, or no shape to say so for.
    pub fn gap_mask(&self) -> Option<Vec<bool>> {
        match self.software_binning {
            None => self.unbinned_gap_mask(self.shape?),
            Some(PixelBinning { by, from }) => Some(gaps::grouped(&self.unbinned_gap_mask(from)?, from, by)),
        }
    }

    fn unbinned_gap_mask(&self, shape: [usize; 2]) -> Option<Vec<bool>> {
        let (mask, corners) = match &self.origin {
            DetectorOrigin::Known(entry) => return entry.gaps.mask(self.readout.unbinned?, shape),
            DetectorOrigin::File { mask, corners } => (mask.as_deref().cloned(), corners),
        };
        let Some(corners) = corners else { return mask };
        let [rows, columns] = corners.shape();
        let lost: Vec<usize> = (0..rows * columns).filter(|&pixel| !corners.is_finite(pixel)).collect();
        if lost.is_empty() {
            return mask;
        }
        let mut mask = mask.unwrap_or_else(|| vec![false; rows * columns]);
        lost.into_iter().for_each(|pixel| mask[pixel] = true);
        Some(mask)
    }

    /// Where the pixels are. The detector's shape must be known.
    pub(crate) fn pixel_positions(&self) -> Option<PixelPositions> {
        let PixelBinning { by, from } = self.software_binning.unwrap_or(PixelBinning { by: [1, 1], from: self.shape? });
        let wide = match &self.origin {
            DetectorOrigin::File { corners: Some(corners), .. } if by == [1, 1] => {
                return Some(PixelPositions::Corners(corners.clone()));
            }
            DetectorOrigin::File { corners: Some(corners), .. } => {
                return Some(PixelPositions::Corners(Arc::new(corners.binned(by))));
            }
            DetectorOrigin::File { .. } => None,
            DetectorOrigin::Known(entry) => entry.wide,
        };
        let size = [self.pixel1 / by[0] as f64, self.pixel2 / by[1] as f64];
        let [slow, fast] = pixel_grid::pixel_axes(from, size, wide, self.orientation);
        Some(PixelPositions::Grid(if by == [1, 1] { [slow, fast] } else { [slow.grouped(by[0]), fast.grouped(by[1])] }))
    }

    fn check_mask(&self) -> Result<(), DetectorError> {
        match (&self.origin, self.shape) {
            (DetectorOrigin::File { mask: Some(mask), .. }, Some(shape)) if mask.len() != shape[0] * shape[1] => {
                Err(DetectorError::Mask { name: self.name.clone(), found: mask.len(), shape })
            }
            _ => Ok(()),
        }
    }
}

/// Files do not say what kind of detector they describe, but only photon counters are saved with -2 ± 1.5.
fn is_counter(dummy: Option<f64>, delta: Option<f64>) -> bool {
    dummy == Some(-2.0) && delta == Some(1.5)
}

#[cfg(test)]
mod tests;
