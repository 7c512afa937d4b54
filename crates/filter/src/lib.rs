//! The parts that all Unix filters of azpipe share: streams of records, exit status, signals,
//! messages, progress.
//!
//! A filter is a clap struct with [`CommonArgs`] flattened into it, and a body:
//!
//! ```no_run
//! use std::path::PathBuf;
//! use std::process::ExitCode;
//!
//! use filter::{CommonArgs, Filter, Input, Stop};
//!
//! /// Passes records on
//! #[derive(clap::Parser)]
//! struct Args {
//!     /// Files of records
//!     files: Vec<PathBuf>,
//!     #[command(flatten)]
//!     common: CommonArgs,
//! }
//!
//! impl AsRef<CommonArgs> for Args {
//!     fn as_ref(&self) -> &CommonArgs {
//!         &self.common
//!     }
//! }
//!
//! fn body(args: Args, filter: &Filter) -> Result<(), Stop> {
//!     let mut input = Input::open(&args.files)?;
//!     while let Some(record) = input.next(filter)? {
//!         filter.emit(&record)?;
//!     }
//!     Ok(())
//! }
//!
//! fn main() -> ExitCode {
//!     filter::run("record-cat", body)
//! }
//! ```
//!
//! [`run()`] parses the arguments, catches the signals, flushes the output, and converts the
//! outcome into an [`exit_status`]. Lines on stderr are `tool: where: what`, one per problem.
//!
//! # Stopping and draining
//! SIGINT and SIGTERM stop a filter: [`Filter`]'s functions return [`Stop`], and the body returns
//! it to [`run()`]. A filter with long tasks can *drain* instead ([`Filter::enable_drain_signals`],
//! [`Filter::drain_at`]): at the first SIGTERM or SIGUSR1, or at a deadline, it takes no more
//! input, ends the work that it has begun, and exits with status [`DRAINED`](exit_status::DRAINED),
//! so that the rest can be run later.
//!
//! Files that appear whole or not at all are in crate `system` (`system::atomic`).

pub mod duration;
pub mod exit_status;
pub mod quote;
pub mod worker_process;

mod args;
mod console;
mod filter;
mod input;
mod line_reader;
#[cfg(test)]
mod message_tests;
mod numbers;
mod output;
mod progress;
mod progress_counts;
mod read_ahead;
mod record_reader;
mod record_types;
mod run;
mod signal;
mod stop;
mod terminal_view;

pub use args::{CommonArgs, ProgressMode};
pub use filter::Filter;
pub use input::{Input, Polled};
pub use numbers::{byte_count, number, whole_number};
pub use progress::Progress;
pub use progress_counts::{CountedFrames, FrameCounts, RunEnd, Work};
pub use read_ahead::ReadAhead;
pub use run::{command, run};
pub use stop::Stop;
pub use terminal_view::TerminalView;
