//! The error of a task, and the length of messages.

use patterns::MonitorError;

/// The largest number of frame ranges that a message lists.
pub const MAX_RANGES_IN_MESSAGE: usize = 8;

/// The reason why a task can't be integrated.
#[derive(Clone, Debug)]
pub struct TaskError {
    /// The reason in one line.
    pub why: String,
    /// True if another attempt may succeed.
    pub retryable: bool,
}

impl TaskError {
    /// Returns the error for a geometry of the recipe that is invalid.
    pub fn geometry(why: impl std::fmt::Display) -> Self {
        Self { why: format!("geometry: {why}"), retryable: false }
    }
}

impl From<MonitorError> for TaskError {
    fn from(MonitorError { why, retryable }: MonitorError) -> Self {
        Self { why, retryable }
    }
}
