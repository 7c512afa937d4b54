//! [`list_bits`], which turns a mask into a list.

/// Appends the numbers of the bits that are set, ascending; the lowest bit is number `first`.
#[inline(always)]
pub(super) fn list_bits(mut bits: u64, first: usize, list: &mut Vec<u32>) {
    while bits != 0 {
        list.push(first as u32 + bits.trailing_zeros());
        bits &= bits - 1;
    }
}
