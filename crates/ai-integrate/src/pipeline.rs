//! An ordered pipeline: prefetch threads load items, worker threads process them, and the caller
//! takes the results in order.
//!
//! Prefetch threads take tickets in order. A loaded item goes to whichever worker is free, so an
//! item that is slow to load delays nothing but itself. The results are put back into order at the
//! end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Result as Outcome, scope};

use filter::Stop;

/// Sizes of the pipeline: its items, its threads, and how many items may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedPipeline {
    /// The number of items.
    pub item_count: usize,
    /// The number of prefetch threads. Each holds its loaded item until a worker takes it, so at
    /// most this many items wait.
    pub prefetch_threads: usize,
    /// The number of worker threads.
    pub threads: usize,
    /// How many items may be begun before the caller has taken the first of them.
    pub max_in_flight: usize,
}

/// The number of an item, and its result or panic.
type StageResult<D> = (usize, Outcome<D>);

impl OrderedPipeline {
    /// Loads all items by `load`, processes each by one of the threads' `worker`s, and passes the
    /// results to `take` in order. After each result, `check` decides whether to go on.
    ///
    /// # Errors
    /// Returns the errors of `check` and `take`, and fails if a thread can't be started.
    ///
    /// # Panics
    /// Resumes a panic of `load` or of a worker after all threads have ended.
    pub fn run<L: Send, D: Send, W: FnMut(L) -> D>(
        self,
        load: impl Fn(usize) -> L + Sync,
        worker: impl Fn() -> W + Sync,
        check: impl Fn() -> Result<(), Stop>,
        take: impl FnMut(D) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (tickets, queue) = sync_channel(self.max_in_flight);
        let (queue, load, worker) = (&Mutex::new(queue), &load, &worker);
        let no_thread = |why| Stop::fatal("starting a thread", why);
        // Returning for any reason drops the tickets and the results. The prefetch threads then
        // end, and the workers end when the last of them is gone. The last worker that ends
        // releases a prefetch thread whose item nobody takes.
        scope(|scope| {
            let (send, results) = sync_channel(self.max_in_flight);
            let (hand_over, ready) = sync_channel(0);
            let ready = Arc::new(Mutex::new(ready));
            for number in 0..self.prefetch_threads.min(self.item_count) {
                let (send, hand_over) = (send.clone(), hand_over.clone());
                let reader = Builder::new().name(format!("read-{number}"));
                let spawned = reader
                    .spawn_scoped(scope, move || prefetch_loop(load, queue, &hand_over, &send));
                spawned.map_err(no_thread)?;
            }
            for number in 0..self.threads {
                let (send, ready) = (send.clone(), ready.clone());
                let thread = Builder::new().name(format!("integrate-{number}"));
                let spawned =
                    thread.spawn_scoped(scope, move || worker_loop(worker(), &ready, &send));
                spawned.map_err(no_thread)?;
            }
            drop((send, hand_over, ready));
            self.collect_in_order(tickets, results, check, take)
        })
    }

    fn collect_in_order<D>(
        self,
        tickets: SyncSender<usize>,
        results: Receiver<StageResult<D>>,
        check: impl Fn() -> Result<(), Stop>,
        mut take: impl FnMut(D) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut waiting = BTreeMap::new();
        let (mut handed, mut next) = (0, 0);
        while next < self.item_count {
            let until = self.item_count.min(next + self.max_in_flight);
            (handed..until).for_each(|index| {
                tickets.send(index).expect("the queue is there for as long as this runs")
            });
            handed = until;
            let (index, done) = results.recv().expect("a thread ends without a ticket alone");
            check()?;
            waiting.insert(index, done.unwrap_or_else(|panic| resume_unwind(panic)));
            while let Some(done) = waiting.remove(&next) {
                take(done)?;
                next += 1;
            }
        }
        Ok(())
    }
}

/// Loads one item for each ticket.
fn prefetch_loop<L, D>(
    load: &impl Fn(usize) -> L,
    queue: &Mutex<Receiver<usize>>,
    hand_over: &SyncSender<(usize, L)>,
    send: &SyncSender<StageResult<D>>,
) {
    loop {
        let ticket = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(index) = ticket else { break };
        let goes_on = match catch_unwind(AssertUnwindSafe(|| load(index))) {
            Ok(load) => hand_over.send((index, load)).is_ok(),
            Err(panic) => send_result(index, Err(panic), send),
        };
        if !goes_on {
            break;
        }
    }
}

/// Processes loaded items until there are no more.
fn worker_loop<L, D>(
    mut worker: impl FnMut(L) -> D,
    ready: &Mutex<Receiver<(usize, L)>>,
    send: &SyncSender<StageResult<D>>,
) {
    loop {
        let next = ready.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((index, load)) = next else { break };
        if !send_result(index, catch_unwind(AssertUnwindSafe(|| worker(load))), send) {
            break;
        }
    }
}

