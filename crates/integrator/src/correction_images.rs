//! [`CorrectionImages`], the dark, the flat and the variance of each pixel, and which pixels they
//! leave usable.

use std::collections::BTreeSet;

use geometry::format_number;
use recipe::{FileRef, Recipe};

use crate::IntegratorError;
use crate::detector_view::DetectorView;
use crate::image_role::ImageRole;
use crate::images;

/// The images of a recipe by which counts are corrected. Arrays have a value per frame pixel.
pub struct CorrectionImages {
    /// The dark counts: the mean of the recipe's darks.
    pub dark: Option<Vec<f64>>,
    /// The flat field: the mean of the recipe's flats.
    pub flat: Option<Vec<f64>>,
    /// The variance, if the recipe gives it.
    pub variance: Option<Vec<f64>>,
    /// The unmasked pixels whose dark, flat or variance can't be used. They take no part in the
    /// patterns, like masked pixels, but the automatic radial range includes them, as in pyFAI.
    pub unusable: Vec<usize>,
    /// A warning for each image that has such pixels.
    pub warnings: Vec<String>,
}

impl CorrectionImages {
    /// Reads the images for frames of this view and mask.
    ///
    /// # Errors
    /// An image that can't be read or has another shape, whose values can't be used in any unmasked
    /// pixel, or that makes all errors 0.
    pub fn read(
        recipe: &Recipe,
        view: &DetectorView,
        mask: &[bool],
    ) -> Result<Self, IntegratorError> {
        let mut check = UsabilityCheck::new(mask);
        let mut read = |role, files: &[FileRef]| {
            let image = read_mean(role, files, view)?;
            image.iter().try_for_each(|image| check.add(role, files, image))?;
            Ok::<_, IntegratorError>(image)
        };
        let dark = read(ImageRole::Dark, &recipe.dark)?;
        let variance = read(ImageRole::Variance, recipe.variance.as_slice())?;
        let flat = read(ImageRole::Flat, &recipe.flat)?;
        let UsabilityCheck { unusable, warnings, .. } = check;
        Ok(Self { dark, flat, variance, unusable, warnings })
    }
}

/// Returns the mean of all images in the files; `None` if there are no files.
fn read_mean(
    role: ImageRole,
    files: &[FileRef],
    view: &DetectorView,
) -> Result<Option<Vec<f64>>, IntegratorError> {
    let load = |shape| match (role, files) {
        // Of a variance, the first image counts.
        (ImageRole::Variance, [file]) => images::load_image(role, file, shape),
        _ => images::load_mean(role, files, shape).map(Option::unwrap_or_default),
    };
    if files.is_empty() { Ok(None) } else { view.load_image(load).map(Some) }
}

/// Counts the unmasked pixels that images leave usable.
struct UsabilityCheck<'a> {
    mask: &'a [bool],
    unmasked: usize,
    /// A pixel may be listed once for each image.
    unusable: Vec<usize>,
    warnings: Vec<String>,
}

impl<'a> UsabilityCheck<'a> {
    fn new(mask: &'a [bool]) -> Self {
        let unmasked = mask.iter().filter(|&&masked| !masked).count();
        Self { mask, unmasked, unusable: Vec::new(), warnings: Vec::new() }
    }

    /// Adds an image.
    ///
    /// # Errors
    /// No unmasked pixel is usable, or all variances are 0.
    fn add(
        &mut self,
        role: ImageRole,
        files: &[FileRef],
        image: &[f64],
    ) -> Result<(), IntegratorError> {
        let unmasked = || (0..image.len()).filter(|&pixel| !self.mask[pixel]);
        let unusable: Vec<usize> =
            unmasked().filter(|&pixel| !is_usable(role, image[pixel])).collect();
        let values = describe_values(unusable.iter().map(|&pixel| image[pixel]));
        let name = files.iter().map(FileRef::name).collect::<Vec<_>>().join(", ");
        let (count, expected) = (self.unmasked, expected_values(role));
        let error =
            |why| Err(IntegratorError::Image { role: role.name(), name: name.clone(), why });
        if unusable.len() == count && count > 0 {
            return error(format!(
                "none of the {count} unmasked pixels can be used, because the values are {values}; expected {expected}"
            ));
        }
        let is_usable_and_not_0 =
            |pixel: usize| is_usable(role, image[pixel]) && image[pixel] > 0.0;
        if role == ImageRole::Variance && count > 0 && !unmasked().any(is_usable_and_not_0) {
            return error(format!(
                "the values of all {} usable pixels are 0, which would make all errors 0; expected variances above 0",
                count - unusable.len()
            ));
        }
        if !unusable.is_empty() {
            self.warnings.push(format!(
                "{} {name}: {} of the {count} unmasked pixels can't be used and are masked, because the values are {values}; \
                 expected {expected}",
                role.name(),
                unusable.len(),
            ));
        }
        self.unusable.extend(unusable);
        Ok(())
    }
}

/// Returns whether a pixel with this value can be used. As in pyFAI, images are arrays of 32-bit
/// floats: what these can't hold counts as not finite, or as 0. Within their range, no sum of
/// squares in 64 bits overflows.
fn is_usable(role: ImageRole, value: f64) -> bool {
    let value = value as f32;
    match role {
        ImageRole::Mask | ImageRole::Dark => value.is_finite(),
        ImageRole::Flat => value > 0.0 && value.is_normal(),
        ImageRole::Variance => value >= 0.0 && value.is_finite(),
    }
}

fn expected_values(role: ImageRole) -> &'static str {
    match role {
        ImageRole::Mask | ImageRole::Dark => "finite numbers up to 3.4e38",
        ImageRole::Flat => "numbers above 0, from 1.2e-38 to 3.4e38",
        ImageRole::Variance => "numbers from 0 to 3.4e38",
    }
}

/// Describes values by the range of the finite ones and the names of the others, such as `-3 to 0,
/// NaN`.
fn describe_values(values: impl Iterator<Item = f64> + Clone) -> String {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.clone().filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    let mut parts = Vec::new();
    if low == high {
        parts.push(format_number(low));
    } else if low < high {
        parts.push(format!("{} to {}", format_number(low), format_number(high)));
    }
    let others = values.filter(|value| !value.is_finite()).map(|value| value.to_string());
    parts.extend(others.collect::<BTreeSet<_>>());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_pattern_can_be_made_of_are_unusable() {
        let usable = |role, values: &[f64]| values.iter().all(|&value| is_usable(role, value));
        let none = |role, values: &[f64]| values.iter().all(|&value| !is_usable(role, value));
        let not_finite = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, -1e308];
        for role in [ImageRole::Dark, ImageRole::Flat, ImageRole::Variance] {
            assert!(none(role, &not_finite), "{role:?}");
            assert!(usable(role, &[1.0, 1e-30, 1e30]), "{role:?}");
        }
        assert!(usable(ImageRole::Dark, &[0.0, -1.5, 1e-320]));
        assert!(none(ImageRole::Flat, &[0.0, -0.0, -1.0, 1e-320, 1e-39]));
        assert!(usable(ImageRole::Variance, &[0.0, 1e-320]));
        assert!(none(ImageRole::Variance, &[-1.0]));
    }

    #[test]
    fn the_message_says_which_values_were_found() {
        let describe = |values: &[f64]| describe_values(values.iter().copied());
        assert_eq!(describe(&[0.0, 0.0]), "0");
        assert_eq!(
            describe(&[f64::NAN, -2.5, 0.0, f64::INFINITY, f64::NAN]),
            "-2.5 to 0, NaN, inf"
        );
        assert_eq!(describe(&[1e308]), "1e308");
    }
}
