//! AVX2 and AVX-512: the portable steps compiled for them, and steps of their own where instructions do better.
#![allow(unsafe_code)]
// Each unsafe block calls a function that is compiled for instructions which the processor may lack. It has them: the
// tokens are only made where they were detected.

mod shuffle256;
mod shuffle512;

use super::{Backend, Steps, portable};
use crate::bitmap::Bitmap;
use crate::fused::column::Column;
use crate::fused::kernel::{self, Selection};
use crate::fused::lane::Lane;
use crate::fused::native;
use crate::fused::source::Place;
use crate::fused::table::Table;
use crate::invalid::InvalidOf;
use crate::lz4::vector::{Wide32, Wide64};
use crate::lz4::{Decoded, Room, SLACK, fast};
use crate::matrix::Tile;
use crate::order::TILE;
use crate::pixel::Pixel;
use crate::plan::{Plan, Totals};
use crate::robust::{Alone, Beside, lanes, quantile};

/// Proof that the processor has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Proof that the processor has AVX-512 (F, BW, VL, DQ), besides AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

/// Proof that the processor has GFNI and AVX-512's VBMI, besides what [`Avx512`] stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Gfni(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Avx2(()))
    }
}

impl Avx512 {
    pub(crate) fn detect() -> Option<Avx512> {
        let has = Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq");
        has.then_some(Avx512(()))
    }
}

impl Avx512Gfni {
    pub(crate) fn detect() -> Option<Avx512Gfni> {
        let has =
            Avx512::detect().is_some() && is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("gfni");
        has.then_some(Avx512Gfni(()))
    }
}

/// The steps for a token: LZ4 with a register of its own, unshuffling by a module of its own, the others the portable
/// ones compiled for the token's features.
macro_rules! steps {
    ($token:ident, $module:ident, $vector:ident, $shuffle:ident::$unshuffle:ident, $features:literal) => {
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn expand(
                block: &[u8],
                out: &mut [u8],
                len: usize,
                dirty: usize,
                period: usize,
            ) -> Option<Decoded> {
                // SAFETY: the function is compiled for the features that the register needs.
                unsafe { fast::decode::<$vector>(block, out, len, dirty, period) }
            }

            #[target_feature(enable = $features)]
            pub(super) fn union(planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
                portable::union(planes, stride, from, unused)
            }

            #[target_feature(enable = $features)]
            pub(super) fn has_any(planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool {
                !portable::union(planes, stride, from, unused).is_empty()
            }

            #[target_feature(enable = $features)]
            pub(super) fn intersection(planes: &[u8], stride: usize, from: usize) -> Bitmap {
                portable::intersection(planes, stride, from)
            }

            #[target_feature(enable = $features)]
            pub(super) fn read_native<T: Pixel>(lane: &mut Lane, pixels: &[u8], place: Place<'_>, rule: &InvalidOf<T>) {
                native::read(lane, pixels, place, rule);
            }

            #[target_feature(enable = $features)]
            pub(super) fn totals_without(plan: &Plan, invalid: &[u32]) -> Totals {
                plan.totals_without(invalid)
            }

            #[target_feature(enable = $features)]
            pub(super) fn reduce_alone<T: Pixel>(steps: $token, frames: Alone<'_, T>) {
                frames.reduce(steps);
            }

            #[target_feature(enable = $features)]
            pub(super) fn reduce_beside(steps: $token, frames: Beside<'_>) {
                frames.reduce(steps);
            }

            #[target_feature(enable = $features)]
            pub(super) fn sum(numbers: &[f64]) -> f64 {
                lanes::sum(numbers, |number| number)
            }

            #[target_feature(enable = $features)]
            pub(super) fn sum_below(intensity: &[f64], norm: &[f64], low: f64) -> f64 {
                quantile::sum_below(intensity, norm, low)
            }

            #[target_feature(enable = $features)]
            pub(super) fn interleave_reals<const L: usize>(lanes: &[&[f64; TILE]; L], out: &mut [[f64; L]; TILE]) {
                portable::interleave(lanes, out);
            }

            #[target_feature(enable = $features)]
            pub(super) fn any<const L: usize>(bitmaps: &[&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32) {
                portable::any(bitmaps, unused)
            }

            #[target_feature(enable = $features)]
            pub(super) fn accumulate<const L: usize, C: Column<L>>(
                table: &mut Table<L>,
                tile: Tile<'_>,
                column: &C,
                selection: Selection<'_>,
            ) {
                kernel::accumulate::<L, true, C>(table, tile, column, selection);
            }
        }

        impl Steps for $token {
            fn expand(self, block: &[u8], room: &mut Room, len: usize, period: usize) -> Option<Decoded> {
                // SAFETY: `self` proves that the processor has the features.
                room.fill(len, |out, dirty| unsafe { $module::expand(block, out, len, dirty, period) })
            }

            fn expand_over(self, block: &[u8], out: &mut [u8], len: usize) -> bool {
                // Nothing is known to be zero, but what a register needs that starts there.
                let dirty = out.len() - SLACK / 2;
                out[dirty..].fill(0);
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::expand(block, out, len, dirty, 0) }.is_some()
            }

            fn union(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::union(planes, stride, from, unused) }
            }

            fn has_any(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::has_any(planes, stride, from, unused) }
            }

            fn intersection(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::intersection(planes, stride, from) }
            }

            fn unshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $shuffle::$unshuffle(planes, stride, from, out) }
            }

            fn untranspose(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
                let element = planes.len() / (8 * stride);
                // Whole registers of a plane; the rest, and elements of other sizes, the portable way.
                let fast = match element {
                    1 | 2 | 4 | 8 => out.len() / element / $shuffle::PIXELS * $shuffle::PIXELS,
                    _ => 0,
                };
                let (whole, rest) = out.split_at_mut(fast * element);
                for (tile, out) in whole.chunks_mut(TILE * element).enumerate() {
                    let (mut bytes, pixels) = ([[0; TILE]; 8], out.len() / element);
                    for (planes, bytes) in planes.chunks_exact(8 * stride).zip(&mut bytes) {
                        // SAFETY: `self` proves that the processor has the features.
                        unsafe { $shuffle::$unshuffle(planes, stride, from + tile * TILE / 8, &mut bytes[..pixels]) }
                    }
                    // SAFETY: `self` proves that the processor has the features.
                    unsafe { $shuffle::merge(&bytes[..element], out) }
                }
                portable::Portable.untranspose(planes, stride, from + fast / 8, rest);
            }

            fn read_native<T: Pixel>(self, lane: &mut Lane, pixels: &[u8], place: Place<'_>, rule: &InvalidOf<T>) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::read_native(lane, pixels, place, rule) }
            }

            fn totals_without(self, plan: &Plan, invalid: &[u32]) -> Totals {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::totals_without(plan, invalid) }
            }

            fn reduce_alone<T: Pixel>(self, frames: Alone<'_, T>) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::reduce_alone(self, frames) }
            }

            fn reduce_beside(self, frames: Beside<'_>) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::reduce_beside(self, frames) }
            }

            fn sum(self, numbers: &[f64]) -> f64 {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::sum(numbers) }
            }

            fn sum_below(self, intensity: &[f64], norm: &[f64], low: f64) -> f64 {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::sum_below(intensity, norm, low) }
            }

            fn places_within(self, intensity: &[f64], low: f64, high: f64, places: &mut Vec<u32>) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $shuffle::places_within(intensity, low, high, places) }
            }
        }
    };
}

