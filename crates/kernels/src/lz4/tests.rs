//! The fast decoders against `lz4_flex`, on sound and on damaged blocks, between guard pages.
#![allow(unsafe_code)]

use std::ops::Range;

use super::vector::{Vector, Wide32, Wide64};
use super::{SLACK, fast};

/// A run of pages between two that can't be touched.
struct Guarded {
    pages: *mut libc::c_void,
    len: usize,
}

const PAGE: usize = 4096;

impl Guarded {
    fn new(pages: usize) -> Guarded {
        let len = pages * PAGE;
        let (access, kind) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping, whose inner pages are made accessible.
        let pages = unsafe {
            let pages = libc::mmap(std::ptr::null_mut(), len + 2 * PAGE, access, kind, -1, 0);
            assert!(pages != libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.add(PAGE), len, libc::PROT_READ | libc::PROT_WRITE), 0);
            pages
        };
        Guarded { pages, len }
    }

    /// The last `len` bytes before the guard page.
    fn last(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.len);
        // SAFETY: within the accessible pages, and borrowed from `self`.
        unsafe { std::slice::from_raw_parts_mut(self.pages.cast::<u8>().add(PAGE + self.len - len), len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.pages, self.len + 2 * PAGE) };
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

    /// Bytes such as planes have, and others.
    fn bytes(&mut self) -> Vec<u8> {
        let longest = [80, 700, 8192][self.below(3)];
        let len = 1 + self.below(longest);
        let (period, density) = (1 + self.below(80), 1 + self.below(64));
        let mut bytes = vec![0; len];
        match self.below(6) {
            0 => bytes.iter_mut().for_each(|b| *b = self.below(256) as u8),
            1 => bytes.iter_mut().for_each(|b| *b = if self.below(64) < density { 1 << self.below(8) } else { 0 }),
            2 => (0..len).for_each(|i| bytes[i] = (i / density % 7) as u8),
            3 => (0..len).for_each(|i| {
                let repeats = i >= period && self.below(60) > 0;
                bytes[i] = if repeats { bytes[i - period] } else { self.below(256) as u8 };
            }),
            // A dense start, then little.
            4 => (0..len)
                .for_each(|i| bytes[i] = if i < len / 9 || self.below(900) == 0 { self.below(256) as u8 } else { 0 }),
            _ => {}
        }
        bytes
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

/// How often blocks were sound, and how often not.
#[derive(Debug, Default)]
struct Seen {
    sound: usize,
    refused: usize,
}

/// Decodes one block with `V` and with the oracle.
///
/// # Safety
/// The processor must have what `V` stands for.
unsafe fn compare<V: Vector>(block: &[u8], len: usize, room: &mut [u8], dirty: usize, expected: Option<&[u8]>) {
    // SAFETY: as above.
    let found = unsafe { decode_compiled::<V>(block, room, len, dirty) };
    match (found, expected) {
        (None, None) => {}
        (Some(zero_from), Some(expected)) => {
            assert!(room[..len] == *expected, "other bytes than the oracle's");
            assert!(room[zero_from..].iter().all(|&b| b == 0), "not zero where it is said to be");
            assert!(zero_from + V::WIDTH <= room.len());
        }
        (found, expected) => panic!("sound: {}, for the oracle: {}", found.is_some(), expected.is_some()),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn decode_512(block: &[u8], room: &mut [u8], len: usize, dirty: usize) -> Option<usize> {
    // SAFETY: compiled for the register.
    unsafe { fast::decode::<Wide64>(block, room, len, dirty) }
}

#[target_feature(enable = "avx2")]
fn decode_256(block: &[u8], room: &mut [u8], len: usize, dirty: usize) -> Option<usize> {
    // SAFETY: compiled for the register.
    unsafe { fast::decode::<Wide32>(block, room, len, dirty) }
}

unsafe fn decode_compiled<V: Vector>(block: &[u8], room: &mut [u8], len: usize, dirty: usize) -> Option<usize> {
    // SAFETY: the caller's promise.
    unsafe { if V::WIDTH == 64 { decode_512(block, room, len, dirty) } else { decode_256(block, room, len, dirty) } }
}

/// # Safety
/// The processor must have what `V` stands for.
unsafe fn differ<V: Vector>(seeds: Range<u64>) -> Seen {
    let mut seen = Seen::default();
    let (mut source, mut target) = (Guarded::new(4), Guarded::new(4));
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
        let sound = lz4_flex::block::decompress_into(&block, &mut expected).is_ok_and(|written| written == len);
        let stored = source.last(block.len());
        stored.copy_from_slice(&block);
        // A room that is larger than it must be keeps what earlier blocks left there.
        let room = if random.below(4) == 0 { 8192 + SLACK } else { len + SLACK };
        let room = target.last(room);
        let mut clean = room.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1) + random.below(40);
        if clean + V::WIDTH > room.len() {
            room.fill(0);
            clean = 0;
        }
        // SAFETY: the caller's promise.
        unsafe { compare::<V>(stored, len, room, clean, sound.then_some(&expected[..])) };
        if sound { seen.sound += 1 } else { seen.refused += 1 }
    }
    seen
}

fn differ_all(cases: u64) {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: detected.
        let seen = unsafe { differ::<Wide32>(0..cases) };
        assert!(seen.sound > cases as usize / 3 && seen.refused > cases as usize / 10, "{seen:?}");
    }
    if is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: detected.
        let seen = unsafe { differ::<Wide64>(0..cases) };
        assert!(seen.sound > cases as usize / 3 && seen.refused > cases as usize / 10, "{seen:?}");
    }
}

#[test]
fn fast_decoders_agree_with_the_oracle() {
    differ_all(400_000);
}

/// `cargo test --release -p azpipe-kernels millions -- --ignored`
#[test]
#[ignore = "minutes; for a change of the decoder"]
fn fast_decoders_agree_with_the_oracle_in_millions_of_cases() {
    differ_all(5_000_000);
}
