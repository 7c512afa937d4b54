//! Scales from intensities to colours, and the format of numbers on axes.

/// Linear or logarithmic scale that maps intensities to the range 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ColorScale {
    pub low: f64,
    pub high: f64,
    pub log: bool,
}

impl ColorScale {
    /// Creates a scale from the 1st percentile to the 99.5th percentile of the values, so that a single hot value doesn't
    /// darken the rest. The scale is logarithmic if this spans more than a factor of ten.
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

    /// Returns the position of a value between `low` (0) and `high` (1).
    pub fn position(&self, value: f64) -> f64 {
        let (low, high, value) = if self.log {
            (self.low.ln(), self.high.ln(), value.max(self.low).ln())
        } else {
            (self.low, self.high, value)
        };
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Returns round values between the ends: multiples of 1, 2 or 5 times a power of ten, or on a logarithmic scale these numbers
    /// themselves.
    pub fn ticks(&self) -> Vec<f64> {
        let round = |decade: i32| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade));
        let decades = |range: f64| range.abs().log10().floor() as i32;
        if self.log {
            let all = (decades(self.low)..=decades(self.high)).flat_map(round);
            return all.filter(|value| (self.low..=self.high).contains(value)).collect();
        }
        let range = self.high - self.low;
        let steps = (decades(range).saturating_sub(1)..=decades(range)).flat_map(round);
        // The finest step with up to six ticks, which are at least four.
        let Some(step) = steps.into_iter().find(|step| range / step <= 6.0) else { return Vec::new() };
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        (first..=last).map(|multiple| multiple as f64 * step).collect()
    }

    /// Returns the value at a position.
    pub fn value(&self, position: f64) -> f64 {
        if self.log {
            (self.low.ln() + position * (self.high / self.low).ln()).exp()
        } else {
            self.low + position * (self.high - self.low)
        }
    }
}

/// Formats the number of a tick as short as possible: `0.25`, `1500`, `2.5e6`.
pub(super) fn format_tick(value: f64) -> String {
    let plain = (1e-3..1e6).contains(&value.abs()) || value == 0.0;
    let text = if plain { format!("{:.4}", value) } else { format!("{value:.2e}") };
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{}e{exponent}", trim_zeros(digits)),
        None => trim_zeros(&text).to_owned(),
    }
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
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
    fn the_colour_bar_has_round_numbers() {
        let ticks = |low, high, log| ColorScale { low, high, log }.ticks();
        assert_eq!(ticks(0.7, 31.0, true), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(ticks(0.3, 4.7, false), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(-50.0, 230.0, false), [-50.0, 0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks(2.5, 3.5, false), [2.6, 2.8, 3.0, 3.2, 3.4].map(|tick: f64| (tick / 0.2).round() * 0.2));
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(
            [0.25, 1500.0, 2.5e6, 0.0, 1e-5, 1.2].map(format_tick),
            ["0.25", "1500", "2.5e6", "0", "1e-5", "1.2"]
        );
    }
}
