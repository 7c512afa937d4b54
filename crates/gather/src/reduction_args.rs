//! The flags about backgrounds and absolute units.

use std::path::PathBuf;

use clap::ValueHint;
use filter::Stop;
use patterns::export::{
    AbsoluteScale, Background, CalibrationFactor, FrameValue, PatternReduction, Standard,
    Thickness, Transmission,
};

use crate::messages;
use crate::number_range::parse_range;

/// The flags about what is done to patterns that are written beside final files.
#[derive(clap::Args)]
#[command(next_help_heading = "Background and absolute units")]
pub struct ReductionArgs {
    /// Subtract the mean pattern of FINAL, the final file of a background scan
    ///
    /// The result lies beside the final file, as NAME.subtracted.h5: the patterns of all frames
    /// minus the background, and their mean. Exports of averages are also written minus the
    /// background, as NAME.subtracted.xye. Errors are added in squares. Both scans must be
    /// integrated with the same bins, corrections, mean and errors, and with the same monitor, whose
    /// reference must be a number. Masks may differ, and so may PONI files: the background is scaled
    /// to the sample's solid angle. Of another detector or wavelength, and of other limits of pixels,
    /// such as --valid-max or --sigma-clip, gather warns. The final file itself does not change, and
    /// that of the background gets no such file.
    #[arg(long, value_name = "FINAL", hide_short_help = true, value_hint = ValueHint::FilePath, conflicts_with_all = ["merge", "merge_all"])]
    pub subtract: Option<PathBuf>,

    /// With --subtract: factor of the background
    ///
    /// NUMBER is the factor of all frames. With the name of a counter, or the ratio of two as in
    /// diode/monitor, the factor of a frame is its value, divided by the mean value of the
    /// background's frames: of patterns that are divided by the monitor before the sample, the
    /// ratio of the transmissions is diode/monitor. Frames without a value above 0 are NaN. With
    /// --transmission, it is a number, such as the part of the solvent in a solution.
    #[arg(
        long,
        value_name = "NUMBER|COUNTER[/COUNTER]",
        default_value = "1",
        hide_default_value = true,
        hide_short_help = true,
        requires = "subtract",
        conflicts_with_all = ["merge", "merge_all"]
    )]
    pub subtract_scale: FrameValue,

    /// With --subtract or --thickness: divide by the transmission, as in diode/monitor/0.83
    ///
    /// Sample and background are each divided by their own transmission, and then subtracted. With a
    /// counter, or the ratio of two, each frame has its own, and the background the mean of its
    /// frames. A number at the end is their value without a sample, which makes them transmissions:
    /// at most 1, or 1.05 with their noise. Frames without a value above 0, or with more, are NaN.
    /// Otherwise, give numbers for sample and background, as in 0.62,0.95, or 0.65,1 if that of the
    /// sample is relative to the background. The patterns must be divided by the flux before the
    /// sample (plan-split --monitor), and not by the counter behind it.
    #[arg(long, value_name = "SAMPLE[,BACKGROUND]", hide_short_help = true)]
    pub transmission: Option<Transmission>,

    /// Write patterns in absolute units, 1/cm, of a sample this thick, as in 1.5mm
    ///
    /// Intensities are divided by the thickness and multiplied by --calibration-factor, which makes
    /// them cross-sections per volume and solid angle. The result lies beside the final file, as
    /// NAME.absolute.h5 in place of NAME.subtracted.h5, and exports of averages as
    /// NAME.absolute.xye. The unit of the thickness is mm, cm or um. Without --subtract, the
    /// scattering of the sample's container and of the instrument is part of the result. Without
    /// --transmission, the patterns must be divided by a monitor behind the sample.
    #[arg(long, value_name = "LENGTH", hide_short_help = true, requires = "calibration", conflicts_with_all = ["merge", "merge_all"])]
    pub thickness: Option<Thickness>,

    /// With --thickness: factor from intensities to 1/cm, and its error, as in 0.0123,0.0004
    ///
    /// It is that of a standard that was integrated with the same recipe: see --calibrate. Its error
    /// is common to all intensities. It is not added to the errors of points, but stands by itself in
    /// HDF5 files and in headers of dat files: calibration_factor_error, and the uncertainty of
    /// I_scaling in NXcanSAS. Other text files have no place for it.
    #[arg(
        long,
        value_name = "FACTOR[,ERROR]",
        hide_short_help = true,
        group = "calibration",
        requires = "thickness",
        conflicts_with_all = ["merge", "merge_all"]
    )]
    pub calibration_factor: Option<CalibrationFactor>,

    /// With --thickness: measure the calibration factor from a standard, and use it
    ///
    /// The scans are those of the standard: glassy-carbon (NIST SRM 3600, 1.055mm thick), water at
    /// 20 degrees C, or a file with columns of q in the unit of the patterns, cross-section in 1/cm,
    /// and its error, which is common to all rows. The summary record has the fields
    /// calibration_factor and calibration_error for --calibration-factor, with calibration_chi2 (per
    /// degree of freedom; null without errors) to judge the fit. The error of the standard is part of
    /// calibration_error: 2.58 % for glassy carbon; that of water and of files without errors is not
    /// known, null in calibration_standard_relative_error, and not part of it. Water is compared from
    /// 0.2 to 0.5 1/angstrom, other standards where they are known. Of each detector, one scan is
    /// calibrated.
    #[arg(
        long,
        value_name = "glassy-carbon|water|FILE",
        hide_short_help = true,
        value_hint = ValueHint::FilePath,
        group = "calibration",
        requires = "thickness",
        conflicts_with_all = ["merge", "merge_all"]
    )]
    pub calibrate: Option<PathBuf>,

    /// With --calibrate: compare this range of q, in the unit of the patterns
    #[arg(long, value_name = "LOW,HIGH", hide_short_help = true, requires = "calibrate", conflicts_with_all = ["calibration_factor", "merge", "merge_all"], allow_hyphen_values = true, value_parser = parse_range)]
    pub calibration_range: Option<[f64; 2]>,
}

