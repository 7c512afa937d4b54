//! What tells scans apart that say nothing else of themselves: the bytes of their first frame.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _};
use std::path::PathBuf;

use frames::store::{Row, Store, StoreError};
use records::{Acquisition, Digest, Source};

/// How much of an image file is looked at.
const MOST: u64 = 1 << 20;

/// The digests of first frames.
#[derive(Default)]
pub struct Contents(HashMap<Key, String>);

/// File, dataset, size and time of last change.
type Key = (PathBuf, String, u64, i64);

/// Why a first frame can't be read.
#[derive(Debug)]
pub struct Unreadable {
    /// In one line.
    pub why: String,
}

impl Contents {
    /// Has the files of first frames opened side by side that [`Contents::digest`] will be asked for next, in this order.
    pub fn prefetch<'s>(&self, scans: impl Iterator<Item = &'s Acquisition>) {
        let nameless = scans.filter(|scan| scan.start_time.is_none());
        let unknown = nameless.filter_map(first_source).filter(|source| !self.0.contains_key(&key(source)));
        let files: Vec<PathBuf> = unknown.map(|source| source.file.to_path_buf()).collect();
        frames::prefetch_to_read(&files);
    }

    /// Returns a digest of the first frame's stored bytes, and of what it is: its dataset, shape and type. As frames are
    /// added, or the file is moved, it stays the same.
    ///
    /// # Errors
    /// The frame can't be read, which is not that there is none.
    pub fn digest(&mut self, scan: &Acquisition) -> Result<String, Unreadable> {
        let Some(source) = first_source(scan) else { return Ok(of_bytes(scan, &[])) };
        let key = key(source);
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let bytes = match source.dataset.is_empty() {
            true => first_bytes(source),
            false => first_frame(source, scan.shape),
        };
        let digest = of_bytes(scan, &bytes.map_err(|why| Unreadable { why })?);
        self.0.insert(key, digest.clone());
        Ok(digest)
    }
}

fn first_source(scan: &Acquisition) -> Option<&Source> {
    scan.sources.iter().min_by_key(|source| source.frames.iter().next())
}

fn key(source: &Source) -> Key {
    (source.file.to_path_buf(), source.dataset.clone(), source.size, source.mtime)
}

fn of_bytes(scan: &Acquisition, bytes: &[u8]) -> String {
    let shape = format!("{:?} {}", scan.shape, scan.dtype);
    Digest::new("content").text(&scan.dataset).text(&shape).bytes(bytes).short()
}

fn first_bytes(source: &Source) -> Result<Vec<u8>, String> {
    let wrong = |why: std::io::Error| format!("{}: {why}", source.file.display());
    let mut bytes = Vec::new();
    let mut file = frames::open(&source.file).map_err(wrong)?;
    file.rewind().and_then(|()| file.take(MOST).read_to_end(&mut bytes)).map_err(wrong)?;
    Ok(bytes)
}

/// The stored bytes of the first frame that has been written, one behind the other.
fn first_frame(source: &Source, shape: [u64; 2]) -> Result<Vec<u8>, String> {
    let store = Store::open(source, shape).map_err(|why: StoreError| why.to_string())?;
    let chunks = source.rows.iter().find_map(|row| match store.chunks_of(row) {
        Row::Whole(chunk) => Some(vec![chunk]),
        Row::Pieces(chunks) => Some(chunks),
        _ => None,
    });
    let mut all = Vec::new();
    for chunk in chunks.unwrap_or_default() {
        let mut bytes = Vec::new();
        store.read(&chunk, &mut bytes).map_err(|why| format!("{}: {why}", source.file.display()))?;
        all.extend(bytes);
    }
    Ok(all)
}
