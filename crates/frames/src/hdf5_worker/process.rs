//! A worker process: starts it, exchanges messages with it, and kills it if it makes no progress.

use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::WORKER_ENV;
use super::error::WorkerError;
use super::message::{NamedRequest, ReceivedMessage, WorkerReply, receive, send};
use super::request::WorkerRequest;

/// Time limit for a worker to report that it has started. On a loaded machine, its program may have
/// to be loaded from a slow network file system.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit for a worker to exit after it closed its pipe.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which a wait checks whether the filter is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of bytes that are kept of a worker's messages.
const MESSAGE_BYTES: usize = 1 << 12;

/// A running worker.
pub(super) struct WorkerProcess {
    child: Child,
    requests: BufWriter<ChildStdin>,
    replies: Receiver<io::Result<ReceivedMessage>>,
    /// Thread that returns the end of what the worker wrote to stderr.
    messages: JoinHandle<io::Result<String>>,
}

/// A reply to a request `R`, and the bytes that follow it.
type ReceivedReply<R> =
    (WorkerReply<<R as WorkerRequest>::Answer, <R as WorkerRequest>::Message>, Vec<u8>);

/// Explains why a worker sends no further reply.
pub(super) enum ReplyError {
    Failed(WorkerError),
    /// The worker closed its pipe, or sent an invalid message.
    Disconnected(io::Error),
}

impl From<io::Error> for ReplyError {
    fn from(why: io::Error) -> Self {
        Self::Disconnected(why)
    }
}

impl WorkerProcess {
    /// Starts this program as a worker. Under a wrapper such as Valgrind, the path of the running
    /// program is the wrapper's and doesn't answer as a worker; the program is then started by its
    /// name.
    ///
    /// # Errors
    /// No process can be started, or the program doesn't answer as a worker.
    pub(super) fn start() -> io::Result<Self> {
        let own = Path::new("/proc/self/exe");
        match Self::start_program(own) {
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => match std::env::current_exe()
            {
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
            // A process without memory could wait forever for the memory of its backtrace.
            .env("RUST_BACKTRACE", "0")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        // Without its messages, the worker's end could not be explained.
        let messages =
            thread::Builder::new().name("messages".to_owned()).spawn(move || read_tail(stderr));
        let messages = match messages {
            Ok(messages) => messages,
            Err(why) => {
                end(child);
                return Err(why);
            }
        };
        let (replies, queue) = channel();
        let started = thread::Builder::new().name("replies".to_owned()).spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let reply = receive(&mut stdout)
                    .and_then(|reply| reply.ok_or(io::ErrorKind::UnexpectedEof.into()));
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
                worker.kill();
                Err(why)
            }
        }
    }

