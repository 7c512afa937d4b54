//! The command queues of a device, which the worker threads of all tasks share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use integrator::opencl::{Device, DeviceError, DeviceQueues};

/// How many [`DeviceQueues`] a device has at the most. An NVIDIA H200 gains nothing from more; each
/// has pinned memory for a batch, which takes long to allocate.
const MAX_QUEUES: usize = 8;

/// The command queues of a device. They outlive tasks: opening them takes longer than integrating
/// hundreds of frames.
pub struct QueuePool {
    device: Arc<Device>,
    /// The number of command queues in each [`DeviceQueues`].
    queues_each: usize,
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<DeviceQueues>,
    /// The number of those that are idle or borrowed.
    open: usize,
}

/// Queues that a thread has to itself until this is dropped.
pub struct BorrowedQueues<'a> {
    pool: &'a QueuePool,
    /// `None` only in `drop` and `discard`.
    queues: Option<DeviceQueues>,
}

impl QueuePool {
    /// Creates a pool without queues; they are opened when they are first needed.
    pub fn new(device: Arc<Device>, queues_each: usize) -> Self {
        Self { device, queues_each, state: Mutex::default(), returned: Condvar::new() }
    }

    /// Returns the device that the queues are of.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Prepares for a task: idle queues give up the matrices of the tasks before.
    pub fn begin_task(&self) {
        self.lock().idle.iter_mut().for_each(DeviceQueues::end_task);
    }

    /// Borrows queues. Waits while all are borrowed.
    ///
    /// # Errors
    /// The driver fails, or the device has been disabled.
    pub fn borrow(&self) -> Result<BorrowedQueues<'_>, DeviceError> {
        let mut state = self.lock();
        while state.idle.is_empty() && state.open == MAX_QUEUES {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let queues = match state.idle.pop() {
            Some(queues) => queues,
            None => {
                state.open += 1;
                drop(state);
                let opened = DeviceQueues::new(self.device.clone(), self.queues_each);
                opened.inspect_err(|_| self.forget_one())?
            }
        };
        Ok(BorrowedQueues { pool: self, queues: Some(queues) })
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_one(&self) {
        self.lock().open -= 1;
        self.returned.notify_one();
    }
}

impl BorrowedQueues<'_> {
    /// Returns the queues, for a batch.
    pub fn get(&mut self) -> &mut DeviceQueues {
        self.queues.as_mut().expect("they are here until `drop`")
    }

    /// Closes the queues after an error, so that their memory is free.
    pub fn discard(mut self) {
        let queues = self.queues.take();
        // The driver of a failed device may not return.
        self.pool.forget_one();
        drop(queues);
    }
}

impl Drop for BorrowedQueues<'_> {
    fn drop(&mut self) {
        let Some(queues) = self.queues.take() else { return };
        if self.pool.device.failure().is_some() || std::thread::panicking() {
            self.pool.forget_one();
            drop(queues);
        } else {
            self.pool.lock().idle.push(queues);
            self.pool.returned.notify_one();
        }
    }
}
