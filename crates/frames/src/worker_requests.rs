//! The list of requests that a worker process answers, and the entry point of filters.
//!
//! A request is one struct that implements `WorkerRequest`, beside the function that calls the HDF5
//! library, and one line here.

use std::process::ExitCode;

use crate::dataset_files::DatasetFilesRequest;
use crate::discover::{DiscoverRequest, FileKindRequest};
use crate::file_check::{CheckRequest, VirtualDatasetRequest};
use crate::hdf5_array::{ArrayRequest, AttributeRequest, GroupRequest, TextRequest};
use crate::hdf5_worker::{self, RequestHandler};
use crate::prefetch::OpenAheadRequest;
use crate::source::IndexRequest;

static REQUESTS: [RequestHandler; 11] = [
    RequestHandler::new::<ArrayRequest>(),
    RequestHandler::new::<AttributeRequest>(),
    RequestHandler::new::<CheckRequest>(),
    RequestHandler::new::<DatasetFilesRequest>(),
    RequestHandler::new::<DiscoverRequest>(),
    RequestHandler::new::<FileKindRequest>(),
    RequestHandler::new::<GroupRequest>(),
    RequestHandler::new::<IndexRequest>(),
    RequestHandler::new::<OpenAheadRequest>(),
    RequestHandler::new::<TextRequest>(),
    RequestHandler::new::<VirtualDatasetRequest>(),
];

/// Runs `filter` and returns its exit status. While it runs, metadata of HDF5 files is read by a
/// worker process, which the first request starts. If this process was itself started as a worker,
/// it serves requests instead, and `filter` is not called.
pub fn run_with_worker(filter: impl FnOnce() -> ExitCode) -> ExitCode {
    hdf5_worker::run_with_worker(&REQUESTS, filter)
}
