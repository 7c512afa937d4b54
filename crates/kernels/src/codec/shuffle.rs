//! HDF5 filter 2: stores the first bytes of all elements, then the second bytes, and so on.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::DecodeError;
use super::filter::{FilterDecoder, SupportedFilter};

const ID: u32 = 2;
const FILTER_NAME: &str = hdf5_filters::filter_name(ID).expect("a filter with a name");

pub(super) const FILTER: SupportedFilter = SupportedFilter {
    id: ID,
    decoder: |values, dtype| {
        let element_size = values.first().map_or(0, |&size| size as usize);
        Ok(Arc::new(Shuffle {
            element_size: if element_size == 0 { dtype.size() } else { element_size },
        }))
    },
};

/// The shuffle of a dataset, with its bytes per element.
#[derive(Debug)]
struct Shuffle {
    element_size: usize,
}

impl FilterDecoder for Shuffle {
    fn decode_into(&self, stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
        if stored.len() != len {
            return Err(DecodeError::Length {
                filter: FILTER_NAME,
                found: stored.len(),
                expected: len,
            });
        }
        unshuffle(stored, self.element_size, &mut out[..len]);
        Ok(())
    }

    fn decode_up_to<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        _: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        let len = stored.len();
        self.decode_to_length(stored, len)
    }

    fn preserves_length(&self) -> bool {
        true
    }
}

/// Undoes the shuffle of elements of `size` bytes. Bytes after the last whole element are stored
/// unshuffled.
pub(super) fn unshuffle(stored: &[u8], size: usize, out: &mut [u8]) {
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

/// Undoes the shuffle of elements whose size is known at compile time, so that the loop becomes
/// vector instructions.
fn unshuffle_elements<const SIZE: usize>(shuffled: &[u8], out: &mut [u8]) {
    let elements = out.len() / SIZE;
    let planes: [&[u8]; SIZE] =
        std::array::from_fn(|byte| &shuffled[byte * elements..(byte + 1) * elements]);
    for (i, element) in out.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
        *element = planes.map(|plane| plane[i]);
    }
}
