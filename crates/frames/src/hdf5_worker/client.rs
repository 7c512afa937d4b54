//! Starts workers, sends them requests, and kills those that make no progress.

use std::io::{self, BufReader, BufWriter};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::message::{FilterQuestion, WorkerAnswer, WorkerFailure, WorkerReply, WorkerRequest, receive, send};
use super::{TIMEOUT_ENV, WORKER_ENV};
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
}

/// Explains why a worker gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error(
        "the HDF5 library made no progress for {} s: the file is damaged, or its storage hangs ({TIMEOUT_ENV} sets the limit)",
        .0.as_secs_f64()
    )]
    TimedOut(Duration),
    #[error("the HDF5 library failed on it ({0}): the file is damaged")]
    Crashed(String),
    #[error("interrupted")]
    Interrupted,
    #[error("no worker process to read it: {0}")]
    System(#[from] io::Error),
}

impl WorkerError {
    /// Returns whether a later attempt may succeed.
    pub(crate) fn is_retryable(&self) -> bool {
        !matches!(self, Self::Crashed(_))
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
        let request = WorkerRequest::Visit { path: path.into(), looks_again: select.looks_again() };
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

    /// Sends any request but `Visit`, and returns the answer and the bytes that follow it.
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
                Err(ExchangeError::Disconnected(why)) => match worker.kill(true) {
                    Some(status)
                        if !is_second && status.signal().is_some_and(|signal| EXTERNAL_SIGNALS.contains(&signal)) =>
                    {
                        is_second = true;
                    }
                    Some(status) => return Err(WorkerError::Crashed(status.to_string())),
                    None => return Err(WorkerError::Crashed(why.to_string())),
                },
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
    io::Error::other(format!("an answer that was not asked for: {reply:?}"))
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
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
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
        let worker = Self { child, requests: BufWriter::new(stdin), replies: queue };
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
                    return wrong(io::ErrorKind::UnexpectedEof, "ended before it said that it is a worker");
                }
                Err(RecvTimeoutError::Timeout) if filter::worker_process::stop_requested() => {
                    return wrong(io::ErrorKind::Interrupted, "not waited for: a signal ends this program");
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() > START_TIMEOUT => {
                    return wrong(io::ErrorKind::TimedOut, "does not say that it is a worker");
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
        let mut heard = Instant::now();
        loop {
            match self.replies.recv_timeout(POLL_INTERVAL) {
                Ok(Ok((WorkerReply::Heartbeat, _))) => heard = Instant::now(),
                Ok(reply) => return Ok(reply?),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ExchangeError::Disconnected(io::ErrorKind::BrokenPipe.into()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if filter::worker_process::stop_requested() {
                        return Err(ExchangeError::Failed(WorkerError::Interrupted));
                    }
                    if let Some(limit) = limit.filter(|limit| heard.elapsed() >= *limit) {
                        return Err(ExchangeError::Failed(WorkerError::TimedOut(limit)));
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
