//! The instruction sets that the fused kernels are compiled for, and the choice among them.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::bitmap::Bitmap;
use crate::fused::column::Column;
use crate::fused::kernel::Selection;
use crate::fused::lane::Lane;
use crate::fused::source::Place;
use crate::fused::table::Table;
use crate::invalid::InvalidOf;
use crate::lz4::{Decoded, Room};
use crate::matrix::Tile;
use crate::order::TILE;
use crate::pixel::Pixel;
use crate::plan::{Plan, Totals};
use crate::robust::{Alone, Beside};

pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512, Avx512Gfni};

/// The steps that treat one frame, for one instruction set. All implementations give the same bytes.
pub(crate) trait Steps: Copy {
    /// Decodes a raw LZ4 block that must be `len` bytes long, a multiple of `period`: where it ends in repetitions of
    /// so many bytes, they may be left out; 0 leaves none out. `None` if the block is not sound.
    fn expand(self, block: &[u8], room: &mut Room, len: usize, period: usize) -> Option<Decoded>;

    /// The same into the first `len` bytes of memory that may hold anything, [`crate::lz4::SLACK`] longer, all of which
    /// may be overwritten. Whether the block is sound.
    fn expand_over(self, block: &[u8], out: &mut [u8], len: usize) -> bool;

    /// The pixels of a tile but for `unused` ones that have a bit set in any of some planes, which are `stride` bytes
    /// each; the tile starts at byte `from` of each.
    fn union(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap;

    /// Whether there are such pixels.
    fn has_any(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool;

    /// The pixels of a tile that have their bit set in all of some planes.
    fn intersection(self, planes: &[u8], stride: usize, from: usize) -> Bitmap;

    /// The bytes of a tile's pixels, from eight planes.
    fn unshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]);

    /// The native pixels of some eights of pixels, as many as `out` holds, from all planes of a block.
    fn untranspose(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]);

    /// See [`crate::fused::native`].
    fn read_native<T: Pixel>(self, lane: &mut Lane, pixels: &[u8], place: Place<'_>, rule: &InvalidOf<T>);

    /// See [`Plan::totals_without`].
    fn totals_without(self, plan: &Plan, invalid: &[u32]) -> Totals;

    /// See [`Alone::reduce`].
    fn reduce_alone<T: Pixel>(self, frames: Alone<'_, T>);

    /// See [`Beside::reduce`].
    fn reduce_beside(self, frames: Beside<'_>);

    /// The sum of some numbers, in the order of [`crate::robust::lanes`].
    fn sum(self, numbers: &[f64]) -> f64;

    /// See [`crate::robust::quantile::sum_below`].
    fn sum_below(self, intensity: &[f64], norm: &[f64], low: f64) -> f64;

    /// See [`crate::robust::quantile::places_within`].
    fn places_within(self, intensity: &[f64], low: f64, high: f64, places: &mut Vec<u32>);
}

/// The steps that treat `L` frames side by side.
pub(crate) trait Backend<const L: usize>: Steps {
    /// From bytes by frame to bytes by pixel.
    fn interleave(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]);

    /// The same for reals.
    fn interleave_reals(self, lanes: [&[f64; TILE]; L], out: &mut [[f64; L]; TILE]);

    /// The pixels but for `unused` ones that are set in any of the bitmaps, and how many.
    fn any(self, bitmaps: [&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32);

    /// See [`crate::fused::kernel`].
    fn accumulate<C: Column<L>>(self, table: &mut Table<L>, tile: Tile<'_>, column: &C, selection: Selection<'_>);
}

/// Has the processor bring bytes near that will be read some thousand cycles from now: many frames are read in turn, each from where
/// the memory's own foresight does not reach.
#[allow(unsafe_code)]
pub(crate) fn prefetch(bytes: &[u8]) {
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
pub(crate) fn prefetch_one<T>(value: &T) {
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

/// Calls a method of [`Steps`] on the best that this processor has: for whole blocks, where the choice costs nothing.
macro_rules! with_best {
    (|$steps:ident| $call:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if let Some($steps) = $crate::backend::Avx512Gfni::detect() {
            return $call;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some($steps) = $crate::backend::Avx2::detect() {
            return $call;
        }
        let $steps = $crate::backend::Portable;
        $call
    }};
}

/// Calls something with the [`Steps`] of an instruction set, which the processor is asked for again.
macro_rules! with_isa {
    ($isa:expr, |$steps:ident| $call:expr) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512Gfni if $crate::backend::Avx512Gfni::detect().is_some() => {
                let $steps = $crate::backend::Avx512Gfni::detect().expect("it was just detected");
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512 if $crate::backend::Avx512::detect().is_some() => {
                let $steps = $crate::backend::Avx512::detect().expect("it was just detected");
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx2 if $crate::backend::Avx2::detect().is_some() => {
                let $steps = $crate::backend::Avx2::detect().expect("it was just detected");
                $call
            }
            _ => {
                let $steps = $crate::backend::Portable;
                $call
            }
        }
    };
}
pub(crate) use with_isa;

/// [`Steps::expand`] by the best steps, all of it.
pub(crate) fn expand(block: &[u8], room: &mut Room, len: usize) -> Option<Decoded> {
    with_best!(|steps| steps.expand(block, room, len, 0))
}

/// [`Steps::expand_over`] by the best steps.
pub(crate) fn expand_over(block: &[u8], out: &mut [u8], len: usize) -> bool {
    with_best!(|steps| steps.expand_over(block, out, len))
}

/// [`Steps::untranspose`] by the best steps.
pub(crate) fn untranspose(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    with_best!(|steps| steps.untranspose(planes, stride, from, out))
}

/// [`Steps::totals_without`] by the best steps.
pub(crate) fn totals_without(plan: &Plan, invalid: &[u32]) -> Totals {
    with_best!(|steps| steps.totals_without(plan, invalid))
}
