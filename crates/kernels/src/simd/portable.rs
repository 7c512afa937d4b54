//! The operations in plain Rust: the reference for all instruction sets, and the fallback for
//! processors without one.

use std::ops::RangeInclusive;

use super::{Kernel, Simd};
use crate::bitmap::Bitmap;
use crate::lz4_block::{self, BlockBuffer, DecodedBlock};
use crate::summation_order::TILE;

/// The instructions of the compiler's target, which any processor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

impl Simd for Portable {
    const HAS_FMA: bool = false;
    const HAS_16_LANES: bool = false;

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    fn decompress(
        self,
        block: &[u8],
        buffer: &mut BlockBuffer,
        len: usize,
        _: usize,
    ) -> Option<DecodedBlock> {
        lz4_block::decompress_into_buffer(block, buffer, len)
    }

    fn decompress_with_slack(self, block: &[u8], out: &mut [u8], len: usize) -> bool {
        lz4_block::decompress(block, &mut out[..len])
    }

    fn bitunshuffle_tile(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
        bitunshuffle(planes, stride, from, out);
    }

    fn bitunshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
        bitunshuffle(planes, stride, from, out);
    }

    fn interleave<const L: usize>(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]) {
        self.run(Interleave { lanes: &lanes, out });
    }

    fn indices_within(self, numbers: &[f64], low: f64, high: f64, indices: &mut Vec<u32>) {
        indices.resize(numbers.len(), 0);
        let mut count = 0;
        for (index, &number) in (0..).zip(numbers) {
            indices[count] = index;
            count += usize::from((low <= number) & (number <= high));
        }
        indices.truncate(count);
    }
}

/// Computes the OR over the planes of a tile, without the `unused` pixels; see [`Simd::or_planes`].
pub(super) struct OrPlanes<'a> {
    pub(super) planes: &'a [u8],
    pub(super) stride: usize,
    pub(super) from: usize,
    pub(super) unused: &'a Bitmap,
}

impl Kernel for OrPlanes<'_> {
    type Output = Bitmap;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Bitmap {
        let planes = self.planes.chunks_exact(self.stride);
        let any = planes
            .fold(Bitmap::EMPTY, |all, plane| all.zip(&tile_bits(plane, self.from), |a, b| a | b));
        any.without(self.unused)
    }
}

/// Finds out whether [`OrPlanes`] finds any pixel.
pub(super) struct AnyBitSet<'a>(pub(super) OrPlanes<'a>);

impl Kernel for AnyBitSet<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        !self.0.run(simd).is_empty()
    }
}

/// Computes the AND over the planes of a tile; see [`Simd::and_planes`].
pub(super) struct AndPlanes<'a> {
    pub(super) planes: &'a [u8],
    pub(super) stride: usize,
    pub(super) from: usize,
}

impl Kernel for AndPlanes<'_> {
    type Output = Bitmap;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Bitmap {
        let planes = self.planes.chunks_exact(self.stride);
        planes.fold(Bitmap::FULL, |all, plane| all.zip(&tile_bits(plane, self.from), |a, b| a & b))
    }
}

/// Finds the candidates whose bit patterns are in a range; see [`Simd::patterns_within`].
pub(super) struct PatternsWithin<'a> {
    pub(super) planes: &'a [u8],
    pub(super) stride: usize,
    pub(super) from: usize,
    pub(super) patterns: &'a RangeInclusive<u64>,
    pub(super) candidates: &'a Bitmap,
}

impl Kernel for PatternsWithin<'_> {
    type Output = Bitmap;

    /// Compares many pixels at once, plane by plane from the top one on.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Bitmap {
        /// Number of words that fill a vector register.
        const WORDS: usize = 8;
        let Self { planes, stride, from, patterns, candidates } = self;
        let [low, high] = [*patterns.start(), *patterns.end()];
        let mut within = *candidates;
        for (part, words) in within.0.as_chunks_mut::<WORDS>().0.iter_mut().enumerate() {
            if *words == [0; WORDS] {
                continue;
            }
            let [mut like_low, mut like_high] = [[u64::MAX; WORDS]; 2];
            for (plane, bytes) in planes.chunks_exact(stride).enumerate().rev() {
                let bits = &bytes[from + 8 * WORDS * part..][..8 * WORDS];
                let bits: [u64; WORDS] = bytemuck::pod_read_unaligned(bits);
                for (index, bits) in bits.into_iter().enumerate() {
                    let bits = u64::from_le(bits);
                    if low >> plane & 1 == 1 {
                        words[index] &= bits | !like_low[index];
                        like_low[index] &= bits;
                    } else {
                        like_low[index] &= !bits;
                    }
                    if high >> plane & 1 == 0 {
                        words[index] &= !(bits & like_high[index]);
                        like_high[index] &= !bits;
                    } else {
                        like_high[index] &= bits;
                    }
                }
            }
        }
        within
    }
}

