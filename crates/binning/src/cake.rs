//! The shares of one pixel in the bins of a cake (2-D): without splitting, by bounding box, by its full outline.
//!
//! Bins are numbered azimuthal * radial bins + radial. A pixel across the discontinuity of chi is in the bins on both
//! sides of it, where pyFAI keeps it on one side.

use crate::bin_edges::BinEdges;
use crate::csc::CscBlock;
use crate::outline::Outline;
use crate::pattern::areas_to_fractions;
use crate::periodic_bins::PeriodicBins;
use crate::polygon::{Polygon, clip_between, signed_area};

/// The two axes of a cake.
pub(crate) struct CakeGrid {
    pub radial: BinEdges,
    pub azimuthal: PeriodicBins,
}

impl CakeGrid {
    fn bin_index(&self, azimuthal: usize, radial: usize) -> usize {
        azimuthal * self.radial.bin_count() + radial
    }

    /// The number of bins.
    pub fn bin_count(&self) -> usize {
        self.bin_index(self.azimuthal.edges().bin_count(), 0)
    }

    /// The pixel counts whole in the bin of its centre.
    #[inline]
    pub fn no_split(&self, radial: f64, chi: f64, entries: &mut CscBlock) {
        if let (Some(radial), Some(azimuthal)) = (self.radial.bin_of(radial), self.azimuthal.locate(chi)) {
            entries.push(self.bin_index(azimuthal, radial), 1.0);
        }
    }

    /// The pixel is spread evenly over the rectangle of the two intervals; what lies outside the axes is lost.
    #[inline]
    pub fn bbox_split(&self, radial: (f64, f64), chi: (f64, f64), entries: &mut CscBlock) {
        let size = (radial.1 - radial.0) * (chi.1 - chi.0);
        if size > 0.0 {
            self.azimuthal.for_each_overlap(chi.0, chi.1, |azimuthal, height| {
                self.radial.overlaps(radial.0, radial.1, |radial, width| {
                    entries.push(self.bin_index(azimuthal, radial), width * height / size);
                });
            });
        } else {
            self.no_split(0.5 * (radial.0 + radial.1), 0.5 * (chi.0 + chi.1), entries);
        }
    }

    /// Each bin has the share that its piece has in the area of the pixel on the grid, so that a pixel at the end of an
    /// axis counts whole.
    pub fn full_split(&self, corners: &[[f32; 2]; 4], room: &mut CutScratch, entries: &mut CscBlock) {
        self.cut_at_bin_edges(corners, room);
        room.areas_to_shares();
        for (bin, share) in room.bins.iter().zip(&room.shares) {
            entries.push(*bin, *share);
        }
    }

    /// Cuts a pixel at the edges of the bins.
    fn cut_at_bin_edges(&self, corners: &[[f32; 2]; 4], room: &mut CutScratch) {
        room.pieces.clear();
        let Some(outline) = Outline::new(corners) else { return };
        let (min, max) = outline.radial_extent();
        let Some(columns) = self.radial.bins_touched(min, max) else { return };
        let ruler = self.azimuthal.edges();
        let (min, max) = outline.chi_extent();
        for radial in columns.first..=columns.last {
            let (left, right) = (self.radial.edge(radial), self.radial.edge(radial + 1));
            clip_between(outline.points(), 0, left, right, &mut room.half, &mut room.column);
            for (turn, min, max) in self.azimuthal.periodic_images(min, max) {
                let Some(rows) = ruler.bins_touched(min, max) else { continue };
                let origin = outline.chi() + turn;
                for azimuthal in rows.first..=rows.last {
                    let (bottom, top) = (ruler.edge(azimuthal).max(min), ruler.edge(azimuthal + 1).min(max));
                    clip_between(&room.column, 1, bottom - origin, top - origin, &mut room.half, &mut room.cell);
                    room.pieces.push((self.bin_index(azimuthal, radial), signed_area(&room.cell)));
                }
            }
        }
    }
}

/// Room to cut one pixel in.
#[derive(Default)]
pub(crate) struct CutScratch {
    half: Polygon,
    column: Polygon,
    cell: Polygon,
    /// Bins and signed areas; a bin may be there twice, from two turns.
    pieces: Vec<(usize, f64)>,
    /// The bins found, rising, and the share of each.
    bins: Vec<usize>,
    shares: Vec<f64>,
}

