//! Reads the metadata of foreign HDF5 files in a separate process.
//!
//! The HDF5 library trusts its files: a single flipped bit may make it crash, exhaust memory, or
//! hang while it holds its global lock. A filter therefore starts its own program again as a worker
//! and sends it requests. A worker that makes no progress on a file is killed, and only this file
//! fails. The next request starts a new worker.
//!
//! This module has both ends of the pipe, and knows no particular request: each is a
//! [`WorkerRequest`] beside the function that answers it, and stands in the list of
//! [`worker_requests`](crate::worker_requests).
//!
//! A program without a worker, such as a test, calls the library in its own process: [`client()`]
//! then returns `None`.

mod client;
mod connection;
mod error;
mod message;
mod process;
mod request;
mod server;

use std::process::ExitCode;

use crate::file_timeout::file_timeout;

pub(crate) use client::{ConversationError, WorkerClient, client};
pub(crate) use connection::FilterConnection;
pub(crate) use error::{WorkerError, WorkerFailure};
pub(crate) use request::WorkerRequest;
pub(crate) use server::RequestHandler;

/// Environment variable that makes a program a worker.
const WORKER_ENV: &str = "AZPIPE_HDF5_WORKER";

/// Message about an answer that does not belong to its request.
const UNEXPECTED_ANSWER: &str =
    "the HDF5 worker gave another answer than asked for: please report this bug of azpipe";

/// Memory limit of a worker in bytes. A damaged file may make the library request more; the
/// allocation then fails instead of taking memory from other processes.
const MAX_MEMORY_BYTES: u64 = 32 << 30;

/// Runs `filter` and returns its exit status. While it runs, metadata of HDF5 files is read by a
/// worker process, which the first request starts. If this process was itself started as a worker,
/// it serves `requests` instead, and `filter` is not called.
pub(crate) fn run_with_worker(
    requests: &'static [RequestHandler],
    filter: impl FnOnce() -> ExitCode,
) -> ExitCode {
    server::serve_if_worker(requests).unwrap_or_else(|| {
        client::start(file_timeout());
        filter()
    })
}
