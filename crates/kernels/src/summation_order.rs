//! Defines the order in which the CPU sums pixels into bins.
//!
//! Every CPU kernel keeps it but those of `robust`, which need all pixels of a bin and add sixteen
//! partial sums (`robust/partial_sums.rs`). OpenCL devices add partial sums per work-group
//! ([`crate::opencl`]).
//!
//! Floating-point sums depend on their order, and azpipe promises that integration on CPUs gives
//! equal bytes for any instruction set, codec, number of threads and division into tasks. Therefore
//! the order is part of the definition of a result:
//!
//! 1. Each bin has one f64 accumulator per quantity, which starts at +0.
//! 2. Pixels are added **tile by tile**. A tile is [`TILE`] consecutive pixels of the row-major
//!    frame; the last may be short.
//! 3. Each tile has two rounds. In the first each pixel adds its *pair*: its entry in its first
//!    bin, then its entry in the next bin. In the second each pixel adds its other entries, in
//!    rising order of bins.
//! 4. In both rounds pixels are taken from [`STREAMS`] **streams** in turn: for `i` in `0..512` the
//!    pixels `i`, `i + 512`, `i + 1024`, `i + 1536` of the tile, if they exist.
//! 5. A term is `weight · x`, both in f64. The product is rounded and then added, not fused into
//!    one rounding. For the signal `x` is the pixel. For the Poisson variance the weight is squared
//!    (exact: 48 bits) and `x` is `max(pixel, 1) - 1`, the *Poisson excess*; pixels that are corrected
//!    for [`DeadTime`](crate::DeadTime) have its variance in place of `max(pixel, 1)`. The remaining variance
//!    of 1 per pixel does not depend on the frame: the plan has its sum Σ w² per bin, which
//!    [`Sums`](crate::Sums) adds at the end. For the spread of the pixels in a bin, the weight is
//!    squared and `x` is `pixel · (pixel - 2 dark)`, at most the greatest double; and the squared
//!    weight is multiplied by the normalization and `x` is the pixel.
//!
//! Reasons:
//! - Tiles: a bitshuffled block of 8 KiB holds 2048 pixels of 32 bits. It is decoded into the
//!   first-level cache, and its part of the matrix is applied to many frames while both are in the
//!   cache.
//! - Streams: neighbouring pixels mostly fall into one bin, and adding to an accumulator that has
//!   just been stored waits for the store. Four distant streams hide the latency.
//! - Pairs: if bins are about as wide as pixels, nearly all pixels touch two neighbouring bins. A
//!   bin number and two weights describe such a pixel, and the few others do not slow it down.
//!
//! The order does not depend on how frames are stored. The lanes of SIMD kernels are frames, so
//! each lane has this order.
//!
//! A term of zero may be left out: accumulators are never -0, so adding ±0 changes no bit. A fused
//! multiply-add is allowed if the product is exact (24 bits of weight times a pixel below 2^29),
//! because the result has the same bits.

/// How many pixels a tile has.
pub const TILE: usize = 2048;

/// How many streams a tile is read in.
pub const STREAMS: usize = 4;

/// How many pixels of a tile a stream has.
pub(crate) const STREAM_PIXELS: usize = TILE / STREAMS;

/// Iterates over the pixels `0..len` of a tile in the order of summation.
pub(crate) fn pixels_of_tile(len: usize) -> impl Iterator<Item = usize> {
    (0..STREAM_PIXELS.min(len)).flat_map(move |i| (i..len).step_by(STREAM_PIXELS))
}

/// Returns the position of a pixel of a tile in the order of summation. In a short tile some
/// positions are unused.
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
