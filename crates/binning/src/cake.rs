//! Weights of one pixel in the bins of a cake (2-D), for each kind of pixel splitting.
//!
//! The bin number is azimuthal index * number of radial bins + radial index. A pixel across the
//! discontinuity of chi contributes to the bins on both sides of it; pyFAI keeps it on one side.

use crate::bin_edges::BinEdges;
use crate::outline::Outline;
use crate::paired_columns::PairedColumn;
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

    /// Returns the number of bins, azimuthal times radial.
    pub fn bin_count(&self) -> usize {
        self.bin_index(self.azimuthal.edges().bin_count(), 0)
    }

    /// Adds the whole pixel to the bin of its centre.
    #[inline]
    pub fn no_split(&self, radial: f64, chi: f64, entries: &mut PairedColumn<'_>) {
        if let (Some(radial), Some(azimuthal)) =
            (self.radial.find_bin(radial), self.azimuthal.find_bin(chi))
        {
            entries.push(self.bin_index(azimuthal, radial), 1.0);
        }
    }

    /// Spreads the pixel evenly over the rectangle of two intervals. The part outside the axes is
    /// lost.
    #[inline]
    pub fn bbox_split(&self, radial: (f64, f64), chi: (f64, f64), entries: &mut PairedColumn<'_>) {
        let area = (radial.1 - radial.0) * (chi.1 - chi.0);
        if area > 0.0 {
            self.azimuthal.for_each_overlap(chi.0, chi.1, |azimuthal, height| {
                self.radial.for_each_overlap(radial.0, radial.1, |radial, width| {
                    entries.push(self.bin_index(azimuthal, radial), width * height / area);
                });
            });
        } else {
            self.no_split(0.5 * (radial.0 + radial.1), 0.5 * (chi.0 + chi.1), entries);
        }
    }

    /// Splits the pixel by area: the weight of a bin is the area of the pixel in the bin, divided
    /// by its area on the grid. A pixel at the end of an axis therefore counts with a total weight
    /// of 1.
    pub fn full_split(
        &self,
        corners: &[[f32; 2]; 4],
        scratch: &mut CutScratch,
        entries: &mut PairedColumn<'_>,
    ) {
        self.cut_at_bin_edges(corners, scratch);
        scratch.compute_weights();
        for (bin, weight) in scratch.bins.iter().zip(&scratch.weights) {
            entries.push(*bin, *weight);
        }
    }

    /// Cuts the outline of a pixel at the edges of the bins and writes the pieces to `scratch`.
    fn cut_at_bin_edges(&self, corners: &[[f32; 2]; 4], scratch: &mut CutScratch) {
        scratch.pieces.clear();
        let Some(outline) = Outline::new(corners) else { return };
        let (min, max) = outline.radial_extent();
        let Some(columns) = self.radial.bins_touched(min, max) else { return };
        let chi_edges = self.azimuthal.edges();
        let (min, max) = outline.chi_extent();
        let points = outline.points();
        let CutScratch { half, column, cell, pieces, .. } = scratch;
        for radial in columns.first..=columns.last {
            let (left, right) = (self.radial.edge(radial), self.radial.edge(radial + 1));
            clip_between(&points, 0, left, right, half, column);
            for (shift, min, max) in self.azimuthal.periodic_images(min, max) {
                let Some(rows) = chi_edges.bins_touched(min, max) else { continue };
                let origin = outline.chi() + shift;
                for azimuthal in rows.first..=rows.last {
                    let (bottom, top) = (
                        chi_edges.edge(azimuthal).max(min),
                        chi_edges.edge(azimuthal + 1).min(max),
                    );
                    clip_between(column, 1, bottom - origin, top - origin, half, cell);
                    pieces.push((self.bin_index(azimuthal, radial), signed_area(cell)));
                }
            }
        }
    }
}

/// Buffers to cut one pixel, reused from pixel to pixel.
#[derive(Default)]
pub(crate) struct CutScratch {
    /// Polygon after the first of two cuts.
    half: Polygon,
    /// Part of the pixel in one radial bin.
    column: Polygon,
    /// Part of the pixel in one bin of the cake.
    cell: Polygon,
    /// Bins and signed areas. A bin occurs twice if two periodic images of the pixel overlap it.
    pieces: Vec<(usize, f64)>,
    /// Bins of the pixel, in rising order.
    bins: Vec<usize>,
    /// Weight of each of `bins`.
    weights: Vec<f64>,
}

