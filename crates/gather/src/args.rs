//! The command line of gather.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, ValueEnum, ValueHint};
use filter::CommonArgs;
use patterns::Compression;
use patterns::export::{self, ExportContent, ExportFormat, MapRequest};
use patterns::output::{self, Average, OutputOptions, WritePolicy};
use recipe::Calibrant;

use crate::messages;
use crate::number_range::parse_range;
use crate::reduction_args::ReductionArgs;

/// The inputs and flags of results: none of them goes with a flag that only answers a question or cleans
/// up, nor with what such a flag needs beside it. clap does not miss what a flag needs where that could
/// not be given.
const RESULT_FLAGS: [&str; 26] = [
    "inputs",
    "complete_only",
    "average",
    "layout",
    "compression",
    "keep_parts",
    "keep_sums",
    "export",
    "map",
    "map_range",
    "drift",
    "pixel_images",
    "subtract",
    "subtract_scale",
    "transmission",
    "thickness",
    "calibration_factor",
    "calibrate",
    "calibration_range",
    "plot",
    "plot_scans",
    "stack",
    "report",
    "merge",
    "merge_all",
    "overwrite",
];

/// Write the patterns of each scan to one NeXus file
///
/// Reads result records from `ai-integrate` and writes the scan's final file: a NeXus file with a
/// pattern for every frame. It prints a summary record for each final file, when the last frame has
/// arrived or at the end of the input. If more frames arrive later, as in a live scan, the file is
/// updated and another summary is printed. All parts of the scan and recipe below the output
/// directory are used, whichever run wrote them. A frame without a pattern is NaN, and
/// `frame_status` in the file says why.
#[derive(Parser)]
#[command(name = "gather", version, after_long_help = include_str!("examples.txt"))]
pub struct Args {
    /// Files of result records; default or `-`: stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// Make the final files of all parts below DIR, without records
    ///
    /// DIR is the directory that `plan-split --out` named. Parts are the intermediate files that
    /// ai-integrate writes.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub from: Option<PathBuf>,

    /// Exit with 1 unless all tasks in FILE are done; `-`: stdin
    ///
    /// FILE holds the task records of `plan-split`. Without this option, all frames that exist must
    /// be integrated.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plan: Option<PathBuf>,

    /// Print the tasks of --plan that are still to do; write no files
    ///
    /// Each task is reduced to its missing frames and keeps its id. Pipe the tasks to
    /// `ai-integrate`. Results are looked for where the tasks say; with --from DIR, in DIR.
    #[arg(long, requires = "plan", group = "question", conflicts_with_all = RESULT_FLAGS)]
    pub missing: bool,

    /// Print how much of --plan is done, quickly; write no files
    ///
    /// Prints one record of type progress: how many final files, tasks and frames there are to be,
    /// how many are done, and how many frames are lost, by kind of reason. The exit status is 0 if
    /// all final files are complete: gather would end with 0 for each. Only names of parts and
    /// heads of final files are read: to have damaged files, and raw data and monitors that changed
    /// after scan-find noticed, use --missing.
    #[arg(long, requires = "plan", group = "question", hide_short_help = true, conflicts_with = "missing", conflicts_with_all = RESULT_FLAGS)]
    pub count_done: bool,

    /// With --missing or --count-done: patterns without their sparse pixels are not done
    ///
    /// For a plan that `ai-integrate --sparse` integrates. Recipes without `plan-split --sigma-clip`
    /// have no such pixels, and count as without this flag.
    #[arg(long, hide_short_help = true, requires = "question", conflicts_with_all = RESULT_FLAGS)]
    pub sparse: bool,

    /// Split the tasks that --missing prints into pieces of at most BYTES of stored (compressed)
    /// data
    ///
    /// Such as 500M or 2G: K, M, G and T are powers of 1024. Default: tasks are not split.
    #[arg(long, value_name = "BYTES", hide_short_help = true, requires = "missing", conflicts_with_all = ["count_done", "clean"], conflicts_with_all = RESULT_FLAGS, value_parser = filter::byte_count)]
    pub task_bytes: Option<u64>,

