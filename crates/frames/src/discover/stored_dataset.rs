//! Adds the frames of chunked, contiguous and external datasets to a frame map.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use records::{AbsentKind, Source, Spans};

use super::error::DiscoverError;
use super::frame_map::FrameMap;
use super::linked_file::find_linked_file;
use super::unchanged;
use crate::chunk_grid::{ChunkGrid, DAMAGED_INDEX};
use crate::coding::PixelCoding;
use crate::ffi::{ExternalSegment, Hdf5Object, LibraryError, StorageLayout};
use crate::frame_shape::to_three_dimensions;
use crate::image::{self, ImageHeader};
use crate::source::NOT_WRITTEN;

/// Adds the frames that the dataset stores in its own file, according to its chunk index.
pub(super) fn add_dataset(
    traced: &mut FrameMap,
    object: &Hdf5Object,
    layout: StorageLayout,
    dataset: &str,
    metadata: &Metadata,
) -> Result<(), DiscoverError> {
    let file = traced.files[0].clone();
    let said = |flaw: LibraryError| DiscoverError::from_library(&file, &flaw);
    let mut all = Spans::first_n(traced.frames);
    let (rows, bytes) = match layout {
        StorageLayout::Contiguous(None) => (Spans::default(), 0),
        StorageLayout::Chunked(chunk, filters) => {
            traced.coding =
                PixelCoding::new(object.element_type().map_err(said)?, filters).map_err(DiscoverError::Unusable)?;
            traced.chunk = to_three_dimensions(&chunk, chunk.len(), 1).to_vec();
            let grid = ChunkGrid::read(object, &traced.extents, &chunk).map_err(said)?;
            let damaged: Spans = (0..traced.frames).filter(|&frame| grid.is_damaged(frame)).collect();
            all = all.difference(&damaged);
            traced.add_absent(&damaged, AbsentKind::Corrupt, DAMAGED_INDEX)?;
            let written: Spans = (0..traced.frames).filter(|&frame| grid.is_written(frame)).collect();
            (written, grid.bytes())
        }
        _ => (all.clone(), traced.frames.saturating_mul(traced.frame_bytes())),
    };
    traced.codec = traced.coding.name();
    traced.add_absent(&all.difference(&rows), AbsentKind::NotWritten, NOT_WRITTEN)?;
    let source = source_of_file(&file, metadata);
    traced.add_source(Source { dataset: dataset.to_owned(), frames: rows.clone(), rows, bytes, ..source })
}

/// Adds the frames of an external dataset, whose bytes are segments of other files. Early Bliss writers listed
/// EDF files this way; they are read as EDF images.
pub(super) fn add_external_segments(
    traced: &mut FrameMap,
    holder: &Path,
    segments: &[ExternalSegment],
) -> Result<(), DiscoverError> {
    let size = traced.frame_bytes();
    let mut by_file: HashMap<PathBuf, Vec<(u64, u64)>> = HashMap::new();
    let mut order = Vec::new();
    let mut frame: u64 = 0;
    for segment in segments {
        let count = match segment.size.checked_rem(size) {
            Some(0) => segment.size.checked_div(size).unwrap_or_default(),
            _ => {
                let why = format!("a segment of {} bytes: expected frames of {size}", segment.size);
                return Err(DiscoverError::Unusable(why));
            }
        };
        let frames = by_file.entry(segment.file.clone()).or_insert_with(|| {
            order.push(segment.file.clone());
            Vec::new()
        });
        let next = frame.saturating_add(count);
        let Some(end) = segment.offset.checked_add(segment.size).filter(|_| next <= traced.frames) else {
            let why = format!("a segment of {} bytes: expected as many as {} frames have", segment.size, traced.frames);
            return Err(DiscoverError::Unusable(why));
        };
        frames.extend((segment.offset..end).step_by(size as usize).zip(frame..next));
        frame = next;
    }
    for name in order {
        let mut frames = by_file.remove(&name).unwrap_or_default();
        frames.sort_unstable();
        let frames: Spans = frames.into_iter().map(|(_, frame)| frame).collect();
        let found = find_linked_file(holder, &name).and_then(|file| Ok((probe_image(&file)?, file)));
        match found {
            Ok(((image, metadata), file)) => {
                traced.codec = image.format.to_string();
                traced.coding = PixelCoding::native_dtype(image.kind).map_err(DiscoverError::Unusable)?;
                let (rows, bytes) = (Spans::first_n(frames.count()), frames.count().saturating_mul(size));
                traced.files.push(file.clone());
                traced.add_source(Source { frames, rows, bytes, ..source_of_file(&file, &metadata) })?;
            }
            Err(why) => traced.add_absent_for_error(&frames, &why, &name, &name)?,
        }
    }
    Ok(())
}

/// Reads the header of an image file, and the file's metadata.
pub(super) fn probe_image(file: &Path) -> Result<(ImageHeader, Metadata), DiscoverError> {
    if let Some(known) = unchanged::header(file) {
        return Ok(known);
    }
    let before = file.metadata();
    let header = image::probe(file).map_err(|why| DiscoverError::from_image(file, &why))?;
    let metadata = file.metadata().map_err(|why| DiscoverError::from_io(file, &why))?;
    if let Ok(before) = before {
        unchanged::put_header(file, &before, header);
    }
    Ok((header, metadata))
}

/// Returns a source without frames for this file: its path, size and time of last change.
pub(super) fn source_of_file(file: &Path, metadata: &Metadata) -> Source {
    let mtime = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    Source { file: file.into(), size: metadata.len(), mtime, ..Source::default() }
}
