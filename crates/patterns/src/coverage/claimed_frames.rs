//! Frames that files claim to have, by the names of parts and the head of the final file: quick,
//! and without a look at patterns.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use records::{Span, Spans, Task};

use super::UnusableFile;
use crate::Status;
use crate::output::{OutputFile, OutputLayout};
use crate::part::{self, Part, range_in_name};
use crate::source_fingerprint::frames_in_same_files;

/// Frames of a task that files claim to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedFrames {
    /// Frames that are done, in ascending order: in parts, or settled in the final file.
    pub done: Spans,
    /// Frames of a final file of the task's scan and recipe, by their status.
    pub in_output: BTreeMap<Status, Spans>,
    /// Files that can't be used.
    pub unusable: Vec<UnusableFile>,
}

impl ClaimedFrames {
    /// Returns the frames of the final file that a rerun would skip.
    pub fn settled_in_output(&self) -> Spans {
        let settled = self.in_output.iter().filter(|(status, _)| status.is_settled());
        Spans::union_all(&settled.map(|(_, frames)| frames.clone()).collect::<Vec<_>>())
    }
}

/// Returns the frames that the parts of the task's scan and recipe below `out_root`, and the task's
/// final file, claim to have. The task has the sources of all frames. Neither patterns nor checksums
/// are read, and the raw files are not looked at, so that damage is overlooked; frames in a gap of a
/// part count, too. [`super::find_coverage`] knows all of that, and takes its time.
///
/// With `needs_sparse`, patterns count only with their sparse pixels, and each part is opened to see
/// whether it has them.
pub fn find_claimed_frames(out_root: &Path, task: &Task, needs_sparse: bool) -> ClaimedFrames {
    let mut unusable = Vec::new();
    let (mut in_output, is_virtual) = frames_of_output(out_root, task, needs_sparse, &mut unusable);
    let without_pattern: Vec<Spans> = in_output
        .iter()
        .filter(|(status, _)| **status != Status::Ok)
        .map(|(_, frames)| frames.clone())
        .collect();
    let in_parts = part::parts_dir(out_root, &task.scan, &task.recipe_digest)
        .map(|directory| {
            let doubtful = Spans::union_all(&without_pattern);
            frames_of_parts(&directory, &doubtful, needs_sparse, &mut unusable)
        })
        .unwrap_or_default();
    // The patterns of a virtual final file are in its parts.
    if is_virtual && let Some(frames) = in_output.get_mut(&Status::Ok) {
        *frames = frames.intersection(&in_parts.all);
    }
    let mut claimed = ClaimedFrames { done: Spans::default(), in_output, unusable };
    // A part may be newer than the final file.
    for frames in claimed.in_output.values_mut() {
        *frames = frames.difference(&in_parts.with_patterns);
    }
    claimed.in_output.retain(|_, frames| !frames.is_empty());
    let without_pattern = claimed.in_output.iter().filter(|(status, _)| **status != Status::Ok);
    let without_pattern: Vec<Spans> = without_pattern.map(|(_, frames)| frames.clone()).collect();
    let in_parts = in_parts.all.difference(&Spans::union_all(&without_pattern));
    claimed.done = in_parts.union(&claimed.settled_in_output());
    claimed
}

/// Frames of the parts in a directory.
#[derive(Debug, Default)]
struct FramesOfParts {
    /// Frames that the names of the parts tell.
    all: Spans,
    /// Frames that have no pattern according to the final file, and that parts have patterns of.
    with_patterns: Spans,
}

