//! Wide registers, as the LZ4 decoder needs them.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// A register of bytes.
///
/// # Safety
/// All functions need the instructions that the type stands for, and are to be inlined into code compiled for them.
/// Pointers must be good for [`ByteRegister::REGISTER_BYTES`] bytes.
pub(crate) trait ByteRegister: Copy {
    /// Bytes of the register.
    const REGISTER_BYTES: usize;

    unsafe fn load(from: *const u8) -> Self;

    unsafe fn store(self, to: *mut u8);

    unsafe fn zero() -> Self;

    unsafe fn is_zero(self) -> bool;

    /// The last bytes of both: of this register, followed by the first `count` bytes of `next`, `count <= REGISTER_BYTES`. So a decoder knows
    /// its last output without reading it back, which would wait until the store is done; a register that can't do this stays as it is.
    unsafe fn append(self, next: Self, count: usize) -> Self;

    /// The bytes of a match that starts `1 <= distance <= at` bytes before `at`; this register holds the last bytes before `at`.
    unsafe fn load_match(self, at: *const u8, distance: usize) -> Self;

    /// By distance, its greatest multiple that the register holds: period and register come together again there.
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

/// AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Register(__m256i);

/// AVX-512 with VBMI, whose byte permutation crosses the whole register.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Register(__m512i);

/// In row `d`, byte `k` is `k % d` from the register's last `d` bytes: where the bytes of a match come from.
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

/// The bytes' numbers.
const BYTE_INDICES: [u8; 64] = {
    let mut bytes = [0; 64];
    let mut k = 0;
    while k < 64 {
        bytes[k] = k as u8;
        k += 1;
    }
    bytes
};

/// In row `d`, byte `k` is `k % d`: where the bytes of a period come from.
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

/// The same for bytes 16 to 31, which AVX2 has to take from two halves: what comes from the bytes 0 to 15 of memory,
/// and what from 16 to 31. 0x80 gives a zero.
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

// The functions of both types do what their one or two intrinsics do, under the trait's conditions: hence no SAFETY
// note a line.
#[allow(clippy::undocumented_unsafe_blocks)]
impl ByteRegister for Avx2Register {
    const REGISTER_BYTES: usize = 32;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Avx2Register {
        Avx2Register(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn zero() -> Avx2Register {
        Avx2Register(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        unsafe { _mm256_testz_si256(self.0, self.0) == 1 }
    }

    #[inline(always)]
    unsafe fn append(self, _: Avx2Register, _: usize) -> Avx2Register {
        self
    }

    /// The register's worth of the period that starts at `from` and is `deviation` bytes long; with a distance of
    /// [`ByteRegister::REGISTER_BYTES`] or more, the bytes as they are.
    #[inline(always)]
    unsafe fn load_match(self, at: *const u8, distance: usize) -> Avx2Register {
        let row = distance.min(32);
        let from = at.wrapping_sub(distance);
        let (lower, [upper_low, upper_high]) = (&PERIOD_INDICES[row], &UPPER_PERIOD_INDICES[row]);
        unsafe {
            let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(16).cast()));
            let index = |bytes: &[u8]| _mm_loadu_si128(bytes.as_ptr().cast());
            let upper =
                _mm_or_si128(_mm_shuffle_epi8(low, index(upper_low)), _mm_shuffle_epi8(high, index(upper_high)));
            Avx2Register(_mm256_set_m128i(upper, _mm_shuffle_epi8(low, index(lower))))
        }
    }
}

#[allow(clippy::undocumented_unsafe_blocks)]
impl ByteRegister for Avx512Register {
    const REGISTER_BYTES: usize = 64;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Avx512Register {
        Avx512Register(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn zero() -> Avx512Register {
        Avx512Register(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        unsafe { _mm512_test_epi8_mask(self.0, self.0) == 0 }
    }

    #[inline(always)]
    unsafe fn append(self, next: Avx512Register, count: usize) -> Avx512Register {
        unsafe {
            let numbers = _mm512_loadu_si512(BYTE_INDICES.as_ptr().cast());
            let index = _mm512_add_epi8(numbers, _mm512_set1_epi8(count as i8));
            Avx512Register(_mm512_permutex2var_epi8(self.0, index, next.0))
        }
    }

    #[inline(always)]
    unsafe fn load_match(self, at: *const u8, distance: usize) -> Avx512Register {
        unsafe {
            let index = _mm512_loadu_si512(TAIL_PERIOD_INDICES[distance.min(64)].as_ptr().cast());
            let last = _mm512_permutexvar_epi8(index, self.0);
            // From memory, but only what was stored a while ago; without a branch, for none could be foretold.
            let is_far = distance > 64;
            let far = if is_far { at.wrapping_sub(distance) } else { BYTE_INDICES.as_ptr() };
            let mask = u64::from(is_far).wrapping_neg();
            Avx512Register(_mm512_mask_loadu_epi8(last, mask, far.cast()))
        }
    }
}
