//! The backends for AVX2 and AVX-512: the portable operations compiled for these instruction sets, and intrinsics where
//! they are faster.
//!
//! [`Avx2`], [`Avx512`] and [`Avx512Gfni`] are proofs: a value of such a type exists only after `detect` has found all
//! its features on this processor. `call_with_features!` is the one place that relies on them to call a function that
//! is compiled for features.
#![allow(unsafe_code)]

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
    /// Returns the proof if the processor has the features.
    pub(crate) fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Avx2(()))
    }
}

impl Avx512 {
    /// Returns the proof if the processor has the features.
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
    /// Returns the proof if the processor has the features.
    pub(crate) fn detect() -> Option<Avx512Gfni> {
        let has =
            Avx512::detect().is_some() && is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("gfni");
        has.then_some(Avx512Gfni(()))
    }
}

/// Calls a function that is compiled for features of which `$token` is the proof. See the SAFETY comment within.
macro_rules! call_with_features {
    ($token:expr, $call:expr) => {{
        let _proof = $token;
        // SAFETY: The called functions have `#[target_feature]`, and apart from features they are safe: they take
        // references and slices, and check lengths. They are undefined behavior on a processor that lacks a feature. It
        // has all of them: the caller passes a token, whose field is private to this module, so that only `detect`
        // makes one, and `detect` asks the processor for each feature. This module alone pairs functions with tokens,
        // in the invocations of `impl_backend!` and `impl_lane_backend!` below. A function of `shuffle_avx2` or
        // `shuffle_avx512` that enables a feature which `detect` of its token does not check would break this.
        // `interleave_1` needs none.
        unsafe { $call }
    }};
}

