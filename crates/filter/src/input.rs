//! The input of a filter: records or paths, from files or stdin, as they arrive.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::unistd::{AccessFlags, access};
use records::{Fail, Record, RecordError};

use crate::line_reader::{LineEvent, LineReader};
use crate::record_types::ExpectedRecords;
use crate::{Filter, Stop, signal};

/// The input of a filter.
pub struct Input {
    pending_files: VecDeque<PathBuf>,
    current: Option<CurrentFile>,
    separator: u8,
    /// The type of record that the filter works on.
    expected: Option<ExpectedRecords>,
    /// The input's name in messages.
    name: String,
}

/// The file that is being read.
struct CurrentFile {
    /// The file's name in messages.
    name: String,
    lines: LineReader,
    /// True once a record was read. A file whose first lines are no records may be another kind of file.
    has_records: bool,
    /// The number of lines at the beginning that are not records.
    leading_lines: u64,
}

/// The outcome of a wait with a time limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// The value has arrived.
    Ready(T),
    /// Nothing has arrived so far.
    Pending,
    /// Nothing more will arrive.
    End,
}

impl Input {
    /// Opens the input that the operands name: files, or stdin if there are no operands or one is `-`. Nothing is
    /// read yet.
    ///
    /// # Errors
    /// Fails if a file is missing or can't be read, if stdin is meant and closed, and if there are no operands and
    /// stdin is a terminal.
    pub fn open(operands: &[PathBuf]) -> Result<Self, Stop> {
        let mut waiting: VecDeque<_> = operands.iter().cloned().collect();
        if waiting.is_empty() {
            if io::stdin().is_terminal() {
                return Err(Stop::NothingToRead);
            }
            waiting.push_back("-".into());
        }
        for path in &waiting {
            check_readable(path).map_err(|error| Stop::fatal(display_name(path), error))?;
        }
        let name = if waiting.len() == 1 { display_name(&waiting[0]) } else { format!("{} files", waiting.len()) };
        Ok(Self { pending_files: waiting, current: None, separator: b'\n', expected: None, name })
    }

    /// Sets the type of record that the filter works on. The filter then warns of records of azpipe's other types. If
    /// the input had records and none was of this type, the end of the input is an error. An empty input is no error.
    pub fn with_expected_type(self, kind: &'static str) -> Self {
        Self { expected: Some(ExpectedRecords::new(kind)), ..self }
    }

    /// Sets the byte that separates entries in place of the line break, such as NUL for `find -print0`.
    pub fn with_separator(self, separator: u8) -> Self {
        Self { separator, ..self }
    }

    /// Returns the next record, or `None` at the end and when the filter drains. A line that is not a record, or is
    /// of a newer version, is reported by [`Filter::fail`] and skipped. A file of another kind is reported once: binary
    /// data is not read on, and of the lines before the first record, the first is reported and the others are only counted. A `fail` record of
    /// another filter makes the status 1 at the end, too.
    ///
    /// # Errors
    /// Fails as [`Filter::fail`] does, and with [`Stop::Signal`] while it waits.
    pub fn next(&mut self, filter: &Filter) -> Result<Option<Record>, Stop> {
        match self.next_until(filter, None)? {
            Polled::Ready(record) => Ok(Some(record)),
            Polled::Pending | Polled::End => Ok(None),
        }
    }

    /// Returns the next record as [`next`](Self::next) does, or [`Polled::Pending`] if there is none by `until`.
    ///
    /// # Errors
    /// Fails as [`Input::next`] does.
    pub fn next_until(&mut self, filter: &Filter, until: Option<Instant>) -> Result<Polled<Record>, Stop> {
        loop {
            let (line, about) = match self.next_line(filter, until)? {
                Polled::Ready(piece) => piece,
                Polled::Pending => return Ok(Polled::Pending),
                Polled::End => break,
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let parsed = match std::str::from_utf8(&line) {
                Ok(line) => Record::parse(line),
                Err(_) => Err(RecordError::NotRecord("expected UTF-8".to_owned())),
            };
            if !matches!(parsed, Err(RecordError::NotRecord(_))) {
                self.report_leading_lines(filter)?;
                self.current.iter_mut().for_each(|current| current.has_records = true);
            }
            match parsed {
                Ok(record) => {
                    if matches!(record, Record::Fail(_)) {
                        filter.mark_failed();
                    }
                    if let Some(expected) = &mut self.expected {
                        expected.count(&record, &about, filter);
                    }
                    return Ok(Polled::Ready(record));
                }
                Err(error) => {
                    let is_binary = line.contains(&0) || std::str::from_utf8(&line).is_err();
                    self.report_bad_line(filter, about, error.to_string(), is_binary)?;
                }
            }
        }
        if let Some(expected) =
            self.expected.as_mut().filter(|_| self.current.is_none() && self.pending_files.is_empty())
        {
            expected.check_any_expected(filter, &self.name);
        }
        Ok(Polled::End)
    }

    /// Reports a line that is not a record. Before the first record of a file, only the first such line is reported at
    /// once, and a file that is binary is not read on.
    fn report_bad_line(&mut self, filter: &Filter, about: String, error: String, is_binary: bool) -> Result<(), Stop> {
        let Some(current) = self.current.as_mut().filter(|current| !current.has_records) else {
            return filter.fail(Fail { about, error, ..Fail::default() });
        };
        if is_binary {
            let about = current.name.clone();
            self.current = None;
            let error = format!("binary data, not records: expected {}", self.describe_expected());
            return filter.fail(Fail { about, error, ..Fail::default() });
        }
        current.leading_lines += 1;
        if current.leading_lines > 1 {
            return Ok(());
        }
        filter.fail(Fail { about, error, ..Fail::default() })
    }

    /// Reports the lines at the beginning of the current file that are not records, except the first, which
    /// [`report_bad_line`](Self::report_bad_line) has reported.
    fn report_leading_lines(&mut self, filter: &Filter) -> Result<(), Stop> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let about = current.name.clone();
        let error = match std::mem::take(&mut current.leading_lines) {
            0 | 1 => return Ok(()),
            2 => "one more line is not a record".to_owned(),
            lines => format!("{} more lines are not records", lines - 1),
        };
        let error = format!("{error}: expected {}", self.describe_expected());
        filter.fail(Fail { about, error, ..Fail::default() })
    }

