//! stderr: one line a message, and the progress line that gives way to them.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The stream that the messages go to. A message that can't be written is lost: there is nobody
/// left to tell.
pub(crate) struct Console {
    terminal: bool,
    line: Mutex<ProgressLine>,
}

/// The last line of the terminal.
#[derive(Default)]
struct ProgressLine {
    /// Whether progress stands there.
    shown: bool,
    /// Whether it is another filter's to draw on.
    owned_by_other: bool,
}

impl Console {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), line: Mutex::default() }
    }

    /// Writes a message as a line of its own.
    pub(crate) fn write_message(&self, message: &str) {
        let mut line = self.lock();
        write(&format!("{}{}\n", line.erase(), escape_control(message)));
    }

    /// Shows where the work stands: in place on a terminal, as a line elsewhere.
    pub(crate) fn show_progress(&self, text: &str) {
        let mut line = self.lock();
        if line.owned_by_other {
            return;
        }
        if self.terminal {
            write(&format!("{}{text}", line.erase()));
            line.shown = true;
        } else {
            write(&format!("{text}\n"));
        }
    }

    /// Takes the progress line off the terminal.
    pub(crate) fn clear_progress(&self) {
        let mut line = self.lock();
        line.owned_by_other = false;
        write(line.erase());
    }

    /// Leaves the last line to another filter that draws on it, or takes it back. Messages go over it in either case.
    pub(crate) fn yield_line_to_other(&self, to_another: bool) {
        self.lock().owned_by_other = to_another;
    }

    /// How long progress is not shown again: a log wants fewer lines than a terminal.
    pub(crate) fn progress_interval(&self) -> Duration {
        if self.terminal { Duration::from_millis(100) } else { Duration::from_secs(5) }
    }

    /// Whether progress suits this console and the stdout beside it, whose records would run into it.
    pub(crate) fn allows_progress(&self) -> bool {
        self.terminal && !std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    fn lock(&self) -> MutexGuard<'_, ProgressLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgressLine {
    fn erase(&mut self) -> &'static str {
        if std::mem::take(&mut self.shown) || self.owned_by_other { "\r\x1b[K" } else { "" }
    }
}

fn write(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// The message in one line: file names may hold line breaks and terminal sequences.
fn escape_control(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for char in message.chars() {
        if char.is_control() { out.extend(char.escape_default()) } else { out.push(char) }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_message_is_one_line_without_escapes() {
        assert_eq!(super::escape_control("a\nb\x1b[2Jé'\t"), "a\\nb\\u{1b}[2Jé'\\t");
    }
}
