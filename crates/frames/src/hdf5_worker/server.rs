//! Runs the worker: takes requests on stdin, one after the other, and answers on stdout.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::de::IgnoredAny;

use super::connection::FilterConnection;
use super::error::WorkerFailure;
use super::message::{NamedRequest, ReceivedMessage, WorkerReply, receive, send};
use super::request::WorkerRequest;
use super::{MAX_MEMORY_BYTES, UNEXPECTED_ANSWER, WORKER_ENV};
use crate::ffi;
use crate::storage_wait::waits_for_storage;

/// Interval at which the worker reports that the library makes progress.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(200);

/// Stack size of the thread that reads files, in bytes.
const STACK_BYTES: usize = 64 << 20;

/// A kind of request that a worker answers.
pub(crate) struct RequestHandler {
    name: &'static str,
    handle: fn(&ReceivedMessage, &FilterConnection<'_>) -> io::Result<()>,
}

impl RequestHandler {
    /// Returns the handler of the requests `R`.
    pub(crate) const fn new<R: WorkerRequest>() -> Self {
        Self { name: R::NAME, handle: handle::<R> }
    }
}

/// Serves requests on stdin if this process was started as a worker, until the filter closes the
/// pipe. Returns `None` at once if it was not.
pub(super) fn serve_if_worker(handlers: &'static [RequestHandler]) -> Option<ExitCode> {
    std::env::var_os(WORKER_ENV)?;
    // Only the filter handles signals that ask it to stop; it ends its worker by closing the pipe.
    filter::worker_process::block_signals();
    filter::worker_process::limit_memory(MAX_MEMORY_BYTES);
    let (requests, received) = channel();
    let serve = move || serve_requests(handlers, &FilterConnection::new(&received));
    let server = ffi::start_library()
        .and_then(|()| thread::Builder::new().stack_size(STACK_BYTES).spawn(serve));
    let (start, started) = channel();
    let beat = server.and_then(|_| {
        // The filter expects the message below first.
        let wait_and_send = move || started.recv().into_iter().for_each(|()| send_heartbeats());
        thread::Builder::new().spawn(wait_and_send)
    });
    let first = match &beat {
        Ok(_) => WorkerReply::<(), ()>::Started,
        Err(why) => WorkerReply::StartFailed(why.raw_os_error().unwrap_or_default()),
    };
    let is_sent = send(&mut io::stdout().lock(), &first, &[]).is_ok();
    if beat.is_ok() && is_sent && start.send(()).is_ok() {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(request)) = receive(&mut stdin) {
            if requests.send(request).is_err() {
                break;
            }
        }
    }
    // An orderly exit would need the library's lock, which a hanging call may hold forever.
    filter::worker_process::kill_self();
    Some(ExitCode::FAILURE)
}

/// Sends heartbeats as long as the library makes progress, and says whether it waits for the file
/// system while it makes none.
fn send_heartbeats() {
    let (mut before, mut was_in_storage) = (ffi::call_count(), false);
    loop {
        thread::sleep(HEARTBEAT_INTERVAL);
        let (now, is_in_storage) = (ffi::call_count(), waits_for_storage());
        let reply = match now == before {
            false => Some(WorkerReply::<(), ()>::Heartbeat),
            true => {
                (is_in_storage != was_in_storage).then_some(WorkerReply::StorageWait(is_in_storage))
            }
        };
        // A heartbeat says that it doesn't wait.
        was_in_storage = now == before && is_in_storage;
        before = now;
        if reply.is_some_and(|reply| send(&mut io::stdout().lock(), &reply, &[]).is_err()) {
            return;
        }
    }
}

fn serve_requests(handlers: &[RequestHandler], filter: &FilterConnection<'_>) {
    while let Some(request) = filter.next_request() {
        let named = request.parse::<NamedRequest<IgnoredAny>>();
        let handler =
            named.ok().and_then(|named| handlers.iter().find(|handler| handler.name == named.name));
        let answered = match handler {
            Some(handler) => (handler.handle)(&request, filter),
            None => {
                filter.finish::<()>(Err(WorkerFailure::Hdf5(UNEXPECTED_ANSWER.to_owned())), &[])
            }
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Answers one request.
///
/// # Errors
/// The filter has closed the pipe.
fn handle<R: WorkerRequest>(
    request: &ReceivedMessage,
    filter: &FilterConnection<'_>,
) -> io::Result<()> {
    let answer = || match request.parse::<NamedRequest<R>>() {
        Ok(NamedRequest { request, .. }) => request.answer(filter),
        Err(why) => Err(WorkerFailure::Hdf5(why.to_string())),
    };
    let answered = catch_unwind(AssertUnwindSafe(answer));
    match answered.unwrap_or_else(|panic| Err(WorkerFailure::Hdf5(panic_message(&*panic)))) {
        Ok((answer, bulk)) => filter.finish(Ok(answer), &bulk),
        Err(why) => filter.finish::<R::Answer>(Err(why), &[]),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!(
        "internal error, please report this bug of azpipe: {}",
        text.unwrap_or("a panic without a message")
    )
}
