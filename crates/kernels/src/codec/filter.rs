//! [`FilterDecoder`], which undoes one HDF5 filter, and [`SupportedFilter`], its row in the list of
//! all.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use super::error::{DecodeError, zeroed};
use crate::PixelType;

/// Makes the decoder for a dataset with these client values and pixels of this type. Fails if the
/// filter has no such values.
pub(super) type MakeDecoder = fn(&[u32], PixelType) -> Result<Arc<dyn FilterDecoder>, DecodeError>;

/// A filter that can be undone.
pub(super) struct SupportedFilter {
    /// Number in the HDF Group's registry. `hdf5_filters` has its name.
    pub(super) id: u32,
    pub(super) decoder: MakeDecoder,
}

/// Undoes one filter of a dataset, chunk by chunk.
pub(super) trait FilterDecoder: Debug + Send + Sync {
    /// Decodes `stored` into the first `len` bytes of `out`, which it must fill exactly. The bytes
    /// after them may be overwritten.
    fn decode_into(&self, stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError>;

    /// Decodes `stored` to bytes of unknown length, at most `limit`: the input of a filter that is
    /// undone next.
    fn decode_up_to<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        limit: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError>;

    /// Decodes `stored` to `len` bytes: the input of a filter that is undone next.
    fn decode_to_length<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        len: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        let mut out = zeroed(len)?;
        self.decode_into(&stored, &mut out, len)?;
        Ok(Cow::Owned(out))
    }

    /// Returns whether the filter's output is always as long as its input.
    fn preserves_length(&self) -> bool {
        false
    }
}
