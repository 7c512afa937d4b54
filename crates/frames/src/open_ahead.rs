//! Opens files ahead of use on a thread pool, because on a parallel file system each open waits for a server.
//!
//! The HDF5 library opens files one after the other. The pool opens the requested files early, reads their first
//! bytes into the page cache, and keeps the descriptors; [`open`] returns them, and the library reads through
//! them.
//!
//! A file that can't be opened early is skipped: its user opens it again, and gets the error.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;

use rustix::io::{Errno, pread};
use rustix::process::{Resource, getrlimit};
use system::untrusted_file;

use crate::hdf5_worker::{self, WorkerRequest};

/// Number of threads that open files.
const OPENER_THREADS: usize = 32;

/// Minimum number of files that are opened ahead; for fewer, concurrency gains nothing.
const MIN_FILES: usize = 4;

/// Maximum number of open files that are held for later use.
const MAX_HELD_FILES: usize = 128;

/// Maximum number of batches of files. The oldest batch is dropped, because its files are no longer needed.
const MAX_BATCHES: usize = 8;

/// Divisor of the process's limit of open files: at most this fraction is held open.
const MAX_DESCRIPTOR_SHARE: u64 = 4;

/// Number of bytes read at the start of each file, which the library needs first.
const PRELOAD_BYTES: usize = 64 << 10;

static POOL: OnceLock<OpenerPool> = OnceLock::new();

thread_local! {
    /// File that this thread opened last, and will read next.
    static LAST_OPENED: RefCell<Option<(PathBuf, Arc<File>)>> = const { RefCell::new(None) };
}

/// Opens files in the background, in this order and before files that were requested earlier, in the process
/// that will read their metadata.
pub fn open_ahead(paths: impl Iterator<Item = PathBuf>) {
    let Some(client) = hdf5_worker::client() else { return open_ahead_in_process(paths) };
    let files: Vec<_> = paths.map(Into::into).collect();
    if files.len() >= MIN_FILES {
        // If the worker fails, the error is reported when the files are read.
        let _ = client.request(&WorkerRequest::OpenAhead { files });
    }
}

/// Opens files in the background in every process that will read them. This process will read frames of each
/// file, in this order, after the worker has located them.
pub fn prefetch_to_read(paths: &[PathBuf]) {
    if hdf5_worker::client().is_some() {
        open_ahead(paths.iter().cloned());
    }
    open_ahead_in_process(paths.iter().cloned());
}

/// Opens files in the background like [`open_ahead`], but in this process.
pub(crate) fn open_ahead_in_process(paths: impl Iterator<Item = PathBuf>) {
    let paths: Vec<PathBuf> = paths.collect();
    if paths.len() < MIN_FILES {
        return;
    }
    let pool = POOL.get_or_init(|| {
        for _ in 0..OPENER_THREADS {
            // With fewer threads, or none, files are opened later, but correctly.
            let _ = Builder::new().name("prefetch".to_owned()).stack_size(256 << 10).spawn(|| open_files(POOL.wait()));
        }
        OpenerPool::new()
    });
    pool.add(paths);
}

/// Opens a file for reading, or returns the descriptor from the pool if the path still leads to the same file.
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
        Err(why) if matches!(Errno::from_io_error(&why), Some(Errno::MFILE | Errno::NFILE)) => match POOL.get() {
            Some(pool) => {
                pool.disable();
                untrusted_file::open(path)
            }
            None => Err(why),
        },
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
    batches: Mutex<OpenQueue>,
    /// Signals the pool's threads that there are files to open.
    has_more: Condvar,
    /// Signals the threads that wait for a file which a pool thread is opening.
    is_opened: Condvar,
}

#[derive(Default)]
struct OpenQueue {
    /// Batches in order of request: the last one is opened first.
    stack: Vec<FileBatch>,
    max_held: usize,
    count: u64,
}

/// Files that were requested together.
#[derive(Default)]
struct FileBatch {
    number: u64,
    paths: Vec<PathBuf>,
    index_by_path: HashMap<PathBuf, usize>,
    /// Index of the first path that no thread has begun to open.
    next: usize,
    /// Index of the first path after the last one that was taken.
    next_wanted: usize,
    held: BTreeMap<usize, OpenSlot>,
}

enum OpenSlot {
    Opening,
    Open(Arc<File>),
}

/// A file for a thread to open.
struct OpenJob {
    batch: u64,
    index: usize,
    path: PathBuf,
}

impl OpenerPool {
    fn new() -> Self {
        let most =
            getrlimit(Resource::Nofile).current.map_or(MAX_HELD_FILES as u64, |limit| limit / MAX_DESCRIPTOR_SHARE);
        let max_held = usize::try_from(most).map_or(MAX_HELD_FILES, |most| most.min(MAX_HELD_FILES));
        Self::with_capacity(max_held)
    }

