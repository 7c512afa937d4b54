//! Reads the records of files or of stdin, one after the other, without acting on them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use records::{Fail, Record, RecordError};

use crate::line_reader::{LineEvent, LineReader};
use crate::{Filter, Polled, Stop};

/// Reads the records of the files that the operands name, in their order.
pub(crate) struct RecordReader {
    pending_files: VecDeque<PathBuf>,
    current: Option<CurrentFile>,
    separator: u8,
    /// Describes the records that the filter works on, for messages.
    pub(crate) expected: String,
    /// Events that have been read and not been returned yet.
    waiting: VecDeque<InputEvent>,
}

/// The file that is being read.
struct CurrentFile {
    /// The file's name in messages.
    name: String,
    lines: LineReader,
    /// True once a record was read. A file whose first lines are no records may be another kind of
    /// file.
    has_records: bool,
    /// The number of lines at the beginning that are not records.
    leading_lines: u64,
}

/// The next thing in an input: a record, or a failure in the place of one.
#[derive(Debug)]
pub(crate) enum InputEvent {
    Record {
        record: Record,
        /// Its position, such as `tasks.jsonl:12`.
        place: String,
        /// The length of its line in bytes.
        length: usize,
    },
    /// A failure to report.
    Failure(Fail),
}

/// A line and its position; `None` if failures were found in its place.
type Line = Option<(Vec<u8>, String)>;

