//! Digests of first frames, which distinguish scans that have no start time.

use std::collections::HashMap;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;

use frames::image::{self, ImageError};
use frames::source::{FrameChunks, SourceError, SourceReader};
use records::{Acquisition, IdHasher, Source, Spans};

/// The largest number of bytes of an image file that are hashed.
const MAX_DIGEST_BYTES: u64 = 1 << 20;

/// The digests of first frames computed so far.
#[derive(Default)]
pub struct FirstFrameDigests(HashMap<Key, String>);

/// Everything that a digest depends on: the file that holds the frame, with its size and modification
/// time, and what the scan says of the frame. Scans may share a file, such as a master and the data
/// file that was found before it.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    file: PathBuf,
    size: u64,
    mtime: i64,
    stored_dataset: String,
    rows: Spans,
    dataset: String,
    /// The shape and type of the frame.
    layout: String,
}

/// Explains why a first frame can't be read.
#[derive(Debug, thiserror::Error)]
pub enum FirstFrameError {
    /// The file, its dataset or the place of the frame in it can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The end of the first image in its file can't be found.
    #[error(transparent)]
    Image(#[from] ImageError),
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
        let unknown = nameless.filter_map(first_frame_key).filter(|key| !self.0.contains_key(key));
        let files: Vec<PathBuf> = unknown.map(|key| key.file).collect();
        frames::prefetch_to_read(&files);
    }

    /// Returns a digest of the first frame's stored bytes, dataset, shape and type. The digest
    /// stays the same as frames are added and when the file is moved.
    ///
    /// # Errors
    /// Fails if the frame can't be read, and not if there is no frame.
    pub fn digest(&mut self, scan: &Acquisition) -> Result<String, FirstFrameError> {
        let Some(source) = first_source(scan) else { return Ok(digest_of(scan, &[])) };
        let key = key(scan, source);
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

fn first_frame_key(scan: &Acquisition) -> Option<Key> {
    first_source(scan).map(|source| key(scan, source))
}

fn key(scan: &Acquisition, source: &Source) -> Key {
    Key {
        file: source.file.to_path_buf(),
        size: source.size,
        mtime: source.mtime,
        stored_dataset: source.dataset.clone(),
        rows: source.rows.clone(),
        dataset: scan.dataset.clone(),
        layout: frame_layout(scan),
    }
}

fn frame_layout(scan: &Acquisition) -> String {
    format!("{:?} {}", scan.shape, scan.dtype)
}

fn digest_of(scan: &Acquisition, bytes: &[u8]) -> String {
    IdHasher::new("content")
        .add_text(&scan.dataset)
        .add_text(&frame_layout(scan))
        .add_bytes(bytes)
        .to_short_hex()
}

/// Reads the bytes of an image file up to the end of its first image, or of all of a file with one image,
/// but not more than [`MAX_DIGEST_BYTES`].
fn read_first_bytes(source: &Source) -> Result<Vec<u8>, FirstFrameError> {
    let wrong = |why| FirstFrameError::Bytes { file: source.file.to_path_buf(), why };
    let mut bytes = Vec::new();
    let mut file = frames::open(&source.file).map_err(wrong)?;
    let end = image::first_image_end(&source.file, &file)?.unwrap_or(MAX_DIGEST_BYTES);
    file.rewind()
        .and_then(|()| file.take(end.min(MAX_DIGEST_BYTES)).read_to_end(&mut bytes))
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
