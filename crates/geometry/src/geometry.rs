//! Positions of all pixels: radial position in any unit, azimuth, corners and half widths.

use rayon::prelude::*;

use crate::corner_values::{Coordinate, CornerLayout, CornerValues, PixelIntervals};
use crate::detector::PixelPositions;
use crate::parallax::ParallaxCorrection;
use crate::points::{BLOCK, DetectorPoints, LabPoints};
use crate::quantity::Experiment;
use crate::rotation::Rotation;
use crate::{Detector, DetectorError, Poni, SampleFrame, Unit};

/// The positions of all pixels of a detector that a PONI file places in the laboratory.
///
/// All arrays are row-major and have one item per pixel, but that of corner values has one per node
/// of the grid where pixels share corners. As in pyFAI, centres are computed in
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
    /// Transforms points to the laboratory's frame, with the correction of parallax: to where their
    /// photons came from.
    #[inline]
    pub(crate) fn to_lab(&self, points: &DetectorPoints) -> LabPoints {
        match &self.parallax {
            None => points.map(|p1, p2, p3| {
                self.rotation.rotate(p1 - self.poni1, p2 - self.poni2, self.dist + p3)
            }),
            Some(parallax) => points.map(|p1, p2, p3| {
                let p3 = self.dist + p3;
                let [p1, p2] = parallax.correct(p1 - self.poni1, p2 - self.poni2, p3);
                self.rotation.rotate(p1, p2, p3)
            }),
        }
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
        let scale = unit.scale();
        Ok(self.map_centers(|points, values| {
            radial(points, values);
            values.iter_mut().for_each(|value| *value *= scale);
        }))
    }

    /// Returns the azimuth of the centre of each pixel, in radians within [-π, π].
    pub fn chi_centers(&self) -> Vec<f64> {
        self.map_centers(LabPoints::chi)
    }

    /// Returns the corners A, B, C, D of each pixel, as radial position in the base unit of `unit`
    /// and azimuth in radians.
    ///
    /// # Errors
    /// `unit` depends on the wavelength and the PONI file gives none.
    pub fn corners(&self, unit: Unit) -> Result<CornerValues<[f32; 2]>, GeometryError> {
        let radial = self.radial_function(unit)?;
        let value = |points: &LabPoints, corners: &mut [[f32; 2]]| {
            let (mut radii, mut azimuths) = ([0.0; BLOCK], [0.0; BLOCK]);
            radial(points, &mut radii[..corners.len()]);
            points.chi(&mut azimuths[..corners.len()]);
            for ((corner, radius), chi) in corners.iter_mut().zip(radii).zip(azimuths) {
                *corner = [radius as f32, chi as f32];
            }
        };
        Ok(self.map_corners(unit.quantity().rounds_corners, value))
    }

    /// Returns the intervals of radial position that the pixels cover, in the base unit of `unit`.
    ///
    /// # Errors
    /// `unit` depends on the wavelength and the PONI file gives none.
    pub fn radial_intervals(&self, unit: Unit) -> Result<PixelIntervals, GeometryError> {
        let radial = self.radial_function(unit)?;
        let corners = self.map_corners(unit.quantity().rounds_corners, round_values(radial));
        Ok(PixelIntervals::new(self.map_centers(radial), corners, Coordinate::Linear))
    }

    /// Returns the intervals of azimuth that the pixels cover, in radians; centres are within
    /// [-π, π].
    pub fn chi_intervals(&self) -> PixelIntervals {
        let corners = self.map_corners(false, round_values(LabPoints::chi));
        PixelIntervals::new(self.chi_centers(), corners, Coordinate::Angle)
    }

    /// Returns the function from points to their radial positions in the base unit of `unit`.
    fn radial_function(
        &self,
        unit: Unit,
    ) -> Result<impl Fn(&LabPoints, &mut [f64]) + Sync + Copy, GeometryError> {
        if unit.needs_wavelength() && self.wavelength().is_none() {
            return Err(GeometryError::NoWavelength(unit));
        }
        let positions = unit.quantity().positions;
        Ok(move |points: &LabPoints, values: &mut [f64]| {
            positions(points, &self.experiment, values);
        })
    }

    /// Applies `value` to the centres of all pixels.
    pub(crate) fn map_centers(&self, value: impl Fn(&LabPoints, &mut [f64]) + Sync) -> Vec<f64> {
        self.map_points(|points, values| value(&self.placement.to_lab(points), values))
    }

    /// Applies `value` to the centres of all pixels in the detector's frame.
    pub(crate) fn map_points(
        &self,
        value: impl Fn(&DetectorPoints, &mut [f64]) + Sync,
    ) -> Vec<f64> {
        let columns = self.shape[1];
        let mut values = vec![0.0; self.shape[0] * columns];
        match &self.pixels {
            PixelPositions::Grid([slow, fast]) => {
                map_grid(&slow.centers, &fast.centers, &mut values, &value);
            }
            PixelPositions::Corners(corners) => {
                map_blocks(&mut values, |first, points, values| {
                    points.set((first..).take(values.len()).map(|pixel| corners.center(pixel)));
                    value(points, values);
                });
            }
        }
        values
    }

    /// Applies `value` to the corners of all pixels. On a grid, corners shared by pixels are
    /// computed once. `rounds_corners` rounds the corners of a grid to single precision first.
    fn map_corners<T: Copy + Default + Send>(
        &self,
        rounds_corners: bool,
        value: impl Fn(&LabPoints, &mut [T]) + Sync,
    ) -> CornerValues<T> {
        let [rows, columns] = self.shape;
        let value_in_lab = |points: &DetectorPoints, values: &mut [T]| {
            value(&self.placement.to_lab(points), values)
        };
        let [slow, fast] = match &self.pixels {
            PixelPositions::Grid(axes) => axes,
            PixelPositions::Corners(corners) => {
                let mut values = vec![T::default(); rows * columns * 4];
                map_blocks(&mut values, |first, points, values| {
                    let pixels = first / 4..(first + values.len()) / 4;
                    points.set(pixels.flat_map(|pixel| corners.corners_of(pixel)));
                    value_in_lab(points, values);
                });
                return CornerValues::new(values, CornerLayout::Separate);
            }
        };
        // pyFAI corrects parallax of corners in single precision.
        let rounds_corners = rounds_corners || self.placement.parallax.is_some();
        let edges = |axis: &crate::pixel_grid::PixelAxis| match rounds_corners {
            true => axis.edges_f32.iter().map(|&edge| f64::from(edge)).collect(),
            false => axis.edges.clone(),
        };
        let (slow_edges, fast_edges): (Vec<f64>, Vec<f64>) = (edges(slow), edges(fast));
        let mut nodes = vec![T::default(); (rows + 1) * (columns + 1)];
        map_grid(&slow_edges, &fast_edges, &mut nodes, &value_in_lab);
        CornerValues::new(nodes, CornerLayout::Grid { columns })
    }
}

