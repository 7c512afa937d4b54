//! The flags that all five filters have.

use clap::{ArgAction, Args, ValueEnum};

/// The flags that all five filters have: flatten them into a filter's own.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Common options")]
pub struct CommonArgs {
    /// Exit with 0 even if files or monitor values are missing
    ///
    /// Frames without a pattern for these reasons, and those without a geometry or a valid pixel, are
    /// NaN in the results, and the records name them as usual. Frames whose data can't be read, is
    /// damaged or has changed still give status 1. It has an effect in ai-integrate and gather, and
    /// slurm-emit passes it to its jobs; scan-find and plan-split accept and ignore it. After
    /// plan-split --replace, gather then replaces an earlier result even if only that has patterns of
    /// frames that are missing now.
    #[arg(long)]
    pub allow_missing: bool,

    /// Stop at the first input that fails
    ///
    /// By default, the failure is reported and the next input follows.
    #[arg(long)]
    pub fail_fast: bool,

    /// Write each record at once, unbuffered
    ///
    /// By default, records are written in blocks while there is more input to read, and at once
    /// when there is none.
    #[arg(long)]
    pub line_buffered: bool,

    /// Show progress on stderr: auto, bar, log, json or none
    ///
    /// `bar` is one line that is overwritten; `log` writes a line per minute and one at the end;
    /// `json` writes an object per second and one at the end, whose fields are in ai-integrate(1).
    /// `auto` is `bar` on a terminal, unless records go there, too, or TERM is `dumb`, and `log`
    /// elsewhere; with --quiet, it is `none`.
    /// ai-integrate and gather have progress to show; the others accept the flag.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true)]
    pub progress: ProgressMode,

    /// Print only errors on stderr
    #[arg(short, long, overrides_with = "verbose")]
    pub quiet: bool,

    /// Print more on stderr; -vv for still more
    #[arg(short, long, action = ArgAction::Count, overrides_with = "quiet")]
    pub verbose: u8,
}

/// How to show progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// As suits stderr.
    #[default]
    Auto,
    /// One line that is overwritten.
    #[value(alias = "on")]
    Bar,
    /// A line per minute, and one at the end.
    Log,
    /// A JSON object per second, and one at the end.
    Json,
    /// Nothing.
    #[value(alias = "off")]
    None,
}
