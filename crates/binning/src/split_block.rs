//! [`SplitBlock`], the weights of a block of pixels in the bins of a pattern: the formulas of
//! [`crate::pattern`] over arrays, which become vector instructions. They give the same bytes.

#![allow(clippy::needless_range_loop, reason = "a number of the block is an index of many arrays")]

use geometry::{BLOCK, IntervalBlock};
use multiversion::multiversion;

use crate::bin_edges::UniformBins;
use crate::outline::{NEVER_WRAPPED, larger, smaller};
use crate::paired_columns::{PairedColumn, PairedColumns};

/// Number of bins over which the pixels of a block are split. A pixel that touches more, as near
/// the beam, is split alone.
const MAX_BINS: usize = 6;

/// The corners A, B, C, D of a block of pixels as [radius, chi], an array for each corner.
pub(crate) type CornerBlock = [[[f32; 2]; BLOCK]; 4];

/// The weights of a block of pixels. Flags and numbers of bins are as wide as the values that they are
/// computed with, so that vector instructions need no conversions.
pub(crate) struct SplitBlock {
    /// Smallest and largest radius of each pixel.
    extent: IntervalBlock,
    /// First bin that each pixel touches.
    first: [f64; BLOCK],
    /// Number of bins that each pixel touches, 0 for one outside the axis.
    count: [f64; BLOCK],
    /// Not 0 for a pixel that is split alone: its corners are not finite, it is at the discontinuity
    /// of chi or contains the beam centre, has no width, or touches more than [`MAX_BINS`].
    is_alone: [u64; BLOCK],
    /// The weight, or the signed area, of each pixel in its first bin, the next, and so on.
    weights: [[f64; BLOCK]; MAX_BINS],
    /// The first bin and the pair of each pixel; zeros for one without entries, without a weight in its
    /// first bin, or split alone.
    first_bins: [u32; BLOCK],
    pairs: [[f32; 2]; BLOCK],
    /// Not 0 for a pixel whose column has more than that: it is split alone, touches more than two bins,
    /// or only has a weight in its second.
    has_others: [u32; BLOCK],
    /// True if no pixel has more.
    has_pairs_only: bool,
}

impl SplitBlock {
    pub fn new() -> Self {
        Self {
            extent: IntervalBlock { min: [0.0; BLOCK], max: [0.0; BLOCK] },
            first: [0.0; BLOCK],
            count: [0.0; BLOCK],
            is_alone: [0; BLOCK],
            weights: [[0.0; BLOCK]; MAX_BINS],
            first_bins: [0; BLOCK],
            pairs: [[0.0; 2]; BLOCK],
            has_others: [0; BLOCK],
            has_pairs_only: false,
        }
    }

    /// Splits pixels by area, as [`crate::pattern::full_split`] does.
    pub fn split_outlines(&mut self, bins: &UniformBins, corners: &CornerBlock) {
        split_outlines(self, bins, corners);
    }

    /// Spreads pixels evenly over intervals, as [`crate::pattern::bbox_split`] does.
    pub fn split_intervals(&mut self, bins: &UniformBins, intervals: &IntervalBlock) {
        split_intervals(self, bins, intervals);
    }

