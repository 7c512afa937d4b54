//! Code that tests of several topics share: runs of the filters, datasets of the crate `sample`
//! with what the pipe makes of them, files in the formats that filters read, the Python of the
//! peers, and a library that makes system calls fail.

pub mod fault_shim;
pub mod filters;
mod hdf5_files;
mod images;
pub mod messages;
mod python;
mod raw_data;
mod run;
mod workspace;

use std::ops::Range;
use std::path::{Path, PathBuf};

pub use hdf5_files::{create_hdf5, nexus_group, open_hdf5_to_write, write_text};
pub use images::{npy, uniform_edf};
pub use python::{python, python_with, run_python};
pub use raw_data::{RawData, find, find_in};
pub use run::{
    NO_ARGUMENTS, Outcome, capture, capture_within_a_minute, exit_status, feed, program, run,
    wait_for_exit,
};
pub use workspace::{Workspace, small_options, with_counter, without_counter};

/// Returns the path of a file beside the tests' sources, by its path in this directory.
pub fn source_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration").join(name)
}

/// Returns the lines of a stream.
pub fn lines(stream: &[u8]) -> Vec<&str> {
    std::str::from_utf8(stream).expect("UTF-8").lines().collect()
}

/// Returns a line as JSON.
pub fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|why| panic!("{line}: {why}"))
}

/// Returns the paths of all files below a directory, sorted; none if it does not exist.
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_below(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

/// Returns all files below a directory with their bytes.
pub fn read_files_below(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        (path, bytes)
    };
    files_below(directory).into_iter().map(read).collect()
}

/// Returns the seeds of random sequences: as many as `variable` asks for in `SEED NUMBER`, one where it names no
/// number, and the `usual` number from [`new_seed`] where it is not set.
pub fn sequence_seeds(variable: &str, usual: u64) -> Range<u64> {
    let asked = std::env::var(variable).unwrap_or_default();
    let mut numbers =
        asked.split_whitespace().map(|number| number.parse::<u64>().expect("a number"));
    let Some(first) = numbers.next() else {
        let first = new_seed();
        return first..first + usual;
    };
    first..first + numbers.next().unwrap_or(1)
}

/// Returns the seed of `AZPIPE_SEED`, or one from the clock.
pub fn new_seed() -> u64 {
    if let Ok(seed) = std::env::var("AZPIPE_SEED") {
        return seed.parse().expect("AZPIPE_SEED is a number");
    }
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    sample::Random::new(&[now.as_nanos() as u64]).below(1_000_000)
}
