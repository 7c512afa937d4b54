//! Scales from values to positions on an axis or in a colour map, with round ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// Function that a scale is linear in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaleKind {
    Linear,
    Sqrt,
    Log,
}

/// Scale that maps values from `low` to `high` to the range 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ValueScale {
    pub low: f64,
    pub high: f64,
    pub kind: ScaleKind,
    /// Smallest distance of ticks: 1 for numbers of frames, 0 for measured values.
    pub least_step: f64,
}

impl ValueScale {
    /// Creates a linear scale.
    pub fn linear(low: f64, high: f64) -> Self {
        Self { low, high, kind: ScaleKind::Linear, least_step: 0.0 }
    }

    /// Creates a scale from the 1st percentile to the 99.5th percentile of the values, so that a
    /// single hot value doesn't darken the rest. The scale is logarithmic if this spans more than a
    /// factor of ten, and a square root if it begins at 0 and half of the values are within the
    /// lowest tenth.
    pub fn from_values(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        if values.is_empty() {
            return Self::linear(0.0, 1.0);
        }
        values.sort_by(f64::total_cmp);
        let at =
            |share: f64| values[(values.len().saturating_sub(1) as f64 * share).round() as usize];
        let (low, middle, high) = (at(0.01), at(0.5), at(0.995));
        let kind = if low > 0.0 && high > 10.0 * low {
            ScaleKind::Log
        } else if low >= 0.0 && high > 10.0 * middle {
            ScaleKind::Sqrt
        } else {
            ScaleKind::Linear
        };
        if high > low {
            Self { kind, ..Self::linear(low, high) }
        } else {
            Self::linear(low - 0.5, low + 0.5)
        }
    }

    /// Creates the scale of an axis that shows all of the values with a margin. It is logarithmic
    /// if all values are positive and they span more than a factor of 300.
    pub fn of_axis(values: impl Iterator<Item = f64>) -> Self {
        let range = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), range);
        if low > 0.0 && high > 300.0 * low {
            let margin = (high / low).powf(0.05);
            return Self { kind: ScaleKind::Log, ..Self::linear(low / margin, high * margin) };
        }
        // A constant is in the middle of its axis; without any value, the axis is that of 1.
        let constant = if low.is_finite() { low } else { 1.0 };
        let half = if constant == 0.0 { 1.0 } else { constant.abs() * 0.5 };
        let (low, high) = if low < high { (low, high) } else { (constant - half, constant + half) };
        let margin = (high - low) * 0.05;
        Self::linear(low - margin, high + margin)
    }

    /// Returns the linear scale of the same range.
    pub fn to_linear(self) -> Self {
        Self { kind: ScaleKind::Linear, ..self }
    }

    /// Returns the position of a value between `low` (0) and `high` (1).
    pub fn position(&self, value: f64) -> f64 {
        let [low, high, value] =
            [self.low, self.high, value.max(self.low)].map(|value| self.transform(value));
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }

    fn transform(&self, value: f64) -> f64 {
        match self.kind {
            ScaleKind::Linear => value,
            ScaleKind::Sqrt => value.max(0.0).sqrt(),
            ScaleKind::Log => value.ln(),
        }
    }

    /// Returns round values between the ends: multiples of 1, 2 or 5 times a power of ten, or on a
    /// logarithmic scale these numbers themselves, or powers of ten alone if there are many.
    pub fn ticks(&self) -> Vec<f64> {
        let decades = |range: f64| range.abs().log10().floor() as i32;
        let within = |value: &f64| (self.low..=self.high).contains(value);
        if self.kind == ScaleKind::Log {
            let (first, last) = (decades(self.low), decades(self.high));
            let numbers = |digits: &'static [f64]| {
                let all = (first..=last)
                    .flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
                all.filter(within).collect::<Vec<f64>>()
            };
            let ticks = numbers(&[1.0, 2.0, 5.0]);
            return if ticks.len() > 8 { numbers(&[1.0]) } else { ticks };
        }
        let round = |decade: i32| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade));
        let range = self.high - self.low;
        let steps = (decades(range).saturating_sub(1)..=decades(range)).flat_map(round);
        // The finest step with up to six ticks, which are at least four.
        let Some(step) =
            steps.map(|step| step.max(self.least_step)).find(|step| range / step <= 6.0)
        else {
            return Vec::new();
        };
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        (first..=last).map(|multiple| multiple as f64 * step).collect()
    }

    /// Returns the value at a position.
    pub fn value(&self, position: f64) -> f64 {
        let [low, high] = [self.low, self.high].map(|value| self.transform(value));
        let value = low + position * (high - low);
        match self.kind {
            ScaleKind::Linear => value,
            ScaleKind::Sqrt => value * value,
            ScaleKind::Log => value.exp(),
        }
    }
}

