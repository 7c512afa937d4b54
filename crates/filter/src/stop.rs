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
    /// [`Stop::Fatal`] of anything that can be printed. Where `why` begins with `what`, as errors about a file do, it is named once.
    pub fn fatal(what: impl Display, why: impl Display) -> Self {
        let (what, why) = (what.to_string(), why.to_string());
        Self::Fatal { why: without_subject(&what, why), what }
    }

    /// What an error on stdout means.
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
