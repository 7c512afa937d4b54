//! Positions of all pixels of an experiment, in any radial unit and in azimuth.

use rayon::prelude::*;

use crate::detector::PixelPositions;
use crate::rotation::{LabPoint, Rotation};
use crate::{Detector, DetectorError, Poni, Unit};

/// The place of every pixel of a detector in an experiment.
///
/// All arrays are row-major and have one item a pixel. Centres and half widths are computed in
/// double precision from corners that were rounded to single precision in the base unit, as
/// pyFAI does it: patterns split over bins agree only if that is reproduced.
pub struct Geometry {
    pub(crate) pixels: PixelPositions,
    pub(crate) placement: DetectorPlacement,
    shape: [usize; 2],
}

/// Why there is no geometry, or no position in a unit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// The frames are not of this detector.
    #[error(transparent)]
    Detector(#[from] DetectorError),
    /// A unit that depends on the wavelength, and none is given.
    #[error("unit {0} needs a wavelength, and the PONI file gives none")]
    NoWavelength(Unit),
}

/// How the detector stands.
pub(crate) struct DetectorPlacement {
    pub(crate) dist: f64,
    pub(crate) poni1: f64,
    pub(crate) poni2: f64,
    rotation: Rotation,
    wavelength: Option<f64>,
}

impl DetectorPlacement {
    /// From a place on the detector, metres from its corner and above its plane, to the laboratory.
    #[inline]
    pub(crate) fn to_lab(&self, p1: f64, p2: f64, p3: f64) -> LabPoint {
        self.rotation.rotate(p1 - self.poni1, p2 - self.poni2, self.dist + p3)
    }
}

