//! Messages on stderr, one per line, and the progress line, which is erased before a message is
//! written.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use terminal_size::{Width, terminal_size_of};

/// The console on stderr. A message that can't be written is lost, because there is nowhere else to
/// report it.
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

    /// Shows the progress in place of what the last line shows, as far as it fits on one line: of a
    /// line that goes on in the next one, only the rest could be erased.
    pub(crate) fn show_progress(&self, text: &str) {
        let mut line = self.lock();
        if line.owned_by_other {
            return;
        }
        let width = terminal_size_of(std::io::stderr())
            .map_or(usize::MAX, |(Width(width), _)| width.into());
        let shown: String = escape_control(text).chars().take(width.saturating_sub(1)).collect();
        write(&format!("{}{shown}", line.erase()));
        line.shown = true;
    }

    /// Erases the progress line before something else is written to the terminal. The next update
    /// shows it again.
    pub(crate) fn erase_progress(&self) {
        write(self.lock().erase());
    }

    /// Erases the progress line from the terminal for good.
    pub(crate) fn clear_progress(&self) {
        let mut line = self.lock();
        line.owned_by_other = false;
        write(line.erase());
    }

    /// Sets whether another filter may draw on the last line. Messages overwrite the line in either
    /// case.
    pub(crate) fn yield_line_to_other(&self, to_another: bool) {
        self.lock().owned_by_other = to_another;
    }

    /// Returns whether records are written to the terminal, too.
    pub(crate) fn shares_terminal_with_stdout(&self) -> bool {
        self.terminal && std::io::stdout().is_terminal()
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