/// Computes the OR over bitmaps, without the `unused` pixels, and counts the pixels that are set.
pub(super) struct OrBitmaps<'a, const L: usize> {
    pub(super) bitmaps: &'a [&'a Bitmap; L],
    pub(super) unused: &'a Bitmap,
}

impl<const L: usize> Kernel for OrBitmaps<'_, L> {
    type Output = (Bitmap, u32);

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> (Bitmap, u32) {
        let mut any = Bitmap::EMPTY;
        for (i, word) in any.0.iter_mut().enumerate() {
            *word =
                self.bitmaps.iter().fold(0, |all, bitmap| all | bitmap.0[i]) & !self.unused.0[i];
        }
        (any, any.count())
    }
}

/// Transposes a tile from one array per frame to one row per pixel.
pub(super) struct Interleave<'a, V, const L: usize> {
    pub(super) lanes: &'a [&'a [V; TILE]; L],
    pub(super) out: &'a mut [[V; L]; TILE],
}

impl<V: Copy, const L: usize> Kernel for Interleave<'_, V, L> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (pixel, out) in self.out.iter_mut().enumerate() {
            *out = self.lanes.map(|lane| lane[pixel]);
        }
    }
}

/// Returns the bits of a tile from one plane.
#[inline(always)]
fn tile_bits(plane: &[u8], from: usize) -> Bitmap {
    let mut bits = Bitmap::EMPTY;
    for (word, bytes) in bits.0.iter_mut().zip(plane[from..from + TILE / 8].as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    bits
}

/// Transposes bit planes to pixels of any number of bytes, eight pixels at a time.
pub(super) fn bitunshuffle(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    let element = planes.len() / (8 * stride);
    for (byte, planes) in planes.chunks_exact(8 * stride).enumerate() {
        for (j, out) in out.chunks_mut(8 * element).enumerate() {
            let mut bits = 0;
            for plane in (0..8).rev() {
                bits = bits << 8 | u64::from(planes[plane * stride + from + j]);
            }
            for (out, value) in
                out.chunks_exact_mut(element).zip(transpose_bits_8x8(bits).to_le_bytes())
            {
                out[byte] = value;
            }
        }
    }
}

/// Transposes a matrix of 8 × 8 bits; byte `i` is row `i`. The algorithm is that of Hacker's
/// Delight, section 7-3.
fn transpose_bits_8x8(mut bits: u64) -> u64 {
    for (shift, mask) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let swap = (bits ^ bits >> shift) & mask;
        bits ^= swap ^ swap << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;

    #[test]
    fn patterns_are_within_a_range_as_numbers_are() {
        const PLANES: usize = 5;
        /// Compiles the search for each instruction set.
        struct Search<'a>(&'a [u8], RangeInclusive<u64>, Bitmap);
        impl Kernel for Search<'_> {
            type Output = Bitmap;

            #[inline(always)]
            fn run<S: Simd>(self, simd: S) -> Bitmap {
                simd.patterns_within(self.0, TILE / 4, TILE / 8, &self.1, &self.2)
            }
        }
        let number = |pixel: usize| (pixel * 7919 % (1 << PLANES)) as u64;
        // The second of two tiles.
        let mut planes = vec![0; PLANES * TILE / 4];
        for (plane, bits) in planes.chunks_exact_mut(TILE / 4).enumerate() {
            for pixel in 0..TILE {
                bits[TILE / 8 + pixel / 8] |= ((number(pixel) >> plane & 1) as u8) << (pixel % 8);
            }
        }
        for low in 0..1 << PLANES {
            for high in low..1 << PLANES {
                // There are none in most words.
                let candidates = Bitmap::from_fn(|pixel| pixel % 700 < 90 && pixel % 3 != 0);
                let expected = Bitmap::from_fn(|pixel| {
                    candidates.contains(pixel) && (low..=high).contains(&number(pixel))
                });
                for isa in Isa::available() {
                    let search = Search(&planes, low..=high, candidates);
                    assert_eq!(isa.run(search), expected, "{low}..={high}");
                }
            }
        }
    }
}
