//! [`Pipeline`], the HDF5 filters of a dataset, which it undoes in reverse order.

use std::borrow::Cow;

use super::bitshuffle::Bitshuffle;
use super::error::zeroed;
use super::{DecodeError, deflate, fletcher32, lz4, shuffle, zstd};
use crate::PixelType;

/// Describes how the chunks of a dataset are stored: HDF5's filter pipeline, the pixels' type and byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The filters in the order in which HDF5 lists them, which is the order of writing.
    steps: Vec<FilterStep>,
    dtype: PixelType,
    big_endian: bool,
}

/// One filter with the parameters that decoding needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterStep {
    Deflate,
    /// `size` is in bytes per element.
    Shuffle {
        size: usize,
    },
    Fletcher32,
    Lz4,
    Bitshuffle(Bitshuffle),
    Zstd,
}

impl Pipeline {
    /// Makes a pipeline from HDF5's filter numbers and client values, in the order in which HDF5 lists them.
    ///
    /// # Errors
    /// A filter that is not supported, or client values that the filter does not have.
    pub fn from_hdf5(filters: &[(u32, &[u32])], dtype: PixelType, big_endian: bool) -> Result<Pipeline, DecodeError> {
        let steps = filters.iter().map(|&(id, values)| FilterStep::new(id, values, dtype)).collect::<Result<_, _>>()?;
        Ok(Pipeline { steps, dtype, big_endian })
    }

    /// Returns the pipeline of uncompressed pixels in native byte order.
    pub fn native(dtype: PixelType) -> Pipeline {
        Pipeline { steps: Vec::new(), dtype, big_endian: cfg!(target_endian = "big") }
    }

    /// Returns the type of the decoded pixels.
    pub fn dtype(&self) -> PixelType {
        self.dtype
    }

    /// Returns the bitshuffle filter if no other filter was applied to the chunk and its elements are little-endian
    /// pixels. Pixels can then be read from the bit planes block by block.
    pub(crate) fn only_bitshuffle(&self, filter_mask: u32) -> Option<Bitshuffle> {
        let mut steps = self.applied_filters(filter_mask);
        match (steps.next(), steps.next()) {
            (Some(FilterStep::Bitshuffle(b)), None) if b.element_size == self.dtype.size() && !self.big_endian => {
                Some(b)
            }
            _ => None,
        }
    }

    /// Returns whether a chunk is stored as uncompressed pixels in native byte order.
    pub(crate) fn is_native(&self, filter_mask: u32) -> bool {
        self.applied_filters(filter_mask).next().is_none() && self.is_native_endian()
    }

    fn is_native_endian(&self) -> bool {
        self.dtype.size() == 1 || self.big_endian == cfg!(target_endian = "big")
    }

    /// Iterates over the filters that were applied to a chunk: all but those that its filter mask skips.
    fn applied_filters(&self, filter_mask: u32) -> impl Iterator<Item = FilterStep> {
        let skipped = move |i: usize| i < 32 && filter_mask >> i & 1 == 1;
        self.steps.iter().enumerate().filter(move |(i, _)| !skipped(*i)).map(|(_, step)| *step)
    }

    /// Decodes a chunk into native-endian pixels, which must fill `out` exactly. Bit `i` of `filter_mask` is set if
    /// filter `i` was skipped when the chunk was written.
    ///
    /// # Errors
    /// A chunk that is truncated, corrupt, or of another length.
    pub fn decode(&self, filter_mask: u32, stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        self.decode_with_slack(filter_mask, stored, out, out.len())
    }

