//! The flags of plan-split that are settings of a recipe.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, ValueHint};
use geometry::Unit;
use recipe::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FlatMode, IncidentAngle,
    MaskRegion, Mean, MedianError, MonitorSetting, OneOrMany, Quantiles, ReferenceSetting, Sensor,
    Settings, SigmaClip, Split, Time,
};
use records::RawPath;

// The headings of the help, in the order in which one thinks about an integration.
const GEOMETRY: &str = "Geometry";
const BINNING: &str = "Binning";
const MASKS: &str = "Masks";
const CORRECTIONS: &str = "Corrections and normalization";
const ERRORS: &str = "Averages and errors";

/// Edges of bins: one value of a flag, where clap takes `Vec` for a flag that is repeated.
type Edges = Vec<f64>;

/// The flags that are settings of a recipe. A recipe file has the same keys.
#[derive(Clone, clap::Args)]
pub struct RecipeFlags {
    /// PONI file: the geometry, as calibrated by pyFAI
    #[arg(long, value_name = "FILE", help_heading = GEOMETRY, value_hint = ValueHint::FilePath)]
    poni: Option<PathBuf>,

    /// Table of PONI files, for a detector that moves
    ///
    /// A text file in place of --poni. Each line has one frame, or the first and the last of
    /// several, and the path of their PONI file, relative to the table: `0,99 near.poni`. Lines that
    /// begin with `#` are comments. All files must have the same detector and wavelength. The
    /// patterns have one axis, so --radial-range is needed. Each frame's intensities refer to the
    /// solid angle of a pixel at the distance of the first line, so that intensities averaged over
    /// positions are those of pyFAI's MultiGeometry. Frames without a line get no pattern.
    #[arg(long, value_name = "FILE", help_heading = GEOMETRY, hide_short_help = true, value_hint = ValueHint::FilePath)]
    poni_table: Option<PathBuf>,

    /// Goniometer file of pyFAI, for a detector on motors
    ///
    /// In place of --poni: the JSON that pyFAI's Goniometer.save writes. Its expressions give the
    /// geometry of each frame from motors of the scan: counters in `measurement` with a value per
    /// frame, or positioners that stay. The patterns have one axis, so --radial-range is needed, and
    /// intensities averaged over positions are those of pyFAI's MultiGeometry. The positions of a scan
    /// are part of its recipe, so a scan is planned once it has ended, and needs --replace after a motor was
    /// corrected. Frames of which a motor has no value get no pattern.
    #[arg(long, value_name = "FILE", help_heading = GEOMETRY, hide_short_help = true, value_hint = ValueHint::FilePath)]
    goniometer: Option<PathBuf>,

    /// Motor of a position of --goniometer, as pos=tth; repeatable
    ///
    /// POSITION is one of `pos_names` in the file, MOTOR the name in the scan. Default: a motor with
    /// the name of the position. With a single position, MOTOR alone will do.
    #[arg(long, value_name = "[POSITION=]MOTOR", help_heading = GEOMETRY, hide_short_help = true, action = ArgAction::Append)]
    motor: Vec<String>,

    /// Detector that replaces the one in the PONI file
    ///
    /// A name that pyFAI knows, such as eiger2_cdte_4m, or a NeXus detector file.
    #[arg(long, value_name = "NAME|FILE", help_heading = GEOMETRY, hide_short_help = true)]
    poni_detector: Option<PathBuf>,

    /// First row and column of the detector region that the frames show
    ///
    /// In pixels, counted from 0, for instance 512,0. Default: frames show the whole detector.
    #[arg(long, value_name = "ROW,COLUMN", help_heading = GEOMETRY, hide_short_help = true, value_parser = parse_roi)]
    roi: Option<[u64; 2]>,

    /// Undo the image operation that Lima recorded [default: on]
    ///
    /// Lima may bin, flip or rotate images, or save a region of them. With `on`, the PONI file is
    /// of the whole detector; with `off` or --roi, it is of the frames as saved.
    #[arg(long, value_name = "on|off", help_heading = GEOMETRY, hide_short_help = true, value_parser = parse_switch)]
    image_operation: Option<bool>,

