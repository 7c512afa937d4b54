//! Opens files ahead of use on a thread pool, because on a parallel file system each open waits for
//! a server.
//!
//! The HDF5 library opens files one after the other. The pool opens the requested files early,
//! reads their first bytes into the page cache, and keeps the descriptors; [`open`] returns them,
//! and the library reads through them.
//!
//! A file that can't be opened early is skipped: its user opens it again, and gets the error.

mod queue;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;

use rustix::io::{Errno, pread};
use rustix::process::{Resource, getrlimit};
use system::untrusted_file;

use queue::{OpenJob, OpenQueue, Taken};

/// Number of threads that open files.
const OPENER_THREADS: usize = 32;

/// Minimum number of files that are opened ahead; for fewer, concurrency gains nothing.
pub(crate) const MIN_FILES: usize = 4;

/// Maximum number of open files that are held for later use.
const MAX_HELD_FILES: usize = 128;

/// Divisor of the process's limit of open files: at most this fraction is held open.
const MAX_DESCRIPTOR_SHARE: u64 = 4;

/// Number of bytes read at the start of each file, which the library needs first.
const PRELOAD_BYTES: usize = 64 << 10;

static POOL: OnceLock<OpenerPool> = OnceLock::new();

thread_local! {
    /// File that this thread opened last, and will read next.
    static LAST_OPENED: RefCell<Option<(PathBuf, Arc<File>)>> = const { RefCell::new(None) };
}

/// Opens files in the background, in this order and before files that were requested earlier.
pub(crate) fn open_files_ahead(paths: impl Iterator<Item = PathBuf>) {
    let paths: Vec<PathBuf> = paths.collect();
    if paths.len() < MIN_FILES {
        return;
    }
    let pool = POOL.get_or_init(|| {
        for _ in 0..OPENER_THREADS {
            // With fewer threads, or none, files are opened later, but correctly.
            let _ = Builder::new()
                .name("prefetch".to_owned())
                .stack_size(256 << 10)
                .spawn(|| open_files(POOL.wait()));
        }
        OpenerPool::new()
    });
    pool.add(paths);
}

/// Opens a file for reading, or returns the descriptor from the pool if the path still leads to the
/// same file.
///
/// # Errors
/// Fails like [`system::untrusted_file::open`].
pub fn open(path: &Path) -> io::Result<Arc<File>> {
    let kept = LAST_OPENED.take().filter(|(kept, _)| kept == path).map(|(_, file)| file);
    if let Some(file) = kept.or_else(|| POOL.get()?.take(path))
        && is_same_file(&file, path)
    {
        return Ok(file);
    }
    let opened = match untrusted_file::open(path) {
        Err(why) if matches!(Errno::from_io_error(&why), Some(Errno::MFILE | Errno::NFILE)) => {
            match POOL.get() {
                Some(pool) => {
                    pool.disable();
                    untrusted_file::open(path)
                }
                None => Err(why),
            }
        }
        opened => opened,
    };
    opened.map(Arc::new)
}

/// Keeps an open file until this thread opens the next one, so that it is not opened twice.
pub(crate) fn keep_open(path: &Path, file: Arc<File>) {
    LAST_OPENED.set(Some((path.to_owned(), file)));
}

/// Returns whether the path still leads to this open file. It may have been replaced.
fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(one), Ok(two)) => (one.dev(), one.ino()) == (two.dev(), two.ino()),
        _ => false,
    }
}

/// Files to open, and open files that have not been taken yet.
struct OpenerPool {
    queue: Mutex<OpenQueue>,
    /// Signals the pool's threads that there are files to open.
    has_more: Condvar,
    /// Signals the threads that wait for a file which a pool thread is opening.
    is_opened: Condvar,
}

impl OpenerPool {
    fn new() -> Self {
        let most = getrlimit(Resource::Nofile)
            .current
            .map_or(MAX_HELD_FILES as u64, |limit| limit / MAX_DESCRIPTOR_SHARE);
        let max_held =
            usize::try_from(most).map_or(MAX_HELD_FILES, |most| most.min(MAX_HELD_FILES));
        Self::with_capacity(max_held)
    }

