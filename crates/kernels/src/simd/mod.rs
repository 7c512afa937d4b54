//! The instruction sets that the fused kernels are compiled for, and the choice among them.

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

/// The steps that treat one frame, for one instruction set. All implementations give the same bytes.
pub(crate) trait SimdBackend: Copy {
    /// Decodes a raw LZ4 block that must be `len` bytes long, a multiple of `period`: where it ends in repetitions of
    /// so many bytes, they may be left out; 0 leaves none out. `None` if the block is not sound.
    fn decompress(self, block: &[u8], room: &mut BlockBuffer, len: usize, period: usize) -> Option<DecodedBlock>;

    /// The same into the first `len` bytes of memory that may hold anything, [`crate::lz4_block::SLACK`] longer, all of which
    /// may be overwritten. Whether the block is sound.
    fn decompress_with_slack(self, block: &[u8], out: &mut [u8], len: usize) -> bool;

    /// The pixels of a tile but for `unused` ones that have a bit set in any of some planes, which are `stride` bytes
    /// each; the tile starts at byte `from` of each.
    fn or_planes(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap;

    /// Whether there are such pixels.
    fn any_bit_set(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool;

    /// The pixels of a tile that have their bit set in all of some planes.
    fn and_planes(self, planes: &[u8], stride: usize, from: usize) -> Bitmap;

    /// The bytes of a tile's pixels, from eight planes.
    fn bitunshuffle_tile(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]);

    /// The native pixels of some eights of pixels, as many as `out` holds, from all planes of a block.
    fn bitunshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]);

    /// See [`crate::fused::native`].
    fn read_native_tile<T: Pixel>(
        self,
        lane: &mut Lane,
        pixels: &[u8],
        place: TileContext<'_>,
        rule: &InvalidRanges<T>,
    );

    /// See [`IntegrationPlan::static_sums_without`].
    fn static_sums_without(self, plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums;

    /// See [`PerFrameReduction::reduce`].
    fn reduce_per_frame<T: Pixel>(self, frames: PerFrameReduction<'_, T>);

    /// See [`InterleavedReduction::reduce`].
    fn reduce_interleaved(self, frames: InterleavedReduction<'_>);

    /// The sum of some numbers, in the order of [`crate::robust::partial_sums`].
    fn sum(self, numbers: &[f64]) -> f64;

    /// See [`crate::robust::quantile::sum_below`].
    fn sum_below(self, intensity: &[f64], norm: &[f64], low: f64) -> f64;

    /// See [`crate::robust::quantile::places_within`].
    fn indices_within(self, intensity: &[f64], low: f64, high: f64, places: &mut Vec<u32>);
}

/// The steps that treat `L` frames side by side.
pub(crate) trait LaneBackend<const L: usize>: SimdBackend {
    /// From bytes by frame to bytes by pixel.
    fn interleave(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]);

    /// The same for reals.
    fn interleave_f64(self, lanes: [&[f64; TILE]; L], out: &mut [[f64; L]; TILE]);

    /// The pixels but for `unused` ones that are set in any of the bitmaps, and how many.
    fn or_bitmaps(self, bitmaps: [&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32);

    /// See [`crate::fused::accumulate`].
    fn accumulate<C: InterleavedTile<L>>(
        self,
        table: &mut Accumulators<L>,
        tile: CscTile<'_>,
        column: &C,
        selection: PixelSelection<'_>,
    );
}

/// Has the processor bring bytes near that will be read some thousand cycles from now: many frames are read in turn, each from where
/// the memory's own foresight does not reach.
#[allow(unsafe_code)]
pub(crate) fn prefetch_bytes(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: nothing is read but a hint.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// The same for the line that a value starts in, close by.
#[allow(unsafe_code)]
#[inline(always)]
pub(crate) fn prefetch_value<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: nothing is read but a hint.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What the compiler's target has; 8 frames side by side.
    Portable,
    /// AVX2 and FMA; 8 frames side by side.
    Avx2,
    /// AVX-512 (F, BW, VL, DQ); 16 frames side by side, or 8 where there are no more.
    Avx512,
    /// The same with VBMI and GFNI.
    Avx512Gfni,
}

impl Isa {
    /// The sets that this processor has, the best one first.
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

/// Calls a method of [`SimdBackend`] on the best that this processor has: for whole blocks, where the choice costs nothing.
macro_rules! with_best_isa {
    (|$steps:ident| $call:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if let Some($steps) = $crate::simd::Avx512Gfni::detect() {
            return $call;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some($steps) = $crate::simd::Avx2::detect() {
            return $call;
        }
        let $steps = $crate::simd::Portable;
        $call
    }};
}

/// Calls something with the [`SimdBackend`] of an instruction set, which the processor is asked for again.
macro_rules! with_isa {
    ($isa:expr, |$steps:ident| $call:expr) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512Gfni if $crate::simd::Avx512Gfni::detect().is_some() => {
                let $steps = $crate::simd::Avx512Gfni::detect().expect("it was just detected");
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512 if $crate::simd::Avx512::detect().is_some() => {
                let $steps = $crate::simd::Avx512::detect().expect("it was just detected");
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx2 if $crate::simd::Avx2::detect().is_some() => {
                let $steps = $crate::simd::Avx2::detect().expect("it was just detected");
                $call
            }
            _ => {
                let $steps = $crate::simd::Portable;
                $call
            }
        }
    };
}
pub(crate) use with_isa;

/// [`SimdBackend::decompress`] by the best steps, all of it.
pub(crate) fn decompress(block: &[u8], room: &mut BlockBuffer, len: usize) -> Option<DecodedBlock> {
    with_best_isa!(|steps| steps.decompress(block, room, len, 0))
}

/// [`SimdBackend::decompress_with_slack`] by the best steps.
pub(crate) fn decompress_with_slack(block: &[u8], out: &mut [u8], len: usize) -> bool {
    with_best_isa!(|steps| steps.decompress_with_slack(block, out, len))
}

/// [`SimdBackend::bitunshuffle`] by the best steps.
pub(crate) fn bitunshuffle(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    with_best_isa!(|steps| steps.bitunshuffle(planes, stride, from, out))
}

/// [`SimdBackend::static_sums_without`] by the best steps.
pub(crate) fn static_sums_without(plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums {
    with_best_isa!(|steps| steps.static_sums_without(plan, invalid))
}
