//! Numbers in messages.

/// Formats a number for a message: very large and very small ones with an exponent, because
/// hundreds of digits can't be read.
pub fn format_number(value: f64) -> String {
    let has_few_digits = value == 0.0 || (1e-4..1e10).contains(&value.abs());
    if has_few_digits || !value.is_finite() { value.to_string() } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_has_hundreds_of_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-1.5, "-1.5"),
            (3e9, "3000000000"),
            (1e300, "1e300"),
            (-1e-320, "-1e-320"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_number(value), text);
        }
    }
}
