//! HDF5 filter 2: stores the first bytes of all elements, then the second bytes, and so on.

use std::borrow::Cow;
use std::sync::Arc;

use hdf5_filters::shuffle::{ID, unshuffle};

use super::error::DecodeError;
use super::filter::{FilterDecoder, SupportedFilter};

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
