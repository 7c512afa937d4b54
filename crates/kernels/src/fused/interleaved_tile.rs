//! The pixels of one tile of many frames, interleaved: all frames' values of a pixel are adjacent.

use crate::dead_time::DeadTime;
use crate::summation_order::TILE;

/// The pixels of one tile of `L` frames, interleaved.
pub(crate) trait InterleavedTile<const L: usize>: Copy {
    /// True if weight times pixel is exact in f64 (24 bits times at most 29), so that a fused
    /// multiply-add rounds like a multiplication and an addition.
    const EXACT: bool;

    /// Returns the values of one pixel in all frames.
    fn lanes(self, pixel: usize) -> [f64; L];

    /// Returns how much the Poisson variance of these values exceeds 1.
    #[inline(always)]
    fn poisson_excess(self, x: &[f64; L]) -> [f64; L] {
        x.map(|x| x.max(1.) - 1.)
    }
}

/// Pixels that all fit in 8 bits.
#[derive(Clone, Copy)]
pub(crate) struct InterleavedU8<'a, const L: usize>(pub(crate) &'a [[u8; L]; TILE]);

impl<const L: usize> InterleavedTile<L> for InterleavedU8<'_, L> {
    const EXACT: bool = true;

    #[inline(always)]
    fn lanes(self, pixel: usize) -> [f64; L] {
        self.0[pixel].map(f64::from)
    }
}

/// Pixels that all fit in 16 bits, as two bytes.
#[derive(Clone, Copy)]
pub(crate) struct InterleavedU16<'a, const L: usize> {
    pub(crate) low_bytes: &'a [[u8; L]; TILE],
    pub(crate) high_bytes: &'a [[u8; L]; TILE],
}

impl<const L: usize> InterleavedTile<L> for InterleavedU16<'_, L> {
    const EXACT: bool = true;

    #[inline(always)]
    fn lanes(self, pixel: usize) -> [f64; L] {
        let (low, high) = (self.low_bytes[pixel], self.high_bytes[pixel]);
        std::array::from_fn(|lane| f64::from(u16::from(low[lane]) | u16::from(high[lane]) << 8))
    }
}

/// Pixels of any value.
#[derive(Clone, Copy)]
pub(crate) struct InterleavedF64<'a, const L: usize>(pub(crate) &'a [[f64; L]; TILE]);

impl<const L: usize> InterleavedTile<L> for InterleavedF64<'_, L> {
    const EXACT: bool = false;

    #[inline(always)]
    fn lanes(self, pixel: usize) -> [f64; L] {
        self.0[pixel]
    }
}

/// Pixels whose counts are corrected for dead time as they are added. Zeros stay zeros.
#[derive(Clone, Copy)]
pub(crate) struct CorrectedCounts<C> {
    pub(crate) counts: C,
    pub(crate) dead_time: DeadTime,
}

impl<const L: usize, C: InterleavedTile<L>> InterleavedTile<L> for CorrectedCounts<C> {
    const EXACT: bool = false;

    #[inline(always)]
    fn lanes(self, pixel: usize) -> [f64; L] {
        self.counts.lanes(pixel).map(|counts| self.dead_time.correct(counts))
    }

    #[inline(always)]
    fn poisson_excess(self, x: &[f64; L]) -> [f64; L] {
        x.map(|x| self.dead_time.poisson_variance(x) - 1.)
    }
}
