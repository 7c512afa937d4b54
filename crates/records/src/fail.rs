//! What went wrong with one input.

use serde::{Deserialize, Serialize};

use crate::Extra;

/// One input that could not be worked on. `type` is `fail`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fail {
    /// The id of the record that failed; empty where there was none to read.
    pub id: String,
    /// The filter that says so.
    pub stage: String,
    /// A path, or the line that could not be read.
    pub about: String,
    /// Why, in one line.
    pub error: String,
    /// Whether the same work may succeed later or elsewhere.
    pub retryable: bool,
    /// Fields of others.
    #[serde(flatten)]
    pub extra: Extra,
}
