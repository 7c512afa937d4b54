//! [`ByteRegister`], a wide register of bytes for the LZ4 decoder, with AVX2 and AVX-512.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// A register of bytes.
///
/// # Safety
/// The processor must have the instructions of the type, and the functions must be inlined into
/// code compiled for them. Pointers must be valid for [`ByteRegister::REGISTER_BYTES`] bytes.
pub(crate) trait ByteRegister: Copy {
    /// The register's width in bytes.
    const REGISTER_BYTES: usize;

    unsafe fn load(from: *const u8) -> Self;

    unsafe fn store(self, to: *mut u8);

    unsafe fn zero() -> Self;

    unsafe fn is_zero(self) -> bool;

    /// Appends the first `count <= REGISTER_BYTES` bytes of `next` and returns the last
    /// `REGISTER_BYTES` bytes. A decoder so has its last output in a register; reading it back from
    /// memory would wait for the store. A type that can't do this returns `self`.
    unsafe fn append(self, next: Self, count: usize) -> Self;

    /// Returns the bytes of a match that starts `distance` bytes before `at`, at least 1 and inside
    /// the output. `self` holds the last bytes before `at`.
    unsafe fn load_match(self, at: *const u8, distance: usize) -> Self;

    /// For each distance below the register's width, its greatest multiple that fits in the
    /// register: a register of whole periods is stored again after so many bytes.
    const PERIOD_STEPS: [u8; 64] = period_steps(Self::REGISTER_BYTES);
}

const fn period_steps(width: usize) -> [u8; 64] {
    let mut steps = [0; 64];
    let mut distance = 1;
    while distance < width {
        steps[distance] = (width / distance * distance) as u8;
        distance += 1;
    }
    steps
}

/// A register of AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Register(__m256i);

/// A register of AVX-512 with VBMI, which has a byte permutation across the whole register.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Register(__m512i);

/// Byte indices that repeat the register's last `d` bytes, in row `d`: byte `k` is `64 - d + k %
/// d`.
const TAIL_PERIOD_INDICES: [[u8; 64]; 65] = {
    let mut rows = [[0; 64]; 65];
    let mut row = 1;
    while row <= 64 {
        let mut k = 0;
        while k < 64 {
            rows[row][k] = (64 - row + k % row) as u8;
            k += 1;
        }
        row += 1;
    }
    rows
};

/// The indices 0 to 63 as bytes.
const BYTE_INDICES: [u8; 64] = {
    let mut bytes = [0; 64];
    let mut k = 0;
    while k < 64 {
        bytes[k] = k as u8;
        k += 1;
    }
    bytes
};

/// Byte indices that repeat the first `d` bytes, in row `d`: byte `k` is `k % d`.
const PERIOD_INDICES: [[u8; 16]; 33] = {
    let mut rows = [[0; 16]; 33];
    let mut row = 1;
    while row <= 32 {
        let mut k = 0;
        while k < 16 {
            rows[row][k] = (k % row) as u8;
            k += 1;
        }
        row += 1;
    }
    rows
};

/// The indices of [`PERIOD_INDICES`] continued for bytes 16 to 31, split by source: AVX2 permutes
/// bytes within 16 bytes only, so the first array takes from bytes 0 to 15 of the period and the
/// second from bytes 16 to 31. 0x80 gives 0.
const UPPER_PERIOD_INDICES: [[[u8; 16]; 2]; 33] = {
    let mut rows = [[[0x80; 16]; 2]; 33];
    let mut row = 1;
    while row <= 32 {
        let mut k = 0;
        while k < 16 {
            let from = (16 + k) % row;
            rows[row][from / 16][k] = (from % 16) as u8;
            k += 1;
        }
        row += 1;
    }
    rows
};