    /// Angle by which the sample is turned towards the beam, in degrees, or its motor [default: 0]
    ///
    /// For units of the sample's frame (grazing incidence and fibers), as in pyFAI's
    /// FiberIntegrator. With the name of a motor or counter, each frame has the angle of its position:
    /// a counter in `measurement` with a value per frame, or a positioner that stays; in deg, rad or
    /// mrad by its attribute `units`, without which it is in degrees. The patterns have one axis, so
    /// --radial-range is needed. The angles of a scan are part of its recipe, so a scan is planned once
    /// it has ended, and needs --replace after the motor was corrected. Frames of which it has no
    /// value get no pattern. With --goniometer or --poni-table, detector and sample move.
    #[arg(long, value_name = "DEGREES|MOTOR", help_heading = GEOMETRY, hide_short_help = true, allow_hyphen_values = true)]
    incident_angle: Option<IncidentAngle>,

    /// Angle by which the sample is turned about the beam, in degrees [default: 0]
    #[arg(long, value_name = "DEGREES", help_heading = GEOMETRY, hide_short_help = true, allow_hyphen_values = true, value_parser = filter::number("0.5"))]
    tilt_angle: Option<f64>,

    /// Orientation of the image relative to the sample, 1 to 8 as in EXIF [default: 1]
    ///
    /// 1: as it is. 2: flipped horizontally. 3: turned by 180 degrees. 4: flipped vertically. 5 to
    /// 8: with the axes exchanged.
    #[arg(long, value_name = "N", help_heading = GEOMETRY, hide_short_help = true, value_parser = filter::whole_number::<u64>(1..=8))]
    sample_orientation: Option<u64>,

    /// Number of radial bins [default: 1000]
    #[arg(long, value_name = "N", help_heading = BINNING, value_parser = filter::whole_number::<u64>(1..))]
    npt: Option<u64>,

    /// Number of azimuthal bins; above 1: a cake
    ///
    /// Default: 1, which gives one pattern for each frame. With more, the result is a 2D image of
    /// azimuth and radius, as from `integrate2d` of pyFAI.
    #[arg(long, value_name = "N", help_heading = BINNING, value_parser = filter::whole_number::<u64>(1..))]
    npt_azim: Option<u64>,

    /// Radial unit, such as 2th_deg [default: q_nm^-1]
    #[arg(long, value_name = "U", help_heading = BINNING, long_help = unit_help())]
    unit: Option<Unit>,

    /// Radial limits, in the unit [default: all]
    ///
    /// For instance 0.5,40. Default: the range that the unmasked pixels cover.
    #[arg(long, value_name = "A,B", help_heading = BINNING, allow_hyphen_values = true, value_parser = parse_pair)]
    radial_range: Option<[f64; 2]>,

    /// Azimuthal limits, in degrees [default: all]
    ///
    /// For instance --azimuth-range=-30,30. The range may cross 180, as in 170,190. Default: the
    /// full circle.
    #[arg(long, value_name = "A,B", help_heading = BINNING, allow_hyphen_values = true, value_parser = parse_pair)]
    azimuth_range: Option<[f64; 2]>,

    /// Edges of the radial bins, in the unit
    ///
    /// They replace --npt and --radial-range; bins may have different widths. For instance
    /// 0.5,1,2,4,8 for four bins.
    #[arg(long, value_name = "A,B,C", help_heading = BINNING, hide_short_help = true, allow_hyphen_values = true, value_parser = parse_edges)]
    radial_edges: Option<Edges>,

    /// Edges of the azimuthal bins of a cake, in degrees
    ///
    /// They replace --npt-azim and --azimuth-range. For instance --azimuth-edges=-180,-90,0,30,180
    /// for four bins.
    #[arg(long, value_name = "A,B,C", help_heading = BINNING, hide_short_help = true, allow_hyphen_values = true, value_parser = parse_edges)]
    azimuth_edges: Option<Edges>,

