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
use records::{Fail, Record};

use crate::expected::Expected;
use crate::lines::{Lines, Piece};
use crate::{Filter, Stop, signal};

/// The input of a filter.
pub struct Input {
    waiting: VecDeque<PathBuf>,
    current: Option<(String, Lines)>,
    separator: u8,
    /// The type of record that the filter works on.
    expected: Option<Expected>,
    /// What the input is called in messages.
    name: String,
}

/// What came of waiting for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// It came.
    Some(T),
    /// Nothing has come so far.
    NotYet,
    /// Nothing will come.
    None,
}

impl Input {
    /// The input that the operands name: files, or stdin where there is none, or where one is `-`.
    /// Nothing is read yet.
    ///
    /// # Errors
    /// A file that is not there or can't be read; stdin is meant and closed, or meant by no
    /// operand and a terminal.
    pub fn open(operands: &[PathBuf]) -> Result<Self, Stop> {
        let mut waiting: VecDeque<_> = operands.iter().cloned().collect();
        if waiting.is_empty() {
            if io::stdin().is_terminal() {
                return Err(Stop::NothingToRead);
            }
            waiting.push_back("-".into());
        }
        for path in &waiting {
            check(path).map_err(|error| Stop::fatal(name(path), error))?;
        }
        let name = if waiting.len() == 1 { name(&waiting[0]) } else { format!("{} files", waiting.len()) };
        Ok(Self { waiting, current: None, separator: b'\n', expected: None, name })
    }

    /// The same input, of which the filter works on records of type `kind`: it is warned of other types of azpipe, and
    /// fails where records came at the end, and none of this type. An empty input is no failure.
    pub fn expecting(self, kind: &'static str) -> Self {
        Self { expected: Some(Expected::new(kind)), ..self }
    }

    /// The same input, cut at another byte than the line break: at NUL for `find -print0`.
    pub fn separated_by(self, separator: u8) -> Self {
        Self { separator, ..self }
    }

    /// The next record. A line that is none, or of a newer version, is a failed input: told by
    /// [`Filter::fail`] and passed over. A `fail` record of another filter gives status 1 at the end, too. Where the
    /// filter drains, there is no more.
    ///
    /// # Errors
    /// As [`Filter::fail`]; [`Stop::Signal`] while it waits.
    pub fn next(&mut self, filter: &Filter) -> Result<Option<Record>, Stop> {
        match self.next_until(filter, None)? {
            Next::Some(record) => Ok(Some(record)),
            Next::NotYet | Next::None => Ok(None),
        }
    }

    /// The next record, as [`next`](Self::next) has it, unless there is none by `until`.
    ///
    /// # Errors
    /// As [`Input::next`].
    pub fn next_until(&mut self, filter: &Filter, until: Option<Instant>) -> Result<Next<Record>, Stop> {
        loop {
            let (line, about) = match self.next_piece(filter, until)? {
                Next::Some(piece) => piece,
                Next::NotYet => return Ok(Next::NotYet),
                Next::None => break,
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let record = match std::str::from_utf8(&line) {
                Ok(line) => Record::parse(line).map_err(|error| error.to_string()),
                Err(_) => Err("not a record: expected UTF-8".to_owned()),
            };
            match record {
                Ok(record) => {
                    if matches!(record, Record::Fail(_)) {
                        filter.mark_failed();
                    }
                    if let Some(expected) = &mut self.expected {
                        expected.count(&record, &about, filter);
                    }
                    return Ok(Next::Some(record));
                }
                Err(error) => filter.fail(Fail { about, error, ..Fail::default() })?,
            }
        }
        if let Some(expected) = self.expected.as_mut().filter(|_| self.current.is_none() && self.waiting.is_empty()) {
            expected.judge(filter, &self.name);
        }
        Ok(Next::None)
    }

    /// Whether all of it has been read. Where the filter drained, false means that there may be more.
    pub fn is_done(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    /// The next path, of any bytes. Empty ones are passed over.
    ///
    /// # Errors
    /// As [`Input::next`].
    pub fn next_path(&mut self, filter: &Filter) -> Result<Option<PathBuf>, Stop> {
        while let Next::Some((line, _)) = self.next_piece(filter, None)? {
            if !line.is_empty() {
                return Ok(Some(OsString::from_vec(line).into()));
            }
        }
        Ok(None)
    }

    /// The next line and where it stands, such as `tasks.jsonl:12`.
    fn next_piece(&mut self, filter: &Filter, until: Option<Instant>) -> Result<Next<(Vec<u8>, String)>, Stop> {
        loop {
            filter.check()?;
            if filter.draining() {
                return Ok(Next::None);
            }
            let Some((name, lines)) = &mut self.current else {
                if !self.open_next(filter)? {
                    // Whatever is still at work will not be followed by a wait for input.
                    filter.output.idle()?;
                    return Ok(Next::None);
                }
                continue;
            };
            let problem = match lines.next(filter, until)? {
                Ok(Piece::Line(line)) => {
                    let line = line.to_vec();
                    return Ok(Next::Some((line, format!("{name}:{}", lines.number()))));
                }
                Ok(Piece::TooLong) => Fail {
                    about: format!("{name}:{}", lines.number()),
                    error: "not a record: the line is longer than 64 MiB, which no scan's record is".to_owned(),
                    ..Fail::default()
                },
                Ok(Piece::End) => {
                    self.current = None;
                    continue;
                }
                Ok(Piece::Unread) if filter.draining() => return Ok(Next::None),
                Ok(Piece::Unread) => return Ok(Next::NotYet),
                Err(error) => {
                    Fail { about: name.clone(), error: error.to_string(), retryable: true, ..Fail::default() }
                }
            };
            filter.fail(problem)?;
        }
    }

    /// Opens the next file; false where there is none. A file that vanished is a failed input.
    fn open_next(&mut self, filter: &Filter) -> Result<bool, Stop> {
        while let Some(path) = self.waiting.pop_front() {
            let lines = match is_stdin(&path) {
                true => io::stdin().as_fd().try_clone_to_owned().map(|fd| Lines::new(File::from(fd), self.separator)),
                false => Lines::open(&path, self.separator),
            };
            match lines {
                Ok(lines) => {
                    self.current = Some((name(&path), lines));
                    return Ok(true);
                }
                Err(error) => filter.fail(Fail {
                    about: name(&path),
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

fn name(path: &Path) -> String {
    if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() }
}

/// Whether the file can be opened, without opening it: a FIFO would notice.
fn check(path: &Path) -> io::Result<()> {
    if is_stdin(path) {
        let closed = signal::was_closed(io::stdin());
        return if closed { Err(io::Error::other("is closed")) } else { Ok(()) };
    }
    if path.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok(access(path, AccessFlags::R_OK)?)
}