/// The opened background and standard that the flags name.
pub struct OpenedReduction {
    pub background: Option<Background>,
    /// Standard that the calibration factor is measured from.
    pub standard: Option<Standard>,
}

impl ReductionArgs {
    /// Returns whether patterns are written beside final files.
    pub fn writes_patterns(&self) -> bool {
        self.subtract.is_some() || self.thickness.is_some()
    }

    /// Returns the files that are read.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.subtract.iter().chain(self.standard_file())
    }

    /// Returns the file of the standard; `None` for a standard that has a name.
    pub fn standard_file(&self) -> Option<&PathBuf> {
        let is_file =
            |name: &&PathBuf| name.to_str().is_none_or(|name| !Standard::NAMES.contains(&name));
        self.calibrate.as_ref().filter(is_file)
    }

    /// Opens the background and the standard.
    ///
    /// # Errors
    /// Fails if flags contradict each other, or if a file can't be read or is not what is expected.
    pub fn open(&self) -> Result<OpenedReduction, Stop> {
        self.check_transmission().map_err(|why| Stop::fatal("--transmission", why))?;
        let standard = self.calibrate.as_deref().map(Standard::open).transpose();
        let standard = standard.map_err(|why| Stop::fatal("--calibrate", why))?;
        let transmission = self.transmission.as_ref().and_then(Transmission::of_background);
        let open = |path: &PathBuf| Background::open(path, &self.subtract_scale, transmission);
        let background = self.subtract.as_ref().map(open).transpose();
        let background = background.map_err(|why| Stop::fatal("--subtract", why))?;
        Ok(OpenedReduction { background, standard })
    }

    fn check_transmission(&self) -> Result<(), &'static str> {
        let Some(transmission) = &self.transmission else {
            return match (self.thickness, self.subtract_scale.is_counter()) {
                (Some(_), true) => Err(messages::counters_of_background_only()),
                _ => Ok(()),
            };
        };
        if !self.writes_patterns() {
            return Err(messages::transmission_alone());
        }
        if self.subtract.is_none() && transmission.names_background() {
            return Err(messages::transmission_of_no_background());
        }
        if self.subtract.is_some() && transmission.of_background().is_none() {
            return Err(messages::transmission_of_sample_only());
        }
        if self.subtract_scale.is_counter() {
            return Err(messages::two_transmissions());
        }
        Ok(())
    }

    /// Returns what is done to patterns, with a calibration factor that was measured, or the one of
    /// `--calibration-factor`. `None` if nothing is done.
    pub fn reduction<'a>(
        &'a self,
        background: Option<&'a Background>,
        measured: Option<CalibrationFactor>,
    ) -> Option<PatternReduction<'a>> {
        let factor = measured.or(self.calibration_factor);
        let absolute = self.thickness.zip(factor);
        let absolute = absolute.map(|(thickness, factor)| AbsoluteScale { thickness, factor });
        if background.is_none() && absolute.is_none() {
            return None;
        }
        Some(PatternReduction { background, transmission: self.transmission.as_ref(), absolute })
    }
}
