//! stdout: records in blocks while there is input, at once while there is none.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{Stop, signal};

/// A block is written when it is this long.
const FLUSH_BYTES: usize = 64 * 1024;

/// A write of up to this many bytes to a pipe that is ready does not block, and does not mix with
/// what other processes write to it (`PIPE_BUF` of Linux).
const ATOMIC_WRITE_BYTES: usize = 4096;

/// The stream that the records go to.
pub(crate) struct Output {
    block: Mutex<OutputBuffer>,
    flush_every_line: AtomicBool,
    input_is_idle: AtomicBool,
}

struct OutputBuffer {
    stream: File,
    bytes: Vec<u8>,
}

/// How long to wait for a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteWait {
    /// Until a signal asks to stop.
    UntilStopped,
    /// Not at all.
    NoWait,
}

impl Output {
    pub(crate) fn new(stream: OwnedFd, each: bool) -> Self {
        let block = OutputBuffer { stream: stream.into(), bytes: Vec::new() };
        Self { block: Mutex::new(block), flush_every_line: each.into(), input_is_idle: AtomicBool::new(false) }
    }

    /// From now on, every line is written at once.
    pub(crate) fn flush_each(&self) {
        self.flush_every_line.store(true, SeqCst);
    }

    /// Adds a line and a line break.
    pub(crate) fn write_line(&self, line: &str) -> Result<(), Stop> {
        let mut block = self.lock();
        block.bytes.extend_from_slice(line.as_bytes());
        block.bytes.push(b'\n');
        // `idle` is read under the lock, and set before the flush that takes it: no line is
        // left behind while the input waits.
        if block.bytes.len() >= FLUSH_BYTES || self.flush_every_line.load(SeqCst) || self.input_is_idle.load(SeqCst) {
            return block.write(WriteWait::UntilStopped);
        }
        Ok(())
    }

    /// Says that the input waits, or has ended: writes what there is, and from now on each line.
    pub(crate) fn input_idle(&self) -> Result<(), Stop> {
        self.input_is_idle.store(true, SeqCst);
        self.flush()
    }

    /// Says that there is input again.
    pub(crate) fn set_input_busy(&self) {
        self.input_is_idle.store(false, SeqCst);
    }

    /// Writes what there is.
    pub(crate) fn flush(&self) -> Result<(), Stop> {
        self.lock().write(WriteWait::UntilStopped)
    }

    /// Writes what the reader takes without making us wait: the last act before a death by signal.
    pub(crate) fn flush_without_blocking(&self) {
        let _ = self.lock().write(WriteWait::NoWait);
    }

    fn lock(&self) -> MutexGuard<'_, OutputBuffer> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputBuffer {
    /// Writes all, in pieces that end with a line where one does. What could not be written is
    /// dropped: the stream is of no more use.
    fn write(&mut self, patience: WriteWait) -> Result<(), Stop> {
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            if !self.wait(patience)? {
                return Ok(());
            }
            match self.stream.write(&rest[..piece_len(rest)]) {
                Ok(0) => return Err(Stop::fatal("stdout", io::Error::from(io::ErrorKind::WriteZero))),
                Ok(written) => rest = &rest[written..],
                Err(error) if is_transient(&error) => (),
                Err(error) => return Err(Stop::from_stdout_error(&error)),
            }
        }
        self.bytes = bytes;
        self.bytes.clear();
        Ok(())
    }

    /// Whether the stream takes bytes now.
    fn wait(&self, patience: WriteWait) -> Result<bool, Stop> {
        let mut fds = vec![PollFd::new(self.stream.as_fd(), PollFlags::POLLOUT)];
        let mut timeout = PollTimeout::ZERO;
        if patience == WriteWait::UntilStopped {
            fds.extend(signal::stop_fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            timeout = PollTimeout::NONE;
        }
        loop {
            match poll(&mut fds, timeout) {
                Ok(0) => return Ok(false),
                Ok(_) => break,
                Err(Errno::EINTR) => (),
                Err(errno) => return Err(Stop::fatal("stdout", errno.desc())),
            }
        }
        match signal::stop_signal() {
            Some(signal) if patience == WriteWait::UntilStopped => Err(Stop::Signal(signal)),
            _ => Ok(true),
        }
    }
}

/// The length of the next piece: whole lines if one fits.
fn piece_len(rest: &[u8]) -> usize {
    let most = &rest[..rest.len().min(ATOMIC_WRITE_BYTES)];
    most.iter().rposition(|&byte| byte == b'\n').map_or(most.len(), |at| at + 1)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_with_a_line() {
        assert_eq!(piece_len(b"ab\ncd\nef"), 6);
        assert_eq!(piece_len(b"abc"), 3);
        assert_eq!(piece_len(&[b'x'; 5000]), ATOMIC_WRITE_BYTES);
    }

    #[test]
    fn lines_wait_for_the_input_to_idle() {
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        let readable = || poll(&mut [PollFd::new(read.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1);
        let output = Output::new(write, false);
        output.write_line("one").expect("a line");
        assert!(!readable());
        output.input_idle().expect("a flush");
        assert!(readable());
        assert_eq!(nix::unistd::read(&read, &mut [0; 16]), Ok(4));
        output.write_line("two").expect("a line written at once");
        assert!(readable());
    }

    #[test]
    fn a_reader_that_has_gone_is_a_broken_pipe() {
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        drop(read);
        assert_eq!(Output::new(write, true).write_line("one"), Err(Stop::BrokenPipe));
    }
}
