//! The command line.

use std::path::PathBuf;

use clap::{ArgAction, Args as Group, Parser, ValueHint};
use manners::Common;
use recipe::{Deviation, Dummy, Empty, ErrorModel, OneOrMany, Quantiles, Reference, Settings, SigmaClip, Split};
use records::RawPath;

use crate::cut::By;

/// Cut scans into tasks, each a frame range to integrate by one recipe.
///
/// Reads scan records and writes task records. The recipe is resolved once: its defaults filled in,
/// the PONI text and the digest of every file with it, and written below the output root.
#[derive(Parser)]
#[command(name = "plan-split", version)]
pub struct Args {
    /// Files of scan records; `-` or none is stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// Where results go: finals below it, parts and recipes in its .azpipe
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,

    /// How to cut: bytes=N, file, scan, frames=N or workers=N
    #[arg(long, value_name = "HOW", default_value = "bytes=2G")]
    pub by: By,

    /// A name that ends the finals' names, where several recipes share an output root
    #[arg(long, value_name = "NAME")]
    pub recipe_name: Option<String>,

    /// A recipe file (TOML), whose keys are the names of these flags; flags win
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub recipe: Option<PathBuf>,

    #[command(flatten)]
    pub flags: RecipeFlags,

    #[command(flatten)]
    pub common: Common,
}

impl AsRef<Common> for Args {
    fn as_ref(&self) -> &Common {
        &self.common
    }
}

/// The settings of a recipe.
#[derive(Group)]
#[command(next_help_heading = "Recipe")]
pub struct RecipeFlags {
    /// The geometry: a PONI file of pyFAI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    poni: Option<PathBuf>,

    /// Radial bins [default: 1000]
    #[arg(long, value_name = "N")]
    npt: Option<u64>,

    /// Azimuthal bins; more than 1 gives a cake [default: 1]
    #[arg(long, value_name = "N")]
    npt_azim: Option<u64>,

    /// r_mm, r_m, 2th_deg, 2th_rad, q_nm^-1, q_A^-1, d*2_nm^-2 or d*2_A^-2 [default: q_nm^-1]
    #[arg(long, value_name = "U")]
    unit: Option<String>,

    /// Radial limits in the unit [default: all that unmasked pixels cover]
    #[arg(long, value_name = "A,B", allow_hyphen_values = true, value_parser = pair)]
    radial_range: Option<[f64; 2]>,

    /// Azimuthal limits in degrees, across 180 too [default: the full circle]
    #[arg(long, value_name = "A,B", allow_hyphen_values = true, value_parser = pair)]
    azimuth_range: Option<[f64; 2]>,

    /// How a pixel is shared among bins: no, bbox or full [default: bbox; with --sigma-clip no]
    #[arg(long, value_name = "HOW")]
    split: Option<Split>,

    /// A mask, not 0 where masked: EDF, TIFF, CBF, NPY or file.h5::/path; may be repeated
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    mask: Vec<PathBuf>,

    /// A dark frame, subtracted
    #[arg(long, value_name = "FILE")]
    dark: Option<PathBuf>,

    /// A flat field, divided by
    #[arg(long, value_name = "FILE")]
    flat: Option<PathBuf>,

    /// Polarization factor, -1 to 1 [default: no correction]
    #[arg(long, value_name = "F", allow_hyphen_values = true)]
    polarization: Option<f64>,

    /// Solid angle correction: on or off [default: on]
    #[arg(long, value_name = "on|off", value_parser = switch)]
    solid_angle: Option<bool>,

    /// Where errors come from: no, poisson, azimuthal (the spread within a bin), hybrid (azimuthal while clipping,
    /// poisson in the result) or variance [default: poisson, with --variance variance]
    #[arg(long, value_name = "MODEL")]
    error_model: Option<ErrorModel>,

    /// An image of each pixel's variance, for that error model
    #[arg(long, value_name = "FILE")]
    variance: Option<PathBuf>,

    /// What errors are: sem (of the mean) or std (of a pixel) [default: sem]
    #[arg(long, value_name = "sem|std")]
    error: Option<Deviation>,

    /// Drop pixels more than T standard deviations from their bin's mean, at most ROUNDS times [default rounds: 5];
    /// T is never less than Chauvenet's criterion, and chauvenet is it alone
    #[arg(long, value_name = "T[,ROUNDS]")]
    sigma_clip: Option<SigmaClip>,

    /// The mean of the pixels between two percentiles of their bin; 50 is the median
    #[arg(long, value_name = "LOW,HIGH")]
    median: Option<Quantiles>,

    /// The counter that each frame is divided by
    #[arg(long, value_name = "NAME")]
    monitor: Option<String>,

    /// What the monitor is divided by: a number, or mean [default: 1]
    #[arg(long, value_name = "X|mean")]
    monitor_reference: Option<Reference>,

    /// Bins without pixels: nan or 0 [default: nan]
    #[arg(long, value_name = "nan|0")]
    empty: Option<Empty>,

    /// Pixel values that are no measurement: auto (as the detector is known), none, V or V,DELTA [default: auto]
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    dummy: Option<Dummy>,

    /// Mask the gaps that the detector is known to have: on or off [default: on]
    #[arg(long, value_name = "on|off", value_parser = switch)]
    detector_mask: Option<bool>,
}

impl From<RecipeFlags> for Settings {
    fn from(flags: RecipeFlags) -> Self {
        let masks: Vec<RawPath> = flags.mask.into_iter().map(RawPath::from).collect();
        Self {
            poni: flags.poni.map(RawPath::from),
            npt: flags.npt,
            npt_azim: flags.npt_azim,
            unit: flags.unit,
            radial_range: flags.radial_range,
            azimuth_range: flags.azimuth_range,
            split: flags.split,
            mask: (!masks.is_empty()).then_some(OneOrMany::Many(masks)),
            dark: flags.dark.map(RawPath::from),
            flat: flags.flat.map(RawPath::from),
            polarization: flags.polarization,
            solid_angle: flags.solid_angle,
            error_model: flags.error_model,
            variance: flags.variance.map(RawPath::from),
            error: flags.error,
            sigma_clip: flags.sigma_clip,
            median: flags.median,
            monitor: flags.monitor,
            monitor_reference: flags.monitor_reference,
            empty: flags.empty,
            dummy: flags.dummy,
            detector_mask: flags.detector_mask,
        }
    }
}

fn pair(text: &str) -> Result<[f64; 2], String> {
    let numbers =
        text.split_once(',').and_then(|(low, high)| Some([low.trim().parse().ok()?, high.trim().parse().ok()?]));
    numbers.ok_or_else(|| "expected two numbers with a comma between".to_owned())
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}
