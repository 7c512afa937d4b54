//! Datasets that hold their frames themselves.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use records::{Source, Spans};

use super::catalog::FILE_MISSING;
use super::place::locate;
use super::traced::Traced;
use crate::coding::Coding;
use crate::ffi::{Flaw, Layout, Object, Segment};
use crate::grid::{DAMAGED_INDEX, Grid};
use crate::image;
use crate::stack::three;
use crate::store::NOT_WRITTEN;

/// Adds the frames of a dataset of the file itself, as its chunk index tells of them.
pub(super) fn in_file(
    traced: &mut Traced,
    object: &Object,
    layout: Layout,
    dataset: &str,
    metadata: &Metadata,
) -> Result<(), String> {
    let said = |flaw: Flaw| flaw.why;
    let mut all = Spans::all(traced.frames);
    let (rows, bytes) = match layout {
        Layout::Contiguous(None) => (Spans::default(), 0),
        Layout::Chunked(chunk, filters) => {
            traced.coding = Coding::new(object.pixel_type().map_err(said)?, filters)?;
            traced.chunk = three(&chunk, chunk.len(), 1).to_vec();
            let grid = Grid::read(object, &traced.extents, &chunk).map_err(said)?;
            let damaged: Spans = (0..traced.frames).filter(|&frame| grid.is_damaged(frame)).collect();
            all = all.minus(&damaged);
            traced.lose(&damaged, DAMAGED_INDEX)?;
            let written: Spans = (0..traced.frames).filter(|&frame| grid.is_written(frame)).collect();
            (written, grid.bytes())
        }
        _ => (all.clone(), traced.frames * traced.frame_bytes()),
    };
    traced.codec = traced.coding.name();
    traced.lose(&all.minus(&rows), NOT_WRITTEN)?;
    let source = stamp(&traced.files[0], metadata);
    traced.add(Source { dataset: dataset.to_owned(), frames: rows.clone(), rows, bytes, ..source })
}

/// Adds the frames of a dataset whose bytes are segments of other files: EDF files, as the first Bliss
/// writers listed them. They are read as the images that they are.
pub(super) fn in_segments(traced: &mut Traced, holder: &Path, segments: &[Segment]) -> Result<(), String> {
    let size = traced.frame_bytes();
    let mut by_file: HashMap<PathBuf, Vec<(u64, u64)>> = HashMap::new();
    let mut order = Vec::new();
    let mut frame = 0;
    for segment in segments {
        if size == 0 || segment.size % size != 0 {
            return Err(format!("a segment of {} bytes: expected frames of {size}", segment.size));
        }
        let frames = by_file.entry(segment.file.clone()).or_insert_with(|| {
            order.push(segment.file.clone());
            Vec::new()
        });
        for nth in 0..segment.size / size {
            frames.push((segment.offset + nth * size, frame));
            frame += 1;
        }
    }
    for name in order {
        let mut frames = by_file.remove(&name).unwrap_or_default();
        frames.sort_unstable();
        let frames: Spans = frames.into_iter().map(|(_, frame)| frame).collect();
        let Some(file) = locate(holder, &name) else {
            traced.lose(&frames, &format!("{FILE_MISSING}: {}", name.display()))?;
            continue;
        };
        let image = image::probe(&file).map_err(|why| why.to_string())?;
        traced.codec = image.format.to_string();
        traced.coding = Coding::native(image.kind)?;
        let metadata = file.metadata().map_err(|why| format!("{}: {why}", file.display()))?;
        let (rows, bytes) = (Spans::all(frames.count()), frames.count() * size);
        traced.files.push(file.clone());
        traced.add(Source { frames, rows, bytes, ..stamp(&file, &metadata) })?;
    }
    Ok(())
}

/// A source in this file that holds nothing yet: what the file is known by.
pub(super) fn stamp(file: &Path, metadata: &Metadata) -> Source {
    let mtime = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    Source { file: file.into(), size: metadata.len(), mtime, ..Source::default() }
}
