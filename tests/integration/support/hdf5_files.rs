//! HDF5 files as NeXus has them, written for one test.
//!
//! They are opened without a lock. The HDF5 library opens files so that programs started meanwhile,
//! by any other thread, inherit the descriptor, and with it a lock for as long as they run: the
//! daemons of SLURM, until the tests end.

use std::path::Path;

use hdf5::{File, Group};

/// Creates an HDF5 file, which replaces one of that name.
pub fn create_hdf5(path: impl AsRef<Path>) -> File {
    sample::nexus::create(path.as_ref()).expect("an HDF5 file can be created")
}

/// Opens an HDF5 file to change it.
pub fn open_hdf5_to_write(path: impl AsRef<Path>) -> File {
    let mut options = File::with_options();
    options.with_fapl(|access| access.file_locking(false)).open_rw(path).expect("an HDF5 file")
}

/// Creates a group with an `NX_class`.
pub fn nexus_group(parent: &Group, name: &str, class: &str) -> Group {
    sample::nexus::group(parent, name, class).expect("a group can be created")
}

/// Creates a dataset of one text.
pub fn write_text(parent: &Group, name: &str, value: &str) {
    sample::nexus::string(parent, name, value).expect("a dataset can be written");
}
