//! Reads the lines of a stream as they arrive.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{Filter, Stop};

/// How many bytes are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The longest line in bytes. For scale: the record of a scan with 10^5 files and paths of 1000
/// bytes has 10^8 bytes.
const MAX_LINE_BYTES: usize = 64 << 20;

/// A stream without a separator in this many times the longest line is not a stream of lines.
/// Reading stops there, because the stream may never end.
const MAX_SKIPPED_LINES: usize = 4;

/// A stream of lines, or of pieces between other separators.
pub(crate) struct LineReader {
    stream: File,
    separator: u8,
    longest: usize,
    bytes: Vec<u8>,
    /// The start of the next line in `bytes`.
    start: usize,
    /// The end of the part of `bytes` that holds no separator.
    searched: usize,
    ended: bool,
    number: u64,
    /// Set while the current line is too long; counts the bytes that were skipped without finding
    /// its end.
    too_long: bool,
    skipped: usize,
}

/// The next event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineEvent<'a> {
    /// A line without its separator.
    Line(&'a [u8]),
    /// A line that was too long and has been skipped.
    TooLong,
    /// No more lines.
    End,
    /// No line yet: the filter drains, or the time limit has passed.
    Pending,
}

impl LineReader {
    /// Opens a file. A FIFO without a writer does not block the call; later reads wait for the
    /// writer.
    pub(crate) fn open(path: &Path, separator: u8) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self::new(file, separator))
    }

    pub(crate) fn new(stream: File, separator: u8) -> Self {
        let longest = MAX_LINE_BYTES;
        let (bytes, ended, too_long) = (Vec::new(), false, false);
        Self {
            stream,
            separator,
            longest,
            bytes,
            start: 0,
            searched: 0,
            ended,
            number: 0,
            too_long,
            skipped: 0,
        }
    }

    /// Returns the number of the last line returned, counted from 1.
    pub(crate) fn line_number(&self) -> u64 {
        self.number
    }

    /// Returns the next line as soon as it is complete, or [`LineEvent::Pending`] at `until`.
    ///
    /// # Errors
    /// The inner error is an error of the stream, or says that the stream has no separators. The
    /// outer error comes from [`Filter::wait`].
    pub(crate) fn next(
        &mut self,
        filter: &Filter,
        until: Option<Instant>,
    ) -> Result<io::Result<LineEvent<'_>>, Stop> {
        loop {
            let found = self.bytes[self.searched..].iter().position(|&byte| byte == self.separator);
            if let Some(at) = found {
                let line = self.start..self.searched + at;
                self.start = line.end + 1;
                self.searched = self.start;
                self.number += 1;
                let too_long = std::mem::take(&mut self.too_long);
                self.skipped = 0;
                return Ok(Ok(if too_long {
                    LineEvent::TooLong
                } else {
                    LineEvent::Line(&self.bytes[line])
                }));
            }
            self.searched = self.bytes.len();
            if self.ended {
                return Ok(Ok(self.take_last_line()));
            }
            if self.searched - self.start > self.longest {
                self.too_long = true;
                self.skipped = self.skipped.saturating_add(self.searched - self.start);
                self.start = self.searched;
                if self.skipped / MAX_SKIPPED_LINES >= self.longest {
                    (self.ended, self.too_long) = (true, false);
                    let skipped = self.skipped;
                    let why = format!(
                        "no line break in {skipped} bytes: expected one record per line; the rest is not read"
                    );
                    return Ok(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
                }
            }
            if !self.wait_readable(filter, until)? {
                return Ok(Ok(LineEvent::Pending));
            }
            if let Err(error) = self.fill_buffer() {
                return Ok(Err(error));
            }
        }
    }

    /// Returns the text after the last separator.
    fn take_last_line(&mut self) -> LineEvent<'_> {
        let too_long = std::mem::take(&mut self.too_long);
        let line = self.start..self.bytes.len();
        self.start = line.end;
        if line.is_empty() && !too_long {
            return LineEvent::End;
        }
        self.number += 1;
        if too_long { LineEvent::TooLong } else { LineEvent::Line(&self.bytes[line]) }
    }

    /// Waits for input, and flushes the output if there is none yet. Returns false if the filter
    /// drains or there is no input by `until`.
    fn wait_readable(&self, filter: &Filter, until: Option<Instant>) -> Result<bool, Stop> {
        let mut ready = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        if matches!(poll(&mut ready, PollTimeout::ZERO), Ok(0) | Err(Errno::EINTR)) {
            filter.output.input_idle()?;
            if !filter.wait(Some(self.stream.as_fd()), until)? {
                return Ok(false);
            }
            filter.output.set_input_busy();
        }
        Ok(true)
    }

    fn fill_buffer(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        let end = self.bytes.len();
        if self.bytes.try_reserve(READ_BYTES).is_err() {
            self.ended = true;
            self.start = end;
            let why = format!("not enough memory for a line of {end} bytes");
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
        }
        self.bytes.resize(end + READ_BYTES, 0);
        let read = self.stream.read(&mut self.bytes[end..]);
        self.bytes.truncate(end + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => self.ended = true,
            Ok(_) => (),
            Err(error) if is_transient(error.kind()) => (),
            Err(error) => {
                self.ended = true;
                self.start = end;
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Tells whether a read may be repeated, as nothing but its moment was wrong.
fn is_transient(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::CommonArgs;

    /// Returns the lines read from a pipe, `None` for each line that was too long, and the number
    /// of the last line.
    fn pieces(separator: u8, longest: usize, writes: &[&[u8]]) -> (Vec<Option<Vec<u8>>>, u64) {
        let (_unread, stdout) = nix::unistd::pipe().expect("a pipe");
        let filter = Filter::new("test", &CommonArgs::default(), stdout).expect("a filter");
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        let mut lines = LineReader { longest, ..LineReader::new(read.into(), separator) };
        let mut out = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                writes.iter().try_for_each(|bytes| File::from(write.try_clone()?).write_all(bytes))
            });
            loop {
                match lines
                    .next(&filter, None)
                    .expect("nothing stops it")
                    .expect("a pipe can be read")
                {
                    LineEvent::Line(line) => out.push(Some(line.to_vec())),
                    LineEvent::TooLong => out.push(None),
                    LineEvent::End => break,
                    LineEvent::Pending => panic!("nobody drains"),
                }
            }
        });
        (out, lines.line_number())
    }

    fn some(line: &[u8]) -> Option<Vec<u8>> {
        Some(line.to_vec())
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let expected = (vec![some(b"ab"), some(b""), some(b"c\0d"), some(b"ef")], 4);
        for writes in [
            &[b"ab\n\nc\0d\nef".as_slice()][..],
            &[b"a", b"b", b"\n\nc\0", b"d\ne", b"f"],
            &[b"ab\n\nc\0d\nef\n"],
        ] {
            assert_eq!(pieces(b'\n', MAX_LINE_BYTES, writes), expected, "{writes:?}");
        }
        assert_eq!(pieces(b'\n', MAX_LINE_BYTES, &[]), (vec![], 0));
        assert_eq!(pieces(0, MAX_LINE_BYTES, &[b"a\nb\0c"]), (vec![some(b"a\nb"), some(b"c")], 2));
    }

    #[test]
    fn a_line_that_never_ends_is_passed_over() {
        let long = [b'x'; 3 * READ_BYTES];
        assert_eq!(
            pieces(b'\n', READ_BYTES, &[b"a\n", &long, b"\nb\n"]),
            (vec![some(b"a"), None, some(b"b")], 3)
        );
        assert_eq!(pieces(b'\n', READ_BYTES, &[&long]), (vec![None], 1));
    }

    #[test]
    fn a_stream_without_lines_is_not_read_to_its_end() {
        let (_unread, stdout) = nix::unistd::pipe().expect("a pipe");
        let filter = Filter::new("test", &CommonArgs::default(), stdout).expect("a filter");
        let mut lines = LineReader {
            longest: READ_BYTES,
            ..LineReader::open(Path::new("/dev/zero"), b'\n').expect("a device")
        };
        let why = lines
            .next(&filter, None)
            .expect("nothing stops it")
            .expect_err("it has no end")
            .to_string();
        assert!(why.starts_with("no line break in "), "{why}");
        assert!(matches!(lines.next(&filter, None), Ok(Ok(LineEvent::End))));
    }
}
