//! Says whether the HDF5 library is waiting for the file system, so that a slow disk is not taken
//! for a damaged file.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// True while a call of the library waits for the file system. There is at most one call, because
/// it holds the library's lock.
static WAITS_FOR_STORAGE: AtomicBool = AtomicBool::new(false);

/// Makes a call of the file system on behalf of the library; its time doesn't count as the
/// library's.
pub(crate) fn wait_for_storage<T>(call: impl FnOnce() -> T) -> T {
    WAITS_FOR_STORAGE.store(true, Relaxed);
    let done = call();
    WAITS_FOR_STORAGE.store(false, Relaxed);
    done
}

/// Returns whether a call waits for the file system.
pub(crate) fn waits_for_storage() -> bool {
    WAITS_FOR_STORAGE.load(Relaxed)
}
