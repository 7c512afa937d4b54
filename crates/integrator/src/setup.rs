//! Builds what a recipe needs for frames of one layout: geometry, mask, matrix and normalization.

use std::cell::Cell;

use binning::{AzimuthRequest, BinningRequest, BinsRequest, ChiAxis, PixelBinner, RadialAxis};
use geometry::{Detector, Geometry, Poni, SensorMaterial, UnknownMaterial};
use kernels::TiledCsc;
use recipe::{FlatMode, Mean, Recipe};
use records::FrameLayout;

use crate::correction_images::CorrectionImages;
use crate::detector_view::DetectorView;
use crate::images;
use crate::matrix::build_matrix;
use crate::{IntegratorError, detector_file};

/// Everything that an integrator needs and that does not depend on the pixel type. Arrays have a
/// value per frame pixel.
pub struct IntegrationSetup {
    /// The radial axis.
    pub axis: RadialAxis,
    /// The azimuthal axis of a cake.
    pub chi: Option<ChiAxis>,
    /// The weights of pixels in the bins.
    pub matrix: TiledCsc,
    /// The normalization of each pixel without the monitor: flat · solid angle · polarization ·
    /// absorbed fraction. 0 if the pixel's dark, flat or variance can't be used: a plan drops it.
    pub normalization: Vec<f64>,
    /// The dark counts of each pixel.
    pub dark: Option<Vec<f64>>,
    /// The variance of each pixel, if the recipe gives it.
    pub variance: Option<Vec<f64>>,
    /// The detector as it is read out.
    pub detector: Detector,
    /// The union of the gap mask and the recipe's masks: true where masked.
    pub mask: Vec<bool>,
}

impl IntegrationSetup {
    /// Reads the recipe's files and builds the matrix for frames of this layout.
    pub fn new(recipe: &Recipe, layout: &FrameLayout) -> Result<Self, IntegratorError> {
        let pixels = PixelGeometry::new(recipe, layout)?;
        let PixelGeometry { poni, view, geometry, mask, .. } = &pixels;
        let binner =
            PixelBinner::new(geometry, view.detector_mask(mask), &binning_request(recipe)?)?;
        let images = pixels.read_images(recipe)?;
        let CorrectionImages { dark, flat, variance, unusable, warnings: _ } = images;
        let mut normalization = build_normalization(recipe, poni, geometry, view, flat)?;
        unusable.into_iter().for_each(|pixel| normalization[pixel] = 0.0);
        let divisors = (recipe.mean == Mean::Unweighted).then_some(&normalization[..]);
        let matrix = build_matrix(&binner, view, divisors)?;
        let (axis, chi) = binner.into_axes();
        let (detector, mask) = (view.detector().clone(), pixels.mask);
        Ok(Self { axis, chi, matrix, normalization, dark, variance, detector, mask })
    }
}

/// The geometry and the mask of the frames' pixels, which come before binning.
pub struct PixelGeometry {
    poni: Poni,
    /// The detector as the frames show it.
    pub view: DetectorView,
    geometry: Geometry,
    /// The union of the gap mask and the recipe's masks: true where masked.
    mask: Vec<bool>,
    /// Warnings about masks and regions that mask no pixel.
    mask_warnings: Vec<String>,
}

impl PixelGeometry {
    /// Reads the PONI text, the detector and the masks.
    ///
    /// # Errors
    /// A PONI file or detector that does not fit the frames; a mask that can't be read or has
    /// another shape.
    pub fn new(recipe: &Recipe, layout: &FrameLayout) -> Result<Self, IntegratorError> {
        let error = |why: String| IntegratorError::Geometry { poni: recipe.poni_label(), why };
        let (poni, view) = read_detector_view(recipe, layout)?;
        let geometry = Geometry::new(&poni, view.detector(), view.detector_shape())
            .map_err(|why| error(why.to_string()))?;
        let sample =
            recipe.sample_frame().map_err(|why| IntegratorError::Unsupported(why.to_string()))?;
        let geometry = geometry.with_sample(sample);
        let (mask, mask_warnings) = build_mask(recipe, &geometry, &view)?;
        Ok(Self { poni, view, geometry, mask, mask_warnings })
    }

    /// Returns the warnings about masks and regions that mask no pixel.
    pub fn mask_warnings(&self) -> &[String] {
        &self.mask_warnings
    }

