//! Transpositions of bits and bytes, and compaction of indices, with AVX2.
//!
//! The transpositions work on whole registers; slices of other lengths may make them panic.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::summation_order::TILE;

/// Number of pixels that `unshuffle` handles at once: a register of each plane.
pub(super) const PIXELS_PER_STEP: usize = 8 * REGISTER_BYTES;

/// Number of bytes in a register.
const REGISTER_BYTES: usize = 32;

/// Loads the 32 bytes at `from[at..]`. Panics if there are fewer.
#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[u8], at: usize) -> __m256i {
    let bytes: &[u8; REGISTER_BYTES] = from[at..].first_chunk().expect("a register's width");
    // SAFETY: The intrinsic reads 32 bytes at any alignment. `bytes` is a reference to an array of
    // 32 bytes, whose length `first_chunk` has checked, and stays borrowed during the call. AVX2 is
    // enabled for this function. A `REGISTER_BYTES` below 32 would break this.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// Stores half a register at `to[at..]`. Panics if there are fewer than 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [u8], at: usize, value: __m128i) {
    let bytes: &mut [u8; REGISTER_BYTES / 2] =
        to[at..].first_chunk_mut().expect("half a register's width");
    // SAFETY: The intrinsic writes 16 bytes at any alignment. `bytes` is a unique reference to an
    // array of 16 bytes, whose length `first_chunk_mut` has checked. A `REGISTER_BYTES` below 32
    // would break this.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), value) }
}

