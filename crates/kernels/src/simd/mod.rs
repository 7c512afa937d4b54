//! Vector operations per instruction set, and the run-time dispatch among them.
//!
//! [`SimdBackend`] lists the operations on one frame, [`LaneBackend`] those on several interleaved frames. `portable`
//! implements them in plain Rust, and is the reference; `x86` compiles the same code for AVX2 and AVX-512 and replaces
//! some operations by intrinsics. All backends give the same bytes.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::bitmap::Bitmap;
use crate::fused::accumulate::PixelSelection;
use crate::fused::accumulators::Accumulators;
use crate::fused::interleaved_tile::InterleavedTile;
use crate::fused::lane::Lane;
use crate::fused::pixel_source::TileContext;
use crate::invalid_values::InvalidRanges;
use crate::lz4_block::{BlockBuffer, DecodedBlock};
use crate::pixel::Pixel;
use crate::plan::{IntegrationPlan, StaticSums};
use crate::robust::{InterleavedReduction, PerFrameReduction};
use crate::summation_order::TILE;
use crate::tiled_csc::CscTile;

pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512, Avx512Gfni};

/// The operations on one frame, for one instruction set. All implementations give the same bytes.
pub(crate) trait SimdBackend: Copy {
    /// Decompresses a raw LZ4 block that must give `len` bytes. Returns `None` if the block is damaged.
    ///
    /// If the block ends in repetitions of `period` bytes, all but the first may be omitted; `len` is a multiple of
    /// `period`. With a `period` of 0 nothing is omitted.
    fn decompress(self, block: &[u8], buffer: &mut BlockBuffer, len: usize, period: usize) -> Option<DecodedBlock>;

    /// Decompresses a raw LZ4 block to the first `len` bytes of `out`, and returns false if the block is damaged.
    ///
    /// `out` must be [`crate::lz4_block::SLACK`] bytes longer than `len`; those bytes are overwritten, too.
    fn decompress_with_slack(self, block: &[u8], out: &mut [u8], len: usize) -> bool;