    /// Split pixels: no, bbox, full [default: bbox or no]
    ///
    /// As in pyFAI: how a pixel is shared among the bins that it overlaps. The default is `no` with
    /// --sigma-clip, and for units of the sample's frame (qip and qoop).
    #[arg(long, value_name = "HOW", help_heading = BINNING)]
    split: Option<Split>,

    /// Mask file: nonzero pixels are masked; repeatable
    ///
    /// EDF, TIFF, CBF, NPY, Fit2D, or file.h5::/path. A pixel is masked if any of the files masks
    /// it. The files replace those of the recipe file, where one mask is written mask = "a.edf" and
    /// several mask = ["a.edf", "b.edf"].
    #[arg(long, value_name = "FILE", help_heading = MASKS, action = ArgAction::Append)]
    mask: Vec<PathBuf>,

    /// Inverted mask file: pixels that are 0 are masked; repeatable
    ///
    /// In the formats of --mask.
    #[arg(long, value_name = "FILE", help_heading = MASKS, hide_short_help = true, action = ArgAction::Append)]
    mask_inverted: Vec<PathBuf>,

    /// Masked shape, as circle:540,512,40; repeatable
    ///
    /// circle:ROW,COLUMN,RADIUS, rectangle:ROW,COLUMN,ROW,COLUMN or polygon:ROW,COLUMN,... in
    /// pixels from the outer corner of the first pixel of the frames as they are saved, which may be
    /// a region of the detector; or sector:FROM,TO in degrees. Pixels whose centre is inside are
    /// masked. The prefix `outside-` masks the outside, as in outside-sector:-90,90.
    #[arg(long, value_name = "SHAPE", help_heading = MASKS, action = ArgAction::Append)]
    mask_region: Vec<MaskRegion>,

    /// Mask pixels below V in each frame
    ///
    /// V is in counts; a pixel of exactly V is valid. Default: no limit.
    #[arg(long, value_name = "V", help_heading = MASKS, hide_short_help = true, allow_hyphen_values = true, value_parser = filter::number("-10"))]
    valid_min: Option<f64>,

    /// Mask pixels above V in each frame (saturation)
    ///
    /// V is in counts; a pixel of exactly V is valid. Default: no limit. --dummy auto masks only
    /// the values by which the detector marks invalid pixels; counts below them, at which a pixel
    /// may be saturated, need this option.
    #[arg(long, value_name = "V", help_heading = MASKS, allow_hyphen_values = true, value_parser = filter::number("60000"))]
    valid_max: Option<f64>,

    /// Values of invalid pixels, masked in each frame [default: auto]
    ///
    /// `auto`: the values that the detector is known to write for gaps, defects and overflow (for
    /// photon counters the two highest values of the type, such as 65534 and 65535, or all negative
    /// ones); where the PONI file names no detector, the two highest values of unsigned types of 32
    /// or 64 bits alone. `none`; V: this value; or V,DELTA: from V-DELTA to V+DELTA. For instance
    /// --dummy=-1,0.5.
    #[arg(long, value_name = "RULE", help_heading = MASKS, hide_short_help = true, allow_hyphen_values = true)]
    dummy: Option<DummySetting>,

    /// Mask the gaps between the detector's modules [default: on]
    #[arg(long, value_name = "on|off", help_heading = MASKS, hide_short_help = true, value_parser = parse_switch)]
    detector_mask: Option<bool>,

    /// Dark frames, averaged and subtracted; repeatable
    ///
    /// All images of the file are used, in the formats of --mask. Pixels whose value is not finite
    /// are masked with a warning; without any other pixel, the dark is refused.
    #[arg(long, value_name = "FILE", help_heading = CORRECTIONS, action = ArgAction::Append)]
    dark: Vec<PathBuf>,

    /// Flat field, averaged, by which to divide; repeatable
    ///
    /// All images of the file are used, in the formats of --mask. Pixels whose value is not a
    /// number above 0 are masked with a warning; without any other pixel, the flat field is refused.
    /// See --flat-mode.
    #[arg(long, value_name = "FILE", help_heading = CORRECTIONS, action = ArgAction::Append)]
    flat: Vec<PathBuf>,

