//! What a recipe and the shape of the frames come to: geometry, mask, bins and normalization.

use binning::{Azimuth, Binning, Bins, Regroup, regroup};
use geometry::{Detector, Geometry, Poni, Unit};
use recipe::Recipe;

use crate::image::{self, Role};
use crate::{Error, nexus};

/// All that does not depend on the pixels' type.
pub struct Setup {
    /// The axes and the matrix.
    pub binning: Binning,
    /// The normalization of each pixel without the monitor: flat · solid angle · polarization.
    pub normalization: Vec<f64>,
    /// The dark counts of each pixel.
    pub dark: Option<Vec<f64>>,
    /// The variance of each pixel, where the recipe gives it.
    pub variance: Option<Vec<f64>>,
    /// The detector.
    pub detector: Detector,
    /// The gap mask and the recipe's masks, united: true where masked.
    pub mask: Vec<bool>,
}

impl Setup {
    /// Reads the recipe's images and bins the pixels of frames of this shape.
    pub fn of(recipe: &Recipe, shape: [usize; 2]) -> Result<Self, Error> {
        let wrong = |why: String| Error::Geometry { poni: recipe.poni_file.to_path_buf(), why };
        let poni = Poni::parse(&recipe.poni).map_err(|why| wrong(why.to_string()))?;
        let detector = match &recipe.detector_file {
            Some(file) => nexus::detector(file, &poni)?,
            None => Detector::from_poni(&poni).map_err(|why| wrong(why.to_string()))?,
        };
        let detector = detector.for_frames(shape).map_err(|why| wrong(why.to_string()))?;
        let geometry = Geometry::new(&poni, &detector, shape).map_err(|why| wrong(why.to_string()))?;
        let mask = mask(recipe, &detector, shape)?;
        let request = request(recipe)?;
        let binning = regroup(&geometry, &mask, &request).map_err(|why| Error::Binning(why.to_string()))?;
        let load = |role, file: &Option<_>| file.as_ref().map(|file| image::load(role, file, shape)).transpose();
        let flat = load(Role::Flat, &recipe.flat)?;
        let dark = load(Role::Dark, &recipe.dark)?;
        let variance = load(Role::Variance, &recipe.variance)?;
        let normalization = normalization(recipe, &geometry, flat);
        Ok(Self { binning, normalization, dark, variance, detector, mask })
    }
}

/// The gap mask and the recipe's masks, united: true where masked.
fn mask(recipe: &Recipe, detector: &Detector, shape: [usize; 2]) -> Result<Vec<bool>, Error> {
    let gaps = if recipe.detector_mask { detector.gap_mask() } else { None };
    let mut mask = gaps.unwrap_or_else(|| vec![false; shape[0] * shape[1]]);
    for file in &recipe.mask {
        let values = image::load(Role::Mask, file, shape)?;
        mask.iter_mut().zip(values).for_each(|(masked, value)| *masked |= value != 0.0);
    }
    Ok(mask)
}

fn normalization(recipe: &Recipe, geometry: &Geometry, flat: Option<Vec<f64>>) -> Vec<f64> {
    let [rows, columns] = geometry.shape();
    let mut product = flat.unwrap_or_else(|| vec![1.0; rows * columns]);
    let mut times = |factors: Vec<f64>| product.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
    if recipe.solid_angle {
        times(geometry.solid_angle());
    }
    if let Some(factor) = recipe.polarization {
        times(geometry.polarization(factor, 0.0));
    }
    product
}

fn request(recipe: &Recipe) -> Result<Regroup, Error> {
    let unit = Unit::parse(&recipe.unit).map_err(|why| Error::Binning(why.to_string()))?;
    let limits = |range: Option<[f64; 2]>| range.map(|[low, high]| (low, high));
    let even = |npt: u64, range| Bins::Even { npt: npt as usize, range };
    let azimuth = match recipe.npt_azim {
        1 => Azimuth::Sum(limits(recipe.azimuth_range)),
        bins => Azimuth::Bins(even(bins, limits(recipe.azimuth_range))),
    };
    let split = match recipe.split {
        recipe::Split::No => binning::Split::No,
        recipe::Split::BBox => binning::Split::BBox,
        recipe::Split::Full => binning::Split::Full,
    };
    Ok(Regroup { unit, radial: even(recipe.npt, limits(recipe.radial_range)), azimuth, split })
}
