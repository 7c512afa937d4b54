//! Columns of numbers, as text formats have them.

use crate::output::{AveragePattern, OutputFile};

/// Formats one line per bin from its position, intensity and error. Bins for which `line` returns
/// `None` are left out.
pub(super) fn format_rows(
    output: &OutputFile,
    pattern: &AveragePattern,
    line: impl Fn(&[f64]) -> Option<String>,
) -> String {
    let mut out = String::new();
    for (bin, (center, intensity)) in
        output.shared.axes.radial.centers.iter().zip(&pattern.intensity).enumerate()
    {
        let error = pattern.errors.as_ref().map(|errors| errors[bin]);
        let columns: Vec<f64> = [*center, *intensity].into_iter().chain(error).collect();
        out.extend(line(&columns).into_iter().flat_map(|line| [line, "\n".to_owned()]));
    }
    out
}

/// Formats a number as C's `%.8e` does, which programs of any age can read.
pub(super) fn format_number(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{value:.8e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) =
                exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_look_as_c_prints_them() {
        assert_eq!(
            [1234.5, -0.00025, 0.0, 1e123].map(super::format_number),
            ["1.23450000e+03", "-2.50000000e-04", "0.00000000e+00", "1.00000000e+123"]
        );
    }
}
