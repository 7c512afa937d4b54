//! Why a worker gave no answer, or answered that a request failed.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::MAX_MEMORY_BYTES;
use crate::file_timeout::TIMEOUT_ENV;

const SIGKILL: i32 = 9;

/// Explains why a worker gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error(
        "the HDF5 library made no progress for {} s: the file may be damaged: replace it by a sound copy and run again \
         ({TIMEOUT_ENV} sets the limit)",
        .0.as_secs_f64()
    )]
    TimedOut(Duration),
    #[error(
        "its storage gave no answer for {} s: run again when it does ({TIMEOUT_ENV} sets the limit)",
        .0.as_secs_f64()
    )]
    StorageTimedOut(Duration),
    #[error(
        "the process that reads it ran out of memory ({why}): give it more (a job's --mem, ulimit -v; it takes no more than \
         {most} GiB), unless the file is damaged and asks for too much",
        most = MAX_MEMORY_BYTES >> 30
    )]
    OutOfMemory { why: String },
    #[error(
        "the process that reads it was killed ({0}), perhaps by the system because memory ran out: run again, with more \
         memory (a job's --mem) or fewer processes beside it if it is killed again"
    )]
    Killed(String),
    #[error(
        "the process that reads it with the HDF5 library ended ({0}): the file may be damaged, or memory was short: replace \
         it by a sound copy, or give it more memory, and run again"
    )]
    Ended(String),
    #[error("no answer from the process that reads it ({0}): run again")]
    Lost(io::Error),
    #[error("a signal stopped the filter")]
    Interrupted,
    #[error("the process that reads HDF5 files can't be started: {0}")]
    System(#[from] io::Error),
}

impl WorkerError {
    /// Returns whether a later attempt may succeed.
    pub(crate) fn is_retryable(&self) -> bool {
        !matches!(self, Self::Ended(_))
    }

    /// Returns whether the library hung or crashed, as it does on damaged files, with nothing else
    /// known that explains it.
    pub(crate) fn suggests_damage(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Ended(_))
    }

    /// Returns the error for a worker that this filter did not end, and whose last words were
    /// `said`. Rust aborts a process when an allocation fails. The kernel kills one with SIGKILL
    /// when memory runs out, but so may a user or a batch system: SIGKILL alone proves nothing.
    pub(super) fn from_end(status: ExitStatus, said: &str) -> Self {
        let allocation = said.lines().rev().find(|line| line.starts_with("memory allocation of "));
        match (allocation, status.signal()) {
            (Some(line), _) => Self::OutOfMemory { why: line.to_owned() },
            (None, Some(SIGKILL)) => Self::Killed(status.to_string()),
            (None, _) => Self::Ended(status.to_string()),
        }
    }
}

/// Explains why a request failed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkerFailure {
    /// The system can't read the file.
    Io { errno: Option<i32>, why: String },
    /// The file is not a readable HDF5 file.
    Hdf5(String),
    /// One dataset can't be read.
    Dataset { dataset: String, why: String },
}

impl WorkerFailure {
    /// Converts an I/O error in the worker to a message.
    pub(crate) fn from_io(why: &io::Error) -> Self {
        let is_denied = why.kind() == io::ErrorKind::PermissionDenied;
        let errno =
            why.raw_os_error().or_else(|| is_denied.then_some(Errno::ACCESS.raw_os_error()));
        Self::Io { errno, why: why.to_string() }
    }

    /// Converts the message back to the I/O error, of the same kind and with the same text.
    pub(crate) fn to_io(errno: Option<i32>, why: String) -> io::Error {
        match errno.map(io::Error::from_raw_os_error) {
            Some(plain) if plain.to_string() == why => plain,
            Some(plain) => io::Error::new(plain.kind(), why),
            None => io::Error::other(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_keep_their_kind_and_text_on_the_way() {
        let returned = |why: &io::Error| match WorkerFailure::from_io(why) {
            WorkerFailure::Io { errno, why } => WorkerFailure::to_io(errno, why),
            other => panic!("{other:?}"),
        };
        for errno in 1..133 {
            let plain = io::Error::from_raw_os_error(errno);
            assert_eq!(returned(&plain).raw_os_error(), Some(errno));
        }
        let denied = io::Error::new(io::ErrorKind::PermissionDenied, "source b.h5: denied");
        let back = returned(&denied);
        assert_eq!((back.kind(), back.to_string()), (denied.kind(), denied.to_string()));
        assert_eq!(returned(&io::Error::other("why")).to_string(), "why");
    }

    #[test]
    fn the_end_of_a_worker_is_told_by_what_is_known_of_it() {
        let by_signal = ExitStatus::from_raw;
        let aborted = WorkerError::from_end(
            by_signal(6),
            "thread ...\nmemory allocation of 2684354560 bytes failed\n",
        );
        let killed = WorkerError::from_end(by_signal(SIGKILL), "");
        for error in [&aborted, &killed] {
            assert!(error.is_retryable() && !error.suggests_damage());
        }
        let said = aborted.to_string();
        assert!(
            said.contains("ran out of memory (memory allocation of 2684354560 bytes failed)"),
            "{said}"
        );
        assert!(said.contains("32 GiB"), "{said}");
        let said = killed.to_string();
        assert!(
            said.contains("was killed (signal: 9 (SIGKILL)), perhaps")
                && said.contains("run again"),
            "{said}"
        );
        for signal in [6, 7, 8, 11] {
            let crashed = WorkerError::from_end(by_signal(signal), "free(): invalid pointer\n");
            let said = crashed.to_string();
            assert!(
                said.contains(&format!("signal: {signal} ")) && said.contains("may be damaged"),
                "{said}"
            );
            assert!(!crashed.is_retryable() && crashed.suggests_damage());
        }
    }
}
