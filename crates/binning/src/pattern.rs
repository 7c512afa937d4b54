//! The shares of one pixel in the bins of a pattern (1-D): without splitting, by bounding box, by its full outline.

use crate::bin_edges::BinEdges;
use crate::csc::CscBlock;
use crate::outline::Outline;
use crate::sector::Sector;

/// The pixel counts whole in the bin of its centre.
#[inline]
pub(crate) fn whole(ruler: &BinEdges, center: f64, entries: &mut CscBlock) {
    if let Some(bin) = ruler.bin_of(center) {
        entries.push(bin, 1.0);
    }
}

/// The pixel is spread evenly over an interval; what lies outside the axis is lost.
#[inline]
pub(crate) fn bounding_box(ruler: &BinEdges, (min, max): (f64, f64), entries: &mut CscBlock) {
    if max > min {
        let scale = 1.0 / (max - min);
        ruler.overlaps(min, max, |bin, length| entries.push(bin, length * scale));
    } else {
        whole(ruler, min, entries);
    }
}

/// Each bin has the share that its strip has in the area of the pixel inside the axis, so that a pixel at the end of
/// the axis counts whole, as in pyFAI.
#[inline]
pub(crate) fn full(
    ruler: &BinEdges,
    sector: Option<&Sector>,
    corners: &[[f32; 2]; 4],
    areas: &mut Vec<f64>,
    entries: &mut CscBlock,
) {
    let Some(outline) = Outline::new(corners) else { return };
    if let Some(sector) = sector {
        let (min, max) = outline.chi_extent();
        if !sector.overlaps(min, max) {
            return;
        }
    }
    let (min, max) = outline.radial_extent();
    let Some(span) = ruler.bins_touched(min, max) else { return };
    if span.first == span.last {
        return entries.push(span.first, 1.0);
    }
    outline.bin_areas(ruler, span, areas);
    areas_to_fractions(areas);
    for (bin, share) in (span.first..).zip(areas.iter()) {
        entries.push(bin, *share);
    }
}

/// Turns signed areas into shares that add up to 1. Where an outline crosses itself, the smaller of its two sides is
/// left out.
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

    /// The shares before they are rounded to f32.
    fn shares(ruler: &BinEdges, corners: &[[f32; 2]; 4]) -> Vec<(usize, f64)> {
        let outline = Outline::new(corners).unwrap();
        let (min, max) = outline.radial_extent();
        let Some(span) = ruler.bins_touched(min, max) else { return Vec::new() };
        let mut areas = Vec::new();
        outline.bin_areas(ruler, span, &mut areas);
        areas_to_fractions(&mut areas);
        (span.first..).zip(areas).collect()
    }

    #[test]
    fn shares_are_exact_areas() {
        let mut random = TestRandom(7);
        let mut compared = 0;
        for _ in 0..40 {
            let place = TestPlacement::random(&mut random);
            let unit = Unit::ALL[random.whole(0, 8)].base();
            let all = place.geometry().corners(unit).unwrap();
            let max = all.iter().flatten().map(|corner| f64::from(corner[0])).fold(0.0, f64::max);
            let npt = random.whole(1, 200);
            let ruler = BinEdges::uniform(random.between(0.0, 0.3) * max, random.between(0.5, 1.1) * max, npt);
            for corners in &all {
                let Some(polygon) = polygon(corners) else { continue };
                let found = shares(&ruler, corners);
                let strip = |bin| area_within(&polygon, [ruler.edge(bin), ruler.edge(bin + 1)], ALL_CHI);
                let total: f64 = found.iter().map(|(bin, _)| strip(*bin)).sum();
                for (bin, share) in &found {
                    // A sliver at the end of the axis is known no better than its corners.
                    let tolerance = 1e-9_f64.max(1e-20 / total.abs());
                    assert!((share - strip(*bin) / total).abs() < tolerance, "{place:?} {unit}: {corners:?} in {bin}");
                    compared += usize::from(*share > 0.0 && *share < 1.0);
                }
            }
        }
        assert!(compared > 50_000, "only {compared} shares");
    }

    #[test]
    fn the_pixel_at_the_beam_centre_reaches_from_zero_to_its_corners() {
        // A square pixel around the centre, its corners at radius 1: below them the area is that of a full disc.
        let corners = [[1.0, -2.5], [1.0, -0.9], [1.0, 0.7], [1.0, 2.2]];
        let found = shares(&BinEdges::uniform(0.0, 2.0, 8), &corners);
        assert_eq!(found.len(), 5);
        for (bin, share) in &found[..4] {
            assert!((share - 0.25).abs() < 1e-12, "{share} in {bin}");
        }
        assert_eq!(found[4].1, 0.0);
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
    fn a_pixel_without_finite_corners_has_no_share() {
        let mut corners = [[1.0, 0.1], [1.0, 0.2], [2.0, 0.2], [2.0, 0.1]];
        corners[2][0] = f32::NAN;
        assert_eq!(Outline::new(&corners), None);
    }
}
