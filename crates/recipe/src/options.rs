//! Settings with a fixed set of text values, such as `--split bbox`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The method that splits a pixel among the bins that it overlaps, named as in pyFAI: a setting of
/// a recipe. Crate `binning`, which doesn't know recipes, has the type `PixelSplitting` for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum Split {
    /// No splitting: the whole pixel counts in the bin of its centre.
    No,
    /// Splitting by the overlap of the pixel's bounding box with each bin.
    #[default]
    BBox,
    /// Splitting by the area of the pixel's polygon in each bin.
    Full,
}

/// The mean over the pixels of a bin. s is a pixel's signal, n its normalization (flat field, solid
/// angle, polarization), and c its share in the bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum Mean {
    /// Σ c s / Σ c n, pyFAI's default: pixels count by their normalization, which gives the
    /// smallest errors.
    #[default]
    Weighted,
    /// Σ c (s / n) / Σ c, pyFAI's and azint's unweighted mean: all corrected intensities count
    /// alike.
    Unweighted,
}

/// The measure of spread that a pattern's errors are. V is the variance of the weighted sum of a
/// bin, W the sum of its weights and W₂ the sum of their squares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum ErrorMeasure {
    /// The standard error of the mean, √V / W.
    #[default]
    Sem,
    /// The standard deviation of a pixel, √(V / W₂).
    Std,
}

/// Sets a minimum of one photon for variances, because the estimate from 0 counts would be 0: per
/// pixel, per bin or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum ErrorFloor {
    /// The counts of each pixel, as in pyFAI: the variance of a pixel is max(counts, 1).
    #[default]
    Pixel,
    /// The sum of each bin: the variance of its counts is at least that of one photon.
    Bin,
    /// None: a bin without a photon has an error of 0.
    No,
}

/// The errors of a mean between quantiles (a median).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum MedianError {
    /// The standard deviation that the median would have in repeated frames, estimated from all
    /// pixels of the bin.
    #[default]
    Scatter,
    /// pyFAI's error: that of the mean of the few pixels between the quantiles; for a median, that
    /// of one pixel.
    PyFai,
}

/// The value of a bin without pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum EmptyBinValue {
    /// NaN, which marks that nothing was measured.
    #[default]
    Nan,
    /// Zero, as in pyFAI.
    Zero,
}

/// The pixel values that mark invalid pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum DummySetting {
    /// The detector's own dummy value.
    #[default]
    Auto,
    /// None: every value is valid.
    None,
    /// Values that differ from `value` by at most `delta`.
    Value {
        /// Dummy value.
        value: f64,
        /// Largest difference from `value`; 0 for `value` alone.
        delta: f64,
    },
}

/// The reference by which a monitor is divided, as given by a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum ReferenceSetting {
    /// The mean of the monitor's finite, positive readings in the scan.
    Mean,
    /// A number.
    Value(f64),
    /// The name of another quantity, frame by frame: a counter, `exposure-time` or
    /// `file.h5::/path`.
    Quantity(String),
}

/// The operation by which a flat field is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum FlatMode {
    /// Counts are divided by the flat field, which is the response of the pixels, as in pyFAI.
    #[default]
    Divide,
    /// Counts are multiplied by the flat field, which is a correction factor, as in Dectris files.
    Multiply,
}

