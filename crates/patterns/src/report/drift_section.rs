//! The section of a report about the drift of beam and detector.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::escape_html;
use crate::export::{Drift, LineUse};

/// Returns the displacement in the average and the plot over the frames, a PNG file, as HTML.
pub(super) fn render(drift: &Drift, png: &[u8]) -> String {
    let row = |(name, value, error): (&str, f64, f64)| {
        format!("<tr><th>{name}</th><td>{value:+.1} ± {error:.1} µm</td></tr>\n")
    };
    let rows: String = drift.average_in_micrometres().map(row).collect();
    let calibrant = escape_html(&drift.calibrant);
    let left_out = match drift.describe_left_out() {
        none if none.is_empty() => none,
        left_out => format!(" (without {left_out})"),
    };
    let unseen =
        if drift.has_beam { "" } else { " Patterns without azimuth do not show the beam." };
    let doubt = match drift.doubt() {
        Some(_) => format!(" <strong>The lines may not be those of {calibrant}.</strong>"),
        None => String::new(),
    };
    format!(
        "<p>Displacement of beam and detector by {} of {} lines of {calibrant}{left_out}, in the average of all frames: \
         true value minus that of the PONI file.{unseen}{doubt}</p>\n<table>\n{rows}</table>\n\
         <img alt=\"displacement by {calibrant}\" src=\"data:image/png;base64,{}\">\n",
        drift.count(LineUse::Used),
        drift.lines.len(),
        STANDARD.encode(png)
    )
}