    /// Remove what replaced results left below --from; gather nothing
    ///
    /// After `plan-split --replace`, or if raw data was written again, the parts, recipe and matrix
    /// of the earlier result are left below DIR/.azpipe. --clean removes them where the new final
    /// file has every frame that it can have. Parts whose final file is missing or not complete are
    /// kept, because they may be the only copy of their frames. Files that azpipe did not write are
    /// kept, too. Each file or directory that is removed is printed with its size. If another run
    /// is working in DIR, nothing is removed, and the exit status is 2.
    #[arg(long, requires = "from", conflicts_with_all = ["plan", "missing", "count_done"], conflicts_with_all = RESULT_FLAGS)]
    pub clean: bool,

    /// With --clean: print what would be removed, and remove nothing
    #[arg(long, hide_short_help = true, requires = "clean", conflicts_with_all = ["plan", "missing", "count_done", "task_bytes"], conflicts_with_all = RESULT_FLAGS)]
    pub dry_run: bool,

    /// Skip scans that are running or not yet integrated
    ///
    /// Such a scan gets no final file and no summary, and does not change the exit status, until it
    /// has ended and all frames that exist are integrated. Tasks of --plan are required all the same.
    #[arg(long)]
    pub complete_only: bool,

    /// Write records to a terminal, too; by default it shows a line for each final file
    ///
    /// Into a pipe or file, records are written in any case.
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub reduction: ReductionArgs,

    #[command(flatten)]
    pub common: CommonArgs,
}

