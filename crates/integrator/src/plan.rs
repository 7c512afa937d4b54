//! How a recipe wants the pixels of a bin averaged, and where its errors come from.

use kernels::{CsrMatrix, IntegrationPlan, Statistic, TiledCsc, VarianceModel};
use recipe::Recipe;

use crate::IntegratorError;
use crate::setup::IntegrationSetup;

/// What is summed over the pixels of all frames alike, and, where a method looks at all pixels of a bin before it sums
/// them, the matrix by bin.
pub fn build_plan(
    recipe: &Recipe,
    setup: &IntegrationSetup,
) -> Result<(IntegrationPlan, Option<CsrMatrix>), IntegratorError> {
    let wrong = |why: &dyn std::fmt::Display| IntegratorError::Binning(why.to_string());
    let matrix = &setup.binning.matrix;
    let matrix =
        TiledCsc::new(&matrix.starts, &matrix.bins, &matrix.weights, matrix.nbins).map_err(|why| wrong(&why))?;
    let (normalization, dark) = (&setup.normalization, setup.dark.as_deref());
    let statistic = statistic_of(recipe);
    let plan = match &setup.variance {
        Some(variance) => IntegrationPlan::with_variance(matrix, normalization, variance, dark),
        None => IntegrationPlan::new(matrix, normalization, variance_model_of(recipe, statistic), dark),
    };
    let plan = plan.map_err(|why| wrong(&why))?;
    let by_bin = build_csr(&plan, statistic);
    Ok((plan, by_bin))
}

/// The matrix by bin, where a method needs it.
pub fn build_csr(plan: &IntegrationPlan, statistic: Statistic) -> Option<CsrMatrix> {
    let looks_twice = statistic != Statistic::Mean || plan.variance_model() == VarianceModel::Azimuthal;
    looks_twice.then(|| CsrMatrix::new(plan, statistic))
}

/// Which pixels of a bin count.
pub fn statistic_of(recipe: &Recipe) -> Statistic {
    match (recipe.sigma_clip, recipe.median) {
        (Some(clip), _) => Statistic::SigmaClip { threshold: clip.threshold, max_iter: clip.max_iter },
        (None, Some(quantiles)) => Statistic::QuantileMean { low: quantiles.low / 100.0, high: quantiles.high / 100.0 },
        (None, None) => Statistic::Mean,
    }
}

/// Where the errors come from, unless variances are given.
pub fn variance_model_of(recipe: &Recipe, statistic: Statistic) -> VarianceModel {
    match recipe.error_model {
        recipe::ErrorModel::No => VarianceModel::None,
        recipe::ErrorModel::Azimuthal => VarianceModel::Azimuthal,
        // Hybrid differs from Poisson while clipping only.
        recipe::ErrorModel::Hybrid if matches!(statistic, Statistic::SigmaClip { .. }) => VarianceModel::Hybrid,
        recipe::ErrorModel::Hybrid | recipe::ErrorModel::Poisson => VarianceModel::Poisson,
        recipe::ErrorModel::Variance => VarianceModel::Given,
    }
}
