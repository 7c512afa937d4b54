//! AVX2 and AVX-512: the portable steps compiled for them, and steps of their own where instructions do better.
#![allow(unsafe_code)]
// Each unsafe block calls a function that is compiled for instructions which the processor may lack. It has them: the
// tokens are only made where they were detected.

mod shuffle_avx2;
mod shuffle_avx512;

use super::{LaneBackend, SimdBackend, portable};
use crate::bitmap::Bitmap;
use crate::fused::accumulate::{self, PixelSelection};
use crate::fused::accumulators::Accumulators;
use crate::fused::interleaved_tile::InterleavedTile;
use crate::fused::lane::Lane;
use crate::fused::native;
use crate::fused::pixel_source::TileContext;
use crate::invalid_values::InvalidRanges;
use crate::lz4_block::register::{Avx2Register, Avx512Register};
use crate::lz4_block::{BlockBuffer, DecodedBlock, SLACK, decoder};
use crate::pixel::Pixel;
use crate::plan::{IntegrationPlan, StaticSums};
use crate::robust::{InterleavedReduction, PerFrameReduction, partial_sums, quantile};
use crate::summation_order::TILE;
use crate::tiled_csc::CscTile;

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
macro_rules! impl_backend {
    ($token:ident, $module:ident, $vector:ident, $shuffle:ident::$unshuffle:ident, $features:literal) => {
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn decompress(
                block: &[u8],
                out: &mut [u8],
                len: usize,
                dirty: usize,
                period: usize,
            ) -> Option<DecodedBlock> {
                // SAFETY: the function is compiled for the features that the register needs.
                unsafe { decoder::decode::<$vector>(block, out, len, dirty, period) }
            }

            #[target_feature(enable = $features)]
            pub(super) fn or_planes(planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
                portable::or_planes(planes, stride, from, unused)
            }

            #[target_feature(enable = $features)]
            pub(super) fn any_bit_set(planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool {
                !portable::or_planes(planes, stride, from, unused).is_empty()
            }

            #[target_feature(enable = $features)]
            pub(super) fn and_planes(planes: &[u8], stride: usize, from: usize) -> Bitmap {
                portable::and_planes(planes, stride, from)
            }

            #[target_feature(enable = $features)]
            pub(super) fn read_native_tile<T: Pixel>(
                lane: &mut Lane,
                pixels: &[u8],
                place: TileContext<'_>,
                rule: &InvalidRanges<T>,
            ) {
                native::read_tile(lane, pixels, place, rule);
            }

            #[target_feature(enable = $features)]
            pub(super) fn static_sums_without(plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums {
                plan.static_sums_without(invalid)
            }

            #[target_feature(enable = $features)]
            pub(super) fn reduce_per_frame<T: Pixel>(steps: $token, frames: PerFrameReduction<'_, T>) {
                frames.reduce(steps);
            }

            #[target_feature(enable = $features)]
            pub(super) fn reduce_interleaved(steps: $token, frames: InterleavedReduction<'_>) {
                frames.reduce(steps);
            }

            #[target_feature(enable = $features)]
            pub(super) fn sum(numbers: &[f64]) -> f64 {
                partial_sums::sum(numbers, |number| number)
            }

            #[target_feature(enable = $features)]
            pub(super) fn sum_below(intensity: &[f64], norm: &[f64], low: f64) -> f64 {
                quantile::sum_below(intensity, norm, low)
            }

            #[target_feature(enable = $features)]
            pub(super) fn interleave_f64<const L: usize>(lanes: &[&[f64; TILE]; L], out: &mut [[f64; L]; TILE]) {
                portable::interleave(lanes, out);
            }

            #[target_feature(enable = $features)]
            pub(super) fn or_bitmaps<const L: usize>(bitmaps: &[&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32) {
                portable::or_bitmaps(bitmaps, unused)
            }

            #[target_feature(enable = $features)]
            pub(super) fn accumulate<const L: usize, C: InterleavedTile<L>>(
                table: &mut Accumulators<L>,
                tile: CscTile<'_>,
                column: &C,
                selection: PixelSelection<'_>,
            ) {
                accumulate::accumulate_tile::<L, true, C>(table, tile, column, selection);
            }
        }

        impl SimdBackend for $token {
            fn decompress(
                self,
                block: &[u8],
                room: &mut BlockBuffer,
                len: usize,
                period: usize,
            ) -> Option<DecodedBlock> {
                // SAFETY: `self` proves that the processor has the features.
                room.decode_with(len, |out, dirty| unsafe { $module::decompress(block, out, len, dirty, period) })
            }

            fn decompress_with_slack(self, block: &[u8], out: &mut [u8], len: usize) -> bool {
                // Nothing is known to be zero, but what a register needs that starts there.
                let dirty = out.len() - SLACK / 2;
                out[dirty..].fill(0);
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::decompress(block, out, len, dirty, 0) }.is_some()
            }

            fn or_planes(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::or_planes(planes, stride, from, unused) }
            }

            fn any_bit_set(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::any_bit_set(planes, stride, from, unused) }
            }

            fn and_planes(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::and_planes(planes, stride, from) }
            }

            fn bitunshuffle_tile(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $shuffle::$unshuffle(planes, stride, from, out) }
            }

            fn bitunshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
                let element = planes.len() / (8 * stride);
                // Whole registers of a plane; the rest, and elements of other sizes, the portable way.
                let fast = match element {
                    1 | 2 | 4 | 8 => out.len() / element / $shuffle::PIXELS_PER_STEP * $shuffle::PIXELS_PER_STEP,
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
                    unsafe { $shuffle::interleave_byte_planes(&bytes[..element], out) }
                }
                portable::Portable.bitunshuffle(planes, stride, from + fast / 8, rest);
            }

            fn read_native_tile<T: Pixel>(
                self,
                lane: &mut Lane,
                pixels: &[u8],
                place: TileContext<'_>,
                rule: &InvalidRanges<T>,
            ) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::read_native_tile(lane, pixels, place, rule) }
            }

            fn static_sums_without(self, plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::static_sums_without(plan, invalid) }
            }

            fn reduce_per_frame<T: Pixel>(self, frames: PerFrameReduction<'_, T>) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::reduce_per_frame(self, frames) }
            }

            fn reduce_interleaved(self, frames: InterleavedReduction<'_>) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::reduce_interleaved(self, frames) }
            }

            fn sum(self, numbers: &[f64]) -> f64 {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::sum(numbers) }
            }

            fn sum_below(self, intensity: &[f64], norm: &[f64], low: f64) -> f64 {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::sum_below(intensity, norm, low) }
            }

            fn indices_within(self, intensity: &[f64], low: f64, high: f64, places: &mut Vec<u32>) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $shuffle::indices_within(intensity, low, high, places) }
            }
        }
    };
}

