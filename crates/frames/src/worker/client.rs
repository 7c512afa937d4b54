//! The filter's side: starts workers, asks them, and ends those that do not get on.

use std::io::{self, BufReader, BufWriter};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::message::{Answer, Failure, Question, Reply, Request, receive, send};
use super::{IS_WORKER, TIMEOUT};
use crate::find::{Found, Select};

/// How long a process may take to say that it is a worker: on a loaded machine with its programs on a cold network file system.
const MOST_START: Duration = Duration::from_secs(120);

/// How long a worker that has closed its pipe may take to end.
const MOST_END: Duration = Duration::from_secs(2);

/// How often a wait looks whether the filter is to stop.
const TICK: Duration = Duration::from_millis(50);

/// Signals that are sent to a filter and all that it started, before the worker could decline them: no fault of a file.
const NO_FAULT: [i32; 5] = [1, 2, 10, 13, 15];

static CLIENT: OnceLock<Client> = OnceLock::new();

/// Has workers read from now on.
pub(super) fn start(limit: Option<Duration>) {
    let _ = CLIENT.set(Client { limit, worker: Mutex::default() });
}

/// The client, where workers read.
pub(crate) fn running() -> Option<&'static Client> {
    CLIENT.get()
}

/// Asks a worker, and starts it when it is needed.
pub(crate) struct Client {
    limit: Option<Duration>,
    worker: Mutex<Option<Worker>>,
}

struct Worker {
    child: Child,
    requests: BufWriter<ChildStdin>,
    replies: Receiver<io::Result<(Reply, Vec<u8>)>>,
}

/// Why a worker gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error(
        "the HDF5 library does not get on with it for {} s: the file is damaged, or its storage hangs ({TIMEOUT} sets the limit)",
        .0.as_secs_f64()
    )]
    TimedOut(Duration),
    #[error("the HDF5 library failed on it ({0}): the file is damaged")]
    Died(String),
    #[error("interrupted")]
    Interrupted,
    #[error("no worker process to read it: {0}")]
    System(#[from] io::Error),
}

impl NoAnswer {
    /// Whether the file may well be read another time.
    pub(crate) fn is_retryable(&self) -> bool {
        !matches!(self, Self::Died(_))
    }
}

/// Ends the worker, unless it is ready for another request.
enum Outcome<T> {
    Ready(T),
    End(T),
}

impl Client {
    /// The scans of a file: as [`visit`](crate::find::visit).
    pub(crate) fn visit<E>(
        &self,
        path: &Path,
        select: &dyn Select,
        each: &mut dyn FnMut(Found) -> Result<(), E>,
    ) -> Result<Result<(), E>, NoAnswer> {
        let request = Request::Visit { path: path.into(), looks_again: select.looks_again() };
        self.ask(&request, &mut |reply, _, to| match reply {
            Reply::Ask(question) => {
                let answer = match question {
                    Question::Entry(name) => select.entry(&name),
                    Question::Detector(name) => select.detector(&name),
                    Question::Scan(title, start) => select.scan(title.as_deref(), start.as_deref()),
                    Question::Linked(file) => select.linked(file.as_ref()),
                };
                send(to, &Request::Answer(answer), &[])?;
                Ok(None)
            }
            // Whoever wants no more leaves the worker in the middle of it.
            Reply::Found(found) => Ok(each((*found).into()).err().map(|stop| Outcome::End(Err(stop)))),
            Reply::Done(Ok(Answer::Visited)) => Ok(Some(Outcome::Ready(Ok(())))),
            Reply::Done(Err(Failure::Hdf5(why))) => Err(io::Error::other(why)),
            other => Err(unexpected(&other)),
        })
    }

    /// Any request but a visit: the last answer, and the bytes behind it.
    pub(crate) fn request(&self, request: &Request) -> Result<Result<(Answer, Vec<u8>), Failure>, NoAnswer> {
        self.ask(request, &mut |reply, bulk, _| match reply {
            Reply::Done(answer) => Ok(Some(Outcome::Ready(answer.map(|answer| (answer, bulk))))),
            other => Err(unexpected(&other)),
        })
    }

