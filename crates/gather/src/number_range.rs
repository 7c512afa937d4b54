//! Ranges of numbers on the command line, as in `10.5,12`.

use crate::messages;

/// Parses two numbers, of which the first is lower.
pub fn parse_range(text: &str) -> Result<[f64; 2], &'static str> {
    let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    text.split_once(',')
        .and_then(|(low, high)| Some([number(low)?, number(high)?]))
        .filter(|[low, high]| low < high)
        .ok_or(messages::range())
}
