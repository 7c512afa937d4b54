//! What plan-split asks for: a frame range of one scan, integrated by one recipe.

use serde::{Deserialize, Serialize};

use crate::{Acquisition, Digest, RawPath, Spans};

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
    /// The identity of a task.
    pub fn identity(scan: &str, recipe_digest: &str, range: &Spans) -> String {
        let range = serde_json::to_string(range).expect("numbers always serialize");
        Digest::new("task").text(scan).text(recipe_digest).text(&range).short()
    }
}