    /// Decodes a chunk into the first `len` bytes of `out`, as [`Pipeline::decode`] does. The bytes after them may be
    /// overwritten, which saves some codecs a copy.
    pub(crate) fn decode_with_slack(
        &self,
        filter_mask: u32,
        stored: &[u8],
        out: &mut [u8],
        len: usize,
    ) -> Result<(), DecodeError> {
        let steps: Vec<FilterStep> = self.applied_filters(filter_mask).collect();
        let mut data = Cow::Borrowed(stored);
        for (i, step) in steps.iter().enumerate().skip(1).rev() {
            // The input of the filters still to undo may be longer than the pixels: compressors can add a little.
            let limit = len + len / 8 + 4096;
            data = step.decode(data, steps[..i].iter().all(FilterStep::preserves_length).then_some(len), limit)?;
        }
        match steps.first() {
            Some(step) => step.decode_into(&data, out, len)?,
            None if data.len() == len => out[..len].copy_from_slice(&data),
            None => return Err(DecodeError::Length { filter: "raw", found: data.len(), expected: len }),
        }
        if !self.is_native_endian() {
            out[..len].chunks_exact_mut(self.dtype.size()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

impl FilterStep {
    fn new(id: u32, values: &[u32], dtype: PixelType) -> Result<FilterStep, DecodeError> {
        let first = values.first().map_or(0, |&v| v as usize);
        let name = match id {
            1 => return Ok(FilterStep::Deflate),
            2 => return Ok(FilterStep::Shuffle { size: if first == 0 { dtype.size() } else { first } }),
            3 => return Ok(FilterStep::Fletcher32),
            32004 => return Ok(FilterStep::Lz4),
            32008 => return Bitshuffle::new(id, values, dtype.size()).map(FilterStep::Bitshuffle),
            32015 => return Ok(FilterStep::Zstd),
            4 => "szip",
            5 => "nbit",
            6 => "scale-offset",
            32000 => "LZF",
            32001 => "blosc",
            32026 => "blosc2",
            32013 => "zfp",
            32017 => "sz",
            32024 => "sz3",
            _ => "unknown",
        };
        Err(DecodeError::Unsupported { id, name })
    }

    /// Returns whether the filter's output is always as long as its input.
    fn preserves_length(&self) -> bool {
        matches!(self, FilterStep::Shuffle { .. })
    }

    /// Returns the name that error messages use.
    fn name(&self) -> &'static str {
        match self {
            FilterStep::Deflate => "deflate",
            FilterStep::Shuffle { .. } => "shuffle",
            FilterStep::Fletcher32 => "fletcher32",
            FilterStep::Lz4 => "lz4",
            FilterStep::Bitshuffle(_) => "bitshuffle",
            FilterStep::Zstd => "zstd",
        }
    }

    /// Undoes the filter. Its output must be `len` bytes, the first of `out`.
    fn decode_into(&self, data: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
        if let FilterStep::Lz4 = self {
            return lz4::decode(data, out, len);
        }
        let out = &mut out[..len];
        match self {
            FilterStep::Deflate => return deflate::decode(data, out),
            FilterStep::Bitshuffle(bitshuffle) => return bitshuffle.decode(data, out),
            FilterStep::Zstd => return zstd::decode(data, out),
            FilterStep::Shuffle { .. } | FilterStep::Fletcher32 | FilterStep::Lz4 => {}
        }
        let data = if *self == FilterStep::Fletcher32 { fletcher32::verify(data)? } else { data };
        if data.len() != out.len() {
            return Err(DecodeError::Length { filter: self.name(), found: data.len(), expected: out.len() });
        }
        match self {
            FilterStep::Shuffle { size } => shuffle::decode(data, *size, out),
            _ => out.copy_from_slice(data),
        }
        Ok(())
    }

    /// Undoes the filter and returns its output, the input of the next filter to undo. `length` is the output's length
    /// if it is known; otherwise the output may have up to `limit` bytes.
    fn decode<'a>(
        &self,
        data: Cow<'a, [u8]>,
        length: Option<usize>,
        limit: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        if let FilterStep::Fletcher32 = self {
            let kept = fletcher32::verify(&data)?.len();
            return Ok(match data {
                Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..kept]),
                Cow::Owned(mut bytes) => {
                    bytes.truncate(kept);
                    Cow::Owned(bytes)
                }
            });
        }
        let length = match self {
            FilterStep::Shuffle { .. } => Some(data.len()),
            // Without a codec bitshuffle keeps the length; with one the header has the length, and decoding checks it.
            FilterStep::Bitshuffle(bitshuffle) => {
                Some(length.unwrap_or_else(|| bitshuffle.decoded_length(&data).min(limit)))
            }
            _ => length,
        };
        if let Some(length) = length {
            let mut out = zeroed(length)?;
            self.decode_into(&data, &mut out, length)?;
            return Ok(Cow::Owned(out));
        }
        match self {
            FilterStep::Deflate => deflate::decode_up_to(&data, limit),
            FilterStep::Zstd => zstd::decode_up_to(&data, limit),
            _ => lz4::decode_up_to(&data, limit),
        }
        .map(Cow::Owned)
    }
}