impl CutScratch {
    /// Sorts the pieces by bin, adds up those of the same bin, and turns areas into weights.
    fn compute_weights(&mut self) {
        self.pieces.sort_unstable_by_key(|(bin, _)| *bin);
        self.bins.clear();
        self.weights.clear();
        for (bin, area) in &self.pieces {
            match self.weights.last_mut() {
                Some(sum) if self.bins.last() == Some(bin) => *sum += area,
                _ => {
                    self.bins.push(*bin);
                    self.weights.push(*area);
                }
            }
        }
        match &mut self.weights[..] {
            // The pixel lies in one bin, even if its area rounds to zero.
            [weight] => *weight = 1.0,
            areas => areas_to_fractions(areas),
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

    /// Returns the exact area in a bin of a polygon and its periodic images. The circle ends 2π
    /// above its lower edge, slightly below the upper edge of the last bin.
    fn exact_area(grid: &CakeGrid, polygon: &[[f64; 2]], bin: usize) -> f64 {
        let (radial, chi) = (bin % grid.radial.bin_count(), bin / grid.radial.bin_count());
        let edges = grid.azimuthal.edges();
        let top = edges.edge(chi + 1).min(edges.lower() + TAU);
        let columns = [grid.radial.edge(radial), grid.radial.edge(radial + 1)];
        [-TAU, 0.0, TAU]
            .map(|shift| area_within(polygon, columns, [edges.edge(chi) - shift, top - shift]))
            .iter()
            .sum()
    }

    #[test]
    fn weights_are_exact_areas() {
        let mut random = TestRandom(8);
        let (mut compared, mut at_discontinuity) = (0, 0);
        for _ in 0..25 {
            let placement = TestPlacement::random(&mut random);
            let unit = Unit::all().nth(random.whole(0, 8)).unwrap().base();
            let all = placement.corners(unit);
            let max = all.iter().flatten().map(|corner| f64::from(corner[0])).fold(0.0, f64::max);
            let radial = BinEdges::uniform(
                random.between(0.0, 0.3) * max,
                random.between(0.5, 1.1) * max,
                40,
            );
            let start = random.between(-PI, PI);
            let end = [start + TAU, random.between(start + 0.1, start + 6.0)][random.whole(0, 2)];
            let azimuthal = PeriodicBins::new(BinEdges::uniform(
                start,
                exclusive_upper_limit(end),
                random.whole(1, 90),
            ));
            let grid = CakeGrid { radial, azimuthal };
            let mut scratch = CutScratch::default();
            for corners in &all {
                let Some(polygon) = polygon(corners) else { continue };
                grid.cut_at_bin_edges(corners, &mut scratch);
                scratch.compute_weights();
                let total: f64 =
                    scratch.bins.iter().map(|bin| exact_area(&grid, &polygon, *bin)).sum();
                for (bin, weight) in scratch.bins.iter().zip(&scratch.weights) {
                    let tolerance = 1e-9_f64.max(1e-18 / total.abs());
                    let expected = exact_area(&grid, &polygon, *bin) / total;
                    assert!(
                        (weight - expected).abs() < tolerance,
                        "{placement:?}: {corners:?} in {bin}: {weight} {expected}"
                    );
                    compared += usize::from(*weight > 0.0 && *weight < 1.0);
                }
                assert!(scratch.bins.is_sorted_by(|a, b| a < b));
                at_discontinuity += usize::from(
                    scratch.bins.len() > 1
                        && scratch.bins[0] + grid.bin_count() / 2 < *scratch.bins.last().unwrap(),
                );
            }
        }
        assert!(
            compared > 20_000 && at_discontinuity > 50,
            "only {compared} weights, {at_discontinuity} pixels at the discontinuity"
        );
    }

    #[test]
    fn the_pixel_at_the_beam_centre_has_every_azimuth() {
        let square = [[1.0, -2.5], [1.0, -0.9], [1.0, 0.7], [1.0, 2.2]];
        let mirrored = [square[3], square[2], square[1], square[0]];
        for start in [-PI, -2.0, -0.5, 0.0, 1.0, 2.5, 3.1] {
            for first in 0..8 {
                let mut corners = if first < 4 { square } else { mirrored };
                corners.rotate_left(first % 4);
                let azimuthal = PeriodicBins::new(BinEdges::uniform(
                    start,
                    exclusive_upper_limit(start + TAU),
                    6,
                ));
                let grid = CakeGrid { radial: BinEdges::uniform(0.0, 2.0, 2), azimuthal };
                let mut scratch = CutScratch::default();
                grid.cut_at_bin_edges(&corners, &mut scratch);
                scratch.compute_weights();
                for (bin, weight) in scratch.bins.iter().zip(&scratch.weights) {
                    let expected = if bin % 2 == 0 { 1.0 / 6.0 } else { 0.0 };
                    assert!(
                        (weight - expected).abs() < 1e-6,
                        "{corners:?} from {start}: {weight} in {bin}"
                    );
                }
                assert_eq!(scratch.bins.iter().filter(|bin| *bin % 2 == 0).count(), 6);
            }
        }
    }
}