impl CutScratch {
    /// Brings the pieces found in order and turns their areas into shares.
    fn areas_to_shares(&mut self) {
        self.pieces.sort_unstable_by_key(|(bin, _)| *bin);
        self.bins.clear();
        self.shares.clear();
        for (bin, area) in &self.pieces {
            match self.shares.last_mut() {
                Some(sum) if self.bins.last() == Some(bin) => *sum += area,
                _ => {
                    self.bins.push(*bin);
                    self.shares.push(*area);
                }
            }
        }
        match &mut self.shares[..] {
            // All in one bin, whatever its area.
            [share] => *share = 1.0,
            shares => areas_to_fractions(shares),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{PI, TAU};

    use geometry::Unit;

    use super::*;
    use crate::bin_edges::exclusive_upper_limit;
    use crate::support::{TestPlacement, TestRandom, area_within, polygon};

    /// The exact area of a polygon in a bin, in all turns. The circle ends where it begins, before the nudge.
    fn exact(grid: &CakeGrid, polygon: &[[f64; 2]], bin: usize) -> f64 {
        let (radial, chi) = (bin % grid.radial.bin_count(), bin / grid.radial.bin_count());
        let ruler = grid.azimuthal.edges();
        let top = ruler.edge(chi + 1).min(ruler.lower() + TAU);
        let columns = [grid.radial.edge(radial), grid.radial.edge(radial + 1)];
        [-TAU, 0.0, TAU].map(|turn| area_within(polygon, columns, [ruler.edge(chi) - turn, top - turn])).iter().sum()
    }

    #[test]
    fn shares_are_exact_areas() {
        let mut random = TestRandom(8);
        let (mut compared, mut at_the_seam) = (0, 0);
        for _ in 0..25 {
            let place = TestPlacement::random(&mut random);
            let unit = Unit::ALL[random.whole(0, 8)].base();
            let all = place.geometry().corners(unit).unwrap();
            let max = all.iter().flatten().map(|corner| f64::from(corner[0])).fold(0.0, f64::max);
            let radial = BinEdges::uniform(random.between(0.0, 0.3) * max, random.between(0.5, 1.1) * max, 40);
            let start = random.between(-PI, PI);
            let end = [start + TAU, random.between(start + 0.1, start + 6.0)][random.whole(0, 2)];
            let azimuthal =
                PeriodicBins::new(BinEdges::uniform(start, exclusive_upper_limit(end), random.whole(1, 90)));
            let grid = CakeGrid { radial, azimuthal };
            let mut room = CutScratch::default();
            for corners in &all {
                let Some(polygon) = polygon(corners) else { continue };
                grid.cut_at_bin_edges(corners, &mut room);
                room.areas_to_shares();
                let total: f64 = room.bins.iter().map(|bin| exact(&grid, &polygon, *bin)).sum();
                for (bin, share) in room.bins.iter().zip(&room.shares) {
                    let tolerance = 1e-9_f64.max(1e-18 / total.abs());
                    let expected = exact(&grid, &polygon, *bin) / total;
                    assert!(
                        (share - expected).abs() < tolerance,
                        "{place:?}: {corners:?} in {bin}: {share} {expected}"
                    );
                    compared += usize::from(*share > 0.0 && *share < 1.0);
                }
                assert!(room.bins.is_sorted_by(|a, b| a < b));
                at_the_seam += usize::from(
                    room.bins.len() > 1 && room.bins[0] + grid.bin_count() / 2 < *room.bins.last().unwrap(),
                );
            }
        }
        assert!(compared > 20_000 && at_the_seam > 50, "only {compared} shares, {at_the_seam} pixels at the seam");
    }

    #[test]
    fn the_pixel_at_the_beam_centre_has_every_azimuth() {
        let square = [[1.0, -2.5], [1.0, -0.9], [1.0, 0.7], [1.0, 2.2]];
        let mirrored = [square[3], square[2], square[1], square[0]];
        for start in [-PI, -2.0, -0.5, 0.0, 1.0, 2.5, 3.1] {
            for first in 0..8 {
                let mut corners = if first < 4 { square } else { mirrored };
                corners.rotate_left(first % 4);
                let azimuthal = PeriodicBins::new(BinEdges::uniform(start, exclusive_upper_limit(start + TAU), 6));
                let grid = CakeGrid { radial: BinEdges::uniform(0.0, 2.0, 2), azimuthal };
                let mut room = CutScratch::default();
                grid.cut_at_bin_edges(&corners, &mut room);
                room.areas_to_shares();
                for (bin, share) in room.bins.iter().zip(&room.shares) {
                    let expected = if bin % 2 == 0 { 1.0 / 6.0 } else { 0.0 };
                    assert!((share - expected).abs() < 1e-6, "{corners:?} from {start}: {share} in {bin}");
                }
                assert_eq!(room.bins.iter().filter(|bin| *bin % 2 == 0).count(), 6);
            }
        }
    }
}
