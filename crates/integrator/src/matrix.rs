//! Builds the matrix of a recipe, in parallel by blocks of pixels.

use binning::{Csc, PixelBinner};
use kernels::{BlockExtra, MatrixBlock, MatrixError, TiledCsc, TiledCscBuilder};
use rayon::prelude::*;

use crate::IntegratorError;
use crate::detector_view::DetectorView;

/// Number of tiles in a block, whose columns stay in the second-level cache.
const TILES_PER_BLOCK: usize = 4;

/// Builds the matrix of the frames' pixels. Its weights are divided by `divisors`, one per pixel of
/// the frames, for an unweighted mean. The result does not depend on the number of threads.
///
/// # Errors
/// No unmasked pixel lies in the range, too many bins or pixels, or a weight that is negative or
/// not finite after the division: of several such weights, any one is named.
pub fn build_matrix(
    binner: &PixelBinner,
    view: &DetectorView,
    divisors: Option<&[f64]>,
) -> Result<TiledCsc, IntegratorError> {
    let pixels = view.frame_shape().iter().product();
    let error = |why: MatrixError| IntegratorError::Binning(why.to_string());
    let mut builder = TiledCscBuilder::new(pixels, binner.bin_count()).map_err(error)?;
    let blocks: Vec<MatrixBlock<'_>> = builder.blocks(TILES_PER_BLOCK).collect();
    let fill = |columns: &mut Csc, block: MatrixBlock<'_>| {
        columns.clear();
        let pixels = block.pixels();
        binner.append_columns(view.detector_pixels(pixels.clone()), columns);
        if let Some(divisors) = divisors {
            divide_columns(columns, &divisors[pixels]);
        }
        let extra = block.fill(&columns.starts, &columns.bins, &columns.weights)?;
        Ok((columns.bins.len(), extra))
    };
    let filled: Result<Vec<(usize, BlockExtra)>, MatrixError> =
        blocks.into_par_iter().map_init(Csc::default, fill).collect();
    let filled = filled.map_err(error)?;
    if filled.iter().all(|(entries, _)| *entries == 0) {
        return Err(binner.nothing_in_range_error().into());
    }
    Ok(builder.build(filled.into_iter().map(|(_, extra)| extra)))
}

/// Divides the weights c of columns by `divisors` n, one per column, for an unweighted mean, where c
/// is the share of a pixel in a bin and n the pixel's normalization. The sums over signals s are
/// then Σ c s / n, and the norms Σ (c / n) n = Σ c, and so for the variances. Weights of pixels that
/// are not measured, whose n is zero or not finite, stay: the plan drops these pixels.
fn divide_columns(columns: &mut Csc, divisors: &[f64]) {
    for (range, &n) in columns.starts.windows(2).zip(divisors) {
        if n != 0.0 && n.is_finite() {
            let weights = &mut columns.weights[range[0] as usize..range[1] as usize];
            weights.iter_mut().for_each(|weight| *weight = (f64::from(*weight) / n) as f32);
        }
    }
}
