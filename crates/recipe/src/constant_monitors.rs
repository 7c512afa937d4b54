//! Checks monitors and references that are numbers: a recipe whose numbers alone make patterns
//! impossible is refused before any frame is integrated.

use std::ops::RangeInclusive;

use geometry::format_number;

use crate::{Monitor, MonitorReference, Quantity, Recipe, RecipeError};

/// Ratios of monitor and reference that patterns can be divided by: 32-bit counts over these ratios
/// are normal f32 numbers.
pub const VALID_MONITOR_RATIOS: RangeInclusive<f64> = 1e-28..=1e28;

/// Factors that a quantity of 32-bit floats, such as a counter, can bring into
/// [`VALID_MONITOR_RATIOS`], by absolute value: a counter may be negative.
const VALID_FACTORS: RangeInclusive<f64> = 1e-66..=1e66;

impl Recipe {
    /// Checks the product of all monitors that are numbers over that of all references that are.
    ///
    /// # Errors
    /// Patterns can't be divided by the product, whatever the other quantities are.
    pub(crate) fn validate_constant_monitors(&self) -> Result<(), RecipeError> {
        let quantities = self.monitor.iter().map(|monitor| Some(&monitor.quantity));
        let references = self.monitor.iter().map(|monitor| match &monitor.reference {
            MonitorReference::Mean => None,
            MonitorReference::Quantity(reference) => Some(reference),
        });
        let is_number = |quantity: &Quantity| matches!(quantity, Quantity::Number(_));
        let are_all_numbers = quantities.clone().chain(references.clone()).flatten().all(is_number);
        let ratio = product_of_numbers(quantities) / product_of_numbers(references);
        let (is_valid, expected) = if are_all_numbers {
            (VALID_MONITOR_RATIOS.contains(&ratio), "a positive number from 1e-28 to 1e28")
        } else {
            let expected = "a number from 1e-66 to 1e66, or its negative";
            (VALID_FACTORS.contains(&ratio.abs()), expected)
        };
        if is_valid {
            return Ok(());
        }
        let names: Vec<String> = self.monitor.iter().filter_map(describe_numbers).collect();
        let names = names.join(" x ");
        let product = format_number(ratio);
        let what = if names == product { names } else { format!("{names}: {product}") };
        let why = format!("{what}: expected {expected}, by which intensities can be divided");
        Err(RecipeError::Setting { key: "monitor", why })
    }
}

fn product_of_numbers<'a>(quantities: impl Iterator<Item = Option<&'a Quantity>>) -> f64 {
    let number = |quantity: Option<&Quantity>| match quantity {
        Some(Quantity::Number(number)) => *number,
        _ => 1.0,
    };
    quantities.map(number).product()
}

/// Describes the numbers of a monitor and its reference; `None` if it has none but the default
/// reference 1.
fn describe_numbers(monitor: &Monitor) -> Option<String> {
    let reference = match &monitor.reference {
        MonitorReference::Quantity(Quantity::Number(number)) if *number != 1.0 => Some(number),
        _ => None,
    };
    match (&monitor.quantity, reference) {
        (Quantity::Number(number), None) => Some(format_number(*number)),
        (Quantity::Number(number), Some(reference)) => {
            Some(format!("{} / {}", format_number(*number), format_number(*reference)))
        }
        (quantity, Some(reference)) => {
            Some(format!("{} / {}", quantity.name(), format_number(*reference)))
        }
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{OneOrMany, Recipe, Settings};

    fn resolve(monitors: &[&str], references: &[&str]) -> Result<Recipe, String> {
        let text = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let monitor = text(monitors).into_iter().map(crate::MonitorSetting::Name).collect();
        let reference = text(references).iter().map(|name| name.parse().unwrap()).collect();
        let settings = Settings {
            geometry: Some("Distance: 1".to_owned()),
            monitor: OneOrMany::from_items(monitor),
            monitor_reference: OneOrMany::from_items(reference),
            ..Settings::default()
        };
        Recipe::resolve(&settings).map_err(|why| why.to_string())
    }

    #[test]
    fn numbers_by_which_no_pattern_can_be_divided_are_refused() {
        let refuse = |monitors: &[&str], references: &[&str]| {
            resolve(monitors, references).expect_err(&format!("{monitors:?} {references:?}"))
        };
        assert_eq!(
            refuse(&["-1"], &[]),
            "monitor: -1: expected a positive number from 1e-28 to 1e28, by which intensities can be divided"
        );
        assert!(refuse(&["1e-320"], &[]).starts_with("monitor: 1e-320: expected a positive"));
        let product = refuse(&["1e308", "1e308"], &[]);
        assert!(product.starts_with("monitor: 1e308 x 1e308: inf: expected"), "{product}");
        refuse(&["1e20"], &["1e-20"]);
        refuse(&["1e200", "1e200"], &["1e200", "1e200"]);
        refuse(&["-1"], &["mean"]);
        refuse(&["counter"], &["1e-320"]);
        let product = refuse(&["1e300", "1e300", "counter"], &[]);
        assert!(product.contains("1e-66 to 1e66"), "{product}");
    }

    #[test]
    fn other_numbers_are_accepted() {
        for (monitors, references) in [
            (&["2.5"][..], &[][..]),
            (&["-2"], &["-4"]),
            (&["1e28"], &[]),
            (&["1e200", "1e-200"], &[]),
            (&["-1", "counter"], &[]),
            (&["counter"], &["-1000"]),
            (&["2"], &["mean"]),
            (&["counter"], &["exposure-time"]),
        ] {
            resolve(monitors, references).unwrap_or_else(|why| panic!("{why}"));
        }
    }
}
