//! Raw LZ4 blocks.
//!
//! A block is a row of sequences: a token, whose high half is a number of literals and whose low half is the length of
//! a match less 4 (15 of either goes on in bytes, up to one below 255), the literals, and the match's distance back
//! (16 bits, little-endian). The last sequence ends with its literals. A distance below the length makes a period.
//!
//! The planes of detector frames make blocks of their own kind: kilobytes of zeros as one match with distance 1, and a
//! few hundred short sequences from the lowest planes. [`decompress`] is `lz4_flex`, sound on anything and the oracle;
//! [`decoder`] is made for such blocks.

#[cfg(target_arch = "x86_64")]
pub(crate) mod decoder;
#[cfg(target_arch = "x86_64")]
pub(crate) mod register;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

/// Bytes behind a block's place that decoders may overwrite.
pub(crate) const SLACK: usize = 128;

/// Decodes a block that must fill `out`; whether it is sound and does.
pub(crate) fn decompress(block: &[u8], out: &mut [u8]) -> bool {
    lz4_flex::block::decompress_into(block, out).is_ok_and(|written| written == out.len())
}

/// What a decoder says of a block that it decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodedBlock {
    /// All bytes of the room from here on are zero.
    pub(crate) zero_from: usize,
    /// From here on the block is one period again and again, of which only the first is written.
    pub(crate) repeats_from: Option<usize>,
}

impl DecodedBlock {
    /// A block that is written whole, in a room that is zero from there on.
    pub(crate) fn fully_written(zero_from: usize) -> DecodedBlock {
        DecodedBlock { zero_from, repeats_from: None }
    }
}

/// A place for decoded blocks, with slack behind it, that knows where it is zero.
#[derive(Default)]
pub(crate) struct BlockBuffer {
    bytes: Vec<u8>,
    /// All bytes from here on are zero.
    zero_from: usize,
}

impl BlockBuffer {
    /// Decodes a block of `len` bytes to the front of the room by `codec`, which gets the room, at least
    /// [`SLACK`] longer, and from where on it is zero, and says what is so afterwards, or `None` for a block that is
    /// not sound.
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

    /// Writes the `period` bytes at `from` again and again behind themselves, up to `until`.
    pub(crate) fn repeat_period(&mut self, from: usize, period: usize, until: usize) {
        for start in (from + period..until).step_by(period) {
            self.bytes.copy_within(from..from + period, start);
        }
        self.zero_from = self.zero_from.max(until);
    }

    /// The bytes, slack and all.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The first `len` bytes, to clear bits in; none may be set beyond those that may be set already.
    pub(crate) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[..len]
    }
}

/// Decodes a block to the front of a room, portably. As [`BlockBuffer::decode_with`].
pub(crate) fn decompress_into_buffer(block: &[u8], room: &mut BlockBuffer, len: usize) -> Option<DecodedBlock> {
    room.decode_with(len, |out, dirty| {
        decompress(block, &mut out[..len]).then_some(DecodedBlock::fully_written(dirty.max(len)))
    })
}
