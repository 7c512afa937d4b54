//! Records as text, for a person who looks at a terminal.

use records::Record;

/// Formats a filter's records for a terminal, where nobody reads JSON.
///
/// A filter that has one passes it to
/// [`Filter::set_terminal_view`](crate::Filter::set_terminal_view).
pub trait TerminalView: Send {
    /// Formats a record as lines without the last line break. Returns `None` for a record that is
    /// shown as JSON, and an empty text for one that is not shown.
    fn format(&mut self, record: &Record) -> Option<String>;

    /// Formats the lines that follow the last record; empty if there are none.
    fn format_end(&mut self) -> String;
}
