//! Positions of all pixels: radial position in any unit, azimuth, corners and half widths.

use rayon::prelude::*;

use crate::detector::PixelPositions;
use crate::parallax::ParallaxCorrection;
use crate::quantity::Experiment;
use crate::rotation::{LabPoint, Rotation};
use crate::{Detector, DetectorError, Poni, SampleFrame, Unit};

/// The positions of all pixels of a detector that a PONI file places in the laboratory.
///
/// All arrays are row-major and have one item per pixel. As in pyFAI, centres are computed in
/// double precision, and half widths from corners rounded to single precision in the base unit:
/// patterns with pixel splitting agree with pyFAI's only with the same rounding.
pub struct Geometry {
    pub(crate) pixels: PixelPositions,
    pub(crate) placement: DetectorPlacement,
    experiment: Experiment,
    shape: [usize; 2],
}

/// The frames don't fit the detector, or positions can't be computed in a unit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// The frames can't come from this detector.
    #[error(transparent)]
    Detector(#[from] DetectorError),
    /// The unit depends on the wavelength, which is not known.
    #[error(
        "unit {0} needs a wavelength, and the PONI file gives none; \
         add `Wavelength: METRES` to it, or choose the unit {units}",
        units = list_units_without_wavelength()
    )]
    NoWavelength(Unit),
    /// Parallax is corrected for flat detectors only.
    #[error(
        "Parallax: True: only flat detectors are corrected for parallax, and the pixels of {0} have positions of their own; \
         expected False"
    )]
    ParallaxNotFlat(String),
}

/// Returns the units that a PONI file without wavelength allows, such as "r_mm, 2th_deg or
/// 2th_rad".
fn list_units_without_wavelength() -> String {
    let units: Vec<&str> =
        Unit::all().filter(|unit| !unit.needs_wavelength()).map(Unit::name).collect();
    let (last, others) = units.split_last().expect("there is a unit that needs no wavelength");
    format!("{} or {last}", others.join(", "))
}

/// Distance, point of normal incidence and rotation of a PONI file. Lengths are in metres.
pub(crate) struct DetectorPlacement {
    pub(crate) dist: f64,
    pub(crate) poni1: f64,
    pub(crate) poni2: f64,
    rotation: Rotation,
    parallax: Option<ParallaxCorrection>,
}

impl DetectorPlacement {
    /// Transforms a point from the detector's frame to the laboratory's: `p1`, `p2` are metres from
    /// the detector's corner, `p3` metres behind its plane, away from the sample.
    #[inline]
    pub(crate) fn to_lab(&self, p1: f64, p2: f64, p3: f64) -> LabPoint {
        let (p1, p2, p3) = (p1 - self.poni1, p2 - self.poni2, self.dist + p3);
        match &self.parallax {
            None => self.rotation.rotate(p1, p2, p3),
            Some(parallax) => {
                let [p1, p2] = parallax.correct(p1, p2, p3);
                self.rotation.rotate(p1, p2, p3)
            }
        }
    }

    /// Transforms a point as [`Self::to_lab`] does, but without the correction of parallax: to where
    /// the pixel is, not to where its photons came from.
    #[inline]
    pub(crate) fn to_lab_uncorrected(&self, p1: f64, p2: f64, p3: f64) -> LabPoint {
        self.rotation.rotate(p1 - self.poni1, p2 - self.poni2, self.dist + p3)
    }
}

