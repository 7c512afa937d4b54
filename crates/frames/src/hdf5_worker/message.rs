//! Messages between a filter and its HDF5 worker process: JSON, followed by bulk bytes.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use records::RawPath;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::discover::{Discovery, DiscoveryKind, FileKind, FileKindError};
use crate::source::SourceIndex;

/// Maximum length of a message in bytes. A worker with a damaged file may be damaged itself and send any length.
const MAX_MESSAGE_BYTES: u64 = 16 << 30;

/// A request from the filter to the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkerRequest {
    /// Report the scans of a file, or of one of its datasets. `looks_again` is
    /// [`ScanFilter::looks_again`](crate::discover::ScanFilter::looks_again).
    Discover { path: RawPath, looks_again: bool },
    /// Return the chunk locations of a dataset.
    Index { file: RawPath, dataset: String, shape: Option<[u64; 2]> },
    /// Return a dataset as numbers, optionally with NaN for unwritten elements.
    Array { file: RawPath, dataset: String, is_of_written: bool },
    /// Return the first element of a dataset as text.
    Text { file: RawPath, dataset: String },
    /// Return a text attribute.
    Attribute { file: RawPath, object: String, name: String },
    /// Return the names in a group.
    Names { file: RawPath, group: String },
    /// Open files in the background that will be read soon.
    OpenAhead { files: Vec<RawPath> },
    /// Return the kind of a file.
    Kind { file: RawPath },
    /// Read the structure of a file's objects, like a process that reads them itself afterwards: of these with all
    /// that is in them, or only so far as to open them.
    Check { file: RawPath, read: Vec<String>, open: Vec<String> },
    /// Answer to a question of the worker.
    Answer(bool),
}

/// A reply from the worker to the filter.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerReply {
    /// The worker has started. It sends this first, before any request.
    Started,
    /// The library has made progress since the last heartbeat.
    Heartbeat,
    /// The library has made no progress, and from now on waits for the file system, or doesn't any more.
    StorageWait(bool),
    /// Question whether something is selected. The filter answers before it does anything else.
    Query(FilterQuestion),
    /// One result of a walk.
    Found(Box<DiscoveryMessage>),
    /// End of the request.
    Finished(Result<WorkerAnswer, WorkerFailure>),
}

/// Questions of the methods of [`ScanFilter`](crate::discover::ScanFilter).
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FilterQuestion {
    Entry(String),
    Detector(String),
    Scan(Option<String>, Option<String>),
    Linked(RawPath),
}

/// Final answer to a request. Numbers follow as bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkerAnswer {
    Visited,
    Index(Box<SourceIndex>),
    Array { shape: Vec<u64> },
    Text(String),
    Attribute(Option<String>),
    Names(Vec<String>),
    OpenedAhead,
    Checked,
    Kind(Result<FileKind, FileKindError>),
}

/// Explains why a request failed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkerFailure {
    /// The system can't read the file.
    Io { errno: Option<i32>, why: String },
    /// The file is not a readable HDF5 file.
    Hdf5(String),
    /// One dataset can't be read.
    Dataset { dataset: String, why: String },
}

impl WorkerFailure {
    /// Converts an I/O error in the worker to a message.
    pub(crate) fn from_io(why: &io::Error) -> Self {
        Self::Io { errno: why.raw_os_error(), why: why.to_string() }
    }

    /// Converts the message back to the I/O error.
    pub(crate) fn to_io(errno: Option<i32>, why: String) -> io::Error {
        errno.map_or_else(|| io::Error::other(why), io::Error::from_raw_os_error)
    }
}

/// A [`Discovery`] whose paths may hold any bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DiscoveryMessage {
    file: RawPath,
    dataset: String,
    files: Vec<RawPath>,
    what: DiscoveryKind,
}

impl From<Discovery> for DiscoveryMessage {
    fn from(Discovery { file, dataset, files, kind: what }: Discovery) -> Self {
        Self { file: file.into(), dataset, files: files.into_iter().map(RawPath::from).collect(), what }
    }
}

impl From<DiscoveryMessage> for Discovery {
    fn from(DiscoveryMessage { file, dataset, files, what }: DiscoveryMessage) -> Self {
        let path = |path: &RawPath| -> PathBuf { AsRef::<Path>::as_ref(path).to_owned() };
        Self { file: path(&file), dataset, files: files.iter().map(path).collect(), kind: what }
    }
}

/// Sends a message.
///
/// # Errors
/// The other process has closed the pipe.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize, bulk: &[u8]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut head = [0; 16];
    head[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    head[8..].copy_from_slice(&(bulk.len() as u64).to_le_bytes());
    to.write_all(&[&head[..], &text].concat())?;
    to.write_all(bulk)?;
    to.flush()
}

/// Receives a message and the bytes that follow it, or `None` if the other process has closed the pipe.
///
/// # Errors
/// The pipe ends within a message, or the message is invalid.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let (mut text_len, mut bulk_len) = ([0; 8], [0; 8]);
    match from.read_exact(&mut text_len) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    from.read_exact(&mut bulk_len)?;
    let mut read = |len: [u8; 8]| {
        let len = u64::from_le_bytes(len);
        if len > MAX_MESSAGE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a message of {len} bytes: expected at most {MAX_MESSAGE_BYTES}"),
            ));
        }
        let mut bytes = Vec::new();
        from.take(len).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    };
    let (text, bulk) = (read(text_len)?, read(bulk_len)?);
    Ok(Some((serde_json::from_slice(&text)?, bulk)))
}
