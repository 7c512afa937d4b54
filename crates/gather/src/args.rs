//! The command line.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum, ValueHint};
use filter::ownership::ReplacePolicy;
use filter::{CommonArgs, Stop};
use patterns::output::{self, Average, OutputOptions, WritePolicy};
use patterns::report::Report;
use patterns::{export, plot};

/// Put the patterns of each scan into one NeXus file.
///
/// Reads result records and writes one summary record a scan and recipe, as soon as the last of its
/// frames has come, or at the end of the input; a scan of which more comes has another summary once that differs, when
/// its results pause. Whatever parts lie in the output root for that scan and
/// recipe count, by whatever run and cut of the work. A frame that nobody integrated is NaN, and says so.
#[derive(Parser)]
#[command(name = "gather", version)]
pub struct Args {
    /// Files of result records; `-` or none is stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// Gather whatever parts there are below this output root, in place of stdin
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub from: Option<PathBuf>,

    /// The tasks whose frames must be there for status 0; `-` is stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plan: Option<PathBuf>,

    /// Write nothing but the plan's tasks that are still to do, each cut to its missing frames
    ///
    /// Tasks keep their ids, so that they can be found in the plan. Needs --plan.
    #[arg(long, requires = "plan", conflicts_with_all = ["inputs", "complete_only", "export", "plot", "report", "merge", "merge_all"])]
    pub missing: bool,

    /// With --missing, cut the tasks further, into pieces of about so many stored bytes at the most
    #[arg(long, value_name = "BYTES", requires = "missing", value_parser = clap::value_parser!(u64).range(1..))]
    pub task_bytes: Option<u64>,

    /// Gather nothing: remove what results that were replaced have left below --from, and say what and how many bytes
    ///
    /// With `plan-split --replace`, or where raw data was written anew, a final becomes another result's. The parts, recipe and
    /// matrix of the earlier one stay below DIR/.azpipe, and so does the note of a final that was removed by hand. They go
    /// where the final that took their place has each frame that it can have. Parts whose final is
    /// not there, or not whole, always stay: they may be all that there is of their frames. So do files that are not azpipe's. Nothing
    /// is removed while another run is at work there (status 2).
    #[arg(long, requires = "from", conflicts_with_all = ["inputs", "plan", "complete_only", "export", "plot", "report", "merge", "merge_all"])]
    pub clean: bool,

    /// With --clean, say what would be removed, and remove nothing
    #[arg(long, requires = "clean")]
    pub dry_run: bool,

    /// Leave a scan alone, without a summary and without status 1, until it is over and all of its frames that are there
    /// are integrated
    #[arg(long)]
    pub complete_only: bool,

    #[command(flatten)]
    pub form: Form,

    #[command(flatten)]
    pub common: CommonArgs,
}

/// What finals are like, and what comes with them.
#[derive(clap::Args)]
#[command(next_help_heading = "Finals")]
pub struct Form {
    /// Whether finals hold the patterns, or show those of the parts
    ///
    /// A virtual final is made at once and needs its parts. A copied one can be moved; cakes in it are compressed by
    /// byte shuffle and deflate, which h5py and silx read without a plugin.
    #[arg(long, value_name = "HOW", default_value = "copy")]
    pub layout: Layout,

    /// Keep the parts of finals that no longer need them
    #[arg(long)]
    pub keep_parts: bool,

    /// Keep the frames' f64 sums in the final
    #[arg(long)]
    pub keep_sums: bool,

    /// Add patterns of many frames: the mean, sum or median of all, or of every N
    ///
    /// Mean and sum are made of the frames' sums, and their errors too; the median's error is what medians of
    /// such frames scatter by, from their counts alone, whatever the floor of single frames. A range that lacks frames is of those that
    /// are there.
    #[arg(long, value_name = "mean|sum|median[,N]")]
    pub average: Option<Average>,

    /// Add the patterns of each scan's detectors, frame by frame, into a final called NAME
    ///
    /// As pyFAI's MultiGeometry does, from their sums: of equal units, ranges and bins. Sums are made when a scan is
    /// integrated, and go with its parts: gather all detectors in one run, or with --keep-sums.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub merge: Option<String>,

