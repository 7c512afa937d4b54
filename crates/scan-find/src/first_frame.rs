//! Digests of first frames, which distinguish scans that have no start time.

use std::collections::HashMap;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;

use frames::source::{FrameChunks, SourceError, SourceReader};
use records::{Acquisition, IdHasher, Source};

/// The largest number of bytes of an image file that are hashed.
const MAX_DIGEST_BYTES: u64 = 1 << 20;

/// The digests of first frames computed so far.
#[derive(Default)]
pub struct FirstFrameDigests(HashMap<Key, String>);

/// The file, its dataset, size and modification time.
type Key = (PathBuf, String, u64, i64);

/// Explains why a first frame can't be read.
#[derive(Debug, thiserror::Error)]
pub enum FirstFrameError {
    /// The file, its dataset or the place of the frame in it can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The stored bytes of the frame can't be read.
    #[error("{}: {why}", file.display())]
    Bytes {
        /// Path of the file.
        file: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
}

impl FirstFrameDigests {
    /// Opens in parallel the files that [`FirstFrameDigests::digest`] needs next, in this order.
    pub fn prefetch<'s>(&self, scans: impl Iterator<Item = &'s Acquisition>) {
        let nameless = scans.filter(|scan| scan.start_time.is_none());
        let unknown =
            nameless.filter_map(first_source).filter(|source| !self.0.contains_key(&key(source)));
        let files: Vec<PathBuf> = unknown.map(|source| source.file.to_path_buf()).collect();
        frames::prefetch_to_read(&files);
    }

    /// Returns a digest of the first frame's stored bytes, dataset, shape and type. The digest
    /// stays the same as frames are added and when the file is moved.
    ///
    /// # Errors
    /// Fails if the frame can't be read, and not if there is no frame.
    pub fn digest(&mut self, scan: &Acquisition) -> Result<String, FirstFrameError> {
        let Some(source) = first_source(scan) else { return Ok(digest_of(scan, &[])) };
        let key = key(source);
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let bytes = match source.dataset.is_empty() {
            true => read_first_bytes(source),
            false => read_first_frame(source, scan.shape),
        };
        let digest = digest_of(scan, &bytes?);
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

fn digest_of(scan: &Acquisition, bytes: &[u8]) -> String {
    let shape = format!("{:?} {}", scan.shape, scan.dtype);
    IdHasher::new("content")
        .add_text(&scan.dataset)
        .add_text(&shape)
        .add_bytes(bytes)
        .to_short_hex()
}

fn read_first_bytes(source: &Source) -> Result<Vec<u8>, FirstFrameError> {
    let wrong = |why| FirstFrameError::Bytes { file: source.file.to_path_buf(), why };
    let mut bytes = Vec::new();
    let mut file = frames::open(&source.file).map_err(wrong)?;
    file.rewind()
        .and_then(|()| file.take(MAX_DIGEST_BYTES).read_to_end(&mut bytes))
        .map_err(wrong)?;
    Ok(bytes)
}

/// Reads the stored bytes of the first frame that has been written, and concatenates its chunks.
fn read_first_frame(source: &Source, shape: [u64; 2]) -> Result<Vec<u8>, FirstFrameError> {
    let wrong = |why| FirstFrameError::Bytes { file: source.file.to_path_buf(), why };
    let store = SourceReader::open(source, shape)?;
    let chunks = source.rows.iter().find_map(|row| match store.frame_chunks(row) {
        FrameChunks::Whole(chunk) => Some(vec![chunk]),
        FrameChunks::Pieces(chunks) => Some(chunks),
        _ => None,
    });
    let mut all = Vec::new();
    for chunk in chunks.unwrap_or_default() {
        let mut bytes = Vec::new();
        store.read_chunk(&chunk, &mut bytes).map_err(wrong)?;
        all.extend(bytes);
    }
    Ok(all)
}