impl RecordReader {
    pub(crate) fn new(files: VecDeque<PathBuf>) -> Self {
        let expected = "one JSON object per line".to_owned();
        Self {
            pending_files: files,
            current: None,
            separator: b'\n',
            expected,
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn set_separator(&mut self, separator: u8) {
        self.separator = separator;
    }

    /// Returns whether all of the input has been read.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.current.is_none() && self.pending_files.is_empty() && self.waiting.is_empty()
    }

    /// Returns the next event, or [`Polled::Pending`] if there is none by `until`, or
    /// [`Polled::End`] at the end and when the filter drains.
    pub(crate) fn next(
        &mut self,
        filter: &Filter,
        until: Option<Instant>,
    ) -> Result<Polled<InputEvent>, Stop> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Polled::Ready(event));
            }
            match self.read_line(filter, until)? {
                Polled::Ready(Some((line, place))) => self.parse_line(&line, place),
                Polled::Ready(None) => (),
                Polled::Pending => return Ok(Polled::Pending),
                Polled::End => return Ok(Polled::End),
            }
        }
    }

    /// Returns the next line as it is, or a failure in its place.
    pub(crate) fn next_line(
        &mut self,
        filter: &Filter,
        until: Option<Instant>,
    ) -> Result<Polled<Result<Vec<u8>, Fail>>, Stop> {
        loop {
            if let Some(InputEvent::Failure(fail)) = self.waiting.pop_front() {
                return Ok(Polled::Ready(Err(fail)));
            }
            match self.read_line(filter, until)? {
                Polled::Ready(Some((line, _))) => return Ok(Polled::Ready(Ok(line))),
                Polled::Ready(None) => (),
                Polled::Pending => return Ok(Polled::Pending),
                Polled::End => return Ok(Polled::End),
            }
        }
    }

    /// Parses a line. A file of another kind is reported once: binary data is not read on, and of
    /// the lines before the first record, the first is reported and the others are only counted.
    fn parse_line(&mut self, line: &[u8], place: String) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let parsed = match std::str::from_utf8(line) {
            Ok(line) => Record::parse(line),
            Err(_) => Err(RecordError::NotRecord("expected UTF-8".to_owned())),
        };
        if !matches!(parsed, Err(RecordError::NotRecord(_))) {
            self.report_leading_lines();
            self.current.iter_mut().for_each(|current| current.has_records = true);
        }
        match parsed {
            Ok(record) => {
                self.waiting.push_back(InputEvent::Record { record, place, length: line.len() })
            }
            Err(error) => {
                let is_binary = line.contains(&0) || std::str::from_utf8(line).is_err();
                self.report_bad_line(place, error.to_string(), is_binary);
            }
        }
    }

    /// Reports a line that is not a record. Before the first record of a file, only the first such
    /// line is reported at once, and a file that is binary is not read on.
    fn report_bad_line(&mut self, about: String, error: String, is_binary: bool) {
        let Some(current) = self.current.as_mut().filter(|current| !current.has_records) else {
            return self.report(Fail { about, error, ..Fail::default() });
        };
        if is_binary {
            let about = current.name.clone();
            self.current = None;
            let error = format!("binary data, not records: expected {}", self.expected);
            return self.report(Fail { about, error, ..Fail::default() });
        }
        current.leading_lines += 1;
        if current.leading_lines == 1 {
            self.report(Fail { about, error, ..Fail::default() });
        }
    }

    /// Reports the lines at the beginning of the current file that are not records, except the
    /// first, which [`report_bad_line`](Self::report_bad_line) has reported.
    fn report_leading_lines(&mut self) {
        let Some(current) = &mut self.current else { return };
        let about = current.name.clone();
        let error = match std::mem::take(&mut current.leading_lines) {
            0 | 1 => return,
            2 => "one more line is not a record".to_owned(),
            lines => format!("{} more lines are not records", lines - 1),
        };
        let error = format!("{error}: expected {}", self.expected);
        self.report(Fail { about, error, ..Fail::default() });
    }

    fn report(&mut self, fail: Fail) {
        self.waiting.push_back(InputEvent::Failure(fail));
    }

    fn read_line(&mut self, filter: &Filter, until: Option<Instant>) -> Result<Polled<Line>, Stop> {
        loop {
            filter.check_stopped()?;
            if filter.is_draining() {
                return Ok(Polled::End);
            }
            let Some(CurrentFile { name, lines, .. }) = &mut self.current else {
                let is_open = self.open_next();
                if !self.waiting.is_empty() {
                    return Ok(Polled::Ready(None));
                }
                if is_open {
                    continue;
                }
                // No wait for input follows that could flush the records of work still in progress.
                filter.output.input_idle()?;
                return Ok(Polled::End);
            };
            let problem = match lines.next(filter, until)? {
                Ok(LineEvent::Line(line)) => {
                    let line = line.to_vec();
                    return Ok(Polled::Ready(Some((
                        line,
                        format!("{name}:{}", lines.line_number()),
                    ))));
                }
                Ok(LineEvent::TooLong) => Fail {
                    about: format!("{name}:{}", lines.line_number()),
                    error: "not a record: a line longer than 64 MiB".to_owned(),
                    ..Fail::default()
                },
                Ok(LineEvent::End) => {
                    self.report_leading_lines();
                    self.current = None;
                    return Ok(Polled::Ready(None));
                }
                Ok(LineEvent::Pending) if filter.is_draining() => return Ok(Polled::End),
                Ok(LineEvent::Pending) => return Ok(Polled::Pending),
                Err(error) => Fail {
                    about: name.clone(),
                    error: error.to_string(),
                    retryable: true,
                    ..Fail::default()
                },
            };
            self.report(problem);
            return Ok(Polled::Ready(None));
        }
    }

    /// Opens the next file, and returns whether there is one. A file that has vanished is a failed
    /// input.
    fn open_next(&mut self) -> bool {
        while let Some(path) = self.pending_files.pop_front() {
            let lines = match is_stdin(&path) {
                true => io::stdin()
                    .as_fd()
                    .try_clone_to_owned()
                    .map(|fd| LineReader::new(File::from(fd), self.separator)),
                false => LineReader::open(&path, self.separator),
            };
            let name = display_name(&path);
            match lines {
                Ok(lines) => {
                    self.current =
                        Some(CurrentFile { name, lines, has_records: false, leading_lines: 0 });
                    return true;
                }
                Err(error) => {
                    self.report(Fail {
                        about: name,
                        error: error.to_string(),
                        retryable: true,
                        ..Fail::default()
                    });
                }
            }
        }
        false
    }
}

pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(crate) fn display_name(path: &Path) -> String {
    if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() }
}
