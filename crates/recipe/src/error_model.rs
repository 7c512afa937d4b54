//! Error models: the table of names, each of which stands for two independent settings.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::{SettingValue, impl_setting_text};

/// The errors of a pattern, named as in pyFAI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum ErrorModel {
    /// No errors.
    No,
    /// Counting statistics.
    #[default]
    Poisson,
    /// The spread of the pixels in a bin.
    Azimuthal,
    /// Azimuthal for sigma clipping, Poisson for the result.
    Hybrid,
    /// An image of each pixel's variance.
    Variance,
}

/// The place where the variance of a pixel comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarianceSource {
    /// Pixels have no variance.
    None,
    /// Counting statistics: the variance is the number of counts, at least 1.
    Counts,
    /// An image of each pixel's variance, from the setting `variance`.
    Image,
}

/// The place where the spread of the pixels in a bin is used in place of their variances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadUse {
    /// In no place: errors follow from the variances of pixels.
    Nowhere,
    /// The limits of sigma clipping, but not the errors of the result.
    Clipping,
    /// The limits of sigma clipping, and the errors of the result.
    ClippingAndResult,
}

/// A row of the table of error models.
struct ErrorModelRow {
    model: ErrorModel,
    /// Spelling in recipes and on command lines.
    name: &'static str,
    variance: VarianceSource,
    spread: SpreadUse,
    /// Explanation for help texts: what follows "`name`: ".
    help: &'static str,
}

/// All error models, in the order in which they are listed in help texts and messages.
#[rustfmt::skip]
static ERROR_MODELS: [ErrorModelRow; 5] = {
    use ErrorModel::{Azimuthal, Hybrid, No, Poisson, Variance};
    use SpreadUse::{Clipping, ClippingAndResult, Nowhere};
    use VarianceSource::{Counts, Image, None};
    [
        ErrorModelRow { model: No, name: "no", variance: None, spread: Nowhere, help: "no errors" },
        ErrorModelRow { model: Poisson, name: "poisson", variance: Counts, spread: Nowhere, help: "from counting statistics" },
        ErrorModelRow { model: Azimuthal, name: "azimuthal", variance: None, spread: ClippingAndResult, help: "from the spread of the pixels in a bin" },
        ErrorModelRow { model: Hybrid, name: "hybrid", variance: Counts, spread: Clipping, help: "azimuthal while clipping, poisson in the result" },
        ErrorModelRow { model: Variance, name: "variance", variance: Image, spread: Nowhere, help: "from --variance" },
    ]
};

impl ErrorModel {
    fn row(self) -> &'static ErrorModelRow {
        ERROR_MODELS.iter().find(|row| row.model == self).expect("each model has a row")
    }

    /// Returns where the variance of a pixel comes from.
    pub fn variance_source(self) -> VarianceSource {
        self.row().variance
    }

    /// Returns where the spread of the pixels in a bin is used in place of their variances.
    pub fn spread_use(self) -> SpreadUse {
        self.row().spread
    }

    /// Returns whether patterns have errors.
    pub fn has_errors(self) -> bool {
        self.variance_source() != VarianceSource::None
            || self.spread_use() == SpreadUse::ClippingAndResult
    }

    /// Returns whether the errors of the result follow from counting statistics.
    pub fn is_counting_statistics(self) -> bool {
        self.variance_source() == VarianceSource::Counts
            && self.spread_use() != SpreadUse::ClippingAndResult
    }

    /// Returns the names of the models for which `is_listed` holds in one line, such as "no,
    /// poisson or hybrid".
    pub fn list(is_listed: impl Fn(Self) -> bool) -> String {
        let rows = ERROR_MODELS.iter().filter(|row| is_listed(row.model));
        let names: Vec<&str> = rows.map(|row| row.name).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => names.concat(),
        }
    }

    /// Returns a sentence for each model that says where errors come from.
    pub fn describe_all() -> String {
        ERROR_MODELS
            .iter()
            .map(|row| format!("`{}`: {}.", row.name, row.help))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl_setting_text!(ErrorModel, ErrorModel::list(|_| true),
    text => ERROR_MODELS.iter().find(|row| row.name == text).map(|row| row.model),
    value => value.row().name);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_row_of_its_own_settings() {
        for (index, row) in ERROR_MODELS.iter().enumerate() {
            assert_eq!(row.name.parse(), Ok(row.model));
            assert_eq!(row.model.to_string(), row.name);
            for other in &ERROR_MODELS[..index] {
                assert_ne!(
                    (row.variance, row.spread),
                    (other.variance, other.spread),
                    "{}",
                    row.name
                );
            }
        }
    }

    #[test]
    fn errors_and_counting_statistics_follow_from_the_settings() {
        assert_eq!(
            ErrorModel::list(ErrorModel::has_errors),
            "poisson, azimuthal, hybrid or variance"
        );
        assert_eq!(ErrorModel::list(ErrorModel::is_counting_statistics), "poisson or hybrid");
    }
}
