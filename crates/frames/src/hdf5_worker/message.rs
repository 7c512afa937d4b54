//! Messages between a filter and its HDF5 worker process: JSON, followed by bulk bytes.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::UNEXPECTED_ANSWER;
use super::error::WorkerFailure;

/// Maximum length of a message in bytes. A worker with a damaged file may be damaged itself and
/// send any length.
const MAX_MESSAGE_BYTES: u64 = 16 << 30;

/// A request of the type `R` with its name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NamedRequest<R> {
    pub(super) name: String,
    pub(super) request: R,
}

/// A reply from the worker to the filter, with an answer `A` and earlier messages `M`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerReply<A, M> {
    /// The worker has started. It sends this first, before any request.
    Started,
    /// The worker can't start, with the number of the system's error. It sends this in place of
    /// `Started`.
    StartFailed(i32),
    /// The library has made progress since the last heartbeat.
    Heartbeat,
    /// The library has made no progress, and from now on waits for the file system, or doesn't any
    /// more.
    StorageWait(bool),
    /// A message before the end of the request. If it is a question, the filter answers it by
    /// `true` or `false` before it does anything else.
    Message(M),
    /// End of the request.
    Finished(Result<A, WorkerFailure>),
}

/// A message as it came through the pipe.
pub(super) struct ReceivedMessage {
    text: Vec<u8>,
    pub(super) bulk: Vec<u8>,
}

impl ReceivedMessage {
    /// Parses the message's JSON.
    ///
    /// # Errors
    /// The other process sent something else.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> io::Result<T> {
        serde_json::from_slice(&self.text)
            .map_err(|why| io::Error::other(format!("{UNEXPECTED_ANSWER}: {why}")))
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

/// Receives a message, or `None` if the other process has closed the pipe.
///
/// # Errors
/// The pipe ends within a message.
pub(super) fn receive(from: &mut impl Read) -> io::Result<Option<ReceivedMessage>> {
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
        if (bytes.len() as u64) < len {
            Err(io::ErrorKind::UnexpectedEof.into())
        } else {
            Ok(bytes)
        }
    };
    Ok(Some(ReceivedMessage { text: read(text_len)?, bulk: read(bulk_len)? }))
}
