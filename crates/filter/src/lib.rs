//! The parts that all Unix filters of azpipe share: streams, exit status, signals, atomic files, progress.
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
//! [`run()`] parses the arguments, catches the signals, flushes the output, and converts the outcome into an
//! [`exit_status`]. Lines on stderr are `tool: where: what`, one per problem.

pub mod atomic;
pub mod cpu;
pub mod duration;
pub mod exit_status;
pub mod mapped_file;
pub mod memory;
pub mod ownership;
pub mod quote;
pub mod untrusted_file;
pub mod worker_process;

mod args;
mod console;
mod filter;
mod input;
mod line_reader;
mod output;
mod progress;
mod record_types;
mod run;
mod signal;
mod stop;
mod writer_process;

pub use args::{CommonArgs, When};
pub use filter::Filter;
pub use input::{Input, Polled};
pub use progress::Progress;
pub use run::{command, run};
pub use stop::Stop;
