//! Messages on stderr, one per line, and the progress line, which is erased before a message is written.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The console on stderr. A message that can't be written is lost, because there is nowhere else to report it.
pub(crate) struct Console {
    terminal: bool,
    line: Mutex<ProgressLine>,
}

/// The state of the terminal's last line.
#[derive(Default)]
struct ProgressLine {
    /// True while the line shows progress.
    shown: bool,
    /// True while another filter may draw on the line.
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

    /// Shows the progress: in place on a terminal, as a new line elsewhere.
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

    /// Erases the progress line before something else is written to the terminal. The next update shows it again.
    pub(crate) fn erase_progress(&self) {
        write(self.lock().erase());
    }

    /// Erases the progress line from the terminal for good.
    pub(crate) fn clear_progress(&self) {
        let mut line = self.lock();
        line.owned_by_other = false;
        write(line.erase());
    }

    /// Sets whether another filter may draw on the last line. Messages overwrite the line in either case.
    pub(crate) fn yield_line_to_other(&self, to_another: bool) {
        self.lock().owned_by_other = to_another;
    }

    /// Returns the pause between two updates of the progress; it is longer for a log than for a terminal.
    pub(crate) fn progress_interval(&self) -> Duration {
        if self.terminal { Duration::from_millis(100) } else { Duration::from_secs(5) }
    }

    /// Returns whether progress can be shown: stdout must not be the same terminal, where records would mix with it.
    pub(crate) fn allows_progress(&self) -> bool {
        self.can_erase_lines() && !std::io::stdout().is_terminal()
    }

    /// Returns whether stderr is a terminal on which a line can be erased.
    pub(crate) fn can_erase_lines(&self) -> bool {
        self.terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
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

/// Escapes control characters, since file names may hold line breaks and terminal sequences.
pub(crate) fn escape_control(message: &str) -> String {
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
