//! Builds the [`IntegrationPlan`] of a recipe: translates its averaging and error model into the
//! types of crate `kernels`.

use kernels::{
    CsrMatrix, IntegrationPlan, PixelVarianceModel, SpreadRole, Statistic, TiledCsc, VarianceModel,
};
use recipe::{Recipe, SpreadUse, VarianceSource};

use crate::{IntegratorError, dead_time};

/// Builds the plan of a matrix and, for methods that need all pixels of a bin, the matrix by bin.
/// `normalization`, `dark` and `variance` have a value per pixel of the frames.
pub fn build_plan(
    recipe: &Recipe,
    matrix: TiledCsc,
    normalization: Vec<f64>,
    dark: Option<&[f64]>,
    variance: Option<&[f64]>,
) -> Result<(IntegrationPlan, Option<CsrMatrix>), IntegratorError> {
    let statistic = select_statistic(recipe);
    let model = variance_model(recipe);
    let plan = match variance {
        Some(variance) => {
            IntegrationPlan::with_variance(matrix, normalization, variance, model.spread, dark)
        }
        None => IntegrationPlan::new(matrix, normalization, model, dark),
    };
    let plan = plan.map_err(|why| IntegratorError::Binning(why.to_string()))?;
    let plan = plan.with_dead_time(dead_time::dead_time(recipe)?);
    let csr = statistic.map(|statistic| CsrMatrix::new(&plan, statistic));
    Ok((plan, csr))
}

/// Returns the statistic of the pixels of a bin, sigma clipping or the mean between quantiles;
/// `None` for plain sums.
pub fn select_statistic(recipe: &Recipe) -> Option<Statistic> {
    match (recipe.sigma_clip, recipe.median) {
        (Some(clip), _) => {
            Some(Statistic::SigmaClip { threshold: clip.threshold, max_iter: clip.max_iter })
        }
        (None, Some(quantiles)) => {
            let [low, high] = [quantiles.low, quantiles.high].map(|percent| percent / 100.0);
            Some(Statistic::QuantileMean { low, high })
        }
        (None, None) => None,
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
