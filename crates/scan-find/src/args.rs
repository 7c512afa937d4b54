//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum, ValueHint};
use filter::CommonArgs;
use globset::{GlobBuilder, GlobMatcher};

use crate::since::Since;

/// Find scans, and write a record of each: where its frames are, and which of them are missing
///
/// Reads Bliss masters and collections of them, Lima 1 and 2 and Dectris files, NeXus detectors,
/// single datasets, and TIFF, CBF, EDF and NPY images. In a directory, at any depth, files that a
/// master names are not listed again; numbered images of one directory are one scan. NPY images,
/// which may be anything, are not looked for in directories: name them. Files are opened read-only
/// and without a lock, so that a beamline may be writing them.
#[derive(Parser)]
#[command(name = "scan-find", version, after_long_help = include_str!("examples.txt"))]
pub struct Args {
    /// Files, directories, datasets (FILE::/PATH), quoted globs; with none or `-`, a list of them
    /// on stdin
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// The list on stdin is separated by NUL, as `find -print0` writes it
    #[arg(short = '0', long)]
    pub null: bool,

    /// Only detectors of this name; repeatable
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub detector: Vec<GlobMatcher>,

    /// Only entries of this name, such as `*.1`; repeatable
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub entry: Vec<GlobMatcher>,

    /// Only scans of this title, such as `fscan*`; repeatable
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub title: Vec<GlobMatcher>,

    /// Only scans that started since then: `2026-03-04`, `2026-03-04T10:20:30+01:00`, or `90m`,
    /// `12h`, `7d` ago
    ///
    /// A time without an offset is on the clock of the beamline. A file that does not say when its
    /// scan began counts by its last change.
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,

    /// Keep looking for new scans and frames, every SECONDS: 5 if none are given
    ///
    /// When an unfinished scan gets new frames, its record is written again. What can't be read is
    /// tried again, because a file that is being written or copied looks damaged: after three
    /// seconds without a change there is a warning, and what still fails when the search ends is
    /// reported then. The search does not stop when a scan ends: end it with --until-idle, or with
    /// SIGTERM to scan-find alone, which then looks once more; the other filters of the pipe finish
    /// what they have received. Ctrl-C ends all filters at once: frames in progress are lost, files
    /// that were written stay, and the same command adds the rest. On local file systems changes
    /// are seen at once, and nothing is read in between.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "5")]
    #[arg(value_parser = parse_seconds)]
    pub follow: Option<Duration>,

    /// End when nothing has changed for the time T: seconds, 90s, 50m, 12h or HH:MM:SS [default:
    /// never]
    #[arg(long, value_name = "T", requires = "follow", value_parser = filter::duration::parse)]
    pub until_idle: Option<Duration>,

    /// Scans that still run, were aborted, or have missing frames: emit or skip them
    #[arg(long, value_name = "WHAT", default_value = "emit")]
    pub incomplete: Incomplete,

    /// Write records to a terminal, too; by default it shows a table
    ///
    /// The table has a row for each scan and detector, and with -v the names of its counters. Into
    /// a pipe or file, records are written in any case.
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub common: CommonArgs,
}

/// The treatment of scans that are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Incomplete {
    /// Write their records, with the frames that are missing.
    Emit,
    /// Leave them out.
    Skip,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// Explains that a text is not an interval.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("expected a number of seconds above 0")]
pub struct IntervalError;

fn parse_seconds(text: &str) -> Result<Duration, IntervalError> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|time| !time.is_zero()).ok_or(IntervalError)
}

fn parse_glob(text: &str) -> Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(text).build()?.compile_matcher())
}

/// Returns true if a name matches one of the patterns, or if there are no patterns.
pub fn matches_any(patterns: &[GlobMatcher], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_match(name))
}