/// Implements [`SimdBackend`] for a token: LZ4 with a register type, unshuffling by functions of a module of
/// intrinsics, and the portable operations compiled for the token's features.
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
                // SAFETY: `decode` requires that the processor has the instructions of the register type and that it is
                // inlined into a function compiled for them. This function is: `$features` is chosen beside `$vector`
                // in the invocations below, and holds what the register's methods enable (AVX-512F implies AVX2).
                // `decode` is `inline(always)`. The caller has the token for the features. Lengths are checked by
                // `decode`, which panics if `out` is too short. A register type with other features than `$features`
                // would break this.
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
                context: TileContext<'_>,
                rule: &InvalidRanges<T>,
            ) {
                native::read_tile(lane, pixels, context, rule);
            }

            #[target_feature(enable = $features)]
            pub(super) fn static_sums_without(plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums {
                plan.static_sums_without(invalid)
            }

            #[target_feature(enable = $features)]
            pub(super) fn reduce_per_frame<T: Pixel>(backend: $token, frames: PerFrameReduction<'_, T>) {
                frames.reduce(backend);
            }

            #[target_feature(enable = $features)]
            pub(super) fn reduce_interleaved(backend: $token, frames: InterleavedReduction<'_>) {
                frames.reduce(backend);
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
                accumulators: &mut Accumulators<L>,
                tile: CscTile<'_>,
                pixels: &C,
                selection: PixelSelection<'_>,
            ) {
                accumulate::accumulate_tile::<L, true, C>(accumulators, tile, pixels, selection);
            }
        }

        impl SimdBackend for $token {
            fn decompress(
                self,
                block: &[u8],
                buffer: &mut BlockBuffer,
                len: usize,
                period: usize,
            ) -> Option<DecodedBlock> {
                buffer.decode_with(len, |out, dirty| {
                    call_with_features!(self, $module::decompress(block, out, len, dirty, period))
                })
            }

            fn decompress_with_slack(self, block: &[u8], out: &mut [u8], len: usize) -> bool {
                // The contents of `out` are unknown, so only its last bytes, which no decoded byte reaches, are zeroed:
                // `decode` needs zeros from `dirty` on, as many as a register holds.
                let dirty = out.len() - SLACK / 2;
                out[dirty..].fill(0);
                call_with_features!(self, $module::decompress(block, out, len, dirty, 0)).is_some()
            }

            fn or_planes(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
                call_with_features!(self, $module::or_planes(planes, stride, from, unused))
            }

            fn any_bit_set(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool {
                call_with_features!(self, $module::any_bit_set(planes, stride, from, unused))
            }

            fn and_planes(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
                call_with_features!(self, $module::and_planes(planes, stride, from))
            }

            fn bitunshuffle_tile(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
                call_with_features!(self, $shuffle::$unshuffle(planes, stride, from, out))
            }

            fn bitunshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
                let element = planes.len() / (8 * stride);
                // Intrinsics unshuffle whole registers of a plane; the portable code does the rest, and elements of
                // other sizes.
                let fast = match element {
                    1 | 2 | 4 | 8 => out.len() / element / $shuffle::PIXELS_PER_STEP * $shuffle::PIXELS_PER_STEP,
                    _ => 0,
                };
                let (whole, rest) = out.split_at_mut(fast * element);
                for (tile, out) in whole.chunks_mut(TILE * element).enumerate() {
                    let (mut bytes, pixels) = ([[0; TILE]; 8], out.len() / element);
                    for (planes, bytes) in planes.chunks_exact(8 * stride).zip(&mut bytes) {
                        call_with_features!(
                            self,
                            $shuffle::$unshuffle(planes, stride, from + tile * TILE / 8, &mut bytes[..pixels])
                        )
                    }
                    call_with_features!(self, $shuffle::interleave_byte_planes(&bytes[..element], out))
                }
                portable::Portable.bitunshuffle(planes, stride, from + fast / 8, rest);
            }

            fn read_native_tile<T: Pixel>(
                self,
                lane: &mut Lane,
                pixels: &[u8],
                context: TileContext<'_>,
                rule: &InvalidRanges<T>,
            ) {
                call_with_features!(self, $module::read_native_tile(lane, pixels, context, rule))
            }

            fn static_sums_without(self, plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums {
                call_with_features!(self, $module::static_sums_without(plan, invalid))
            }

            fn reduce_per_frame<T: Pixel>(self, frames: PerFrameReduction<'_, T>) {
                call_with_features!(self, $module::reduce_per_frame(self, frames))
            }

            fn reduce_interleaved(self, frames: InterleavedReduction<'_>) {
                call_with_features!(self, $module::reduce_interleaved(self, frames))
            }

            fn sum(self, numbers: &[f64]) -> f64 {
                call_with_features!(self, $module::sum(numbers))
            }

            fn sum_below(self, intensity: &[f64], norm: &[f64], low: f64) -> f64 {
                call_with_features!(self, $module::sum_below(intensity, norm, low))
            }

            fn indices_within(self, intensity: &[f64], low: f64, high: f64, indices: &mut Vec<u32>) {
                call_with_features!(self, $shuffle::indices_within(intensity, low, high, indices))
            }
        }
    };
}

/// Implements [`LaneBackend`] for a token and a number of frames.
macro_rules! impl_lane_backend {
    ($token:ident, $lanes:literal, $module:ident, $interleave:path) => {
        impl LaneBackend<$lanes> for $token {
            fn interleave(self, lanes: [&[u8; TILE]; $lanes], out: &mut [[u8; $lanes]; TILE]) {
                call_with_features!(self, $interleave(&lanes, out.as_flattened_mut()))
            }

            fn interleave_f64(self, lanes: [&[f64; TILE]; $lanes], out: &mut [[f64; $lanes]; TILE]) {
                call_with_features!(self, $module::interleave_f64(&lanes, out))
            }

            fn or_bitmaps(self, bitmaps: [&Bitmap; $lanes], unused: &Bitmap) -> (Bitmap, u32) {
                call_with_features!(self, $module::or_bitmaps(&bitmaps, unused))
            }

            fn accumulate<C: InterleavedTile<$lanes>>(
                self,
                accumulators: &mut Accumulators<$lanes>,
                tile: CscTile<'_>,
                pixels: &C,
                selection: PixelSelection<'_>,
            ) {
                call_with_features!(self, $module::accumulate(accumulators, tile, pixels, selection))
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

/// Copies a single frame, for which interleaving changes nothing.
///
/// # Safety Always safe to call. It is `unsafe` only so that `call_with_features!` can call it like the functions that
/// need features.
unsafe fn interleave_1(lanes: &[&[u8; TILE]; 1], out: &mut [u8]) {
    out.copy_from_slice(lanes[0]);
}