    /// Appends a column for each of the block's first pixels: for one that is skipped, a column
    /// without entries. `append` adds the entries of pixels that are split alone, given by their
    /// number in the block.
    pub fn append_columns(
        &mut self,
        is_skipped: &[bool],
        columns: &mut PairedColumns,
        mut append: impl FnMut(usize, &mut PairedColumn<'_>),
    ) {
        let (start, count) = (columns.column_count(), is_skipped.len());
        for (index, &is_skipped) in is_skipped.iter().enumerate() {
            if is_skipped {
                (self.first_bins[index], self.pairs[index]) = (0, [0.0; 2]);
            }
        }
        columns.extend(&self.first_bins[..count], &self.pairs[..count]);
        if self.has_pairs_only {
            return;
        }
        for (index, &is_skipped) in is_skipped.iter().enumerate() {
            if is_skipped || self.has_others[index] == 0 {
                continue;
            }
            let mut column = columns.column(start + index);
            if self.is_alone[index] != 0 {
                append(index, &mut column);
                continue;
            }
            let in_pair = if self.pairs[index][0] > 0.0 { 2 } else { 0 };
            let first = self.first[index] as usize;
            for bin in in_pair..self.count[index] as usize {
                column.push(first + bin, self.weights[bin][index]);
            }
        }
    }

    /// Sets the bins that the pixels touch from their extents, as
    /// [`crate::bin_edges::BinEdges::bins_touched`] does, and returns the largest number of them.
    #[inline(always)]
    fn find_bins(&mut self, bins: &UniformBins) -> usize {
        for index in 0..BLOCK {
            let [first, last] = bins.positions(self.extent.min[index], self.extent.max[index]);
            let is_touched = (last >= bins.floor) & (first < bins.bin_count);
            let (first, last) = (larger(first, 0.0).trunc(), larger(last, 0.0).trunc());
            let count = smaller(last, bins.bin_count - 1.0) - first + 1.0;
            self.first[index] = first;
            self.count[index] = if is_touched { count } else { 0.0 };
        }
        for index in 0..BLOCK {
            self.is_alone[index] |= u64::from(self.count[index] > MAX_BINS as f64);
            let is_alone = self.is_alone[index] != 0;
            self.count[index] = if is_alone { 0.0 } else { self.count[index] };
        }
        (0..MAX_BINS).find(|most| !self.touches_more_than(*most as f64)).unwrap_or(MAX_BINS)
    }

    /// Returns whether any pixel touches more than so many bins.
    #[inline(always)]
    fn touches_more_than(&self, bins: f64) -> bool {
        self.count.iter().fold(0, |any, count| any | u64::from(*count > bins)) != 0
    }

    /// Sets the pairs of the pixels, and which of them have other entries.
    #[inline(always)]
    fn set_pairs(&mut self) {
        let mut pairs = [[0.0; BLOCK]; 2];
        for (bin, weights) in pairs.iter_mut().enumerate() {
            for index in 0..BLOCK {
                let weight = self.weights[bin][index] as f32;
                let is_touched = self.count[index] as f32 > bin as f32;
                weights[index] = if (weight > 0.0) & is_touched { weight } else { 0.0 };
            }
        }
        let mut others = 0;
        for index in 0..BLOCK {
            let has_pair = pairs[0][index] > 0.0;
            let has_more = (self.count[index] as f32 > 2.0) | (self.is_alone[index] as u32 != 0);
            let has_others = u32::from(has_more | (!has_pair & (pairs[1][index] > 0.0)));
            self.first_bins[index] = if has_pair { self.first[index] as u32 } else { 0 };
            self.has_others[index] = has_others;
            others |= has_others;
            pairs[1][index] = if has_pair { pairs[1][index] } else { 0.0 };
        }
        for index in 0..BLOCK {
            self.pairs[index] = [pairs[0][index], pairs[1][index]];
        }
        self.has_pairs_only = others == 0;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
fn split_intervals(block: &mut SplitBlock, bins: &UniformBins, intervals: &IntervalBlock) {
    split_intervals_inline(block, bins, intervals);
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
fn split_outlines(block: &mut SplitBlock, bins: &UniformBins, corners: &CornerBlock) {
    split_outlines_inline(block, bins, corners);
}

#[inline(always)]
fn split_intervals_inline(block: &mut SplitBlock, bins: &UniformBins, intervals: &IntervalBlock) {
    let mut scale = [0.0; BLOCK];
    for index in 0..BLOCK {
        let (min, max) = (intervals.min[index], intervals.max[index]);
        let width = max - min;
        let has_width = (width > 0.0) & (width < f64::INFINITY);
        block.is_alone[index] = u64::from(!has_width);
        (block.extent.min[index], block.extent.max[index]) = (min, max);
        scale[index] = 1.0 / width;
    }
    let most = block.find_bins(bins);
    for (bin, lengths) in block.weights[..most].iter_mut().enumerate() {
        for index in 0..BLOCK {
            let (min, max) = (block.extent.min[index], block.extent.max[index]);
            let bin = block.first[index] + bin as f64;
            let is_clamped = (bin == 0.0) & (bins.floor < 0.0);
            let left = if is_clamped { min } else { larger(min, bins.edge(bin)) };
            lengths[index] = (smaller(max, bins.edge(bin + 1.0)) - left) * scale[index];
        }
    }
    // The rounding of edges does not matter to a pixel in one bin.
    for index in 0..BLOCK {
        let (min, max) = (block.extent.min[index], block.extent.max[index]);
        let [first, last] = bins.positions(min, max);
        let is_inside = (first >= bins.floor) & (last < bins.bin_count);
        if is_inside & (block.count[index] == 1.0) {
            block.weights[0][index] = (max - min) * scale[index];
        }
    }
    block.set_pairs();
}

#[inline(always)]
fn split_outlines_inline(block: &mut SplitBlock, bins: &UniformBins, corners: &CornerBlock) {
    let (mut radii, mut azimuths) = ([[0.0; BLOCK]; 4], [[0.0; BLOCK]; 4]);
    for corner in 0..4 {
        for index in 0..BLOCK {
            radii[corner][index] = f64::from(corners[corner][index][0]);
            azimuths[corner][index] = f64::from(corners[corner][index][1]);
        }
    }
    for index in 0..BLOCK {
        let (a, b, c, d) = (radii[0][index], radii[1][index], radii[2][index], radii[3][index]);
        block.extent.min[index] = smaller(smaller(a, b), smaller(c, d));
        block.extent.max[index] = larger(larger(a, b), larger(c, d));
        // Neither infinity nor NaN stays finite.
        let is_finite = (a + b + c + d).abs() < f64::INFINITY;
        let (a, b, c, d) =
            (azimuths[0][index], azimuths[1][index], azimuths[2][index], azimuths[3][index]);
        // As in an outline, the first corner is the origin of chi.
        let (ab, bc, cd, da) = (b - a, c - b, d - c, a - d);
        (azimuths[0][index], azimuths[1][index]) = (0.0, ab);
        (azimuths[2][index], azimuths[3][index]) = (ab + bc, ab + bc + cd);
        // Comparisons with NaN are false.
        let does_not_turn = (ab.abs() < NEVER_WRAPPED)
            & (bc.abs() < NEVER_WRAPPED)
            & (cd.abs() < NEVER_WRAPPED)
            & (da.abs() < NEVER_WRAPPED);
        block.is_alone[index] = u64::from(!(is_finite & does_not_turn));
    }
    let most = block.find_bins(bins);
    let mut slopes = [[0.0; BLOCK]; 4];
    for side in 0..4 {
        let next = (side + 1) % 4;
        for index in 0..BLOCK {
            let width = radii[next][index] - radii[side][index];
            let slope = (azimuths[next][index] - azimuths[side][index]) / width;
            slopes[side][index] = if width == 0.0 { 0.0 } else { slope };
        }
    }
    let mut total = [0.0; BLOCK];
    for (bin, areas) in block.weights[..most].iter_mut().enumerate() {
        for index in 0..BLOCK {
            let first = block.first[index] + bin as f64;
            let (left, right) = (bins.edge(first), bins.edge(first + 1.0));
            let within =
                [0, 1, 2, 3].map(|corner| smaller(larger(radii[corner][index], left), right));
            let mut area = 0.0;
            for side in 0..4 {
                let (from, to) = (within[side], within[(side + 1) % 4]);
                let middle = 0.5 * (from + to) - radii[side][index];
                area += (to - from) * (azimuths[side][index] + slopes[side][index] * middle);
            }
            let area = if (bin as f64) < block.count[index] { area } else { 0.0 };
            areas[index] = area;
            total[index] += area;
        }
    }
    areas_to_fractions(block, &total, most);
    block.set_pairs();
}

/// Turns the signed areas of a block of pixels, whose sums are `total`, into fractions, as
/// [`crate::pattern::areas_to_fractions`] does.
#[inline(always)]
fn areas_to_fractions(block: &mut SplitBlock, total: &[f64; BLOCK], most: usize) {
    let mut positive_total = [0.0; BLOCK];
    for areas in &mut block.weights[..most] {
        for index in 0..BLOCK {
            areas[index] = larger(areas[index] * 1f64.copysign(total[index]), 0.0);
            positive_total[index] += areas[index];
        }
    }
    for fractions in &mut block.weights[..most] {
        for index in 0..BLOCK {
            let total = positive_total[index];
            fractions[index] /= if total > 0.0 { total } else { 1.0 };
        }
    }
    for index in 0..BLOCK {
        if block.count[index] == 1.0 {
            block.weights[0][index] = 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use geometry::Unit;

    use super::*;
    use crate::bin_edges::BinEdges;
    use crate::pattern;
    use crate::support::{TestPlacement, TestRandom};

    /// Returns bins of an axis that covers a part of 0 to `max`, or all of it.
    fn random_bins(random: &mut TestRandom, max: f64) -> BinEdges {
        let lower = [0.0, random.between(-0.2, 0.3) * max][random.whole(0, 2)];
        let upper = lower + random.between(0.2, 1.1) * max;
        let bins = BinEdges::uniform(lower, upper, random.whole(1, 150));
        if lower == 0.0 { bins.clamp_low() } else { bins }
    }

    /// Splits pixels in blocks, and one after the other with `split`; the columns must be equal.
    /// Returns the number of pixels that blocks did not split.
    fn compare(
        pixels: usize,
        is_skipped: impl Fn(usize) -> bool,
        mut split_block: impl FnMut(std::ops::Range<usize>, &mut SplitBlock),
        split: impl Fn(usize, &mut PairedColumn<'_>),
    ) -> usize {
        let (mut found, mut expected) = (PairedColumns::default(), PairedColumns::default());
        let (mut block, mut alone) = (SplitBlock::new(), 0);
        for start in (0..pixels).step_by(BLOCK) {
            let of_block = start..pixels.min(start + BLOCK);
            let is_skipped: Vec<bool> = of_block.clone().map(&is_skipped).collect();
            split_block(of_block, &mut block);
            block.append_columns(&is_skipped, &mut found, |index, column| {
                alone += 1;
                split(start + index, column);
            });
        }
        for pixel in 0..pixels {
            let mut column = expected.push_column();
            if !is_skipped(pixel) {
                split(pixel, &mut column);
            }
        }
        for pixel in 0..pixels {
            let columns = [&found, &expected].map(|columns| columns.entries_of_column(pixel));
            assert_eq!(columns[0], columns[1], "pixel {pixel}");
        }
        assert_eq!(found, expected);
        alone
    }

    /// Compares the version for this processor, and that for any.
    fn compare_outlines(bins: &BinEdges, corners: &[[[f32; 2]; 4]]) -> usize {
        let uniform = bins.as_uniform().unwrap();
        let split_block = |is_plain: bool| {
            move |pixels: std::ops::Range<usize>, block: &mut SplitBlock| {
                let mut of_block = [[[f32::NAN; 2]; BLOCK]; 4];
                for (index, pixel) in pixels.enumerate() {
                    (0..4).for_each(|corner| of_block[corner][index] = corners[pixel][corner]);
                }
                match is_plain {
                    true => split_outlines_inline(block, &uniform, &of_block),
                    false => block.split_outlines(&uniform, &of_block),
                }
            }
        };
        let split = |pixel: usize, column: &mut PairedColumn<'_>| {
            pattern::full_split(bins, &corners[pixel], &mut Vec::new(), column);
        };
        let is_skipped = |pixel| pixel % 7 == 3;
        let alone = compare(corners.len(), is_skipped, split_block(true), split);
        assert_eq!(compare(corners.len(), is_skipped, split_block(false), split), alone);
        alone
    }

    /// Compares the version for this processor, and that for any.
    fn compare_intervals(bins: &BinEdges, intervals: &[(f64, f64)]) -> usize {
        let uniform = bins.as_uniform().unwrap();
        let split_block = |is_plain: bool| {
            move |pixels: std::ops::Range<usize>, block: &mut SplitBlock| {
                let mut of_block = IntervalBlock { min: [f64::NAN; BLOCK], max: [f64::NAN; BLOCK] };
                for (index, pixel) in pixels.enumerate() {
                    (of_block.min[index], of_block.max[index]) = intervals[pixel];
                }
                match is_plain {
                    true => split_intervals_inline(block, &uniform, &of_block),
                    false => block.split_intervals(&uniform, &of_block),
                }
            }
        };
        let split = |pixel: usize, column: &mut PairedColumn<'_>| {
            pattern::bbox_split(bins, intervals[pixel], column);
        };
        let is_skipped = |pixel| pixel % 5 == 1;
        let alone = compare(intervals.len(), is_skipped, split_block(true), split);
        assert_eq!(compare(intervals.len(), is_skipped, split_block(false), split), alone);
        alone
    }

    #[test]
    fn blocks_of_a_detectors_pixels_are_split_as_single_pixels() {
        let mut random = TestRandom(31);
        let (mut pixels, mut alone) = (0, 0);
        for _ in 0..80 {
            let placement = TestPlacement::random(&mut random);
            let unit = Unit::all().nth(random.whole(0, 8)).unwrap().base();
            let corners = placement.corners(unit);
            let radii = corners.iter().flatten().map(|corner| f64::from(corner[0]));
            let bins = random_bins(&mut random, radii.fold(0.0, f64::max));
            alone += compare_outlines(&bins, &corners);
            let radial = placement.geometry().radial_intervals(unit).unwrap();
            let intervals: Vec<_> =
                (0..corners.len()).map(|pixel| radial.interval(pixel)).collect();
            alone += compare_intervals(&bins, &intervals);
            pixels += 2 * corners.len();
        }
        assert!(alone > 100 && alone < pixels / 2, "{alone} of {pixels} pixels split alone");
    }

    #[test]
    fn awkward_outlines_and_intervals_are_split_as_single_pixels() {
        let mut random = TestRandom(32);
        let (mut pixels, mut alone) = (0, 0);
        for _ in 0..300 {
            let bins = random_bins(&mut random, 1.0);
            // Values on edges, equal ones, tiny steps, and such as no detector has.
            let awkward = |random: &mut TestRandom| -> f64 {
                let edge = bins.edge(random.whole(0, bins.bin_count() + 1));
                match random.whole(0, 40) {
                    0 => f64::NAN,
                    1 => f64::INFINITY,
                    2 => -1e30,
                    3 => 1e30,
                    4 => 0.0,
                    5..12 => edge,
                    12..16 => edge.next_up(),
                    16..20 => edge + 1e-9,
                    _ => random.between(-0.1, 1.2),
                }
            };
            let mut corners = Vec::new();
            let mut intervals = Vec::new();
            for _ in 0..150 {
                let (radius, chi) = (awkward(&mut random), random.between(-PI, PI));
                let is_small = random.whole(0, 3) > 0;
                corners.push([0; 4].map(|_| {
                    let near = radius + random.between(-0.01, 0.01);
                    let azimuth = match random.whole(0, 30) {
                        0 => f64::NAN,
                        1 => random.between(-PI, PI),
                        _ => chi + random.between(-0.02, 0.02),
                    };
                    let radius = if is_small { near } else { awkward(&mut random) };
                    [radius as f32, azimuth as f32]
                }));
                let width = [0.0, 1e-12, random.between(0.0, 0.05)][random.whole(0, 3)];
                let max = if is_small { radius + width } else { awkward(&mut random) };
                intervals.push((radius, max));
            }
            alone += compare_outlines(&bins, &corners) + compare_intervals(&bins, &intervals);
            pixels += corners.len() + intervals.len();
        }
        assert!(alone > 1000 && alone < pixels / 2, "{alone} of {pixels} pixels split alone");
    }

    #[test]
    fn bins_may_be_as_many_as_an_entry_can_name() {
        let mut random = TestRandom(33);
        let count = u32::MAX as usize;
        let bins = BinEdges::uniform(0.0, 1.0, count).clamp_low();
        let width = 1.0 / count as f64;
        let mut intervals: Vec<(f64, f64)> = (0..500)
            .map(|_| {
                let min = random.between(-1e-9, 1.0);
                (min, min + width * random.between(0.0, 9.0))
            })
            .collect();
        intervals.extend([
            (1.0 - width, 1.0),
            (1.0 - 2.5 * width, 2.0),
            (0.6 * width, 1.1 * width),
        ]);
        let alone = compare_intervals(&bins, &intervals);
        assert!(alone > 50 && alone < 250, "{alone}");
        // A weight that is zero in f32, in the first bin.
        compare_intervals(&BinEdges::uniform(-1.0, 1.0, 2), &[(-1e-60, 1.0), (-0.5, 0.5)]);
    }
}
