//! Vector operations per instruction set, and the dispatch of algorithms to instruction sets.
//!
//! [`Simd`] lists the operations that an instruction set may implement with intrinsics. An
//! algorithm is a [`Kernel`]: generic over [`Simd`], and compiled once for each instruction set.
//! [`Isa::run`] runs it with the instruction set that the processor has:
//!
//! ```text
//! isa.run(kernel)  →  Avx2::run (compiled for AVX2)  →  kernel.run(simd), inlined, so compiled for AVX2, too
//! ```
//!
//! `portable` is plain Rust and the reference; `x86` has AVX2 and AVX-512. All give the same bytes.
//! This module knows no algorithm. A further instruction set is a file beside `portable` that
//! implements [`Simd`], and a row of `dispatch`.

mod dispatch;
mod portable;
mod prefetch;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::RangeInclusive;

use crate::bitmap::Bitmap;
use crate::lz4_block::{BlockBuffer, DecodedBlock};
use crate::summation_order::TILE;

pub use dispatch::Isa;
pub(crate) use prefetch::{prefetch_bytes, prefetch_value};

/// An algorithm that is compiled for each instruction set.
///
/// `run` must be `#[inline(always)]`, and so must the functions with its inner loops: code that
/// isn't inlined into [`Simd::run`] is compiled for the processor that the compiler targets, and
/// slow. Closures can't have the attribute, so what an inner loop calls is a method of a type
/// unless it is tiny.
pub(crate) trait Kernel {
    /// The result.
    type Output;

    /// Runs the algorithm with the vector operations of an instruction set.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// The vector operations of an instruction set. A value is the proof that the processor has the
/// instructions. All implementations give the same bytes.
///
/// Operations with a body are portable code; the compiler vectorizes it for each instruction set.
pub(crate) trait Simd: Copy {
    /// True if a fused multiply-add is one instruction. Where it isn't, [`f64::mul_add`] calls a
    /// slow function.
    const HAS_FMA: bool;

    /// True if the registers make 16 interleaved frames faster than 8.
    const HAS_16_LANES: bool;

    /// Runs a kernel that is compiled for the instruction set.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;

    /// Decompresses a raw LZ4 block that must give `len` bytes. Returns `None` if the block is
    /// damaged.
    ///
    /// If the block ends in repetitions of `period` bytes, all but the first may be omitted; `len`
    /// is a multiple of `period`. With a `period` of 0 nothing is omitted.
    fn decompress(
        self,
        block: &[u8],
        buffer: &mut BlockBuffer,
        len: usize,
        period: usize,
    ) -> Option<DecodedBlock>;

    /// Decompresses a raw LZ4 block to the first `len` bytes of `out`, and returns false if the
    /// block is damaged.
    ///
    /// `out` must be [`crate::lz4_block::SLACK`] bytes longer than `len`; those bytes are
    /// overwritten, too.
    fn decompress_with_slack(self, block: &[u8], out: &mut [u8], len: usize) -> bool;

    /// Transposes eight bit planes of a tile to one byte per pixel. Each plane takes `stride` bytes
    /// of `planes`, and the tile starts at byte `from` of each plane.
    fn bitunshuffle_tile(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]);

    /// Transposes all bit planes of a block to pixels in native byte order, as many as fit in
    /// `out`: a multiple of eight, starting with bit 0 of byte `from` of each plane.
    fn bitunshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]);

    /// Transposes the bytes of a tile's pixels from one array per frame to one row per pixel.
    fn interleave<const L: usize>(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]);

    /// Replaces the contents of `indices` by the indices of all numbers from `low` to `high`, both
    /// included, ascending.
    fn indices_within(self, numbers: &[f64], low: f64, high: f64, indices: &mut Vec<u32>);

    /// Transposes a tile of floating-point pixels from one array per frame to one row per pixel.
    fn interleave_f64<const L: usize>(self, lanes: [&[f64; TILE]; L], out: &mut [[f64; L]; TILE]) {
        self.run(portable::Interleave { lanes: &lanes, out });
    }

    /// Returns the pixels of a tile that have their bit set in any of the bit planes, without the
    /// `unused` pixels. See [`Simd::bitunshuffle_tile`] for `stride` and `from`.
    fn or_planes(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
        self.run(portable::OrPlanes { planes, stride, from, unused })
    }

    /// Returns true if [`Simd::or_planes`] finds any pixel.
    fn any_bit_set(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool {
        self.run(portable::AnyBitSet(portable::OrPlanes { planes, stride, from, unused }))
    }

    /// Returns the pixels of a tile that have their bit set in all of the bit planes.
    fn and_planes(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
        self.run(portable::AndPlanes { planes, stride, from })
    }

    /// Returns the candidates among the pixels of a tile whose bits in the planes, of which the first
    /// is the lowest, are a number in the range. The numbers have no more bits than there are planes.
    fn patterns_within(
        self,
        planes: &[u8],
        stride: usize,
        from: usize,
        patterns: &RangeInclusive<u64>,
        candidates: &Bitmap,
    ) -> Bitmap {
        self.run(portable::PatternsWithin { planes, stride, from, patterns, candidates })
    }

    /// Returns the pixels that are set in any of the bitmaps, without the `unused` ones, and their
    /// number.
    fn or_bitmaps<const L: usize>(self, bitmaps: [&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32) {
        self.run(portable::OrBitmaps { bitmaps: &bitmaps, unused })
    }
}
