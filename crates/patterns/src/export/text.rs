//! Text formats with columns.

use std::fmt::Write as _;
use std::path::Path;

use crate::output::{AveragePattern, OutputFile};

/// Formats columns without a header: position, intensity and, with an error model, error. Bins without data, or without an error
/// above zero, are left out, because a refinement can't weight them.
pub(super) fn format_xye(output: &OutputFile, pattern: &AveragePattern) -> String {
    format_rows(output, pattern, |columns| {
        let is_measured = columns[1].is_finite() && columns.get(2).is_none_or(|error| *error > 0.0);
        is_measured.then(|| columns.iter().map(|value| format_number(*value)).collect::<Vec<_>>().join(" "))
    })
}

/// Formats columns under a header, with one line per bin.
pub(super) fn format_dat(output: &OutputFile, pattern: &AveragePattern) -> String {
    let column = |value: &f64| format!("{:>14}", format_number(*value));
    let header = format_header(output, pattern);
    header + &format_rows(output, pattern, |columns| Some(columns.iter().map(column).collect::<Vec<_>>().join("  ")))
}

/// Formats a line of names, and one line per bin.
pub(super) fn format_csv(output: &OutputFile, pattern: &AveragePattern) -> String {
    let error = if pattern.errors.is_some() { ",error" } else { "" };
    let header = format!("{},intensity{error}\n", output.shared.axes.radial.name);
    header
        + &format_rows(output, pattern, |columns| {
            Some(columns.iter().map(|value| format_number(*value)).collect::<Vec<_>>().join(","))
        })
}

/// Formats one line per bin from its position, intensity and error. Bins for which `line` returns `None` are left out.
fn format_rows(output: &OutputFile, pattern: &AveragePattern, line: impl Fn(&[f64]) -> Option<String>) -> String {
    let mut out = String::new();
    for (bin, (center, intensity)) in output.shared.axes.radial.centers.iter().zip(&pattern.intensity).enumerate() {
        let error = pattern.errors.as_ref().map(|errors| errors[bin]);
        let columns: Vec<f64> = [*center, *intensity].into_iter().chain(error).collect();
        out.extend(line(&columns).into_iter().flat_map(|line| [line, "\n".to_owned()]));
    }
    out
}

fn format_header(output: &OutputFile, pattern: &AveragePattern) -> String {
    let (axis, scan) = (&output.shared.axes.radial, &output.task.acquisition);
    let mut header = String::new();
    let mut line = |text: &str| writeln!(header, "# {text}").expect("a string takes all text");
    line(&format!("== {}, azpipe {} ==", describe_average(output, pattern), env!("CARGO_PKG_VERSION")));
    line(&format!("File: {}", one_line(&scan.file)));
    line(&format!("Entry: {} Detector: {}", scan.entry, scan.detector));
    output.recipe.poni.lines().for_each(|text| line(text.trim_start_matches(['#', ' '])));
    line(&format!("Recipe digest: {}", output.task.recipe_digest));
    let error = if pattern.errors.is_some() { format!("{:>14}", "sigma") } else { String::new() };
    line(&format!("{:>12}  {:>14}  {error}", axis.label(), "I"));
    header
}

/// Describes an average pattern, such as `mean of 60 frames`.
pub(super) fn describe_average(output: &OutputFile, pattern: &AveragePattern) -> String {
    let method = output.averaged.as_ref().map_or("", |averaged| averaged.average.method.name());
    let plural = if pattern.frames == 1 { "" } else { "s" };
    format!("{method} of {} frame{plural}", pattern.frames)
}

pub(super) fn one_line(path: &Path) -> String {
    path.to_string_lossy().replace(['\n', '\r'], " ")
}

/// Formats a number as C's `%.8e` does, which programs of any age can read.
pub(super) fn format_number(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{value:.8e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
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
