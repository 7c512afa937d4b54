//! Frames that files claim to have, by the names of parts and the head of the final file: quick,
//! and without a look at patterns.

use std::io::ErrorKind;
use std::path::Path;

use records::{Span, Spans, Task};

use super::UnusableFile;
use crate::output::OutputFile;
use crate::part::{self, range_in_name};

/// Frames of a task that files claim to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedFrames {
    /// Frames in parts or in the final file, in ascending order.
    pub all: Spans,
    /// Frames that are settled in a final file of the task's scan and recipe, in ascending order.
    pub in_output: Spans,
    /// Files that can't be used.
    pub unusable: Vec<UnusableFile>,
}

/// Returns the frames that the parts of the task's scan and recipe below `out_root`, and the task's
/// final file, claim to have. Neither patterns nor checksums are read, and raw data is not
/// compared, so that damage and changes are overlooked; frames in a gap of a part count, too.
/// [`super::find_coverage`] knows all of that, and takes its time.
pub fn find_claimed_frames(out_root: &Path, task: &Task) -> ClaimedFrames {
    let mut unusable = Vec::new();
    let in_parts = part::parts_dir(out_root, &task.scan, &task.recipe_digest)
        .map(|directory| frames_of_parts(&directory, &mut unusable))
        .unwrap_or_default();
    let in_output = frames_of_output(out_root, task, &mut unusable).unwrap_or_default();
    ClaimedFrames { all: in_parts.union(&in_output), in_output, unusable }
}

/// Returns the frames that the names of the parts in a directory tell. A part with another kind of
/// name tells them in its user block.
fn frames_of_parts(directory: &Path, unusable: &mut Vec<UnusableFile>) -> Spans {
    let mut spans = Vec::new();
    match part::list_files(directory) {
        Err(why) if why.kind() == ErrorKind::NotFound => (),
        Err(why) => unusable.push(UnusableFile::directory(directory, &why)),
        Ok(paths) => {
            for path in paths {
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                let range = match range_in_name(name) {
                    Some(range) => Some(range),
                    None => match part::read_user_block(&path) {
                        Ok(head) => (head.count > 0).then_some((head.first, head.last)),
                        Err(error) => {
                            if !error.was_removed() {
                                unusable.push(error.into());
                            }
                            None
                        }
                    },
                };
                spans.extend(range.map(|(first, last)| Span::new(first, last.saturating_add(1))));
            }
        }
    }
    spans.into_iter().collect::<Spans>().to_sorted()
}

/// Returns the settled frames of the final file, if it has the task's scan and recipe.
fn frames_of_output(
    out_root: &Path,
    task: &Task,
    unusable: &mut Vec<UnusableFile>,
) -> Option<Spans> {
    if !task.final_file.is_contained() {
        return None;
    }
    let output = match OutputFile::open(&out_root.join(task.final_file.as_path())) {
        Ok(output) => output,
        Err(error) if error.is_not_found() => return None,
        Err(error) => {
            unusable.push(error.into());
            return None;
        }
    };
    if output.task.scan != task.scan || output.task.recipe_digest != task.recipe_digest {
        return None;
    }
    let mut settled = Spans::default();
    for (frame, _) in (0..).zip(&output.status).filter(|(_, status)| status.is_settled()) {
        settled.push(frame);
    }
    Some(settled)
}
