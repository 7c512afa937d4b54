//! The worker: takes requests on stdin, one after the other, and answers on stdout.

use std::any::Any;
use std::cell::RefCell;
use std::io::{self, Stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::IS_WORKER;
use super::message::{Answer, Failure, Question, Reply, Request, receive, send};
use crate::ffi;
use crate::find::{self, Select};
use crate::hdf5_array;
use crate::prefetch;
use crate::store::Store;

/// How often the worker says that the library gets on.
const BEAT: Duration = Duration::from_millis(200);

/// The stack of the thread that reads files.
const STACK: usize = 64 << 20;

/// The most memory that a worker may have: what a damaged file asks for beyond it is refused to it, and not taken from others.
const MOST_MEMORY: u64 = 32 << 30;

/// Serves where this process was started as a worker, until the filter has gone; `None` where it was not.
pub fn serve_if_asked() -> Option<ExitCode> {
    std::env::var_os(IS_WORKER)?;
    // What asks the filter to stop is for the filter to hear: it ends its worker by closing the pipe.
    filter::worker::block_signals();
    filter::worker::limit_memory(MOST_MEMORY);
    let (requests, queue) = channel();
    if send(&mut io::stdout().lock(), &Reply::Started, &[]).is_err() {
        filter::worker::end_at_once();
    }
    let started = thread::Builder::new().stack_size(STACK).spawn(move || serve(&queue));
    let beat = started.and_then(|_| thread::Builder::new().spawn(beat));
    if beat.is_ok() {
        let mut stdin = io::stdin().lock();
        while let Ok(Some((request, _))) = receive::<Request>(&mut stdin) {
            if requests.send(request).is_err() {
                break;
            }
        }
    }
    // The library may be at work for ever, and holds what it would take to end in good order.
    filter::worker::end_at_once();
    Some(ExitCode::FAILURE)
}

/// Says that the library gets on, for as long as it does.
fn beat() {
    let mut before = ffi::progress();
    loop {
        thread::sleep(BEAT);
        let now = ffi::progress();
        if now != before && send(&mut io::stdout().lock(), &Reply::Alive, &[]).is_err() {
            return;
        }
        before = now;
    }
}

fn serve(queue: &Receiver<Request>) {
    let stdout = io::stdout();
    while let Ok(request) = queue.recv() {
        let answer = catch_unwind(AssertUnwindSafe(|| answer(&request, queue, &stdout)));
        let (answer, bulk) = answer.unwrap_or_else(|panic| (Err(Failure::Hdf5(words(&*panic))), Vec::new()));
        if send(&mut stdout.lock(), &Reply::Done(answer), &bulk).is_err() {
            return;
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a bug of azpipe, which please report: {}", text.unwrap_or("a panic without words"))
}

fn answer(request: &Request, queue: &Receiver<Request>, stdout: &Stdout) -> (Result<Answer, Failure>, Vec<u8>) {
    let plain = |answer: Result<Answer, Failure>| (answer, Vec::new());
    match request {
        Request::Visit { path, looks_again } => {
            let ask = Ask { queue, stdout, looks_again: *looks_again, end: RefCell::new(None) };
            let mut tell = |found: find::Found| {
                ask.end.take().map_or(Ok(()), Err)?;
                send(&mut stdout.lock(), &Reply::Found(Box::new(found.into())), &[])
            };
            let visited = find::visit_here(path.as_ref(), &ask, &mut tell);
            plain(visited.map(|()| Answer::Visited).map_err(|why| Failure::from_io(&why)))
        }
        Request::Index { file, dataset, shape } => match Store::index_here(file.as_ref(), dataset, *shape) {
            Ok(mut index) => {
                let bulk = index.take_bulk();
                (Ok(Answer::Index(Box::new(index))), bulk)
            }
            Err(why) => plain(Err(why.into())),
        },
        Request::Array { file, dataset, is_of_written } => {
            let read = match is_of_written {
                true => hdf5_array::read_written_numbers_here(file.as_ref(), dataset)
                    .map(|values| hdf5_array::Array { shape: vec![values.len() as u64], values }),
                false => hdf5_array::read_array_here(file.as_ref(), dataset),
            };
            match read {
                Ok(array) => {
                    let bulk = array.values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    (Ok(Answer::Array { shape: array.shape }), bulk)
                }
                Err(why) => plain(Err(why.into())),
            }
        }
        Request::Text { file, dataset } => {
            plain(hdf5_array::read_text_here(file.as_ref(), dataset).map(Answer::Text).map_err(Failure::from))
        }
        Request::Attribute { file, object, name } => {
            let read = hdf5_array::read_text_attribute_here(file.as_ref(), object, name);
            plain(read.map(Answer::Attribute).map_err(Failure::from))
        }
        Request::Names { file, group } => {
            plain(hdf5_array::names_here(file.as_ref(), group).map(Answer::Names).map_err(Failure::from))
        }
        Request::Prefetch { files } => {
            prefetch::open_ahead(files.iter().map(|file| file.to_path_buf()));
            plain(Ok(Answer::Prefetched))
        }
        Request::Kind { file } => plain(Ok(Answer::Kind(find::kind_here(file.as_ref())))),
        Request::Answer(_) => plain(Err(Failure::Hdf5("an answer that was not asked for".to_owned()))),
    }
}

/// Asks the filter what is wanted.
struct Ask<'a> {
    queue: &'a Receiver<Request>,
    stdout: &'a Stdout,
    looks_again: bool,
    /// Why there was no answer.
    end: RefCell<Option<io::Error>>,
}

impl Ask<'_> {
    fn ask(&self, question: Question) -> bool {
        let asked = send(&mut self.stdout.lock(), &Reply::Ask(question), &[]);
        match asked.map(|()| self.queue.recv()) {
            Ok(Ok(Request::Answer(answer))) => answer,
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

impl Select for Ask<'_> {
    fn entry(&self, name: &str) -> bool {
        self.ask(Question::Entry(name.to_owned()))
    }

    fn detector(&self, name: &str) -> bool {
        self.ask(Question::Detector(name.to_owned()))
    }

    fn scan(&self, title: Option<&str>, start_time: Option<&str>) -> bool {
        self.ask(Question::Scan(title.map(str::to_owned), start_time.map(str::to_owned)))
    }

    fn linked(&self, file: &Path) -> bool {
        self.ask(Question::Linked(file.into()))
    }

    fn looks_again(&self) -> bool {
        self.looks_again
    }
}
