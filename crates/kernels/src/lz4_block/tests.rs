//! Compares the fast decoders with `lz4_flex` on valid and damaged blocks, between guard pages.
#![allow(unsafe_code)]

use std::ops::Range;

use super::register::{Avx2Register, Avx512Register, ByteRegister};
use super::{DecodedBlock, SLACK, decoder};

/// Pages between two inaccessible guard pages.
struct GuardedPages {
    pages: *mut libc::c_void,
    len: usize,
}

const PAGE: usize = 4096;
/// Bytes of a guard page. Miri has no inaccessible pages, and knows where a mapping ends.
const GUARD: usize = if cfg!(miri) { 0 } else { PAGE };

impl GuardedPages {
    fn new(pages: usize) -> GuardedPages {
        let len = pages * PAGE;
        let (all, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let access = if cfg!(miri) { all } else { libc::PROT_NONE };
        // SAFETY: a fresh mapping, whose inner pages are made accessible.
        let pages = unsafe {
            let pages = libc::mmap(std::ptr::null_mut(), len + 2 * GUARD, access, kind, -1, 0);
            assert!(pages != libc::MAP_FAILED);
            assert!(cfg!(miri) || libc::mprotect(pages.add(GUARD), len, all) == 0);
            pages
        };
        GuardedPages { pages, len }
    }

    /// Returns the last `len` bytes before the guard page.
    fn last(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.len);
        // SAFETY: within the accessible pages, and borrowed from `self`.
        unsafe {
            std::slice::from_raw_parts_mut(self.pages.cast::<u8>().add(GUARD + self.len - len), len)
        }
    }
}

impl Drop for GuardedPages {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.pages, self.len + 2 * GUARD) };
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    /// Returns random bytes, some of them like those of bit planes.
    fn bytes(&mut self) -> Vec<u8> {
        let longest = [80, 700, 8192][self.below(3)];
        if self.below(6) == 0 {
            return self.planes();
        }
        let len = 1 + self.below(longest);
        let (period, density) = (1 + self.below(80), 1 + self.below(64));
        let mut bytes = vec![0; len];
        match self.below(6) {
            0 => bytes.iter_mut().for_each(|b| *b = self.below(256) as u8),
            1 => bytes
                .iter_mut()
                .for_each(|b| *b = if self.below(64) < density { 1 << self.below(8) } else { 0 }),
            2 => (0..len).for_each(|i| bytes[i] = (i / density % 7) as u8),
            3 => (0..len).for_each(|i| {
                let repeats = i >= period && self.below(60) > 0;
                bytes[i] = if repeats { bytes[i - period] } else { self.below(256) as u8 };
            }),
            // A dense start, then little.
            4 => (0..len).for_each(|i| {
                bytes[i] =
                    if i < len / 9 || self.below(900) == 0 { self.below(256) as u8 } else { 0 }
            }),
            _ => {}
        }
        bytes
    }

    /// Returns bit planes of which the last are identical, except sometimes for one byte.
    fn planes(&mut self) -> Vec<u8> {
        let (stride, planes) = ([16, 64, 128, 256][self.below(4)], [8, 16, 32][self.below(3)]);
        let (differ, density) = (1 + self.below(planes), 1 + self.below(64));
        let mut bytes = vec![0; stride * planes];
        for byte in bytes.iter_mut().take(differ * stride) {
            *byte = if self.below(64) < density { self.below(256) as u8 } else { 0 };
        }
        for plane in differ..planes {
            bytes.copy_within((differ - 1) * stride..differ * stride, plane * stride);
        }
        if self.below(4) == 0 {
            let (at, len) = (
                [self.below(stride * planes), stride * planes - 1 - self.below(14)][self.below(2)],
                bytes.len(),
            );
            bytes[at.min(len - 1)] ^= 1;
        }
        bytes
    }

    /// Returns a possible distance between planes, or 0.
    fn period(&mut self, len: usize) -> usize {
        let period = [0, len / 8, len / 16, len / 32][self.below(4)];
        if period > 0 && len.is_multiple_of(period) { period } else { 0 }
    }

    fn damage(&mut self, block: &mut Vec<u8>) {
        for _ in 0..1 + self.below(3) {
            let at = self.below(block.len());
            block[at] = [0, 255, self.below(256) as u8][self.below(3)];
        }
        if self.below(8) == 0 {
            block.truncate(1 + self.below(block.len()));
        }
    }
}

/// How many blocks were valid, invalid, and valid with repeated planes.
#[derive(Debug, Default)]
struct SeenCases {
    valid: usize,
    invalid: usize,
    repeating: usize,
}

impl SeenCases {
    fn check(&self, cases: u64) {
        let cases = cases as usize;
        assert!(
            self.valid > cases / 3 && self.invalid > cases / 10 && self.repeating > cases / 200,
            "{self:?}"
        );
    }
}

