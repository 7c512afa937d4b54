//! Averages that reject outliers such as Bragg spots, cosmic rays and hot pixels: sigma clipping
//! and quantile means.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::{SettingValue, impl_setting_text};

/// Default number of iterations, as in pyFAI.
const DEFAULT_MAX_ITER: u32 = 5;
/// Largest valid number of iterations. Pixels that only further iterations would drop are no
/// outliers.
const LARGEST_MAX_ITER: u32 = 1000;

/// Sigma clipping: pixels far from the mean of their bin are dropped and the mean is computed
/// again, repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub struct SigmaClip {
    /// Largest distance from the mean in standard deviations, or Chauvenet's criterion √(2
    /// ln(n/√(2π))) for n pixels if that is larger. 0 stands for Chauvenet's criterion alone.
    pub threshold: f64,
    /// Largest number of iterations.
    pub max_iter: u32,
}

/// The mean of the pixels between two quantiles of their bin's intensities; the median if both are
/// 50.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub struct Quantiles {
    /// Lower quantile in percent, 0 to 100.
    pub low: f64,
    /// Upper quantile in percent, at least `low`.
    pub high: f64,
}

impl_setting_text!(SigmaClip, "T or T,ITERATIONS: T standard deviations (not negative) or chauvenet, 1 to 1000 iterations",
    text => parse_sigma_clip(text),
    value => match value.threshold {
        0.0 => format!("chauvenet,{}", value.max_iter),
        threshold => format!("{threshold},{}", value.max_iter) });

impl_setting_text!(Quantiles, "50 for the median, or LOW,HIGH: percent from 0 to 100, the lower first",
    text => parse_quantiles(text),
    value => format!("{},{}", value.low, value.high));

fn parse_sigma_clip(text: &str) -> Option<SigmaClip> {
    let (threshold, max_iter) = match text.split_once(',') {
        Some((threshold, iterations)) => (threshold, iterations.trim().parse().ok()?),
        None => (text, DEFAULT_MAX_ITER),
    };
    let threshold = match threshold.trim() {
        "chauvenet" => 0.0,
        number => {
            number.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?
        }
    };
    (1..=LARGEST_MAX_ITER).contains(&max_iter).then_some(SigmaClip { threshold, max_iter })
}

fn parse_quantiles(text: &str) -> Option<Quantiles> {
    let (low, high) = text.split_once(',').unwrap_or((text, text));
    let (low, high): (f64, f64) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (0.0 <= low && low <= high && high <= 100.0).then_some(Quantiles { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_five_iterations() {
        assert_eq!("3.5".parse(), Ok(SigmaClip { threshold: 3.5, max_iter: 5 }));
        assert_eq!("chauvenet, 2".parse(), Ok(SigmaClip { threshold: 0.0, max_iter: 2 }));
        for text in ["3.5,5", "chauvenet,2"] {
            assert_eq!(text.parse::<SigmaClip>().unwrap().to_string(), text);
        }
        for wrong in ["-1", "nan", "3,0", "3,1001", "3,2.5", ""] {
            assert!(
                wrong.parse::<SigmaClip>().unwrap_err().contains("expected T or T,ITERATIONS"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn one_number_gives_both_quantiles() {
        assert_eq!("50".parse(), Ok(Quantiles { low: 50.0, high: 50.0 }));
        assert_eq!("25,75".parse::<Quantiles>().unwrap().to_string(), "25,75");
        for wrong in ["75,25", "-1,50", "50,101", "nan", "a"] {
            assert!(wrong.parse::<Quantiles>().unwrap_err().contains("expected 50"), "{wrong}");
        }
    }

    #[test]
    fn toml_may_hold_numbers_and_lists() {
        #[derive(Deserialize)]
        struct Both {
            clip: SigmaClip,
            median: Quantiles,
        }
        let both: Both = toml::from_str("clip = [4, 3]\nmedian = [10, 90.5]").unwrap();
        assert_eq!(both.clip, SigmaClip { threshold: 4.0, max_iter: 3 });
        assert_eq!(both.median, Quantiles { low: 10.0, high: 90.5 });
        let both: Both = toml::from_str("clip = 'chauvenet'\nmedian = 50").unwrap();
        assert_eq!((both.clip.threshold, both.median.high), (0.0, 50.0));
    }
}