/// Sends the result of an item to the thread that waits for it, or its panic, without which that
/// thread would wait forever. Returns whether the worker may go on to the next item.
fn send_result<D>(index: usize, done: Outcome<D>, send: &SyncSender<StageResult<D>>) -> bool {
    let has_panicked = done.is_err();
    send.send((index, done)).is_ok() && !has_panicked
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::time::Duration;

    use super::*;

    const LINE: OrderedPipeline =
        OrderedPipeline { item_count: 20, prefetch_threads: 3, threads: 1, max_in_flight: 6 };

    /// A log of events that tests wait for.
    #[derive(Default)]
    struct EventLog(Mutex<Vec<(&'static str, usize)>>, Condvar);

    impl EventLog {
        fn note(&self, what: &'static str, index: usize) {
            self.0.lock().unwrap().push((what, index));
            self.1.notify_all();
        }

        /// Waits until the event has happened often enough, and panics if it never does.
        fn wait(&self, what: &'static str, enough: impl Fn(usize) -> bool) {
            let lacks = |log: &mut Vec<_>| !enough(count(log, what));
            let log = self.0.lock().unwrap();
            let (_log, waited) =
                self.1.wait_timeout_while(log, Duration::from_secs(60), lacks).unwrap();
            assert!(!waited.timed_out(), "{what} never came");
        }

        fn count(&self, what: &'static str) -> usize {
            count(&self.0.lock().unwrap(), what)
        }
    }

    fn count(log: &[(&'static str, usize)], what: &'static str) -> usize {
        log.iter().filter(|(noted, _)| *noted == what).count()
    }

    /// Runs a pipeline with these stages, and returns the results that were taken.
    fn run(
        line: OrderedPipeline,
        load: impl Fn(usize) + Sync,
        work: impl Fn(usize) + Sync,
    ) -> Result<Vec<usize>, Stop> {
        let mut taken = Vec::new();
        let load = |index| {
            load(index);
            index
        };
        let worker = || {
            |index| {
                work(index);
                index
            }
        };
        let take = |index| {
            taken.push(index);
            Ok(())
        };
        line.run(load, worker, || Ok(()), take)?;
        Ok(taken)
    }

    #[test]
    fn a_thing_that_is_slow_to_come_holds_up_nothing_but_itself() {
        let log = EventLog::default();
        let load = |index| {
            if index == 0 {
                log.wait("worked", |others| others == 5)
            }
        };
        let taken = run(LINE, load, |index| log.note("worked", index)).unwrap();
        assert_eq!(taken, (0..20).collect::<Vec<_>>(), "in order all the same");
    }

    #[test]
    fn the_next_are_made_ready_while_threads_work_and_no_more_than_readers_wait() {
        let (log, line) = (EventLog::default(), OrderedPipeline { max_in_flight: 12, ..LINE });
        // The item in progress, and one item held by each prefetch thread.
        let most = |worked: usize| (worked + 1 + line.prefetch_threads).min(line.item_count);
        let load = |index| log.note("ready", index);
        let work = |index: usize| {
            let worked = log.count("worked");
            log.wait("ready", |ready| ready == most(worked));
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(log.count("ready"), most(worked));
            log.note("worked", index);
        };
        assert_eq!(run(line, load, work).unwrap().len(), 20);
        for line in [
            OrderedPipeline { threads: 5, max_in_flight: 9, ..LINE },
            OrderedPipeline { prefetch_threads: 1, max_in_flight: 2, ..LINE },
            OrderedPipeline { item_count: 0, ..LINE },
        ] {
            assert_eq!(
                run(line, |_| (), |_| ()).unwrap(),
                (0..line.item_count).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn whoever_stops_or_panics_leaves_nobody_waiting() {
        let full = |_: usize| Err(Stop::fatal("part", "no space"));
        let stopped = LINE.run(|index| index, || |index: usize| index, || Ok(()), full);
        assert_eq!(stopped, Err(Stop::fatal("part", "no space")));
        let stopped =
            LINE.run(|index| index, || |index: usize| index, || Err(Stop::Signal(2)), |_| Ok(()));
        assert_eq!(stopped, Err(Stop::Signal(2)));
        for threads in [1, 4] {
            let line = OrderedPipeline { threads, ..LINE };
            let panics = |index: usize| assert_ne!(index, 7, "on purpose");
            for (load, work) in [
                (&panics as &(dyn Fn(usize) + Sync), &(|_| ()) as &(dyn Fn(usize) + Sync)),
                (&|_| (), &panics),
            ] {
                let ran = catch_unwind(AssertUnwindSafe(|| run(line, load, work)));
                assert!(ran.is_err(), "the panic comes through");
            }
        }
    }
}