/// Transposes the bytes of eight registers within each half: group `j` of eight bytes holds byte
/// `j` of all eight registers in order. Each returned register holds two groups of the lower half
/// and two of the upper half.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave_bytes_8(r: [__m256i; 8]) -> [__m256i; 8] {
    let low = |a, b| (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let mid = |a, b| (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
    let high = |a, b| (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let ((a0, a1), (a2, a3), (a4, a5), (a6, a7)) =
        (low(r[0], r[1]), low(r[2], r[3]), low(r[4], r[5]), low(r[6], r[7]));
    let ((b0, b1), (b2, b3), (b4, b5), (b6, b7)) =
        (mid(a0, a2), mid(a1, a3), mid(a4, a6), mid(a5, a7));
    let ((c0, c1), (c2, c3), (c4, c5), (c6, c7)) =
        (high(b0, b4), high(b1, b5), high(b2, b6), high(b3, b7));
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// Stores registers that were unpacked within their halves: first all lower halves, then all upper
/// halves.
#[inline]
#[target_feature(enable = "avx2")]
fn store_halves<const N: usize>(to: &mut [u8], at: usize, unpacked: [__m256i; N]) {
    for (i, register) in unpacked.into_iter().enumerate() {
        store(to, at + i * 16, _mm256_castsi256_si128(register));
        store(to, at + (N + i) * 16, _mm256_extracti128_si256::<1>(register));
    }
}

/// Swaps the bits under `mask` with the bits `SHIFT` positions above them, in each 64-bit word.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_bits<const SHIFT: i32>(bits: __m256i, mask: u64) -> __m256i {
    let differ = _mm256_xor_si256(bits, _mm256_srli_epi64::<SHIFT>(bits));
    let differ = _mm256_and_si256(differ, _mm256_set1_epi64x(mask as i64));
    _mm256_xor_si256(_mm256_xor_si256(bits, differ), _mm256_slli_epi64::<SHIFT>(differ))
}

/// Implements [`crate::simd::Simd::bitunshuffle_tile`] for whole registers. It transposes 8 × 8
/// bits as the portable code does.
#[target_feature(enable = "avx2")]
pub(super) fn unshuffle(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    for column in (0..out.len() / 8).step_by(REGISTER_BYTES) {
        let plane = |p: usize| load(planes, p * stride + from + column);
        let rows = [plane(0), plane(1), plane(2), plane(3), plane(4), plane(5), plane(6), plane(7)];
        let groups = interleave_bytes_8(rows).map(|bits| {
            let bits = swap_bits::<7>(bits, 0x00aa_00aa_00aa_00aa);
            let bits = swap_bits::<14>(bits, 0x0000_cccc_0000_cccc);
            swap_bits::<28>(bits, 0x0000_0000_f0f0_f0f0)
        });
        store_halves(out, column * 8, groups);
    }
}

/// Implements [`crate::simd::Simd::interleave`] for 8 frames.
#[target_feature(enable = "avx2")]
pub(super) fn interleave_8(lanes: &[&[u8; TILE]; 8], out: &mut [u8]) {
    for pixel in (0..out.len() / 8).step_by(REGISTER_BYTES) {
        let lane = |l: usize| load(lanes[l], pixel);
        let rows = [lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7)];
        store_halves(out, pixel * 8, interleave_bytes_8(rows));
    }
}

/// Interleaves the bytes of pixels, one array for each significance, to pixels of 1, 2, 4 or 8
/// bytes. Whole registers only.
#[target_feature(enable = "avx2")]
pub(super) fn interleave_byte_planes(bytes: &[[u8; TILE]], out: &mut [u8]) {
    match bytes {
        [one] => out.copy_from_slice(&one[..out.len()]),
        [low, high] => {
            for pixel in (0..out.len() / bytes.len()).step_by(REGISTER_BYTES) {
                let (a, b) = (load(low, pixel), load(high, pixel));
                let (low, high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
                store_halves(out, pixel * 2, [low, high]);
            }
        }
        [a, b, c, d] => {
            for pixel in (0..out.len() / bytes.len()).step_by(REGISTER_BYTES) {
                let row = |bytes: &[u8; TILE]| load(bytes, pixel);
                let (a, b, c, d) = (row(a), row(b), row(c), row(d));
                let (low, high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
                let (upper_low, upper_high) =
                    (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
                let (p, q) =
                    (_mm256_unpacklo_epi16(low, upper_low), _mm256_unpackhi_epi16(low, upper_low));
                let (r, s) = (
                    _mm256_unpacklo_epi16(high, upper_high),
                    _mm256_unpackhi_epi16(high, upper_high),
                );
                store_halves(out, pixel * 4, [p, q, r, s]);
            }
        }
        _ => {
            let lanes: [&[u8; TILE]; 8] = std::array::from_fn(|byte| &bytes[byte]);
            interleave_8(&lanes, out);
        }
    }
}

/// Implements [`crate::simd::Simd::indices_within`].
#[target_feature(enable = "avx2")]
pub(super) fn indices_within(numbers: &[f64], low: f64, high: f64, indices: &mut Vec<u32>) {
    const DOUBLES_PER_REGISTER: usize = 4;
    /// For each mask of four bits: the byte shuffle that moves the words whose bit is set to the
    /// front.
    const COMPACT_SHUFFLE: [[u8; 16]; 16] = {
        let (mut table, mut mask) = ([[0; 16]; 16], 0);
        while mask < 16 {
            let (mut byte, mut to) = (0, 0);
            while byte < 16 {
                if mask >> (byte / 4) & 1 == 1 {
                    table[mask][to] = byte as u8;
                    to += 1;
                }
                byte += 1;
            }
            mask += 1;
        }
        table
    };
    indices.resize(numbers.len() + DOUBLES_PER_REGISTER, 0);
    let (low, high) = (_mm256_set1_pd(low), _mm256_set1_pd(high));
    let (whole, rest) = numbers.as_chunks::<DOUBLES_PER_REGISTER>();
    let mut last = [f64::NAN; DOUBLES_PER_REGISTER];
    last[..rest.len()].copy_from_slice(rest);
    let mut positions = _mm_setr_epi32(0, 1, 2, 3);
    let mut count = 0;
    for four in whole.iter().chain([&last]) {
        // SAFETY: The intrinsic reads four doubles at any alignment. `four` is a reference to an
        // array of `DOUBLES_PER_REGISTER` = 4 doubles, from `as_chunks` or `last`. AVX2 is enabled
        // for this function.
        let x = unsafe { _mm256_loadu_pd(four.as_ptr()) };
        let within = _mm256_and_pd(
            _mm256_cmp_pd::<_CMP_LE_OQ>(low, x),
            _mm256_cmp_pd::<_CMP_LE_OQ>(x, high),
        );
        let mask = _mm256_movemask_pd(within) as usize;
        // SAFETY: The intrinsic reads 16 bytes at any alignment. The row is an array of 16 bytes in
        // a table of 16 rows, and indexing is checked; `movemask` of four doubles gives a number
        // below 16.
        let shuffle = unsafe { _mm_loadu_si128(COMPACT_SHUFFLE[mask].as_ptr().cast()) };
        let out: &mut [u32; DOUBLES_PER_REGISTER] = indices[count..]
            .first_chunk_mut()
            .expect("`indices` is a register longer than `numbers`");
        // SAFETY: The intrinsic writes 16 bytes at any alignment. `out` is a unique reference to an
        // array of `DOUBLES_PER_REGISTER` = 4 words, whose length `first_chunk_mut` has checked.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_shuffle_epi8(positions, shuffle)) };
        count += mask.count_ones() as usize;
        positions = _mm_add_epi32(positions, _mm_set1_epi32(DOUBLES_PER_REGISTER as i32));
    }
    indices.truncate(count);
}
