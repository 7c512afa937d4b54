//! The error of a task.

/// The reason why a task can't be integrated.
#[derive(Clone, Debug)]
pub struct TaskError {
    /// The reason in one line.
    pub why: String,
    /// True if another attempt may succeed.
    pub retryable: bool,
}
