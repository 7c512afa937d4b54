//! Opens files ahead of use in the process that will read them: this one, or its HDF5 worker.

use std::path::PathBuf;

use records::RawPath;
use serde::{Deserialize, Serialize};

use crate::hdf5_worker::{self, FilterConnection, WorkerFailure, WorkerRequest};
use crate::open_ahead::{MIN_FILES, open_files_ahead};

/// Opens files in the background, in this order and before files that were requested earlier, in
/// the process that will read their metadata.
pub fn open_ahead(paths: impl Iterator<Item = PathBuf>) {
    let Some(client) = hdf5_worker::client() else { return open_files_ahead(paths) };
    let files: Vec<_> = paths.map(Into::into).collect();
    if files.len() >= MIN_FILES {
        // If the worker fails, the error is reported when the files are read.
        let _ = client.request(&OpenAheadRequest { files });
    }
}

/// Opens files in the background in every process that will read them. This process will read
/// frames of each file, in this order, after the worker has located them.
pub fn prefetch_to_read(paths: &[PathBuf]) {
    if hdf5_worker::client().is_some() {
        open_ahead(paths.iter().cloned());
    }
    open_files_ahead(paths.iter().cloned());
}

/// Asks the worker to open files in the background that will be read soon.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpenAheadRequest {
    files: Vec<RawPath>,
}

impl WorkerRequest for OpenAheadRequest {
    const NAME: &'static str = "open-ahead";
    type Message = ();
    type Answer = ();

    fn answer(self, _: &FilterConnection<'_>) -> Result<((), Vec<u8>), WorkerFailure> {
        open_files_ahead(self.files.iter().map(|file| file.to_path_buf()));
        Ok(((), Vec::new()))
    }
}
