//! The monitors of scans that tasks have asked for, so that a scan of many tasks is read once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use patterns::{MonitorError, MonitorValues};
use recipe::Recipe;
use records::Task;

/// Time after which the raw files are read again: a counter may be corrected while a run goes on.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Number of scans and recipes whose monitors are kept, more than a process works on at a time.
const MAX_CACHED: usize = 16;

/// The monitors that were read last.
#[derive(Default)]
pub struct MonitorCache(Mutex<Vec<CachedMonitor>>);

struct CachedMonitor {
    scan: String,
    recipe_digest: String,
    frames: u64,
    read_at: Instant,
    values: Arc<MonitorValues>,
}

impl MonitorCache {
    /// Returns the monitor of a task's scan, read a moment ago at most. That of a scan that is
    /// being recorded is always read.
    ///
    /// # Errors
    /// Fails as [`MonitorValues::read`].
    pub fn read(&self, task: &Task, recipe: &Recipe) -> Result<Arc<MonitorValues>, MonitorError> {
        let is_of_task = |cached: &CachedMonitor| {
            cached.scan == task.scan
                && cached.recipe_digest == task.recipe_digest
                && cached.frames == task.acquisition.frames
        };
        {
            let mut cached = self.lock();
            cached.retain(|cached| cached.read_at.elapsed() < MAX_AGE);
            if let Some(cached) = cached.iter().find(|cached| is_of_task(cached)) {
                return Ok(Arc::clone(&cached.values));
            }
        }
        let read_at = Instant::now();
        let values = Arc::new(MonitorValues::read(task, recipe)?);
        if values.has_monitor() && !values.may_grow() {
            let mut cached = self.lock();
            if cached.len() >= MAX_CACHED {
                cached.remove(0);
            }
            cached.push(CachedMonitor {
                scan: task.scan.clone(),
                recipe_digest: task.recipe_digest.clone(),
                frames: task.acquisition.frames,
                read_at,
                values: Arc::clone(&values),
            });
        }
        Ok(values)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<CachedMonitor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