impl Geometry {
    /// The geometry of frames of `shape` (rows, columns) taken with a detector placed by a PONI file.
    pub fn new(poni: &Poni, detector: &Detector, shape: [usize; 2]) -> Result<Self, GeometryError> {
        let pixels = detector.for_frames(shape)?.pixel_positions().expect("a detector for frames has their shape");
        let place = DetectorPlacement {
            dist: poni.dist,
            poni1: poni.poni1,
            poni2: poni.poni2,
            rotation: Rotation::new(poni.rot1, poni.rot2, poni.rot3),
            wavelength: poni.wavelength,
        };
        Ok(Self { pixels, placement: place, shape })
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Wavelength, metres.
    pub fn wavelength(&self) -> Option<f64> {
        self.placement.wavelength
    }

    /// Where the middle of each pixel lies, in `unit`.
    pub fn radial_centers(&self, unit: Unit) -> Result<Vec<f64>, GeometryError> {
        let radial = self.radial_function(unit)?;
        Ok(self.map_centers(|point| radial(point) * unit.scale()))
    }

    /// The azimuth of the middle of each pixel, radians in (-π, π].
    pub fn chi_centers(&self) -> Vec<f64> {
        self.map_centers(LabPoint::chi)
    }

    /// The corners A, B, C, D of each pixel as (radial in the base unit of `unit`, azimuth in radians).
    pub fn corners(&self, unit: Unit) -> Result<Vec<[[f32; 2]; 4]>, GeometryError> {
        let radial = self.radial_function(unit)?;
        Ok(self.map_corners(unit, |point| [radial(point) as f32, point.chi() as f32]))
    }

    /// Half the width of each pixel in `unit`: the largest distance of a corner from the centre.
    pub fn radial_deltas(&self, unit: Unit) -> Result<Vec<f64>, GeometryError> {
        let radial = self.radial_function(unit)?;
        let centers = self.map_centers(radial);
        let corners = self.map_corners(unit, |point| radial(point) as f32);
        let largest = |corners: &[f32; 4], center: &f64| {
            corners.map(|corner| (f64::from(corner) - center).abs()).into_iter().fold(0.0, f64::max) * unit.scale()
        };
        Ok(corners.par_iter().zip(&centers).map(|(corners, center)| largest(corners, center)).collect())
    }

    /// Half the width of each pixel in azimuth, radians: the largest distance of a corner from the
    /// centre, the short way round.
    pub fn chi_deltas(&self) -> Vec<f64> {
        let centers = self.chi_centers();
        let corners = self.map_corners(Unit::RM, |point| point.chi() as f32);
        let apart = |corner: f32, center: f64| {
            let delta = (f64::from(corner) - center).abs();
            delta.min(std::f64::consts::TAU - delta)
        };
        let largest = |corners: &[f32; 4], center: f64| {
            corners.map(|corner| apart(corner, center)).into_iter().fold(0.0, f64::max)
        };
        corners.par_iter().zip(&centers).map(|(corners, center)| largest(corners, *center)).collect()
    }

    /// The radial position in the base unit of a point.
    fn radial_function(&self, unit: Unit) -> Result<impl Fn(LabPoint) -> f64 + Sync + Copy, GeometryError> {
        let base = unit.base();
        let wavelength = match self.placement.wavelength {
            None if unit.needs_wavelength() => return Err(GeometryError::NoWavelength(unit)),
            wavelength => wavelength.unwrap_or(f64::NAN),
        };
        let per_q = 4.0e-9 * std::f64::consts::PI / wavelength;
        let per_d = 2.0e-9 / wavelength;
        Ok(move |point: LabPoint| match base {
            Unit::RM => point.radius(),
            Unit::TthRad => point.two_theta(),
            Unit::QNm => per_q * (point.two_theta() * 0.5).sin(),
            Unit::DM => std::f64::consts::TAU / (1e9 * (per_q * (point.two_theta() * 0.5).sin())),
            _ => (per_d * (point.two_theta() * 0.5).sin()).powi(2),
        })
    }

    /// One value for the middle of each pixel.
    pub(crate) fn map_centers(&self, value: impl Fn(LabPoint) -> f64 + Sync) -> Vec<f64> {
        let columns = self.shape[1];
        let mut values = vec![0.0; self.shape[0] * columns];
        let place = &self.placement;
        match &self.pixels {
            PixelPositions::Grid([slow, fast]) => {
                values.par_chunks_mut(columns.max(1)).zip(&slow.centers).for_each(|(row, &p1)| {
                    for (out, &p2) in row.iter_mut().zip(&fast.centers) {
                        *out = value(place.to_lab(p1, p2, 0.0));
                    }
                });
            }
            PixelPositions::Corners(corners) => values.par_iter_mut().enumerate().for_each(|(pixel, out)| {
                let [z, y, x] = corners.center(pixel);
                *out = value(place.to_lab(y, x, z));
            }),
        }
        values
    }

    /// One value for each corner of each pixel. On a grid, a corner that pixels share is computed once.
    fn map_corners<T: Copy + Default + Send + Sync>(
        &self,
        unit: Unit,
        value: impl Fn(LabPoint) -> T + Sync,
    ) -> Vec<[T; 4]> {
        let [rows, columns] = self.shape;
        let place = &self.placement;
        let mut values = vec![[T::default(); 4]; rows * columns];
        let [slow, fast] = match &self.pixels {
            PixelPositions::Grid(axes) => axes,
            PixelPositions::Corners(corners) => {
                values.par_iter_mut().enumerate().for_each(|(pixel, out)| {
                    *out = corners.corners_of(pixel).map(|[z, y, x]| value(place.to_lab(y, x, z)));
                });
                return values;
            }
        };
        // pyFAI has a fast path for r, 2θ and q, and takes d*² and d through corners in single precision.
        let edges = |axis: &crate::pixel_grid::PixelAxis| match unit.base() {
            Unit::RecD2Nm | Unit::DM => axis.edges_f32.iter().map(|&edge| f64::from(edge)).collect(),
            _ => axis.edges.clone(),
        };
        let (slow_edges, fast_edges): (Vec<f64>, Vec<f64>) = (edges(slow), edges(fast));
        let mut nodes = vec![T::default(); (rows + 1) * (columns + 1)];
        nodes.par_chunks_mut(columns + 1).zip(&slow_edges).for_each(|(row, &p1)| {
            for (out, &p2) in row.iter_mut().zip(&fast_edges) {
                *out = value(place.to_lab(p1, p2, 0.0));
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
