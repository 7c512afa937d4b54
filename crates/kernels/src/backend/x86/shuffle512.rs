//! Bits and bytes rearranged with AVX-512, VBMI and GFNI.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::order::TILE;

/// Pixels that are unshuffled at once: a register of a plane.
pub(super) const PIXELS: usize = 8 * WIDTH;

/// Bytes of a register.
const WIDTH: usize = 64;

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[u8], at: usize) -> __m512i {
    let bytes: &[u8; WIDTH] = from[at..].first_chunk().expect("a register's width");
    // SAFETY: 64 bytes may be read.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [u8], at: usize, value: __m512i) {
    let bytes: &mut [u8; WIDTH] = to[at..].first_chunk_mut().expect("a register's width");
    // SAFETY: 64 bytes may be written.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), value) }
}

/// A permutation of units of a register that has four quarters: unit `i` of quarter `q` is unit `4 i + q`. Unpacking
/// works within quarters; after this it leaves neighbours in one register.
const fn by_quarters<const N: usize>() -> [u8; N] {
    let mut index = [0; N];
    let mut k = 0;
    while k < N {
        index[k] = (k % (N / 4) * 4 + k / (N / 4)) as u8;
        k += 1;
    }
    index
}

const BYTES_BY_QUARTERS: [u8; 64] = by_quarters();

/// Words by quarters, as bytes.
const WORDS_BY_QUARTERS: [u8; 64] = {
    let (words, mut index, mut k) = (by_quarters::<32>(), [0; 64], 0);
    while k < 64 {
        index[k] = words[k / 2] * 2 + k as u8 % 2;
        k += 1;
    }
    index
};

/// Unpacks eight registers of bytes: byte `j` of all eight, in order, becomes the `j`-th group of eight bytes; two
/// groups of each quarter a register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn unpack_eight(r: [__m512i; 8]) -> [__m512i; 8] {
    let low = |a, b| (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
    let mid = |a, b| (_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b));
    let high = |a, b| (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let ((a0, a1), (a2, a3), (a4, a5), (a6, a7)) = (low(r[0], r[1]), low(r[2], r[3]), low(r[4], r[5]), low(r[6], r[7]));
    let ((b0, b1), (b2, b3), (b4, b5), (b6, b7)) = (mid(a0, a2), mid(a1, a3), mid(a4, a6), mid(a5, a7));
    let ((c0, c1), (c2, c3), (c4, c5), (c6, c7)) = (high(b0, b4), high(b1, b5), high(b2, b6), high(b3, b7));
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// See [`crate::backend::Backend::unshuffle`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(super) fn unshuffle(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    let index = load(&WORDS_BY_QUARTERS, 0);
    // Byte k is 1 << k: the affine product of it with a matrix of 8 × 8 bits is the matrix, transposed. Its rows are
    // numbered from the end, and so planes are taken from the last.
    let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    for column in (0..out.len() / 8).step_by(WIDTH) {
        let plane = |p: usize| _mm512_permutexvar_epi8(index, load(planes, (7 - p) * stride + from + column));
        let rows = [plane(0), plane(1), plane(2), plane(3), plane(4), plane(5), plane(6), plane(7)];
        for (i, bits) in unpack_eight(rows).into_iter().enumerate() {
            store(out, column * 8 + i * WIDTH, _mm512_gf2p8affine_epi64_epi8::<0>(unit, bits));
        }
    }
}

/// See [`crate::backend::Backend::interleave`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn interleave_8(lanes: &[&[u8; TILE]; 8], out: &mut [u8]) {
    let index = load(&WORDS_BY_QUARTERS, 0);
    for pixel in (0..out.len() / 8).step_by(WIDTH) {
        let lane = |l: usize| _mm512_permutexvar_epi8(index, load(lanes[l], pixel));
        let rows = [lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7)];
        for (i, bytes) in unpack_eight(rows).into_iter().enumerate() {
            store(out, pixel * 8 + i * WIDTH, bytes);
        }
    }
}

/// See [`crate::backend::Backend::interleave`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn interleave_16(lanes: &[&[u8; TILE]; 16], out: &mut [u8]) {
    let index = load(&BYTES_BY_QUARTERS, 0);
    for pixel in (0..out.len() / 16).step_by(WIDTH) {
        let lane = |l: usize| _mm512_permutexvar_epi8(index, load(lanes[l], pixel));
        let first = unpack_eight([lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7)]);
        let second = unpack_eight([lane(8), lane(9), lane(10), lane(11), lane(12), lane(13), lane(14), lane(15)]);
        for (i, (a, b)) in first.into_iter().zip(second).enumerate() {
            store(out, pixel * 16 + 2 * i * WIDTH, _mm512_unpacklo_epi64(a, b));
            store(out, pixel * 16 + (2 * i + 1) * WIDTH, _mm512_unpackhi_epi64(a, b));
        }
    }
}

/// From the bytes of pixels to pixels of as many bytes: 1, 2, 4 or 8. Whole registers only.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn merge(bytes: &[[u8; TILE]], out: &mut [u8]) {
    match bytes {
        [one] => out.copy_from_slice(&one[..out.len()]),
        [low, high] => {
            // Eight bytes of each quarter come from the quarter's place in the first half, eight from the second.
            for pixel in (0..out.len() / bytes.len()).step_by(WIDTH) {
                let (a, b) = (load(low, pixel), load(high, pixel));
                let order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
                let (a, b) = (_mm512_permutexvar_epi64(order, a), _mm512_permutexvar_epi64(order, b));
                store(out, pixel * 2, _mm512_unpacklo_epi8(a, b));
                store(out, pixel * 2 + WIDTH, _mm512_unpackhi_epi8(a, b));
            }
        }
        [a, b, c, d] => {
            // Four bytes of each quarter for each of the four registers.
            let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
            for pixel in (0..out.len() / bytes.len()).step_by(WIDTH) {
                let row = |bytes: &[u8; TILE]| _mm512_permutexvar_epi32(order, load(bytes, pixel));
                let (a, b, c, d) = (row(a), row(b), row(c), row(d));
                let (low, high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
                let (upper_low, upper_high) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
                store(out, pixel * 4, _mm512_unpacklo_epi16(low, upper_low));
                store(out, pixel * 4 + WIDTH, _mm512_unpackhi_epi16(low, upper_low));
                store(out, pixel * 4 + 2 * WIDTH, _mm512_unpacklo_epi16(high, upper_high));
                store(out, pixel * 4 + 3 * WIDTH, _mm512_unpackhi_epi16(high, upper_high));
            }
        }
        _ => {
            let lanes: [&[u8; TILE]; 8] = std::array::from_fn(|byte| &bytes[byte]);
            interleave_8(&lanes, out);
        }
    }
}
