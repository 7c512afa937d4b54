//! [`Pipeline`], the HDF5 filters of a dataset, which it undoes in reverse order.

use std::borrow::Cow;
use std::sync::Arc;

use super::FILTERS;
use super::bitshuffle::{self, Bitshuffle};
use super::error::DecodeError;
use super::filter::FilterDecoder;
use crate::PixelType;

/// Describes how the chunks of a dataset are stored: HDF5's filter pipeline, the pixels' type and
/// byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The filters in the order in which HDF5 lists them, which is the order of writing.
    steps: Vec<FilterStep>,
    dtype: PixelType,
    big_endian: bool,
}

/// A filter of a dataset.
#[derive(Clone, Debug)]
struct FilterStep {
    id: u32,
    /// HDF5's client values.
    values: Vec<u32>,
    decoder: Arc<dyn FilterDecoder>,
}

impl FilterStep {
    fn new(id: u32, values: &[u32], dtype: PixelType) -> Result<FilterStep, DecodeError> {
        let supported =
            FILTERS.iter().find(|filter| filter.id == id).ok_or(DecodeError::Unsupported { id })?;
        Ok(FilterStep { id, values: values.to_vec(), decoder: (supported.decoder)(values, dtype)? })
    }
}

/// Filters with the same number and client values decode the same.
impl PartialEq for FilterStep {
    fn eq(&self, other: &Self) -> bool {
        (self.id, &self.values) == (other.id, &other.values)
    }
}

impl Eq for FilterStep {}

impl Pipeline {
    /// Makes a pipeline from HDF5's filter numbers and client values, in the order in which HDF5
    /// lists them.
    ///
    /// # Errors
    /// A filter that is not supported, or client values that the filter does not have.
    pub fn from_hdf5(
        filters: &[(u32, &[u32])],
        dtype: PixelType,
        big_endian: bool,
    ) -> Result<Pipeline, DecodeError> {
        let steps = filters
            .iter()
            .map(|&(id, values)| FilterStep::new(id, values, dtype))
            .collect::<Result<_, _>>()?;
        Ok(Pipeline { steps, dtype, big_endian })
    }

    /// Returns the numbers of all filters that azpipe undoes.
    pub fn supported_filters() -> impl Iterator<Item = u32> {
        FILTERS.iter().map(|filter| filter.id)
    }

    /// Returns the pipeline of uncompressed pixels in native byte order.
    pub fn native(dtype: PixelType) -> Pipeline {
        Pipeline { steps: Vec::new(), dtype, big_endian: cfg!(target_endian = "big") }
    }

    /// Returns the type of the decoded pixels.
    pub fn dtype(&self) -> PixelType {
        self.dtype
    }

    /// Returns the bitshuffle filter if no other filter was applied to the chunk and its elements
    /// are little-endian pixels. Pixels can then be read from the bit planes block by block.
    pub(crate) fn only_bitshuffle(&self, filter_mask: u32) -> Option<Bitshuffle> {
        let mut steps = self.applied_filters(filter_mask);
        let (Some(only), None) = (steps.next(), steps.next()) else { return None };
        if only.id != bitshuffle::ID || self.big_endian {
            return None;
        }
        let bitshuffle = Bitshuffle::new(&only.values, self.dtype.size()).ok()?;
        (bitshuffle.element_size == self.dtype.size()).then_some(bitshuffle)
    }

    /// Returns whether a chunk is stored as uncompressed pixels in native byte order.
    pub(crate) fn is_native(&self, filter_mask: u32) -> bool {
        self.applied_filters(filter_mask).next().is_none() && self.is_native_endian()
    }

    fn is_native_endian(&self) -> bool {
        self.dtype.size() == 1 || self.big_endian == cfg!(target_endian = "big")
    }

    /// Iterates over the filters that were applied to a chunk: all but those that its filter mask
    /// skips.
    fn applied_filters(&self, filter_mask: u32) -> impl Iterator<Item = &FilterStep> {
        let skipped = move |i: usize| i < 32 && filter_mask >> i & 1 == 1;
        self.steps.iter().enumerate().filter(move |(i, _)| !skipped(*i)).map(|(_, step)| step)
    }

    /// Decodes a chunk into native-endian pixels, which must fill `out` exactly. Bit `i` of
    /// `filter_mask` is set if filter `i` was skipped when the chunk was written.
    ///
    /// # Errors
    /// A chunk that is truncated, corrupt, or of another length.
    pub fn decode(
        &self,
        filter_mask: u32,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), DecodeError> {
        self.decode_with_slack(filter_mask, stored, out, out.len())
    }

    /// Decodes a chunk into the first `len` bytes of `out`, as [`Pipeline::decode`] does. The bytes
    /// after them may be overwritten, which saves some codecs a copy.
    pub(crate) fn decode_with_slack(
        &self,
        filter_mask: u32,
        stored: &[u8],
        out: &mut [u8],
        len: usize,
    ) -> Result<(), DecodeError> {
        let steps: Vec<&dyn FilterDecoder> =
            self.applied_filters(filter_mask).map(|step| &*step.decoder).collect();
        let mut data = Cow::Borrowed(stored);
        for (i, step) in steps.iter().enumerate().skip(1).rev() {
            // The input of the filters still to undo may be longer than the pixels: compressors can
            // add a little.
            let limit = len + len / 8 + 4096;
            data = match steps[..i].iter().all(|step| step.preserves_length()) {
                true => step.decode_to_length(data, len)?,
                false => step.decode_up_to(data, limit)?,
            };
        }
        match steps.first() {
            Some(step) => step.decode_into(&data, out, len)?,
            None if data.len() == len => out[..len].copy_from_slice(&data),
            None => {
                return Err(DecodeError::Length {
                    filter: "raw",
                    found: data.len(),
                    expected: len,
                });
            }
        }
        if !self.is_native_endian() {
            out[..len].chunks_exact_mut(self.dtype.size()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}