    fn with_capacity(max_held: usize) -> Self {
        Self {
            queue: Mutex::new(OpenQueue::new(max_held)),
            has_more: Condvar::new(),
            is_opened: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, paths: Vec<PathBuf>) {
        self.lock().add(paths);
        self.has_more.notify_all();
    }

    /// Closes all held files and stops the pool, because this process has run out of descriptors.
    fn disable(&self) {
        self.lock().disable();
    }

    /// Takes an open file from the pool, and waits for one that a thread is opening.
    fn take(&self, path: &Path) -> Option<Arc<File>> {
        let mut queue = self.lock();
        let wanted = queue.find(path)?;
        let file = loop {
            match queue.take(wanted) {
                Taken::Open(file) => break Some(file),
                Taken::NotHeld => break None,
                Taken::Opening => {
                    queue = self.is_opened.wait(queue).unwrap_or_else(PoisonError::into_inner)
                }
            }
        };
        drop(queue);
        // The pool can hold another file.
        self.has_more.notify_one();
        file
    }

    fn next(&self) -> OpenJob {
        let mut queue = self.lock();
        loop {
            match queue.next() {
                Some(job) => return job,
                None => queue = self.has_more.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn store(&self, job: &OpenJob, file: Option<File>) {
        self.lock().store(job, file);
        self.is_opened.notify_all();
        // A file that failed to open, or is no longer wanted, frees a slot.
        self.has_more.notify_one();
    }
}

fn open_files(pool: &OpenerPool) {
    let mut buffer = vec![0; PRELOAD_BYTES];
    loop {
        let job = pool.next();
        let file = untrusted_file::open(&job.path).ok();
        if let Some(file) = &file {
            while pread(file, &mut buffer[..], 0) == Err(Errno::INTR) {}
        }
        pool.store(&job, file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<PathBuf> {
        (0..count).map(|number| format!("/{number}").into()).collect()
    }

    fn pool(max_held: usize) -> OpenerPool {
        OpenerPool::with_capacity(max_held)
    }

    /// Opens the next file as a thread of the pool does, and returns its path.
    fn open_next(pool: &OpenerPool) -> Option<String> {
        let job = pool.lock().next()?;
        pool.store(&job, Some(File::open("/dev/null").unwrap()));
        Some(job.path.display().to_string())
    }

    #[test]
    fn files_are_opened_ahead_as_far_as_there_is_room_and_handed_out_once() {
        let pool = pool(3);
        pool.add(names(6));
        let opened: Vec<String> = std::iter::from_fn(|| open_next(&pool)).collect();
        assert_eq!(opened, ["/0", "/1", "/2"]);
        assert!(pool.take(Path::new("/0")).is_some());
        assert!(pool.take(Path::new("/0")).is_none(), "it was handed out");
        assert_eq!((open_next(&pool).as_deref(), open_next(&pool)), (Some("/3"), None));
        // One file is passed over, and frees its slot.
        assert!(pool.take(Path::new("/2")).is_some());
        assert_eq!(
            (open_next(&pool).as_deref(), open_next(&pool).as_deref()),
            (Some("/4"), Some("/5"))
        );
        assert!(pool.take(Path::new("/1")).is_none() && pool.take(Path::new("/none")).is_none());
        for name in ["/3", "/4", "/5"] {
            assert!(pool.take(Path::new(name)).is_some(), "{name}");
        }
        assert_eq!(
            (open_next(&pool), pool.lock().batch_count()),
            (None, 0),
            "nothing is kept of it"
        );
    }

    #[test]
    fn what_is_asked_for_last_comes_first_and_the_rest_is_gone_on_with() {
        let pool = pool(4);
        pool.add(names(5));
        (0..4).for_each(|_| assert!(open_next(&pool).is_some()));
        assert!(pool.take(Path::new("/0")).is_some());
        let below: Vec<PathBuf> = names(3)
            .iter()
            .map(|name| Path::new("/below").join(&name.as_os_str().to_str().unwrap()[1..]))
            .collect();
        pool.add(below.clone());
        let opened: Vec<String> = std::iter::from_fn(|| open_next(&pool)).take(3).collect();
        assert_eq!(opened, ["/below/0", "/below/1", "/below/2"], "others make room");
        assert!(pool.take(&below[0]).is_some());
        // Two files are never taken.
        assert!(pool.take(Path::new("/1")).is_some());
        assert_eq!(pool.lock().batch_count(), 1);
        let opened: Vec<String> = std::iter::from_fn(|| open_next(&pool)).collect();
        assert_eq!(opened, ["/2", "/3", "/4"]);
    }

    #[test]
    fn a_file_that_is_asked_for_before_its_turn_is_left_to_who_asks() {
        let pool = pool(4);
        pool.add(names(5));
        assert!(pool.take(Path::new("/3")).is_none());
        assert_eq!((open_next(&pool).as_deref(), open_next(&pool)), (Some("/4"), None));
        pool.disable();
        assert!(pool.take(Path::new("/4")).is_none());
        pool.add(names(5));
        assert_eq!(open_next(&pool), None, "there are no descriptors left");
    }

    #[test]
    fn all_files_are_had_whatever_some_of_them_are() {
        let index = tempfile::tempdir().unwrap();
        let path = |number: usize| index.path().join(number.to_string());
        (0..300).for_each(|number| std::fs::write(path(number), number.to_string()).unwrap());
        (1..300).step_by(7).for_each(|number| std::fs::remove_file(path(number)).unwrap());
        std::fs::create_dir(path(300)).unwrap();
        open_files_ahead((0..310).map(path));
        open_files_ahead(std::iter::empty());
        for number in 0..310 {
            // A file that is replaced meanwhile must give the new file.
            let is_new = number % 10 == 3;
            if is_new && path(number).is_file() {
                std::fs::write(path(999), "new").unwrap();
                std::fs::rename(path(999), path(number)).unwrap();
            }
            let read = open(&path(number)).and_then(|file| io::read_to_string(&*file));
            match read {
                Ok(text) if is_new => assert_eq!(text, "new"),
                Ok(text) => assert_eq!(text, number.to_string()),
                Err(why) => assert!(number >= 300 || number % 7 == 1, "{number}: {why}"),
            }
        }
    }
}
