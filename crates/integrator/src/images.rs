//! Reads masks, darks, flats and variances from image files or HDF5 datasets.

use recipe::FileRef;

use crate::IntegratorError;
use crate::image_role::ImageRole;
use crate::image_stack::ImageStack;

/// Reads an image that must have `shape` (rows, columns): a TIFF, CBF, EDF, NPY or Fit2D file, or
/// an HDF5 dataset. Returns the pixels, row-major, of the one image in it.
pub fn load_image(
    role: ImageRole,
    file: &FileRef,
    shape: [usize; 2],
) -> Result<Vec<f64>, IntegratorError> {
    let stack = ImageStack::open_shaped(role, file, shape)?;
    stack.only_image()?;
    stack.frame(0, |pixel| pixel)
}

/// Reads a mask as [`load_image`] reads an image: true where its pixel is not 0, or is 0 if it is
/// `inverted`.
pub fn load_mask(
    file: &FileRef,
    shape: [usize; 2],
    inverted: bool,
) -> Result<Vec<bool>, IntegratorError> {
    let stack = ImageStack::open_shaped(ImageRole::Mask, file, shape)?;
    stack.only_image()?;
    stack.frame(0, |pixel| (pixel != 0.0) != inverted)
}

/// Returns the mean of all images in all files, pixel by pixel; `None` if there is no file. The
/// files are as in [`load_image`]. A pixel that is NaN in one image is NaN in the mean.
pub fn load_mean(
    role: ImageRole,
    files: &[FileRef],
    shape: [usize; 2],
) -> Result<Option<Vec<f64>>, IntegratorError> {
    let (mut sum, mut count) = (Vec::new(), 0);
    for file in files {
        let stack = ImageStack::open_shaped(role, file, shape)?;
        for frame in 0..stack.images() {
            let pixels = stack.frame(frame, |pixel| pixel)?;
            count += 1;
            match sum.is_empty() {
                true => sum = pixels,
                false => sum.iter_mut().zip(pixels).for_each(|(sum, pixel)| *sum += pixel),
            }
        }
    }
    if count > 1 {
        sum.iter_mut().for_each(|sum| *sum /= f64::from(count));
    }
    Ok((count > 0).then_some(sum))
}

/// Checks that a file has images of a type and coding that [`load_image`] can read. Their shape is
/// not checked.
pub fn check_image(role: ImageRole, file: &FileRef) -> Result<(), IntegratorError> {
    ImageStack::open(role, file).map(drop)
}
