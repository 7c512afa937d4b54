//! Runs the worker: takes requests on stdin, one after the other, and answers on stdout.

use std::any::Any;
use std::cell::RefCell;
use std::io::{self, Stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::message::{FilterQuestion, WorkerAnswer, WorkerFailure, WorkerReply, WorkerRequest, receive, send};
use super::{MAX_MEMORY_BYTES, UNEXPECTED_ANSWER, WORKER_ENV};
use crate::discover::{self, ScanFilter};
use crate::ffi;
use crate::file_check;
use crate::hdf5_array;
use crate::open_ahead;
use crate::source::SourceIndex;
use crate::watchdog;

/// Interval at which the worker reports that the library makes progress.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(200);

/// Stack size of the thread that reads files, in bytes.
const STACK_BYTES: usize = 64 << 20;

/// Serves requests on stdin if this process was started as a worker, until the filter closes the pipe. Returns `None`
/// at once if it was not.
pub fn serve_if_worker() -> Option<ExitCode> {
    std::env::var_os(WORKER_ENV)?;
    // Only the filter handles signals that ask it to stop; it ends its worker by closing the pipe.
    filter::process_control::block_signals();
    filter::process_control::limit_memory(MAX_MEMORY_BYTES);
    let (requests, queue) = channel();
    if send(&mut io::stdout().lock(), &WorkerReply::Started, &[]).is_err() {
        filter::process_control::kill_self();
    }
    let started = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || serve_requests(&queue));
    let beat = started.and_then(|_| thread::Builder::new().spawn(send_heartbeats));
    if beat.is_ok() {
        let mut stdin = io::stdin().lock();
        while let Ok(Some((request, _))) = receive::<WorkerRequest>(&mut stdin) {
            if requests.send(request).is_err() {
                break;
            }
        }
    }
    // An orderly exit would need the library's lock, which a hanging call may hold forever.
    filter::process_control::kill_self();
    Some(ExitCode::FAILURE)
}

/// Sends heartbeats as long as the library makes progress, and says whether it waits for the file system while it
/// makes none.
fn send_heartbeats() {
    let (mut before, mut was_in_storage) = (ffi::call_count(), false);
    loop {
        thread::sleep(HEARTBEAT_INTERVAL);
        let (now, is_in_storage) = (ffi::call_count(), watchdog::waits_for_storage());
        let reply = match now == before {
            false => Some(WorkerReply::Heartbeat),
            true => (is_in_storage != was_in_storage).then_some(WorkerReply::StorageWait(is_in_storage)),
        };
        // A heartbeat says that it doesn't wait.
        was_in_storage = now == before && is_in_storage;
        before = now;
        if reply.is_some_and(|reply| send(&mut io::stdout().lock(), &reply, &[]).is_err()) {
            return;
        }
    }
}