    fn describe_expected(&self) -> String {
        self.expected.as_ref().map_or_else(|| "one JSON object per line".to_owned(), ExpectedRecords::describe)
    }

    /// Returns whether all of the input has been read. If the filter drained, false means that there may be more.
    pub fn is_exhausted(&self) -> bool {
        self.current.is_none() && self.pending_files.is_empty()
    }

    /// Returns the next path, which may hold any bytes. Empty paths are skipped.
    ///
    /// # Errors
    /// Fails as [`Input::next`] does.
    pub fn next_path(&mut self, filter: &Filter) -> Result<Option<PathBuf>, Stop> {
        while let Polled::Ready((line, _)) = self.next_line(filter, None)? {
            if !line.is_empty() {
                return Ok(Some(OsString::from_vec(line).into()));
            }
        }
        Ok(None)
    }

    /// Returns the next line and its position, such as `tasks.jsonl:12`.
    fn next_line(&mut self, filter: &Filter, until: Option<Instant>) -> Result<Polled<(Vec<u8>, String)>, Stop> {
        loop {
            filter.check_stopped()?;
            if filter.is_draining() {
                return Ok(Polled::End);
            }
            let Some(CurrentFile { name, lines, .. }) = &mut self.current else {
                if !self.open_next(filter)? {
                    // No wait for input follows that could flush the records of work still in progress.
                    filter.output.input_idle()?;
                    return Ok(Polled::End);
                }
                continue;
            };
            let problem = match lines.next(filter, until)? {
                Ok(LineEvent::Line(line)) => {
                    let line = line.to_vec();
                    return Ok(Polled::Ready((line, format!("{name}:{}", lines.line_number()))));
                }
                Ok(LineEvent::TooLong) => Fail {
                    about: format!("{name}:{}", lines.line_number()),
                    error: "not a record: a line longer than 64 MiB".to_owned(),
                    ..Fail::default()
                },
                Ok(LineEvent::End) => {
                    self.report_leading_lines(filter)?;
                    self.current = None;
                    continue;
                }
                Ok(LineEvent::Pending) if filter.is_draining() => return Ok(Polled::End),
                Ok(LineEvent::Pending) => return Ok(Polled::Pending),
                Err(error) => {
                    Fail { about: name.clone(), error: error.to_string(), retryable: true, ..Fail::default() }
                }
            };
            filter.fail(problem)?;
        }
    }

    /// Opens the next file, and returns whether there is one. A file that has vanished is a failed input.
    fn open_next(&mut self, filter: &Filter) -> Result<bool, Stop> {
        while let Some(path) = self.pending_files.pop_front() {
            let lines = match is_stdin(&path) {
                true => {
                    io::stdin().as_fd().try_clone_to_owned().map(|fd| LineReader::new(File::from(fd), self.separator))
                }
                false => LineReader::open(&path, self.separator),
            };
            match lines {
                Ok(lines) => {
                    let name = display_name(&path);
                    self.current = Some(CurrentFile { name, lines, has_records: false, leading_lines: 0 });
                    return Ok(true);
                }
                Err(error) => filter.fail(Fail {
                    about: display_name(&path),
                    error: error.to_string(),
                    retryable: true,
                    ..Fail::default()
                })?,
            }
        }
        Ok(false)
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn display_name(path: &Path) -> String {
    if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() }
}

/// Checks whether the file may be read without opening it, because the writer of a FIFO would notice.
fn check_readable(path: &Path) -> io::Result<()> {
    if is_stdin(path) {
        let closed = signal::was_closed(io::stdin());
        return if closed { Err(io::Error::other("is closed")) } else { Ok(()) };
    }
    if path.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok(access(path, AccessFlags::R_OK)?)
}
