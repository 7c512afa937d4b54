//! Starts workers, sends them requests, and kills those that make no progress.

use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::message::{FilterQuestion, WorkerAnswer, WorkerFailure, WorkerReply, WorkerRequest, receive, send};
use super::{MAX_MEMORY_BYTES, TIMEOUT_ENV, UNEXPECTED_ANSWER, WORKER_ENV};
use crate::discover::{Discovery, ScanFilter};

/// Time limit for a worker to report that it has started. On a loaded machine, its program may have to be loaded
/// from a slow network file system.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit for a worker to exit after it closed its pipe.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which a wait checks whether the filter is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Signals that are sent to a whole process group, and may reach a worker before it blocks them. They are no
/// defect of a file.
const EXTERNAL_SIGNALS: [i32; 5] = [1, 2, 10, 13, 15];

const SIGKILL: i32 = 9;

/// Maximum number of bytes that are kept of a worker's messages.
const MESSAGE_BYTES: usize = 1 << 12;

static CLIENT: OnceLock<WorkerClient> = OnceLock::new();

/// Makes later reads use a worker.
pub(super) fn start(limit: Option<Duration>) {
    let _ = CLIENT.set(WorkerClient { limit, worker: Mutex::default() });
}

/// Returns the client if metadata are read by a worker.
pub(crate) fn client() -> Option<&'static WorkerClient> {
    CLIENT.get()
}

/// Sends requests to a worker, which is started when needed.
pub(crate) struct WorkerClient {
    limit: Option<Duration>,
    worker: Mutex<Option<WorkerProcess>>,
}

struct WorkerProcess {
    child: Child,
    requests: BufWriter<ChildStdin>,
    replies: Receiver<io::Result<(WorkerReply, Vec<u8>)>>,
    /// Thread that returns the end of what the worker wrote to stderr.
    messages: Option<JoinHandle<String>>,
}

/// Explains why a worker gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error(
        "the HDF5 library made no progress for {} s: the file may be damaged: replace it by a sound copy and run again \
         ({TIMEOUT_ENV} sets the limit)",
        .0.as_secs_f64()
    )]
    TimedOut(Duration),
    #[error(
        "its storage gave no answer for {} s: run again when it does ({TIMEOUT_ENV} sets the limit)",
        .0.as_secs_f64()
    )]
    StorageTimedOut(Duration),
    #[error(
        "the process that reads it ran out of memory ({why}): give it more (a job's --mem, ulimit -v; it takes no more than \
         {most} GiB), unless the file is damaged and asks for too much",
        most = MAX_MEMORY_BYTES >> 30
    )]
    OutOfMemory { why: String },
    #[error(
        "the process that reads it with the HDF5 library ended ({0}): the file may be damaged: replace it by a sound copy \
         and run again"
    )]
    Ended(String),
    #[error("a signal stopped the filter")]
    Interrupted,
    #[error("the process that reads HDF5 files can't be started: {0}")]
    System(#[from] io::Error),
}

impl WorkerError {
    /// Returns whether a later attempt may succeed.
    pub(crate) fn is_retryable(&self) -> bool {
        !matches!(self, Self::Ended(_))
    }

    /// Returns whether the library hung or crashed, as it does on damaged files, with nothing else known that
    /// explains it.
    pub(crate) fn suggests_damage(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Ended(_))
    }

    /// Returns the error for a worker that ended by itself, and whose last words were `said`. The kernel kills a
    /// process with SIGKILL when memory runs out, and Rust aborts it when an allocation fails.
    fn from_end(status: ExitStatus, said: &str) -> Self {
        let allocation = said.lines().rev().find(|line| line.starts_with("memory allocation of "));
        match (allocation, status.signal()) {
            (Some(line), _) => Self::OutOfMemory { why: line.to_owned() },
            (None, Some(SIGKILL)) => Self::OutOfMemory { why: format!("{status}, as the system kills a process then") },
            (None, _) => Self::Ended(status.to_string()),
        }
    }
}

/// Ends the worker, unless it is ready for another request.
enum Exchange<T> {
    Ready(T),
    End(T),
}

impl WorkerClient {
    /// Reports the scans of a file, like [`walk`](crate::discover::walk).
    pub(crate) fn visit<E>(
        &self,
        path: &Path,
        select: &dyn ScanFilter,
        each: &mut dyn FnMut(Discovery) -> Result<(), E>,
    ) -> Result<Result<(), E>, WorkerError> {
        let request = WorkerRequest::Discover { path: path.into(), looks_again: select.looks_again() };
        self.exchange(&request, &mut |reply, _, to| match reply {
            WorkerReply::Query(question) => {
                let answer = match question {
                    FilterQuestion::Entry(name) => select.includes_entry(&name),
                    FilterQuestion::Detector(name) => select.includes_detector(&name),
                    FilterQuestion::Scan(title, start) => select.includes_scan(title.as_deref(), start.as_deref()),
                    FilterQuestion::Linked(file) => select.includes_linked_file(file.as_ref()),
                };
                send(to, &WorkerRequest::Answer(answer), &[])?;
                Ok(None)
            }
            // An error of `each` stops the walk; the worker, still in the middle of it, is killed.
            WorkerReply::Found(found) => Ok(each((*found).into()).err().map(|stop| Exchange::End(Err(stop)))),
            WorkerReply::Finished(Ok(WorkerAnswer::Visited)) => Ok(Some(Exchange::Ready(Ok(())))),
            WorkerReply::Finished(Err(WorkerFailure::Hdf5(why))) => Err(io::Error::other(why)),
            other => Err(unexpected_reply(&other)),
        })
    }