/// The flags about final files and the files that are made from them.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Average all frames, or every N, as in mean,100
    ///
    /// Adds a group `averaged` to the final file. `mean` and `sum` add the counts of the frames,
    /// and their errors follow from all of these counts together; the error of `median` is the
    /// expected scatter of such a median. The minimum variance of one photon (`plan-split
    /// --error-floor`) applies once to each bin of the whole average, not to each frame or pixel;
    /// with `none`, not at all. Frames without a pattern are left out. Medians and quantile means of a
    /// frame (`plan-split --median`) count as the value of all pixels of their bin.
    ///
    /// The sums of the frames are removed with the parts, unless they are kept (--keep-sums,
    /// --keep-parts or --layout virtual). Averages are then made from the patterns, and differ by the
    /// rounding of these to seven digits; but a frame of which pixels were left out (--dummy,
    /// --valid-max, --sigma-clip) has the weight of the others, and with --error-floor bin or none,
    /// errors may differ in bins of few pixels. Parts of cakes hold the weights of each frame,
    /// and sums where averages need them or `ai-integrate --keep-sums` was given. With --empty 0,
    /// averages need the sums, which `ai-integrate --force` makes again, of cakes `ai-integrate
    /// --keep-sums --force`. Default: none.
    #[arg(long, value_name = "mean|sum|median[,N]")]
    pub average: Option<Average>,

    /// Export patterns for other programs, as in xye,fxye
    ///
    /// The files lie beside the final file. Averaged patterns are those of --average, and without
    /// --average the mean of all frames. Separate several formats by commas.
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', value_parser = export_format_parser())]
    pub export: Vec<&'static dyn ExportFormat>,

    /// Write maps over the positions of two motors or counters, as in sampy,sampz
    ///
    /// FAST is the motor that moves from frame to frame, SLOW the other one: of sinograms the
    /// translation and the rotation. The map lies beside the final file, as NAME.map.h5, and opens
    /// in silx. Frames that lie on a grid, in whatever order, are put into its cells; cells without
    /// a frame are NaN. Frames on no grid, such as those of a slow motor that moves all the time, are
    /// a list with their positions, and a warning says so. The final file itself does not change.
    /// Files of --merge-all, which have no positions, get no map.
    #[arg(long, value_name = "FAST,SLOW", value_parser = parse_map_axes)]
    pub map: Option<MapAxes>,

    /// With --map: map the mean over this radial range, in the unit of the patterns; repeatable
    ///
    /// Bins are weighted by their pixels. Default: the map has whole patterns.
    #[arg(long, value_name = "LOW,HIGH", hide_short_help = true, requires = "map", allow_hyphen_values = true, value_parser = parse_range)]
    pub map_range: Vec<[f64; 2]>,

    /// Measure how far beam and detector are from where the PONI file has them, by CALIBRANT's lines
    ///
    /// CALIBRANT is in the beam: a name that `plan-split --calibrant` knows, such as LaB6, CeO2 or AgBh, a
    /// file of d-spacings in angstrom, or d-spacings, such as 4.157,2.939,2.4. NAME.drift.h5 beside the
    /// final file has, of each frame and of their average, x, y and distance in metres with their
    /// standard errors: the true Poni2, Poni1 and Distance minus those of the PONI file, whose rotations
    /// count as true. It opens in silx, and --report shows its plot. Cakes (plan-split --npt-azim) show
    /// all three. Patterns of one dimension show the distance only, as if the beam had not moved. Lines
    /// that are out of range, overlapping, too weak, too narrow for the bins or not fitted are left out,
    /// and counted in the file and with -v. A warning says where the lines may not be those of CALIBRANT:
    /// few are found, or they do not agree. Nothing is corrected: neither the patterns nor the PONI file
    /// change. The axis is 2th, q, d*2 or d, the wavelength is known, and the detector does not move.
    /// Merged files, whose patterns have several geometries, get no such file.
    #[arg(long, value_name = "CALIBRANT", hide_short_help = true)]
    pub drift: Option<Calibrant>,

    /// Write images of each pixel's statistics over the scan
    ///
    /// NAME.pixels.h5 beside the final file has images of the mean, the maximum and the variance of
    /// each pixel, and of the number of frames in which it is zero, and in which its value is valid;
    /// it opens in silx. A suggested mask marks pixels that are dead, hot or saturated by the rules in
    /// azpipe-files(5), for `plan-split --mask NAME.pixels.h5::/entry/suggested_mask/suggested_mask`.
    /// ai-integrate makes the statistics, with --pixel-stats. Values that mean "no measurement" by
    /// the recipe (plan-split --dummy) count as no value; its masks and limits change nothing.
    /// Frames that have a pattern and no statistics are named, and make the exit status 1. Merged
    /// files get no images.
    #[arg(long, hide_short_help = true)]
    pub pixel_images: bool,

    /// Plot the patterns: frames as a heat map, and their mean
    ///
    /// The plot of each final file has its name: with --plot run.png, that of LaB6_scan0001_p3.h5
    /// is run_LaB6_scan0001_p3.png. If there is one final file only, run.png is its plot, too.
    #[arg(long, value_name = "FILE.png|svg|pdf", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,

    /// Plot the mean patterns of all scans in one picture
    ///
    /// It is drawn when the input has ended. Scans whose radial axis has another unit than the
    /// first are left out with a warning.
    #[arg(long, value_name = "FILE.png|svg|pdf", hide_short_help = true, value_hint = ValueHint::FilePath)]
    pub plot_scans: Option<PathBuf>,

    /// With --plot-scans: draw each scan above the one before it
    #[arg(long, hide_short_help = true, requires = "plot_scans")]
    pub stack: bool,

    /// Write a web page about this run
    ///
    /// The page lists what was integrated, the frames without a pattern with their reasons, and the
    /// throughput of each host, and shows a plot of each final file. Tables are sorted by a click
    /// on a head, and dragging over a mean pattern zooms in.
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,

    /// Combine each scan's detectors or recipes into one result, NAME
    ///
    /// Frame by frame, the patterns of a scan's detectors, or of several recipes, become one, as
    /// with pyFAI's MultiGeometry: they must have the same unit, range and number of bins, and the
    /// same mean, errors and monitor, apart from monitors that are numbers; those of one detector also
    /// the same corrections. PONI files, azimuthal ranges and masks may differ, and gather warns of
    /// other limits of pixels. Where
    /// the sums of the frames were removed with the parts, patterns are merged, which have seven
    /// digits; but with --empty 0 or --monitor-reference mean, gather all that is to be merged in
    /// one run, or use --keep-sums.
    #[arg(long, value_name = "NAME", value_parser = parse_file_name)]
    pub merge: Option<String>,

    /// Merge all scans, such as detector positions, into OUT/NAME.h5
    ///
    /// The scans must have the same number of frames. See --merge.
    #[arg(long, value_name = "NAME", value_parser = parse_file_name)]
    pub merge_all: Option<String>,

    /// How final files store patterns: copy, virtual or integrator
    #[arg(long, value_name = "HOW", default_value = "copy", hide_short_help = true)]
    pub layout: LayoutArg,

    /// Compression of cakes in final files
    ///
    /// Default: that of an existing final file, otherwise that of the parts (`ai-integrate
    /// --compression`), which are then copied as they are. An existing final file of another
    /// compression is rewritten with its sums and averages. Patterns of one dimension, exports and
    /// maps are not affected.
    #[arg(long, value_name = "gzip|lz4|zstd|none", hide_short_help = true, value_parser = compression_parser())]
    pub compression: Option<Compression>,

    /// Keep the parts after they have been copied into the final file
    #[arg(long, hide_short_help = true)]
    pub keep_parts: bool,

    /// Keep the sums of each frame in the final file, for later averages and merges
    ///
    /// Those of cakes are in the parts only if ai-integrate was given --keep-sums, too.
    #[arg(long, hide_short_help = true)]
    pub keep_sums: bool,

    /// Let --report, --plot, --plot-scans, --export, --map, --drift, --subtract and --thickness replace any file
    ///
    /// By default, they replace only files that azpipe wrote and nobody changed since. Raw data,
    /// records, recipes and final files of this run are never replaced.
    #[arg(long)]
    pub overwrite: bool,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// A value of `--layout`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LayoutArg {
    /// Copy the patterns from the parts, which are removed once the file has every frame that
    /// exists. The file can be moved. Cakes are compressed (--compression)
    Copy,
    /// Link to the parts with virtual datasets. The file is written at once, and needs its parts
    Virtual,
    /// As copy, also under the names of ESRF's integrator, such as /azim_01/intensities
    Integrator,
}

