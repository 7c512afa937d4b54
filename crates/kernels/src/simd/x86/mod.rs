//! AVX2 and AVX-512: kernels compiled for these instruction sets, and intrinsics where they are
//! faster.
//!
//! [`Avx2`] and [`Avx512`] are proofs, and so are [`Avx512Base`] and [`Gfni`], of which [`Avx512`]
//! consists: a value of such a type exists only after `detect` or `detect_with_gfni` has found all
//! its features on this processor. `call_with_features!` is the one place that relies on them to
//! call a function that is compiled for features.
#![allow(unsafe_code)]

mod shuffle_avx2;
mod shuffle_avx512;

use super::{Kernel, Simd, portable};
use crate::lz4_block::register::{Avx2Register, Avx512Register};
use crate::lz4_block::{BlockBuffer, DecodedBlock, SLACK, decoder};
use crate::summation_order::TILE;

/// Proof that the processor has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

/// Proof that the processor has AVX-512 (F, BW, VL, DQ), besides AVX2 and FMA, and whether it has
/// GFNI, too. Decoding alone uses GFNI, so that kernels are compiled once for both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512 {
    base: Avx512Base,
    gfni: Option<Gfni>,
}

/// Proof that the processor has AVX-512 (F, BW, VL, DQ), besides AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
struct Avx512Base(());

/// Proof that the processor has GFNI and AVX-512's VBMI, besides what [`Avx512Base`] stands for.
#[derive(Clone, Copy, Debug)]
struct Gfni(());

impl Avx2 {
    /// Returns the proof if the processor has the features.
    pub(super) fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Avx2(()))
    }
}

impl Avx512 {
    /// Returns the proof, without GFNI, if the processor has the features.
    pub(super) fn detect() -> Option<Avx512> {
        Avx512Base::detect().map(|base| Avx512 { base, gfni: None })
    }

    /// Returns the proof with GFNI if the processor has the features.
    pub(super) fn detect_with_gfni() -> Option<Avx512> {
        let (base, gfni) = (Avx512Base::detect()?, Gfni::detect()?);
        Some(Avx512 { base, gfni: Some(gfni) })
    }

    /// Decodes an LZ4 block; see [`decoder::decode`].
    fn decode(
        self,
        block: &[u8],
        out: &mut [u8],
        len: usize,
        dirty: usize,
        period: usize,
    ) -> Option<DecodedBlock> {
        match self.gfni {
            Some(gfni) => gfni.decode(block, out, len, dirty, period),
            None => self.base.decode(block, out, len, dirty, period),
        }
    }

    /// Transposes bits of planes to bytes of pixels; see [`Simd::bitunshuffle_tile`].
    fn unshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
        match self.gfni {
            Some(gfni) => gfni.unshuffle(planes, stride, from, out),
            None => self.base.unshuffle(planes, stride, from, out),
        }
    }
}

impl Avx512Base {
    fn detect() -> Option<Avx512Base> {
        let has = Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq");
        has.then_some(Avx512Base(()))
    }
}

impl Gfni {
    fn detect() -> Option<Gfni> {
        let has = Avx512Base::detect().is_some()
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("gfni");
        has.then_some(Gfni(()))
    }
}

/// Calls a function that is compiled for features of which `$token` is the proof. See the SAFETY
/// comment within.
macro_rules! call_with_features {
    ($token:expr, $call:expr) => {{
        let _proof = $token;
        // SAFETY: The called functions have `#[target_feature]`, and apart from features they are
        // safe: they take values, references and slices, and check lengths. They are undefined
        // behavior on a processor that lacks a feature. It has all of them: the caller passes a
        // token, whose fields are private to this module, so that only `detect` and
        // `detect_with_gfni` make one, and they ask the processor for each feature. This module
        // alone pairs functions with tokens, in the invocations of `impl_decoding!` and `impl_simd!`
        // below. A function of `shuffle_avx2` or `shuffle_avx512` that enables a feature which is
        // not checked for its token would break this.
        unsafe { $call }
    }};
}

