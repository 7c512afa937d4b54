//! Sends requests to a worker, which is started when needed and replaced after it was killed.

use std::convert::Infallible;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::UNEXPECTED_ANSWER;
use super::error::{WorkerError, WorkerFailure};
use super::message::WorkerReply;
use super::process::{ReplyError, WorkerProcess};
use super::request::WorkerRequest;

/// Signals that are sent to a whole process group, and may reach a worker before it blocks them.
/// They are no defect of a file.
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
    /// Time limit for a request without progress.
    limit: Option<Duration>,
    worker: Mutex<Option<WorkerProcess>>,
}

/// The worker's answer to a request `R` and the bytes that follow it, or the reason why there is
/// none.
pub(crate) type WorkerAnswer<R> = Result<(<R as WorkerRequest>::Answer, Vec<u8>), WorkerFailure>;

/// Explains why a conversation ended before the worker's answer.
pub(crate) enum ConversationError<E> {
    /// The filter did not want to hear more.
    Stopped(E),
    /// The worker gave no answer.
    Worker(WorkerError),
}

/// Explains why an exchange with one worker process ended before its answer.
enum ExchangeError<E> {
    Stopped(E),
    Reply(ReplyError),
}

impl<E> From<io::Error> for ExchangeError<E> {
    fn from(why: io::Error) -> Self {
        Self::Reply(why.into())
    }
}

impl<E> From<ReplyError> for ExchangeError<E> {
    fn from(why: ReplyError) -> Self {
        Self::Reply(why)
    }
}

impl WorkerClient {
    /// Sends a request, and returns the answer.
    pub(crate) fn request<R: WorkerRequest>(
        &self,
        request: &R,
    ) -> Result<WorkerAnswer<R>, WorkerError> {
        self.converse(request, &mut |_| Ok::<_, Infallible>(None)).map_err(|why| match why {
            ConversationError::Worker(why) => why,
        })
    }

    /// Sends a request, and calls `respond` with each message before the answer. `respond` returns
    /// the answer to a message that is a question. If it returns an error, the worker, still in the
    /// middle of the request, is killed.
    ///
    /// A worker that was killed by a signal to the whole process group is replaced once.
    pub(crate) fn converse<R: WorkerRequest, E>(
        &self,
        request: &R,
        respond: &mut dyn FnMut(R::Message) -> Result<Option<bool>, E>,
    ) -> Result<WorkerAnswer<R>, ConversationError<E>> {
        let mut slot = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_second = false;
        loop {
            let mut worker = match slot.take() {
                Some(worker) => worker,
                None => start_worker().map_err(ConversationError::Worker)?,
            };
            let disconnected = match exchange(&mut worker, request, respond, self.limit) {
                Ok(answer) => {
                    *slot = Some(worker);
                    return Ok(answer);
                }
                Err(ExchangeError::Stopped(why)) => {
                    worker.kill();
                    return Err(ConversationError::Stopped(why));
                }
                Err(ExchangeError::Reply(ReplyError::Failed(why))) => {
                    worker.kill();
                    return Err(ConversationError::Worker(why));
                }
                Err(ExchangeError::Reply(ReplyError::Disconnected(why))) => why,
            };
            let why = match worker.wait_for_exit() {
                Ok(Some((status, _)))
                    if !is_second
                        && status
                            .signal()
                            .is_some_and(|signal| EXTERNAL_SIGNALS.contains(&signal)) =>
                {
                    is_second = true;
                    continue;
                }
                Ok(Some((status, said))) => WorkerError::from_end(status, &said),
                Ok(None) if is_invalid_message(&disconnected) => {
                    WorkerError::Ended(disconnected.to_string())
                }
                Ok(None) => WorkerError::Lost(disconnected),
                Err(why) => WorkerError::Lost(why),
            };
            return Err(ConversationError::Worker(why));
        }
    }
}

/// Returns whether a worker was disconnected for what it sent, which a damaged file may have
/// damaged. Any other reason, such as a pipe that was closed or can't be read, says nothing about
/// the file.
fn is_invalid_message(why: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, OutOfMemory, UnexpectedEof};
    why.raw_os_error().is_none() && !matches!(why.kind(), BrokenPipe | OutOfMemory | UnexpectedEof)
}

fn start_worker() -> Result<WorkerProcess, WorkerError> {
    WorkerProcess::start().map_err(|why| match why.kind() {
        io::ErrorKind::Interrupted => WorkerError::Interrupted,
        _ => WorkerError::System(why),
    })
}

/// Sends a request to a worker, and receives all replies to it.
fn exchange<R: WorkerRequest, E>(
    worker: &mut WorkerProcess,
    request: &R,
    respond: &mut dyn FnMut(R::Message) -> Result<Option<bool>, E>,
    limit: Option<Duration>,
) -> Result<WorkerAnswer<R>, ExchangeError<E>> {
    worker.send_request(request)?;
    loop {
        match worker.next_reply::<R>(limit)? {
            (WorkerReply::Message(message), _) => {
                if let Some(answer) = respond(message).map_err(ExchangeError::Stopped)? {
                    worker.send_answer(answer)?;
                }
            }
            (WorkerReply::Finished(answer), bulk) => return Ok(answer.map(|answer| (answer, bulk))),
            (
                WorkerReply::Started
                | WorkerReply::StartFailed(_)
                | WorkerReply::Heartbeat
                | WorkerReply::StorageWait(_),
                _,
            ) => {
                return Err(io::Error::other(UNEXPECTED_ANSWER).into());
            }
        }
    }
}