    fn with_capacity(max_held: usize) -> Self {
        let batches = Mutex::new(OpenQueue { max_held, ..OpenQueue::default() });
        Self { batches, has_more: Condvar::new(), is_opened: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, OpenQueue> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, paths: Vec<PathBuf>) {
        let index_by_path = paths.iter().enumerate().rev().map(|(index, path)| (path.clone(), index)).collect();
        let mut batches = self.lock();
        batches.count = batches.count.wrapping_add(1);
        let number = batches.count;
        if batches.stack.len() == MAX_BATCHES {
            batches.stack.remove(0);
        }
        batches.stack.push(FileBatch { number, paths, index_by_path, ..FileBatch::default() });
        drop(batches);
        self.has_more.notify_all();
    }

    /// Closes all held files and stops the pool, because this process has run out of descriptors.
    fn disable(&self) {
        let mut batches = self.lock();
        (batches.max_held, batches.stack) = (0, Vec::new());
    }

    /// Takes an open file from the pool, and waits for one that a thread is opening.
    fn take(&self, path: &Path) -> Option<Arc<File>> {
        let mut batches = self.lock();
        let (number, index) = batches.find_batch(path)?;
        let file = loop {
            let batch = batches.stack.iter_mut().find(|batch| batch.number == number)?;
            match batch.held.remove(&index) {
                Some(OpenSlot::Open(file)) => break Some(file),
                None => break None,
                Some(OpenSlot::Opening) => {
                    batch.held.insert(index, OpenSlot::Opening);
                    batches = self.is_opened.wait(batches).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(batches);
        // The pool can hold another file.
        self.has_more.notify_one();
        file
    }

    fn next(&self) -> OpenJob {
        let mut batches = self.lock();
        loop {
            match batches.next() {
                Some(job) => return job,
                None => batches = self.has_more.wait(batches).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn store(&self, job: &OpenJob, file: Option<File>) {
        let mut batches = self.lock();
        if let Some(batch) = batches.stack.iter_mut().find(|batch| batch.number == job.batch) {
            match file {
                Some(file) => batch.held.insert(job.index, OpenSlot::Open(Arc::new(file))),
                None => batch.held.remove(&job.index),
            };
        }
        drop(batches);
        self.is_opened.notify_all();
        // A file that failed to open, or is no longer wanted, frees a slot.
        self.has_more.notify_one();
    }
}

impl OpenQueue {
    /// Finds the batch and index of a file, and notes that it was taken. Taking a file of an older batch means
    /// that all later batches are finished.
    fn find_batch(&mut self, path: &Path) -> Option<(u64, usize)> {
        let known = |batch: &FileBatch| batch.index_by_path.get(path).copied();
        let (at, index) = self.stack.iter().enumerate().rev().find_map(|(at, batch)| Some((at, known(batch)?)))?;
        if index >= self.stack[at].next_wanted {
            self.stack.truncate(at.saturating_add(1));
            let batch = &mut self.stack[at];
            batch.next_wanted = index.saturating_add(1);
            // Earlier files are no longer needed, and this one is opened by the caller itself.
            batch.next = batch.next.max(batch.next_wanted);
        }
        Some((self.stack[at].number, index))
    }

    /// Returns the next file to open, if a slot is free.
    fn next(&mut self) -> Option<OpenJob> {
        while let Some(last) = self.stack.last()
            && last.next_wanted == last.paths.len()
            && last.held.is_empty()
        {
            self.stack.pop();
        }
        let at = self.stack.iter().rposition(|batch| batch.next < batch.paths.len())?;
        if !self.free_slot(at) {
            return None;
        }
        let batch = &mut self.stack[at];
        let index = batch.next;
        batch.next = index.saturating_add(1);
        batch.held.insert(index, OpenSlot::Opening);
        Some(OpenJob { batch: batch.number, index, path: batch.paths[index].clone() })
    }

    /// Frees a slot for another file of a batch. Files that were passed over go first, then the files of older
    /// batches that are needed last, which are opened again later.
    fn free_slot(&mut self, at: usize) -> bool {
        let count = |batches: &Self| batches.stack.iter().map(|batch| batch.held.len()).sum::<usize>();
        if count(self) < self.max_held {
            return true;
        }
        for batch in &mut self.stack {
            // The caller of the last `take` may still be waiting for that file.
            let last = batch.next_wanted.saturating_sub(1);
            batch.held.retain(|&index, held| index >= last || matches!(held, OpenSlot::Opening));
        }
        for batch in &mut self.stack[..at] {
            if let Some((&index, OpenSlot::Open(_))) = batch.held.last_key_value() {
                batch.held.remove(&index);
                batch.next = index;
                break;
            }
        }
        count(self) < self.max_held
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
        assert_eq!((open_next(&pool).as_deref(), open_next(&pool).as_deref()), (Some("/4"), Some("/5")));
        assert!(pool.take(Path::new("/1")).is_none() && pool.take(Path::new("/none")).is_none());
        for name in ["/3", "/4", "/5"] {
            assert!(pool.take(Path::new(name)).is_some(), "{name}");
        }
        assert_eq!((open_next(&pool), pool.lock().stack.len()), (None, 0), "nothing is kept of it");
    }

    #[test]
    fn what_is_asked_for_last_comes_first_and_the_rest_is_gone_on_with() {
        let pool = pool(4);
        pool.add(names(5));
        (0..4).for_each(|_| assert!(open_next(&pool).is_some()));
        assert!(pool.take(Path::new("/0")).is_some());
        let below: Vec<PathBuf> =
            names(3).iter().map(|name| Path::new("/below").join(&name.as_os_str().to_str().unwrap()[1..])).collect();
        pool.add(below.clone());
        let opened: Vec<String> = std::iter::from_fn(|| open_next(&pool)).take(3).collect();
        assert_eq!(opened, ["/below/0", "/below/1", "/below/2"], "others make room");
        assert!(pool.take(&below[0]).is_some());
        // Two files are never taken.
        assert!(pool.take(Path::new("/1")).is_some());
        assert_eq!(pool.lock().stack.len(), 1);
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
        open_ahead_in_process((0..310).map(path));
        open_ahead_in_process(std::iter::empty());
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
