//! [`RecordingStorage`]: the bytes of an HDF5 file that is written. Errors are kept, and digests of
//! all that was written are compared with the file before it counts as written.
//!
//! The library never learns of an error, because it forgets some errors and crashes after others.
//! After the first error nothing more is written, and the library reads the file's metadata from
//! memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use frames::{ByteKind, SharedStorage, Storage};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::checksums::{self, FileChecksums};
use super::error::{ErrorLatch, Hdf5Error};

/// Size of a page of [`PagedBytes`].
const PAGE_BYTES: u64 = 4096;

/// A file that is open for writing, and the content that it should have.
pub(super) struct RecordingStorage {
    file: File,
    size: u64,
    /// Bytes of HDF5 metadata that were written.
    structure: PagedBytes,
    /// Values that were written: for each start, the end and XXH3-64 of the bytes. The ranges do
    /// not overlap.
    values: BTreeMap<u64, (u64, u64)>,
    health: ErrorLatch,
}

impl RecordingStorage {
    pub fn new(file: File, health: ErrorLatch) -> Self {
        Self { file, size: 0, structure: PagedBytes::default(), values: BTreeMap::new(), health }
    }

    /// Performs a system call on the file and records its error. Does nothing after an earlier
    /// error.
    fn try_write(&mut self, act: impl FnOnce(&File) -> io::Result<()>) {
        if !self.health.has_failed()
            && let Err(why) = act(&self.file)
        {
            self.health.record(Hdf5Error::Io(why));
        }
    }

    /// Removes the digests of the values between `from` and `to`.
    fn forget(&mut self, from: u64, to: u64) {
        let before = self
            .values
            .range(..from)
            .next_back()
            .filter(|(_, (end, _))| *end > from)
            .map(|(start, _)| *start);
        let touched: Vec<u64> = before
            .into_iter()
            .chain(self.values.range(from..to).map(|(start, _)| *start))
            .collect();
        for start in touched {
            let Some((end, digest)) = self.values.remove(&start) else { continue };
            if (from <= start && end <= to) || self.health.has_failed() {
                continue;
            }
            // Only some of the bytes are overwritten. The digests of the others are computed from
            // the file, if it is still right.
            let mut bytes = vec![0; end.saturating_sub(start) as usize];
            match self.file.read_exact_at(&mut bytes, start) {
                Err(why) => self.health.record(Hdf5Error::Io(why)),
                Ok(()) if xxh3_64(&bytes) != digest => {
                    self.health.record(mismatch_error(start, end))
                }
                Ok(()) => {
                    let (before, behind) = (from.clamp(start, end), to.clamp(start, end));
                    for (start, end, bytes) in [
                        (start, before, &bytes[..before.saturating_sub(start) as usize]),
                        (behind, end, &bytes[behind.saturating_sub(start) as usize..]),
                    ] {
                        if start < end {
                            self.values.insert(start, (end, xxh3_64(bytes)));
                        }
                    }
                }
            }
        }
    }

    /// Reads the file back and compares it with all that was written. The digest in the result
    /// covers the bytes behind `skip`.
    pub fn verify_written(self, skip: u64) -> Result<VerifiedFile, Hdf5Error> {
        let Self { file, size, structure, values, .. } = self;
        let found = file.metadata().map_err(Hdf5Error::Io)?.len();
        if found != size {
            return Err(Hdf5Error::Damaged(format!("{found} bytes long; expected {size}")));
        }
        let (mut whole, mut segments) = (Xxh3::new(), FileChecksums::new(size));
        let ends = segment_ends(size, &values);
        let mut values = values.into_iter().peekable();
        let mut of_value = Xxh3::new();
        let mut buffer = vec![0; checksums::MAX_SEGMENT_BYTES as usize];
        let mut at = 0;
        for (end, kind) in ends {
            // Segments and values are both in ascending order. The values in this loop start before
            // `end` and end behind `at`.
            let bytes = &mut buffer[..end.saturating_sub(at) as usize];
            file.read_exact_at(bytes, at).map_err(Hdf5Error::Io)?;
            while let Some(&(start, (stop, digest))) = values.peek()
                && start < end
            {
                let (from, to) = (start.saturating_sub(at), stop.min(end).saturating_sub(at));
                of_value.update(&bytes[from as usize..to as usize]);
                if stop > end {
                    break;
                }
                values.next();
                if std::mem::replace(&mut of_value, Xxh3::new()).digest() != digest {
                    return Err(mismatch_error(start, stop));
                }
            }
            if let Some(place) = structure.first_mismatch(at, bytes) {
                return Err(mismatch_error(place, place.saturating_add(1)));
            }
            whole.update(&bytes[(skip.saturating_sub(at) as usize).min(bytes.len())..]);
            segments.add(end, kind, bytes);
            at = end;
        }
        if values.next().is_some() {
            return Err(Hdf5Error::Damaged("values were written behind its end".to_owned()));
        }
        Ok(VerifiedFile { file, size, digest: format!("{:032x}", whole.digest128()), segments })
    }
}