    /// Sends any request but `Discover`, and returns the answer and the bytes that follow it.
    pub(crate) fn request(
        &self,
        request: &WorkerRequest,
    ) -> Result<Result<(WorkerAnswer, Vec<u8>), WorkerFailure>, WorkerError> {
        self.exchange(request, &mut |reply, bulk, _| match reply {
            WorkerReply::Finished(answer) => Ok(Some(Exchange::Ready(answer.map(|answer| (answer, bulk))))),
            other => Err(unexpected_reply(&other)),
        })
    }

    /// Sends a request, and passes the replies to `take` until it returns a result. A worker that was killed by
    /// a signal to the whole process group is replaced once.
    fn exchange<T>(&self, request: &WorkerRequest, take: &mut ReplyHandler<'_, T>) -> Result<T, WorkerError> {
        let mut slot = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_second = false;
        loop {
            let mut worker = match slot.take() {
                Some(worker) => worker,
                None => WorkerProcess::start().map_err(|why| match why.kind() {
                    io::ErrorKind::Interrupted => WorkerError::Interrupted,
                    _ => WorkerError::System(why),
                })?,
            };
            match worker.ask(request, take, self.limit) {
                Ok(Exchange::Ready(answer)) => {
                    *slot = Some(worker);
                    return Ok(answer);
                }
                Ok(Exchange::End(answer)) => {
                    worker.kill(false);
                    return Ok(answer);
                }
                Err(ExchangeError::Failed(why)) => {
                    worker.kill(false);
                    return Err(why);
                }
                Err(ExchangeError::Disconnected(why)) => {
                    let messages = worker.messages.take();
                    match worker.kill(true) {
                        Some(status)
                            if !is_second
                                && status.signal().is_some_and(|signal| EXTERNAL_SIGNALS.contains(&signal)) =>
                        {
                            is_second = true;
                        }
                        Some(status) => {
                            let said = messages.and_then(|messages| messages.join().ok()).unwrap_or_default();
                            return Err(WorkerError::from_end(status, &said));
                        }
                        None if why.kind() == io::ErrorKind::OutOfMemory => return Err(WorkerError::System(why)),
                        None => return Err(WorkerError::Ended(why.to_string())),
                    }
                }
            }
        }
    }
}

type ReplyHandler<'a, T> =
    dyn FnMut(WorkerReply, Vec<u8>, &mut BufWriter<ChildStdin>) -> io::Result<Option<Exchange<T>>> + 'a;

enum ExchangeError {
    Failed(WorkerError),
    /// The worker closed its pipe, or sent an invalid message.
    Disconnected(io::Error),
}

impl From<io::Error> for ExchangeError {
    fn from(why: io::Error) -> Self {
        Self::Disconnected(why)
    }
}

fn unexpected_reply(reply: &WorkerReply) -> io::Error {
    io::Error::other(format!("{UNEXPECTED_ANSWER}: {reply:?}"))
}

/// Reads a stream to its end, and returns the last bytes as text.
fn read_tail(mut stream: impl Read) -> String {
    let (mut tail, mut buffer) = (Vec::new(), [0; MESSAGE_BYTES]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        tail.extend_from_slice(&buffer[..count]);
        tail.drain(..tail.len().saturating_sub(MESSAGE_BYTES));
    }
    String::from_utf8_lossy(&tail).into_owned()
}

impl WorkerProcess {
    /// Starts this program as a worker. Under a wrapper such as Valgrind, the path of the running program is the
    /// wrapper's and doesn't answer as a worker; the program is then started by its name.
    ///
    /// # Errors
    /// No process can be started, or the program doesn't answer as a worker.
    fn start() -> io::Result<Self> {
        let own = Path::new("/proc/self/exe");
        match Self::start_program(own) {
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => match std::env::current_exe() {
                Ok(named) => Self::start_program(&named),
                Err(_) => Err(why),
            },
            started => started,
        }
    }

