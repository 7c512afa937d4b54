//! Has the worker process walk through a file: it reports what it finds, and asks the filter what
//! is selected.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use records::RawPath;
use serde::{Deserialize, Serialize};

use super::{Discovery, DiscoveryKind, ScanFilter, walk_in_process};
use crate::hdf5_worker::{
    ConversationError, FilterConnection, WorkerClient, WorkerError, WorkerFailure, WorkerRequest,
};

/// Asks the worker to report the scans of a file, or of one of its datasets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DiscoverRequest {
    path: RawPath,
    /// [`ScanFilter::looks_again`].
    looks_again: bool,
}

/// A message that the worker sends while it walks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WalkMessage {
    /// One result of the walk.
    Found(Box<DiscoveryMessage>),
    /// Question whether something is selected.
    Question(SelectionQuestion),
}

/// Questions of the methods of [`ScanFilter`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SelectionQuestion {
    Entry(String),
    Detector(String),
    Scan(Option<String>, Option<String>),
    Linked(RawPath),
}

/// A [`Discovery`] whose paths may hold any bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DiscoveryMessage {
    file: RawPath,
    dataset: String,
    files: Vec<RawPath>,
    what: DiscoveryKind,
}

impl From<Discovery> for DiscoveryMessage {
    fn from(Discovery { file, dataset, files, kind: what }: Discovery) -> Self {
        Self {
            file: file.into(),
            dataset,
            files: files.into_iter().map(RawPath::from).collect(),
            what,
        }
    }
}

impl From<DiscoveryMessage> for Discovery {
    fn from(DiscoveryMessage { file, dataset, files, what }: DiscoveryMessage) -> Self {
        let path = |path: &RawPath| -> PathBuf { AsRef::<Path>::as_ref(path).to_owned() };
        Self { file: path(&file), dataset, files: files.iter().map(path).collect(), kind: what }
    }
}

/// Walks like [`walk`](super::walk()), but in the worker process.
///
/// # Errors
/// An error of `each`, which ends the walk; or the worker gave no answer.
pub(super) fn walk_in_worker<E>(
    client: &WorkerClient,
    path: &Path,
    select: &dyn ScanFilter,
    each: &mut dyn FnMut(Discovery) -> Result<(), E>,
) -> Result<(), ConversationError<E>> {
    let request = DiscoverRequest { path: path.into(), looks_again: select.looks_again() };
    let answer = client.converse(&request, &mut |message| match message {
        WalkMessage::Found(found) => each((*found).into()).map(|()| None),
        WalkMessage::Question(question) => Ok(Some(match question {
            SelectionQuestion::Entry(name) => select.includes_entry(&name),
            SelectionQuestion::Detector(name) => select.includes_detector(&name),
            SelectionQuestion::Scan(title, start) => {
                select.includes_scan(title.as_deref(), start.as_deref())
            }
            SelectionQuestion::Linked(file) => select.includes_linked_file(file.as_ref()),
        })),
    })?;
    match answer {
        Ok(_) => Ok(()),
        Err(
            WorkerFailure::Hdf5(why)
            | WorkerFailure::Io { why, .. }
            | WorkerFailure::Dataset { why, .. },
        ) => Err(ConversationError::Worker(WorkerError::Ended(why))),
    }
}

impl WorkerRequest for DiscoverRequest {
    const NAME: &'static str = "discover";
    type Message = WalkMessage;
    type Answer = ();

    fn answer(self, filter: &FilterConnection<'_>) -> Result<((), Vec<u8>), WorkerFailure> {
        let select =
            RemoteScanFilter { filter, looks_again: self.looks_again, error: RefCell::new(None) };
        let mut report = |found: Discovery| -> io::Result<()> {
            select.error.take().map_or(Ok(()), Err)?;
            filter.send(&WalkMessage::Found(Box::new(found.into())))
        };
        match walk_in_process(self.path.as_ref(), &select, &mut report) {
            Ok(()) => Ok(((), Vec::new())),
            Err(why) => Err(WorkerFailure::from_io(&why)),
        }
    }
}

/// Asks the filter what is selected.
struct RemoteScanFilter<'a> {
    filter: &'a FilterConnection<'a>,
    looks_again: bool,
    /// Error that prevented an answer.
    error: RefCell<Option<io::Error>>,
}

impl RemoteScanFilter<'_> {
    fn ask(&self, question: SelectionQuestion) -> bool {
        self.filter.ask(&WalkMessage::Question(question)).unwrap_or_else(|why| {
            *self.error.borrow_mut() = Some(why);
            false
        })
    }
}

impl ScanFilter for RemoteScanFilter<'_> {
    fn includes_entry(&self, name: &str) -> bool {
        self.ask(SelectionQuestion::Entry(name.to_owned()))
    }

    fn includes_detector(&self, name: &str) -> bool {
        self.ask(SelectionQuestion::Detector(name.to_owned()))
    }

    fn includes_scan(&self, title: Option<&str>, start_time: Option<&str>) -> bool {
        self.ask(SelectionQuestion::Scan(title.map(str::to_owned), start_time.map(str::to_owned)))
    }

    fn includes_linked_file(&self, file: &Path) -> bool {
        self.ask(SelectionQuestion::Linked(file.into()))
    }

    fn looks_again(&self) -> bool {
        self.looks_again
    }
}
