//! Detectors: shape, pixel size, gaps, orientation, and the values that mark invalid pixels.

use std::sync::Arc;

use crate::gaps::{self, DetectorGaps};
use crate::known_detectors::{self, DetectorEntry, Readout};
use crate::pixel_grid::{self, PixelAxis};
use crate::{
    DetectorConfig, DetectorError, DetectorSpec, DummyRule, NexusDetector, Orientation,
    PixelCorners, Poni,
};

/// A detector known by name, configured by a PONI file, or described by a NeXus detector file.
#[derive(Clone, Debug)]
pub struct Detector {
    /// Class name in pyFAI, or the name in the detector file.
    pub name: String,
    /// Size of a pixel along the slow axis, in metres.
    pub pixel1: f64,
    /// Size of a pixel along the fast axis, in metres.
    pub pixel2: f64,
    /// Rows and columns of the detector's images; `None` if only the frames can tell.
    pub shape: Option<[usize; 2]>,
    /// Corner of the detector at which the first pixel of an image lies.
    pub orientation: Orientation,
    /// Pixel values that mark invalid pixels.
    pub dummy: DummyRule,
    readout: Readout,
    origin: DetectorOrigin,
    /// Binning applied after readout, when frames were saved.
    software_binning: Option<PixelBinning>,
}

/// A binning that adds up blocks of pixels into one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PixelBinning {
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
    /// Rows and columns of the image before it was binned.
    pub(crate) unbinned_shape: [usize; 2],
}

/// The source of a detector's properties.
#[derive(Clone, Debug)]
enum DetectorOrigin {
    /// The table of known detectors.
    Known(&'static DetectorEntry),
    /// A NeXus detector file: its mask and, if the pixels are no regular grid, the corners of every
    /// pixel.
    File { mask: Option<Arc<Vec<bool>>>, corners: Option<Arc<PixelCorners>> },
}

/// The positions of a detector's pixels, for frames of one shape.
pub(crate) enum PixelPositions {
    /// A regular grid: positions along the slow and the fast axis.
    Grid([PixelAxis; 2]),
    /// The corners of every pixel.
    Corners(Arc<PixelCorners>),
}

impl Detector {
    /// Makes the detector that a PONI file names and configures.
    ///
    /// # Errors
    /// The name or a setting is not known, or the PONI file refers to a NeXus detector file: read
    /// the file named by [`DetectorSpec::file`] and call [`Detector::from_nexus`] instead.
    pub fn from_poni(poni: &Poni) -> Result<Self, DetectorError> {
        let DetectorSpec { name, config, is_version_1 } = &poni.detector;
        if let Some(path) = poni.detector.file() {
            return Err(DetectorError::File(path.to_owned()));
        }
        let name = name.as_deref().unwrap_or("Detector");
        let entry = known_detectors::entry_by_name(name)?;
        let both_sizes = config.pixel1.is_some() && config.pixel2.is_some();
        let any_size = config.pixel1.is_some() || config.pixel2.is_some();
        if *is_version_1 && any_size && !(entry.has_fixed_pixel_size() && both_sizes) {
            return Self::from_entry(known_detectors::entry_by_name("detector")?, config);
        }
        Self::from_entry(entry, config)
    }

    /// Makes a known detector with its default settings, by name or alias.
    ///
    /// ```
    /// let detector = geometry::Detector::by_name("Pilatus 1M")?;
    /// assert_eq!(detector.shape, Some([1043, 981]));
    /// # Ok::<(), geometry::DetectorError>(())
    /// ```
    pub fn by_name(name: &str) -> Result<Self, DetectorError> {
        Self::from_entry(known_detectors::entry_by_name(name)?, &DetectorConfig::default())
    }

