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
    /// `None` only in `drop`.
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
}

impl Drop for BorrowedQueues<'_> {
    fn drop(&mut self) {
        let queues = self.queues.take();
        // Queues of a failed device may hold launches that never end.
        if self.pool.device.failure().is_some() || std::thread::panicking() {
            drop(queues);
            self.pool.forget_one();
        } else {
            self.pool.lock().idle.extend(queues);
            self.pool.returned.notify_one();
        }
    }
}
