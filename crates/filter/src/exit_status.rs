//! The exit status of the filters.
//!
//! 0 is all good, an empty input too. 124 to 127 and 255 are never used: xargs, parallel and
//! timeout read them as their own.

/// Finished, but some records failed; each has a `fail` record and a line on stderr.
pub const SOME_FAILED: u8 = 1;

/// Nothing could be done about it: usage, configuration or I/O.
pub const USAGE_OR_IO: u8 = 2;

/// Drained with work left to do (the number of sysexits' EX_TEMPFAIL): run it again.
pub const DRAINED: u8 = 75;

/// Drained before any work was done: running it again under the same limit may well be in vain.
pub const DRAINED_NO_WORK: u8 = 76;

/// Added to a signal's number where a shell reports a death by it.
pub const SIGNAL_BASE: u8 = 128;