/// A block and the arguments of its decoding.
struct Case<'a> {
    block: &'a [u8],
    len: usize,
    dirty: usize,
    period: usize,
}

/// Decodes one block with `V` and compares the bytes with the expected ones. Returns whether the
/// decoder left out repetitions.
///
/// # Safety
/// The processor must have the instructions of `V`.
unsafe fn compare<V: ByteRegister>(
    case: &Case<'_>,
    buffer: &mut [u8],
    expected: Option<&[u8]>,
) -> bool {
    // SAFETY: as above.
    let found = unsafe { decode_compiled::<V>(case, buffer) };
    match (found, expected) {
        (None, None) => false,
        (Some(DecodedBlock { zero_from, repeats_from }), Some(expected)) => {
            assert!(buffer[zero_from..].iter().all(|&b| b == 0), "not zero from `zero_from` on");
            assert!(zero_from + V::REGISTER_BYTES <= buffer.len());
            let written = repeats_from.map_or(case.len, |start| start + case.period);
            assert!(buffer[..written] == expected[..written], "other bytes than the oracle's");
            if let Some(start) = repeats_from {
                assert!(start.is_multiple_of(case.period));
                let mut periods = expected[start..].chunks_exact(case.period);
                assert!(
                    periods.all(|period| *period == buffer[start..written]),
                    "no period of the oracle's bytes"
                );
            }
            repeats_from.is_some()
        }
        (found, expected) => {
            panic!("valid: {}, for the oracle: {}", found.is_some(), expected.is_some())
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn decode_512(case: &Case<'_>, buffer: &mut [u8]) -> Option<DecodedBlock> {
    // SAFETY: compiled for the register.
    unsafe {
        decoder::decode::<Avx512Register>(case.block, buffer, case.len, case.dirty, case.period)
    }
}

#[target_feature(enable = "avx2")]
fn decode_256(case: &Case<'_>, buffer: &mut [u8]) -> Option<DecodedBlock> {
    // SAFETY: compiled for the register.
    unsafe {
        decoder::decode::<Avx2Register>(case.block, buffer, case.len, case.dirty, case.period)
    }
}

unsafe fn decode_compiled<V: ByteRegister>(
    case: &Case<'_>,
    buffer: &mut [u8],
) -> Option<DecodedBlock> {
    // SAFETY: the caller's promise.
    unsafe {
        if V::REGISTER_BYTES == 64 { decode_512(case, buffer) } else { decode_256(case, buffer) }
    }
}

/// Compares the decoder of `V` with `lz4_flex` on one random block per seed.
///
/// # Safety
/// The processor must have the instructions of `V`.
unsafe fn compare_cases<V: ByteRegister>(seeds: Range<u64>) -> SeenCases {
    let mut seen = SeenCases::default();
    let (mut source, mut target) = (GuardedPages::new(4), GuardedPages::new(4));
    for seed in seeds {
        let random = &mut Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bytes = random.bytes();
        let mut block = lz4_flex::block::compress(&bytes);
        if random.below(2) == 0 {
            random.damage(&mut block);
        }
        // Sometimes the block is not as long as it should be.
        let len = if random.below(10) == 0 { 1 + random.below(8192) } else { bytes.len() };
        let mut expected = vec![0; len];
        let is_valid = lz4_flex::block::decompress_into(&block, &mut expected)
            .is_ok_and(|written| written == len);
        let stored = source.last(block.len());
        stored.copy_from_slice(&block);
        // A buffer that is larger than necessary keeps the bytes of earlier blocks.
        let buffer_len = if random.below(4) == 0 { 8192 + SLACK } else { len + SLACK };
        let buffer = target.last(buffer_len);
        let mut dirty =
            buffer.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1) + random.below(40);
        if dirty + V::REGISTER_BYTES > buffer.len() {
            buffer.fill(0);
            dirty = 0;
        }
        let case = Case { block: stored, len, dirty, period: random.period(len) };
        // SAFETY: the caller's promise.
        let repeats = unsafe { compare::<V>(&case, buffer, is_valid.then_some(&expected[..])) };
        seen.repeating += usize::from(repeats);
        if is_valid { seen.valid += 1 } else { seen.invalid += 1 }
    }
    seen
}

fn compare_all_registers(cases: u64) {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: detected.
        let seen = unsafe { compare_cases::<Avx2Register>(0..cases) };
        seen.check(cases);
    }
    if is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: detected.
        let seen = unsafe { compare_cases::<Avx512Register>(0..cases) };
        seen.check(cases);
    }
}

#[test]
fn fast_decoders_agree_with_the_oracle() {
    // Miri takes a second for each.
    compare_all_registers(if cfg!(miri) { 100 } else { 400_000 });
}

/// `cargo test --release -p azpipe-kernels millions -- --ignored`
#[test]
#[ignore = "takes minutes; to be run after a change of the decoder"]
fn fast_decoders_agree_with_the_oracle_in_millions_of_cases() {
    compare_all_registers(5_000_000);
}