impl Geometry {
    /// Makes the geometry of frames of `shape` (rows, columns), taken with a detector that a PONI
    /// file places.
    ///
    /// # Errors
    /// Frames of this shape can't come from the detector, or parallax can't be corrected for it.
    pub fn new(poni: &Poni, detector: &Detector, shape: [usize; 2]) -> Result<Self, GeometryError> {
        let pixels = detector
            .for_frames(shape)?
            .pixel_positions()
            .expect("a detector for frames has their shape");
        if let (Some(_), PixelPositions::Corners(_)) = (&poni.parallax, &pixels) {
            return Err(GeometryError::ParallaxNotFlat(detector.name.clone()));
        }
        let placement = DetectorPlacement {
            parallax: poni.parallax.map(|sensor| ParallaxCorrection::new(&sensor, poni.dist)),
            dist: poni.dist,
            poni1: poni.poni1,
            poni2: poni.poni2,
            rotation: Rotation::new(poni.rot1, poni.rot2, poni.rot3),
        };
        let experiment = Experiment {
            wavelength: poni.wavelength.unwrap_or(f64::NAN),
            sample: SampleFrame::default(),
        };
        Ok(Self { pixels, placement, experiment, shape })
    }

    /// Returns the same geometry with a sample of another orientation.
    pub fn with_sample(mut self, sample: SampleFrame) -> Self {
        self.experiment.sample = sample;
        self
    }

    /// Returns rows and columns of the frames.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Returns the wavelength in metres, if the PONI file gives one.
    pub fn wavelength(&self) -> Option<f64> {
        Some(self.experiment.wavelength).filter(|wavelength| !wavelength.is_nan())
    }

    /// Returns the radial position of the centre of each pixel, in `unit`.
    ///
    /// # Errors
    /// `unit` depends on the wavelength and the PONI file gives none.
    pub fn radial_centers(&self, unit: Unit) -> Result<Vec<f64>, GeometryError> {
        let radial = self.radial_function(unit)?;
        Ok(self.map_centers(|point| radial(point) * unit.scale()))
    }

    /// Returns the azimuth of the centre of each pixel, in radians within [-π, π].
    pub fn chi_centers(&self) -> Vec<f64> {
        self.map_centers(LabPoint::chi)
    }

    /// Returns the corners A, B, C, D of each pixel, as radial position in the base unit of `unit`
    /// and azimuth in radians.
    ///
    /// # Errors
    /// `unit` depends on the wavelength and the PONI file gives none.
    pub fn corners(&self, unit: Unit) -> Result<Vec<[[f32; 2]; 4]>, GeometryError> {
        let radial = self.radial_function(unit)?;
        Ok(self.map_corners(unit.quantity().rounds_corners, |point| {
            [radial(point) as f32, point.chi() as f32]
        }))
    }

    /// Returns the radial half width of each pixel in `unit`: the largest distance of a corner from
    /// the centre.
    ///
    /// # Errors
    /// `unit` depends on the wavelength and the PONI file gives none.
    pub fn radial_deltas(&self, unit: Unit) -> Result<Vec<f64>, GeometryError> {
        let radial = self.radial_function(unit)?;
        let centers = self.map_centers(radial);
        let corners =
            self.map_corners(unit.quantity().rounds_corners, |point| radial(point) as f32);
        let largest = |corners: &[f32; 4], center: &f64| {
            corners.map(|corner| (f64::from(corner) - center).abs()).into_iter().fold(0.0, f64::max)
                * unit.scale()
        };
        Ok(corners
            .par_iter()
            .zip(&centers)
            .map(|(corners, center)| largest(corners, center))
            .collect())
    }

    /// Returns the azimuthal half width of each pixel in radians: the largest distance of a corner
    /// from the centre, taken the shorter way round the circle.
    pub fn chi_deltas(&self) -> Vec<f64> {
        let centers = self.chi_centers();
        let corners = self.map_corners(false, |point| point.chi() as f32);
        let distance = |corner: f32, center: f64| {
            let delta = (f64::from(corner) - center).abs();
            delta.min(std::f64::consts::TAU - delta)
        };
        let largest = |corners: &[f32; 4], center: f64| {
            corners.map(|corner| distance(corner, center)).into_iter().fold(0.0, f64::max)
        };
        corners
            .par_iter()
            .zip(&centers)
            .map(|(corners, center)| largest(corners, *center))
            .collect()
    }

