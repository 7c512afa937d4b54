//! Parts as an HDF5 reader sees them.

use std::path::{Path, PathBuf};

use hdf5::{Dataset, File, H5Type};

/// Returns the paths of the parts below an output root.
pub fn list_parts(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for scan in entries(&root.join(".azpipe/parts")) {
        entries(&scan).iter().for_each(|recipe| found.extend(entries(recipe)));
    }
    found.sort();
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    directory.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Returns the rows of a dataset in all parts, each with its frame, in order of frames.
pub fn read_rows<T: H5Type + Copy>(root: &Path, name: &str) -> Vec<(u64, Vec<T>)> {
    let mut rows = Vec::new();
    for path in list_parts(root) {
        let file = File::open(&path).unwrap();
        let frames: Vec<u64> = file.dataset("frames").unwrap().read_raw().unwrap();
        let values: Vec<T> = file.dataset(name).unwrap().read_raw().unwrap();
        let length = values.len() / frames.len().max(1);
        rows.extend(frames.into_iter().zip(values.chunks(length.max(1)).map(<[T]>::to_vec)));
    }
    rows.sort_by_key(|row| row.0);
    rows
}

/// Returns a dataset of one value per bin, which all parts have.
pub fn read_per_bin(root: &Path, name: &str) -> Vec<f64> {
    let dataset = |path: &PathBuf| -> hdf5::Result<Dataset> { File::open(path)?.dataset(name) };
    dataset(&list_parts(root)[0]).unwrap().read_raw().unwrap()
}
