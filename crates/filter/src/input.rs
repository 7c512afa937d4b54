//! The input of a filter: records or paths, from files or stdin, as they arrive.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::unistd::{AccessFlags, access};
use records::Record;

use crate::record_reader::{InputEvent, RecordReader, display_name, is_stdin};
use crate::record_types::ExpectedRecords;
use crate::{Filter, Stop, signal};

/// The input of a filter.
pub struct Input {
    pub(crate) reader: RecordReader,
    pub(crate) checks: InputChecks,
}

/// The checks of an input's records, which are made when a record is used.
pub(crate) struct InputChecks {
    /// The type of record that the filter works on.
    expected: Option<ExpectedRecords>,
    /// The input's name in messages.
    name: String,
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
    /// Opens the input that the operands name: files, or stdin if there are no operands or one is
    /// `-`. Nothing is read yet.
    ///
    /// # Errors
    /// Fails if a file is missing or can't be read, if stdin is meant and closed, and if there are
    /// no operands and stdin is a terminal.
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
        let name = if waiting.len() == 1 {
            display_name(&waiting[0])
        } else {
            format!("{} files", waiting.len())
        };
        Ok(Self {
            reader: RecordReader::new(waiting),
            checks: InputChecks { expected: None, name },
        })
    }

    /// Sets the type of record that the filter works on. The filter then warns of records of
    /// azpipe's other types. If the input had records and none was of this type, the end of the
    /// input is an error. An empty input is no error.
    pub fn with_expected_type(mut self, kind: &'static str) -> Self {
        let expected = ExpectedRecords::new(kind);
        self.reader.expected = expected.describe();
        self.checks.expected = Some(expected);
        self
    }

    /// Sets the byte that separates entries in place of the line break, such as NUL for `find
    /// -print0`.
    pub fn with_separator(mut self, separator: u8) -> Self {
        self.reader.set_separator(separator);
        self
    }

    /// Returns the next record, or `None` at the end and when the filter drains. A line that is not
    /// a record, or is of a newer version, is reported by [`Filter::fail`] and skipped. A file of
    /// another kind is reported once: binary data is not read on, and of the lines before the first
    /// record, the first is reported and the others are only counted. A `fail` record of another
    /// filter makes the status 1 at the end, too.
    ///
    /// # Errors
    /// Fails as [`Filter::fail`] does, and with [`Stop::Signal`] while it waits.
    pub fn next(&mut self, filter: &Filter) -> Result<Option<Record>, Stop> {
        match self.next_until(filter, None)? {
            Polled::Ready(record) => Ok(Some(record)),
            Polled::Pending | Polled::End => Ok(None),
        }
    }

    /// Returns the next record as [`next`](Self::next) does, or [`Polled::Pending`] if there is
    /// none by `until`.
    ///
    /// # Errors
    /// Fails as [`Input::next`] does.
    pub fn next_until(
        &mut self,
        filter: &Filter,
        until: Option<Instant>,
    ) -> Result<Polled<Record>, Stop> {
        loop {
            match self.reader.next(filter, until)? {
                Polled::Ready(event) => {
                    if let Some(record) = self.checks.accept(event, filter)? {
                        return Ok(Polled::Ready(record));
                    }
                }
                Polled::Pending => return Ok(Polled::Pending),
                Polled::End => break,
            }
        }
        if self.reader.is_exhausted() {
            self.checks.check_end(filter);
        }
        Ok(Polled::End)
    }

    /// Returns the next path, which may hold any bytes. Empty paths are skipped.
    ///
    /// # Errors
    /// Fails as [`Input::next`] does.
    pub fn next_path(&mut self, filter: &Filter) -> Result<Option<PathBuf>, Stop> {
        while let Polled::Ready(line) = self.reader.next_line(filter, None)? {
            match line {
                Ok(line) if line.is_empty() => (),
                Ok(line) => return Ok(Some(OsString::from_vec(line).into())),
                Err(fail) => filter.fail(fail)?,
            }
        }
        Ok(None)
    }
}

impl InputChecks {
    /// Acts on an event of the input: reports a failure, or checks a record and returns it.
    pub(crate) fn accept(
        &mut self,
        event: InputEvent,
        filter: &Filter,
    ) -> Result<Option<Record>, Stop> {
        let (record, place) = match event {
            InputEvent::Record { record, place, .. } => (record, place),
            InputEvent::Failure(fail) => return filter.fail(fail).map(|()| None),
        };
        if matches!(record, Record::Fail(_)) {
            filter.mark_failed();
        }
        if let Some(expected) = &mut self.expected {
            expected.count(&record, &place, filter);
        }
        Ok(Some(record))
    }

    /// Checks at the end of the input that there were records of the expected type.
    pub(crate) fn check_end(&mut self, filter: &Filter) {
        if let Some(expected) = &mut self.expected {
            expected.check_any_expected(filter, &self.name);
        }
    }
}

/// Checks whether the file may be read without opening it, because the writer of a FIFO would
/// notice.
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