    /// How to apply the flat field: divide or multiply [default: divide]
    ///
    /// `divide` by it if it is the response of the pixels, as in pyFAI; `multiply` by it if it is a
    /// correction factor, as in Dectris files.
    #[arg(long, value_name = "MODE", help_heading = CORRECTIONS, hide_short_help = true)]
    flat_mode: Option<FlatMode>,

    /// Polarization factor, -1 to 1, such as 0.99
    ///
    /// As pyFAI's `polarization_factor`. Default: no correction.
    #[arg(long, value_name = "F", help_heading = CORRECTIONS, allow_hyphen_values = true, value_parser = filter::number("0.99"))]
    polarization: Option<f64>,

    /// Angle that is added to chi for the polarization, in degrees [default: 0]
    ///
    /// The electric field lies at the azimuth chi = -DEG; with 0 it is horizontal, as at a synchrotron.
    /// pyFAI's `axis_offset`.
    #[arg(long, value_name = "DEG", help_heading = CORRECTIONS, hide_short_help = true, allow_hyphen_values = true, value_parser = filter::number("90"))]
    polarization_offset: Option<f64>,

    /// Correct for the solid angle of each pixel [default: on]
    #[arg(long, value_name = "on|off", help_heading = CORRECTIONS, hide_short_help = true, value_parser = parse_switch)]
    solid_angle: Option<bool>,

    /// Correct counts for the dead time of a pixel after each count, such as 120ns
    ///
    /// A pixel that has counted N photons in the exposure time T was dead for N x TIME, so it stands for
    /// N / (1 - N x TIME / T) photons (non-paralyzable model). TIME is in seconds, or has a unit: s, ms,
    /// us or ns. Variances are those of the corrected counts: errors relative to intensities stay 1 / sqrt(N).
    /// Pixels that were dead for more than nine tenths of T are masked in that frame. Take it from the
    /// detector's data sheet, and only if the detector does not correct counts itself. Darks and images
    /// of --variance are taken as they are: they are of corrected counts. Default: no correction.
    #[arg(long, value_name = "TIME", help_heading = CORRECTIONS, hide_short_help = true)]
    dead_time: Option<Time>,

    /// Exposure time of a frame, for --dead-time [default: that of each scan]
    ///
    /// In seconds, or with a unit: s, ms, us or ns. `scan-find` reads the exposure time of each scan from
    /// its file. Scans with other exposure times get recipes of their own.
    #[arg(long, value_name = "TIME", help_heading = CORRECTIONS, hide_short_help = true)]
    exposure_time: Option<Time>,

    /// Correct for absorption in the sensor: MATERIAL,THICKNESS
    ///
    /// For instance CdTe,750um. Materials: Si, Ge, GaAs, CdTe, CZT, Se, Gd2O2S and BaFBr0.85I0.15.
    /// Corrects for the fraction of photons that the sensor absorbs at each pixel's angle of
    /// incidence, relative to normal incidence. Default: no correction. It does not correct for
    /// parallax, which is the PONI file's matter: `Parallax: True`.
    #[arg(long, value_name = "SENSOR", help_heading = CORRECTIONS, hide_short_help = true)]
    sensor: Option<Sensor>,

    /// Divide each frame by this counter; repeatable
    ///
    /// NAME is a counter of the scan, such as fpico2 (`scan-find -v` lists them); the word
    /// `exposure-time`; a number; or file.h5::/path. Several monitors are multiplied. To keep
    /// intensities near the counts, add --monitor-reference mean. Intensities are counts / (monitor
    /// / reference): see --monitor-reference. Default: none.
    #[arg(long, value_name = "NAME", help_heading = CORRECTIONS, action = ArgAction::Append)]
    monitor: Vec<String>,

    /// Monitor value at which intensities stay as counted; once for each monitor, in order
    /// [default: 1]
    ///
    /// Intensities are counts / (monitor / X). X is a number, `mean`, or any quantity that
    /// --monitor accepts. With `mean`, the monitor's mean over the scan, intensities stay near the
    /// counts, but each scan has its own mean: to compare scans, give a number. In a scan that
    /// still runs, it is the mean of the readings so far; gather computes all patterns of the scan
    /// again when it changes.
    #[arg(long, value_name = "X|mean", help_heading = CORRECTIONS, hide_short_help = true, action = ArgAction::Append, allow_hyphen_values = true)]
    monitor_reference: Vec<ReferenceSetting>,

