//! Why a chunk could not be decoded, and where in it.

/// A stream that can't be decoded. Offsets are in bytes from the start of what the named filter was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DecodeError {
    #[error("HDF5 filter {id} ({name}): not supported")]
    Unsupported { id: u32, name: &'static str },
    #[error("HDF5 filter {id}: client values {values:?}: expected {expected}")]
    ClientValues { id: u32, values: Vec<u32>, expected: &'static str },
    #[error("{filter}: header at byte {offset}: {fault}")]
    Header { filter: &'static str, offset: usize, fault: StreamFault },
    #[error("{filter}: block {block} at byte {offset}: {fault}")]
    Block { filter: &'static str, block: usize, offset: usize, fault: StreamFault },
    #[error("{filter}: {message}")]
    Library { filter: &'static str, message: String },
    #[error("fletcher32: checksum {stored:08x} stored, {computed:08x} computed")]
    Checksum { stored: u32, computed: u32 },
    /// Of the machine, and not of the stream.
    #[error("{0}")]
    Memory(String),
    #[error("{filter}: {found} bytes: expected {expected}")]
    Length { filter: &'static str, found: usize, expected: usize },
}

/// As many bytes, for what a filter leaves to another one: a chunk may have gigabytes.
pub(super) fn zeroed(len: usize) -> Result<Vec<u8>, DecodeError> {
    filter::memory::zeroed(len).map_err(|why| DecodeError::Memory(why.to_string()))
}

/// What is wrong at a place of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum StreamFault {
    #[error("{needed} bytes needed, {left} left")]
    Truncated { needed: usize, left: usize },
    #[error("{found} bytes announced, expected {expected}")]
    Announced { found: u64, expected: usize },
    #[error("block size {0}: expected a multiple of 8 elements, not 0")]
    BlockSize(u64),
    #[error("not {expected} bytes of valid {codec} data")]
    Corrupt { codec: &'static str, expected: usize },
}

/// A reader of a stream's framing, which never reads past its end.
pub(crate) struct ByteCursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> ByteCursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> ByteCursor<'a> {
        ByteCursor { bytes, offset: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// The next bytes, fewer than asked for at the end.
    pub(crate) fn peek(&self, len: usize) -> &'a [u8] {
        let rest = &self.bytes[self.offset..];
        &rest[..len.min(rest.len())]
    }

    pub(crate) fn take(&mut self, needed: usize) -> Result<&'a [u8], StreamFault> {
        let rest = &self.bytes[self.offset..];
        let taken = rest.get(..needed).ok_or(StreamFault::Truncated { needed, left: rest.len() })?;
        self.offset += needed;
        Ok(taken)
    }

    pub(crate) fn take_array<const N: usize>(&mut self) -> Result<[u8; N], StreamFault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A big-endian 32-bit length.
    pub(crate) fn take_u32(&mut self) -> Result<u32, StreamFault> {
        self.take_array().map(u32::from_be_bytes)
    }

    /// A big-endian 64-bit length.
    pub(crate) fn take_u64(&mut self) -> Result<u64, StreamFault> {
        self.take_array().map(u64::from_be_bytes)
    }
}
