//! Settings that are one of a few words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a pixel's counts are shared among the bins that it overlaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum Split {
    /// Not at all: the bin of the pixel's centre takes them.
    No,
    /// By the length of the pixel's radial bounding box in each bin.
    #[default]
    BBox,
    /// By the area of the pixel's polygon in each bin.
    Full,
}

/// Where the variance of a pixel comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum ErrorModel {
    /// No errors.
    No,
    /// Counting statistics: the variance is the counts, at least 1.
    #[default]
    Poisson,
    /// The spread of the pixels within a bin.
    Azimuthal,
    /// Azimuthal while clipping, Poisson in the result.
    Hybrid,
    /// An image of each pixel's variance.
    Variance,
}

impl ErrorModel {
    /// Returns whether the errors of a result are those of counting photons.
    pub fn is_counting_statistics(self) -> bool {
        matches!(self, Self::Poisson | Self::Hybrid)
    }
}

/// Which measure of spread the errors of a pattern are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum ErrorMeasure {
    /// The standard error of the mean, √V / W.
    #[default]
    Sem,
    /// The standard deviation of a pixel, √(V / W₂).
    Std,
}

/// Which sums of counts have a variance of one photon at the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum ErrorFloor {
    /// Each pixel of each frame, as in pyFAI: the variance of a pixel is max(counts, 1).
    #[default]
    Pixel,
    /// Each bin: its counts have the variance of one photon at the least.
    Bin,
    /// None: a bin without a photon has no error.
    No,
}

/// Which errors a mean between quantiles (a median) has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum MedianError {
    /// By how much the median scatters from frame to frame.
    #[default]
    Scatter,
    /// pyFAI's: that of the mean of the few pixels between the quantiles, for a median that of one pixel.
    PyFai,
}

/// What stands in a bin that no pixel reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum EmptyBinValue {
    /// Not a number: there is no measurement.
    #[default]
    Nan,
    /// Zero, as pyFAI writes.
    Zero,
}

/// Which pixel values mean "no measurement".
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum DummySetting {
    /// What the detector is known to write.
    #[default]
    Auto,
    /// None: every value is a measurement.
    None,
    /// Values no further than `delta` from `value`.
    Value {
        /// The value.
        value: f64,
        /// Half the width of the interval; 0 for the value alone.
        delta: f64,
    },
}

/// What a monitor is divided by, as a user says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum ReferenceSetting {
    /// The mean of the monitor over the scan's frames that have one.
    Mean,
    /// This number.
    Value(f64),
    /// What this names, frame by frame: a counter, `exposure-time` or `file.h5::/path`.
    Quantity(String),
}

/// What becomes of the flat field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub enum FlatMode {
    /// It is the response of the pixels: counts are divided by it, as pyFAI does.
    #[default]
    Divide,
    /// It is the correction, as Dectris detectors hold it: counts are multiplied by it.
    Multiply,
}

/// A word, a number or a few of them, as TOML has them apart and a command line has not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
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
            Self::Numbers(numbers) => f.write_str(&numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

/// Gives a type its words, both ways, and the error that lists them.
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
            fn try_from(word: SettingValue) -> Result<Self, String> {
                word.to_string().parse()
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

impl_setting_text!(ErrorModel, "no, poisson, azimuthal, hybrid or variance",
    text => match text {
        "no" => Some(Self::No), "poisson" => Some(Self::Poisson), "azimuthal" => Some(Self::Azimuthal),
        "hybrid" => Some(Self::Hybrid), "variance" => Some(Self::Variance), _ => None },
    value => match value {
        Self::No => "no", Self::Poisson => "poisson", Self::Azimuthal => "azimuthal",
        Self::Hybrid => "hybrid", Self::Variance => "variance" });

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

impl_setting_text!(ReferenceSetting, "mean, a number that is finite and not 0, or the name of a quantity",
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
    (value.is_finite() && delta.is_finite() && delta >= 0.0).then_some(DummySetting::Value { value, delta })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_both_ways() {
        for text in ["no", "bbox", "full"] {
            assert_eq!(text.parse::<Split>().unwrap().to_string(), text);
        }
        for text in ["auto", "none", "-2,0.5", "4294967295,0"] {
            assert_eq!(text.parse::<DummySetting>().unwrap().to_string(), text);
        }
        assert_eq!("-2".parse::<DummySetting>(), Ok(DummySetting::Value { value: -2.0, delta: 0.0 }));
    }

    #[test]
    fn a_wrong_word_names_the_right_ones() {
        assert_eq!("bbx".parse::<Split>().unwrap_err(), "`bbx`: expected no, bbox or full");
        assert!("-2,-1".parse::<DummySetting>().is_err());
        assert!("0".parse::<ReferenceSetting>().is_err());
    }

    #[test]
    fn toml_may_hold_numbers() {
        #[derive(Deserialize)]
        struct Some3 {
            empty: EmptyBinValue,
            dummy: DummySetting,
            reference: ReferenceSetting,
        }
        let all: Some3 = toml::from_str("empty = 0\ndummy = -1\nreference = 1e6").unwrap();
        assert_eq!(all.empty, EmptyBinValue::Zero);
        assert_eq!(all.dummy, DummySetting::Value { value: -1.0, delta: 0.0 });
        assert_eq!(all.reference, ReferenceSetting::Value(1e6));
    }
}
