//! The flags that all five filters have.

use clap::{ArgAction, Args, ValueEnum};

/// The flags that all five filters have: flatten them into a filter's own.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Common options")]
pub struct CommonArgs {
    /// Exit with 0 even if files or monitor values are missing
    ///
    /// Frames without a pattern for these reasons are NaN in the results, and the records name them as usual. Frames whose
    /// data can't be read, is damaged or has changed still give status 1. It has an effect in ai-integrate and gather, and
    /// slurm-emit passes it to its jobs; scan-find and plan-split accept and ignore it.
    #[arg(long)]
    pub allow_missing: bool,

    /// Stop at the first input that fails
    ///
    /// By default, the failure is reported and the next input follows.
    #[arg(long)]
    pub fail_fast: bool,

    /// Write each record at once, unbuffered
    ///
    /// By default, records are written in blocks while there is more input to read, and at once when there is none.
    #[arg(long)]
    pub line_buffered: bool,

    /// Show progress on stderr: auto, on or off
    ///
    /// `auto` shows it if stderr is a terminal, stdout is not, and TERM is not `dumb`.
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub progress: When,

    /// Print only errors on stderr
    #[arg(short, long, overrides_with = "verbose")]
    pub quiet: bool,

    /// Print more on stderr; -vv for still more
    #[arg(short, long, action = ArgAction::Count, overrides_with = "quiet")]
    pub verbose: u8,
}

/// When to do something that suits a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// Where the stream is a terminal.
    #[default]
    Auto,
    /// On any stream
    #[value(name = "on")]
    Always,
    /// Never.
    Off,
}
