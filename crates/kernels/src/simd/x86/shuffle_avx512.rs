//! Transpositions of bits and bytes, and compaction of indices, with AVX-512, and one with GFNI.
//!
//! The transpositions work on whole registers; slices of other lengths may make them panic.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::summation_order::TILE;

/// Number of pixels that `unshuffle` handles at once: a register of each plane.
pub(super) const PIXELS_PER_STEP: usize = 8 * REGISTER_BYTES;

/// Number of bytes in a register.
const REGISTER_BYTES: usize = 64;

/// Loads the 64 bytes at `from[at..]`. Panics if there are fewer.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[u8], at: usize) -> __m512i {
    let bytes: &[u8; REGISTER_BYTES] = from[at..].first_chunk().expect("a register's width");
    // SAFETY: The intrinsic reads 64 bytes at any alignment. `bytes` is a reference to an array of
    // 64 bytes, whose length `first_chunk` has checked, and stays borrowed during the call.
    // AVX-512F is enabled for this function. A `REGISTER_BYTES` below 64 would break this.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Stores a register at `to[at..]`. Panics if there are fewer than 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [u8], at: usize, value: __m512i) {
    let bytes: &mut [u8; REGISTER_BYTES] = to[at..].first_chunk_mut().expect("a register's width");
    // SAFETY: The intrinsic writes 64 bytes at any alignment. `bytes` is a unique reference to an
    // array of 64 bytes, whose length `first_chunk_mut` has checked. A `REGISTER_BYTES` below 64
    // would break this.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), value) }
}

/// Permutes 16-bit words so that word `i` of quarter `q` (128 bits) is word `4 i + q` of `bytes`.
/// Unpack instructions work within quarters; after this permutation they leave neighbours in the
/// same register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words_to_lanes(bytes: __m512i) -> __m512i {
    const INDEX: [u8; 64] = {
        let (mut index, mut k) = ([0; 64], 0);
        while k < 32 {
            // Little-endian words below 256.
            index[2 * k] = (k % 8 * 4 + k / 8) as u8;
            k += 1;
        }
        index
    };
    _mm512_permutexvar_epi16(load(&INDEX, 0), bytes)
}

/// Permutes bytes so that byte `i` of quarter `q` (128 bits) is byte `4 i + q` of `bytes`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn bytes_to_lanes(bytes: __m512i) -> __m512i {
    // First, gather every fourth byte within each quarter. Then move these groups of four bytes to
    // their quarters.
    let fours = _mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    let within = _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(fours));
    _mm512_permutexvar_epi32(dword_lane_index(), within)
}

/// Returns the index that permutes 32-bit words so that word `i` of quarter `q` is word `4 i + q`.
#[inline]
#[target_feature(enable = "avx512f")]
fn dword_lane_index() -> __m512i {
    _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0)
}

/// Transposes the bytes of eight registers within each quarter: group `j` of eight bytes holds byte
/// `j` of all eight registers in order. Each returned register holds two groups of each quarter.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave_bytes_8(r: [__m512i; 8]) -> [__m512i; 8] {
    let low = |a, b| (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
    let mid = |a, b| (_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b));
    let high = |a, b| (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let ((a0, a1), (a2, a3), (a4, a5), (a6, a7)) =
        (low(r[0], r[1]), low(r[2], r[3]), low(r[4], r[5]), low(r[6], r[7]));
    let ((b0, b1), (b2, b3), (b4, b5), (b6, b7)) =
        (mid(a0, a2), mid(a1, a3), mid(a4, a6), mid(a5, a7));
    let ((c0, c1), (c2, c3), (c4, c5), (c6, c7)) =
        (high(b0, b4), high(b1, b5), high(b2, b6), high(b3, b7));
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// Loads 64 matrices of 8 × 8 bits. Row `i` of each matrix is a byte of plane `plane_of_row(i)`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_bit_matrices(
    planes: &[u8],
    stride: usize,
    at: usize,
    plane_of_row: impl Fn(usize) -> usize,
) -> [__m512i; 8] {
    let row = |i: usize| words_to_lanes(load(planes, plane_of_row(i) * stride + at));
    interleave_bytes_8([row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)])
}