/// Returns the function from points to the values of `value`, rounded to single precision.
fn round_values(
    value: impl Fn(&LabPoints, &mut [f64]) + Sync,
) -> impl Fn(&LabPoints, &mut [f32]) + Sync {
    move |points, rounded| {
        let mut exact = [0.0; BLOCK];
        value(points, &mut exact[..rounded.len()]);
        rounded.iter_mut().zip(exact).for_each(|(rounded, exact)| *rounded = exact as f32);
    }
}

/// Applies `value` to the points of a grid, row by row: `values` has one per point.
fn map_grid<T: Send>(
    slow: &[f64],
    fast: &[f64],
    values: &mut [T],
    value: &(impl Fn(&DetectorPoints, &mut [T]) + Sync),
) {
    values.par_chunks_mut(fast.len().max(1)).zip(slow).for_each(|(row, &p1)| {
        let mut points = DetectorPoints::new();
        for (values, p2) in row.chunks_mut(BLOCK).zip(fast.chunks(BLOCK)) {
            points.set_row(p1, p2);
            value(&points, values);
        }
    });
}

/// Applies `value` to all values, block by block: to the number of the first value, points to set,
/// and the values of the block, one for each point.
fn map_blocks<T: Send>(
    values: &mut [T],
    value: impl Fn(usize, &mut DetectorPoints, &mut [T]) + Sync,
) {
    values
        .par_chunks_mut(BLOCK)
        .enumerate()
        .with_min_len(64)
        .for_each_init(DetectorPoints::new, |points, (block, values)| {
            value(block * BLOCK, points, values)
        });
}
