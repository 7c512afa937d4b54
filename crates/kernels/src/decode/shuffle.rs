//! HDF5 filter 2: bytes of equal significance side by side.

/// Undoes the shuffle of elements of `size` bytes; bytes after the last whole element stand as they are.
pub(super) fn decode(stored: &[u8], size: usize, out: &mut [u8]) {
    let elements = stored.len().checked_div(size).unwrap_or(0);
    let (shuffled, tail) = stored.split_at(elements * size);
    let (whole, out_tail) = out.split_at_mut(elements * size);
    for (byte, plane) in shuffled.chunks_exact(elements.max(1)).enumerate() {
        for (element, &value) in whole.chunks_exact_mut(size).zip(plane) {
            element[byte] = value;
        }
    }
    out_tail.copy_from_slice(tail);
}