    /// Returns the pixels of a tile that have their bit set in any of the bit planes, without the `unused` pixels.
    ///
    /// Each plane takes `stride` bytes of `planes`, and the tile starts at byte `from` of each plane.
    fn or_planes(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap;

    /// Returns true if [`SimdBackend::or_planes`] finds any pixel.
    fn any_bit_set(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool;

    /// Returns the pixels of a tile that have their bit set in all of the bit planes.
    fn and_planes(self, planes: &[u8], stride: usize, from: usize) -> Bitmap;

    /// Transposes eight bit planes of a tile to one byte per pixel.
    fn bitunshuffle_tile(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]);

    /// Transposes all bit planes of a block to pixels in native byte order, as many as fit in `out`: a multiple of
    /// eight, starting with bit 0 of byte `from` of each plane.
    fn bitunshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]);

    /// See [`crate::fused::native`].
    fn read_native_tile<T: Pixel>(
        self,
        lane: &mut Lane,
        pixels: &[u8],
        context: TileContext<'_>,
        rule: &InvalidRanges<T>,
    );

    /// See [`IntegrationPlan::static_sums_without`].
    fn static_sums_without(self, plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums;

    /// See [`PerFrameReduction::reduce`].
    fn reduce_per_frame<T: Pixel>(self, frames: PerFrameReduction<'_, T>);

    /// See [`InterleavedReduction::reduce`].
    fn reduce_interleaved(self, frames: InterleavedReduction<'_>);

    /// Returns the sum of `numbers`, in the order of [`crate::robust::partial_sums`].
    fn sum(self, numbers: &[f64]) -> f64;

    /// See [`crate::robust::quantile::sum_below`].
    fn sum_below(self, intensity: &[f64], norm: &[f64], low: f64) -> f64;

    /// See [`crate::robust::quantile::indices_within`].
    fn indices_within(self, intensity: &[f64], low: f64, high: f64, indices: &mut Vec<u32>);
}

/// The operations on `L` interleaved frames. Lane `l` is frame `l`.
pub(crate) trait LaneBackend<const L: usize>: SimdBackend {
    /// Transposes a tile from one array per frame to one row per pixel.
    fn interleave(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]);

    /// Transposes a tile of floating-point pixels from one array per frame to one row per pixel.
    fn interleave_f64(self, lanes: [&[f64; TILE]; L], out: &mut [[f64; L]; TILE]);

    /// Returns the pixels that are set in any of the bitmaps, without the `unused` ones, and their number.
    fn or_bitmaps(self, bitmaps: [&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32);

    /// See [`crate::fused::accumulate`].
    fn accumulate<C: InterleavedTile<L>>(
        self,
        accumulators: &mut Accumulators<L>,
        tile: CscTile<'_>,
        pixels: &C,
        selection: PixelSelection<'_>,
    );
}

/// Prefetches bytes into the second-level cache, to be read some thousand cycles later. Frames are read in turn, a tile
/// of each, so the hardware prefetcher can't follow.
#[allow(unsafe_code)]
pub(crate) fn prefetch_bytes(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: A prefetch is a hint: it reads no value, and an address that is not mapped causes no fault. The
        // pointer comes from a slice anyway. The instruction is part of SSE, which every x86-64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Prefetches the cache line that a value starts in into the first-level cache.
#[allow(unsafe_code)]
#[inline(always)]
pub(crate) fn prefetch_value<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: A prefetch is a hint: it reads no value, and an address that is not mapped causes no fault. The
        // pointer comes from a reference anyway. The instruction is part of SSE, which every x86-64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// An instruction set that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The instructions of the compiler's target, such as SSE2 on x86-64; 8 frames interleaved.
    Portable,
    /// AVX2 and FMA; 8 frames interleaved.
    Avx2,
    /// AVX-512 (F, BW, VL, DQ); 16 frames interleaved, or 8 if a call has no more.
    Avx512,
    /// AVX-512 (F, BW, VL, DQ) with VBMI and GFNI; 16 frames interleaved, or 8 if a call has no more.
    Avx512Gfni,
}

impl Isa {
    /// Returns the instruction sets that this processor supports, the fastest first.
    pub fn available() -> Vec<Isa> {
        let mut all = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(Avx2::detect().map(|_| Isa::Avx2));
            all.extend(Avx512::detect().map(|_| Isa::Avx512));
            all.extend(Avx512Gfni::detect().map(|_| Isa::Avx512Gfni));
        }
        all.reverse();
        all
    }
}

/// Returns the result of an expression from the calling function, evaluated with the fastest backend of this processor.
/// The features are looked up at each call, which costs nothing for operations on whole blocks.
macro_rules! with_best_isa {
    (|$backend:ident| $call:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if let Some($backend) = $crate::simd::Avx512Gfni::detect() {
            return $call;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some($backend) = $crate::simd::Avx2::detect() {
            return $call;
        }
        let $backend = $crate::simd::Portable;
        $call
    }};
}

/// Evaluates an expression with the backend of an [`Isa`]. If the processor lacks the instruction set, the portable
/// backend is used.
macro_rules! with_isa {
    ($isa:expr, |$backend:ident| $call:expr) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512Gfni if $crate::simd::Avx512Gfni::detect().is_some() => {
                let $backend = $crate::simd::Avx512Gfni::detect().expect("it was just detected");
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512 if $crate::simd::Avx512::detect().is_some() => {
                let $backend = $crate::simd::Avx512::detect().expect("it was just detected");
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx2 if $crate::simd::Avx2::detect().is_some() => {
                let $backend = $crate::simd::Avx2::detect().expect("it was just detected");
                $call
            }
            _ => {
                let $backend = $crate::simd::Portable;
                $call
            }
        }
    };
}
pub(crate) use with_isa;

/// Calls [`SimdBackend::decompress`] with the fastest backend, omitting nothing.
pub(crate) fn decompress(block: &[u8], buffer: &mut BlockBuffer, len: usize) -> Option<DecodedBlock> {
    with_best_isa!(|backend| backend.decompress(block, buffer, len, 0))
}

/// Calls [`SimdBackend::decompress_with_slack`] with the fastest backend.
pub(crate) fn decompress_with_slack(block: &[u8], out: &mut [u8], len: usize) -> bool {
    with_best_isa!(|backend| backend.decompress_with_slack(block, out, len))
}

/// Calls [`SimdBackend::bitunshuffle`] with the fastest backend.
pub(crate) fn bitunshuffle(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    with_best_isa!(|backend| backend.bitunshuffle(planes, stride, from, out))
}

/// Calls [`SimdBackend::static_sums_without`] with the fastest backend.
pub(crate) fn static_sums_without(plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums {
    with_best_isa!(|backend| backend.static_sums_without(plan, invalid))
}