fn serve_requests(queue: &Receiver<WorkerRequest>) {
    let stdout = io::stdout();
    while let Ok(request) = queue.recv() {
        let answer = catch_unwind(AssertUnwindSafe(|| handle_request(&request, queue, &stdout)));
        let (answer, bulk) =
            answer.unwrap_or_else(|panic| (Err(WorkerFailure::Hdf5(panic_message(&*panic))), Vec::new()));
        if send(&mut stdout.lock(), &WorkerReply::Finished(answer), &bulk).is_err() {
            return;
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("internal error, please report this bug of azpipe: {}", text.unwrap_or("a panic without a message"))
}

fn handle_request(
    request: &WorkerRequest,
    queue: &Receiver<WorkerRequest>,
    stdout: &Stdout,
) -> (Result<WorkerAnswer, WorkerFailure>, Vec<u8>) {
    let plain = |answer: Result<WorkerAnswer, WorkerFailure>| (answer, Vec::new());
    match request {
        WorkerRequest::Discover { path, looks_again } => {
            let ask = RemoteScanFilter { queue, stdout, looks_again: *looks_again, end: RefCell::new(None) };
            let mut tell = |found: discover::Discovery| {
                ask.end.take().map_or(Ok(()), Err)?;
                send(&mut stdout.lock(), &WorkerReply::Found(Box::new(found.into())), &[])
            };
            let visited = discover::walk_in_process(path.as_ref(), &ask, &mut tell);
            plain(visited.map(|()| WorkerAnswer::Visited).map_err(|why| WorkerFailure::from_io(&why)))
        }
        WorkerRequest::Index { file, dataset, shape } => {
            match SourceIndex::open_in_process(file.as_ref(), dataset, *shape) {
                Ok(mut index) => {
                    let bulk = index.take_bytes();
                    (Ok(WorkerAnswer::Index(Box::new(index))), bulk)
                }
                Err(why) => plain(Err(why.into())),
            }
        }
        WorkerRequest::Array { file, dataset, is_of_written } => {
            let read = match is_of_written {
                true => hdf5_array::read_written_numbers_in_process(file.as_ref(), dataset)
                    .map(|values| hdf5_array::Hdf5Array { shape: vec![values.len() as u64], values }),
                false => hdf5_array::read_array_in_process(file.as_ref(), dataset),
            };
            match read {
                Ok(array) => {
                    let bulk = array.values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    (Ok(WorkerAnswer::Array { shape: array.shape }), bulk)
                }
                Err(why) => plain(Err(why.into())),
            }
        }
        WorkerRequest::Text { file, dataset } => plain(
            hdf5_array::read_text_in_process(file.as_ref(), dataset)
                .map(WorkerAnswer::Text)
                .map_err(WorkerFailure::from),
        ),
        WorkerRequest::Attribute { file, object, name } => {
            let read = hdf5_array::read_text_attribute_in_process(file.as_ref(), object, name);
            plain(read.map(WorkerAnswer::Attribute).map_err(WorkerFailure::from))
        }
        WorkerRequest::Names { file, group } => plain(
            hdf5_array::list_group_in_process(file.as_ref(), group)
                .map(WorkerAnswer::Names)
                .map_err(WorkerFailure::from),
        ),
        WorkerRequest::OpenAhead { files } => {
            open_ahead::open_ahead_in_process(files.iter().map(|file| file.to_path_buf()));
            plain(Ok(WorkerAnswer::OpenedAhead))
        }
        WorkerRequest::Check { file, read, open } => {
            let checked = file_check::check_in_process(file.as_ref(), read, open);
            plain(checked.map(|()| WorkerAnswer::Checked).map_err(|why| WorkerFailure::from_io(&why)))
        }
        WorkerRequest::Kind { file } => {
            plain(Ok(WorkerAnswer::Kind(discover::detect_file_kind_in_process(file.as_ref()))))
        }
        WorkerRequest::Answer(_) => plain(Err(WorkerFailure::Hdf5(UNEXPECTED_ANSWER.to_owned()))),
    }
}

/// Asks the filter what is selected.
struct RemoteScanFilter<'a> {
    queue: &'a Receiver<WorkerRequest>,
    stdout: &'a Stdout,
    looks_again: bool,
    /// Error that prevented an answer.
    end: RefCell<Option<io::Error>>,
}

impl RemoteScanFilter<'_> {
    fn query_filter(&self, question: FilterQuestion) -> bool {
        let asked = send(&mut self.stdout.lock(), &WorkerReply::Query(question), &[]);
        match asked.map(|()| self.queue.recv()) {
            Ok(Ok(WorkerRequest::Answer(answer))) => answer,
            Ok(_) => {
                *self.end.borrow_mut() = Some(io::ErrorKind::BrokenPipe.into());
                false
            }
            Err(why) => {
                *self.end.borrow_mut() = Some(why);
                false
            }
        }
    }
}

impl ScanFilter for RemoteScanFilter<'_> {
    fn includes_entry(&self, name: &str) -> bool {
        self.query_filter(FilterQuestion::Entry(name.to_owned()))
    }

    fn includes_detector(&self, name: &str) -> bool {
        self.query_filter(FilterQuestion::Detector(name.to_owned()))
    }

    fn includes_scan(&self, title: Option<&str>, start_time: Option<&str>) -> bool {
        self.query_filter(FilterQuestion::Scan(title.map(str::to_owned), start_time.map(str::to_owned)))
    }

    fn includes_linked_file(&self, file: &Path) -> bool {
        self.query_filter(FilterQuestion::Linked(file.into()))
    }

    fn looks_again(&self) -> bool {
        self.looks_again
    }
}
