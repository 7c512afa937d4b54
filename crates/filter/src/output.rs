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
const BLOCK: usize = 64 * 1024;

/// A write of up to this many bytes to a pipe that is ready does not block, and does not mix with
/// what other processes write to it (`PIPE_BUF` of Linux).
const PIECE: usize = 4096;

/// The stream that the records go to.
pub(crate) struct Output {
    block: Mutex<Block>,
    each: AtomicBool,
    idle: AtomicBool,
}

struct Block {
    stream: File,
    bytes: Vec<u8>,
}

/// How long to wait for a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Until a signal asks to stop.
    UntilStopped,
    /// Not at all.
    None,
}

impl Output {
    pub(crate) fn new(stream: OwnedFd, each: bool) -> Self {
        let block = Block { stream: stream.into(), bytes: Vec::new() };
        Self { block: Mutex::new(block), each: each.into(), idle: AtomicBool::new(false) }
    }

    /// From now on, every line is written at once.
    pub(crate) fn flush_each(&self) {
        self.each.store(true, SeqCst);
    }

    /// Adds a line and a line break.
    pub(crate) fn line(&self, line: &str) -> Result<(), Stop> {
        let mut block = self.lock();
        block.bytes.extend_from_slice(line.as_bytes());
        block.bytes.push(b'\n');
        // `idle` is read under the lock, and set before the flush that takes it: no line is
        // left behind while the input waits.
        if block.bytes.len() >= BLOCK || self.each.load(SeqCst) || self.idle.load(SeqCst) {
            return block.write(Patience::UntilStopped);
        }
        Ok(())
    }

    /// Says that the input waits, or has ended: writes what there is, and from now on each line.
    pub(crate) fn idle(&self) -> Result<(), Stop> {
        self.idle.store(true, SeqCst);
        self.flush()
    }

    /// Says that there is input again.
    pub(crate) fn busy(&self) {
        self.idle.store(false, SeqCst);
    }

    /// Writes what there is.
    pub(crate) fn flush(&self) -> Result<(), Stop> {
        self.lock().write(Patience::UntilStopped)
    }

    /// Writes what the reader takes without making us wait: the last act before a death by signal.
    pub(crate) fn flush_what_fits(&self) {
        let _ = self.lock().write(Patience::None);
    }

    fn lock(&self) -> MutexGuard<'_, Block> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    /// Writes all, in pieces that end with a line where one does. What could not be written is
    /// dropped: the stream is of no more use.
    fn write(&mut self, patience: Patience) -> Result<(), Stop> {
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            if !self.wait(patience)? {
                return Ok(());
            }
            match self.stream.write(&rest[..piece(rest)]) {
                Ok(0) => return Err(Stop::fatal("stdout", io::Error::from(io::ErrorKind::WriteZero))),
                Ok(written) => rest = &rest[written..],
                Err(error) if is_passing(&error) => (),
                Err(error) => return Err(Stop::of_stdout(&error)),
            }
        }
        self.bytes = bytes;
        self.bytes.clear();
        Ok(())
    }

    /// Whether the stream takes bytes now.
    fn wait(&self, patience: Patience) -> Result<bool, Stop> {
        let mut fds = vec![PollFd::new(self.stream.as_fd(), PollFlags::POLLOUT)];
        let mut timeout = PollTimeout::ZERO;
        if patience == Patience::UntilStopped {
            fds.extend(signal::stop_wake().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
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
        match signal::received() {
            Some(signal) if patience == Patience::UntilStopped => Err(Stop::Signal(signal)),
            _ => Ok(true),
        }
    }
}

/// The length of the next piece: whole lines if one fits.
fn piece(rest: &[u8]) -> usize {
    let most = &rest[..rest.len().min(PIECE)];
    most.iter().rposition(|&byte| byte == b'\n').map_or(most.len(), |at| at + 1)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_with_a_line() {
        assert_eq!(piece(b"ab\ncd\nef"), 6);
        assert_eq!(piece(b"abc"), 3);
        assert_eq!(piece(&[b'x'; 5000]), PIECE);
    }

    #[test]
    fn lines_wait_for_the_input_to_idle() {
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        let readable = || poll(&mut [PollFd::new(read.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1);
        let output = Output::new(write, false);
        output.line("one").expect("a line");
        assert!(!readable());
        output.idle().expect("a flush");
        assert!(readable());
        assert_eq!(nix::unistd::read(&read, &mut [0; 16]), Ok(4));
        output.line("two").expect("a line written at once");
        assert!(readable());
    }

    #[test]
    fn a_reader_that_has_gone_is_a_broken_pipe() {
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        drop(read);
        assert_eq!(Output::new(write, true).line("one"), Err(Stop::BrokenPipe));
    }
}
