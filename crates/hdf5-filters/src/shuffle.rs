//! HDF5 filter 2, shuffle: the first bytes of all elements, then the second bytes, and so on. Bytes
//! after the last whole element stay as they are.

use multiversion::multiversion;

/// Number of the filter.
pub const ID: u32 = 2;

/// Shuffles elements of `size` bytes, 1 or more, into `out`.
///
/// # Panics
/// If `out` has another length than `bytes`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
pub fn shuffle(bytes: &[u8], size: usize, out: &mut [u8]) {
    assert_eq!(bytes.len(), out.len(), "shuffled bytes are as many as before");
    let (elements, tail) = bytes.split_at(bytes.len() / size * size);
    let (planes, out_tail) = out.split_at_mut(elements.len());
    match size {
        4 => shuffle_elements::<4>(elements, planes),
        8 => shuffle_elements::<8>(elements, planes),
        _ => {
            for (byte, plane) in planes.chunks_exact_mut((elements.len() / size).max(1)).enumerate()
            {
                for (to, element) in plane.iter_mut().zip(elements.chunks_exact(size)) {
                    *to = element[byte];
                }
            }
        }
    }
    out_tail.copy_from_slice(tail);
}

/// Undoes the shuffle of elements of `size` bytes, 1 or more.
///
/// # Panics
/// If `out` has another length than `stored`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
pub fn unshuffle(stored: &[u8], size: usize, out: &mut [u8]) {
    assert_eq!(stored.len(), out.len(), "shuffled bytes are as many as before");
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

/// Shuffles elements whose size is known at compile time, so that the loop becomes vector
/// instructions.
#[inline(always)]
fn shuffle_elements<const SIZE: usize>(bytes: &[u8], out: &mut [u8]) {
    let elements = bytes.as_chunks::<SIZE>().0;
    for (byte, plane) in out.chunks_exact_mut(elements.len().max(1)).enumerate() {
        for (to, element) in plane.iter_mut().zip(elements) {
            *to = element[byte];
        }
    }
}

/// Undoes the shuffle of elements whose size is known at compile time, so that the loop becomes
/// vector instructions.
#[inline(always)]
fn unshuffle_elements<const SIZE: usize>(shuffled: &[u8], out: &mut [u8]) {
    let elements = out.len() / SIZE;
    let planes: [&[u8]; SIZE] =
        std::array::from_fn(|byte| &shuffled[byte * elements..(byte + 1) * elements]);
    for (i, element) in out.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
        *element = planes.map(|plane| plane[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_come_first() {
        let mut out = [0; 9];
        shuffle(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 4, &mut out);
        assert_eq!(out, [1, 5, 2, 6, 3, 7, 4, 8, 9]);
    }

    #[test]
    fn elements_of_any_size_and_number_come_back() {
        for size in 1..=16 {
            for length in (0..70).chain([1000, 4099]) {
                let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
                let (mut shuffled, mut found) = (vec![0; length], vec![0; length]);
                shuffle(&bytes, size, &mut shuffled);
                let elements = length / size;
                for (at, byte) in shuffled.iter().enumerate().take(elements * size) {
                    assert_eq!(*byte, bytes[at % elements * size + at / elements]);
                }
                unshuffle(&shuffled, size, &mut found);
                assert!(found == bytes, "{length} bytes of elements of {size}");
            }
        }
    }
}
