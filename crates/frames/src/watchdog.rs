//! Ends the process where the HDF5 library never returns from reading a file.
//!
//! A filter that reads parts, finals and counters calls the library itself, and one flipped byte may keep it busy for ever, with its
//! global lock held: nothing in the process can take the call back. So each such call is announced ([`watch`]), and a thread that
//! looks on ends the process with a message that names the file. Results that are finished stay; a rerun does the rest.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::ffi;
use crate::hdf5_worker::{TIMEOUT_ENV, file_timeout};

/// How often the thread looks.
const TICK: Duration = Duration::from_millis(50);

/// The call that is under way: there is one at the most, for it holds the library's lock.
static UNDER_WAY: Mutex<Call> = Mutex::new(Call { number: 0, file: None });

/// Whether the call waits for the file system, which may take as long as it likes.
static WAITS_FOR_STORAGE: AtomicBool = AtomicBool::new(false);

struct Call {
    /// How many calls there were.
    number: u64,
    /// The file that is read; `None` between two calls.
    file: Option<Arc<PathBuf>>,
}

/// Starts the thread that ends this process, named `tool` in the message, when a call takes longer than the limit for a file
/// ([`TIMEOUT_ENV`]). Without a limit there is nothing to start.
pub fn start(tool: &'static str) {
    let Some(limit) = file_timeout() else { return };
    // Where there is no thread to be had, the filter fails by itself.
    let _ = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
        let file = wait_for_hang(limit);
        let seconds = limit.as_secs_f64();
        filter::worker_process::end_with_error(&format!(
            "{tool}: {}: the HDF5 library does not get on with it for {seconds} s: the file is damaged: remove it, or move it \
             away, and run again ({TIMEOUT_ENV} sets the limit)",
            file.display()
        ));
    });
}

/// Makes a call of the HDF5 library that reads `file_bytes`, under the library's lock and the eyes of the thread.
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

/// Puts back what was under way before a call, which may be part of another one, also where the call panics.
struct End(Option<Arc<PathBuf>>);

impl Drop for End {
    fn drop(&mut self) {
        under_way(|now| now.file = self.0.take());
    }
}

fn under_way<T>(act: impl FnOnce(&mut Call) -> T) -> T {
    act(&mut UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes a call of the file system for the library: it does not count as the library's time.
pub(crate) fn wait_for_storage<T>(call: impl FnOnce() -> T) -> T {
    WAITS_FOR_STORAGE.store(true, Relaxed);
    let done = call();
    WAITS_FOR_STORAGE.store(false, Relaxed);
    done
}

/// Returns the file of the first call that takes longer than `limit`. Time is what this thread has slept in, so that a process
/// that was stopped for a while is not taken for one that hangs.
fn wait_for_hang(limit: Duration) -> PathBuf {
    let (mut number, mut waited) = (0, Duration::ZERO);
    loop {
        thread::sleep(TICK);
        let (current, file) = under_way(|now| (now.number, now.file.clone()));
        waited = match &file {
            Some(_) if current != number => Duration::ZERO,
            Some(_) if WAITS_FOR_STORAGE.load(Relaxed) => waited,
            Some(_) => waited.saturating_add(TICK),
            None => Duration::ZERO,
        };
        number = current;
        if let Some(file) = file.filter(|_| waited >= limit) {
            return Path::to_path_buf(&file);
        }
    }
}
