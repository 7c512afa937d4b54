//! Reads records ahead of their use on a thread of its own, so that the total of the work is known
//! early.
//!
//! The thread only reads and parses. Whoever takes an event acts on it, so failures are reported in
//! the same order, and at the same time, as without reading ahead.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};

use records::Record;

use crate::input::InputChecks;
use crate::record_reader::{InputEvent, RecordReader};
use crate::{Filter, Input, Polled, Stop};

/// The most bytes of lines that are read ahead. The records take about twice the memory of their
/// lines.
const MAX_BYTES: usize = 32 << 20;

/// The records of an input that a thread reads ahead. Any number of threads may take records.
pub struct ReadAhead<'a> {
    filter: &'a Filter,
    /// Locked for as long as a thread waits for a record and checks it, so that failures and
    /// records keep their order.
    checks: Mutex<InputChecks>,
    queue: Mutex<Queue>,
    max_bytes: usize,
    arrived: Condvar,
    taken: Condvar,
}

/// The events that have been read and not been taken.
#[derive(Default)]
struct Queue {
    events: VecDeque<InputEvent>,
    /// The length of the lines in `events`.
    bytes: usize,
    /// Set when the thread has ended.
    end: Option<EndOfReading>,
    /// True once nobody takes records any more.
    is_abandoned: bool,
}

/// The reason why the thread has ended.
#[derive(Clone)]
enum EndOfReading {
    /// All of the input has been read.
    Exhausted,
    /// The filter drains.
    Drained,
    Stopped(Stop),
}

impl Input {
    /// Runs `body` while a thread reads records ahead. `count` sees each record as soon as it has
    /// been read, and `None` at the end of the input. The body takes records until there are none.
    ///
    /// # Errors
    /// Returns the error of `body`, for which all threads are stopped, and fails if the thread
    /// can't be started.
    pub fn read_ahead<T>(
        self,
        filter: &Filter,
        count: impl Fn(Option<&Record>) + Send,
        body: impl FnOnce(&ReadAhead<'_>) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        self.read_ahead_at_most(MAX_BYTES, filter, count, body)
    }

    fn read_ahead_at_most<T>(
        self,
        max_bytes: usize,
        filter: &Filter,
        count: impl Fn(Option<&Record>) + Send,
        body: impl FnOnce(&ReadAhead<'_>) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let Self { reader, checks } = self;
        let ahead = ReadAhead {
            filter,
            checks: Mutex::new(checks),
            queue: Mutex::default(),
            max_bytes,
            arrived: Condvar::new(),
            taken: Condvar::new(),
        };
        thread::scope(|scope| {
            let _abandon = AbandonOnDrop(&ahead);
            let thread = Builder::new().name("read-ahead".to_owned());
            let spawned = thread.spawn_scoped(scope, || ahead.read(reader, count));
            let thread = spawned.map_err(|why| Stop::fatal("starting a thread", why))?;
            let done = body(&ahead).inspect_err(|stop| filter.stop_all_threads(stop));
            ahead.abandon();
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            done
        })
    }
}

impl ReadAhead<'_> {
    /// Returns the next record as [`Input::next`] does.
    ///
    /// # Errors
    /// Fails as [`Input::next`] does.
    pub fn next(&self) -> Result<Option<Record>, Stop> {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.filter.check_stopped()?;
            if self.filter.is_draining() {
                break;
            }
            let Some(event) = self.take()? else { break };
            if let Some(record) = checks.accept(event, self.filter)? {
                return Ok(Some(record));
            }
        }
        if self.is_exhausted() {
            checks.check_end(self.filter);
        }
        Ok(None)
    }

    /// Returns whether all of the input has been read and taken. If the filter drained, false means
    /// that there may be more.
    pub fn is_exhausted(&self) -> bool {
        let queue = self.lock();
        queue.events.is_empty() && matches!(queue.end, Some(EndOfReading::Exhausted))
    }

