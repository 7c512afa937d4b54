//! Reads the metadata of foreign HDF5 files in a separate process.
//!
//! The HDF5 library trusts its files: a single flipped bit may make it crash, exhaust memory, or hang while it
//! holds its global lock. A filter therefore starts its own program again as a worker and sends it
//! requests. A worker that makes no progress on a file is killed, and only this file fails. The next request
//! starts a new worker.
//!
//! The `main` of a filter calls [`run_with_worker`]. [`serve_if_worker`] is the worker's half of it, for a program that
//! can be started as a worker without being a filter.
//!
//! A program that doesn't call [`run_with_worker`], such as a test, calls the library in its own process.

mod client;
mod message;
mod server;

use std::process::ExitCode;
use std::time::Duration;

#[cfg(test)]
pub(crate) use client::WorkerError;
pub(crate) use client::client;
pub(crate) use message::{WorkerAnswer, WorkerFailure, WorkerRequest};
pub use server::serve_if_worker;

/// Environment variable that makes a program a worker.
const WORKER_ENV: &str = "AZPIPE_HDF5_WORKER";

/// Message about an answer that does not belong to its request.
pub(crate) const UNEXPECTED_ANSWER: &str =
    "the HDF5 worker gave another answer than asked for: please report this bug of azpipe";

/// Environment variable for the time limit per file in seconds without progress; 0 disables the limit.
pub const TIMEOUT_ENV: &str = "AZPIPE_FILE_TIMEOUT";

/// Memory limit of a worker in bytes. A damaged file may make the library request more; the allocation then
/// fails instead of taking memory from other processes.
const MAX_MEMORY_BYTES: u64 = 32 << 30;

/// Default time limit for a file without progress.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs `filter` and returns its exit status. While it runs, metadata of HDF5 files is read by a worker process, which
/// the first request starts. If this process was itself started as a worker, it serves requests instead
/// ([`serve_if_worker`]), and `filter` is not called.
pub fn run_with_worker(filter: impl FnOnce() -> ExitCode) -> ExitCode {
    serve_if_worker().unwrap_or_else(|| {
        client::start(file_timeout());
        filter()
    })
}

/// Returns the time limit for a file without progress; `None` if there is no limit.
pub(crate) fn file_timeout() -> Option<Duration> {
    parse_timeout(std::env::var(TIMEOUT_ENV).ok().as_deref())
}

/// Parses the value of [`TIMEOUT_ENV`]; `None` means no limit. An invalid value gives the default.
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
