//! Weights of one pixel in the bins of a pattern (1-D), for each kind of pixel splitting.

use crate::bin_edges::BinEdges;
use crate::outline::Outline;
use crate::paired_columns::PairedColumn;

/// Adds the whole pixel to the bin of its centre.
#[inline]
pub(crate) fn no_split(bin_edges: &BinEdges, center: f64, entries: &mut PairedColumn<'_>) {
    if let Some(bin) = bin_edges.find_bin(center) {
        entries.push(bin, 1.0);
    }
}

/// Spreads the pixel evenly over the interval `min..max`. The part outside the axis is lost.
#[inline]
pub(crate) fn bbox_split(
    bin_edges: &BinEdges,
    (min, max): (f64, f64),
    entries: &mut PairedColumn<'_>,
) {
    if max > min {
        let scale = 1.0 / (max - min);
        bin_edges.for_each_overlap(min, max, |bin, length| entries.push(bin, length * scale));
    } else {
        no_split(bin_edges, min, entries);
    }
}

/// Splits the pixel by area: the weight of a bin is the area of the pixel in the bin, divided by
/// its area on the axis. A pixel at the end of the axis therefore counts with a total weight of 1,
/// as in pyFAI.
#[inline]
pub(crate) fn full_split(
    bin_edges: &BinEdges,
    corners: &[[f32; 2]; 4],
    areas: &mut Vec<f64>,
    entries: &mut PairedColumn<'_>,
) {
    let Some(outline) = Outline::new(corners) else { return };
    let Some(span) = outline.bins_touched(bin_edges) else { return };
    match span.last - span.first {
        0 => entries.push(span.first, 1.0),
        // In two bins, the areas stay in registers.
        1 => push_fractions(&outline, bin_edges, span.first, &mut [0.0; 2], entries),
        more => {
            areas.resize(more + 1, 0.0);
            push_fractions(&outline, bin_edges, span.first, areas, entries);
        }
    }
}

/// Adds a pixel to the bins from `first` on, by its area in each of them. `areas` is a buffer of as
/// many.
#[inline(always)]
fn push_fractions(
    outline: &Outline,
    bin_edges: &BinEdges,
    first: usize,
    areas: &mut [f64],
    entries: &mut PairedColumn<'_>,
) {
    outline.bin_areas(bin_edges, first, areas);
    areas_to_fractions(areas);
    for (bin, fraction) in (first..).zip(areas) {
        entries.push(bin, *fraction);
    }
}

/// Turns signed areas into fractions that add up to 1. If an outline crosses itself, the smaller of
/// its two sides is dropped.
#[inline]
pub(crate) fn areas_to_fractions(areas: &mut [f64]) {
    let sign = areas.iter().sum::<f64>().signum();
    areas.iter_mut().for_each(|area| *area = (*area * sign).max(0.0));
    let total: f64 = areas.iter().sum();
    if total > 0.0 {
        areas.iter_mut().for_each(|area| *area /= total);
    }
}

#[cfg(test)]
mod tests {
    use geometry::Unit;

    use super::*;
    use crate::support::{ALL_CHI, TestPlacement, TestRandom, area_within, polygon};

    /// Returns the weights by bin, before they are rounded to f32.
    fn exact_weights(bin_edges: &BinEdges, corners: &[[f32; 2]; 4]) -> Vec<(usize, f64)> {
        let outline = Outline::new(corners).unwrap();
        let Some(span) = outline.bins_touched(bin_edges) else { return Vec::new() };
        let mut areas = vec![0.0; span.last - span.first + 1];
        outline.bin_areas(bin_edges, span.first, &mut areas);
        areas_to_fractions(&mut areas);
        (span.first..).zip(areas).collect()
    }

    #[test]
    fn weights_are_exact_areas() {
        let mut random = TestRandom(7);
        let mut compared = 0;
        for _ in 0..40 {
            let placement = TestPlacement::random(&mut random);
            let unit = Unit::all().nth(random.whole(0, 8)).unwrap().base();
            let all = placement.corners(unit);
            let max = all.iter().flatten().map(|corner| f64::from(corner[0])).fold(0.0, f64::max);
            let npt = random.whole(1, 200);
            let bin_edges = BinEdges::uniform(
                random.between(0.0, 0.3) * max,
                random.between(0.5, 1.1) * max,
                npt,
            );
            for corners in &all {
                let Some(polygon) = polygon(corners) else { continue };
                let found = exact_weights(&bin_edges, corners);
                let strip = |bin| {
                    area_within(&polygon, [bin_edges.edge(bin), bin_edges.edge(bin + 1)], ALL_CHI)
                };
                let total: f64 = found.iter().map(|(bin, _)| strip(*bin)).sum();
                for (bin, weight) in &found {
                    // The area of a sliver at the end of the axis is no more precise than the
                    // corners.
                    let tolerance = 1e-9_f64.max(1e-20 / total.abs());
                    let expected = strip(*bin) / total;
                    assert!(
                        (weight - expected).abs() < tolerance,
                        "{placement:?} {unit}: {corners:?} in {bin}"
                    );
                    compared += usize::from(*weight > 0.0 && *weight < 1.0);
                }
            }
        }
        assert!(compared > 50_000, "only {compared} weights");
    }

    #[test]
    fn the_pixel_at_the_beam_centre_reaches_from_zero_to_its_corners() {
        // A square pixel around the centre with its corners at radius 1: within that radius, it
        // covers every azimuth.
        let corners = [[1.0, -2.5], [1.0, -0.9], [1.0, 0.7], [1.0, 2.2]];
        let found = exact_weights(&BinEdges::uniform(0.0, 2.0, 8), &corners);
        assert_eq!(found.len(), 5);
        for (bin, weight) in &found[..4] {
            assert!((weight - 0.25).abs() < 1e-12, "{weight} in {bin}");
        }
        assert_eq!(found[4].1, 0.0);
    }

    #[test]
    fn the_pixel_at_the_beam_centre_reaches_from_negative_corners_to_zero() {
        // As at an incident angle of -90 degrees, where q_oop is below zero around the centre.
        let corners = [[-1.0, -2.5], [-1.0, -0.9], [-1.0, 0.7], [-1.0, 2.2]];
        let found = exact_weights(&BinEdges::uniform(-2.0, 2.0, 16), &corners);
        let covered: Vec<usize> =
            found.iter().filter(|(_, weight)| *weight > 0.0).map(|(bin, _)| *bin).collect();
        assert_eq!(covered, [4, 5, 6, 7]);
        for (bin, weight) in &found[..4] {
            assert!((weight - 0.25).abs() < 1e-12, "{weight} in {bin}");
        }
        // Also where the axis begins above the corners.
        let found = exact_weights(&BinEdges::uniform(-0.5, 0.5, 4), &corners);
        assert_eq!(found.iter().map(|(bin, _)| *bin).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn an_outline_that_crosses_itself_keeps_its_larger_side() {
        for sign in [1.0, -1.0] {
            let mut areas = [3.0, -0.5, 1.0].map(|area| area * sign);
            areas_to_fractions(&mut areas);
            assert_eq!(areas, [0.75, 0.0, 0.25]);
        }
    }

    #[test]
    fn a_pixel_without_finite_corners_has_no_outline() {
        let mut corners = [[1.0, 0.1], [1.0, 0.2], [2.0, 0.2], [2.0, 0.1]];
        corners[2][0] = f32::NAN;
        assert_eq!(Outline::new(&corners), None);
    }
}