    /// Mean over the pixels of a bin: weighted or unweighted [default: weighted]
    ///
    /// `weighted`: the sum of signals divided by the sum of normalizations (flat field, solid
    /// angle, polarization), as in pyFAI's default. `unweighted`: the mean of corrected
    /// intensities, as in pyFAI's `method.unweighted`; not with --sigma-clip and --median.
    #[arg(long, value_name = "weighted|unweighted", help_heading = ERRORS, hide_short_help = true)]
    mean: Option<Mean>,

    /// Source of errors
    #[arg(long, value_name = "MODEL", help_heading = ERRORS, help = error_model_names(), long_help = error_model_help())]
    error_model: Option<ErrorModel>,

    /// Image of each pixel's variance, for --error-model variance
    ///
    /// Pixels whose value is below 0 or not finite are masked with a warning. An image without any
    /// other pixel is refused, and one that is 0 everywhere, too.
    #[arg(long, value_name = "FILE", help_heading = ERRORS, hide_short_help = true)]
    variance: Option<PathBuf>,

    /// Standard error of the mean (sem) or standard deviation of a pixel (std) [default: sem]
    #[arg(long, value_name = "sem|std", help_heading = ERRORS, hide_short_help = true)]
    error: Option<ErrorMeasure>,

    /// Least variance, that of 1 photon: for each pixel, bin or none [default: pixel]
    ///
    /// For --error-model poisson and hybrid: 0 counts would have an error of 0. `pixel`: each pixel
    /// of each frame has a variance of at least 1, as in pyFAI; errors of sparse frames (less than
    /// a photon per pixel) are then too large. `bin`: the sum of each bin has at least the variance
    /// of one photon, which gives the true errors of sparse frames. `none`: no least variance.
    /// Averages of frames never use the minimum of single pixels: see `gather --average`. With
    /// --dark, all use it, and `bin` and `none` are refused: how many of a bin's counts are of the
    /// dark is not known.
    #[arg(long, value_name = "pixel|bin|none", help_heading = ERRORS, hide_short_help = true)]
    error_floor: Option<ErrorFloor>,

    /// Drop zingers and spots beyond T sigma
    ///
    /// Zingers are hits of cosmic rays and the like; spots come from single crystals. As pyFAI's
    /// `sigma_clip_ng`: drop pixels more than T standard deviations from the mean of their bin, at
    /// most ROUNDS times (default: 5), for instance 5,3. The standard deviation is that of
    /// --error-model: with `poisson`, from the counts; with `azimuthal` or `hybrid`, from the
    /// spread of the pixels in the bin, which suits textured samples. In bins with many pixels a
    /// small T is raised to Chauvenet's criterion, which drops about half a pixel of pure noise in
    /// a bin; `chauvenet` in place of T uses the criterion alone.
    #[arg(long, value_name = "T[,ROUNDS]", help_heading = ERRORS)]
    sigma_clip: Option<SigmaClip>,

    /// Mean of the pixels between two percentiles of their bin
    ///
    /// It ignores zingers and spots. For instance 10,90; 50 alone is the median.
    #[arg(long, value_name = "LOW,HIGH", help_heading = ERRORS, hide_short_help = true)]
    median: Option<Quantiles>,

    /// Errors of --median: scatter or pyfai [default: scatter]
    ///
    /// `scatter`: the standard deviation that the median would have in repeated frames, estimated
    /// from all pixels of the bin. Below 50 counts a pixel, where medians go from one count to the next
    /// in steps, it may be wrong by a factor of two, and below 5 by more. `pyfai`: from the pixels
    /// between the percentiles alone.
    #[arg(long, value_name = "scatter|pyfai", help_heading = ERRORS, hide_short_help = true)]
    median_error: Option<MedianError>,