    fn wait_for_start(&self, program: &Path) -> io::Result<()> {
        let wrong =
            |kind, why: &str| Err(io::Error::new(kind, format!("{}: {why}", program.display())));
        let began = Instant::now();
        loop {
            match self.replies.recv_timeout(POLL_INTERVAL) {
                Ok(Ok(received)) => match received.parse() {
                    Ok(WorkerReply::<(), ()>::Started) => return Ok(()),
                    Ok(WorkerReply::StartFailed(number)) => {
                        return Err(io::Error::from_raw_os_error(number));
                    }
                    _ => return wrong(io::ErrorKind::UnexpectedEof, "does not answer as a worker"),
                },
                Ok(Err(why)) if why.kind() != io::ErrorKind::UnexpectedEof => return Err(why),
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                    return wrong(
                        io::ErrorKind::UnexpectedEof,
                        "ended before it answered as a worker",
                    );
                }
                Err(RecvTimeoutError::Timeout) if filter::worker_process::stop_requested() => {
                    return wrong(
                        io::ErrorKind::Interrupted,
                        "not waited for, because a signal stopped the filter",
                    );
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() > START_TIMEOUT => {
                    let why =
                        format!("did not answer as a worker within {} s", START_TIMEOUT.as_secs());
                    return wrong(io::ErrorKind::TimedOut, &why);
                }
                Err(RecvTimeoutError::Timeout) => (),
            }
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The worker has closed its pipe.
    pub(super) fn send_request<R: WorkerRequest>(&mut self, request: &R) -> io::Result<()> {
        send(&mut self.requests, &NamedRequest { name: R::NAME.to_owned(), request }, &[])
    }

    /// Answers a question of the worker.
    ///
    /// # Errors
    /// The worker has closed its pipe.
    pub(super) fn send_answer(&mut self, answer: bool) -> io::Result<()> {
        send(&mut self.requests, &answer, &[])
    }

    /// Returns the next reply that is not a heartbeat, and the bytes that follow it.
    pub(super) fn next_reply<R: WorkerRequest>(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<ReceivedReply<R>, ReplyError> {
        let (mut heard, mut is_in_storage) = (Instant::now(), false);
        loop {
            match self.replies.recv_timeout(POLL_INTERVAL) {
                Ok(received) => {
                    let received = received?;
                    match received.parse()? {
                        WorkerReply::Heartbeat => (heard, is_in_storage) = (Instant::now(), false),
                        WorkerReply::StorageWait(waits) => is_in_storage = waits,
                        reply => return Ok((reply, received.bulk)),
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ReplyError::Disconnected(io::ErrorKind::BrokenPipe.into()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if filter::worker_process::stop_requested() {
                        return Err(ReplyError::Failed(WorkerError::Interrupted));
                    }
                    if let Some(limit) = limit.filter(|limit| heard.elapsed() >= *limit) {
                        return Err(ReplyError::Failed(match is_in_storage {
                            true => WorkerError::StorageTimedOut(limit),
                            false => WorkerError::TimedOut(limit),
                        }));
                    }
                }
            }
        }
    }

    /// Kills the worker.
    pub(super) fn kill(self) {
        end(self.child);
    }

    /// Gives a worker that has closed its pipe time to exit. Returns its exit status and the end of
    /// what it wrote to stderr, or kills it and returns `None`.
    ///
    /// # Errors
    /// Its status or what it wrote can't be read, so that it is unknown why it ended.
    pub(super) fn wait_for_exit(mut self) -> io::Result<Option<(ExitStatus, String)>> {
        let began = Instant::now();
        let mut ended = Ok(None);
        while matches!(ended, Ok(None)) && began.elapsed() < EXIT_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
            ended = self.child.try_wait();
        }
        end(self.child);
        let Some(status) = ended? else { return Ok(None) };
        let panicked = |_| io::Error::other("the thread that reads its messages panicked");
        Ok(Some((status, self.messages.join().map_err(panicked)??)))
    }
}

/// Kills a worker.
fn end(mut child: Child) {
    // It may have exited meanwhile; it is waited for in any case.
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads a stream to its end, and returns the last bytes as text.
fn read_tail(mut stream: impl Read) -> io::Result<String> {
    let (mut tail, mut buffer) = (Vec::new(), [0; MESSAGE_BYTES]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&tail).into_owned()),
            Ok(count) => {
                tail.extend_from_slice(&buffer[..count]);
                tail.drain(..tail.len().saturating_sub(MESSAGE_BYTES));
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
            Err(why) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_messages_the_last_are_kept() {
        let many = "x\n".repeat(1 << 20) + "memory allocation of 1 bytes failed";
        let tail = read_tail(many.as_bytes()).unwrap();
        assert!(
            tail.len() <= MESSAGE_BYTES && tail.ends_with("\nmemory allocation of 1 bytes failed")
        );
    }

    /// A stream of which each second read is interrupted by a signal, and the last fails if
    /// `fails`.
    struct Interrupted<'a> {
        rest: &'a [u8],
        is_next: bool,
        fails: bool,
    }

    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.is_next = !self.is_next;
            match self.is_next {
                true => Err(io::ErrorKind::Interrupted.into()),
                false if self.rest.is_empty() && self.fails => Err(io::Error::from_raw_os_error(5)),
                false => self.rest.read(&mut buffer[..3]),
            }
        }
    }

    #[test]
    fn a_signal_loses_no_message_and_a_failed_read_is_no_end() {
        let stream = |fails| Interrupted {
            rest: b"memory allocation of 1 bytes failed",
            is_next: false,
            fails,
        };
        assert_eq!(read_tail(stream(false)).unwrap(), "memory allocation of 1 bytes failed");
        assert_eq!(read_tail(stream(true)).unwrap_err().raw_os_error(), Some(5));
    }
}
