//! Builds the matrix of a recipe, in parallel by blocks of pixels.

use binning::{PairedColumns, PixelBinner};
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
    let fill = |columns: &mut PairedColumns, block: MatrixBlock<'_>| {
        columns.clear();
        let pixels = block.pixels();
        binner.append_columns(view.detector_pixels(pixels.clone()), columns);
        // Before they are divided, as weights may round to 0.
        let has_entries = columns.has_entries();
        if let Some(divisors) = divisors {
            divide_columns(columns, &divisors[pixels]);
        }
        let extra = block.fill(&columns.first_bins, &columns.pair_weights, &columns.extra)?;
        Ok((has_entries, extra))
    };
    let filled: Result<Vec<(bool, BlockExtra)>, MatrixError> =
        blocks.into_par_iter().map_init(PairedColumns::default, fill).collect();
    let filled = filled.map_err(error)?;
    if !filled.iter().any(|(has_entries, _)| *has_entries) {
        return Err(binner.nothing_in_range_error().into());
    }
    Ok(builder.build(filled.into_iter().map(|(_, extra)| extra)))
}

/// Divides the weights c of columns by `divisors` n, one per column, for an unweighted mean, where c
/// is the share of a pixel in a bin and n the pixel's normalization. The sums over signals s are
/// then Σ c s / n, and the norms Σ (c / n) n = Σ c, and so for the variances. Weights of pixels that
/// are not measured, whose n is zero or not finite, stay: the plan drops these pixels.
fn divide_columns(columns: &mut PairedColumns, divisors: &[f64]) {
    let divide = |weight: &mut f32, n: f64| {
        if n != 0.0 && n.is_finite() {
            *weight = (f64::from(*weight) / n) as f32;
        }
    };
    for (pair, &n) in columns.pair_weights.iter_mut().zip(divisors) {
        pair.iter_mut().for_each(|weight| divide(weight, n));
    }
    for (column, _, weight) in &mut columns.extra {
        divide(weight, divisors[*column as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_divided_by_the_normalization_of_its_pixel() {
        let mut columns = PairedColumns {
            first_bins: vec![3, 0, 7, 1, 2],
            pair_weights: vec![[0.5, 0.25], [0.0; 2], [1.0, 0.0], [0.5, 0.5], [1.0, 0.0]],
            extra: vec![(0, 5, 0.125), (0, 6, 0.125), (3, 3, 0.5), (4, 9, 0.75)],
        };
        divide_columns(&mut columns, &[2.0, 5.0, 4.0, 0.0, f64::NAN]);
        assert_eq!(
            columns.pair_weights,
            [[0.25, 0.125], [0.0; 2], [0.25, 0.0], [0.5, 0.5], [1.0, 0.0]]
        );
        assert_eq!(columns.extra, [(0, 5, 0.0625), (0, 6, 0.0625), (3, 3, 0.5), (4, 9, 0.75)]);
    }
}