    /// Value of empty bins: nan or 0 [default: nan]
    #[arg(long, value_name = "nan|0", help_heading = ERRORS, hide_short_help = true)]
    empty: Option<EmptyBinValue>,

    /// Round the values of cakes to N bits of their mantissa, 1 to 22, so that files are smaller
    ///
    /// Intensities and errors become the nearest numbers with N bits behind the leading one, in place
    /// of 23, and differ by at most 2^-(N+1) of themselves: 0.012 % with 12, 0.05 % with 10, 0.2 % with
    /// 8. Choose N by the errors: noise that is kept is what compression can't shrink. Averages and
    /// merges are made from the rounded cakes, unless sums are kept (`ai-integrate --keep-sums`), and
    /// the errors of averages of few counts may then differ by several times as much.
    #[arg(long, value_name = "N", help_heading = ERRORS, hide_short_help = true, value_parser = filter::whole_number::<u32>(1..=22))]
    keep_bits: Option<u32>,
}

impl From<RecipeFlags> for Settings {
    fn from(flags: RecipeFlags) -> Self {
        let paths = |list: Vec<PathBuf>| {
            OneOrMany::from_items(list.into_iter().map(RawPath::from).collect())
        };
        Self {
            poni: flags.poni.map(RawPath::from),
            geometry: None,
            poni_table: flags.poni_table.map(RawPath::from),
            goniometer: flags.goniometer.map(RawPath::from),
            motor: OneOrMany::from_items(flags.motor),
            poni_detector: flags.poni_detector.map(RawPath::from),
            roi: flags.roi,
            image_operation: flags.image_operation,
            incident_angle: flags.incident_angle,
            tilt_angle: flags.tilt_angle,
            sample_orientation: flags.sample_orientation,
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
            dead_time: flags.dead_time,
            exposure_time: flags.exposure_time,
            sensor: flags.sensor,
            polarization: flags.polarization,
            polarization_offset: flags.polarization_offset,
            solid_angle: flags.solid_angle,
            mean: flags.mean,
            error_model: flags.error_model,
            variance: flags.variance.map(RawPath::from),
            error: flags.error,
            error_floor: flags.error_floor,
            sigma_clip: flags.sigma_clip,
            median: flags.median,
            median_error: flags.median_error,
            monitor: OneOrMany::from_items(
                flags.monitor.into_iter().map(MonitorSetting::Name).collect(),
            ),
            monitor_reference: OneOrMany::from_items(flags.monitor_reference),
            empty: flags.empty,
            keep_bits: flags.keep_bits,
            dummy: flags.dummy,
            detector_mask: flags.detector_mask,
        }
    }
}

/// Returns the short help of --error-model: the names of all models.
fn error_model_names() -> String {
    ErrorModel::list(|_| true)
}

/// Returns the help of --error-model, with all models.
fn error_model_help() -> String {
    let (names, models) = (error_model_names(), ErrorModel::describe_all());
    format!("{names}\n\n{models} Default: poisson; with --variance, variance.")
}

/// Returns the help of --unit, with the names of all units.
fn unit_help() -> String {
    format!(
        "Radial unit, such as 2th_deg [default: q_nm^-1]\n\nOne of {}. Quote those with `*`.",
        Unit::list()
    )
}

/// Parses two numbers separated by a comma.
pub fn parse_pair(text: &str) -> Result<[f64; 2], String> {
    let numbers = parse_numbers(text).and_then(|numbers| numbers.try_into().ok());
    numbers.ok_or_else(|| "expected two numbers separated by a comma, as in 1,20".to_owned())
}

/// Parses the row and the column at which a region of the detector begins.
fn parse_roi(text: &str) -> Result<[u64; 2], &'static str> {
    let corner = parse_numbers(text).and_then(|numbers| numbers.try_into().ok());
    corner.ok_or("expected a row and a column, whole numbers from 0 on, as in 512,0")
}

/// Parses the edges of bins.
fn parse_edges(text: &str) -> Result<Edges, &'static str> {
    parse_numbers(text).ok_or("expected numbers separated by commas, as in 0.5,1,2")
}

fn parse_numbers<T: FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// Parses `on` or `off`.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}
