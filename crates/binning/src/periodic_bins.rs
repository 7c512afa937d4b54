//! Azimuthal bins, which are periodic: chi and chi + 2π fall in the same bin.

use std::f64::consts::TAU;

use crate::bin_edges::BinEdges;

/// Azimuthal bins in radians that span at most a full circle.
#[derive(Clone, Debug)]
pub(crate) struct PeriodicBins {
    edges: BinEdges,
    /// End of the period, at most 2π above the lower edge. The upper edge of a full circle is
    /// slightly beyond it; the part beyond belongs to the first bin.
    period_end: f64,
}

impl PeriodicBins {
    /// Makes periodic bins from edges that begin in [-π, π).
    pub fn new(edges: BinEdges) -> Self {
        let period_end = edges.upper().min(edges.lower() + TAU);
        Self { edges, period_end }
    }

    pub fn edges(&self) -> &BinEdges {
        &self.edges
    }

    /// Returns the bin that holds `chi`, an angle in [-π, π].
    #[inline]
    pub fn find_bin(&self, chi: f64) -> Option<usize> {
        [0.0, TAU, -TAU].into_iter().find_map(|shift| self.edges.find_bin(chi + shift))
    }

    /// Returns the periodic images of the interval `min..max` that lie on the bins, as (shift, min,
    /// max) in rising order: the interval is shifted by a multiple of 2π and clipped to the bins.
    /// Images do not overlap; together they are as long as the interval if the bins span the
    /// circle.
    #[inline]
    pub fn periodic_images(&self, min: f64, max: f64) -> impl Iterator<Item = (f64, f64, f64)> {
        let (lower, end) = (self.edges.lower(), self.period_end);
        let first = ((lower - max) / TAU).ceil() as i32;
        let last = ((end - min) / TAU).floor() as i32;
        (first..=last).filter_map(move |period| {
            let shift = f64::from(period) * TAU;
            let (min, max) = ((min + shift).max(lower), (max + shift).min(end));
            (max > min).then_some((shift, min, max))
        })
    }

    /// Calls `each(bin, length)` for every bin that a periodic image of the interval `min..max`
    /// overlaps, in rising order of bins.
    #[inline]
    pub fn for_each_overlap(&self, min: f64, max: f64, mut each: impl FnMut(usize, f64)) {
        let mut last: Option<(usize, f64)> = None;
        for (_, min, max) in self.periodic_images(min, max) {
            self.edges.for_each_overlap(min, max, |bin, length| match &mut last {
                // Two images overlap the same bin.
                Some((last_bin, sum)) if *last_bin == bin => *sum += length,
                _ => {
                    if let Some((bin, sum)) = last.replace((bin, length)) {
                        each(bin, sum);
                    }
                }
            });
        }
        if let Some((bin, sum)) = last {
            each(bin, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::bin_edges::exclusive_upper_limit;

    fn circle(bins: usize) -> PeriodicBins {
        PeriodicBins::new(BinEdges::uniform(-PI, exclusive_upper_limit(PI), bins))
    }

    fn overlaps(bins: &PeriodicBins, min: f64, max: f64) -> Vec<(usize, f64)> {
        let mut found = Vec::new();
        bins.for_each_overlap(min, max, |bin, length| found.push((bin, length)));
        found
    }

    #[test]
    fn every_angle_has_a_bin() {
        for (lower, bins) in [(-PI, 4), (0.0, 7), (-1.0, 1), (3.0, 360)] {
            let bins = PeriodicBins::new(BinEdges::uniform(
                lower,
                exclusive_upper_limit(lower + TAU),
                bins,
            ));
            for chi in [-PI, -3.0, -1.0, 0.0, 1.0, 3.0, PI] {
                assert!(bins.find_bin(chi).is_some(), "{chi} from {lower}");
            }
        }
    }

    #[test]
    fn nothing_is_lost_at_the_discontinuity() {
        let bins = circle(6);
        for center in [PI, -PI] {
            let found = overlaps(&bins, center - 0.2, center + 0.3);
            let numbers: Vec<usize> = found.iter().map(|(bin, _)| *bin).collect();
            assert_eq!(numbers, [0, 5]);
            assert!(
                (found[0].1 - 0.3).abs() < 1e-12 && (found[1].1 - 0.2).abs() < 1e-12,
                "{found:?}"
            );
        }
    }

    #[test]
    fn images_that_meet_in_a_bin_are_one_entry() {
        let found = overlaps(&circle(1), PI - 0.2, PI + 0.3);
        assert_eq!(found.len(), 1);
        assert!((found[0].1 - 0.5).abs() < 1e-12);
        let whole: f64 =
            overlaps(&circle(5), 0.5 - PI, 0.5 + PI).iter().map(|(_, length)| length).sum();
        assert!((whole - TAU).abs() < 1e-12);
    }

    #[test]
    fn parts_outside_a_sector_are_cut_off() {
        let bins =
            PeriodicBins::new(BinEdges::uniform(170f64.to_radians(), 190f64.to_radians(), 2));
        let found = overlaps(&bins, -171f64.to_radians(), -169f64.to_radians());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 1);
        assert!((found[0].1.to_degrees() - 1.0).abs() < 1e-9);
        assert_eq!(bins.find_bin(0.0), None);
    }
}
