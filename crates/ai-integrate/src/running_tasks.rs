//! The tasks that engines have taken and not committed yet.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filter::{Filter, ReadAhead, Stop};
use records::{Record, Spans, Task};

/// Time between two looks whether the filter stops.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The tasks of all engines. Those that share frames are done one after the other, in the order of the
/// input: which frames are done is known only after a commit, and the last task says what became of them.
pub struct RunningTasks<'a> {
    filter: &'a Filter,
    tasks: &'a ReadAhead<'a>,
    /// Locked while an engine waits for a record, so that tasks have the order of the input.
    next_number: Mutex<u64>,
    running: Mutex<Vec<RunningRange>>,
    ended: Condvar,
}

/// The frames of a task that is not committed.
struct RunningRange {
    number: u64,
    scan: String,
    range: Spans,
}

/// A task that counts as running until this value is dropped.
pub struct RunningTask<'a> {
    all: &'a RunningTasks<'a>,
    number: u64,
    /// The numbers of earlier tasks that share frames with it.
    waits_for: Vec<u64>,
}

impl<'a> RunningTasks<'a> {
    /// Creates a record of no tasks.
    pub fn new(tasks: &'a ReadAhead<'a>, filter: &'a Filter) -> Self {
        Self {
            filter,
            tasks,
            next_number: Mutex::default(),
            running: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Returns the next record, as [`ReadAhead::next`] does, and of a task that it counts as running from
    /// now on.
    ///
    /// # Errors
    /// Fails as [`ReadAhead::next`] does.
    pub fn next(&'a self) -> Result<Option<(Record, Option<RunningTask<'a>>)>, Stop> {
        let mut next_number = self.next_number.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = self.tasks.next()? else { return Ok(None) };
        let Record::Task(task) = &record else { return Ok(Some((record, None))) };
        let number = *next_number;
        *next_number += 1;
        let running = self.begin(number, task);
        Ok(Some((record, Some(running))))
    }

    fn begin(&'a self, number: u64, task: &Task) -> RunningTask<'a> {
        let mut running = self.lock();
        let shares_frames = |other: &&RunningRange| {
            other.scan == task.scan && !other.range.intersection(&task.range).is_empty()
        };
        let waits_for = running.iter().filter(shares_frames).map(|other| other.number).collect();
        let (scan, range) = (task.scan.clone(), task.range.clone());
        running.push(RunningRange { number, scan, range });
        RunningTask { all: self, number, waits_for }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RunningRange>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningTask<'_> {
    /// Waits until the earlier tasks that share frames with this one are committed.
    ///
    /// # Errors
    /// Fails if the filter stops.
    pub fn wait_for_earlier(&self) -> Result<(), Stop> {
        let mut running = self.all.lock();
        while running.iter().any(|other| self.waits_for.contains(&other.number)) {
            self.all.filter.check_stopped()?;
            let waited = self.all.ended.wait_timeout(running, STOP_CHECK_INTERVAL);
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        self.all.lock().retain(|task| task.number != self.number);
        self.all.ended.notify_all();
    }
}