    /// Sends a request, and hands the replies to `take` until it has what it wants. A worker that was ended by a signal for all is
    /// replaced once.
    fn ask<T>(&self, request: &Request, take: &mut Take<'_, T>) -> Result<T, NoAnswer> {
        let mut slot = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_second = false;
        loop {
            let mut worker = match slot.take() {
                Some(worker) => worker,
                None => Worker::start().map_err(|why| match why.kind() {
                    io::ErrorKind::Interrupted => NoAnswer::Interrupted,
                    _ => NoAnswer::System(why),
                })?,
            };
            match worker.ask(request, take, self.limit) {
                Ok(Outcome::Ready(answer)) => {
                    *slot = Some(worker);
                    return Ok(answer);
                }
                Ok(Outcome::End(answer)) => {
                    worker.end(false);
                    return Ok(answer);
                }
                Err(Trouble::No(why)) => {
                    worker.end(false);
                    return Err(why);
                }
                Err(Trouble::Gone(why)) => match worker.end(true) {
                    Some(status) if !is_second && status.signal().is_some_and(|signal| NO_FAULT.contains(&signal)) => {
                        is_second = true;
                    }
                    Some(status) => return Err(NoAnswer::Died(status.to_string())),
                    None => return Err(NoAnswer::Died(why.to_string())),
                },
            }
        }
    }
}

type Take<'a, T> = dyn FnMut(Reply, Vec<u8>, &mut BufWriter<ChildStdin>) -> io::Result<Option<Outcome<T>>> + 'a;

enum Trouble {
    No(NoAnswer),
    /// The worker's end of the pipe is closed, or says nonsense.
    Gone(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(why: io::Error) -> Self {
        Self::Gone(why)
    }
}

fn unexpected(reply: &Reply) -> io::Error {
    io::Error::other(format!("an answer that was not asked for: {reply:?}"))
}

impl Worker {
    /// Starts this program once more. Under a wrapper such as Valgrind the system takes the wrapper for the program, and it does
    /// not answer as a worker: then the program is started by its name.
    ///
    /// # Errors
    /// No process can be had, or none that is a worker.
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

    /// Starts a program, and waits until it says that it is a worker.
    fn start_program(program: &Path) -> io::Result<Self> {
        // A group of its own: what a terminal sends is for the filter.
        let mut child = Command::new(program)
            .env(IS_WORKER, "1")
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
                worker.end(false);
                Err(why)
            }
        }
    }

    fn wait_for_start(&self, program: &Path) -> io::Result<()> {
        let wrong = |kind, why: &str| Err(io::Error::new(kind, format!("{}: {why}", program.display())));
        let began = Instant::now();
        loop {
            match self.replies.recv_timeout(TICK) {
                Ok(Ok((Reply::Started, _))) => return Ok(()),
                Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                    return wrong(io::ErrorKind::UnexpectedEof, "ended before it said that it is a worker");
                }
                Err(RecvTimeoutError::Timeout) if filter::worker::is_stopping() => {
                    return wrong(io::ErrorKind::Interrupted, "not waited for: a signal ends this program");
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() > MOST_START => {
                    return wrong(io::ErrorKind::TimedOut, "does not say that it is a worker");
                }
                Err(RecvTimeoutError::Timeout) => (),
            }
        }
    }

    fn ask<T>(
        &mut self,
        request: &Request,
        take: &mut Take<'_, T>,
        limit: Option<Duration>,
    ) -> Result<Outcome<T>, Trouble> {
        send(&mut self.requests, request, &[])?;
        loop {
            let (reply, bulk) = self.next(limit)?;
            if let Some(outcome) = take(reply, bulk, &mut self.requests)? {
                return Ok(outcome);
            }
        }
    }

    /// The next reply that says more than that the worker gets on.
    fn next(&mut self, limit: Option<Duration>) -> Result<(Reply, Vec<u8>), Trouble> {
        let mut heard = Instant::now();
        loop {
            match self.replies.recv_timeout(TICK) {
                Ok(Ok((Reply::Alive, _))) => heard = Instant::now(),
                Ok(reply) => return Ok(reply?),
                Err(RecvTimeoutError::Disconnected) => return Err(Trouble::Gone(io::ErrorKind::BrokenPipe.into())),
                Err(RecvTimeoutError::Timeout) => {
                    if filter::worker::is_stopping() {
                        return Err(Trouble::No(NoAnswer::Interrupted));
                    }
                    if let Some(limit) = limit.filter(|limit| heard.elapsed() >= *limit) {
                        return Err(Trouble::No(NoAnswer::TimedOut(limit)));
                    }
                }
            }
        }
    }

    /// Ends the worker, whatever it does; how it ended by itself, if it did. One that has closed its pipe is about to end.
    fn end(mut self, is_ending: bool) -> Option<ExitStatus> {
        let began = Instant::now();
        let mut ended = None;
        while is_ending && ended.is_none() && began.elapsed() < MOST_END {
            thread::sleep(Duration::from_millis(1));
            ended = self.child.try_wait().ok().flatten();
        }
        // It may have ended meanwhile, and is waited for in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
        ended
    }
}
