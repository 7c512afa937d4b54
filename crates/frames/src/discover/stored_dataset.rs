//! Adds the frames of chunked, contiguous and external datasets to a frame map.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use records::{AbsentKind, Source, Spans};
use system::untrusted_file::FileVersion;

use super::error::DiscoverError;
use super::file_content_cache;
use super::frame_map::FrameMap;
use super::linked_file::find_linked_file;
use super::unusable::UnusableError;
use crate::chunk::NOT_WRITTEN;
use crate::chunk_grid::{ChunkGrid, DAMAGED_INDEX};
use crate::coding::PixelCoding;
use crate::ffi::{ExternalSegment, Hdf5Object, LibraryError, StorageLayout};
use crate::frame_shape::to_three_dimensions;
use crate::image::{self, ImageHeader};

/// Adds the frames that the dataset stores in its own file, according to its chunk index.
pub(super) fn add_dataset(
    frame_map: &mut FrameMap,
    object: &Hdf5Object,
    layout: StorageLayout,
    dataset: &str,
    metadata: &Metadata,
) -> Result<(), DiscoverError> {
    let file = frame_map.files[0].clone();
    let to_error = |err: LibraryError| DiscoverError::from_library(&file, &err);
    let mut all = Spans::first_n(frame_map.frames);
    let (rows, bytes) = match layout {
        StorageLayout::Contiguous(None) => (Spans::default(), 0),
        StorageLayout::Chunked(chunk, filters) => {
            frame_map.coding = PixelCoding::new(object.element_type().map_err(to_error)?, filters)?;
            frame_map.chunk = to_three_dimensions(&chunk, chunk.len(), 1).to_vec();
            let grid = ChunkGrid::read(object, &frame_map.extents, &chunk).map_err(to_error)?;
            let damaged: Spans =
                (0..frame_map.frames).filter(|&frame| grid.is_damaged(frame)).collect();
            all = all.difference(&damaged);
            frame_map.add_absent(&damaged, AbsentKind::Corrupt, DAMAGED_INDEX)?;
            let written: Spans =
                (0..frame_map.frames).filter(|&frame| grid.is_written(frame)).collect();
            (written, grid.bytes())
        }
        _ => (all.clone(), frame_map.frames.saturating_mul(frame_map.frame_bytes())),
    };
    frame_map.codec = frame_map.coding.name();
    frame_map.add_absent(&all.difference(&rows), AbsentKind::NotWritten, NOT_WRITTEN)?;
    let source = source_of_file(&file, metadata);
    frame_map.add_source(Source {
        dataset: dataset.to_owned(),
        frames: rows.clone(),
        rows,
        bytes,
        ..source
    })
}

/// Adds the frames of an external dataset, whose bytes are segments of other files. Early Bliss
/// writers listed EDF files this way; they are read as EDF images.
pub(super) fn add_external_segments(
    frame_map: &mut FrameMap,
    holder: &Path,
    segments: &[ExternalSegment],
) -> Result<(), DiscoverError> {
    let size = frame_map.frame_bytes();
    let mut by_file: HashMap<PathBuf, Vec<(u64, u64)>> = HashMap::new();
    let mut order = Vec::new();
    let mut frame: u64 = 0;
    for segment in segments {
        let count = match segment.size.checked_rem(size) {
            Some(0) => segment.size.checked_div(size).unwrap_or_default(),
            _ => {
                return Err(
                    UnusableError::SegmentSize { segment: segment.size, frame: size }.into()
                );
            }
        };
        let frames = by_file.entry(segment.file.clone()).or_insert_with(|| {
            order.push(segment.file.clone());
            Vec::new()
        });
        let next = frame.saturating_add(count);
        let Some(end) =
            segment.offset.checked_add(segment.size).filter(|_| next <= frame_map.frames)
        else {
            return Err(UnusableError::SegmentsTooLong(frame_map.frames).into());
        };
        frames.extend((segment.offset..end).step_by(size as usize).zip(frame..next));
        frame = next;
    }
    for name in order {
        let mut frames = by_file.remove(&name).unwrap_or_default();
        frames.sort_unstable();
        let frames: Spans = frames.into_iter().map(|(_, frame)| frame).collect();
        let found =
            find_linked_file(holder, &name).and_then(|file| Ok((probe_image(&file)?, file)));
        match found {
            // Which of them they are is in the places of the segments, which are not read.
            Ok(((image, _), file)) if image.frames as u64 > frames.count() => {
                let (images, used) = (image.frames as u64, frames.count());
                return Err(UnusableError::SomeImages { file, images, used }.into());
            }
            Ok(((image, metadata), file)) => {
                frame_map.codec = image.format.to_owned();
                frame_map.coding = PixelCoding::native_dtype(image.kind)?;
                let (rows, bytes) =
                    (Spans::first_n(frames.count()), frames.count().saturating_mul(size));
                frame_map.files.push(file.clone());
                frame_map.add_source(Source {
                    frames,
                    rows,
                    bytes,
                    ..source_of_file(&file, &metadata)
                })?;
            }
            Err(why) => frame_map.add_absent_for_error(&frames, &why, &name, &name)?,
        }
    }
    Ok(())
}

/// Reads the header of an image file, and the file's metadata.
pub(super) fn probe_image(file: &Path) -> Result<(ImageHeader, Metadata), DiscoverError> {
    if let Some(known) = file_content_cache::header(file) {
        return Ok(known);
    }
    let before = file.metadata();
    let header = image::probe(file).map_err(|why| DiscoverError::from_image(file, &why))?;
    let metadata = file.metadata().map_err(|why| DiscoverError::from_io(file, &why))?;
    if let Ok(before) = before {
        file_content_cache::put_header(file, &before, header);
    }
    Ok((header, metadata))
}

/// Returns a source without frames for this file: its path, size and time of last change.
pub(super) fn source_of_file(file: &Path, metadata: &Metadata) -> Source {
    let (size, mtime) = FileVersion::new(metadata).size_and_mtime();
    Source { file: file.into(), size, mtime, ..Source::default() }
}
