//! Reads the metadata of foreign HDF5 files in a process of its own.
//!
//! The HDF5 library trusts its files: one flipped byte may make it crash, take all memory, or never return, with its global lock
//! held. So a filter does not call it in its own process. It starts itself once more as a worker ([`serve_if_worker`]), sends
//! requests, and waits: a worker that does not get on with a file is killed, and that is an error of this file alone. The next
//! request starts another.
//!
//! A program that does not call [`read_start`], such as a test, calls the library itself.

mod client;
mod message;
mod server;

use std::process::ExitCode;
use std::time::Duration;

pub(crate) use client::client;
pub(crate) use message::{WorkerAnswer, WorkerFailure, WorkerRequest};
pub use server::serve_if_worker;

/// The variable that makes a program a worker.
const WORKER_ENV: &str = "AZPIPE_HDF5_WORKER";

/// The variable with the seconds that a file has to get on; 0 for no limit.
pub const TIMEOUT_ENV: &str = "AZPIPE_FILE_TIMEOUT";

/// How long a file may take to get on.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the rest of a filter with a worker: metadata of HDF5 files is read by another process from now on. A program that was
/// started as a worker serves, and ends.
pub fn run_with_worker(filter: impl FnOnce() -> ExitCode) -> ExitCode {
    serve_if_worker().unwrap_or_else(|| {
        client::start(file_timeout());
        filter()
    })
}

/// Returns how long a file may take to get on; `None` for as long as it likes.
pub(crate) fn file_timeout() -> Option<Duration> {
    parse_timeout(std::env::var(TIMEOUT_ENV).ok().as_deref())
}

/// The limit that a value of the variable sets; `None` for none. What is no number sets nothing.
fn parse_timeout(value: Option<&str>) -> Option<Duration> {
    let seconds = value.and_then(|text| text.trim().parse().ok());
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(DEFAULT_TIMEOUT);
    (!limit.is_zero()).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_of_seconds() {
        assert_eq!(parse_timeout(None), Some(DEFAULT_TIMEOUT));
        assert_eq!(parse_timeout(Some("2.5")), Some(Duration::from_millis(2500)));
        assert_eq!(parse_timeout(Some("0")), None);
        for none in ["", "x", "-1", "nan", "inf", "1e300"] {
            assert_eq!(parse_timeout(Some(none)), Some(DEFAULT_TIMEOUT), "{none}");
        }
    }
}
