//! The working memory of worker threads, kept from task to task.
//!
//! The memory of many threads is gigabytes, and the operating system clears each page that it gives:
//! with 16 threads and tasks of 512 frames, 13 % of the CPU time before memory was kept.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use integrator::{Scratch, StatisticsScratch};
use records::Task;

/// The working memory of a thread.
pub struct WorkerMemory {
    /// The stored bytes of a batch's frames.
    pub buffers: Vec<Vec<u8>>,
    /// The memory of the kernels.
    pub scratch: Scratch,
    /// Lists of cakes that are encoded, for later ones.
    pub patterns: Vec<Vec<f32>>,
    /// The memory of the kernel for statistics of the pixels.
    pub statistics: StatisticsScratch,
}

/// The working memory that no thread uses now.
#[derive(Default)]
pub struct WorkerMemoryPool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    /// The tasks that it suits.
    kind: TaskKind,
    memory: Vec<WorkerMemory>,
}

/// The recipes and the format of frames, which determine how much memory a thread needs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TaskKind {
    recipes: Vec<String>,
    shape: [u64; 2],
    dtype: String,
}

impl TaskKind {
    /// Returns the kind of a task, given as one task for each of its recipes.
    pub fn from_tasks<'a>(recipes: impl IntoIterator<Item = &'a Task>) -> Self {
        let mut kind = Self::default();
        for task in recipes {
            kind.recipes.push(task.recipe_digest.clone());
            kind.shape = task.acquisition.shape;
            kind.dtype.clone_from(&task.acquisition.dtype);
        }
        kind
    }
}

impl WorkerMemory {
    /// Creates working memory for batches of so many frames.
    fn new(batch_frames: usize) -> Self {
        Self {
            buffers: vec![Vec::new(); batch_frames],
            scratch: Scratch::default(),
            patterns: Vec::new(),
            statistics: StatisticsScratch::default(),
        }
    }
}

impl WorkerMemoryPool {
    /// Prepares for a task: frees the memory if it is of tasks of another kind. Otherwise it would
    /// add to what the new task needs, and to what building its matrix takes.
    pub fn begin(&self, kind: &TaskKind) {
        let mut idle = self.lock();
        if idle.kind != *kind {
            *idle = Idle { kind: kind.clone(), memory: Vec::new() };
        }
    }

    /// Borrows working memory for a task, for batches of so many frames, which is the same for all
    /// tasks.
    pub fn borrow<'a>(&'a self, kind: &'a TaskKind, batch_frames: usize) -> BorrowedMemory<'a> {
        let mut idle = self.lock();
        let kept = if idle.kind == *kind { idle.memory.pop() } else { None };
        drop(idle);
        let memory = kept.unwrap_or_else(|| WorkerMemory::new(batch_frames));
        BorrowedMemory { pool: self, kind, memory: Some(memory) }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Working memory that a thread has to itself until this is dropped.
pub struct BorrowedMemory<'a> {
    pool: &'a WorkerMemoryPool,
    kind: &'a TaskKind,
    /// `None` only in `drop`.
    memory: Option<WorkerMemory>,
}

impl Deref for BorrowedMemory<'_> {
    type Target = WorkerMemory;

    fn deref(&self) -> &WorkerMemory {
        self.memory.as_ref().expect("it is here until `drop`")
    }
}

impl DerefMut for BorrowedMemory<'_> {
    fn deref_mut(&mut self) -> &mut WorkerMemory {
        self.memory.as_mut().expect("it is here until `drop`")
    }
}

impl Drop for BorrowedMemory<'_> {
    /// Gives the memory back, or frees it if another engine has begun a task of another kind.
    fn drop(&mut self) {
        let mut idle = self.pool.lock();
        if idle.kind == *self.kind && !std::thread::panicking() {
            idle.memory.extend(self.memory.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_for_tasks_of_the_same_kind_only() {
        let pool = WorkerMemoryPool::default();
        let kind =
            |recipe: &str| TaskKind { recipes: vec![recipe.to_owned()], ..TaskKind::default() };
        let (one, other) = (kind("one"), kind("other"));
        let use_memory = |kind: &TaskKind| {
            let mut memory = pool.borrow(kind, 2);
            let found = memory.buffers[0].len();
            memory.buffers[0].push(1);
            found
        };
        pool.begin(&one);
        assert_eq!([use_memory(&one), use_memory(&one)], [0, 1]);
        pool.begin(&one);
        assert_eq!(use_memory(&one), 2);
        pool.begin(&other);
        assert_eq!(use_memory(&other), 0);
        // An engine that still works on a task of the kind before takes and leaves none.
        assert_eq!([use_memory(&one), use_memory(&one), use_memory(&other)], [0, 0, 1]);
    }
}