/// Parses the name of a merged result, which becomes part of a file name and the name of a group.
fn parse_file_name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.starts_with('.') || text.contains('/') {
        return Err(messages::merge_name());
    }
    Ok(text.to_owned())
}

/// A value of `--map`.
#[derive(Clone, Debug)]
pub struct MapAxes {
    /// Motor or counter along which neighbouring frames lie.
    pub fast: String,
    /// Motor or counter of the other direction.
    pub slow: String,
}

fn parse_map_axes(text: &str) -> Result<MapAxes, &'static str> {
    match text.split_once(',').map(|(fast, slow)| (fast.trim(), slow.trim())) {
        Some((fast, slow))
            if !fast.is_empty() && !slow.is_empty() && fast != slow && !slow.contains(',') =>
        {
            Ok(MapAxes { fast: fast.to_owned(), slow: slow.to_owned() })
        }
        _ => Err(messages::map_axes()),
    }
}

/// Parses the name of an export format, and lists all formats in help.
fn export_format_parser() -> impl TypedValueParser<Value = &'static dyn ExportFormat> {
    let names = export::formats()
        .iter()
        .map(|format| PossibleValue::new(format.name()).help(format.help()));
    PossibleValuesParser::new(names)
        .map(|name| export::find_format(&name).expect("the parser knows no other names"))
}

/// Parses the name of a compression, and lists all in help.
fn compression_parser() -> impl TypedValueParser<Value = Compression> {
    let values = Compression::ALL.map(|each| PossibleValue::new(each.name()).help(each.help()));
    PossibleValuesParser::new(values)
        .map(|name| name.parse().expect("the parser knows no other names"))
}

impl Args {
    /// Returns the options for writing final files.
    pub fn output_options(&self) -> OutputOptions {
        let needs_average =
            self.output.export.iter().any(|format| format.content() == ExportContent::Averages);
        let mean = needs_average.then_some(Average::all_frames(output::AverageMethod::Mean));
        OutputOptions {
            replaces_with_fewer: self.common.allow_missing,
            layout: match self.output.layout {
                LayoutArg::Copy => output::OutputLayout::Copy,
                LayoutArg::Virtual => output::OutputLayout::Virtual,
                LayoutArg::Integrator => output::OutputLayout::Integrator,
            },
            compression: self.output.compression,
            policy: if self.complete_only {
                WritePolicy::WhenComplete
            } else {
                WritePolicy::Always
            },
            keep_sums: self.output.keep_sums,
            keep_parts: self.output.keep_parts,
            average: self.output.average.or(mean),
            averages_for_export: self.output.average.is_none(),
        }
    }

    /// Returns the map to be written of each final file; `None` without `--map`.
    pub fn map_request(&self) -> Option<MapRequest> {
        let MapAxes { fast, slow } = self.output.map.clone()?;
        Some(MapRequest { fast, slow, ranges: self.output.map_range.clone() })
    }

    /// Returns whether final files are to be merged.
    pub fn merges(&self) -> bool {
        self.output.merge.is_some() || self.output.merge_all.is_some()
    }
}
