//! [`Accumulators`], the sums of up to `L` frames while their tiles are added.

use crate::photon_sums::PhotonQuantities;
use crate::simd::{Kernel, Simd};

/// The accumulators of `L` frames: `(nbins + 1) x quantities x L` f64.
///
/// Every pixel adds to its first bin and to the next one, with a weight of 0 if it doesn't overlap
/// the next one. The extra bin after the last takes these zeros of pixels whose first bin is the
/// last.
#[derive(Default)]
pub(crate) struct Accumulators<const L: usize> {
    memory: Vec<f64>,
    /// The index at which the rows start in `memory`: on a cache line, so that no vector straddles
    /// two lines.
    start: usize,
    quantities: PhotonQuantities,
}

/// How many bins are transposed at a time, so that their rows stay in the first-level cache.
const BINS_PER_CACHE_BLOCK: usize = 64;

/// How many doubles a cache line holds.
const DOUBLES_PER_CACHE_LINE: usize = 8;

impl<const L: usize> Accumulators<L> {
    /// Resizes to `nbins` and sets all accumulators to +0.
    pub(crate) fn reset(&mut self, nbins: usize, quantities: PhotonQuantities) {
        self.quantities = quantities;
        self.memory.clear();
        self.memory.resize((nbins + 1) * quantities.count() * L + DOUBLES_PER_CACHE_LINE, 0.);
        self.start = self
            .memory
            .as_ptr()
            .align_offset(DOUBLES_PER_CACHE_LINE * size_of::<f64>())
            .min(DOUBLES_PER_CACHE_LINE);
        self.memory.truncate(self.memory.len() - DOUBLES_PER_CACHE_LINE + self.start);
    }

    /// Returns the quantities of which each bin has a row.
    pub(crate) fn quantities(&self) -> PhotonQuantities {
        self.quantities
    }

    /// Returns all rows by bin, in the order of the quantities.
    #[inline(always)]
    pub(crate) fn rows(&mut self) -> &mut [[f64; L]] {
        self.memory[self.start..].as_chunks_mut().0
    }

    /// Calls `take` with each of these lanes, the first bin of a block, and the lists of its sums in the
    /// order of the quantities, the others empty. Goes through all lanes of a block at once, because
    /// with many bins the accumulators exceed the caches, and should not be read once per frame.
    pub(crate) fn for_each_block<S: Simd>(
        &self,
        simd: S,
        lanes: &[usize],
        mut take: impl FnMut(usize, usize, [&mut [f64]; PhotonQuantities::MAX]),
    ) {
        let (rows, rows_per_bin) =
            (self.memory[self.start..].as_chunks::<L>().0, self.quantities.count());
        let bins = rows.len() / rows_per_bin - 1;
        let blocks = rows[..bins * rows_per_bin].chunks(BINS_PER_CACHE_BLOCK * rows_per_bin);
        let mut columns = [[[0.; BINS_PER_CACHE_BLOCK]; PhotonQuantities::MAX]; LANES_AT_ONCE];
        for (rows, first) in blocks.zip((0..).step_by(BINS_PER_CACHE_BLOCK)) {
            let bins = rows.len() / rows_per_bin;
            for lanes in lanes.chunk_by(|one, two| one / LANES_AT_ONCE == two / LANES_AT_ONCE) {
                let first_lane = lanes[0] / LANES_AT_ONCE * LANES_AT_ONCE;
                simd.run(TransposeLanes { rows, rows_per_bin, first_lane, columns: &mut columns });
                for &lane in lanes {
                    let columns = &mut columns[lane - first_lane];
                    let mut index = 0..PhotonQuantities::MAX;
                    let lists = columns.each_mut().map(|column| {
                        let is_there = index.next().is_some_and(|index| index < rows_per_bin);
                        &mut column[..if is_there { bins } else { 0 }]
                    });
                    take(lane, first, lists);
                }
            }
        }
    }
}

/// How many lanes are transposed at once: as many as a cache line holds.
const LANES_AT_ONCE: usize = DOUBLES_PER_CACHE_LINE;

/// Transposes some lanes of a block of rows to a column for each lane and quantity.
struct TransposeLanes<'a, const L: usize> {
    rows: &'a [[f64; L]],
    rows_per_bin: usize,
    first_lane: usize,
    columns: &'a mut [[[f64; BINS_PER_CACHE_BLOCK]; PhotonQuantities::MAX]; LANES_AT_ONCE],
}

impl<const L: usize> Kernel for TransposeLanes<'_, L> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        /// How many bins are transposed at once, so that a square stays in registers.
        const BINS: usize = 8;
        let TransposeLanes { rows, rows_per_bin, first_lane, columns } = self;
        let bins = rows.len() / rows_per_bin;
        for index in 0..rows_per_bin {
            let lanes_of = |bin: usize| &rows[bin * rows_per_bin + index][first_lane..];
            let whole = if L < LANES_AT_ONCE { 0 } else { bins / BINS * BINS };
            for first in (0..whole).step_by(BINS) {
                let square: [[f64; LANES_AT_ONCE]; BINS] = std::array::from_fn(|bin| {
                    *lanes_of(first + bin)
                        .first_chunk()
                        .expect("as many lanes as a cache line holds")
                });
                for (lane, columns) in columns.iter_mut().enumerate() {
                    let column = columns[index][first..].first_chunk_mut();
                    *column.expect("the bins of a square") = square.map(|lanes| lanes[lane]);
                }
            }
            for bin in whole..bins {
                for (columns, value) in columns.iter_mut().zip(lanes_of(bin)) {
                    columns[index][bin] = *value;
                }
            }
        }
    }
}