/// Implements [`crate::simd::Simd::bitunshuffle_tile`] for whole registers, with GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) fn unshuffle_gfni(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    // Byte k of `unit` is 1 << k, so its affine product with a matrix of 8 × 8 bits is the
    // transposed matrix. GFNI numbers the rows of the matrix from the last, so row i is plane 7 -
    // i.
    let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    for column in (0..out.len() / 8).step_by(REGISTER_BYTES) {
        for (i, bits) in
            load_bit_matrices(planes, stride, from + column, |i| 7 - i).into_iter().enumerate()
        {
            store(
                out,
                column * 8 + i * REGISTER_BYTES,
                _mm512_gf2p8affine_epi64_epi8::<0>(unit, bits),
            );
        }
    }
}

/// Swaps the bits under `mask` with the bits `SHIFT` positions above them, in each 64-bit word.
#[inline]
#[target_feature(enable = "avx512f")]
fn swap_bits<const SHIFT: u32>(bits: __m512i, mask: u64) -> __m512i {
    let differ = _mm512_xor_si512(bits, _mm512_srli_epi64::<SHIFT>(bits));
    let differ = _mm512_and_si512(differ, _mm512_set1_epi64(mask as i64));
    _mm512_xor_si512(_mm512_xor_si512(bits, differ), _mm512_slli_epi64::<SHIFT>(differ))
}

/// Implements [`crate::simd::Simd::bitunshuffle_tile`] for whole registers, without GFNI. It
/// transposes 8 × 8 bits as the portable code does.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn unshuffle(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    for column in (0..out.len() / 8).step_by(REGISTER_BYTES) {
        for (i, bits) in
            load_bit_matrices(planes, stride, from + column, |i| i).into_iter().enumerate()
        {
            let bits = swap_bits::<7>(bits, 0x00aa_00aa_00aa_00aa);
            let bits = swap_bits::<14>(bits, 0x0000_cccc_0000_cccc);
            store(
                out,
                column * 8 + i * REGISTER_BYTES,
                swap_bits::<28>(bits, 0x0000_0000_f0f0_f0f0),
            );
        }
    }
}

/// Implements [`crate::simd::Simd::interleave`] for 8 frames.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn interleave_8(lanes: &[&[u8; TILE]; 8], out: &mut [u8]) {
    for pixel in (0..out.len() / 8).step_by(REGISTER_BYTES) {
        let lane = |l: usize| words_to_lanes(load(lanes[l], pixel));
        let rows = [lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7)];
        for (i, bytes) in interleave_bytes_8(rows).into_iter().enumerate() {
            store(out, pixel * 8 + i * REGISTER_BYTES, bytes);
        }
    }
}

/// Implements [`crate::simd::Simd::interleave`] for 16 frames.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn interleave_16(lanes: &[&[u8; TILE]; 16], out: &mut [u8]) {
    for pixel in (0..out.len() / 16).step_by(REGISTER_BYTES) {
        let lane = |l: usize| bytes_to_lanes(load(lanes[l], pixel));
        let first = interleave_bytes_8([
            lane(0),
            lane(1),
            lane(2),
            lane(3),
            lane(4),
            lane(5),
            lane(6),
            lane(7),
        ]);
        let second = interleave_bytes_8([
            lane(8),
            lane(9),
            lane(10),
            lane(11),
            lane(12),
            lane(13),
            lane(14),
            lane(15),
        ]);
        for (i, (a, b)) in first.into_iter().zip(second).enumerate() {
            store(out, pixel * 16 + 2 * i * REGISTER_BYTES, _mm512_unpacklo_epi64(a, b));
            store(out, pixel * 16 + (2 * i + 1) * REGISTER_BYTES, _mm512_unpackhi_epi64(a, b));
        }
    }
}

