//! What a filter and its worker say to each other: JSON, with bulk numbers as bytes behind it.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use records::RawPath;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::discover::{Discovery, DiscoveryKind, FileKind, FileKindError};
use crate::source::SourceIndex;

/// The longest message that is believed: the worker of a damaged file may be damaged itself.
const MAX_MESSAGE_BYTES: u64 = 16 << 30;

/// What a filter wants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkerRequest {
    /// The scans of a file, or of a dataset of one; whether it will be looked at again.
    Visit { path: RawPath, looks_again: bool },
    /// Where the chunks of a dataset are.
    Index { file: RawPath, dataset: String, shape: Option<[u64; 2]> },
    /// A dataset as numbers, or its written numbers.
    Array { file: RawPath, dataset: String, is_of_written: bool },
    /// The first element of a dataset as a text.
    Text { file: RawPath, dataset: String },
    /// A text attribute.
    Attribute { file: RawPath, object: String, name: String },
    /// The names in a group.
    Names { file: RawPath, group: String },
    /// Opens files that are to be looked at soon.
    OpenAhead { files: Vec<RawPath> },
    /// What a file is.
    Kind { file: RawPath },
    /// The answer to a question of the worker.
    Answer(bool),
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerReply {
    /// The worker has started: the first reply, before anything is asked.
    Started,
    /// The library has got on since the last time.
    Heartbeat,
    /// Whether something is wanted. The filter answers before anything else.
    Query(FilterQuestion),
    /// Something was found in a visit.
    Found(Box<DiscoveryMessage>),
    /// The end of a request.
    Finished(Result<WorkerAnswer, WorkerFailure>),
}

/// Those of [`ScanFilter`](crate::find::Select).
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FilterQuestion {
    Entry(String),
    Detector(String),
    Scan(Option<String>, Option<String>),
    Linked(RawPath),
}

/// The last answer to a request. Numbers follow as bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkerAnswer {
    Visited,
    Index(Box<SourceIndex>),
    Array { shape: Vec<u64> },
    Text(String),
    Attribute(Option<String>),
    Names(Vec<String>),
    OpenedAhead,
    Kind(Result<FileKind, FileKindError>),
}

/// Why a request failed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkerFailure {
    /// The system does not give the file.
    Io { errno: Option<i32>, why: String },
    /// Not a readable HDF5 file.
    Hdf5(String),
    /// Of one dataset.
    Dataset { dataset: String, why: String },
}

impl WorkerFailure {
    /// A failure of the system, as it was told in the worker.
    pub(crate) fn from_io(why: &io::Error) -> Self {
        Self::Io { errno: why.raw_os_error(), why: why.to_string() }
    }

    /// The system's error as it would have been here.
    pub(crate) fn to_io(errno: Option<i32>, why: String) -> io::Error {
        errno.map_or_else(|| io::Error::other(why), io::Error::from_raw_os_error)
    }
}

/// A [`Found`] with paths of any bytes.
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

/// Writes a message.
///
/// # Errors
/// The other side has gone.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize, bulk: &[u8]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut head = [0; 16];
    head[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    head[8..].copy_from_slice(&(bulk.len() as u64).to_le_bytes());
    to.write_all(&[&head[..], &text].concat())?;
    to.write_all(bulk)?;
    to.flush()
}

/// Reads a message and the bytes behind it; `None` where the other side has ended.
///
/// # Errors
/// It ends within a message; not a message.
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
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {len} bytes")));
        }
        let mut bytes = Vec::new();
        from.take(len).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    };
    let (text, bulk) = (read(text_len)?, read(bulk_len)?);
    Ok(Some((serde_json::from_slice(&text)?, bulk)))
}