/// The scale as an axis of a plot.
impl Ranged for ValueScale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        (f64::from(from) + self.position(*value) * (f64::from(to) - f64::from(from))).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for ValueScale {
    fn format(value: &f64) -> String {
        format_tick(*value)
    }
}

/// Formats the number of a tick as short as possible: `0.25`, `1500`, `2.5×10⁶`.
pub(super) fn format_tick(value: f64) -> String {
    let plain = (1e-3..1e5).contains(&value.abs()) || value == 0.0;
    let text = if plain { format!("{value:.4}") } else { format!("{value:.2e}") };
    match text.split_once('e') {
        Some((digits, exponent)) => match trim_zeros(digits) {
            "1" => format!("10{}", superscript(exponent)),
            digits => format!("{digits}×10{}", superscript(exponent)),
        },
        None => trim_zeros(&text).to_owned(),
    }
}

fn superscript(number: &str) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raise = |char: char| char.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    number.chars().map(raise).collect()
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_is_logarithmic_and_one_with_zeros_a_root() {
        let wide = ValueScale::from_values((1..=1000).map(f64::from));
        assert!(
            wide.kind == ScaleKind::Log && wide.position(1e9) == 1.0 && wide.position(0.0) == 0.0
        );
        assert!((wide.value(wide.position(100.0)) - 100.0).abs() < 1e-9);
        let sparse =
            ValueScale::from_values((0..1000).map(|number| f64::from(number / 100).powi(4)));
        assert_eq!(sparse.kind, ScaleKind::Sqrt);
        assert!((sparse.value(sparse.position(100.0)) - 100.0).abs() < 1e-9);
        let negative = ValueScale::from_values((-500..500).map(f64::from));
        assert_eq!((negative.kind, negative.position(-1e3)), (ScaleKind::Linear, 0.0));
        let flat = ValueScale::from_values([3.0, 3.0, f64::NAN].into_iter());
        assert_eq!((flat.kind, flat.position(3.0)), (ScaleKind::Linear, 0.5));
        assert_eq!(ValueScale::from_values(std::iter::empty()).position(0.5), 0.5);
    }

    #[test]
    fn ticks_are_round() {
        let ticks = |low, high, kind| ValueScale { kind, ..ValueScale::linear(low, high) }.ticks();
        assert_eq!(ticks(0.7, 31.0, ScaleKind::Log), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(ticks(0.5, 3e4, ScaleKind::Log), [1.0, 10.0, 100.0, 1e3, 1e4]);
        assert_eq!(ticks(0.3, 4.7, ScaleKind::Linear), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(-50.0, 230.0, ScaleKind::Linear), [-50.0, 0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(
            ticks(2.5, 3.5, ScaleKind::Linear),
            [2.6, 2.8, 3.0, 3.2, 3.4].map(|tick: f64| (tick / 0.2).round() * 0.2)
        );
        assert_eq!(
            ValueScale { least_step: 1.0, ..ValueScale::linear(-0.5, 2.5) }.ticks(),
            [0.0, 1.0, 2.0]
        );
    }

    #[test]
    fn the_numbers_of_ticks_are_short() {
        assert_eq!(
            [0.25, 1500.0, 2.5e6, 0.0, 1e-5, 1.2].map(format_tick),
            ["0.25", "1500", "2.5×10⁶", "0", "10⁻⁵", "1.2"]
        );
    }
}