    fn from_entry(
        entry: &'static DetectorEntry,
        config: &DetectorConfig,
    ) -> Result<Self, DetectorError> {
        let name = entry.class.clone();
        if let Some(why) = &entry.refused {
            return Err(DetectorError::Refused { name, why });
        }
        if let Some(key) = config.unknown.first() {
            return Err(DetectorError::Setting { name, key: key.clone() });
        }
        let size = |given: Option<f64>, axis: usize| {
            given
                .or(entry.pixel.map(|pixel| pixel[axis]))
                .ok_or_else(|| DetectorError::NoPixelSize(name.clone()))
        };
        let [pixel1, pixel2] = [size(config.pixel1, 0)?, size(config.pixel2, 1)?];
        check_config(entry, config, [pixel1, pixel2])?;
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

    /// Makes a detector from the contents of a NeXus detector file. An orientation in the PONI file
    /// (`spec`) overrides the detector file's.
    pub fn from_nexus(file: NexusDetector, spec: &DetectorSpec) -> Result<Self, DetectorError> {
        let name = file.name;
        let shape = file.shape.or(file.corners.as_ref().map(PixelCorners::shape));
        let shape = shape.ok_or_else(|| DetectorError::NoShape(name.clone()))?;
        let [pixel1, pixel2] =
            file.pixel_size.ok_or_else(|| DetectorError::NoPixelSize(name.clone()))?;
        let number = file.orientation.unwrap_or(3);
        let orientation = Orientation::from_number(number)
            .ok_or_else(|| DetectorError::Orientation { name: name.clone(), number })?;
        let detector = Self {
            name,
            pixel1,
            pixel2,
            shape: Some(shape),
            orientation: spec.config.orientation.unwrap_or(orientation),
            dummy: DummyRule {
                dummy: file.dummy,
                delta: file.delta,
                counter: is_counter(file.dummy, file.delta),
            },
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

    /// Returns this detector with its pixels placed by `corners`.
    ///
    /// # Errors
    /// The corners have another shape, or the orientation is not 3: corners place the pixels of the
    /// image as it is stored, so that other orientations have no defined meaning.
    pub fn with_corners(mut self, corners: PixelCorners) -> Result<Self, DetectorError> {
        self.check_frame_shape(corners.shape())?;
        if self.orientation != Orientation::BottomRight {
            return Err(DetectorError::OrientedCorners {
                name: self.name,
                number: self.orientation.number(),
            });
        }
        let mask = self.gap_mask().map(Arc::new);
        self.shape = Some(corners.shape());
        self.origin = DetectorOrigin::File { mask, corners: Some(Arc::new(corners)) };
        Ok(self)
    }

    /// Checks that frames of this shape (rows, columns) can come from this detector, binned or not.
    pub fn check_frame_shape(&self, shape: [usize; 2]) -> Result<(), DetectorError> {
        self.for_frames(shape).map(|_| ())
    }

    /// Returns this detector as read out for frames of this shape (rows, columns): a detector
    /// without a shape takes the frames' shape, one with binned readout modes changes its pixel
    /// size.
    ///
    /// # Errors
    /// No readout mode of the detector gives frames of this shape.
    pub fn for_frames(&self, shape: [usize; 2]) -> Result<Self, DetectorError> {
        let Some(detector_shape) = self.shape else {
            let readout = Readout { unbinned: Some(shape), ..self.readout };
            return Ok(Self { shape: Some(shape), readout, ..self.clone() });
        };
        if detector_shape == shape {
            return Ok(self.clone());
        }
        let readout = match (&self.origin, self.readout.unbinned) {
            (DetectorOrigin::Known(entry), Some(unbinned)) => entry.readout_for(unbinned, shape),
            _ => None,
        };
        let readout = readout.ok_or_else(|| DetectorError::Shape {
            name: self.name.clone(),
            detector: detector_shape,
            frames: shape,
        })?;
        let scale = |axis: usize| readout.binning[axis] as f64 / self.readout.binning[axis] as f64;
        let [pixel1, pixel2] =
            readout.listed_pixel_size.unwrap_or([self.pixel1 * scale(0), self.pixel2 * scale(1)]);
        Ok(Self { pixel1, pixel2, shape: Some(shape), readout, ..self.clone() })
    }

    /// Returns this detector with blocks of `block` (rows, columns) pixels added up into one. Rows
    /// and columns at the end that do not fill a block are dropped. If the detector has this
    /// binning as a readout mode, the pixels get the size listed for that mode.
    ///
    /// # Errors
    /// The detector's shape is not known or smaller than a block, or the detector is binned
    /// already.
    pub fn with_binning(&self, block: [usize; 2]) -> Result<Self, DetectorError> {
        let unbinned_shape = self.shape.ok_or_else(|| DetectorError::NoShape(self.name.clone()))?;
        if block == [1, 1] {
            return Ok(self.clone());
        }
        let shape = [0, 1].map(|axis| unbinned_shape[axis].checked_div(block[axis]).unwrap_or(0));
        if shape.contains(&0) || self.software_binning.is_some() {
            return Err(DetectorError::Shape {
                name: self.name.clone(),
                detector: unbinned_shape,
                frames: shape,
            });
        }
        let readout_binning = [0, 1].map(|axis| self.readout.binning[axis] * block[axis]);
        if let Ok(known) = self.for_frames(shape)
            && known.readout.binning == readout_binning
        {
            return Ok(known);
        }
        let [pixel1, pixel2] = [self.pixel1 * block[0] as f64, self.pixel2 * block[1] as f64];
        Ok(Self {
            pixel1,
            pixel2,
            shape: Some(shape),
            software_binning: Some(PixelBinning { block, unbinned_shape }),
            ..self.clone()
        })
    }

    /// Returns the mask of pixels that do not exist (row-major, true is masked): gaps between
    /// modules, the mask of a detector file, pixels whose corners are not finite. `None` if there
    /// are none or the shape is not known.
    pub fn gap_mask(&self) -> Option<Vec<bool>> {
        match self.software_binning {
            None => self.unbinned_gap_mask(self.shape?),
            Some(PixelBinning { block, unbinned_shape }) => Some(gaps::bin_mask(
                &self.unbinned_gap_mask(unbinned_shape)?,
                unbinned_shape,
                block,
            )),
        }
    }

    fn unbinned_gap_mask(&self, shape: [usize; 2]) -> Option<Vec<bool>> {
        let (mask, corners) = match &self.origin {
            DetectorOrigin::Known(entry) => return entry.gaps.mask(self.readout.unbinned?, shape),
            DetectorOrigin::File { mask, corners } => (mask.as_deref().cloned(), corners),
        };
        let Some(corners) = corners else { return mask };
        let [rows, columns] = corners.shape();
        let without_position: Vec<usize> =
            (0..rows * columns).filter(|&pixel| !corners.is_finite(pixel)).collect();
        if without_position.is_empty() {
            return mask;
        }
        let mut mask = mask.unwrap_or_else(|| vec![false; rows * columns]);
        without_position.into_iter().for_each(|pixel| mask[pixel] = true);
        Some(mask)
    }

    /// Returns the positions of all pixels; `None` if the detector's shape is not known.
    pub(crate) fn pixel_positions(&self) -> Option<PixelPositions> {
        let PixelBinning { block, unbinned_shape } = match self.software_binning {
            Some(binning) => binning,
            None => PixelBinning { block: [1, 1], unbinned_shape: self.shape? },
        };
        let wide = match &self.origin {
            DetectorOrigin::File { corners: Some(corners), .. } if block == [1, 1] => {
                return Some(PixelPositions::Corners(corners.clone()));
            }
            DetectorOrigin::File { corners: Some(corners), .. } => {
                return Some(PixelPositions::Corners(Arc::new(corners.binned(block))));
            }
            DetectorOrigin::File { .. } => None,
            DetectorOrigin::Known(entry) => entry.wide,
        };
        let unbinned_size = [self.pixel1 / block[0] as f64, self.pixel2 / block[1] as f64];
        let [slow, fast] =
            pixel_grid::pixel_axes(unbinned_shape, unbinned_size, wide, self.orientation);
        let axes = if block == [1, 1] {
            [slow, fast]
        } else {
            [slow.binned(block[0]), fast.binned(block[1])]
        };
        Some(PixelPositions::Grid(axes))
    }

    fn check_mask(&self) -> Result<(), DetectorError> {
        match (&self.origin, self.shape) {
            (DetectorOrigin::File { mask: Some(mask), .. }, Some(shape))
                if mask.len() != shape[0] * shape[1] =>
            {
                Err(DetectorError::Mask { name: self.name.clone(), found: mask.len(), shape })
            }
            _ => Ok(()),
        }
    }
}

/// Guesses from the dummy value whether a detector counts photons: a detector file does not say,
/// but only photon counters are saved with -2 ± 1.5.
fn is_counter(dummy: Option<f64>, delta: Option<f64>) -> bool {
    dummy == Some(-2.0) && delta == Some(1.5)
}

/// Refuses a pixel size or a shape with which gaps or wide pixels would not be where the table
/// says.
fn check_config(
    entry: &DetectorEntry,
    config: &DetectorConfig,
    pixel: [f64; 2],
) -> Result<(), DetectorError> {
    let differs = |axis: usize| {
        entry.pixel.is_some_and(|listed| (pixel[axis] / listed[axis] - 1.0).abs() > 1e-6)
    };
    if entry.wide.is_some() && (differs(0) || differs(1)) {
        let own = entry.pixel.unwrap_or(pixel);
        return Err(DetectorError::Pixel {
            name: entry.class.clone(),
            found: pixel,
            expected: own,
        });
    }
    let has_modules = entry.wide.is_some()
        || matches!(entry.gaps, DetectorGaps::Bands { .. } | DetectorGaps::Modules { .. });
    match (config.max_shape, entry.shape) {
        (Some(frames), Some(detector)) if has_modules && frames != detector => {
            Err(DetectorError::Shape { name: entry.class.clone(), detector, frames })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