/// Returns the ends of the segments. Each segment holds values that were written together, or
/// metadata between values.
fn segment_ends(size: u64, values: &BTreeMap<u64, (u64, u64)>) -> Vec<(u64, ByteKind)> {
    let runs = values
        .iter()
        .flat_map(|(&start, &(end, _))| [(start, ByteKind::Metadata), (end, ByteKind::RawData)]);
    let mut ends = Vec::new();
    let mut at: u64 = 0;
    for (end, kind) in runs.chain([(size, ByteKind::Metadata)]) {
        while at < end.min(size) {
            at = end.min(size).min(at.saturating_add(checksums::MAX_SEGMENT_BYTES));
            ends.push((at, kind));
        }
    }
    ends
}

fn mismatch_error(from: u64, to: u64) -> Hdf5Error {
    Hdf5Error::Damaged(format!(
        "bytes {from} to {} read back differently from what was written",
        to.saturating_sub(1)
    ))
}

impl Storage for RecordingStorage {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&mut self, bytes: ByteKind, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        if bytes == ByteKind::Metadata && self.structure.read(at, buffer) {
            return Ok(());
        }
        let there = self.size.saturating_sub(at).min(buffer.len() as u64) as usize;
        self.try_write(|file| file.read_exact_at(&mut buffer[..there], at));
        if bytes == ByteKind::Metadata {
            self.structure.read(at, buffer);
        }
        Ok(())
    }

    fn write(&mut self, bytes: ByteKind, at: u64, buffer: &[u8]) -> io::Result<()> {
        // The library limits addresses to signed 64-bit numbers, so this does not saturate.
        let end = at.saturating_add(buffer.len() as u64);
        self.forget(at, end);
        self.size = self.size.max(end);
        match bytes {
            ByteKind::Metadata => self.structure.write(at, buffer),
            ByteKind::RawData => {
                self.structure.forget(at, end);
                self.values.insert(at, (end, xxh3_64(buffer)));
            }
        }
        self.try_write(|file| file.write_all_at(buffer, at));
        Ok(())
    }

    fn set_size(&mut self, size: u64) -> io::Result<()> {
        if size < self.size {
            self.forget(size, u64::MAX);
            self.structure.forget(size, self.size);
        }
        self.size = size;
        self.try_write(|file| file.set_len(size));
        Ok(())
    }

    fn open_other(&mut self, _: &Path) -> io::Result<SharedStorage> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file that was read back and found right. It is not synced to disk yet.
pub(crate) struct VerifiedFile {
    file: File,
    size: u64,
    /// XXH3-128 of the bytes after the user block, in 32 hexadecimal digits.
    pub digest: String,
    segments: FileChecksums,
}

impl VerifiedFile {
    /// Writes the user block at the start of the file.
    pub fn write_user_block(&self, bytes: &[u8]) -> Result<(), Hdf5Error> {
        self.file.write_all_at(bytes, 0).map_err(Hdf5Error::Io)
    }

