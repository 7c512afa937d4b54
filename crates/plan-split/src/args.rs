//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Args as Group, Parser, ValueHint};
use filter::CommonArgs;
use recipe::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FlatMode, MaskRegion, MedianError,
    MonitorSetting, OneOrMany, Quantiles, ReferenceSetting, Sensor, Settings, SigmaClip, Split,
};
use records::RawPath;

use crate::cut::By;

/// Cut scans into tasks, each a frame range to integrate by one recipe or by several in one pass.
///
/// Reads scan records and writes task records. Where the record of a scan comes again, as `scan-find --follow` writes it, tasks
/// are written for what is new or changed alone. A recipe is resolved once: its defaults filled in,
/// the PONI text and the digest of every file with it, and written below the output root.
#[derive(Parser)]
#[command(name = "plan-split", version)]
pub struct Args {
    /// Files of scan records; `-` or none is stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// Where results go: finals below it, parts and recipes in its .azpipe
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, required_unless_present = "print_recipe")]
    pub out: Option<PathBuf>,

    /// How to cut: bytes=N, file, scan, frames=N or workers=N
    #[arg(long, value_name = "HOW", default_value = "bytes=2G")]
    pub by: By,

    /// A name that ends the finals' names, where several recipes share an output root; once a recipe, in order
    /// [default for several: the names of their files]
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub recipe_name: Vec<String>,

    /// A recipe file: ours (TOML), whose keys are the names of these flags, a configuration of pyFAI's worker (JSON), or
    /// one of ESRF's integrator (INI); flags win. May be repeated: frames are read once, and integrated by all
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, action = ArgAction::Append)]
    pub recipe: Vec<PathBuf>,

    /// Redo what is there: results of other settings in DIR give way to those of these, each as soon as the new one is whole
    ///
    /// Without it, a scan whose result in DIR was made by another recipe is refused, and the settings that differ are named.
    #[arg(long)]
    pub replace: bool,

    /// Print the recipe, every key with what it means, as a recipe file in TOML; read no records and write no tasks
    #[arg(long)]
    pub print_recipe: bool,

    #[command(flatten)]
    pub flags: RecipeFlags,

    #[command(flatten)]
    pub common: CommonArgs,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
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

    /// The detector in place of that of the PONI: a name that pyFAI knows, or a NeXus detector file
    #[arg(long, value_name = "NAME|FILE")]
    poni_detector: Option<PathBuf>,

    /// The row and column of the detector that frames begin at, where they show a region of it [default: all of it]
    #[arg(long, value_name = "ROW,COLUMN", value_parser = pair::<u64>)]
    roi: Option<[u64; 2]>,

    /// Undo what Lima says it did to the images (binning, flips, rotation, region), for a PONI of the whole detector:
    /// on, or off for a PONI of the frames as they are saved [default: on]
    #[arg(long, value_name = "on|off", value_parser = switch)]
    image_operation: Option<bool>,

    /// Radial bins [default: 1000]
    #[arg(long, value_name = "N")]
    npt: Option<u64>,

    /// Azimuthal bins; more than 1 gives a cake [default: 1]
    #[arg(long, value_name = "N")]
    npt_azim: Option<u64>,

    /// r_mm, r_m, 2th_deg, 2th_rad, q_nm^-1, q_A^-1, d_m, d_nm, d_A, d*2_nm^-2 or d*2_A^-2 [default: q_nm^-1]
    #[arg(long, value_name = "U")]
    unit: Option<String>,

    /// Radial limits in the unit [default: all that unmasked pixels cover]
    #[arg(long, value_name = "A,B", allow_hyphen_values = true, value_parser = pair::<f64>)]
    radial_range: Option<[f64; 2]>,

    /// Azimuthal limits in degrees, across 180 too [default: the full circle]
    #[arg(long, value_name = "A,B", allow_hyphen_values = true, value_parser = pair::<f64>)]
    azimuth_range: Option<[f64; 2]>,

    /// The edges of the radial bins, in place of --npt and --radial-range; they need not be equally far apart
    #[arg(long, value_name = "A,B,C", allow_hyphen_values = true, value_delimiter = ',')]
    radial_edges: Option<Vec<f64>>,

    /// The edges of the azimuthal bins of a cake, degrees, in place of --npt-azim and --azimuth-range
    #[arg(long, value_name = "A,B,C", allow_hyphen_values = true, value_delimiter = ',')]
    azimuth_edges: Option<Vec<f64>>,

    /// How a pixel is shared among bins: no, bbox or full [default: bbox; with --sigma-clip no]
    #[arg(long, value_name = "HOW")]
    split: Option<Split>,

    /// A mask, not 0 where masked: EDF, TIFF, CBF, NPY, Fit2D or file.h5::/path; may be repeated
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    mask: Vec<PathBuf>,

    /// The same the other way about: 0 where masked; may be repeated
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    mask_inverted: Vec<PathBuf>,

    /// A masked shape: circle:ROW,COLUMN,RADIUS, rectangle:ROW,COLUMN,ROW,COLUMN, polygon:ROW,COLUMN,... or
    /// sector:FROM,TO (degrees); with outside- before it, all but the shape; may be repeated
    #[arg(long, value_name = "SHAPE", action = ArgAction::Append)]
    mask_region: Vec<MaskRegion>,

    /// Values below are no measurement, frame by frame
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    valid_min: Option<f64>,

    /// Values above are no measurement, frame by frame: saturated
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    valid_max: Option<f64>,

    /// Dark frames, averaged and subtracted: every image of the file; may be repeated
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    dark: Vec<PathBuf>,

    /// Flat fields, averaged: every image of the file; may be repeated
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    flat: Vec<PathBuf>,

    /// What the flat field is: divide (the pixels' response, as for pyFAI) or multiply (a correction, as Dectris
    /// detectors hold) [default: divide]
    #[arg(long, value_name = "MODE")]
    flat_mode: Option<FlatMode>,

    /// Correct for the share of the photons that this sensor absorbs: MATERIAL,THICKNESS, such as CdTe,750um, of Si,
    /// Ge, GaAs, CdTe or Gd2O2S [default: no correction]
    #[arg(long, value_name = "SENSOR")]
    sensor: Option<Sensor>,

    /// Polarization factor, -1 to 1 [default: no correction]
    #[arg(long, value_name = "F", allow_hyphen_values = true)]
    polarization: Option<f64>,

    /// Degrees from the horizontal to the plane of polarization [default: 0]
    #[arg(long, value_name = "DEG", allow_hyphen_values = true)]
    polarization_offset: Option<f64>,

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
    error: Option<ErrorMeasure>,

    /// Which counts have a variance of one photon at the least: each pixel's of each frame (pixel, as pyFAI), each bin's
    /// (bin), or none. With sparse frames (less than a photon a pixel) `bin` gives the true errors [default: pixel]
    #[arg(long, value_name = "pixel|bin|none")]
    error_floor: Option<ErrorFloor>,

    /// Drop pixels more than T standard deviations from their bin's mean, at most ROUNDS times [default rounds: 5];
    /// T is never less than Chauvenet's criterion, and chauvenet is it alone
    #[arg(long, value_name = "T[,ROUNDS]")]
    sigma_clip: Option<SigmaClip>,

    /// The mean of the pixels between two percentiles of their bin; 50 is the median
    #[arg(long, value_name = "LOW,HIGH")]
    median: Option<Quantiles>,

    /// Errors of --median: by how much the median scatters (scatter), or those of the pixels between the percentiles
    /// alone (pyfai) [default: scatter]
    #[arg(long, value_name = "scatter|pyfai")]
    median_error: Option<MedianError>,

    /// What each frame is divided by: a counter of the scan, exposure-time, a number or file.h5::/path; may be
    /// repeated, for a product
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    monitor: Vec<String>,

    /// What the monitor is divided by: a number, mean, or what a monitor may be; once a monitor, in order [default: 1]
    #[arg(long, value_name = "X|mean", action = ArgAction::Append, allow_hyphen_values = true)]
    monitor_reference: Vec<ReferenceSetting>,

    /// Bins without pixels: nan or 0 [default: nan]
    #[arg(long, value_name = "nan|0")]
    empty: Option<EmptyBinValue>,

    /// Pixel values that are no measurement: auto (as the detector is known), none, V or V,DELTA [default: auto]
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    dummy: Option<DummySetting>,

    /// Mask the gaps that the detector is known to have: on or off [default: on]
    #[arg(long, value_name = "on|off", value_parser = switch)]
    detector_mask: Option<bool>,
}

