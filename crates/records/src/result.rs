//! Result and summary records, in which ai-integrate and gather report their work.

use serde::{Deserialize, Serialize};

use crate::{Absent, Extra, RawPath, ScanState, Spans, Task};

/// A result record: the outcome of one recipe of a task. Its `type` is `result`, and its `id` is
/// that of the task. A task of several recipes has one result for each. Bytes read and seconds are
/// divided evenly among the recipes that had frames to integrate, so that the results add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The fields of the task record.
    #[serde(flatten)]
    pub task: Task,
    /// Frames whose patterns are in the part, or if `skipped`, in earlier parts or the final.
    pub done: Spans,
    /// Frames of the range that have no pattern, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Absent>,
    /// True if all frames were done before, so that nothing was written.
    pub skipped: bool,
    /// The part's checksum: XXH3-128 of the file after its user block, in 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_digest: Option<String>,
    /// The number of stored bytes read.
    pub read_bytes: u64,
    /// This recipe's share of the bytes sent to the device (chunks, and the offsets of their
    /// blocks); 0 without a device.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent_bytes: u64,
    /// Seconds of each stage, summed over the threads.
    pub seconds: Seconds,
    /// `cpu`, or the OpenCL device's name.
    pub device: String,
    /// `cpu` or `opencl`, or `opencl+cpu` if the device did not integrate all frames.
    pub engine: String,
    /// The decode path of the task's frames, for people: the CPU's instruction set, or `opencl` if
    /// only a device decoded frames; how many frames took which path; and the reason for a slow
    /// path. Absent if no frames were integrated. Older versions called it `way`.
    #[serde(default, alias = "way", skip_serializing_if = "String::is_empty")]
    pub decode_path: String,
    /// The name of the machine.
    pub host: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Seconds of each stage of an integration, summed over the threads; `wall` is wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// Reading chunks.
    pub read: f64,
    /// Decoding and accumulating, which happen in one pass.
    pub integrate: f64,
    /// Writing, syncing and renaming the part.
    pub write: f64,
    /// Wall-clock time from the task's start to its end. The end of a task may overlap the start of
    /// the next.
    pub wall: f64,
}

impl Seconds {
    /// Returns the seconds divided by `shares`.
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

/// A summary record: the final file of one scan. Its `type` is `summary`, and its `id` is a digest
/// of scan and recipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The digest of scan and recipe.
    pub id: String,
    /// The scan's id.
    pub scan: String,
    /// The master file of the scan.
    pub file: RawPath,
    /// The entry in the master file.
    pub entry: String,
    /// The name of the detector in its scan.
    pub detector: String,
    /// The digest of the resolved recipe.
    pub recipe_digest: String,
    /// The final file, absolute. It is not there as long as no frame has a pattern.
    #[serde(rename = "final")]
    pub final_file: RawPath,
    /// The number of frames of the scan.
    pub frames: u64,
    /// The number of frames that have a pattern.
    pub integrated: u64,
    /// Frames without a pattern, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Absent>,
    /// True if every frame of the scan has a pattern, including the frames that a running scan has
    /// yet to take.
    pub complete: bool,
    /// True if every frame that could be integrated has a pattern, so that running the pipe again
    /// would add nothing. Frames whose data is missing or was never taken do not count.
    #[serde(default)]
    pub up_to_date: bool,
    /// The state of the scan.
    #[serde(default)]
    pub scan_state: ScanState,
    /// A digest of the final's data, which is equal for equal patterns, however the work was
    /// divided into tasks.
    pub data_digest: String,
    /// Seconds of each stage, summed over the parts.
    pub seconds: Seconds,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}
