//! AVX2 and AVX-512: the portable steps compiled for them, and steps of their own where instructions do better.
#![allow(unsafe_code)]
// Each unsafe block calls a function that is compiled for instructions which the processor may lack. It has them: the
// tokens `Avx2` and `Avx512` are only made where they were detected.

mod shuffle256;
mod shuffle512;

use super::{Backend, portable};
use crate::bitmap::Bitmap;
use crate::fused::column::Column;
use crate::fused::kernel::{self, Selection};
use crate::fused::table::Table;
use crate::lz4::vector::{Wide32, Wide64};
use crate::lz4::{Room, fast};
use crate::matrix::Tile;
use crate::order::TILE;

/// Proof that the processor has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Proof that the processor has AVX-512 (F, BW, VL, DQ, VBMI) and GFNI, besides AVX2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

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
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("gfni");
        has.then_some(Avx512(()))
    }
}

/// A backend: the portable steps compiled for a set of features, LZ4 with a register of its own, and the rearranging
/// steps of a module of its own.
macro_rules! backend {
    ($token:ident, $lanes:literal, $module:ident, $vector:ident, $shuffle:ident::$interleave:ident, $features:literal) => {
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn expand(block: &[u8], room: &mut Room, len: usize) -> Option<usize> {
                // SAFETY: the function is compiled for the features that the register needs.
                room.fill(len, |out, dirty| unsafe { fast::decode::<$vector>(block, out, len, dirty) })
            }

            #[target_feature(enable = $features)]
            pub(super) fn union(planes: &[u8], stride: usize, from: usize) -> Bitmap {
                portable::union(planes, stride, from)
            }

            #[target_feature(enable = $features)]
            pub(super) fn intersection(planes: &[u8], stride: usize, from: usize) -> Bitmap {
                portable::intersection(planes, stride, from)
            }

            #[target_feature(enable = $features)]
            pub(super) fn accumulate<C: Column<$lanes>>(
                table: &mut Table<$lanes>,
                tile: Tile<'_>,
                column: &C,
                selection: Selection<'_>,
            ) {
                kernel::accumulate::<$lanes, true, C>(table, tile, column, selection);
            }
        }

        impl Backend<$lanes> for $token {
            fn expand(self, block: &[u8], room: &mut Room, len: usize) -> Option<usize> {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::expand(block, room, len) }
            }

            fn union(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::union(planes, stride, from) }
            }

            fn intersection(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $module::intersection(planes, stride, from) }
            }

            fn unshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $shuffle::unshuffle(planes, stride, from, out) }
            }

            fn interleave(self, lanes: [&[u8; TILE]; $lanes], out: &mut [[u8; $lanes]; TILE]) {
                // SAFETY: `self` proves that the processor has the features.
                unsafe { $shuffle::$interleave(&lanes, out) }
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

backend!(Avx2, 8, avx2, Wide32, shuffle256::interleave_8, "avx2,fma");
backend!(Avx512, 8, avx512_8, Wide64, shuffle512::interleave_8, "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,fma");
backend!(Avx512, 16, avx512_16, Wide64, shuffle512::interleave_16, "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,fma");
