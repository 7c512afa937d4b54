//! The command line of plan-split.

use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueHint};
use filter::CommonArgs;
use recipe::Calibrant;

use crate::frame_range::FrameRange;
use crate::recipe_flags::RecipeFlags;
use crate::split_scan::SplitBy;

/// Cut scans into tasks: ranges of frames to integrate by one or more recipes
///
/// Reads scan records from `scan-find` and writes task records for `ai-integrate`. A recipe holds
/// the settings of an integration: geometry, bins, masks, corrections. Give it with the options
/// below, as a file, or both. A complete copy of the settings, with the PONI text and checksums of
/// the other files, is stored below DIR. When the record of a scan comes again, as from `scan-find
/// --follow`, only new or changed frames become tasks.
#[derive(Parser)]
#[command(name = "plan-split", version, after_long_help = include_str!("examples.txt"))]
pub struct Args {
    /// Files of scan records; default or `-`: stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// Directory for results (required)
    ///
    /// gather writes one final file for each scan and recipe. If scan-find was given a directory,
    /// DIR gets the same subdirectories, such as DIR/sample/dataset; if it was given files, as by
    /// RAW_DATA/*/*/*.h5, all final files lie in DIR itself. Parts (intermediate files) and recipes
    /// go to DIR/.azpipe. Not needed with --print-recipe and --preview.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, required_unless_present_any = ["print_recipe", "preview"])]
    pub out: Option<PathBuf>,

    /// Task size, such as frames=100
    ///
    /// bytes=N: at most about N bytes of stored (compressed) data per task, such as bytes=500M (K,
    /// M, G and T are powers of 1024). frames=N: N frames per task. workers=N: N tasks of equal
    /// size per scan, one for each of N workers. file: one task per data file. scan: one task per
    /// scan.
    #[arg(long, value_name = "HOW", default_value = "bytes=2G")]
    pub by: SplitBy,

    /// File with the settings of an integration; repeatable
    ///
    /// A recipe of azpipe (TOML; its keys are the names of the options below), a configuration of
    /// pyFAI's worker (JSON), or one of ESRF's integrator (INI). An option replaces its key in the
    /// file, and a list as a whole: --mask drops the masks of the recipe. With several recipes,
    /// each frame is read once and integrated by all of them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, action = ArgAction::Append)]
    pub recipe: Vec<PathBuf>,

    /// Suffix for the names of final files; once for each recipe, in order
    ///
    /// It distinguishes the results of several recipes in one DIR. Default: none for one recipe,
    /// the names of the recipe files for several.
    #[arg(long, value_name = "NAME", action = ArgAction::Append, hide_short_help = true)]
    pub recipe_name: Vec<String>,

    /// Replace results that were made with other settings
    ///
    /// An old result stays until the new one has every frame that exists. Without this option, a
    /// scan that has a result of another recipe in DIR is refused, with a list of the settings that
    /// differ. The contents of PONI, mask, dark and flat files are settings: a mask that was edited
    /// under the same name needs --replace, too. To integrate again with the same settings, use
    /// `ai-integrate --force`.
    #[arg(long, hide_short_help = true)]
    pub replace: bool,

    /// Print the recipe as a commented TOML file, and exit
    ///
    /// Reads no scan records and writes no tasks.
    #[arg(long)]
    pub print_recipe: bool,

    #[command(flatten)]
    pub preview: PreviewFlags,

    #[command(flatten)]
    pub recipe_settings: RecipeFlags,

    #[command(flatten)]
    pub common: CommonArgs,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// The flags of the picture that shows whether geometry and mask are right.
#[derive(Default, clap::Args)]
pub struct PreviewFlags {
    /// Draw frames with masks, beam centre and rings
    ///
    /// Shows the mean of some frames of the first scan with the gaps of the detector, masks, beam
    /// centre and 2theta, and below it their counts over 2theta. Rings of --calibrant must lie on
    /// the peaks; if they don't, the PONI file is wrong. Row 0 is at the bottom, as in pyFAI.
    /// Without --out, plan-split ends after the picture and writes no tasks. With several recipes,
    /// the first one is drawn.
    #[arg(long = "preview", id = "preview", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "print_recipe")]
    pub file: Option<PathBuf>,

    /// Calibrant whose rings --preview draws, such as LaB6
    #[arg(long, value_name = "NAME", requires = "preview", conflicts_with = "print_recipe", hide_short_help = true, long_help = calibrant_help())]
    pub calibrant: Option<Calibrant>,

    /// Frames of --preview, such as 7 or 0,9
    ///
    /// One frame, or the first and the last of several, of which the mean is shown; counted from 0.
    /// Default: 10 frames that are spread over the scan.
    #[arg(
        long,
        value_name = "A[,B]",
        requires = "preview",
        conflicts_with = "print_recipe",
        hide_short_help = true
    )]
    pub preview_frames: Option<FrameRange>,

    /// Let --preview replace any file
    ///
    /// By default, it replaces only pictures that azpipe drew and nobody changed since. Raw data,
    /// records and settings of this run are never replaced.
    #[arg(long, requires = "preview", conflicts_with = "print_recipe", hide_short_help = true)]
    pub overwrite: bool,
}

/// Returns the help of --calibrant, with the names of all calibrants.
fn calibrant_help() -> String {
    format!(
        "Calibrant whose rings --preview draws\n\nOne of {}, whose d-spacings are pyFAI's; a file of d-spacings in \
         angstrom, one per line, as pyFAI's .D files; or d-spacings in angstrom, such as 4.157,2.939,2.4.",
        Calibrant::known_names().collect::<Vec<_>>().join(", ")
    )
}