/// Interleaves the bytes of pixels, one array for each significance, to pixels of 1, 2, 4 or 8
/// bytes. Whole registers only.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn interleave_byte_planes(bytes: &[[u8; TILE]], out: &mut [u8]) {
    match bytes {
        [one] => out.copy_from_slice(&one[..out.len()]),
        [low, high] => {
            // `order` pairs 64-bit word i of the lower half with word i of the upper half in
            // quarter i. Unpacking then leaves the pixels of the lower half in the first register
            // and those of the upper half in the second.
            for pixel in (0..out.len() / bytes.len()).step_by(REGISTER_BYTES) {
                let (a, b) = (load(low, pixel), load(high, pixel));
                let order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
                let (a, b) =
                    (_mm512_permutexvar_epi64(order, a), _mm512_permutexvar_epi64(order, b));
                store(out, pixel * 2, _mm512_unpacklo_epi8(a, b));
                store(out, pixel * 2 + REGISTER_BYTES, _mm512_unpackhi_epi8(a, b));
            }
        }
        [a, b, c, d] => {
            let order = dword_lane_index();
            for pixel in (0..out.len() / bytes.len()).step_by(REGISTER_BYTES) {
                let row = |bytes: &[u8; TILE]| _mm512_permutexvar_epi32(order, load(bytes, pixel));
                let (a, b, c, d) = (row(a), row(b), row(c), row(d));
                let (low, high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
                let (upper_low, upper_high) =
                    (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
                store(out, pixel * 4, _mm512_unpacklo_epi16(low, upper_low));
                store(out, pixel * 4 + REGISTER_BYTES, _mm512_unpackhi_epi16(low, upper_low));
                store(out, pixel * 4 + 2 * REGISTER_BYTES, _mm512_unpacklo_epi16(high, upper_high));
                store(out, pixel * 4 + 3 * REGISTER_BYTES, _mm512_unpackhi_epi16(high, upper_high));
            }
        }
        _ => {
            let lanes: [&[u8; TILE]; 8] = std::array::from_fn(|byte| &bytes[byte]);
            interleave_8(&lanes, out);
        }
    }
}

/// Implements [`crate::simd::Simd::indices_within`].
#[target_feature(enable = "avx512f,avx512vl")]
pub(super) fn indices_within(numbers: &[f64], low: f64, high: f64, indices: &mut Vec<u32>) {
    const DOUBLES_PER_REGISTER: usize = 8;
    indices.resize(numbers.len() + DOUBLES_PER_REGISTER, 0);
    let (low, high) = (_mm512_set1_pd(low), _mm512_set1_pd(high));
    let (whole, rest) = numbers.as_chunks::<DOUBLES_PER_REGISTER>();
    let mut positions = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mut last = [0.; DOUBLES_PER_REGISTER];
    last[..rest.len()].copy_from_slice(rest);
    let mut count = 0;
    for (eight, present) in
        whole.iter().map(|eight| (eight, u8::MAX)).chain([(&last, (1 << rest.len()) - 1)])
    {
        // SAFETY: The intrinsic reads eight doubles at any alignment. `eight` is a reference to an
        // array of `DOUBLES_PER_REGISTER` = 8 doubles, from `as_chunks` or `last`. AVX-512F is
        // enabled for this function.
        let x = unsafe { _mm512_loadu_pd(eight.as_ptr()) };
        let above = _mm512_mask_cmp_pd_mask::<_CMP_LE_OQ>(present, low, x);
        let within = _mm512_mask_cmp_pd_mask::<_CMP_LE_OQ>(above, x, high);
        let out: &mut [u32; DOUBLES_PER_REGISTER] = indices[count..]
            .first_chunk_mut()
            .expect("`indices` is a register longer than `numbers`");
        // SAFETY: The intrinsic writes 32 bytes at any alignment. `out` is a unique reference to an
        // array of `DOUBLES_PER_REGISTER` = 8 words, whose length `first_chunk_mut` has checked.
        // AVX-512F and VL are enabled for this function.
        unsafe {
            _mm256_storeu_si256(
                out.as_mut_ptr().cast(),
                _mm256_maskz_compress_epi32(within, positions),
            )
        };
        count += within.count_ones() as usize;
        positions = _mm256_add_epi32(positions, _mm256_set1_epi32(DOUBLES_PER_REGISTER as i32));
    }
    indices.truncate(count);
}
