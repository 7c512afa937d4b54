//! Separated pieces of a stream, read as they arrive.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{Filter, Stop};

/// How much is read at once.
const BLOCK: usize = 64 * 1024;

/// No record is longer: a scan of 10^5 files, each with a path of 1000 bytes, is 10^8 bytes.
const LONGEST: usize = 256 << 20;

/// A stream of lines, or of pieces between other separators.
pub(crate) struct Lines {
    stream: File,
    separator: u8,
    bytes: Vec<u8>,
    /// Where the next line starts in `bytes`.
    start: usize,
    /// Up to where `bytes` holds no separator.
    searched: usize,
    ended: bool,
    number: u64,
}

/// What a stream had next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A line without its separator.
    Line(&'a [u8]),
    /// A line that is too long to be one; it has been skipped.
    TooLong,
    /// No more lines.
    End,
    /// Perhaps more lines, but the filter drains.
    Unread,
}

impl Lines {
    /// Opens a file. A FIFO without a writer does not block: the wait for it is a wait for input.
    pub(crate) fn open(path: &Path, separator: u8) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self::new(file, separator))
    }

    pub(crate) fn new(stream: File, separator: u8) -> Self {
        Self { stream, separator, bytes: Vec::new(), start: 0, searched: 0, ended: false, number: 0 }
    }

    /// The number of the line that came last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, as soon as it is there.
    ///
    /// # Errors
    /// The stream's own; the `Stop` of [`Filter::wait`].
    pub(crate) fn next(&mut self, filter: &Filter) -> Result<io::Result<Piece<'_>>, Stop> {
        let mut too_long = false;
        loop {
            let found = self.bytes[self.searched..].iter().position(|&byte| byte == self.separator);
            if let Some(at) = found {
                let line = self.start..self.searched + at;
                self.start = line.end + 1;
                self.searched = self.start;
                self.number += 1;
                return Ok(Ok(if too_long { Piece::TooLong } else { Piece::Line(&self.bytes[line]) }));
            }
            self.searched = self.bytes.len();
            if self.ended {
                return Ok(Ok(self.last(too_long)));
            }
            if self.searched - self.start > LONGEST {
                too_long = true;
                self.start = self.searched;
            }
            if !self.wait(filter)? {
                return Ok(Ok(Piece::Unread));
            }
            if let Err(error) = self.read() {
                return Ok(Err(error));
            }
        }
    }

    /// What stands behind the last separator.
    fn last(&mut self, too_long: bool) -> Piece<'_> {
        let line = self.start..self.bytes.len();
        self.start = line.end;
        if line.is_empty() && !too_long {
            return Piece::End;
        }
        self.number += 1;
        if too_long { Piece::TooLong } else { Piece::Line(&self.bytes[line]) }
    }

    /// Waits for input; the output is flushed where there is none yet. False where the filter
    /// drains instead.
    fn wait(&self, filter: &Filter) -> Result<bool, Stop> {
        let mut ready = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        if matches!(poll(&mut ready, PollTimeout::ZERO), Ok(0) | Err(Errno::EINTR)) {
            filter.output.idle()?;
            if !filter.wait(Some(self.stream.as_fd()), None)? {
                return Ok(false);
            }
            filter.output.busy();
        }
        Ok(true)
    }

    fn read(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        let end = self.bytes.len();
        self.bytes.resize(end + BLOCK, 0);
        let read = self.stream.read(&mut self.bytes[end..]);
        self.bytes.truncate(end + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => self.ended = true,
            Ok(_) => (),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => (),
            Err(error) => {
                self.ended = true;
                self.start = end;
                return Err(error);
            }
        }
        Ok(())
    }
}
