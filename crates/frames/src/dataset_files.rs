//! Finds the files that a dataset's values are in, through links and virtual datasets.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use records::RawPath;
use serde::{Deserialize, Serialize};

use crate::discover::dataset_cache::{DatasetCache, absolute_dataset_path};
use crate::discover::error::DiscoverError;
use crate::hdf5_array::Hdf5ArrayError;
use crate::hdf5_worker::{self, FilterConnection, WorkerFailure, WorkerRequest};

/// The files that a dataset's values are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetFiles {
    /// All files but the one in which the dataset was looked for: those that its path leads
    /// through, and those of a virtual dataset's sources that exist. Sorted.
    pub others: Vec<PathBuf>,
    /// True if the values are stored in the file itself, and are not those of other datasets.
    pub is_stored_here: bool,
    /// True if all values were written: each stored chunk is there, and sources show all elements of
    /// a virtual dataset. The HDF5 library returns the fill value for others.
    pub is_written: bool,
}

/// Returns the files that the values of a dataset are in, in the worker process if there is one.
/// Sources that don't exist are left to whoever reads the values.
///
/// # Errors
/// A file can't be read, or has no such dataset.
pub fn dataset_files(file: &Path, dataset: &str) -> Result<DatasetFiles, Hdf5ArrayError> {
    let request = DatasetFilesRequest { file: file.into(), dataset: dataset.to_owned() };
    let failed = |failure: WorkerFailure| failure.into_array_error(file);
    let Some(client) = hdf5_worker::client() else {
        return find_in_process(file, dataset).map_err(|why| failed(to_failure(file, &why)));
    };
    let answer = client.request(&request).map_err(|why| Hdf5ArrayError::no_answer(file, &why))?;
    let ((others, is_stored_here, is_written), _) = answer.map_err(failed)?;
    let others = others.iter().map(|path| path.to_path_buf()).collect();
    Ok(DatasetFiles { others, is_stored_here, is_written })
}

fn find_in_process(file: &Path, dataset: &str) -> Result<DatasetFiles, DiscoverError> {
    let mut cache = DatasetCache::default();
    let mut waiting = vec![(file.to_owned(), absolute_dataset_path(dataset))];
    let (mut seen, mut files) = (HashSet::new(), BTreeSet::new());
    let (mut is_stored_here, mut is_written) = (true, true);
    while let Some((holder, dataset)) = waiting.pop() {
        if !seen.insert((holder.clone(), dataset.clone())) {
            continue;
        }
        let found = match cache.references(&holder, &dataset) {
            Err(why) if why.is_missing() && seen.len() > 1 => {
                is_written = false;
                continue;
            }
            found => found?,
        };
        is_written &= cache.is_written(&holder, &dataset)?;
        is_stored_here &= found.datasets.is_empty();
        files.extend(found.files);
        waiting.extend(found.datasets);
    }
    files.remove(file);
    is_stored_here &= files.is_empty();
    Ok(DatasetFiles { others: files.into_iter().collect(), is_stored_here, is_written })
}

fn to_failure(file: &Path, error: &DiscoverError) -> WorkerFailure {
    match error {
        DiscoverError::Unreadable(at, why) if at == file => {
            WorkerFailure::Io { errno: why.errno, why: why.why.clone() }
        }
        DiscoverError::Unreadable(_, why) => {
            WorkerFailure::Io { errno: why.errno, why: error.message(file) }
        }
        _ => WorkerFailure::Hdf5(error.message(file)),
    }
}

/// Asks the worker for the files of a dataset.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DatasetFilesRequest {
    file: RawPath,
    dataset: String,
}

impl WorkerRequest for DatasetFilesRequest {
    const NAME: &'static str = "dataset-files";
    type Message = ();
    /// The other files, whether the values are in none of them, and whether all were written.
    type Answer = (Vec<RawPath>, bool, bool);

    fn answer(self, _: &FilterConnection<'_>) -> Result<(Self::Answer, Vec<u8>), WorkerFailure> {
        let file: &Path = self.file.as_ref();
        let found = find_in_process(file, &self.dataset).map_err(|why| to_failure(file, &why))?;
        let others = found.others.into_iter().map(RawPath::from).collect();
        Ok(((others, found.is_stored_here, found.is_written), Vec::new()))
    }
}
