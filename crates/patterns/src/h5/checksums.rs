//! Checksums of all bytes of an HDF5 file, appended to it.
//!
//! ```text
//! HDF5 file                             `size` bytes
//! per segment: its end and XXH3-64      u64 and u64; the first segment starts at 0, each other at the end of the previous one.
//!                                       The highest bit of the end is set if the segment holds values
//! "azpipe checks 1\n"                   16 bytes
//! size                                  u64
//! XXH3-64 of the table and size         u64
//! ```
//!
//! All numbers are little-endian. A segment has at most 64 KiB and holds either values of datasets
//! or HDF5 metadata, so that damaged values don't prevent reading the rest. HDF5 readers ignore
//! bytes behind the end of file that the superblock gives.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use frames::ByteKind;
use xxhash_rust::xxh3::xxh3_64;

use super::error::{Hdf5Error, Result};

/// Maximum size of a segment.
pub(super) const MAX_SEGMENT_BYTES: u64 = 1 << 16;

const MAGIC: &[u8; 16] = b"azpipe checks 1\n";
const TRAILER_BYTES: u64 = 32;
const RAW_DATA_FLAG: u64 = 1 << 63;

/// Checksums of a file of `size` bytes.
#[derive(Debug)]
pub(super) struct FileChecksums {
    pub size: u64,
    /// Segments in ascending order, without gaps.
    all: Vec<SegmentChecksum>,
}

#[derive(Clone, Copy, Debug)]
struct SegmentChecksum {
    end: u64,
    bytes: ByteKind,
    digest: u64,
    /// True once the segment was read and its checksum compared.
    is_verified: bool,
}

impl FileChecksums {
    pub fn new(size: u64) -> Self {
        Self { size, all: Vec::new() }
    }

    /// Appends the segment that ends at `end`, with its content.
    pub fn add(&mut self, end: u64, bytes: ByteKind, content: &[u8]) {
        self.all.push(SegmentChecksum { end, bytes, digest: xxh3_64(content), is_verified: true });
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mark = |bytes| if bytes == ByteKind::RawData { RAW_DATA_FLAG } else { 0 };
        let numbers =
            self.all.iter().flat_map(|segment| [segment.end | mark(segment.bytes), segment.digest]);
        let mut bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        let digest = digest_table(&bytes, self.size);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&digest.to_le_bytes());
        bytes
    }

    /// Reads the checksums of an open file of `length` bytes; `None` if the file has none.
    pub fn read(file: &File, length: u64) -> Result<Option<Self>> {
        let mut foot = [0; TRAILER_BYTES as usize];
        let Some(start) = length.checked_sub(TRAILER_BYTES) else { return Ok(None) };
        file.read_exact_at(&mut foot, start).map_err(Hdf5Error::Io)?;
        if &foot[..16] != MAGIC {
            return Ok(None);
        }
        let damaged =
            || Hdf5Error::Damaged("the table of checksums behind its end was changed".to_owned());
        let (numbers, _) = foot[16..].as_chunks::<8>();
        let (size, digest) = (u64::from_le_bytes(numbers[0]), u64::from_le_bytes(numbers[1]));
        // Only a damaged trailer gives a size that memory can't hold.
        let bytes = start.checked_sub(size).filter(|bytes| bytes % 16 == 0).ok_or_else(damaged)?;
        let mut table = Vec::new();
        table.try_reserve_exact(bytes as usize).map_err(|_| damaged())?;
        table.resize(bytes as usize, 0);
        file.read_exact_at(&mut table, size).map_err(Hdf5Error::Io)?;
        if digest_table(&table, size) != digest {
            return Err(damaged());
        }
        let (numbers, _) = table.as_chunks::<8>();
        let all = numbers.chunks(2).map(|pair| {
            let [end, digest] = [pair[0], pair[1]].map(u64::from_le_bytes);
            let bytes =
                if end & RAW_DATA_FLAG != 0 { ByteKind::RawData } else { ByteKind::Metadata };
            SegmentChecksum { end: end & !RAW_DATA_FLAG, bytes, digest, is_verified: false }
        });
        let all: Vec<SegmentChecksum> = all.collect();
        let ends = || std::iter::once(0).chain(all.iter().map(|segment| segment.end));
        let is_sound = ends()
            .zip(ends().skip(1))
            .all(|(from, to)| from < to && to.abs_diff(from) <= MAX_SEGMENT_BYTES);
        if !is_sound || ends().last() != Some(size) {
            return Err(damaged());
        }
        Ok(Some(Self { size, all }))
    }

    /// Verifies the segments that a read overlaps, except those that were verified before. Segments
    /// of values are skipped when metadata is read, because the library reads beyond the end of
    /// metadata whose length it doesn't know.
    pub fn verify(&mut self, file: &File, wanted: ByteKind, at: u64, length: usize) -> Result<()> {
        let end = self.size.min(at.saturating_add(length as u64));
        let mut buffer = Vec::new();
        let first = self.all.partition_point(|segment| segment.end <= at);
        let mut start = first.checked_sub(1).map_or(0, |before| self.all[before].end);
        for segment in &mut self.all[first..] {
            if start >= end {
                break;
            }
            let counts = wanted == ByteKind::RawData || segment.bytes == ByteKind::Metadata;
            if counts && !segment.is_verified {
                buffer.resize(segment.end.saturating_sub(start) as usize, 0);
                file.read_exact_at(&mut buffer, start).map_err(Hdf5Error::Io)?;
                if xxh3_64(&buffer) != segment.digest {
                    return Err(Hdf5Error::Damaged(format!(
                        "bytes {start} to {} were changed after writing",
                        segment.end.saturating_sub(1)
                    )));
                }
                segment.is_verified = true;
            }
            start = segment.end;
        }
        Ok(())
    }

    /// Verifies all segments that were not verified before.
    pub fn verify_all(&mut self, file: &File) -> Result<()> {
        self.verify(file, ByteKind::RawData, 0, self.size as usize)
    }
}

fn digest_table(table: &[u8], size: u64) -> u64 {
    xxh3_64(&[table, &size.to_le_bytes()].concat())
}
