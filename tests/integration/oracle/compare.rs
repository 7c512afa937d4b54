//! How far two patterns are apart, and how far they may be.

use std::ops::Range;

use super::azpipe::{Pattern, near_beam};
use super::case::Case;

/// The largest relative differences of a case.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    pub axis: f64,
    pub intensity: f64,
    pub sem: f64,
    pub std: f64,
    /// From shares in double precision, with full splitting.
    pub exact: f64,
    /// Bins compared.
    pub bins: usize,
    /// The bin farthest beyond its tolerance, if there is one.
    pub wrong: Option<String>,
}

/// Compares the bins that can be compared and have weight.
pub fn compare(case: &Case, found: &Pattern) -> Difference {
    assert_eq!(found.axis.len(), case.axis.len(), "bins of case {}", case.number);
    let far = case.axis.iter().fold(0.0_f64, |far, at| far.max(at.abs()));
    let axis =
        found.axis.iter().zip(&case.axis).map(|(a, b)| (a - b).abs() / far).fold(0.0, f64::max);
    let mut difference = Difference { axis, ..Difference::default() };
    // The limits of the axis are corners, if pixels are split.
    let limit = if case.parallax && case.split != "no" { 2e-7 } else { 1e-10 };
    difference.wrong = (axis > limit).then(|| format!("the axis differs by {axis:.1e}"));
    let mut excess = 1.0;
    for bin in comparable_bins(case) {
        let (weight, expected, sem) = (case.weight[bin], case.intensity[bin], case.sem[bin]);
        // Distances from what pyFAI finds, or from the nearest that it might.
        let off = |what: usize, found: f64, expected: f64| match (
            case.low.get(what),
            case.high.get(what),
        ) {
            (Some(low), Some(high)) => found - found.clamp(low[bin], high[bin]),
            _ => found - expected,
        };
        let here = format!("bin {bin} of weight {weight:.3}, at {}", case.axis[bin]);
        if (weight == 0.0) != found.intensity[bin].is_nan() {
            difference.wrong = Some(format!("{here}: {} for {expected}", found.intensity[bin]));
            excess = f64::INFINITY;
        }
        if weight == 0.0 {
            continue;
        }
        // Counts less their dark may cancel, and shares of pixels with many counts and with few
        // make a mean that is known to a part of its error.
        let scale = if case.dark || case.more.contains_key("dark") || case.split == "full" {
            expected.abs().max(sem)
        } else {
            expected
        };
        let of_intensity = relative(off(0, found.intensity[bin], expected), scale);
        // A spread is known to a part of what it is a difference of.
        let floor = if case.error_model.as_deref() == Some("azimuthal") {
            0.1 * expected.abs()
        } else {
            0.0
        };
        let of_sem = relative(off(1, found.sem[bin], sem), sem.max(floor));
        let of_std = case
            .std
            .get(bin)
            .map_or(0.0, |&std| relative(off(2, found.std[bin], std), std.max(floor)));
        difference.bins += 1;
        difference.intensity = difference.intensity.max(of_intensity);
        difference.sem = difference.sem.max(of_sem);
        difference.std = difference.std.max(of_std);
        let mut times = of_intensity.max(of_sem).max(of_std) / tolerance(case, weight);
        if let [intensity, error] = &case.exact[..] {
            let of_intensity = relative(found.intensity[bin] - intensity[bin], scale);
            let off = of_intensity.max(relative(found.sem[bin] - error[bin], sem));
            difference.exact = difference.exact.max(off);
            times = times.max(off / rounding_of_pyfai(case));
        }
        if times > excess {
            excess = times;
            let (intensity, error) = (found.intensity[bin], found.sem[bin]);
            difference.wrong =
                Some(format!("{here}: {intensity:e} for {expected:e}, sem {error:e} for {sem:e}"));
        }
    }
    difference
}

fn relative(difference: f64, scale: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { (difference / scale).abs() }
}

/// How far azpipe may be from exact shares of pixels: its own are stored in single precision, and
/// counts less their dark cancel.
fn rounding_of_pyfai(case: &Case) -> f64 {
    if case.more.contains_key("dark") { 2e-7 } else { 1e-7 }
}

/// 1e-6; with full splitting, where pyFAI sums areas in single precision, 2e-5. That is reached by
/// the mean over some pixels: where there are fewer than four, it is 5e-5, and of corrected counts,
/// some of which cancel, or in spacings, which are large where pixels are narrow, 2e-4. It is pyFAI
/// that is so far from exact shares: see [`exact`].
fn tolerance(case: &Case, weight: f64) -> f64 {
    match (case.split.as_str(), weight < 4.0 || case.median.is_some()) {
        // pyFAI corrects parallax of corners in single precision.
        ("bbox" | "full", _) if case.parallax => 2e-4,
        ("full", _) if !case.more.is_empty() => 2e-4,
        ("full", true) => 5e-5,
        ("full", false) => 2e-5,
        _ => 1e-6,
    }
}

/// The bins in which both mean the same.
fn comparable_bins(case: &Case) -> Range<usize> {
    let mut bins = 0..case.axis.len();
    // Within two pixels of the beam one pixel spans half of all azimuths, and its outline is no
    // polygon.
    if case.split == "full" || case.azimuth_range.is_some() {
        let half = (case.axis[1] - case.axis[0]) / 2.0;
        let reach = near_beam(case);
        let beyond = case.axis.partition_point(|at| at - half <= reach);
        bins.start = bins.start.max(beyond);
    }
    bins
}
