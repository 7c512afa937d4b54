//! [`list_bits`], which turns a mask into a list, and [`IndexList`], a list that it is fast for.

/// Appends the numbers of the bits that are set, ascending; the lowest bit is number `first`. For
/// masks in which few bits are.
#[inline(always)]
pub(super) fn list_bits(mut bits: u64, first: usize, list: &mut Vec<u32>) {
    while bits != 0 {
        list.push(first as u32 + bits.trailing_zeros());
        bits &= bits - 1;
    }
}

/// A list of indices, in memory that is only enlarged.
#[derive(Default)]
pub(super) struct IndexList {
    /// The list, and what was left of others.
    memory: Vec<u32>,
    len: usize,
}

impl IndexList {
    /// The memory that must follow the list: what is appended is written so many indices at a time.
    const SLACK: usize = 4;

    /// Returns the bytes of memory of a list that [`IndexList::clear`] prepared.
    pub(super) const fn memory_bytes(max_len: usize) -> usize {
        (max_len + Self::SLACK) * size_of::<u32>()
    }

    /// Empties the list and prepares it for so many indices.
    #[inline(always)]
    pub(super) fn clear(&mut self, max_len: usize) {
        self.len = 0;
        if self.memory.len() < max_len + Self::SLACK {
            self.memory.resize(max_len + Self::SLACK, 0);
        }
    }

    /// Appends the numbers of the bits that are set, ascending; the lowest bit is number `first`.
    #[inline(always)]
    pub(super) fn extend_by_bits(&mut self, mut bits: u32, first: usize) {
        let mut len = self.len;
        self.len += bits.count_ones() as usize;
        // Some at a time without a branch; the next ones overwrite those beyond the list.
        while bits != 0 {
            for index in &mut self.memory[len..len + Self::SLACK] {
                *index = first as u32 + bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
            }
            len += Self::SLACK;
        }
    }
}

impl std::ops::Deref for IndexList {
    type Target = [u32];

    #[inline(always)]
    fn deref(&self) -> &[u32] {
        &self.memory[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bits_that_are_set_are_listed() {
        for bits in [0, 1, 0b1011, 1 << 31, u32::MAX] {
            let expected: Vec<u32> = (0..32).filter(|bit| bits >> bit & 1 == 1).collect();
            let mut list = Vec::new();
            list_bits(bits.into(), 0, &mut list);
            assert_eq!(list, expected);
            list_bits(u64::from(bits) << 32, 64, &mut list);
            assert_eq!(
                list[expected.len()..],
                *expected.iter().map(|n| n + 96).collect::<Vec<_>>()
            );
            let mut indices = IndexList::default();
            indices.clear(64);
            indices.extend_by_bits(bits, 0);
            assert_eq!(*indices, *expected);
        }
    }
}