/// A text, a number or a list of numbers. TOML has types for them; on a command line all are text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a text, a number or a list of numbers")]
pub(crate) enum SettingValue {
    Text(String),
    Integer(i64),
    Float(f64),
    Numbers(Vec<f64>),
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Numbers(numbers) => {
                f.write_str(&numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Implements parsing and printing of a setting's text, and its conversions for serde. `$expected`
/// lists the valid texts in the error.
macro_rules! impl_setting_text {
    ($type:ident, $expected:expr, $text:ident => $parse:expr, $value:ident => $show:expr) => {
        impl FromStr for $type {
            type Err = String;
            fn from_str($text: &str) -> Result<Self, String> {
                $parse.ok_or_else(|| format!("`{}`: expected {}", $text, $expected))
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $value = self;
                f.write_str(&$show)
            }
        }
        impl TryFrom<SettingValue> for $type {
            type Error = String;
            fn try_from(value: SettingValue) -> Result<Self, String> {
                value.to_string().parse()
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
    };
}

pub(crate) use impl_setting_text;

impl_setting_text!(Split, "no, bbox or full",
    text => match text { "no" => Some(Self::No), "bbox" => Some(Self::BBox), "full" => Some(Self::Full), _ => None },
    value => match value { Self::No => "no", Self::BBox => "bbox", Self::Full => "full" });

impl_setting_text!(Mean, "weighted or unweighted",
    text => match text { "weighted" => Some(Self::Weighted), "unweighted" => Some(Self::Unweighted), _ => None },
    value => match value { Self::Weighted => "weighted", Self::Unweighted => "unweighted" });

impl_setting_text!(ErrorMeasure, "sem or std",
    text => match text { "sem" => Some(Self::Sem), "std" => Some(Self::Std), _ => None },
    value => match value { Self::Sem => "sem", Self::Std => "std" });

impl_setting_text!(ErrorFloor, "pixel, bin or none",
    text => match text { "pixel" => Some(Self::Pixel), "bin" => Some(Self::Bin), "none" => Some(Self::No), _ => None },
    value => match value { Self::Pixel => "pixel", Self::Bin => "bin", Self::No => "none" });

impl_setting_text!(MedianError, "scatter or pyfai",
    text => match text { "scatter" => Some(Self::Scatter), "pyfai" => Some(Self::PyFai), _ => None },
    value => match value { Self::Scatter => "scatter", Self::PyFai => "pyfai" });

impl_setting_text!(EmptyBinValue, "nan or 0",
    text => match text { "nan" | "NaN" => Some(Self::Nan), "0" => Some(Self::Zero), _ => None },
    value => match value { Self::Nan => "nan", Self::Zero => "0" });

impl_setting_text!(DummySetting, "auto, none, VALUE or VALUE,DELTA",
    text => match text { "auto" => Some(Self::Auto), "none" => Some(Self::None), _ => parse_interval(text) },
    value => match value {
        Self::Auto => "auto".to_owned(), Self::None => "none".to_owned(),
        Self::Value { value, delta } => format!("{value},{delta}") });

impl_setting_text!(ReferenceSetting, "mean, a finite number other than 0, or the name of a counter",
    text => match (text, text.parse::<f64>()) {
        ("", _) => None,
        ("mean", _) => Some(Self::Mean),
        (_, Ok(number)) => (number.is_finite() && number != 0.0).then_some(Self::Value(number)),
        (name, Err(_)) => Some(Self::Quantity(name.to_owned())) },
    value => match value {
        Self::Mean => "mean".to_owned(), Self::Value(number) => number.to_string(), Self::Quantity(name) => name.clone() });

impl_setting_text!(FlatMode, "divide or multiply",
    text => match text { "divide" => Some(Self::Divide), "multiply" => Some(Self::Multiply), _ => None },
    value => match value { Self::Divide => "divide", Self::Multiply => "multiply" });

fn parse_interval(text: &str) -> Option<DummySetting> {
    let (value, delta) = text.split_once(',').unwrap_or((text, "0"));
    let (value, delta): (f64, f64) = (value.trim().parse().ok()?, delta.trim().parse().ok()?);
    (value.is_finite() && delta.is_finite() && delta >= 0.0)
        .then_some(DummySetting::Value { value, delta })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed_and_printed() {
        for text in ["no", "bbox", "full"] {
            assert_eq!(text.parse::<Split>().unwrap().to_string(), text);
        }
        for text in ["auto", "none", "-2,0.5", "4294967295,0"] {
            assert_eq!(text.parse::<DummySetting>().unwrap().to_string(), text);
        }
        assert_eq!(
            "-2".parse::<DummySetting>(),
            Ok(DummySetting::Value { value: -2.0, delta: 0.0 })
        );
    }

    #[test]
    fn the_error_for_a_wrong_text_lists_the_valid_ones() {
        assert_eq!("bbx".parse::<Split>().unwrap_err(), "`bbx`: expected no, bbox or full");
        assert!("-2,-1".parse::<DummySetting>().is_err());
        assert!("0".parse::<ReferenceSetting>().is_err());
    }

    #[test]
    fn toml_may_hold_numbers() {
        #[derive(Deserialize)]
        struct Options {
            empty: EmptyBinValue,
            dummy: DummySetting,
            reference: ReferenceSetting,
        }
        let all: Options = toml::from_str("empty = 0\ndummy = -1\nreference = 1e6").unwrap();
        assert_eq!(all.empty, EmptyBinValue::Zero);
        assert_eq!(all.dummy, DummySetting::Value { value: -1.0, delta: 0.0 });
        assert_eq!(all.reference, ReferenceSetting::Value(1e6));
    }
}