/// Implements for a token what decodes stored pixels: LZ4 with a register type, and the
/// transposition of bits by a function of a module of intrinsics.
macro_rules! impl_decoding {
    ($token:ident, $features:literal, $register:ident, $shuffle:ident, $unshuffle:ident) => {
        impl $token {
            /// Decodes an LZ4 block; see [`decoder::decode`].
            fn decode(
                self,
                block: &[u8],
                out: &mut [u8],
                len: usize,
                dirty: usize,
                period: usize,
            ) -> Option<DecodedBlock> {
                #[target_feature(enable = $features)]
                fn decode_with_features(
                    block: &[u8],
                    out: &mut [u8],
                    len: usize,
                    dirty: usize,
                    period: usize,
                ) -> Option<DecodedBlock> {
                    // SAFETY: `decode` requires that the processor has the instructions of the
                    // register type and that it is inlined into a function compiled for them. This
                    // function is: `$features` is chosen beside `$register` in the invocations
                    // below, and holds what the register's methods enable (AVX-512F implies AVX2).
                    // `decode` is `inline(always)`. The caller has the token for the features.
                    // Lengths are checked by `decode`, which panics if `out` is too short. A
                    // register type with other features than `$features` would break this.
                    unsafe { decoder::decode::<$register>(block, out, len, dirty, period) }
                }
                call_with_features!(self, decode_with_features(block, out, len, dirty, period))
            }

            /// Transposes bits of planes to bytes of pixels; see [`Simd::bitunshuffle_tile`].
            fn unshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
                call_with_features!(self, $shuffle::$unshuffle(planes, stride, from, out))
            }
        }
    };
}

/// Implements [`Simd`] for a token: the function that kernels are compiled in, decoding by the
/// token's methods, and transpositions by functions of a module of intrinsics. `$lanes` are the
/// numbers of frames that it interleaves.
macro_rules! impl_simd {
    ($token:ident, $features:literal, $shuffle:ident, $($lanes:literal => $interleave:ident),*) => {
        impl Simd for $token {
            const HAS_FMA: bool = true;
            const HAS_16_LANES: bool = matches!(16, $($lanes)|*);

            fn run<K: Kernel>(self, kernel: K) -> K::Output {
                #[target_feature(enable = $features)]
                fn run_with_features<K: Kernel>(simd: $token, kernel: K) -> K::Output {
                    kernel.run(simd)
                }
                call_with_features!(self, run_with_features(self, kernel))
            }

            fn decompress(
                self,
                block: &[u8],
                buffer: &mut BlockBuffer,
                len: usize,
                period: usize,
            ) -> Option<DecodedBlock> {
                buffer.decode_with(len, |out, dirty| self.decode(block, out, len, dirty, period))
            }

            fn decompress_with_slack(self, block: &[u8], out: &mut [u8], len: usize) -> bool {
                // The contents of `out` are unknown, so only its last bytes, which no decoded byte
                // reaches, are zeroed: `decode` needs zeros from `dirty` on, as many as a register
                // holds.
                let dirty = out.len() - SLACK / 2;
                out[dirty..].fill(0);
                self.decode(block, out, len, dirty, 0).is_some()
            }

            fn bitunshuffle_tile(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
                self.unshuffle(planes, stride, from, out);
            }

            fn bitunshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
                let element = planes.len() / (8 * stride);
                // Intrinsics unshuffle whole registers of a plane; the portable code does the rest,
                // and elements of other sizes.
                let fast = match element {
                    1 | 2 | 4 | 8 => out.len() / element / $shuffle::PIXELS_PER_STEP * $shuffle::PIXELS_PER_STEP,
                    _ => 0,
                };
                let (whole, rest) = out.split_at_mut(fast * element);
                for (tile, out) in whole.chunks_mut(TILE * element).enumerate() {
                    let (mut bytes, pixels) = ([[0; TILE]; 8], out.len() / element);
                    for (planes, bytes) in planes.chunks_exact(8 * stride).zip(&mut bytes) {
                        self.unshuffle(planes, stride, from + tile * TILE / 8, &mut bytes[..pixels]);
                    }
                    call_with_features!(self, $shuffle::interleave_byte_planes(&bytes[..element], out))
                }
                portable::bitunshuffle(planes, stride, from + fast / 8, rest);
            }

            fn interleave<const L: usize>(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]) {
                match L {
                    $($lanes => {
                        let lanes = lanes.first_chunk().expect("L lanes");
                        call_with_features!(self, $shuffle::$interleave(lanes, out.as_flattened_mut()))
                    })*
                    _ => self.run(portable::Interleave { lanes: &lanes, out }),
                }
            }

            fn indices_within(self, numbers: &[f64], low: f64, high: f64, indices: &mut Vec<u32>) {
                call_with_features!(self, $shuffle::indices_within(numbers, low, high, indices))
            }
        }
    };
}

impl_decoding!(Avx2, "avx2,fma", Avx2Register, shuffle_avx2, unshuffle);
impl_decoding!(
    Avx512Base,
    "avx512f,avx512bw,avx512vl,avx512dq,fma",
    Avx2Register,
    shuffle_avx512,
    unshuffle
);
impl_decoding!(
    Gfni,
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,gfni,fma",
    Avx512Register,
    shuffle_avx512,
    unshuffle_gfni
);

impl_simd!(Avx2, "avx2,fma", shuffle_avx2, 8 => interleave_8);
impl_simd!(
    Avx512,
    "avx512f,avx512bw,avx512vl,avx512dq,fma",
    shuffle_avx512,
    8 => interleave_8,
    16 => interleave_16
);