    /// The same over all scans that are gathered, as of a detector at several positions, into OUT/NAME.h5
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub merge_all: Option<String>,

    /// Write patterns for other programs beside the final; several formats with commas
    ///
    /// Text formats hold the patterns of --average (the mean, where it says nothing), a file each; nxazint
    /// holds every frame.
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    pub export: Vec<Format>,

    /// Write a page about this run: what was integrated, losses with their reasons, times, a picture of each final
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,

    /// Draw the patterns; for a second final and more, the final's name is added to FILE's
    #[arg(long, value_name = "FILE.png|svg", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,

    /// Let --report, --plot and --export replace files that azpipe did not write
    ///
    /// Raw data and settings of the run are never written over.
    #[arg(long)]
    pub overwrite: bool,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// How a final stores its patterns.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Layout {
    /// The final holds them, and its parts go once it is complete
    Copy,
    /// The final shows those of the parts, which stay
    Virtual,
    /// As copy, and all under the names of ESRF's integrator as well, such as /azim_01/intensities
    Integrator,
}

/// A name that is part of a file's and of a group's.
fn name(text: &str) -> Result<String, &'static str> {
    match text.is_empty() || text.starts_with('.') || text.contains('/') {
        true => Err("expected a name without /, that does not begin with a dot"),
        false => Ok(text.to_owned()),
    }
}

/// What patterns are written as.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// Three columns without a header, and without empty bins
    Xye,
    /// Columns below a header, as pyFAI writes them
    Dat,
    /// Comma-separated values
    Csv,
    /// GSAS powder data over centidegrees of 2theta, without empty bins; from 2theta or q
    Fxye,
    /// A NeXus file by the definition NXazint1d, or NXazint2d for cakes; of 2theta or q
    Nxazint,
}

impl Args {
    /// How finals are to be made.
    pub fn options(&self) -> OutputOptions {
        let needs_average = self.formats().any(export::ExportFormat::exports_averages);
        let mean = needs_average.then_some(Average::all_frames(output::AverageMethod::Mean));
        OutputOptions {
            layout: match self.form.layout {
                Layout::Copy => output::OutputLayout::Copy,
                Layout::Virtual => output::OutputLayout::Virtual,
                Layout::Integrator => output::OutputLayout::Integrator,
            },
            policy: if self.complete_only { WritePolicy::WhenComplete } else { WritePolicy::Always },
            keep_sums: self.form.keep_sums,
            keep_parts: self.form.keep_parts,
            average: self.form.average.or(mean),
        }
    }

    /// Whether finals are to be merged.
    pub fn merges(&self) -> bool {
        self.form.merge.is_some() || self.form.merge_all.is_some()
    }

    /// The formats that were asked for.
    pub fn formats(&self) -> impl Iterator<Item = export::ExportFormat> {
        self.form.export.iter().map(|format| match format {
            Format::Xye => export::ExportFormat::Xye,
            Format::Dat => export::ExportFormat::Dat,
            Format::Csv => export::ExportFormat::Csv,
            Format::Fxye => export::ExportFormat::Fxye,
            Format::Nxazint => export::ExportFormat::NxAzint,
        })
    }

    /// Refuses what could only fail once the work is done.
    ///
    /// # Errors
    /// A picture of no known kind; a page in a directory that is not there, or of another name than a page's; a file of
    /// somebody else's in the place of either.
    pub fn check(&self, policy: &ReplacePolicy) -> Result<(), Stop> {
        if let Some(path) = &self.form.plot {
            plot::check(path, policy).map_err(|why| Stop::fatal("--plot", why))?;
        }
        if let Some(path) = &self.form.report {
            let wrong = |why: &dyn std::fmt::Display| Stop::fatal("--report", format!("{}: {why}", path.display()));
            let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
            if extension != "html" && extension != "htm" {
                return Err(wrong(&"expected a name that ends in .html"));
            }
            Report::check(path, policy).map_err(|why| wrong(&why))?;
        }
        let directory = self.form.report.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        match directory.as_os_str().is_empty() || directory.is_dir() {
            true => Ok(()),
            false => Err(Stop::fatal("--report", format!("{}: no such directory", directory.display()))),
        }
    }
}
