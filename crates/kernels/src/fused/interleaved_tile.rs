//! The pixels of one tile of many frames, by pixel.

use crate::summation_order::TILE;

/// Pixels of a tile, `L` frames side by side.
pub(crate) trait InterleavedTile<const L: usize> {
    /// Whether a weight times a pixel has no rounding (24 bits times 29), so that it may be fused with the addition.
    const EXACT: bool;

    /// A pixel of all frames.
    fn lanes(&self, pixel: usize) -> [f64; L];
}

/// All pixels fit in 8 bits.
pub(crate) struct InterleavedU8<'a, const L: usize>(pub(crate) &'a [[u8; L]; TILE]);

impl<const L: usize> InterleavedTile<L> for InterleavedU8<'_, L> {
    const EXACT: bool = true;

    #[inline(always)]
    fn lanes(&self, pixel: usize) -> [f64; L] {
        self.0[pixel].map(f64::from)
    }
}

/// All pixels fit in 16 bits.
pub(crate) struct InterleavedU16<'a, const L: usize> {
    pub(crate) low_bytes: &'a [[u8; L]; TILE],
    pub(crate) high_bytes: &'a [[u8; L]; TILE],
}

impl<const L: usize> InterleavedTile<L> for InterleavedU16<'_, L> {
    const EXACT: bool = true;

    #[inline(always)]
    fn lanes(&self, pixel: usize) -> [f64; L] {
        let (low, high) = (self.low_bytes[pixel], self.high_bytes[pixel]);
        std::array::from_fn(|lane| f64::from(u16::from(low[lane]) | u16::from(high[lane]) << 8))
    }
}

/// Any pixels at all.
pub(crate) struct InterleavedF64<'a, const L: usize>(pub(crate) &'a [[f64; L]; TILE]);

impl<const L: usize> InterleavedTile<L> for InterleavedF64<'_, L> {
    const EXACT: bool = false;

    #[inline(always)]
    fn lanes(&self, pixel: usize) -> [f64; L] {
        self.0[pixel]
    }
}
