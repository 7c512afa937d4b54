//! Bins along the circle: intervals of chi fall on them in any turn.

use std::f64::consts::TAU;

use crate::bin_edges::BinEdges;

/// Bins of azimuth (rad) that span at most a turn.
#[derive(Clone, Debug)]
pub(crate) struct PeriodicBins {
    ruler: BinEdges,
    /// Where the first bin begins again: what lies beyond on the ruler (its nudge) is in the first bin.
    period_end: f64,
}

impl PeriodicBins {
    /// `bin_edges` begins in [-pi, pi).
    pub fn new(ruler: BinEdges) -> Self {
        let end = ruler.upper().min(ruler.lower() + TAU);
        Self { ruler, period_end: end }
    }

    pub fn edges(&self) -> &BinEdges {
        &self.ruler
    }

    /// The bin that holds `chi`, which is in [-pi, pi].
    #[inline]
    pub fn locate(&self, chi: f64) -> Option<usize> {
        [0.0, TAU, -TAU].into_iter().find_map(|turn| self.ruler.bin_of(chi + turn))
    }

    /// The parts of an interval that lie on the bins, each with the turn that brings it there (rad), in rising order.
    /// They don't overlap, and cover the interval if the bins span the circle.
    #[inline]
    pub fn periodic_images(&self, min: f64, max: f64) -> impl Iterator<Item = (f64, f64, f64)> {
        let (lower, end) = (self.ruler.lower(), self.period_end);
        let first = ((lower - max) / TAU).ceil() as i32;
        let last = ((end - min) / TAU).floor() as i32;
        (first..=last).filter_map(move |turns| {
            let turn = f64::from(turns) * TAU;
            let (min, max) = ((min + turn).max(lower), (max + turn).min(end));
            (max > min).then_some((turn, min, max))
        })
    }

    /// Calls `each(bin, length)` for every bin that the interval `min..max` overlaps in some turn, bins rising.
    #[inline]
    pub fn for_each_overlap(&self, min: f64, max: f64, mut each: impl FnMut(usize, f64)) {
        let mut last: Option<(usize, f64)> = None;
        for (_, min, max) in self.periodic_images(min, max) {
            self.ruler.overlaps(min, max, |bin, length| match &mut last {
                // Two images meet in one bin.
                Some((held, sum)) if *held == bin => *sum += length,
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

    fn overlaps(turn: &PeriodicBins, min: f64, max: f64) -> Vec<(usize, f64)> {
        let mut found = Vec::new();
        turn.for_each_overlap(min, max, |bin, length| found.push((bin, length)));
        found
    }

    #[test]
    fn every_angle_has_a_bin() {
        for (lower, bins) in [(-PI, 4), (0.0, 7), (-1.0, 1), (3.0, 360)] {
            let turn = PeriodicBins::new(BinEdges::uniform(lower, exclusive_upper_limit(lower + TAU), bins));
            for chi in [-PI, -3.0, -1.0, 0.0, 1.0, 3.0, PI] {
                assert!(turn.locate(chi).is_some(), "{chi} from {lower}");
            }
        }
    }

    #[test]
    fn nothing_is_lost_at_the_seam() {
        let turn = circle(6);
        for center in [PI, -PI] {
            let found = overlaps(&turn, center - 0.2, center + 0.3);
            let bins: Vec<usize> = found.iter().map(|(bin, _)| *bin).collect();
            assert_eq!(bins, [0, 5]);
            assert!((found[0].1 - 0.3).abs() < 1e-12 && (found[1].1 - 0.2).abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn images_that_meet_in_a_bin_are_one_entry() {
        let found = overlaps(&circle(1), PI - 0.2, PI + 0.3);
        assert_eq!(found.len(), 1);
        assert!((found[0].1 - 0.5).abs() < 1e-12);
        let whole: f64 = overlaps(&circle(5), 0.5 - PI, 0.5 + PI).iter().map(|(_, length)| length).sum();
        assert!((whole - TAU).abs() < 1e-12);
    }

    #[test]
    fn a_sector_cuts_what_lies_outside() {
        let turn = PeriodicBins::new(BinEdges::uniform(170f64.to_radians(), 190f64.to_radians(), 2));
        let found = overlaps(&turn, -171f64.to_radians(), -169f64.to_radians());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 1);
        assert!((found[0].1.to_degrees() - 1.0).abs() < 1e-9);
        assert_eq!(turn.locate(0.0), None);
    }
}