impl ByteRegister for Avx2Register {
    const REGISTER_BYTES: usize = 32;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Avx2Register {
        // SAFETY: the trait's conditions: AVX2 is there, and 32 bytes may be read. The intrinsic
        // needs no alignment.
        Avx2Register(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the trait's conditions: AVX2 is there, and 32 bytes may be written. The intrinsic
        // needs no alignment.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn zero() -> Avx2Register {
        // SAFETY: AVX2 is there by the trait's condition; no memory is read or written.
        Avx2Register(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: AVX2 is there by the trait's condition; no memory is read or written.
        unsafe { _mm256_testz_si256(self.0, self.0) == 1 }
    }

    #[inline(always)]
    unsafe fn append(self, _: Avx2Register, _: usize) -> Avx2Register {
        self
    }

    /// Repeats the period of `distance` bytes before `at`; from a distance of
    /// [`ByteRegister::REGISTER_BYTES`] on, this is a plain load.
    #[inline(always)]
    unsafe fn load_match(self, at: *const u8, distance: usize) -> Avx2Register {
        let row = distance.min(32);
        let from = at.wrapping_sub(distance);
        let (lower, [upper_low, upper_high]) = (&PERIOD_INDICES[row], &UPPER_PERIOD_INDICES[row]);
        // SAFETY: AVX2 is there by the trait's condition. `from` is `distance` bytes before `at`,
        // inside the output, and 32 bytes are read from there: they end before `at + 32`, and a
        // register may be stored at `at`. The rows of indices are arrays of 16 bytes. No intrinsic
        // needs alignment.
        unsafe {
            let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(16).cast()));
            let index = |bytes: &[u8]| _mm_loadu_si128(bytes.as_ptr().cast());
            let upper = _mm_or_si128(
                _mm_shuffle_epi8(low, index(upper_low)),
                _mm_shuffle_epi8(high, index(upper_high)),
            );
            Avx2Register(_mm256_set_m128i(upper, _mm_shuffle_epi8(low, index(lower))))
        }
    }
}

impl ByteRegister for Avx512Register {
    const REGISTER_BYTES: usize = 64;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Avx512Register {
        // SAFETY: the trait's conditions: AVX-512 is there, and 64 bytes may be read. The intrinsic
        // needs no alignment.
        Avx512Register(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the trait's conditions: AVX-512 is there, and 64 bytes may be written. The
        // intrinsic needs no alignment.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn zero() -> Avx512Register {
        // SAFETY: AVX-512 is there by the trait's condition; no memory is read or written.
        Avx512Register(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: AVX-512 with BW is there by the trait's condition; no memory is read or written.
        unsafe { _mm512_test_epi8_mask(self.0, self.0) == 0 }
    }

    #[inline(always)]
    unsafe fn append(self, next: Avx512Register, count: usize) -> Avx512Register {
        // SAFETY: AVX-512 with VBMI is there by the trait's condition. The one read is of an array
        // of 64 bytes, at any alignment. Of each index seven bits count, so none leads out of the
        // two registers, whatever `count` is.
        unsafe {
            let numbers = _mm512_loadu_si512(BYTE_INDICES.as_ptr().cast());
            let index = _mm512_add_epi8(numbers, _mm512_set1_epi8(count as i8));
            Avx512Register(_mm512_permutex2var_epi8(self.0, index, next.0))
        }
    }

    #[inline(always)]
    unsafe fn load_match(self, at: *const u8, distance: usize) -> Avx512Register {
        // SAFETY: AVX-512 with VBMI is there by the trait's condition. The row of indices is an
        // array of 64 bytes, and its number is checked. The last read is masked: up to a distance
        // of 64 it reads nothing, beyond that 64 bytes from inside the output on, which end before
        // `at`.
        unsafe {
            let index = _mm512_loadu_si512(TAIL_PERIOD_INDICES[distance.min(64)].as_ptr().cast());
            let last = _mm512_permutexvar_epi8(index, self.0);
            // Beyond the register the bytes are in memory and were stored a while ago. Without a
            // branch, which could not be predicted.
            let is_far = distance > 64;
            let far = if is_far { at.wrapping_sub(distance) } else { BYTE_INDICES.as_ptr() };
            let mask = u64::from(is_far).wrapping_neg();
            Avx512Register(_mm512_mask_loadu_epi8(last, mask, far.cast()))
        }
    }
}
