//! A detector as an experiment uses it: shape, pixels, gaps, and the values that mean "no value".

mod error;

use std::sync::Arc;

pub use error::Error;

use crate::detectors::{self, Entry, Modes};
use crate::lattice::{self, Axis, Wide};
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
    /// The shape with a binning of 1, and the binning.
    unbinned: Option<[usize; 2]>,
    binning: [usize; 2],
    layout: Layout,
}

/// Where a detector's own facts come from.
#[derive(Clone, Debug)]
enum Layout {
    /// The table of known detectors.
    Known(&'static Entry),
    /// A file, with a mask and, where pixels are not an even grid, all corners.
    File { mask: Option<Arc<Vec<bool>>>, corners: Option<Arc<PixelCorners>> },
}

/// Where the pixels of a detector are, for one shape of frames.
pub(crate) enum Pixels {
    /// Rows and columns.
    Grid([Axis; 2]),
    /// One by one.
    Corners(Arc<PixelCorners>),
}

impl Detector {
    /// The detector that a PONI file names and configures. One that it describes by a file must be read
    /// from there: see [`DetectorSpec::file`] and [`Detector::from_nexus`].
    pub fn from_poni(poni: &Poni) -> Result<Self, Error> {
        let DetectorSpec { name, config, first_version } = &poni.detector;
        if let Some(path) = poni.detector.file() {
            return Err(Error::File(path.to_owned()));
        }
        let name = name.as_deref().unwrap_or("Detector");
        let entry = detectors::entry(name)?;
        let insists = entry.wide.is_some() || !matches!(entry.modes, Modes::None);
        let both_sizes = config.pixel1.is_some() && config.pixel2.is_some();
        let any_size = config.pixel1.is_some() || config.pixel2.is_some();
        if *first_version && any_size && !(insists && both_sizes) {
            return Self::known(detectors::entry("detector")?, config);
        }
        Self::known(entry, config)
    }

    /// A detector by name or alias, as it is without any setting.
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::known(detectors::entry(name)?, &DetectorConfig::default())
    }

    fn known(entry: &'static Entry, config: &DetectorConfig) -> Result<Self, Error> {
        let name = entry.class.clone();
        if let Some(why) = &entry.refused {
            return Err(Error::Refused { name, why });
        }
        let size = |given: Option<f64>, axis: usize| {
            given.or(entry.pixel.map(|pixel| pixel[axis])).ok_or_else(|| Error::NoPixelSize(name.clone()))
        };
        let [pixel1, pixel2] = [size(config.pixel1, 0)?, size(config.pixel2, 1)?];
        entry.accepts(config, [pixel1, pixel2])?;
        let (unbinned, binning) = entry.binned(config.max_shape, [pixel1, pixel2]);
        let table_orientation = entry.orientation.and_then(Orientation::from_number);
        Ok(Self {
            name,
            pixel1,
            pixel2,
            shape: unbinned.map(|[rows, columns]| [rows / binning[0], columns / binning[1]]),
            orientation: config.orientation.or(table_orientation).unwrap_or_default(),
            dummy: DummyRule { dummy: entry.dummy, delta: entry.delta, counter: entry.counter },
            unbinned,
            binning,
            layout: Layout::Known(entry),
        })
    }

    /// A detector from the contents of a NeXus detector file. The PONI file's orientation, where it gives
    /// one, overrides the file's.
    pub fn from_nexus(file: NexusDetector, spec: &DetectorSpec) -> Result<Self, Error> {
        let name = file.name;
        let shape = file.shape.or(file.corners.as_ref().map(PixelCorners::shape));
        let shape = shape.ok_or_else(|| Error::NoShape(name.clone()))?;
        let [pixel1, pixel2] = file.pixel_size.ok_or_else(|| Error::NoPixelSize(name.clone()))?;
        let number = file.orientation.unwrap_or(3);
        let own = Orientation::from_number(number).ok_or_else(|| Error::Orientation { name: name.clone(), number })?;
        let detector = Self {
            name,
            pixel1,
            pixel2,
            shape: Some(shape),
            orientation: spec.config.orientation.unwrap_or(own),
            dummy: DummyRule { dummy: file.dummy, delta: file.delta, counter: false },
            unbinned: Some(shape),
            binning: [1, 1],
            layout: Layout::File { mask: file.mask.map(Arc::new), corners: None },
        };
        detector.check_mask()?;
        match file.corners {
            Some(corners) => detector.with_corners(corners),
            None => Ok(detector),
        }
    }

    /// The same detector with the corners of every pixel given. They place the pixels of the image as it
    /// is stored, so that an orientation other than 3 has no meaning and is refused.
    pub fn with_corners(mut self, corners: PixelCorners) -> Result<Self, Error> {
        self.fits(corners.shape())?;
        if self.orientation != Orientation::BottomRight {
            return Err(Error::OrientedCorners { name: self.name, number: self.orientation.number() });
        }
        let mask = self.gap_mask().map(Arc::new);
        self.shape = Some(corners.shape());
        self.layout = Layout::File { mask, corners: Some(Arc::new(corners)) };
        Ok(self)
    }

    /// Whether frames of this shape (rows, columns) can come from this detector, binned or not.
    pub fn fits(&self, shape: [usize; 2]) -> Result<(), Error> {
        self.for_frames(shape).map(|_| ())
    }