    /// Appends the checksums of all bytes, with which readers verify them before use.
    pub fn append_checksums(&self) -> Result<(), Hdf5Error> {
        self.file.write_all_at(&self.segments.to_bytes(), self.size).map_err(Hdf5Error::Io)
    }

    /// Syncs the file to disk. The kernel reports delayed write errors here, and only to this file
    /// handle.
    pub fn sync(self) -> Result<(), Hdf5Error> {
        self.file.sync_all().map_err(Hdf5Error::Io)
    }
}

/// Bytes that were written, by page.
#[derive(Default)]
struct PagedBytes {
    pages: BTreeMap<u64, Page>,
}

/// Bytes of a page, and for each of them whether it was written.
struct Page {
    bytes: Box<[u8; PAGE_BYTES as usize]>,
    known: Box<[bool; PAGE_BYTES as usize]>,
}

impl PagedBytes {
    fn write(&mut self, at: u64, buffer: &[u8]) {
        for_each_page(at, buffer.len(), |page, within, of_buffer| {
            let page = self.pages.entry(page).or_insert_with(|| Page {
                bytes: Box::new([0; PAGE_BYTES as usize]),
                known: Box::new([false; PAGE_BYTES as usize]),
            });
            page.bytes[within.clone()].copy_from_slice(&buffer[of_buffer]);
            page.known[within].fill(true);
        });
    }

    /// Copies the known bytes into `buffer`, and returns whether all of them are known.
    fn read(&self, at: u64, buffer: &mut [u8]) -> bool {
        let mut is_all = true;
        for_each_page(at, buffer.len(), |page, within, of_buffer| match self.pages.get(&page) {
            None => is_all = false,
            Some(page) => {
                for (byte, place) in buffer[of_buffer].iter_mut().zip(within) {
                    if page.known[place] {
                        *byte = page.bytes[place];
                    } else {
                        is_all = false;
                    }
                }
            }
        });
        is_all
    }

    fn forget(&mut self, from: u64, to: u64) {
        for (number, page) in self.pages.range_mut(from / PAGE_BYTES..to.div_ceil(PAGE_BYTES)) {
            let start = number.saturating_mul(PAGE_BYTES);
            let within = from.saturating_sub(start) as usize
                ..to.saturating_sub(start).min(PAGE_BYTES) as usize;
            page.known[within].fill(false);
        }
    }

    /// Returns the first position at which `bytes`, which were read from position `at`, differ from
    /// what was written.
    fn first_mismatch(&self, at: u64, bytes: &[u8]) -> Option<u64> {
        let mut place = None;
        let end = at.saturating_add(bytes.len() as u64);
        for (number, page) in self.pages.range(at / PAGE_BYTES..end.div_ceil(PAGE_BYTES)) {
            let start = number.saturating_mul(PAGE_BYTES);
            let within = at.max(start)..end.min(start.saturating_add(PAGE_BYTES));
            let in_page = |place: u64| place.saturating_sub(start) as usize;
            let known = in_page(within.start)..in_page(within.end);
            let expected = page.known[known.clone()].iter().zip(&page.bytes[known]);
            let found = &bytes[within.start.saturating_sub(at) as usize..];
            let mut places = within.zip(expected.zip(found));
            let wrong =
                places.find(|(_, ((is_known, expected), found))| **is_known && expected != found);
            let wrong = wrong.map(|(place, _)| place);
            place = place.or(wrong);
        }
        place
    }
}

/// Calls `act` for each page that overlaps a range, with the page number, the range within the
/// page, and the range within the buffer.
fn for_each_page(
    at: u64,
    length: usize,
    mut act: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
) {
    let (mut done, mut from) = (0_usize, at);
    while done < length {
        let start = (from % PAGE_BYTES) as usize;
        let end = start.saturating_add(length.saturating_sub(done)).min(PAGE_BYTES as usize);
        let next = done.saturating_add(end.saturating_sub(start));
        act(from / PAGE_BYTES, start..end, done..next);
        (done, from) = (next, at.saturating_add(next as u64));
    }
}
