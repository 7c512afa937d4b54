//! The order in which files are opened, and the open files that nobody has taken yet.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of batches of files. The oldest batch is dropped, because its files are no longer
/// needed.
const MAX_BATCHES: usize = 8;

/// Files to open, and open files.
pub(super) struct OpenQueue {
    /// Batches in order of request: the last one is opened first.
    stack: Vec<FileBatch>,
    /// Maximum number of files that are open or being opened.
    max_held: usize,
    /// Number of batches so far.
    count: u64,
}

/// Batch of a file, and its index there.
#[derive(Clone, Copy)]
pub(super) struct FileId {
    batch: u64,
    index: usize,
}

/// Result of taking a file.
pub(super) enum Taken {
    Open(Arc<File>),
    /// A thread is opening the file.
    Opening,
    NotHeld,
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
pub(super) struct OpenJob {
    file: FileId,
    pub(super) path: PathBuf,
}

impl OpenQueue {
    /// Returns an empty queue that holds up to `max_held` files.
    pub(super) fn new(max_held: usize) -> Self {
        Self { stack: Vec::new(), max_held, count: 0 }
    }

    /// Adds a batch of files, which are opened before those of earlier batches.
    pub(super) fn add(&mut self, paths: Vec<PathBuf>) {
        let index_by_path =
            paths.iter().enumerate().rev().map(|(index, path)| (path.clone(), index)).collect();
        self.count = self.count.wrapping_add(1);
        if self.stack.len() == MAX_BATCHES {
            self.stack.remove(0);
        }
        self.stack.push(FileBatch {
            number: self.count,
            paths,
            index_by_path,
            ..FileBatch::default()
        });
    }

    /// Closes all files, and opens no more.
    pub(super) fn disable(&mut self) {
        (self.max_held, self.stack) = (0, Vec::new());
    }

    /// Returns the number of batches with files that are still wanted.
    #[cfg(test)]
    pub(super) fn batch_count(&self) -> usize {
        self.stack.len()
    }

    /// Takes a file, unless a thread is still opening it.
    pub(super) fn take(&mut self, file: FileId) -> Taken {
        let Some(batch) = self.batch_mut(file) else { return Taken::NotHeld };
        match batch.held.remove(&file.index) {
            Some(OpenSlot::Open(open)) => Taken::Open(open),
            Some(OpenSlot::Opening) => {
                batch.held.insert(file.index, OpenSlot::Opening);
                Taken::Opening
            }
            None => Taken::NotHeld,
        }
    }

    /// Stores the file of a job, or notes that it can't be opened.
    pub(super) fn store(&mut self, job: &OpenJob, open: Option<File>) {
        let Some(batch) = self.batch_mut(job.file) else { return };
        match open {
            Some(open) => batch.held.insert(job.file.index, OpenSlot::Open(Arc::new(open))),
            None => batch.held.remove(&job.file.index),
        };
    }

    fn batch_mut(&mut self, file: FileId) -> Option<&mut FileBatch> {
        self.stack.iter_mut().find(|batch| batch.number == file.batch)
    }

    /// Finds a file, and notes that it was taken. Taking a file of an older batch means
    /// that all later batches are finished.
    pub(super) fn find(&mut self, path: &Path) -> Option<FileId> {
        let known = |batch: &FileBatch| batch.index_by_path.get(path).copied();
        let (at, index) = self
            .stack
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, batch)| Some((at, known(batch)?)))?;
        if index >= self.stack[at].next_wanted {
            self.stack.truncate(at.saturating_add(1));
            let batch = &mut self.stack[at];
            batch.next_wanted = index.saturating_add(1);
            // Earlier files are no longer needed, and this one is opened by the caller itself.
            batch.next = batch.next.max(batch.next_wanted);
        }
        Some(FileId { batch: self.stack[at].number, index })
    }

    /// Returns the next file to open, if a slot is free.
    pub(super) fn next(&mut self) -> Option<OpenJob> {
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
        Some(OpenJob {
            file: FileId { batch: batch.number, index },
            path: batch.paths[index].clone(),
        })
    }

    /// Frees a slot for another file of a batch. Files that were passed over go first, then the
    /// files of older batches that are needed last, which are opened again later.
    fn free_slot(&mut self, at: usize) -> bool {
        let count =
            |batches: &Self| batches.stack.iter().map(|batch| batch.held.len()).sum::<usize>();
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
