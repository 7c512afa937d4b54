//! The one order of summation, which every kernel keeps.
//!
//! Floating-point sums depend on their order, and azpipe promises equal bytes whatever the instruction set, the codec,
//! the number of threads or the cut of the work. So the order is part of the result's definition:
//!
//! 1. One f64 accumulator a bin and quantity, starting at +0.
//! 2. Pixels go **tile by tile**: a tile is [`TILE`] consecutive pixels of the row-major frame; the last may be short.
//! 3. A tile has two rounds. In the first each pixel adds its *pair*: its entry in its first bin, then that in the bin
//!    after it. In the second each pixel adds the rest of its entries, bins rising.
//! 4. In both rounds pixels are taken from [`STREAMS`] **streams** in turn: for `i` in `0..512` the pixels `i`,
//!    `i + 512`, `i + 1024`, `i + 1536` of the tile, those that exist.
//! 5. A term is `weight · x`, both as f64, rounded, and then added: never fused into one rounding.
//!    For the signal `x` is the pixel; for the Poisson variance the weight is squared (exact: 48 bits) and `x` is
//!    `max(pixel, 1) - 1`.
//!
//! Why tiles: a bitshuffled block of 8 KiB holds 2048 pixels of 32 bits; it is decoded into the first-level cache and
//! its share of the matrix is applied to many frames before either is dropped. Why streams: neighbours in a row tend to
//! fall into the same bin, and adding to an accumulator that has just been stored waits for that store; four distant
//! streams hide the wait. Why pairs: with bins about as wide as a pixel nearly all pixels touch two neighbouring
//! bins, so that a bin number and two weights describe them, and the few others need not slow them down. None of it
//! depends on how frames are stored, and lanes of SIMD kernels are frames, so each lane sees just this order.
//!
//! A term of zero may be left out: accumulators are never -0, so adding ±0 changes no bit. Where a product is exact
//! (24 bits of weight times a pixel below 2^29) a fused multiply-add is allowed too, for the same reason.

/// Pixels in a tile.
pub const TILE: usize = 2048;

/// Streams that a tile is read in.
pub const STREAMS: usize = 4;

/// Pixels in a stream of a tile.
pub(crate) const STREAM_PIXELS: usize = TILE / STREAMS;

/// The pixels `0..len` of a tile in the order of summation.
pub(crate) fn pixels_of_tile(len: usize) -> impl Iterator<Item = usize> {
    (0..STREAM_PIXELS.min(len)).flat_map(move |i| (i..len).step_by(STREAM_PIXELS))
}

/// The place of a pixel of a tile in that order; not dense in a short tile.
pub(crate) fn position_in_order(pixel: usize) -> usize {
    pixel % STREAM_PIXELS * STREAMS + pixel / STREAM_PIXELS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_take_turns_and_short_tiles_end_early() {
        assert_eq!(pixels_of_tile(TILE).take(6).collect::<Vec<_>>(), [0, 512, 1024, 1536, 1, 513]);
        assert_eq!(pixels_of_tile(1025).take(6).collect::<Vec<_>>(), [0, 512, 1024, 1, 513, 2]);
        assert_eq!(pixels_of_tile(3).collect::<Vec<_>>(), [0, 1, 2]);
        for len in [0, 1, 511, 512, 513, 1500, 2047, TILE] {
            let mut all: Vec<usize> = pixels_of_tile(len).collect();
            assert!(all.is_sorted_by_key(|&pixel| position_in_order(pixel)));
            all.sort_unstable();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }
}
