//! Files that are to be looked at soon are opened side by side beforehand.
//!
//! The HDF5 library opens one file after the other, and on a parallel file system each first opening and first read waits
//! for a server. What a file begins with is in the node's caches afterwards, and so is that it may be opened: the library
//! then finds both at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;

use manners::foreign;
use rustix::io::{Errno, pread};

/// Files that are opened at a time.
const THREADS: usize = 32;

/// With fewer files to come, waiting for them side by side gains nothing.
const FEWEST: usize = 4;

/// Bytes that are read at the start of a file, where the library looks first.
const START: usize = 64 << 10;

/// The files that are still to be opened.
#[derive(Default)]
struct Queue {
    paths: Mutex<VecDeque<PathBuf>>,
    has_more: Condvar,
}

/// Opens these files in the background, in their order and before those that were asked for earlier. What can't be opened is
/// passed over: whoever needs it will be told why.
pub fn prefetch(paths: impl DoubleEndedIterator<Item = PathBuf>) {
    static QUEUE: OnceLock<Queue> = OnceLock::new();
    let paths: Vec<PathBuf> = paths.collect();
    if paths.len() < FEWEST {
        return;
    }
    let queue = QUEUE.get_or_init(|| {
        for _ in 0..THREADS {
            // With fewer threads, or none, files are merely not opened beforehand.
            let _ = Builder::new().name("prefetch".to_owned()).stack_size(256 << 10).spawn(|| work(QUEUE.wait()));
        }
        Queue::default()
    });
    let mut waiting = queue.lock();
    paths.into_iter().rev().for_each(|path| waiting.push_front(path));
    drop(waiting);
    queue.has_more.notify_all();
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<PathBuf>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> PathBuf {
        let mut paths = self.lock();
        loop {
            match paths.pop_front() {
                Some(path) => return path,
                None => paths = self.has_more.wait(paths).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

fn work(queue: &Queue) {
    let mut buffer = vec![0; START];
    loop {
        let Ok(file) = foreign::open(&queue.next()) else { continue };
        while pread(&file, &mut buffer[..], 0) == Err(Errno::INTR) {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn all_files_are_opened_whatever_some_of_them_are() {
        let place = tempfile::tempdir().unwrap();
        let path = |number: usize| place.path().join(number.to_string());
        (0..40).for_each(|number| std::fs::write(path(number), vec![1; 100_000]).unwrap());
        std::fs::create_dir(path(40)).unwrap();
        // Some are not there.
        prefetch((0..50).map(path));
        prefetch(std::iter::empty());
        let began = Instant::now();
        // Reading is what sets the time of last access, at least once a file, where the file system keeps it.
        let is_read = |number: usize| {
            let metadata = path(number).metadata().unwrap();
            (metadata.atime(), metadata.atime_nsec()) > (metadata.mtime(), metadata.mtime_nsec())
        };
        let keeps_times = {
            std::fs::write(path(99), "a").unwrap();
            std::thread::sleep(Duration::from_millis(20));
            std::fs::read(path(99)).unwrap();
            is_read(99)
        };
        while keeps_times && !(0..40).all(is_read) {
            assert!(began.elapsed() < Duration::from_secs(60), "some were not read");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