/// Returns the frames that the names of the parts in a directory tell. A part with another kind of
/// name tells them in its user block. Of parts with frames in `doubtful`, the user block tells
/// whether each frame has a pattern. With `needs_sparse`, the parts themselves tell.
fn frames_of_parts(
    directory: &Path,
    doubtful: &Spans,
    needs_sparse: bool,
    unusable: &mut Vec<UnusableFile>,
) -> FramesOfParts {
    let paths = match part::list_files(directory) {
        Ok(paths) => paths,
        Err(why) if why.kind() == ErrorKind::NotFound => Vec::new(),
        Err(why) => {
            unusable.push(UnusableFile::directory(directory, &why));
            Vec::new()
        }
    };
    let (mut all, mut with_patterns) = (Vec::new(), Vec::new());
    for path in paths {
        if needs_sparse {
            match part::read_part(&path) {
                Ok(part) => {
                    let (done, ok) = frames_with_pixels(&part);
                    all.extend(done.as_slice());
                    with_patterns.extend(ok.intersection(doubtful).as_slice());
                }
                Err(error) if error.was_removed() => (),
                Err(error) => unusable.push(error.into()),
            }
            continue;
        }
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let of_name = range_in_name(name).map(|(first, last)| span_of(first, last));
        let is_doubtful =
            |span: Span| !spans_between(doubtful, span.start(), span.stop()).is_empty();
        if let Some(span) = of_name.filter(|span| !is_doubtful(*span)) {
            all.push(span);
            continue;
        }
        let head = match part::read_user_block(&path) {
            Ok(head) => head,
            Err(error) => {
                if !error.was_removed() {
                    unusable.push(error.into());
                }
                continue;
            }
        };
        if head.count > 0 {
            let span = span_of(head.first, head.last);
            all.push(span);
            if head.has_all_patterns() {
                let near = spans_between(doubtful, span.start(), span.stop());
                with_patterns.extend(near.intersection(&span.into()).as_slice());
            }
        }
    }
    let sorted = |spans: Vec<Span>| spans.into_iter().collect::<Spans>().to_sorted();
    FramesOfParts { all: sorted(all), with_patterns: sorted(with_patterns) }
}

/// Returns the frames of a part that a rerun with `--sparse` would skip, and those among them that
/// have a pattern.
fn frames_with_pixels(part: &Part) -> (Spans, Spans) {
    let rows = part.frames.iter().zip(&part.status).enumerate();
    let has_pixels = |row| part.sparse.as_ref().is_some_and(|sparse| sparse.is_settled(row));
    let (mut done, mut with_pattern) = (Spans::default(), Spans::default());
    for (row, (&frame, &status)) in rows {
        if status == Status::Ok && has_pixels(row) {
            with_pattern.push(frame);
        }
        if status.is_settled() && (status != Status::Ok || has_pixels(row)) {
            done.push(frame);
        }
    }
    (done, with_pattern)
}

/// Returns the spans of an ascending list that have frames from `first` to `end`, without the end, or
/// frames beside them. The spans of a scan may be as many as its tasks, so that no task should go
/// through all of them.
pub fn spans_between(spans: &Spans, first: u64, end: u64) -> Spans {
    let spans = spans.as_slice();
    let near = &spans[spans.partition_point(|span| span.stop() <= first)..];
    near.iter().take_while(|span| span.start() < end).copied().collect()
}

fn span_of(first: u64, last: u64) -> Span {
    Span::new(first, last.saturating_add(1))
}

/// Returns the frames of the final file by their status, if it has the task's scan and recipe.
/// Frames whose raw file has changed since, according to the task, are left out. With `needs_sparse`,
/// frames that lack their sparse pixels are still to be integrated. Returns whether the file is virtual,
/// too.
fn frames_of_output(
    out_root: &Path,
    task: &Task,
    needs_sparse: bool,
    unusable: &mut Vec<UnusableFile>,
) -> (BTreeMap<Status, Spans>, bool) {
    let mut by_status: BTreeMap<Status, Spans> = BTreeMap::new();
    if !task.final_file.is_contained() {
        return (by_status, false);
    }
    let output = match OutputFile::open(&out_root.join(task.final_file.as_path())) {
        Ok(output) => output,
        Err(error) if error.is_not_found() => return (by_status, false),
        Err(error) => {
            unusable.push(error.into());
            return (by_status, false);
        }
    };
    if output.task.scan != task.scan || output.task.recipe_digest != task.recipe_digest {
        return (by_status, false);
    }
    for (frame, status) in (0..).zip(&output.status) {
        let has_pixels =
            output.sparse.as_ref().is_some_and(|sparse| sparse.is_settled(frame as usize));
        let status = match status {
            Status::Ok if needs_sparse && !has_pixels => Status::NotIntegrated,
            status => *status,
        };
        by_status.entry(status).or_default().push(frame);
    }
    let (now, then) = (&task.acquisition, &output.task.acquisition);
    let in_sources: Vec<Spans> = now.sources.iter().map(|source| source.frames.clone()).collect();
    let changed = Spans::union_all(&in_sources).difference(&frames_in_same_files(now, then));
    for frames in by_status.values_mut() {
        *frames = frames.difference(&changed);
    }
    by_status.retain(|_, frames| !frames.is_empty());
    (by_status, output.layout == OutputLayout::Virtual)
}
