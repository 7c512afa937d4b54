//! An assembly line: things are made ready, worked on, and taken off in their order, by threads for each.
//!
//! Tickets go to the readers in order. What is ready goes to whichever thread is free, so a thing that is slow to come holds
//! up nothing but itself; what the threads make of it is put into order again.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Result as Outcome, scope};

use filter::Stop;

/// How a line is manned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedPipeline {
    /// How many things.
    pub item_count: usize,
    /// Threads that make ready. Each holds what it has made ready until somebody takes it: no more than this wait.
    pub prefetch_threads: usize,
    /// Threads that work.
    pub threads: usize,
    /// How many things may be begun before the first of them is taken off.
    pub max_in_flight: usize,
}

/// What came of a thing, by its number.
type StageResult<D> = (usize, Outcome<D>);

impl OrderedPipeline {
    /// Makes all things ready by `load`, works on each by one of the thread's `worker`s, and has `take` take them, in order.
    /// `check` is asked after each whether to go on.
    ///
    /// # Errors
    /// What `check` and `take` say; threads that can't be had.
    ///
    /// # Panics
    /// Where `load` or a worker does, after all threads have ended.
    pub fn run<L: Send, D: Send, W: FnMut(L) -> D>(
        self,
        load: impl Fn(usize) -> L + Sync,
        worker: impl Fn() -> W + Sync,
        check: impl Fn() -> Result<(), Stop>,
        take: impl FnMut(D) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (tickets, queue) = sync_channel(self.max_in_flight);
        let (queue, load, worker) = (&Mutex::new(queue), &load, &worker);
        let no_thread = |why| Stop::fatal("threads", why);
        // Tickets and results are dropped where this returns, for whatever reason. The readers then end, and with the last
        // of them and what it holds, the threads; a reader that nobody takes from any more is let go by the last thread.
        scope(|scope| {
            let (send, results) = sync_channel(self.max_in_flight);
            let (hand_over, ready) = sync_channel(0);
            let ready = Arc::new(Mutex::new(ready));
            for number in 0..self.prefetch_threads.min(self.item_count) {
                let (send, hand_over) = (send.clone(), hand_over.clone());
                let reader = Builder::new().name(format!("read-{number}"));
                let spawned = reader.spawn_scoped(scope, move || prefetch_loop(load, queue, &hand_over, &send));
                spawned.map_err(no_thread)?;
            }
            for number in 0..self.threads {
                let (send, ready) = (send.clone(), ready.clone());
                let thread = Builder::new().name(format!("integrate-{number}"));
                let spawned = thread.spawn_scoped(scope, move || worker_loop(worker(), &ready, &send));
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
            (handed..until).for_each(|index| tickets.send(index).expect("the queue is there for as long as this runs"));
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

/// A reader: something made ready for each ticket.
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

/// A thread: works on what is ready.
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

/// Sends what came of a thing to the thread that waits for it: a panic, too, or it would wait for ever. Whether there may
/// be a next one.
fn send_result<D>(index: usize, done: Outcome<D>, send: &SyncSender<StageResult<D>>) -> bool {
    let has_panicked = done.is_err();
    send.send((index, done)).is_ok() && !has_panicked
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::time::Duration;

    use super::*;

    const LINE: OrderedPipeline = OrderedPipeline { item_count: 20, prefetch_threads: 3, threads: 1, max_in_flight: 6 };

    /// What happened, for others to wait for.
    #[derive(Default)]
    struct EventLog(Mutex<Vec<(&'static str, usize)>>, Condvar);

    impl EventLog {
        fn note(&self, what: &'static str, index: usize) {
            self.0.lock().unwrap().push((what, index));
            self.1.notify_all();
        }

        /// Waits until it happened as often as that; panics if it never does.
        fn wait(&self, what: &'static str, enough: impl Fn(usize) -> bool) {
            let lacks = |log: &mut Vec<_>| !enough(count(log, what));
            let log = self.0.lock().unwrap();
            let (_log, waited) = self.1.wait_timeout_while(log, Duration::from_secs(60), lacks).unwrap();
            assert!(!waited.timed_out(), "{what} never came");
        }

        fn count(&self, what: &'static str) -> usize {
            count(&self.0.lock().unwrap(), what)
        }
    }

    fn count(log: &[(&'static str, usize)], what: &'static str) -> usize {
        log.iter().filter(|(noted, _)| *noted == what).count()
    }

    /// Runs a line whose readers and threads do this, and returns what was taken off.
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
        // The one that is worked on, and one in the hands of each reader.
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
            assert_eq!(run(line, |_| (), |_| ()).unwrap(), (0..line.item_count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn whoever_stops_or_panics_leaves_nobody_waiting() {
        let full = |_: usize| Err(Stop::fatal("part", "no space"));
        let stopped = LINE.run(|index| index, || |index: usize| index, || Ok(()), full);
        assert_eq!(stopped, Err(Stop::fatal("part", "no space")));
        let stopped = LINE.run(|index| index, || |index: usize| index, || Err(Stop::Signal(2)), |_| Ok(()));
        assert_eq!(stopped, Err(Stop::Signal(2)));
        for threads in [1, 4] {
            let line = OrderedPipeline { threads, ..LINE };
            let panics = |index: usize| assert_ne!(index, 7, "on purpose");
            for (load, work) in
                [(&panics as &(dyn Fn(usize) + Sync), &(|_| ()) as &(dyn Fn(usize) + Sync)), (&|_| (), &panics)]
            {
                let ran = catch_unwind(AssertUnwindSafe(|| run(line, load, work)));
                assert!(ran.is_err(), "the panic comes through");
            }
        }
    }
}