    /// Waits for the next event; `None` if there will be none.
    fn take(&self) -> Result<Option<InputEvent>, Stop> {
        let mut queue = self.lock();
        loop {
            if let Some(event) = queue.events.pop_front() {
                queue.bytes -= event.length();
                self.taken.notify_one();
                return Ok(Some(event));
            }
            match &queue.end {
                Some(EndOfReading::Stopped(stop)) => return Err(stop.clone()),
                Some(EndOfReading::Exhausted | EndOfReading::Drained) => return Ok(None),
                None => queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Reads until the input ends, the filter drains or stops, or nobody takes records any more.
    fn read(&self, mut reader: RecordReader, count: impl Fn(Option<&Record>)) {
        let _bug = StopOnPanic(self);
        let end = loop {
            match reader.next(self.filter, None) {
                Ok(Polled::Ready(event)) => {
                    if let InputEvent::Record { record, .. } = &event {
                        count(Some(record));
                    }
                    if !self.put(event) {
                        return;
                    }
                }
                Ok(Polled::Pending | Polled::End) if reader.is_exhausted() => {
                    count(None);
                    break EndOfReading::Exhausted;
                }
                Ok(Polled::Pending | Polled::End) => break EndOfReading::Drained,
                Err(stop) => break EndOfReading::Stopped(stop),
            }
        };
        self.end(end);
    }

    /// Adds an event, and waits until there is room for another. Returns false if nobody takes
    /// events any more.
    fn put(&self, event: InputEvent) -> bool {
        let mut queue = self.lock();
        queue.bytes += event.length();
        queue.events.push_back(event);
        self.arrived.notify_one();
        while queue.bytes > self.max_bytes && !queue.is_abandoned {
            queue = self.taken.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        !queue.is_abandoned
    }

    fn end(&self, why: EndOfReading) {
        self.lock().end = Some(why);
        self.arrived.notify_all();
    }

    fn abandon(&self) {
        self.lock().is_abandoned = true;
        self.taken.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InputEvent {
    fn length(&self) -> usize {
        match self {
            Self::Record { length, .. } => *length,
            Self::Failure(fail) => fail.about.len() + fail.error.len(),
        }
    }
}

/// Lets the thread end when the body panics.
struct AbandonOnDrop<'a>(&'a ReadAhead<'a>);

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Ends the wait of those who take records when the thread panics.
struct StopOnPanic<'a>(&'a ReadAhead<'a>);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let why = "internal error, please report this bug of azpipe";
            self.0.end(EndOfReading::Stopped(Stop::fatal("reading records", why)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::CommonArgs;

    const NOTE: &str = r#"{"type":"note","id":"n"}"#;

    /// A filter with its stdout, and an input of these lines.
    fn filter_over(lines: &[&str]) -> (Filter, OwnedFd, Input, tempfile::NamedTempFile) {
        let (stdout, write) = nix::unistd::pipe().expect("a pipe");
        let common = CommonArgs { line_buffered: true, quiet: true, ..CommonArgs::default() };
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        lines.iter().for_each(|line| writeln!(file, "{line}").expect("a line"));
        let input = Input::open(&[file.path().to_path_buf()]).expect("an input");
        (Filter::new("test", &common, write).expect("a filter"), stdout, input, file)
    }

    fn wait_for(done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < Duration::from_secs(60), "it never came to that");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_is_read_ahead_is_acted_on_when_it_is_taken() {
        let (filter, stdout, input, _file) = filter_over(&[NOTE, "bad", NOTE]);
        let (counted, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let count = |record: Option<&Record>| {
            if record.is_some() { &counted } else { &ended }.fetch_add(1, SeqCst);
        };
        input
            .read_ahead(&filter, count, |ahead| {
                wait_for(|| ended.load(SeqCst) == 1);
                assert_eq!(
                    (counted.load(SeqCst), filter.has_failed()),
                    (2, false),
                    "read, and nothing reported"
                );
                filter.emit(&ahead.next()?.expect("the first record"))?;
                assert!(!ahead.is_exhausted() && !filter.has_failed());
                filter.emit(&ahead.next()?.expect("the record after the bad line"))?;
                assert!(filter.has_failed() && ahead.is_exhausted());
                assert_eq!(ahead.next()?, None);
                Ok(())
            })
            .expect("nothing stops it");
        drop(filter);
        let mut written = String::new();
        File::from(stdout).read_to_string(&mut written).expect("UTF-8");
        let kinds: Vec<&str> =
            written.lines().map(|line| if line == NOTE { "note" } else { "fail" }).collect();
        assert_eq!(kinds, ["note", "fail", "note"], "{written}");
    }

    #[test]
    fn no_more_is_read_than_there_is_room_for() {
        let (filter, _stdout, input, _file) = filter_over(&[NOTE; 100]);
        let counted = AtomicUsize::new(0);
        let count = |record: Option<&Record>| {
            counted.fetch_add(usize::from(record.is_some()), SeqCst);
        };
        let room_for_three = 3 * NOTE.len();
        let taken = input.read_ahead_at_most(room_for_three, &filter, count, |ahead| {
            let mut taken = 0;
            loop {
                wait_for(|| counted.load(SeqCst) == (taken + 4).min(100));
                if ahead.next()?.is_none() {
                    return Ok(taken);
                }
                taken += 1;
                assert!(counted.load(SeqCst) <= taken + 4);
            }
        });
        assert_eq!(taken, Ok(100));
    }

    #[test]
    fn a_drain_leaves_what_was_read_and_not_taken() {
        let (filter, _stdout, input, _file) = filter_over(&[NOTE; 3]);
        let ended = AtomicUsize::new(0);
        let count = |record: Option<&Record>| {
            ended.fetch_add(usize::from(record.is_none()), SeqCst);
        };
        let outcome = input.read_ahead(&filter, count, |ahead| {
            assert!(ahead.next()?.is_some());
            wait_for(|| ended.load(SeqCst) == 1);
            filter.drain_at(Instant::now());
            assert_eq!(ahead.next()?, None);
            Ok(ahead.is_exhausted())
        });
        assert_eq!(outcome, Ok(false));
    }

    #[test]
    fn whoever_stops_leaves_nobody_waiting() {
        let (filter, _stdout, _, _) = filter_over(&[]);
        let (silent, _open) = nix::unistd::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&silent));
        let input = Input::open(&[path.into()]).expect("an input");
        let stopped: Result<(), Stop> =
            input.read_ahead(&filter, |_| (), |_| Err(Stop::fatal("part", "no space")));
        assert_eq!(stopped, Err(Stop::fatal("part", "no space")));
    }
}