/// The steps for a token and a number of frames.
macro_rules! impl_lane_backend {
    ($token:ident, $lanes:literal, $module:ident, $interleave:path) => {
        impl LaneBackend<$lanes> for $token {
            fn interleave(self, lanes: [&[u8; TILE]; $lanes], out: &mut [[u8; $lanes]; TILE]) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $interleave(&lanes, out.as_flattened_mut()) }
            }

            fn interleave_f64(self, lanes: [&[f64; TILE]; $lanes], out: &mut [[f64; $lanes]; TILE]) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::interleave_f64(&lanes, out) }
            }

            fn or_bitmaps(self, bitmaps: [&Bitmap; $lanes], unused: &Bitmap) -> (Bitmap, u32) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::or_bitmaps(&bitmaps, unused) }
            }

            fn accumulate<C: InterleavedTile<$lanes>>(
                self,
                table: &mut Accumulators<$lanes>,
                tile: CscTile<'_>,
                column: &C,
                selection: PixelSelection<'_>,
            ) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::accumulate(table, tile, column, selection) }
            }
        }
    };
}

impl_backend!(Avx2, avx2, Avx2Register, shuffle_avx2::unshuffle, "avx2,fma");
impl_lane_backend!(Avx2, 1, avx2, interleave_1);
impl_lane_backend!(Avx2, 8, avx2, shuffle_avx2::interleave_8);

impl_backend!(Avx512, avx512, Avx2Register, shuffle_avx512::unshuffle, "avx512f,avx512bw,avx512vl,avx512dq,fma");
impl_lane_backend!(Avx512, 1, avx512, interleave_1);
impl_lane_backend!(Avx512, 8, avx512, shuffle_avx512::interleave_8);
impl_lane_backend!(Avx512, 16, avx512, shuffle_avx512::interleave_16);

impl_backend!(
    Avx512Gfni,
    avx512_gfni,
    Avx512Register,
    shuffle_avx512::unshuffle_gfni,
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,gfni,fma"
);
impl_lane_backend!(Avx512Gfni, 1, avx512_gfni, interleave_1);
impl_lane_backend!(Avx512Gfni, 8, avx512_gfni, shuffle_avx512::interleave_8);
impl_lane_backend!(Avx512Gfni, 16, avx512_gfni, shuffle_avx512::interleave_16);

/// One frame stands as it is.
///
/// # Safety
/// None is needed; it is one of a kind with those that need features.
unsafe fn interleave_1(lanes: &[&[u8; TILE]; 1], out: &mut [u8]) {
    out.copy_from_slice(lanes[0]);
}