impl From<RecipeFlags> for Settings {
    fn from(flags: RecipeFlags) -> Self {
        let paths = |list: Vec<PathBuf>| OneOrMany::from_items(list.into_iter().map(RawPath::from).collect());
        Self {
            poni: flags.poni.map(RawPath::from),
            geometry: None,
            poni_detector: flags.poni_detector.map(RawPath::from),
            roi: flags.roi,
            image_operation: flags.image_operation,
            npt: flags.npt,
            npt_azim: flags.npt_azim,
            unit: flags.unit,
            radial_range: flags.radial_range,
            azimuth_range: flags.azimuth_range,
            radial_edges: flags.radial_edges,
            azimuth_edges: flags.azimuth_edges,
            split: flags.split,
            mask: paths(flags.mask),
            mask_inverted: paths(flags.mask_inverted),
            mask_region: OneOrMany::from_items(flags.mask_region),
            valid_min: flags.valid_min,
            valid_max: flags.valid_max,
            dark: paths(flags.dark),
            flat: paths(flags.flat),
            flat_mode: flags.flat_mode,
            sensor: flags.sensor,
            polarization: flags.polarization,
            polarization_offset: flags.polarization_offset,
            solid_angle: flags.solid_angle,
            error_model: flags.error_model,
            variance: flags.variance.map(RawPath::from),
            error: flags.error,
            error_floor: flags.error_floor,
            sigma_clip: flags.sigma_clip,
            median: flags.median,
            median_error: flags.median_error,
            monitor: OneOrMany::from_items(flags.monitor.into_iter().map(MonitorSetting::Name).collect()),
            monitor_reference: OneOrMany::from_items(flags.monitor_reference),
            empty: flags.empty,
            dummy: flags.dummy,
            detector_mask: flags.detector_mask,
        }
    }
}

fn pair<T: FromStr>(text: &str) -> Result<[T; 2], String> {
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
