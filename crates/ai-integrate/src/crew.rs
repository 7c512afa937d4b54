//! The threads of a task: windows of frames in, their rows out in the order of the frames.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Result as Outcome, scope};

use manners::{Filter, Stop};

use crate::aboard::Berth;
use crate::pass::Pass;
use crate::sources::Sources;
use crate::window::{Worker, Yield};
use crate::work::Windows;

/// Bytes of rows that may wait for an earlier window, beyond one window a thread.
const MOST_WAITING: usize = 512 << 20;

/// What the threads of a task share.
pub struct Crew<'a> {
    /// The running filter.
    pub filter: &'a Filter,
    /// How many threads.
    pub threads: usize,
    /// Frames that are integrated side by side.
    pub batch: usize,
    /// The recipes that frames go through together, for each set of the windows.
    pub passes: &'a [Pass<'a>],
    /// The device that integrates, if any.
    pub berth: Option<&'a Berth>,
    /// Where the frames are.
    pub sources: &'a Sources<'a>,
    /// The frames.
    pub windows: &'a Windows,
}

/// What came of a window, by its index; `None` where the filter drained before it was begun.
type Done = (usize, Outcome<Option<Yield>>);

impl Crew<'_> {
    /// Integrates the windows on all threads, and hands each to `take`, in their order. Once the filter
    /// drains, those that have not begun are left out.
    ///
    /// # Errors
    /// A signal; what `take` says; threads that can't be had.
    pub fn work(&self, take: impl FnMut(Yield) -> Result<(), Stop>) -> Result<(), Stop> {
        let (tickets, queue) = sync_channel(self.ahead());
        let queue = Mutex::new(queue);
        // Tickets and results are dropped where this returns, for whatever reason: the threads then end.
        scope(|scope| {
            let (send, results) = sync_channel(self.ahead());
            for number in 0..self.threads {
                let (send, queue) = (send.clone(), &queue);
                let thread = Builder::new().name(format!("integrate-{number}"));
                let spawned = thread.spawn_scoped(scope, move || self.serve(queue, &send));
                spawned.map_err(|why| Stop::fatal("threads", why))?;
            }
            drop(send);
            self.in_order(tickets, results, take)
        })
    }

    /// How many windows may be at work, or done and waiting for an earlier one: a slow file must not
    /// make the rows of all others pile up.
    pub fn ahead(&self) -> usize {
        // Signal and variance, and the three weights of a frame with invalid pixels.
        let row = 5 * size_of::<f64>() * self.bins();
        let windows = MOST_WAITING / (row * self.windows.longest()).max(1);
        windows.clamp(self.threads, 4 * self.threads)
    }

    /// Bins of all patterns of a frame.
    pub fn bins(&self) -> usize {
        self.passes.iter().map(|pass| pass.together.bins()).max().unwrap_or(0)
    }

    /// A thread: a window for each ticket.
    fn serve(&self, queue: &Mutex<Receiver<usize>>, send: &SyncSender<Done>) {
        let mut worker = Worker::new(self.passes, self.sources, self.batch, self.berth);
        loop {
            let ticket = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(index) = ticket else { break };
            let window = || (!self.filter.draining()).then(|| worker.window(self.windows.window(index)));
            // A panic must reach the thread that waits for this window, and not leave it waiting.
            let done = catch_unwind(AssertUnwindSafe(window));
            let has_panicked = done.is_err();
            if send.send((index, done)).is_err() || has_panicked {
                break;
            }
        }
    }

    fn in_order(
        &self,
        tickets: SyncSender<usize>,
        results: Receiver<Done>,
        mut take: impl FnMut(Yield) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let ahead = self.ahead();
        let mut waiting = BTreeMap::new();
        let (mut handed, mut next) = (0, 0);
        while next < self.windows.count() {
            let until = self.windows.count().min(next + ahead);
            (handed..until).for_each(|index| tickets.send(index).expect("the queue is there for as long as this runs"));
            handed = until;
            let (index, window) = results.recv().expect("a thread ends without a ticket alone");
            self.filter.check()?;
            waiting.insert(index, window.unwrap_or_else(|panic| resume_unwind(panic)));
            while let Some(window) = waiting.remove(&next) {
                window.map_or(Ok(()), &mut take)?;
                next += 1;
            }
        }
        Ok(())
    }
}
