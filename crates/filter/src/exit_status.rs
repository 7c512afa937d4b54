//! The exit statuses of the filters.
//!
//! Status 0 means that all is well, even with an empty input. Statuses 124 to 127 and 255 are never
//! used, because xargs, parallel and timeout give them meanings of their own.

/// The filter finished, but some records failed; each has a `fail` record and a line on stderr.
pub const SOME_FAILED: u8 = 1;

/// The filter could not work at all: wrong usage, wrong configuration or an I/O error.
pub const USAGE_OR_IO: u8 = 2;

/// The filter drained with work left to do; run it again. (The number is EX_TEMPFAIL of sysexits.)
pub const DRAINED: u8 = 75;

/// The filter drained before it did any work; running it again under the same time limit may not
/// help.
pub const DRAINED_NO_WORK: u8 = 76;

/// The number that a shell adds to a signal's number to report a death by that signal.
pub const SIGNAL_BASE: u8 = 128;
