//! The flags that all five filters have.

use clap::{ArgAction, Args, ValueEnum};

/// The flags that all five filters have: flatten them into a filter's own.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Common options")]
pub struct CommonArgs {
    /// Leave the exit status at 0 for frames without data
    ///
    /// For those who know that files are missing or were never written, or that a monitor has no value: such frames
    /// are NaN and stand in the records as ever. Frames whose data can't be read, is damaged or has changed give
    /// status 1 all the same. It concerns ai-integrate and gather; slurm-emit hands it on to its jobs.
    #[arg(long)]
    pub allow_missing: bool,

    /// Stop at the first input that fails
    #[arg(long)]
    pub fail_fast: bool,

    /// Write each record as soon as it is made
    ///
    /// Without it, records are written in blocks while there is more input to read, and at once
    /// when there is none.
    #[arg(long)]
    pub line_buffered: bool,

    /// Whether to show progress on stderr
    ///
    /// `auto` shows it where stderr is a terminal, stdout is not, and TERM is not `dumb`.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub progress: When,

    /// Say nothing on stderr but errors
    #[arg(short, long, overrides_with = "verbose")]
    pub quiet: bool,

    /// Say more on stderr; twice for more yet
    #[arg(short, long, action = ArgAction::Count, overrides_with = "quiet")]
    pub verbose: u8,
}

/// When to do something that suits a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// Where the stream is a terminal.
    #[default]
    Auto,
    /// Always.
    #[value(name = "on")]
    Always,
    /// Never.
    Off,
}
