//! [`BinRows`], the sums and limits of each bin in all frames, and the pass over a tile that adds
//! its pixels.

use std::array;

use super::super::tile_lanes::INTERLEAVED_FRAMES;
use super::super::tile_lanes::TileCounts;
use super::super::unsplit_bins::TileBins;
use super::candidates::{Candidate, Candidates};
use crate::fused::Lane;
use crate::simd::{Kernel, Simd};
use crate::summation_order::{STREAM_PIXELS, STREAMS, TILE};

/// Half of the integer up to which all are f64 numbers: the other half is for the variance, which
/// may exceed the sum by the number of pixels.
const LARGEST_SUM: u64 = 1 << (f64::MANTISSA_DIGITS - 1);

/// The sign of an f32.
const SIGN_BIT: u32 = 1 << 31;

/// One number of each frame.
pub(super) type LaneCounts = [u64; INTERLEAVED_FRAMES];

/// The range of s / n outside of which pixels of a bin are candidates.
#[derive(Clone, Copy, Debug)]
pub(super) struct CandidateRange {
    pub(super) lower: f32,
    pub(super) upper: f32,
}

impl CandidateRange {
    /// No pixel is a candidate.
    pub(super) const NONE: Self = Self { lower: f32::NEG_INFINITY, upper: f32::INFINITY };
    /// All pixels are candidates.
    pub(super) const ALL: Self = Self { lower: f32::NEG_INFINITY, upper: f32::NEG_INFINITY };

    /// Removes the intensities that are not in `other`.
    pub(super) fn narrow(&mut self, other: Self) {
        self.lower = self.lower.max(other.lower);
        self.upper = self.upper.min(other.upper);
    }
}

/// The sums since the last [`BinRows::flush`] and the limits of one bin: two cache lines.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct BinRow {
    /// Σ s.
    signal: [u32; INTERLEAVED_FRAMES],
    /// Σ (max(s, 1) - 1), by which the Poisson variance exceeds the number of pixels.
    excess: [u32; INTERLEAVED_FRAMES],
    /// The ranges of candidates.
    lower: [f32; INTERLEAVED_FRAMES],
    upper: [f32; INTERLEAVED_FRAMES],
}

impl BinRow {
    /// Adds the lanes of a pixel that are outside of their limits to the candidates. It finds them
    /// anew: with the signs that [`AddTile`] has, the compiler would keep each in a register of its
    /// own, and not in one vector.
    #[cold]
    #[inline(never)]
    fn push_outside(
        &self,
        [bin, pixel]: [u32; 2],
        raw: &[u16; INTERLEAVED_FRAMES],
        reciprocal: f32,
        candidates: &mut Candidates,
    ) {
        for (lane, &raw) in raw.iter().enumerate() {
            let intensity = f32::from(raw) * reciprocal;
            if intensity > self.upper[lane] || intensity < self.lower[lane] {
                candidates.push(Candidate { bin, lane: lane as u32, pixel, raw: raw.into() });
            }
        }
    }
}

/// The sums and limits of all bins, and of the pixels that are in none.
#[derive(Default)]
pub(super) struct BinRows {
    rows: Vec<BinRow>,
    /// Σ s and the Poisson excess of each bin.
    totals: Vec<[LaneCounts; 2]>,
    /// An upper bound of the sums in a row.
    bound: u64,
    /// True if a pixel of 0 may be a candidate.
    finds_zeros: bool,
}

impl BinRows {
    /// Returns the bytes of memory that the rows of so many bins take.
    pub(super) fn memory_bytes(nbins: usize) -> usize {
        (nbins + 1) * (size_of::<BinRow>() + size_of::<[LaneCounts; 2]>())
    }

    /// Sets all sums to 0, and all ranges such that no pixel is a candidate.
    pub(super) fn reset(&mut self, nbins: usize) {
        self.rows.clear();
        self.rows.resize(nbins + 1, BinRow::default());
        self.totals.clear();
        self.totals.resize(nbins + 1, Default::default());
        self.bound = 0;
        self.forget_ranges();
    }

    /// Sets all ranges such that no pixel is a candidate.
    pub(super) fn forget_ranges(&mut self) {
        for row in &mut self.rows {
            row.lower = [CandidateRange::NONE.lower; INTERLEAVED_FRAMES];
            row.upper = [CandidateRange::NONE.upper; INTERLEAVED_FRAMES];
        }
        self.finds_zeros = false;
    }

    /// Sets the range of one bin and lane.
    pub(super) fn set_range(&mut self, bin: usize, lane: usize, range: CandidateRange) {
        (self.rows[bin].lower[lane], self.rows[bin].upper[lane]) = (range.lower, range.upper);
        self.finds_zeros |= range.lower > 0. || range.upper < 0.;
    }

    /// Returns the range of one bin and lane.
    pub(super) fn range(&self, bin: usize, lane: usize) -> CandidateRange {
        CandidateRange { lower: self.rows[bin].lower[lane], upper: self.rows[bin].upper[lane] }
    }

    /// Returns true if pixels of 0 add nothing and are no candidates.
    pub(super) fn ignores_zeros(&self) -> bool {
        !self.finds_zeros
    }