    /// The detector as it is when its frames have this shape: a generic one takes it, one that can be
    /// binned changes the size of its pixels.
    pub fn for_frames(&self, shape: [usize; 2]) -> Result<Self, Error> {
        let Some(own) = self.shape else {
            return Ok(Self { shape: Some(shape), unbinned: Some(shape), ..self.clone() });
        };
        if own == shape {
            return Ok(self.clone());
        }
        let rebinned = match (&self.layout, self.unbinned) {
            (Layout::Known(entry), Some(unbinned)) => entry.rebinned(unbinned, shape),
            _ => None,
        };
        let (unbinned, binning, sizes) =
            rebinned.ok_or_else(|| Error::Shape { name: self.name.clone(), detector: own, frames: shape })?;
        let scaled = |size: f64, axis: usize| size * (binning[axis] as f64 / self.binning[axis] as f64);
        let [pixel1, pixel2] = sizes.unwrap_or([scaled(self.pixel1, 0), scaled(self.pixel2, 1)]);
        Ok(Self { pixel1, pixel2, shape: Some(shape), unbinned: Some(unbinned), binning, ..self.clone() })
    }

    /// The pixels that are none, row-major, true where masked: gaps between modules, the mask of a
    /// detector file, pixels without a place. `None` where there are none, or no shape to say so for.
    pub fn gap_mask(&self) -> Option<Vec<bool>> {
        let (mask, corners) = match &self.layout {
            Layout::Known(entry) => return entry.gaps.mask(self.unbinned?, self.binning),
            Layout::File { mask, corners } => (mask.as_deref().cloned(), corners),
        };
        let Some(corners) = corners else { return mask };
        let [rows, columns] = corners.shape();
        let lost: Vec<usize> = (0..rows * columns).filter(|&pixel| !corners.finite(pixel)).collect();
        if lost.is_empty() {
            return mask;
        }
        let mut mask = mask.unwrap_or_else(|| vec![false; rows * columns]);
        lost.into_iter().for_each(|pixel| mask[pixel] = true);
        Some(mask)
    }

    /// Where the pixels are. The detector's shape must be known.
    pub(crate) fn pixels(&self) -> Option<Pixels> {
        let wide = match &self.layout {
            Layout::File { corners: Some(corners), .. } => return Some(Pixels::Corners(corners.clone())),
            Layout::File { .. } => None,
            Layout::Known(entry) => entry.wide,
        };
        let size = [self.pixel1, self.pixel2];
        Some(Pixels::Grid(lattice::axes(self.shape?, size, wide, self.orientation)))
    }

    fn check_mask(&self) -> Result<(), Error> {
        match (&self.layout, self.shape) {
            (Layout::File { mask: Some(mask), .. }, Some(shape)) if mask.len() != shape[0] * shape[1] => {
                Err(Error::Mask { name: self.name.clone(), found: mask.len(), shape })
            }
            _ => Ok(()),
        }
    }
}

/// What pyFAI lets a configuration change.
impl Entry {
    fn accepts(&self, config: &DetectorConfig, pixel: [f64; 2]) -> Result<(), Error> {
        let differs = |a: f64, b: f64| (a / b - 1.0).abs() > 1e-6;
        if let (Some(Wide { .. }), Some(own)) = (self.wide, self.pixel)
            && (differs(pixel[0], own[0]) || differs(pixel[1], own[1]))
        {
            return Err(Error::Pixel { name: self.class.clone(), found: pixel, own });
        }
        let has_modules = self.wide.is_some()
            || matches!(self.gaps, crate::gaps::Gaps::Bands { .. } | crate::gaps::Gaps::Modules { .. });
        match (config.max_shape, self.shape) {
            (Some(frames), Some(detector)) if has_modules && frames != detector => {
                Err(Error::Shape { name: self.class.clone(), detector, frames })
            }
            _ => Ok(()),
        }
    }

    /// The unbinned shape, and the binning that a size of pixels means.
    fn binned(&self, max_shape: Option<[usize; 2]>, pixel: [f64; 2]) -> (Option<[usize; 2]>, [usize; 2]) {
        let unbinned = max_shape.or(self.shape);
        let (Some([rows, columns]), Some(own), Some(binning)) = (unbinned, self.pixel, self.binning) else {
            return (unbinned, [1, 1]);
        };
        let ratio = |axis: usize| pixel[axis] / own[axis] * binning[axis] as f64;
        match self.modes {
            Modes::None => (unbinned, [1, 1]),
            Modes::Any | Modes::Binning(_) => (unbinned, [0, 1].map(|axis| (ratio(axis).round() as usize).max(1))),
            Modes::Side(_) => {
                let side = |count: usize, axis: usize| (count as f64 / ratio(axis)).round() as usize;
                (Some([side(rows, 0), side(columns, 1)]), [1, 1])
            }
        }
    }

    /// The unbinned shape, the binning and, where they are listed, the sizes of pixels, that frames of
    /// this shape mean.
    #[allow(clippy::type_complexity)]
    fn rebinned(&self, unbinned: [usize; 2], frames: [usize; 2]) -> Option<([usize; 2], [usize; 2], Option<[f64; 2]>)> {
        if frames.contains(&0) {
            return None;
        }
        let binning = [unbinned[0] / frames[0], unbinned[1] / frames[1]];
        match &self.modes {
            Modes::None => None,
            Modes::Any => {
                let whole = binning[0] * frames[0] == unbinned[0] && binning[1] * frames[1] == unbinned[1];
                whole.then_some((unbinned, binning, None))
            }
            Modes::Binning(sizes) => {
                let sizes = [*sizes.get(&binning[0])?, *sizes.get(&binning[1])?];
                Some((unbinned, binning, Some(sizes)))
            }
            Modes::Side(sizes) => {
                let sizes = [*sizes.get(&frames[0])?, *sizes.get(&frames[1])?];
                Some((frames, [1, 1], Some(sizes)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
