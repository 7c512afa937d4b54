//! [`Bitmap`], a set of pixels of one tile.

use crate::summation_order::{STREAM_PIXELS, STREAMS, TILE};

/// How many 64-bit words a bitmap has.
const WORDS_PER_TILE: usize = TILE / 64;

/// A set of pixels of one tile, one bit per pixel. Bit `p % 64` of word `p / 64` is pixel `p`, as
/// in a bit plane of the bitshuffle filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Bitmap(pub(crate) [u64; WORDS_PER_TILE]);

impl Bitmap {
    pub(crate) const EMPTY: Bitmap = Bitmap([0; WORDS_PER_TILE]);
    pub(crate) const FULL: Bitmap = Bitmap([u64::MAX; WORDS_PER_TILE]);

    /// Returns the set of the pixels for which `is_set` holds.
    #[inline(always)]
    pub(crate) fn from_fn(is_set: impl Fn(usize) -> bool) -> Bitmap {
        let mut bits = Bitmap::EMPTY;
        for (i, word) in bits.0.iter_mut().enumerate() {
            for bit in 0..64 {
                *word |= u64::from(is_set(i * 64 + bit)) << bit;
            }
        }
        bits
    }

    /// Adds a pixel.
    #[inline(always)]
    pub(crate) fn insert(&mut self, pixel: usize) {
        self.0[pixel / 64] |= 1 << (pixel % 64);
    }

    /// Returns whether a pixel is in the set.
    #[inline(always)]
    pub(crate) fn contains(&self, pixel: usize) -> bool {
        self.0[pixel / 64] >> (pixel % 64) & 1 != 0
    }

    #[inline(always)]
    pub(crate) fn zip(&self, other: &Bitmap, combine: impl Fn(u64, u64) -> u64) -> Bitmap {
        let mut both = *self;
        for (mine, others) in both.0.iter_mut().zip(&other.0) {
            *mine = combine(*mine, *others);
        }
        both
    }

    /// Returns the pixels of `self` that are not in `other`.
    #[inline(always)]
    pub(crate) fn without(&self, other: &Bitmap) -> Bitmap {
        self.zip(other, |mine, others| mine & !others)
    }

    /// Returns the set of the pixels whose byte is 1; the others have 0.
    #[inline(always)]
    pub(crate) fn from_bytes(bytes: &[u8; TILE]) -> Bitmap {
        let mut bits = Bitmap::EMPTY;
        for (word, bytes) in bits.0.iter_mut().zip(bytes.as_chunks::<64>().0) {
            for (index, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
                // Byte `i` is moved to bit `56 + i`, by the factor's bit `56 - 7 i`.
                let gathered = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080);
                *word |= gathered >> 56 << (8 * index);
            }
        }
        bits
    }

    /// Returns one byte per pixel: 1 for those in the set, 0 for the others.
    pub(crate) fn bytes(&self) -> [u8; TILE] {
        let mut bytes = [0; TILE];
        for (bytes, word) in bytes.as_chunks_mut::<64>().0.iter_mut().zip(self.0) {
            *bytes = std::array::from_fn(|bit| (word >> bit & 1) as u8);
        }
        bytes
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Iterates over the pixels in the set, in rising order.
    pub(crate) fn iter_ones(&self) -> impl Iterator<Item = usize> {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(i, &word)| iter_bits(word).map(move |bit| i * 64 + bit))
    }

    /// Calls `visit` with the pixels in the set in the order of summation: one of each stream in
    /// turn.
    #[inline(always)]
    pub(crate) fn for_each_in_order(&self, mut visit: impl FnMut(usize)) {
        for i in (0..STREAM_PIXELS).step_by(16) {
            // Bit `4 b + s` is pixel `i + b` of stream `s`.
            let mut turns = 0;
            for stream in 0..STREAMS {
                let pixel = stream * STREAM_PIXELS + i;
                turns |= spread_bits((self.0[pixel / 64] >> (pixel % 64)) as u16) << stream;
            }
            while turns != 0 {
                let turn = turns.trailing_zeros() as usize;
                turns &= turns - 1;
                visit(turn % STREAMS * STREAM_PIXELS + i + turn / STREAMS);
            }
        }
    }
}

/// Moves bit `b` to bit `4 b`.
fn spread_bits(bits: u16) -> u64 {
    let bits = u64::from(bits);
    let bits = (bits | bits << 24) & 0x0000_00ff_0000_00ff;
    let bits = (bits | bits << 12) & 0x000f_000f_000f_000f;
    let bits = (bits | bits << 6) & 0x0303_0303_0303_0303;
    (bits | bits << 3) & 0x1111_1111_1111_1111
}

/// Iterates over the indices of the bits that are set, in rising order.
pub(crate) fn iter_bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summation_order;

    #[test]
    fn pixels_are_visited_in_either_order() {
        let is_set = |p: usize| p * p % 7 == 2;
        let bits = Bitmap::from_fn(is_set);
        let mut summed = Vec::new();
        bits.for_each_in_order(|p| summed.push(p));
        assert_eq!(
            summed,
            summation_order::pixels_of_tile(TILE).filter(|&p| is_set(p)).collect::<Vec<_>>()
        );
        assert_eq!(
            bits.iter_ones().collect::<Vec<_>>(),
            (0..TILE).filter(|&p| is_set(p)).collect::<Vec<_>>()
        );
        assert_eq!(bits.count() as usize, summed.len());
        assert_eq!(Bitmap::from_bytes(&bits.bytes()), bits);
        assert!(bits.without(&Bitmap::FULL).is_empty() && !bits.is_empty());
    }
}
