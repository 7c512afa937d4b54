//! Raw LZ4 blocks.
//!
//! A block is a list of sequences: a token, whose high half is a number of literals and whose low
//! half is the length of a match less 4 (15 in either half is continued by extra bytes, the last of
//! which is below 255), the literals, and the match's distance back (16 bits, little-endian). The
//! last sequence ends after its literals. A match whose distance is below its length repeats a
//! period.
//!
//! The bit planes of detector frames compress to blocks with kilobytes of zeros as one match of
//! distance 1, and a few hundred short sequences from the lowest planes. [`decoder`] is optimized
//! for such blocks. [`decompress`] calls `lz4_flex`, which is portable and the reference in tests.

#[cfg(target_arch = "x86_64")]
pub(crate) mod decoder;
#[cfg(target_arch = "x86_64")]
pub(crate) mod register;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

/// How many bytes after a block's end decoders may overwrite.
pub(crate) const SLACK: usize = 128;

/// Decodes a block into `out`; returns whether it is valid and fills `out` exactly.
pub(crate) fn decompress(block: &[u8], out: &mut [u8]) -> bool {
    lz4_flex::block::decompress_into(block, out).is_ok_and(|written| written == out.len())
}

/// The contents of the buffer as a decoder knows them after decoding a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodedBlock {
    /// All bytes of the buffer from this index on are zero.
    pub(crate) zero_from: usize,
    /// If set, the block repeats one period from this index to its end, and only the first period
    /// is written.
    pub(crate) repeats_from: Option<usize>,
}

impl DecodedBlock {
    /// Describes a block that is written whole, in a buffer that is zero from `zero_from` on.
    pub(crate) fn fully_written(zero_from: usize) -> DecodedBlock {
        DecodedBlock { zero_from, repeats_from: None }
    }
}

/// A reusable buffer for decoded blocks with [`SLACK`] at its end. It knows from where on it is
/// zero, so that decoders need not write zeros again.
#[derive(Default)]
pub(crate) struct BlockBuffer {
    bytes: Vec<u8>,
    /// All bytes from this index on are zero.
    zero_from: usize,
}

impl BlockBuffer {
    /// Calls `decode` to decode a block of `len` bytes to the front of the buffer; returns its
    /// result, `None` for an invalid block. `decode` gets the buffer, which is at least `len` +
    /// [`SLACK`] long, and the index from which on the buffer is zero.
    pub(crate) fn decode_with(
        &mut self,
        len: usize,
        decode: impl FnOnce(&mut [u8], usize) -> Option<DecodedBlock>,
    ) -> Option<DecodedBlock> {
        if self.bytes.len() < len + SLACK {
            self.bytes.resize(len + SLACK, 0);
        }
        let decoded = decode(&mut self.bytes, self.zero_from);
        if decoded.is_none() {
            self.bytes.fill(0);
        }
        self.zero_from = decoded.map_or(0, |decoded| decoded.zero_from);
        decoded
    }

    /// Repeats the `period` bytes at `from` up to `until`.
    pub(crate) fn repeat_period(&mut self, from: usize, period: usize, until: usize) {
        for start in (from + period..until).step_by(period) {
            self.bytes.copy_within(from..from + period, start);
        }
        self.zero_from = self.zero_from.max(until);
    }

    /// Returns all bytes, including the slack.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the first `len` bytes, for clearing bits in them. Setting bits would break the
    /// promise of `zero_from`.
    pub(crate) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[..len]
    }
}

/// Decodes a block of `len` bytes to the front of the buffer with [`decompress`]; returns `None`
/// for an invalid block.
pub(crate) fn decompress_into_buffer(
    block: &[u8],
    buffer: &mut BlockBuffer,
    len: usize,
) -> Option<DecodedBlock> {
    buffer.decode_with(len, |out, dirty| {
        decompress(block, &mut out[..len]).then_some(DecodedBlock::fully_written(dirty.max(len)))
    })
}
