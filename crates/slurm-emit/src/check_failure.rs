//! A reason for which jobs would not run: a result of `--check`.

use std::fmt::Display;

/// A reason for which the jobs would not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    /// The flag, script or program that fails.
    pub subject: String,
    /// The problem, with what was expected.
    pub why: String,
}

impl CheckFailure {
    /// Creates the failure of a flag, script or program.
    pub fn new(subject: impl Display, why: impl Display) -> Self {
        Self { subject: subject.to_string(), why: why.to_string() }
    }
}