/// The steps for a token and a number of frames.
macro_rules! lanes {
    ($token:ident, $lanes:literal, $module:ident, $interleave:path) => {
        impl Backend<$lanes> for $token {
            fn interleave(self, lanes: [&[u8; TILE]; $lanes], out: &mut [[u8; $lanes]; TILE]) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $interleave(&lanes, out.as_flattened_mut()) }
            }

            fn interleave_reals(self, lanes: [&[f64; TILE]; $lanes], out: &mut [[f64; $lanes]; TILE]) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::interleave_reals(&lanes, out) }
            }

            fn any(self, bitmaps: [&Bitmap; $lanes], unused: &Bitmap) -> (Bitmap, u32) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::any(&bitmaps, unused) }
            }

            fn accumulate<C: Column<$lanes>>(
                self,
                table: &mut Table<$lanes>,
                tile: Tile<'_>,
                column: &C,
                selection: Selection<'_>,
            ) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::accumulate(table, tile, column, selection) }
            }
        }
    };
}

steps!(Avx2, avx2, Wide32, shuffle256::unshuffle, "avx2,fma");
lanes!(Avx2, 1, avx2, interleave_1);
lanes!(Avx2, 8, avx2, shuffle256::interleave_8);

steps!(Avx512, avx512, Wide32, shuffle512::unshuffle, "avx512f,avx512bw,avx512vl,avx512dq,fma");
lanes!(Avx512, 1, avx512, interleave_1);
lanes!(Avx512, 8, avx512, shuffle512::interleave_8);
lanes!(Avx512, 16, avx512, shuffle512::interleave_16);

steps!(
    Avx512Gfni,
    avx512_gfni,
    Wide64,
    shuffle512::unshuffle_gfni,
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,gfni,fma"
);
lanes!(Avx512Gfni, 1, avx512_gfni, interleave_1);
lanes!(Avx512Gfni, 8, avx512_gfni, shuffle512::interleave_8);
lanes!(Avx512Gfni, 16, avx512_gfni, shuffle512::interleave_16);

/// One frame stands as it is.
///
/// # Safety
/// None is needed; it is one of a kind with those that need features.
unsafe fn interleave_1(lanes: &[&[u8; TILE]; 1], out: &mut [u8]) {
    out.copy_from_slice(lanes[0]);
}
