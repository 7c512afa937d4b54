//! What a recipe and the shape of the frames come to: geometry, mask, bins and normalization.

use binning::{AzimuthRequest, Binning, BinningRequest, BinsRequest, bin_pixels};
use geometry::{Detector, Geometry, Poni, SensorMaterial, Unit, UnknownMaterial};
use recipe::{FileRef, FlatMode, Recipe};
use records::FrameLayout;

use crate::detector_view::DetectorView;
use crate::images::{self, ImageRole};
use crate::{IntegratorError, detector_file};

/// All that does not depend on the pixels' type.
pub struct IntegrationSetup {
    /// The axes and the matrix.
    pub binning: Binning,
    /// The normalization of each pixel without the monitor: flat · solid angle · polarization · absorbed share.
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

impl IntegrationSetup {
    /// Reads the recipe's images and bins the pixels of frames of this framing.
    pub fn new(recipe: &Recipe, framing: &FrameLayout) -> Result<Self, IntegratorError> {
        let pixels = PixelGeometry::new(recipe, framing)?;
        let PixelGeometry { poni, window, geometry, mask } = &pixels;
        let binning = bin_pixels(geometry, &window.detector_mask(mask), &binning_request(recipe)?);
        let binning = binning.map_err(|why| IntegratorError::Binning(why.to_string()))?;
        let binning = Binning { matrix: window.select_frame_columns(binning.matrix), ..binning };
        let dark = pixels.load_dark(recipe)?;
        let variance = pixels.load_variance(recipe)?;
        let normalization = build_normalization(recipe, poni, geometry, window, pixels.load_flat(recipe)?)?;
        let (detector, mask) = (window.detector().clone(), pixels.mask);
        Ok(Self { binning, normalization, dark, variance, detector, mask })
    }
}

/// What a recipe says of the frames' pixels before they are binned: where they are, and which of them count.
pub struct PixelGeometry {
    poni: Poni,
    /// Which of the detector's pixels the frames show.
    pub window: DetectorView,
    geometry: Geometry,
    /// The gap mask and the recipe's masks, united: true where masked.
    mask: Vec<bool>,
}

impl PixelGeometry {
    /// Reads the PONI, the detector and the masks.
    ///
    /// # Errors
    /// A PONI or detector that the frames can't come from; a mask that can't be read, or of another shape.
    pub fn new(recipe: &Recipe, framing: &FrameLayout) -> Result<Self, IntegratorError> {
        let wrong = |why: String| IntegratorError::Geometry { poni: recipe.poni_label(), why };
        let poni = Poni::parse(&recipe.poni).map_err(|why| wrong(why.to_string()))?;
        let detector = match &recipe.detector_file {
            Some(file) => detector_file::read_detector(file, &poni)?,
            None => Detector::from_poni(&poni).map_err(|why| wrong(why.to_string()))?,
        };
        let window = DetectorView::new(&detector, framing).map_err(|why| wrong(why.to_string()))?;
        let geometry =
            Geometry::new(&poni, window.detector(), window.detector_shape()).map_err(|why| wrong(why.to_string()))?;
        let mask = build_mask(recipe, &geometry, &window)?;
        Ok(Self { poni, window, geometry, mask })
    }

    /// Checks that there are pixels in the bins, and that the sensor's absorption is known.
    ///
    /// # Errors
    /// All pixels are masked, or none is in the range; a sensor of a material or at a wavelength without a table.
    pub fn check(&self, recipe: &Recipe) -> Result<(), IntegratorError> {
        absorption(recipe, &self.poni)?;
        let wrong = |why: binning::BinningError| IntegratorError::Binning(why.to_string());
        binning::check_request(&self.geometry, &self.window.detector_mask(&self.mask), &binning_request(recipe)?)
            .map_err(wrong)
    }

    /// Reads the dark counts of each pixel.
    ///
    /// # Errors
    /// An image that can't be read, or of another shape.
    pub fn load_dark(&self, recipe: &Recipe) -> Result<Option<Vec<f64>>, IntegratorError> {
        load_mean_image(ImageRole::Dark, &recipe.dark, &self.window)
    }

    /// Reads the variance of each pixel, where the recipe gives it.
    ///
    /// # Errors
    /// An image that can't be read, or of another shape.
    pub fn load_variance(&self, recipe: &Recipe) -> Result<Option<Vec<f64>>, IntegratorError> {
        let load = |file| self.window.load_image(|shape| images::load_image(ImageRole::Variance, file, shape));
        recipe.variance.as_ref().map(load).transpose()
    }

