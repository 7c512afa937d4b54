//! Why a filter stops before its input ends.

use std::fmt::Display;
use std::io;

/// Why a filter stops. Pass it up with `?`; [`run`](crate::run()) makes the exit status of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The reader of stdout has gone: death by SIGPIPE, after clean-up.
    #[error("broken pipe")]
    BrokenPipe,
    /// A signal asked to stop: death by it, after clean-up.
    #[error("stopped by signal {0}")]
    Signal(i32),
    /// The first failed record under `--fail-fast`: status 1. It has been reported.
    #[error("stopped at the first failure")]
    FailFast,
    /// Usage, configuration or I/O: status 2.
    #[error("{what}: {why}")]
    Fatal {
        /// The file, flag or stream.
        what: String,
        /// What is wrong with it, and what was expected.
        why: String,
    },
    /// No operand, and stdin is a terminal: short help, status 2.
    #[error("nothing to read: no file given, and stdin is a terminal")]
    NothingToRead,
    /// Asked to finish early: status 75 where `some` work was done, else 76.
    #[error("drained")]
    Drained {
        /// Whether any work was done.
        worked: bool,
    },
}

impl Stop {
    /// [`Stop::Fatal`] of anything that can be printed.
    pub fn fatal(what: impl Display, why: impl Display) -> Self {
        Self::Fatal { what: what.to_string(), why: why.to_string() }
    }

    /// What an error on stdout means.
    pub(crate) fn from_stdout_error(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::fatal("stdout", error),
        }
    }
}