    /// Returns the function from a point to its radial position in the base unit of `unit`.
    fn radial_function(
        &self,
        unit: Unit,
    ) -> Result<impl Fn(LabPoint) -> f64 + Sync + Copy, GeometryError> {
        if unit.needs_wavelength() && self.wavelength().is_none() {
            return Err(GeometryError::NoWavelength(unit));
        }
        let position = unit.quantity().position;
        Ok(move |point: LabPoint| position(point, &self.experiment))
    }

    /// Applies `value` to the centre of each pixel.
    pub(crate) fn map_centers(&self, value: impl Fn(LabPoint) -> f64 + Sync) -> Vec<f64> {
        self.map_points(|p1, p2, p3| value(self.placement.to_lab(p1, p2, p3)))
    }

    /// Applies `value` to the centre of each pixel in the detector's frame: metres along the slow
    /// and fast axes from the detector's corner, and metres behind its plane.
    pub(crate) fn map_points(&self, value: impl Fn(f64, f64, f64) -> f64 + Sync) -> Vec<f64> {
        let columns = self.shape[1];
        let mut values = vec![0.0; self.shape[0] * columns];
        match &self.pixels {
            PixelPositions::Grid([slow, fast]) => {
                values.par_chunks_mut(columns.max(1)).zip(&slow.centers).for_each(|(row, &p1)| {
                    for (out, &p2) in row.iter_mut().zip(&fast.centers) {
                        *out = value(p1, p2, 0.0);
                    }
                });
            }
            PixelPositions::Corners(corners) => {
                values.par_iter_mut().enumerate().for_each(|(pixel, out)| {
                    let [z, y, x] = corners.center(pixel);
                    *out = value(y, x, z);
                })
            }
        }
        values
    }

    /// Applies `value` to the four corners of each pixel. On a grid, corners shared by pixels are
    /// computed once. `rounds_corners` rounds the corners of a grid to single precision first.
    fn map_corners<T: Copy + Default + Send + Sync>(
        &self,
        rounds_corners: bool,
        value: impl Fn(LabPoint) -> T + Sync,
    ) -> Vec<[T; 4]> {
        let [rows, columns] = self.shape;
        let placement = &self.placement;
        let mut values = vec![[T::default(); 4]; rows * columns];
        let [slow, fast] = match &self.pixels {
            PixelPositions::Grid(axes) => axes,
            PixelPositions::Corners(corners) => {
                values.par_iter_mut().enumerate().for_each(|(pixel, out)| {
                    *out =
                        corners.corners_of(pixel).map(|[z, y, x]| value(placement.to_lab(y, x, z)));
                });
                return values;
            }
        };
        // pyFAI corrects parallax of corners in single precision.
        let rounds_corners = rounds_corners || placement.parallax.is_some();
        let edges = |axis: &crate::pixel_grid::PixelAxis| match rounds_corners {
            true => axis.edges_f32.iter().map(|&edge| f64::from(edge)).collect(),
            false => axis.edges.clone(),
        };
        let (slow_edges, fast_edges): (Vec<f64>, Vec<f64>) = (edges(slow), edges(fast));
        let mut nodes = vec![T::default(); (rows + 1) * (columns + 1)];
        nodes.par_chunks_mut(columns + 1).zip(&slow_edges).for_each(|(row, &p1)| {
            for (out, &p2) in row.iter_mut().zip(&fast_edges) {
                *out = value(placement.to_lab(p1, p2, 0.0));
            }
        });
        values.par_chunks_mut(columns.max(1)).enumerate().for_each(|(row, out)| {
            let lower = &nodes[row * (columns + 1)..][..columns + 1];
            let upper = &nodes[(row + 1) * (columns + 1)..][..columns + 1];
            for (column, out) in out.iter_mut().enumerate() {
                *out = [lower[column], upper[column], upper[column + 1], lower[column + 1]];
            }
        });
        values
    }
}
