//! The worker's end of the pipe while it answers a request.

use std::io::{self, Stdout};
use std::sync::mpsc::Receiver;

use serde::Serialize;

use super::error::WorkerFailure;
use super::message::{ReceivedMessage, WorkerReply, send};

/// Connection of a worker to the filter that sent the current request.
pub(crate) struct FilterConnection<'a> {
    /// Messages of the filter: requests, and answers to questions.
    received: &'a Receiver<ReceivedMessage>,
    stdout: Stdout,
}

impl<'a> FilterConnection<'a> {
    pub(super) fn new(received: &'a Receiver<ReceivedMessage>) -> Self {
        Self { received, stdout: io::stdout() }
    }

    /// Sends a message before the answer.
    ///
    /// # Errors
    /// The filter has closed the pipe.
    pub(crate) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        send(&mut self.stdout.lock(), &WorkerReply::<(), _>::Message(message), &[])
    }

    /// Sends a question, and returns the filter's answer.
    ///
    /// # Errors
    /// The filter has closed the pipe, or sent something else.
    pub(crate) fn ask(&self, question: &impl Serialize) -> io::Result<bool> {
        self.send(question)?;
        self.received.recv().map_err(|_| io::ErrorKind::BrokenPipe)?.parse()
    }

    /// Returns the next request, or `None` if the filter has closed the pipe.
    pub(super) fn next_request(&self) -> Option<ReceivedMessage> {
        self.received.recv().ok()
    }

    /// Sends the answer, and the bytes that follow it.
    ///
    /// # Errors
    /// The filter has closed the pipe.
    pub(super) fn finish<A: Serialize>(
        &self,
        answer: Result<A, WorkerFailure>,
        bulk: &[u8],
    ) -> io::Result<()> {
        send(&mut self.stdout.lock(), &WorkerReply::<A, ()>::Finished(answer), bulk)
    }
}
