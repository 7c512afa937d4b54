//! What ai-integrate and gather say of their work.

use serde::{Deserialize, Serialize};

use crate::{Absent, Extra, RawPath, ScanState, Spans, Task};

/// What came of one recipe of a task that was worked on, or found done. `type` is `result`; `id_hasher` is the
/// task's, and a task of several recipes has a result for each. What they have in common (bytes read,
/// seconds) is shared out evenly among those that were worked on, so that results add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// What the task said.
    #[serde(flatten)]
    pub task: Task,
    /// Frames whose patterns are in the part (or, where `skipped`, in earlier parts or the final).
    pub done: Spans,
    /// Frames of the range that have no pattern, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Absent>,
    /// Whether all of it was found done, and nothing was written.
    pub skipped: bool,
    /// The part's checksum: 32 hexadecimal digits of XXH3-128 over the file behind its header block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_digest: Option<String>,
    /// Stored bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were sent to the device, chunks and where their blocks are, this recipe's share of them; 0 without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent_bytes: u64,
    /// Seconds of each stage, summed over the threads.
    pub seconds: Seconds,
    /// `cpu`, or the OpenCL device's name.
    pub device: String,
    /// `cpu` or `opencl`; `opencl+cpu` where the device did not do all frames.
    pub engine: String,
    /// Which way the frames of the task took through the processor's kernels, for people: its instruction set, how many
    /// frames went which way, and of a way that is slower than what the kernels are made for, why it was taken. Absent where the
    /// processor had no frames.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub way: String,
    /// The machine's name.
    pub host: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Seconds of each stage of an integration, summed over the threads; `wall` by the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// Positioned reads.
    pub read: f64,
    /// Decoding and accumulation, which are one pass.
    pub integrate: f64,
    /// Writing, syncing and renaming the part.
    pub write: f64,
    /// From the task's start to its end. The end of one task and the start of the next may overlap.
    pub wall: f64,
}

impl Seconds {
    /// An even share of them.
    pub fn divided_by(self, shares: u64) -> Self {
        let share = |seconds: f64| seconds / shares as f64;
        Self {
            read: share(self.read),
            integrate: share(self.integrate),
            write: share(self.write),
            wall: share(self.wall),
        }
    }
}

/// One scan's final file. `type` is `summary`; `id_hasher` is the digest of scan and recipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Digest of scan and recipe.
    pub id: String,
    /// The scan's id.
    pub scan: String,
    /// The master file of the scan.
    pub file: RawPath,
    /// The entry in it.
    pub entry: String,
    /// The detector.
    pub detector: String,
    /// The resolved recipe's digest.
    pub recipe_digest: String,
    /// The final file, absolute.
    #[serde(rename = "final")]
    pub final_file: RawPath,
    /// How many frames the scan has.
    pub frames: u64,
    /// How many of them have a pattern.
    pub integrated: u64,
    /// Frames without a pattern, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Absent>,
    /// Whether every frame that the scan has, or while it runs is to have, has a pattern.
    pub complete: bool,
    /// Whether every frame that was there to be integrated has a pattern: frames whose data is missing or was never
    /// taken do not count against it; running the pipe again would add nothing.
    #[serde(default)]
    pub up_to_date: bool,
    /// How far the scan itself got.
    #[serde(default)]
    pub scan_state: ScanState,
    /// Digest of the final's data: equal for equal patterns, however the work was cut.
    pub data_digest: String,
    /// Seconds of each stage, summed over the parts.
    pub seconds: Seconds,
    /// Fields of others.
    #[serde(flatten)]
    pub extra: Extra,
}