    /// Starts a program, and waits for its message that it is a worker.
    fn start_program(program: &Path) -> io::Result<Self> {
        // A process group of its own keeps the terminal's signals from the worker.
        let mut child = Command::new(program)
            .env(WORKER_ENV, "1")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        // Without this thread, the worker's messages are lost, but nothing else.
        let messages = thread::Builder::new().name("messages".to_owned()).spawn(move || read_tail(stderr)).ok();
        let (replies, queue) = channel();
        let started = thread::Builder::new().name("replies".to_owned()).spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let reply = receive(&mut stdout).and_then(|reply| reply.ok_or(io::ErrorKind::UnexpectedEof.into()));
                let has_ended = reply.is_err();
                if replies.send(reply).is_err() || has_ended {
                    return;
                }
            }
        });
        let worker = Self { child, requests: BufWriter::new(stdin), replies: queue, messages };
        match started.and_then(|_| worker.wait_for_start(program)) {
            Ok(()) => Ok(worker),
            Err(why) => {
                worker.kill(false);
                Err(why)
            }
        }
    }

    fn wait_for_start(&self, program: &Path) -> io::Result<()> {
        let wrong = |kind, why: &str| Err(io::Error::new(kind, format!("{}: {why}", program.display())));
        let began = Instant::now();
        loop {
            match self.replies.recv_timeout(POLL_INTERVAL) {
                Ok(Ok((WorkerReply::Started, _))) => return Ok(()),
                Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                    return wrong(io::ErrorKind::UnexpectedEof, "ended before it answered as a worker");
                }
                Err(RecvTimeoutError::Timeout) if filter::process_control::stop_requested() => {
                    return wrong(io::ErrorKind::Interrupted, "not waited for, because a signal stopped the filter");
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() > START_TIMEOUT => {
                    let why = format!("did not answer as a worker within {} s", START_TIMEOUT.as_secs());
                    return wrong(io::ErrorKind::TimedOut, &why);
                }
                Err(RecvTimeoutError::Timeout) => (),
            }
        }
    }

    fn ask<T>(
        &mut self,
        request: &WorkerRequest,
        take: &mut ReplyHandler<'_, T>,
        limit: Option<Duration>,
    ) -> Result<Exchange<T>, ExchangeError> {
        send(&mut self.requests, request, &[])?;
        loop {
            let (reply, bulk) = self.next(limit)?;
            if let Some(outcome) = take(reply, bulk, &mut self.requests)? {
                return Ok(outcome);
            }
        }
    }

    /// Returns the next reply that is not a heartbeat.
    fn next(&mut self, limit: Option<Duration>) -> Result<(WorkerReply, Vec<u8>), ExchangeError> {
        let (mut heard, mut is_in_storage) = (Instant::now(), false);
        loop {
            match self.replies.recv_timeout(POLL_INTERVAL) {
                Ok(Ok((WorkerReply::Heartbeat, _))) => (heard, is_in_storage) = (Instant::now(), false),
                Ok(Ok((WorkerReply::StorageWait(waits), _))) => is_in_storage = waits,
                Ok(reply) => return Ok(reply?),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ExchangeError::Disconnected(io::ErrorKind::BrokenPipe.into()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if filter::process_control::stop_requested() {
                        return Err(ExchangeError::Failed(WorkerError::Interrupted));
                    }
                    if let Some(limit) = limit.filter(|limit| heard.elapsed() >= *limit) {
                        return Err(ExchangeError::Failed(match is_in_storage {
                            true => WorkerError::StorageTimedOut(limit),
                            false => WorkerError::TimedOut(limit),
                        }));
                    }
                }
            }
        }
    }

    /// Kills the worker, and returns its exit status if it ended by itself. A worker that has closed its pipe
    /// gets time to exit.
    fn kill(mut self, is_ending: bool) -> Option<ExitStatus> {
        let began = Instant::now();
        let mut ended = None;
        while is_ending && ended.is_none() && began.elapsed() < EXIT_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
            ended = self.child.try_wait().ok().flatten();
        }
        // The worker may have exited meanwhile; it is waited for in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_worker_is_told_by_what_is_known_of_it() {
        let by_signal = ExitStatus::from_raw;
        let aborted = WorkerError::from_end(by_signal(6), "thread ...\nmemory allocation of 2684354560 bytes failed\n");
        let killed = WorkerError::from_end(by_signal(SIGKILL), "");
        for error in [&aborted, &killed] {
            let said = error.to_string();
            assert!(said.contains("ran out of memory") && said.contains("32 GiB"), "{said}");
            assert!(error.is_retryable() && !error.suggests_damage());
        }
        assert!(aborted.to_string().contains("memory allocation of 2684354560 bytes failed"));
        assert!(killed.to_string().contains("SIGKILL"));
        for signal in [6, 7, 8, 11] {
            let crashed = WorkerError::from_end(by_signal(signal), "free(): invalid pointer\n");
            let said = crashed.to_string();
            assert!(said.contains(&format!("signal: {signal} ")) && said.contains("may be damaged"), "{said}");
            assert!(!crashed.is_retryable() && crashed.suggests_damage());
        }
    }

    #[test]
    fn of_many_messages_the_last_are_kept() {
        let many = "x\n".repeat(1 << 20) + "memory allocation of 1 bytes failed";
        let tail = read_tail(many.as_bytes());
        assert!(tail.len() <= MESSAGE_BYTES && tail.ends_with("\nmemory allocation of 1 bytes failed"));
    }
}
