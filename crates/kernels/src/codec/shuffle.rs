//! HDF5 filter 2: stores the first bytes of all elements, then the second bytes, and so on.

/// Undoes the shuffle of elements of `size` bytes. Bytes after the last whole element are stored unshuffled.
pub(super) fn decode(stored: &[u8], size: usize, out: &mut [u8]) {
    let elements = stored.len() / size;
    let (shuffled, tail) = stored.split_at(elements * size);
    let (whole, out_tail) = out.split_at_mut(elements * size);
    match size {
        1 => whole.copy_from_slice(shuffled),
        2 => unshuffle_elements::<2>(shuffled, whole),
        4 => unshuffle_elements::<4>(shuffled, whole),
        8 => unshuffle_elements::<8>(shuffled, whole),
        _ => {
            for (byte, plane) in shuffled.chunks_exact(elements.max(1)).enumerate() {
                for (element, &value) in whole.chunks_exact_mut(size).zip(plane) {
                    element[byte] = value;
                }
            }
        }
    }
    out_tail.copy_from_slice(tail);
}

/// Undoes the shuffle of elements whose size is known at compile time, so that the loop becomes vector instructions.
fn unshuffle_elements<const SIZE: usize>(shuffled: &[u8], out: &mut [u8]) {
    let elements = out.len() / SIZE;
    let planes: [&[u8]; SIZE] = std::array::from_fn(|byte| &shuffled[byte * elements..(byte + 1) * elements]);
    for (i, element) in out.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
        *element = planes.map(|plane| plane[i]);
    }
}
