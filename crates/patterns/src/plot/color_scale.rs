//! From intensities to colours and to ranges of axes.

/// Maps intensities to 0 to 1, so that the weak lines show beside the strong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ColorScale {
    pub low: f64,
    pub high: f64,
    pub log: bool,
}

impl ColorScale {
    /// From the hundredth weakest to the two-hundredth strongest value, so that a hot cell does not
    /// darken the rest; logarithmic where that spans more than a factor of ten.
    pub fn from_values(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        if values.is_empty() {
            return Self { low: 0.0, high: 1.0, log: false };
        }
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[(values.len().saturating_sub(1) as f64 * share).round() as usize];
        let (low, high) = (at(0.01), at(0.995));
        match (low > 0.0 && high > 10.0 * low, high > low) {
            (log, true) => Self { low, high, log },
            (_, false) => Self { low: low - 0.5, high: low + 0.5, log: false },
        }
    }

    /// Where a value lies between low and high.
    pub fn position(&self, value: f64) -> f64 {
        let (low, high, value) = match self.log {
            true => (self.low.ln(), self.high.ln(), value.max(self.low).ln()),
            false => (self.low, self.high, value),
        };
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The value at a position.
    pub fn value(&self, position: f64) -> f64 {
        match self.log {
            true => (self.low.ln() + position * (self.high / self.low).ln()).exp(),
            false => self.low + position * (self.high - self.low),
        }
    }
}

/// A number as short as it can be read beside a tick: `0.25`, `1500`, `2.5e6`.
pub(super) fn format_tick(value: f64) -> String {
    let plain = (1e-3..1e6).contains(&value.abs()) || value == 0.0;
    let text = if plain { format!("{:.4}", value) } else { format!("{value:.2e}") };
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{}e{exponent}", trim_zeros(digits)),
        None => trim_zeros(&text).to_owned(),
    }
}

fn trim_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_is_logarithmic() {
        let wide = ColorScale::from_values((1..=1000).map(f64::from));
        assert!(wide.log && wide.position(1e9) == 1.0 && wide.position(0.0) == 0.0);
        assert!((wide.value(wide.position(100.0)) - 100.0).abs() < 1e-9);
        let flat = ColorScale::from_values([3.0, 3.0, f64::NAN].into_iter());
        assert_eq!((flat.log, flat.position(3.0)), (false, 0.5));
        assert_eq!(ColorScale::from_values(std::iter::empty()).position(0.5), 0.5);
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(
            [0.25, 1500.0, 2.5e6, 0.0, 1e-5, 1.2].map(format_tick),
            ["0.25", "1500", "2.5e6", "0", "1e-5", "1.2"]
        );
    }
}
