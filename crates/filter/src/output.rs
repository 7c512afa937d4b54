//! The output on stdout: records are written in blocks while input arrives, and at once while the
//! input waits.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};

use crate::{Stop, signal};

/// The length of a block at which it is written.
const FLUSH_BYTES: usize = 64 * 1024;

/// The largest write to a ready pipe that neither blocks nor mixes with the writes of other
/// processes (Linux's `PIPE_BUF`).
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

/// How long a write waits for a slow reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteWait {
    /// It waits until a signal asks to stop.
    UntilStopped,
    /// It does not wait.
    NoWait,
}

impl Output {
    pub(crate) fn new(stream: OwnedFd, each: bool) -> Self {
        let block = OutputBuffer { stream: stream.into(), bytes: Vec::new() };
        Self {
            block: Mutex::new(block),
            flush_every_line: each.into(),
            input_is_idle: AtomicBool::new(false),
        }
    }

    /// Makes every line be written at once from now on.
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
        if block.bytes.len() >= FLUSH_BYTES
            || self.flush_every_line.load(SeqCst)
            || self.input_is_idle.load(SeqCst)
        {
            return block.write(WriteWait::UntilStopped);
        }
        Ok(())
    }

    /// Writes the buffered lines, and from now on every line at once, because the input waits or
    /// has ended.
    pub(crate) fn input_idle(&self) -> Result<(), Stop> {
        self.input_is_idle.store(true, SeqCst);
        self.flush()
    }

    /// Buffers lines again, because there is input.
    pub(crate) fn set_input_busy(&self) {
        self.input_is_idle.store(false, SeqCst);
    }

    /// Writes the buffered lines.
    pub(crate) fn flush(&self) -> Result<(), Stop> {
        self.lock().write(WriteWait::UntilStopped)
    }

    /// Writes the buffered lines, after which there are no others, and checks that they have been
    /// stored.
    pub(crate) fn finish(&self) -> Result<(), Stop> {
        self.flush()?;
        check_stored(&self.lock().stream).map_err(|error| Stop::from_stdout_error(&error))
    }

    /// Writes as many buffered lines as the reader takes without blocking: the last act before a
    /// death by signal.
    pub(crate) fn flush_without_blocking(&self) {
        let _ = self.lock().write(WriteWait::NoWait);
    }

    fn lock(&self) -> MutexGuard<'_, OutputBuffer> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputBuffer {
    /// Writes all buffered lines, in pieces that end with a line where possible. On failure the
    /// rest is dropped, because the stream can't be used any more.
    fn write(&mut self, patience: WriteWait) -> Result<(), Stop> {
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            if !self.wait(patience)? {
                return Ok(());
            }
            match self.stream.write(&rest[..piece_len(rest)]) {
                Ok(0) => {
                    return Err(Stop::fatal("stdout", io::Error::from(io::ErrorKind::WriteZero)));
                }
                Ok(written) => rest = &rest[written..],
                Err(error) if is_transient(&error) => (),
                Err(error) => return Err(Stop::from_stdout_error(&error)),
            }
        }
        self.bytes = bytes;
        self.bytes.clear();
        Ok(())
    }

    /// Waits as long as `patience` allows, and returns whether the stream accepts bytes.
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
                Err(errno) => return Err(Stop::fatal("stdout", io::Error::from(errno))),
            }
        }
        match signal::stop_signal() {
            Some(signal) if patience == WriteWait::UntilStopped => Err(Stop::Signal(signal)),
            _ => Ok(true),
        }
    }
}

/// Returns the length of the next piece, which has whole lines if one fits.
fn piece_len(rest: &[u8]) -> usize {
    let most = &rest[..rest.len().min(ATOMIC_WRITE_BYTES)];
    most.iter().rposition(|&byte| byte == b'\n').map_or(most.len(), |at| at + 1)
}

/// Reports errors of earlier writes to a regular file. Network file systems accept a write and may
/// find only at close that the disk is full or the quota used up; nobody sees how the kernel closes
/// the stream when the process ends.
///
/// A duplicate is closed, because that makes the file system report such errors (Linux calls its
/// `flush` at each close), and costs nothing on a local disk. An fsync would also wait for the
/// disk, for seconds while others write much, and records can be made again. Pipes, terminals and
/// devices have nothing left to report.
pub(crate) fn check_stored(stream: impl AsFd) -> io::Result<()> {
    if SFlag::from_bits_truncate(fstat(&stream)?.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Ok(());
    }
    loop {
        match nix::unistd::close(stream.as_fd().try_clone_to_owned()?) {
            // The duplicate is gone, but not what it would have reported.
            Err(Errno::EINTR) => (),
            closed => return Ok(closed?),
        }
    }
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
        let readable = || {
            poll(&mut [PollFd::new(read.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
        };
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
