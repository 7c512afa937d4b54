//! The reasons for which a filter stops before its input ends.

use std::fmt::Display;
use std::io;

/// The reason for which a filter stops. Pass it up with `?`; [`run`](crate::run()) converts it into
/// the exit status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The reader of stdout has gone: the filter cleans up and dies by SIGPIPE.
    #[error("broken pipe")]
    BrokenPipe,
    /// A signal asked to stop: the filter cleans up and dies by it.
    #[error("stopped by signal {0}")]
    Signal(i32),
    /// The first failed record under `--fail-fast`: status 1. The failure has been reported.
    #[error("stopped at the first failure")]
    FailFast,
    /// An error of usage, configuration or I/O: status 2.
    #[error("{what}: {why}")]
    Fatal {
        /// The file, flag or stream.
        what: String,
        /// The problem, and what was expected.
        why: String,
    },
    /// There is no operand, and stdin is a terminal: short help and status 2.
    #[error("nothing to read: no file given, and stdin is a terminal")]
    NothingToRead,
    /// The filter was asked to finish early: status 75 if `worked`, otherwise 76.
    #[error("stopped early with work left: run the same command again")]
    Drained {
        /// True if any work was done.
        worked: bool,
    },
}

impl Stop {
    /// Creates a [`Stop::Fatal`] from anything that can be printed. If `why` begins with `what`, as
    /// errors about a file do, the repetition is removed.
    pub fn fatal(what: impl Display, why: impl Display) -> Self {
        let (what, why) = (what.to_string(), why.to_string());
        Self::Fatal { why: without_subject(&what, why), what }
    }

    /// Converts an error on stdout into a reason to stop.
    pub(crate) fn from_stdout_error(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::fatal("stdout", error),
        }
    }
}

/// Removes `what` and a colon from the beginning of an error about it.
pub(crate) fn without_subject(what: &str, why: String) -> String {
    let rest = why.strip_prefix(what).and_then(|rest| rest.strip_prefix(": "));
    rest.map(str::to_owned).unwrap_or(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_is_about_is_named_once() {
        let why = |what: &str, why: &str| match Stop::fatal(what, why) {
            Stop::Fatal { what, why } => format!("{what}: {why}"),
            _ => unreachable!("it is fatal"),
        };
        assert_eq!(why("/a.h5", "/a.h5: no space"), "/a.h5: no space");
        assert_eq!(why("/a.h5", "/a.h5.tmp: no space"), "/a.h5: /a.h5.tmp: no space");
    }
}
