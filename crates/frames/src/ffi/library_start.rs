//! The start of the HDF5 library, which needs memory.

use std::io;
use std::sync::OnceLock;

use hdf5_sys::LOCK;
use hdf5_sys::h5::{H5dont_atexit, H5open};
use rustix::io::Errno;

/// Starts the library. A library that could not start, as under a low `ulimit -v`, may loop forever
/// in the next call, so nothing else may be called after an error. To be called before any other
/// function of this crate or of `hdf5`, which start the library, too, and don't look.
///
/// # Errors
/// `ENOMEM`: the library lacks memory, the only thing that it needs.
pub fn start_library() -> io::Result<()> {
    static STARTED: OnceLock<bool> = OnceLock::new();
    let is_started = STARTED.get_or_init(|| {
        let _lock = LOCK.lock();
        // SAFETY: the calls take nothing, and no other thread is in the library, whose lock is
        // held. Handles may outlive the program's `main`, which is why nothing is done at exit. The
        // first call only fails if `hdf5` has made it already.
        unsafe {
            H5dont_atexit();
            H5open() >= 0
        }
    });
    if *is_started { Ok(()) } else { Err(Errno::NOMEM.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_started_twice_works() {
        // `hdf5` has started it, as in tests that run beside this one.
        assert!(hdf5::File::open("no such file").is_err());
        start_library().unwrap();
        start_library().unwrap();
        assert!(hdf5::File::open("no such file").is_err());
    }
}
