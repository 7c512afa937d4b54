//! The checksum of a matrix file, which threads compute in parallel.

use std::io::{self, Write};

use rayon::prelude::*;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_128};

/// Length in bytes of the slices that threads hash in parallel.
const HASH_SLICE_BYTES: usize = 4 << 20;

/// Computes the XXH3-128 of the XXH3-64 of each slice, so that all threads share the work.
pub fn checksum(body: &[u8]) -> String {
    let slices: Vec<[u8; 8]> =
        body.par_chunks(HASH_SLICE_BYTES).map(|slice| xxh3_64(slice).to_le_bytes()).collect();
    checksum_of_slices(&slices)
}

fn checksum_of_slices(slices: &[[u8; 8]]) -> String {
    format!("{:032x}", xxh3_128(slices.as_flattened()))
}

/// Writes to a file and computes the [`checksum`] of the bytes that it was given. If the file system
/// changes bytes, the file fails the check on opening.
pub struct ChecksumWriter<W> {
    out: W,
    bytes: u64,
    slice: Xxh3Default,
    /// The digests of whole slices.
    slices: Vec<[u8; 8]>,
}

impl<W> ChecksumWriter<W> {
    /// Makes the writer to an output.
    pub fn new(out: W) -> Self {
        Self { out, bytes: 0, slice: Xxh3Default::new(), slices: Vec::new() }
    }

    /// Returns the output, the number of bytes written to it, and their checksum.
    pub fn finish(mut self) -> (W, u64, String) {
        if !self.bytes.is_multiple_of(HASH_SLICE_BYTES as u64) {
            self.slices.push(self.slice.digest().to_le_bytes());
        }
        (self.out, self.bytes, checksum_of_slices(&self.slices))
    }
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let in_slice = (self.bytes % HASH_SLICE_BYTES as u64) as usize;
        let len = bytes.len().min(HASH_SLICE_BYTES - in_slice);
        let written = self.out.write(&bytes[..len])?;
        self.slice.update(&bytes[..written]);
        self.bytes += written as u64;
        if written == HASH_SLICE_BYTES - in_slice {
            self.slices.push(self.slice.digest().to_le_bytes());
            self.slice.reset();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_does_not_depend_on_how_the_bytes_were_written() {
        for len in [0, 1, 1000, HASH_SLICE_BYTES, 2 * HASH_SLICE_BYTES, 3 * HASH_SLICE_BYTES + 7] {
            let body: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
            for piece in [len.max(1), HASH_SLICE_BYTES, 1_000_003] {
                let mut out = ChecksumWriter::new(Vec::new());
                body.chunks(piece).for_each(|piece| out.write_all(piece).unwrap());
                let (written, bytes, found) = out.finish();
                assert!(written == body && bytes == len as u64, "{len} {piece}");
                assert_eq!(found, checksum(&body), "{len} {piece}");
            }
        }
    }
}
