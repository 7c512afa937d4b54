//! The filters of a dataset, in order, and how to undo them.

use std::borrow::Cow;

use super::bitshuffle::Bitshuffle;
use super::error::zeroed;
use super::{DecodeError, deflate, fletcher32, lz4, shuffle, zstd};
use crate::PixelType;

/// How the chunks of a dataset are stored: HDF5's filter pipeline, the pixels' type and byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// As HDF5 lists them, in the order of writing.
    steps: Vec<FilterStep>,
    dtype: PixelType,
    big_endian: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterStep {
    Deflate,
    Shuffle { size: usize },
    Fletcher32,
    Lz4,
    Bitshuffle(Bitshuffle),
    Zstd,
}

impl Pipeline {
    /// A pipeline from HDF5's filter numbers and client values, in the order in which HDF5 lists them.
    pub fn from_hdf5(filters: &[(u32, &[u32])], dtype: PixelType, big_endian: bool) -> Result<Pipeline, DecodeError> {
        let steps = filters.iter().map(|&(id, values)| FilterStep::new(id, values, dtype)).collect::<Result<_, _>>()?;
        Ok(Pipeline { steps, dtype, big_endian })
    }

    /// A pipeline without filters, of pixels as they are in memory.
    pub fn native(dtype: PixelType) -> Pipeline {
        Pipeline { steps: Vec::new(), dtype, big_endian: cfg!(target_endian = "big") }
    }

    /// The pixels' type.
    pub fn dtype(&self) -> PixelType {
        self.dtype
    }

    /// The bitshuffle filter, where it is all that was done to a chunk and its elements are little-endian pixels: then
    /// the bit planes can be summed as they come.
    pub(crate) fn only_bitshuffle(&self, filter_mask: u32) -> Option<Bitshuffle> {
        let mut steps = self.applied_filters(filter_mask);
        match (steps.next(), steps.next()) {
            (Some(FilterStep::Bitshuffle(b)), None) if b.element_size == self.dtype.size() && !self.big_endian => {
                Some(b)
            }
            _ => None,
        }
    }

    /// Whether a chunk stands in the file as native pixels.
    pub(crate) fn is_native(&self, filter_mask: u32) -> bool {
        self.applied_filters(filter_mask).next().is_none() && self.is_native_endian()
    }

    fn is_native_endian(&self) -> bool {
        self.dtype.size() == 1 || self.big_endian == cfg!(target_endian = "big")
    }

    /// The filters that a chunk went through.
    fn applied_filters(&self, filter_mask: u32) -> impl Iterator<Item = FilterStep> {
        let skipped = move |i: usize| i < 32 && filter_mask >> i & 1 == 1;
        self.steps.iter().enumerate().filter(move |(i, _)| !skipped(*i)).map(|(_, step)| *step)
    }

    /// Decodes a chunk into native-endian pixels, which fill `out` exactly. Bit `i` of the filter mask says that
    /// filter `i` was skipped when the chunk was written.
    pub fn decode(&self, filter_mask: u32, stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        self.decode_with_slack(filter_mask, stored, out, out.len())
    }

    /// The same into the first `len` bytes of `out`; what is behind them may be overwritten, which spares some codecs
    /// a copy.
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
            // What another filter still has to undo may be larger than the pixels: compressors add a little.
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

    /// Whether as many bytes come out as go in.
    fn preserves_length(&self) -> bool {
        matches!(self, FilterStep::Shuffle { .. })
    }

    /// The name in messages.
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

    /// Undoes the filter where its result is to be the first `len` bytes of `out`.
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

    /// Undoes the filter where others, which were applied before it, are still to be undone. `length` is that of the
    /// result where it is known; otherwise it may have as much as `outlier_limit` bytes.
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
            // Without a codec bitshuffle keeps the length; with one it is announced, and checked, by the header.
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