    /// Reads the flat field.
    ///
    /// # Errors
    /// An image that can't be read, or of another shape.
    pub fn load_flat(&self, recipe: &Recipe) -> Result<Option<Vec<f64>>, IntegratorError> {
        load_mean_image(ImageRole::Flat, &recipe.flat, &self.window)
    }
}

/// The mean of the images of these files; `None` of no files.
fn load_mean_image(
    role: ImageRole,
    files: &[FileRef],
    window: &DetectorView,
) -> Result<Option<Vec<f64>>, IntegratorError> {
    let all = || window.load_image(|shape| images::load_mean(role, files, shape).map(Option::unwrap_or_default));
    (!files.is_empty()).then(all).transpose()
}

/// The gap mask and the recipe's masks and shapes, united: true where masked. Of the frames' pixels.
fn build_mask(recipe: &Recipe, geometry: &Geometry, window: &DetectorView) -> Result<Vec<bool>, IntegratorError> {
    let [rows, columns] = window.frame_shape();
    let gaps = if recipe.detector_mask { window.detector().gap_mask() } else { None };
    let mut mask = gaps.map_or_else(|| vec![false; rows * columns], |gaps| window.select_frame_pixels(gaps));
    for (files, inverted) in [(&recipe.mask, false), (&recipe.mask_inverted, true)] {
        for file in files {
            let flag = |value: f64| (value != 0.0) != inverted;
            let load = |shape| Ok(images::load_image(ImageRole::Mask, file, shape)?.into_iter().map(flag).collect());
            mask.iter_mut().zip(window.load_mask(load)?).for_each(|(masked, flag)| *masked |= flag);
        }
    }
    if !recipe.mask_region.is_empty() {
        let chi = window.select_frame_pixels(geometry.chi_centers());
        for region in &recipe.mask_region {
            for (pixel, masked) in mask.iter_mut().enumerate() {
                let center = [pixel / columns, pixel % columns].map(|index| index as f64 + 0.5);
                *masked |= region.shape.contains(center, chi[pixel].to_degrees()) != region.outside;
            }
        }
    }
    Ok(mask)
}

/// flat · solid angle · polarization · absorbed share.
fn build_normalization(
    recipe: &Recipe,
    poni: &Poni,
    geometry: &Geometry,
    window: &DetectorView,
    flat: Option<Vec<f64>>,
) -> Result<Vec<f64>, IntegratorError> {
    let mut product = flat.unwrap_or_else(|| vec![1.0; window.frame_shape().iter().product()]);
    if recipe.flat_mode == Some(FlatMode::Multiply) {
        product.iter_mut().for_each(|correction| *correction = correction.recip());
    }
    let mut times = |factors| {
        product
            .iter_mut()
            .zip(window.select_frame_pixels(factors))
            .for_each(|(value, factor): (_, f64)| *value *= factor)
    };
    if recipe.solid_angle {
        times(geometry.solid_angle());
    }
    if let Some(factor) = recipe.polarization {
        times(geometry.polarization(factor, recipe.polarization_offset.unwrap_or(0.0).to_radians()));
    }
    if let Some(absorption) = absorption(recipe, poni)? {
        times(geometry.sensor_absorption(absorption));
    }
    Ok(product)
}

/// Attenuation times thickness of the recipe's sensor, for the PONI's wavelength; `None` without a sensor.
fn absorption(recipe: &Recipe, poni: &Poni) -> Result<Option<f64>, IntegratorError> {
    let Some(sensor) = &recipe.sensor else { return Ok(None) };
    let wrong = |why: String| IntegratorError::Unsupported(format!("sensor {sensor}: {why}"));
    let material: SensorMaterial = sensor.material.parse().map_err(|why: UnknownMaterial| wrong(why.to_string()))?;
    let wavelength = poni.wavelength.ok_or_else(|| wrong("needs the wavelength, and the PONI has none".into()))?;
    let attenuation = material.attenuation_coefficient(wavelength).map_err(|why| wrong(why.to_string()))?;
    Ok(Some(attenuation * sensor.thickness))
}

fn binning_request(recipe: &Recipe) -> Result<BinningRequest, IntegratorError> {
    let unit = Unit::parse(&recipe.unit).map_err(|why| IntegratorError::Binning(why.to_string()))?;
    let limits = |range: Option<[f64; 2]>| range.map(|[low, high]| (low, high));
    let even = |npt: u64, range| BinsRequest::Uniform { npt: npt as usize, range };
    let azimuth = match (&recipe.azimuth_edges, recipe.npt_azim) {
        (Some(edges), _) => AzimuthRequest::Bins(BinsRequest::Edges(edges.clone())),
        (None, 1) => AzimuthRequest::Sum(limits(recipe.azimuth_range)),
        (None, bins) => AzimuthRequest::Bins(even(bins, limits(recipe.azimuth_range))),
    };
    let radial = match &recipe.radial_edges {
        Some(edges) => BinsRequest::Edges(edges.clone()),
        None => even(recipe.npt, limits(recipe.radial_range)),
    };
    let split = match recipe.split {
        recipe::Split::No => binning::PixelSplitting::No,
        recipe::Split::BBox => binning::PixelSplitting::BBox,
        recipe::Split::Full => binning::PixelSplitting::Full,
    };
    Ok(BinningRequest { unit, radial, azimuth, split })
}
