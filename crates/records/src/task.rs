//! What plan-split asks for: a frame range of one scan, integrated by one recipe.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::wire::check_id;
use crate::{Acquisition, Digest, RawPath, Span, Spans};

/// A frame range of one scan to integrate. `type` is `task`. It says all that its scan record
/// says, with the sources of its range alone, so that the line can be run anywhere by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Digest of scan, recipe and frame range.
    pub id: String,
    /// The scan's id.
    pub scan: String,
    /// The scan's frames to integrate, rising.
    pub range: Spans,
    /// The resolved recipe's file, absolute.
    pub recipe: RawPath,
    /// The resolved recipe's digest.
    pub recipe_digest: String,
    /// The output root, absolute.
    pub out: RawPath,
    /// The part's path below `out`.
    pub part: RawPath,
    /// The final's path below `out`.
    #[serde(rename = "final")]
    pub final_file: RawPath,
    /// The cost: stored bytes of the range.
    pub bytes: u64,
    /// The scan's own fields, with the sources of `range` alone.
    #[serde(flatten)]
    pub acquisition: Acquisition,
}

impl Task {
    pub(crate) fn check(&self) -> Result<(), String> {
        check_id("scan", &self.scan)?;
        check_id("recipe_digest", &self.recipe_digest)?;
        self.acquisition.check()
    }

    /// The identity of a task.
    pub fn identity(scan: &str, recipe_digest: &str, range: &Spans) -> String {
        let range = serde_json::to_string(range).expect("numbers always serialize");
        Digest::new("task").text(scan).text(recipe_digest).text(&range).short()
    }

    /// Where the part with the frames of `range` lies below the output root: all parts of a scan and
    /// a recipe in one directory, each named by its frames, so that equal work meets in one file.
    pub fn part_path(scan: &str, recipe_digest: &str, range: &Spans) -> RawPath {
        let recipe: String = recipe_digest.chars().take(16).collect();
        let range = range.sorted();
        let spans = range.as_slice();
        let (first, end) = (spans.first().map_or(0, Span::first), spans.last().map_or(1, Span::end));
        let name = if range.count() == end - first {
            format!("{first:08}-{:08}.h5", end - 1)
        } else {
            // One frame after the other, for the same frames may stand in other spans.
            let frames: Spans = range.iter().collect();
            let wire = serde_json::to_string(&frames).expect("numbers always serialize");
            format!("{first:08}-{}.h5", Digest::new("range").text(&wire).short())
        };
        PathBuf::from(".azpipe/parts").join(scan).join(recipe).join(name).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_by_their_frames() {
        let part = |spans: Spans| Task::part_path("5c", "0123456789abcdef99", &spans).to_str().unwrap().to_owned();
        assert_eq!(part(Span::new(500, 1000).into()), ".azpipe/parts/5c/0123456789abcdef/00000500-00000999.h5");
        let interleaved = part(Span::strided(0, 4, 2).into());
        assert!(interleaved.starts_with(".azpipe/parts/5c/0123456789abcdef/00000000-"));
        assert_ne!(interleaved, part(Span::strided(0, 5, 2).into()));
    }

    #[test]
    fn equal_frames_have_one_name_however_they_are_told() {
        let part = |json| Task::part_path("5c", "00", &serde_json::from_str(json).unwrap());
        assert_eq!(part("[[3,5],[0,3]]"), part("[[0,5]]"));
        assert_eq!(part("[[0,9,2],[1,10,2]]"), part("[[0,10]]"));
        assert_eq!(part("[[0,1],[2,3],[4,5]]"), part("[[0,5,2]]"));
        assert_eq!(part("[]"), part("[[7,7]]"));
    }
}
