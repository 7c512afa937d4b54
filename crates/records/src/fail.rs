//! Fail records: the failure of one input.

use serde::{Deserialize, Serialize};

use crate::Extra;

/// A fail record: one input that could not be processed. Its `type` is `fail`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fail {
    /// The id of the record that failed; empty if there was no readable record.
    pub id: String,
    /// The filter that reports the failure.
    pub stage: String,
    /// The path, or the line that could not be read.
    pub about: String,
    /// The reason in one line.
    pub error: String,
    /// True if the same work may succeed later or on another machine.
    pub retryable: bool,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}
