//! Checks that a recipe can be applied, for `plan-split`: everything that
//! [`crate::Integrator::new`] checks, but without building the matrix, which takes most of the
//! time.

use geometry::Poni;
use kernels::PixelType;
use recipe::Recipe;
use records::FrameLayout;

use crate::image_role::ImageRole;
use crate::images;
use crate::setup::PixelGeometry;
use crate::{IntegratorError, detector_file, invalid_values};

/// Checks the files of a recipe without knowing the frames: masks, darks, flats and variances must
/// be images of a type and coding that can be read, and a detector file must describe a detector.
///
/// # Errors
/// A file that can't be read, has another format, or lacks the dataset that the recipe names.
pub fn check_files(recipe: &Recipe) -> Result<(), IntegratorError> {
    let lists = [
        (ImageRole::Mask, &recipe.mask),
        (ImageRole::Mask, &recipe.mask_inverted),
        (ImageRole::Dark, &recipe.dark),
        (ImageRole::Flat, &recipe.flat),
    ];
    let images =
        lists.into_iter().flat_map(|(role, files)| files.iter().map(move |file| (role, file)));
    let variance = recipe.variance.iter().map(|file| (ImageRole::Variance, file));
    images.chain(variance).try_for_each(|(role, file)| images::check_image(role, file))?;
    let Some(file) = &recipe.detector_file else { return Ok(()) };
    let error = |why: geometry::PoniError| IntegratorError::Geometry {
        poni: recipe.poni_label(),
        why: why.to_string(),
    };
    let poni = Poni::parse(&recipe.poni).map_err(error)?;
    detector_file::read_detector(file, &poni).map(drop)
}

/// Checks that a recipe can be applied to frames of this layout and pixel type. Reads the files of
/// the recipe. Returns warnings about masked regions without a pixel, and about images with pixels that
/// can't be used, which take no part in the patterns.
///
/// # Errors
/// The errors of [`crate::Integrator::new`].
pub fn check(
    recipe: &Recipe,
    layout: &FrameLayout,
    dtype: PixelType,
) -> Result<Vec<String>, IntegratorError> {
    let pixels = PixelGeometry::new(recipe, layout)?;
    invalid_values::build_invalid_values(recipe, &pixels.view.detector().dummy, dtype)?;
    pixels.check(recipe)?;
    let images = pixels.read_images(recipe)?;
    let of_detector = &pixels.view.detector().dummy;
    let dummy = invalid_values::describe_impossible_dummy(recipe, of_detector, dtype);
    Ok(pixels.mask_warnings().iter().cloned().chain(images.warnings).chain(dummy).collect())
}