    /// Returns the positions of the pixels of the detector as it is read out.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the union of the gap mask and the recipe's masks for the frames' pixels, true where
    /// masked.
    pub fn into_mask(self) -> Vec<bool> {
        self.mask
    }

    /// Checks that the bins have pixels, and that the absorption of the sensor is known.
    ///
    /// # Errors
    /// All pixels are masked, or none is in the range; a sensor whose material or wavelength has no
    /// table.
    pub fn check(&self, recipe: &Recipe) -> Result<(), IntegratorError> {
        sensor_optical_depth(recipe, &self.poni)?;
        self.check_bins(recipe, &self.mask)
    }

    /// Reads the recipe's dark, flat and variance.
    ///
    /// # Errors
    /// An image that can't be read, has another shape, or leaves no usable pixel; all together leave
    /// none in the range.
    pub fn read_images(&self, recipe: &Recipe) -> Result<CorrectionImages, IntegratorError> {
        let images = CorrectionImages::read(recipe, &self.view, &self.mask)?;
        if !images.unusable.is_empty() {
            let mut mask = self.mask.clone();
            images.unusable.iter().for_each(|&pixel| mask[pixel] = true);
            self.check_bins(recipe, &mask).map_err(|why| match why {
                IntegratorError::NoPixels(why) => {
                    IntegratorError::NoPixels(format!("{why}; {}", images.warnings.join("; ")))
                }
                why => why,
            })?;
        }
        Ok(images)
    }

    fn check_bins(&self, recipe: &Recipe, mask: &[bool]) -> Result<(), IntegratorError> {
        let request = binning_request(recipe)?;
        binning::check_request(&self.geometry, &self.view.detector_mask(mask), &request)?;
        Ok(())
    }
}

/// Reads the PONI text and the detector, and returns the detector as the frames show it.
///
/// # Errors
/// A PONI file or detector that does not fit the frames.
pub fn read_detector_view(
    recipe: &Recipe,
    layout: &FrameLayout,
) -> Result<(Poni, DetectorView), IntegratorError> {
    let error = |why: String| IntegratorError::Geometry { poni: recipe.poni_label(), why };
    let poni = Poni::parse(&recipe.poni).map_err(|why| error(why.to_string()))?;
    let detector = match &recipe.detector_file {
        Some(file) => detector_file::read_detector(file, &poni)?,
        None => Detector::from_poni(&poni).map_err(|why| error(why.to_string()))?,
    };
    let view = DetectorView::new(&detector, layout).map_err(|why| error(why.to_string()))?;
    Ok((poni, view))
}

/// Builds the mask of the frames' pixels, true where masked: the union of the gap mask, the
/// recipe's masks and its masked regions. Returns warnings about masks and regions that mask no pixel, too.
fn build_mask(
    recipe: &Recipe,
    geometry: &Geometry,
    view: &DetectorView,
) -> Result<(Vec<bool>, Vec<String>), IntegratorError> {
    let [rows, columns] = view.frame_shape();
    let gaps = if recipe.detector_mask { view.detector().gap_mask() } else { None };
    let mut mask =
        gaps.map_or_else(|| vec![false; rows * columns], |gaps| view.select_frame_pixels(gaps));
    let mut warnings = Vec::new();
    for (files, inverted) in [(&recipe.mask, false), (&recipe.mask_inverted, true)] {
        for file in files {
            // Before the frames' pixels are selected from it.
            let masks_any = Cell::new(false);
            let load = |shape| {
                let loaded = images::load_mask(file, shape, inverted)?;
                masks_any.set(masks_any.get() || loaded.contains(&true));
                Ok(loaded)
            };
            let loaded = view.load_mask(load)?;
            if !masks_any.get() {
                let (flag, expected) = match inverted {
                    false => ("mask", "other values than 0"),
                    true => ("mask-inverted", "0"),
                };
                warnings.push(format!(
                    "{flag} {}: masks no pixel; expected {expected} where pixels are masked",
                    file.path.display()
                ));
            }
            mask.iter_mut().zip(loaded).for_each(|(masked, also)| *masked |= also);
        }
    }
    if !recipe.mask_region.is_empty() {
        let chi = view.select_frame_pixels(geometry.chi_centers());
        for region in &recipe.mask_region {
            let mut is_empty = true;
            for (pixel, masked) in mask.iter_mut().enumerate() {
                let center = [pixel / columns, pixel % columns].map(|index| index as f64 + 0.5);
                let is_inside = region.shape.contains(center, chi[pixel].to_degrees());
                is_empty &= is_inside == region.outside;
                *masked |= is_inside != region.outside;
            }
            if is_empty {
                warnings.push(format!(
                    "mask-region {region}: masks none of the {rows} x {columns} pixels; expected rows from 0 to {rows} and \
                     columns from 0 to {columns}, the row before the column"
                ));
            }
        }
    }
    Ok((mask, warnings))
}

