//! Inputs made of seeds: a few bytes, numbers and words changed, moved, doubled, cut out or put in.

use std::ops::Range;

/// A generator of numbers that is the same everywhere (SplitMix64).
pub struct Random(u64);

impl Random {
    /// Returns the generator of one input of a run and target.
    pub fn for_input(seed: u64, target: &str, number: u64) -> Self {
        let mut random = Self(seed);
        for part in target.bytes().map(u64::from).chain([number]) {
            random.0 ^= part.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
            random.0 = random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Returns a number up to `most`, small ones more often than large ones.
    fn small(&mut self, most: usize) -> usize {
        let bits = self.below(usize::BITS as usize - most.leading_zeros() as usize + 1);
        self.below(1 << bits).min(most)
    }

    fn range(&mut self, len: usize) -> Range<usize> {
        let start = self.below(len + 1);
        start..start + self.small(len - start)
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let at = self.below(all.len());
        all.get(at)
    }
}

/// Bytes at the limits of types.
const BYTES: [u8; 10] = [0, 1, 9, 10, b' ', b'"', 127, 128, 254, 255];

/// Numbers and words at which readers of texts may fail.
const WORDS: [&str; 30] = [
    "0",
    "-1",
    "-0.0",
    "1e308",
    "1e-320",
    "1e999",
    "nan",
    "NaN",
    "inf",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "4294967296",
    "2147483648",
    "65536",
    "null",
    "true",
    "[]",
    "{}",
    "[[",
    "{\"",
    "\\u0000",
    "\\ud800",
    "../",
    "/",
    "\0",
    "\u{feff}",
    "é",
    ": ",
    "\n",
];

/// Makes an input of at most `max_bytes`, out of a seed where there are some.
pub fn mutate(random: &mut Random, seeds: &[Vec<u8>], max_bytes: usize) -> Vec<u8> {
    let mut input = match random.one_of(seeds) {
        Some(seed) if random.below(16) > 0 => seed.clone(),
        _ => {
            let len = random.small(max_bytes);
            (0..len).map(|_| random.next() as u8).collect()
        }
    };
    for _ in 0..=random.small(15) {
        mutate_once(random, &mut input, seeds);
        input.truncate(max_bytes.saturating_mul(2));
    }
    input.truncate(max_bytes);
    input
}

fn mutate_once(random: &mut Random, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let len = input.len();
    let at = random.below(len);
    match random.below(12) {
        0..3 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            let value = if random.below(2) == 0 {
                random.next() as u8
            } else {
                BYTES[random.below(BYTES.len())]
            };
            if let Some(byte) = input.get_mut(at) {
                *byte = value;
            }
        }
        // A number in binary, near a limit.
        4 => {
            let bytes = 1 << random.below(4);
            let number = if random.below(2) == 0 { 1_u64 << random.below(64) } else { 0 };
            let mut number = number
                .wrapping_add(random.small(8) as u64)
                .wrapping_sub(random.small(8) as u64)
                .to_le_bytes();
            if random.below(2) == 0 {
                number[..bytes].reverse();
            }
            input.iter_mut().skip(at).zip(&number[..bytes]).for_each(|(to, from)| *to = *from);
        }
        // A number in decimal, which another takes the place of.
        5 | 6 => {
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let from = input.iter().skip(at).position(is_digit).map_or(at, |digits| at + digits);
            let end = input
                .iter()
                .skip(from)
                .position(|byte| !is_digit(byte))
                .map_or(len, |end| from + end);
            let word = match random.below(3) {
                0 => random.next().to_string(),
                1 => (random.small(1 << 20)).to_string(),
                _ => WORDS[random.below(WORDS.len())].to_owned(),
            };
            drop(input.splice(from..end.max(from), word.into_bytes()));
        }
        7 => drop(input.splice(at..at, WORDS[random.below(WORDS.len())].bytes())),
        8 => drop(input.drain(random.range(len))),
        // A range once more, maybe many times.
        9 => {
            let range = random.range(len);
            let copies = input[range].repeat(1 + random.small(64));
            drop(input.splice(at..at, copies));
        }
        // A piece of another seed.
        10 => {
            if let Some(other) = random.one_of(seeds) {
                let piece = other[random.range(other.len())].to_vec();
                let replaced = at..(at + random.small(piece.len())).min(len);
                drop(input.splice(replaced, piece));
            }
        }
        _ => {
            let bytes: Vec<u8> = (0..random.small(16)).map(|_| random.next() as u8).collect();
            drop(input.splice(at..at, bytes));
        }
    }
}
