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
#[command(name = "gather", version, after_long_help = include_str!("examples.txt"))]
pub struct Args {
    /// Files of result records; `-` or no FILE reads stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// Gather all parts below this directory, without records
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub from: Option<PathBuf>,

    /// Exit with 1 unless all tasks of this plan are done; `-`: stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plan: Option<PathBuf>,

    /// Print the tasks of --plan that are still to do; write no files
    ///
    /// Each task is cut to its missing frames. Tasks keep their ids, so that they can be found in the plan.
    #[arg(long, requires = "plan", conflicts_with_all = ["inputs", "complete_only", "export", "plot", "report", "merge", "merge_all"])]
    pub missing: bool,

    /// With --missing: largest size of a task, in stored bytes; larger tasks are cut
    #[arg(long, value_name = "BYTES", hide_short_help = true, requires = "missing", value_parser = clap::value_parser!(u64).range(1..))]
    pub task_bytes: Option<u64>,

    /// Remove what replaced results left below --from; gather nothing
    ///
    /// Prints each directory and file that is removed, and how many bytes. With `plan-split --replace`, or where raw data was written anew, a final becomes another result's. The parts, recipe and
    /// matrix of the earlier one stay below DIR/.azpipe, and so does the note of a final that was removed by hand. They go
    /// where the final that took their place has each frame that it can have. Parts whose final is
    /// not there, or not whole, always stay: they may be all that there is of their frames. So do files that are not azpipe's. Nothing
    /// is removed while another run is at work there (status 2).
    #[arg(long, requires = "from", conflicts_with_all = ["inputs", "plan", "complete_only", "export", "plot", "report", "merge", "merge_all"])]
    pub clean: bool,

    /// With --clean: print what would be removed, and remove nothing
    #[arg(long, hide_short_help = true, requires = "clean")]
    pub dry_run: bool,

    /// Skip scans that are running or not yet integrated
    ///
    /// Such a scan gets no output file and no summary, and does not change the exit status, until it has ended and all of its frames that are
    /// there are integrated.
    #[arg(long)]
    pub complete_only: bool,

    #[command(flatten)]
    pub form: Form,

    #[command(flatten)]
    pub common: CommonArgs,
}

/// What finals are like, and what comes with them.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Form {
    /// Output files: copy the patterns, or link to the parts
    ///
    /// `copy` stores the patterns in the output file. `virtual` makes virtual datasets that show those in the parts. `integrator` is
    /// `copy` with the names of ESRF's integrator. A virtual final is made at once and needs its parts. A copied one can be moved; cakes in it are compressed by
    /// byte shuffle and deflate, which h5py and silx read without a plugin.
    #[arg(long, value_name = "HOW", default_value = "copy", hide_short_help = true)]
    pub layout: Layout,

    /// Keep the parts after they have been copied into the output file
    #[arg(long, hide_short_help = true)]
    pub keep_parts: bool,

    /// Keep the sums of each frame in the output file, for later averages
    #[arg(long, hide_short_help = true)]
    pub keep_sums: bool,

    /// Average all frames, or every N, as in mean,100
    ///
    /// Mean and sum are made of the frames' sums, and their errors too; the median's error is what medians of
    /// such frames scatter by, from their counts alone, whatever the floor of single frames. A range that lacks frames is of those that
    /// are there.
    #[arg(long, value_name = "mean|sum|median[,N]")]
    pub average: Option<Average>,

    /// Merge each scan's detectors, frame by frame, into one NAME
    ///
    /// As pyFAI's MultiGeometry does, from their sums: of equal units, ranges and bins. Sums are made when a scan is
    /// integrated, and go with its parts: gather all detectors in one run, or with --keep-sums.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub merge: Option<String>,

    /// Merge all scans, such as detector positions, into OUT/NAME.h5
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub merge_all: Option<String>,

    /// Export patterns beside the output file: xye,dat,csv,fxye,nxazint
    ///
    /// Several formats are separated by commas. Text formats hold the patterns of --average (the mean, where it says nothing), a file each; nxazint
    /// holds every frame.
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', hide_possible_values = true)]
    pub export: Vec<Format>,

    /// Write a web page about this run
    ///
    /// The page has what was integrated, frames without a pattern with their reasons, times, and a picture of each output file.
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,

    /// Draw the patterns
    ///
    /// With several output files, the name of each after the first is added to FILE's.
    #[arg(long, value_name = "FILE.png|svg", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,

    /// Let --report, --plot and --export replace files of others
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
