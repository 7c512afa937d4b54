//! Builds the [`IntegrationPlan`] of a recipe: translates its averaging and error model into the
//! types of crate `kernels`.

use std::borrow::Cow;

use binning::Csc;
use kernels::{
    CsrMatrix, IntegrationPlan, PixelVarianceModel, SpreadRole, Statistic, TiledCsc, VarianceModel,
};
use recipe::{Mean, Recipe, SpreadUse, VarianceSource};

use crate::IntegratorError;
use crate::setup::IntegrationSetup;

/// Builds the plan and, for methods that need all pixels of a bin, the matrix by bin.
pub fn build_plan(
    recipe: &Recipe,
    setup: &IntegrationSetup,
) -> Result<(IntegrationPlan, Option<CsrMatrix>), IntegratorError> {
    let error = |why: &dyn std::fmt::Display| IntegratorError::Binning(why.to_string());
    let matrix = &setup.binning.matrix;
    let weights = match recipe.mean {
        Mean::Weighted => Cow::Borrowed(&matrix.weights),
        Mean::Unweighted => Cow::Owned(divide_by_normalization(matrix, &setup.normalization)),
    };
    let matrix = TiledCsc::new(&matrix.starts, &matrix.bins, &weights, matrix.nbins)
        .map_err(|why| error(&why))?;
    let (normalization, dark) = (&setup.normalization, setup.dark.as_deref());
    let statistic = select_statistic(recipe);
    let model = variance_model(recipe);
    let plan = match &setup.variance {
        Some(variance) => {
            IntegrationPlan::with_variance(matrix, normalization, variance, model.spread, dark)
        }
        None => IntegrationPlan::new(matrix, normalization, model, dark),
    };
    let plan = plan.map_err(|why| error(&why))?;
    let csr = build_csr(&plan, statistic);
    Ok((plan, csr))
}

/// Returns the weights c / n of a matrix for an unweighted mean, where c is the share of a pixel in
/// a bin and n the pixel's normalization. The sums over signals s are then Σ c s / n, and the norms
/// Σ (c / n) n = Σ c, and so for the variances. Weights of pixels that are not measured, whose n is
/// zero or not finite, stay: the plan drops these pixels.
fn divide_by_normalization(matrix: &Csc, normalization: &[f64]) -> Vec<f32> {
    let mut weights = matrix.weights.clone();
    for (pixel, &n) in normalization.iter().enumerate() {
        if n != 0.0 && n.is_finite() {
            let entries = matrix.starts[pixel] as usize..matrix.starts[pixel + 1] as usize;
            weights[entries]
                .iter_mut()
                .for_each(|weight| *weight = (f64::from(*weight) / n) as f32);
        }
    }
    weights
}

/// Builds the matrix by bin; `None` for plain sums, which do not need it.
pub fn build_csr(plan: &IntegrationPlan, statistic: Statistic) -> Option<CsrMatrix> {
    let is_from_spread = plan.variance_model().spread == SpreadRole::ClippingAndResult;
    let needs_csr = statistic != Statistic::Mean || is_from_spread;
    needs_csr.then(|| CsrMatrix::new(plan, statistic))
}

/// Returns how the pixels of a bin are averaged: mean, sigma clipping, or the mean between
/// quantiles.
pub fn select_statistic(recipe: &Recipe) -> Statistic {
    match (recipe.sigma_clip, recipe.median) {
        (Some(clip), _) => {
            Statistic::SigmaClip { threshold: clip.threshold, max_iter: clip.max_iter }
        }
        (None, Some(quantiles)) => {
            Statistic::QuantileMean { low: quantiles.low / 100.0, high: quantiles.high / 100.0 }
        }
        (None, None) => Statistic::Mean,
    }
}

/// Returns the kernels' variance model for the recipe's error model.
pub fn variance_model(recipe: &Recipe) -> VarianceModel {
    let pixel = match recipe.error_model.variance_source() {
        VarianceSource::None => PixelVarianceModel::None,
        VarianceSource::Counts => PixelVarianceModel::Counts,
        VarianceSource::Image => PixelVarianceModel::Given,
    };
    let spread = match recipe.error_model.spread_use() {
        SpreadUse::Nowhere => SpreadRole::Unused,
        SpreadUse::Clipping => SpreadRole::Clipping,
        SpreadUse::ClippingAndResult => SpreadRole::ClippingAndResult,
    };
    VarianceModel { pixel, spread }
}
