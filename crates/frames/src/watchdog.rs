//! Ends the process if the HDF5 library never returns from reading a file.
//!
//! ai-integrate and gather call the library in their own process to read parts and final files, and
//! gather to copy the raw file's counters into a final file. Files without checksums are first read
//! by the worker process ([`file_check`](crate::file_check)), where the library may hang without
//! harm. This module is for hangs that the worker doesn't come upon. All other raw metadata is read
//! by the worker alone, also the counters that ai-integrate uses as monitors
//! ([`hdf5_array`](crate::hdf5_array)). A single flipped bit may make the library hang with its
//! global lock held, and nothing in the process can cancel the call. So each call is announced to a
//! thread by [`watch`]; if the call hangs, the thread ends the process with a message that names
//! the file. Finished results are kept, and a rerun does the rest.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::ffi;
use crate::file_timeout::{TIMEOUT_ENV, file_timeout};
use crate::storage_wait::waits_for_storage;

/// Interval at which the thread checks.
const TICK: Duration = Duration::from_millis(50);

/// The current call. There is at most one, because it holds the library's lock.
static UNDER_WAY: Mutex<Call> = Mutex::new(Call { number: 0, file: None });

struct Call {
    /// Number of calls so far.
    number: u64,
    /// File that is being read; `None` between calls.
    file: Option<Arc<PathBuf>>,
}

/// Starts the thread that ends this process, with `tool` in the message, when a call exceeds the
/// limit for a file (the environment variable `AZPIPE_FILE_TIMEOUT`). Does nothing if there is no
/// limit.
///
/// # Errors
/// The thread can't be started.
pub fn start(tool: &'static str) -> io::Result<()> {
    let Some(limit) = file_timeout() else { return Ok(()) };
    let watchdog = thread::Builder::new().name("watchdog".to_owned());
    let watchdog = watchdog.spawn(move || {
        let file = wait_for_hang(limit);
        let seconds = limit.as_secs_f64();
        filter::worker_process::end_with_error(&format!(
            "{tool}: {}: the HDF5 library made no progress for {seconds} s: the file may be damaged: replace it by a sound \
             copy, or move it out of the way, and run again ({TIMEOUT_ENV} sets the limit)",
            file.display()
        ));
    });
    watchdog.map(drop)
}

/// Makes a call of the HDF5 library that reads `file`, under the library's lock, and announces it
/// to the watchdog thread.
pub fn watch<T>(file: &Arc<PathBuf>, call: impl FnOnce() -> T) -> T {
    ffi::with_library_lock(|| {
        let begun = under_way(|now| {
            now.number = now.number.wrapping_add(1);
            now.file.replace(Arc::clone(file))
        });
        let _ends = End(begun);
        call()
    })
}

/// Restores the outer call after a nested one, even if the nested call panics.
struct End(Option<Arc<PathBuf>>);

impl Drop for End {
    fn drop(&mut self) {
        under_way(|now| now.file = self.0.take());
    }
}

fn under_way<T>(act: impl FnOnce(&mut Call) -> T) -> T {
    act(&mut UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits for a call that takes longer than `limit`, and returns its file. Time is measured by this
/// thread's own sleeps, so that a suspended process does not count as hanging.
fn wait_for_hang(limit: Duration) -> PathBuf {
    let (mut number, mut waited) = (0, Duration::ZERO);
    loop {
        thread::sleep(TICK);
        let (current, file) = under_way(|now| (now.number, now.file.clone()));
        waited = match &file {
            Some(_) if current != number => Duration::ZERO,
            Some(_) if waits_for_storage() => waited,
            Some(_) => waited.saturating_add(TICK),
            None => Duration::ZERO,
        };
        number = current;
        if let Some(file) = file.filter(|_| waited >= limit) {
            return Path::to_path_buf(&file);
        }
    }
}