/// Returns flat · solid angle · polarization · absorbed fraction of each pixel, as far as the
/// recipe applies them.
fn build_normalization(
    recipe: &Recipe,
    poni: &Poni,
    geometry: &Geometry,
    view: &DetectorView,
    flat: Option<Vec<f64>>,
) -> Result<Vec<f64>, IntegratorError> {
    let mut product = flat;
    if recipe.flat_mode == Some(FlatMode::Multiply) {
        let corrections = product.iter_mut().flatten();
        corrections.for_each(|correction| *correction = correction.recip());
    }
    let mut multiply = |factors: Vec<f64>| {
        let factors = view.select_frame_pixels(factors);
        match &mut product {
            None => product = Some(factors),
            Some(product) => {
                product.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor)
            }
        }
    };
    if recipe.solid_angle {
        multiply(geometry.solid_angle());
    }
    if let Some(factor) = recipe.polarization {
        multiply(
            geometry.polarization(factor, recipe.polarization_offset.unwrap_or(0.0).to_radians()),
        );
    }
    if let Some(optical_depth) = sensor_optical_depth(recipe, poni)? {
        multiply(geometry.sensor_absorption(optical_depth));
    }
    let pixels = view.frame_shape().iter().product();
    Ok(product.unwrap_or_else(|| vec![1.0; pixels]))
}

/// Returns the attenuation coefficient times the thickness of the recipe's sensor, at the
/// wavelength of the PONI file; `None` if the recipe has no sensor.
fn sensor_optical_depth(recipe: &Recipe, poni: &Poni) -> Result<Option<f64>, IntegratorError> {
    let Some(sensor) = &recipe.sensor else { return Ok(None) };
    let error = |why: String| IntegratorError::Unsupported(format!("sensor {sensor}: {why}"));
    let material: SensorMaterial =
        sensor.material.parse().map_err(|why: UnknownMaterial| error(why.to_string()))?;
    let wavelength = poni.wavelength.ok_or_else(|| error(NO_WAVELENGTH.to_owned()))?;
    let attenuation =
        material.attenuation_coefficient(wavelength).map_err(|why| error(why.to_string()))?;
    Ok(Some(attenuation * sensor.thickness))
}

/// Why a sensor can't be applied without a wavelength, and what to do.
const NO_WAVELENGTH: &str = "needs a wavelength, and the PONI file gives none; add `Wavelength: METRES` to it, or leave out the sensor";

/// Translates the recipe's unit, bins, ranges and splitting into the types of crate `binning`.
pub fn binning_request(recipe: &Recipe) -> Result<BinningRequest, IntegratorError> {
    let limits = |range: Option<[f64; 2]>| range.map(|[low, high]| (low, high));
    let uniform = |npt: u64, range| BinsRequest::Uniform { npt: npt as usize, range };
    let azimuth = match (&recipe.azimuth_edges, recipe.npt_azim) {
        (Some(edges), _) => AzimuthRequest::Bins(BinsRequest::Edges(edges.clone())),
        (None, 1) => AzimuthRequest::Sum(limits(recipe.azimuth_range)),
        (None, bins) => AzimuthRequest::Bins(uniform(bins, limits(recipe.azimuth_range))),
    };
    let radial = match &recipe.radial_edges {
        Some(edges) => BinsRequest::Edges(edges.clone()),
        None => uniform(recipe.npt, limits(recipe.radial_range)),
    };
    let split = match recipe.split {
        recipe::Split::No => binning::PixelSplitting::No,
        recipe::Split::BBox => binning::PixelSplitting::BBox,
        recipe::Split::Full => binning::PixelSplitting::Full,
    };
    Ok(BinningRequest { unit: recipe.unit, radial, azimuth, split })
}
