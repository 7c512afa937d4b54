//! Datasets that hold their frames themselves.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use records::{AbsentKind, Source, Spans};

use super::error::FindError;
use super::place::locate;
use super::traced::Traced;
use super::unchanged;
use crate::coding::Coding;
use crate::ffi::{Flaw, Layout, Object, Segment};
use crate::grid::{DAMAGED_INDEX, Grid};
use crate::image::{self, Header};
use crate::stack::three;
use crate::store::NOT_WRITTEN;

/// Adds the frames of a dataset of the file itself, as its chunk index tells of them.
pub(super) fn in_file(
    traced: &mut Traced,
    object: &Object,
    layout: Layout,
    dataset: &str,
    metadata: &Metadata,
) -> Result<(), FindError> {
    let file = traced.files[0].clone();
    let said = |flaw: Flaw| FindError::from_flaw(&file, &flaw);
    let mut all = Spans::all(traced.frames);
    let (rows, bytes) = match layout {
        Layout::Contiguous(None) => (Spans::default(), 0),
        Layout::Chunked(chunk, filters) => {
            traced.coding = Coding::new(object.pixel_type().map_err(said)?, filters).map_err(FindError::Unusable)?;
            traced.chunk = three(&chunk, chunk.len(), 1).to_vec();
            let grid = Grid::read(object, &traced.extents, &chunk).map_err(said)?;
            let damaged: Spans = (0..traced.frames).filter(|&frame| grid.is_damaged(frame)).collect();
            all = all.minus(&damaged);
            traced.lose(&damaged, AbsentKind::Corrupt, DAMAGED_INDEX)?;
            let written: Spans = (0..traced.frames).filter(|&frame| grid.is_written(frame)).collect();
            (written, grid.bytes())
        }
        _ => (all.clone(), traced.frames.saturating_mul(traced.frame_bytes())),
    };
    traced.codec = traced.coding.name();
    traced.lose(&all.minus(&rows), AbsentKind::NotWritten, NOT_WRITTEN)?;
    let source = stamp(&file, metadata);
    traced.add(Source { dataset: dataset.to_owned(), frames: rows.clone(), rows, bytes, ..source })
}

/// Adds the frames of a dataset whose bytes are segments of other files: EDF files, as the first Bliss
/// writers listed them. They are read as the images that they are.
pub(super) fn in_segments(traced: &mut Traced, holder: &Path, segments: &[Segment]) -> Result<(), FindError> {
    let size = traced.frame_bytes();
    let mut by_file: HashMap<PathBuf, Vec<(u64, u64)>> = HashMap::new();
    let mut order = Vec::new();
    let mut frame: u64 = 0;
    for segment in segments {
        let count = match segment.size.checked_rem(size) {
            Some(0) => segment.size.checked_div(size).unwrap_or_default(),
            _ => {
                let why = format!("a segment of {} bytes: expected frames of {size}", segment.size);
                return Err(FindError::Unusable(why));
            }
        };
        let frames = by_file.entry(segment.file.clone()).or_insert_with(|| {
            order.push(segment.file.clone());
            Vec::new()
        });
        let next = frame.saturating_add(count);
        let Some(end) = segment.offset.checked_add(segment.size).filter(|_| next <= traced.frames) else {
            let why = format!("a segment of {} bytes: expected as many as {} frames have", segment.size, traced.frames);
            return Err(FindError::Unusable(why));
        };
        frames.extend((segment.offset..end).step_by(size as usize).zip(frame..next));
        frame = next;
    }
    for name in order {
        let mut frames = by_file.remove(&name).unwrap_or_default();
        frames.sort_unstable();
        let frames: Spans = frames.into_iter().map(|(_, frame)| frame).collect();
        let found = locate(holder, &name).and_then(|file| Ok((image_at(&file)?, file)));
        match found {
            Ok(((image, metadata), file)) => {
                traced.codec = image.format.to_string();
                traced.coding = Coding::native(image.kind).map_err(FindError::Unusable)?;
                let (rows, bytes) = (Spans::all(frames.count()), frames.count().saturating_mul(size));
                traced.files.push(file.clone());
                traced.add(Source { frames, rows, bytes, ..stamp(&file, &metadata) })?;
            }
            Err(why) => traced.lose_by(&frames, &why, &name, &name)?,
        }
    }
    Ok(())
}

/// What an image file says of its images, and what the system says of it.
pub(super) fn image_at(file: &Path) -> Result<(Header, Metadata), FindError> {
    if let Some(known) = unchanged::header(file) {
        return Ok(known);
    }
    let before = file.metadata();
    let header = image::probe(file).map_err(|why| FindError::from_image(file, &why))?;
    let metadata = file.metadata().map_err(|why| FindError::from_io(file, &why))?;
    if let Ok(before) = before {
        unchanged::put_header(file, &before, header);
    }
    Ok((header, metadata))
}

/// A source in this file that holds nothing yet: what the file is known by.
pub(super) fn stamp(file: &Path, metadata: &Metadata) -> Source {
    let mtime = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    Source { file: file.into(), size: metadata.len(), mtime, ..Source::default() }
}