    /// Makes space for the sums of a tile.
    fn reserve(&mut self, largest_bin: usize) {
        let most = u64::from(u32::MAX);
        if largest_bin as u64 * u64::from(u16::MAX) <= most {
            return;
        }
        let added = u64::from(u16::MAX) * TILE as u64;
        if self.bound + added > most {
            self.flush();
        }
        self.bound += added;
    }

    /// Returns Σ s and the Poisson excess of one bin and lane, up to the last flush.
    pub(super) fn totals(&self, bin: usize, lane: usize) -> [u64; 2] {
        self.totals[bin].map(|totals| totals[lane])
    }

    /// Returns whether sums of f64 numbers would be the same as those of the integers, up to the
    /// last flush.
    pub(super) fn are_exact_as_f64(&self) -> bool {
        self.totals.iter().flat_map(|[signal, _]| signal).all(|&signal| signal <= LARGEST_SUM)
    }

    /// Adds the rows to the totals.
    pub(super) fn flush(&mut self) {
        for (row, totals) in self.rows.iter_mut().zip(&mut self.totals) {
            for (sums, totals) in [&mut row.signal, &mut row.excess].into_iter().zip(totals) {
                for (sum, total) in sums.iter_mut().zip(totals) {
                    *total += u64::from(std::mem::take(sum));
                }
            }
        }
        self.bound = 0;
    }
}

/// Adds a tile to the sums, if `is_summed`, and collects the candidates among its pixels.
#[inline(always)]
pub(super) fn add_tile<S: Simd>(
    simd: S,
    rows: &mut BinRows,
    tile: TileBins<'_>,
    counts: &TileCounts,
    is_summed: bool,
    candidates: &mut Candidates,
) {
    rows.reserve(tile.largest_bin);
    let rows = &mut rows.rows;
    match is_summed {
        true => simd.run(AddTile::<true> { rows, tile, counts, candidates }),
        false => simd.run(AddTile::<false> { rows, tile, counts, candidates }),
    }
}

/// The loop of [`add_tile`]: sums are added if `SUMS`.
struct AddTile<'a, const SUMS: bool> {
    rows: &'a mut [BinRow],
    tile: TileBins<'a>,
    counts: &'a TileCounts,
    candidates: &'a mut Candidates,
}

impl<const SUMS: bool> Kernel for AddTile<'_, SUMS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AddTile { rows, tile, counts, candidates } = self;
        for i in 0..STREAM_PIXELS {
            for stream in 0..STREAMS {
                let in_tile = stream * STREAM_PIXELS + i;
                let raw = &counts[in_tile];
                let bin = tile.bins[in_tile];
                let row = &mut rows[bin as usize];
                // All is loaded before anything is stored: the compiler can't know that the tile
                // and the rows are different memory, and would not use vectors.
                // `reserve` has made sure that no sum wraps around.
                let signal =
                    array::from_fn(|lane| row.signal[lane].wrapping_add(u32::from(raw[lane])));
                let excess = array::from_fn(|lane| {
                    row.excess[lane].wrapping_add(u32::from(raw[lane].saturating_sub(1)))
                });
                // The sign bits of the distances from the limits; 0 has none.
                let reciprocal = tile.reciprocals[in_tile];
                let signs: [u32; INTERLEAVED_FRAMES] = array::from_fn(|lane| {
                    let intensity = f32::from(raw[lane]) * reciprocal;
                    let [above, below] = [row.upper[lane] - intensity, intensity - row.lower[lane]];
                    above.to_bits() | below.to_bits()
                });
                if SUMS {
                    (row.signal, row.excess) = (signal, excess);
                }
                if signs.into_iter().fold(0, |all, signs| all | signs) & SIGN_BIT != 0 {
                    row.push_outside([bin, tile.pixel(in_tile)], raw, reciprocal, candidates);
                }
            }
        }
    }
}

/// Adds a tile of one frame that has pixels of more than 16 bits, as [`add_tile`] does. Returns
/// false if a pixel is no count of 32 bits.
pub(super) fn add_wide_lane(
    rows: &mut BinRows,
    tile: TileBins<'_>,
    lane_index: usize,
    lane: &Lane,
    is_summed: bool,
    candidates: &mut Candidates,
) -> bool {
    let nbins = rows.rows.len() - 1;
    for (in_tile, &value) in lane.f64_pixels.iter().enumerate() {
        let bin = tile.bins[in_tile] as usize;
        if bin == nbins {
            continue;
        }
        let raw = value as u32;
        if f64::from(raw) != value {
            return false;
        }
        if is_summed {
            let [signal, excess] = &mut rows.totals[bin];
            signal[lane_index] += u64::from(raw);
            excess[lane_index] += u64::from(raw.max(1) - 1);
        }
        let CandidateRange { lower, upper } = rows.range(bin, lane_index);
        let intensity = raw as f32 * tile.reciprocals[in_tile];
        if intensity > upper || intensity < lower {
            let (bin, pixel) = (bin as u32, tile.pixel(in_tile));
            candidates.push(Candidate { bin, lane: lane_index as u32, pixel, raw });
        }
    }
    true
}
