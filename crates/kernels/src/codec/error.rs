//! [`DecodeError`], why a chunk can't be decoded, and [`ByteCursor`], which reads the lengths in a
//! stream.

/// Why a chunk can't be decoded. Offsets are in bytes from the start of the named filter's input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DecodeError {
    #[error(
        "HDF5 filter {id} ({}) is not supported; expected {}: rewrite the file, e.g. with h5repack",
        hdf5_filters::filter_name(*id).unwrap_or("unknown"), super::list_names()
    )]
    Unsupported { id: u32 },
    #[error("HDF5 filter {id}: client values {values:?}; expected {expected}")]
    ClientValues { id: u32, values: Vec<u32>, expected: &'static str },
    #[error("{filter}: header at byte {offset}: {fault}")]
    Header { filter: &'static str, offset: usize, fault: StreamFault },
    #[error("{filter}: block {block} at byte {offset}: {fault}")]
    Block { filter: &'static str, block: usize, offset: usize, fault: StreamFault },
    #[error("{filter}: {message}")]
    Library { filter: &'static str, message: String },
    #[error(
        "fletcher32: the chunk is corrupt: checksum {computed:08x}; expected {stored:08x} as stored"
    )]
    Checksum { stored: u32, computed: u32 },
    /// Memory ran out; the stream itself may be valid.
    #[error("{0}")]
    Memory(String),
    #[error("{filter}: {found} bytes; expected {expected}")]
    Length { filter: &'static str, found: usize, expected: usize },
}

/// Allocates `len` zero bytes, for data between two filters. Fails with [`DecodeError::Memory`]
/// instead of aborting, because a chunk may have gigabytes.
pub(super) fn zeroed(len: usize) -> Result<Vec<u8>, DecodeError> {
    system::memory::zeroed(len).map_err(|error| DecodeError::Memory(error.to_string()))
}

/// Why a header or a block of a stream is invalid; [`DecodeError`] adds the filter and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum StreamFault {
    /// The stream ends before the bytes that its header or the chunk needs.
    #[error("truncated: {needed} bytes needed, {left} left")]
    Truncated { needed: usize, left: usize },
    /// The header declares `found` bytes where the chunk needs `expected`.
    #[error("{found} bytes announced; expected {expected}")]
    DeclaredLength { found: u64, expected: usize },
    /// The block size is zero or no multiple of eight elements.
    #[error("block size of {0} bytes; expected a multiple of 8 elements, not 0")]
    BlockSize(u64),
    /// The compressed data does not decode to the expected number of bytes.
    #[error("corrupt {codec} data; expected {expected} decoded bytes")]
    Corrupt { codec: &'static str, expected: usize },
}

/// Reads bytes and big-endian lengths from a stream, never past its end.
pub(crate) struct ByteCursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> ByteCursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> ByteCursor<'a> {
        ByteCursor { bytes, offset: 0 }
    }

    /// Returns how many bytes were taken so far.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the next `len` bytes without taking them; fewer near the end.
    pub(crate) fn peek(&self, len: usize) -> &'a [u8] {
        let rest = &self.bytes[self.offset..];
        &rest[..len.min(rest.len())]
    }

    /// Takes the next `needed` bytes.
    pub(crate) fn take(&mut self, needed: usize) -> Result<&'a [u8], StreamFault> {
        let rest = &self.bytes[self.offset..];
        let taken =
            rest.get(..needed).ok_or(StreamFault::Truncated { needed, left: rest.len() })?;
        self.offset += needed;
        Ok(taken)
    }

    pub(crate) fn take_array<const N: usize>(&mut self) -> Result<[u8; N], StreamFault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Takes a big-endian 32-bit length.
    pub(crate) fn take_u32(&mut self) -> Result<u32, StreamFault> {
        self.take_array().map(u32::from_be_bytes)
    }

    /// Takes a big-endian 64-bit length.
    pub(crate) fn take_u64(&mut self) -> Result<u64, StreamFault> {
        self.take_array().map(u64::from_be_bytes)
    }
}
