//! Checks that a recipe can be applied, for whoever plans the work: all that keeps [`crate::Integrator::new`] from making an
//! integrator, asked without the matrix, which takes most of the time.

use geometry::Poni;
use kernels::PixelType;
use recipe::Recipe;
use records::FrameLayout;

use crate::images::{self, ImageRole};
use crate::setup::PixelGeometry;
use crate::{IntegratorError, detector_file, dummy};

/// Checks that the files of a recipe are what they are named as, whatever the frames: masks, darks, flats and variances
/// are images of a type and coding that can be read, a detector file describes a detector.
///
/// # Errors
/// A file that can't be read, is of another format, or does not hold the dataset that is named.
pub fn check_files(recipe: &Recipe) -> Result<(), IntegratorError> {
    let lists = [
        (ImageRole::Mask, &recipe.mask),
        (ImageRole::Mask, &recipe.mask_inverted),
        (ImageRole::Dark, &recipe.dark),
        (ImageRole::Flat, &recipe.flat),
    ];
    let images = lists.into_iter().flat_map(|(role, files)| files.iter().map(move |file| (role, file)));
    let variance = recipe.variance.iter().map(|file| (ImageRole::Variance, file));
    images.chain(variance).try_for_each(|(role, file)| images::check_image(role, file))?;
    let Some(file) = &recipe.detector_file else { return Ok(()) };
    let wrong =
        |why: geometry::PoniError| IntegratorError::Geometry { poni: recipe.poni_label(), why: why.to_string() };
    let poni = Poni::parse(&recipe.poni).map_err(wrong)?;
    detector_file::read_detector(file, &poni).map(drop)
}

/// Checks that frames of this framing and type can be integrated by a recipe, whose files are read for it.
///
/// # Errors
/// As [`crate::Integrator::new`].
pub fn check(recipe: &Recipe, framing: &FrameLayout, dtype: PixelType) -> Result<(), IntegratorError> {
    let pixels = PixelGeometry::new(recipe, framing)?;
    dummy::invalid_values(recipe, &pixels.window.detector().dummy, dtype)?;
    pixels.check(recipe)?;
    pixels.load_dark(recipe)?;
    pixels.load_variance(recipe)?;
    pixels.load_flat(recipe).map(drop)
}
