//! The shares of one pixel in the bins of a pattern (1-D): without splitting, by bounding box, by its full outline.

use crate::csc::Entries;
use crate::outline::Outline;
use crate::ruler::Ruler;
use crate::sector::Sector;

/// The pixel counts whole in the bin of its centre.
#[inline]
pub(crate) fn whole(ruler: &Ruler, center: f64, entries: &mut Entries) {
    if let Some(bin) = ruler.locate(center) {
        entries.push(bin, 1.0);
    }
}

/// The pixel is spread evenly over an interval; what lies outside the axis is lost.
#[inline]
pub(crate) fn bounding_box(ruler: &Ruler, (min, max): (f64, f64), entries: &mut Entries) {
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
    ruler: &Ruler,
    sector: Option<&Sector>,
    corners: &[[f32; 2]; 4],
    areas: &mut Vec<f64>,
    entries: &mut Entries,
) {
    let Some(outline) = Outline::new(corners) else { return };
    if let Some(sector) = sector {
        let (min, max) = outline.chi_extent();
        if !sector.overlaps(min, max) {
            return;
        }
    }
    let (min, max) = outline.radial_extent();
    let Some(span) = ruler.span(min, max) else { return };
    if span.first == span.last {
        return entries.push(span.first, 1.0);
    }
    outline.strips(ruler, span, areas);
    normalize(areas);
    for (bin, share) in (span.first..).zip(areas.iter()) {
        entries.push(bin, *share);
    }
}

/// Turns signed areas into shares that add up to 1. Where an outline crosses itself, the smaller of its two sides is
/// left out.
pub(crate) fn normalize(areas: &mut [f64]) {
    let sign = areas.iter().sum::<f64>().signum();
    areas.iter_mut().for_each(|area| *area = (*area * sign).max(0.0));
    let total: f64 = areas.iter().sum();
    if total > 0.0 {
        areas.iter_mut().for_each(|area| *area /= total);
    }
}
