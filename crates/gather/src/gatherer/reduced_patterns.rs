//! Writes patterns minus a background and in absolute units, and measures calibration factors.

use std::path::PathBuf;

use filter::Stop;
use patterns::export::{self, ExportError, FrameValue, PatternReduction};
use patterns::output::OutputFile;
use records::{ScanState, Summary};

use super::derived_files::to_json;
use super::{Gatherer, is_same_file};
use crate::scan_group::ScanGroup;
use crate::{export_messages, messages};

/// Largest χ² per degree of freedom of a pattern that has the shape of the standard.
const MAX_CHI2: f64 = 10.0;

/// Largest error of a calibration factor, relative to it and without that of the standard, that is
/// not warned of.
const MAX_FACTOR_ERROR: f64 = 0.05;

/// The scan that a detector's calibration factor was measured from.
pub(super) struct StandardScan {
    file: PathBuf,
    entry: String,
    final_file: PathBuf,
}

impl<'a> Gatherer<'a> {
    /// Warns of frames that are not part of the background because they lack a pattern or a value, and of
    /// counters that are not those of its scan.
    pub fn warn_of_background(&self) {
        let Some(background) = &self.reduction.background else { return };
        match &background.is_outdated {
            Ok(false) => (),
            Ok(true) => {
                self.filter.warn(&messages::outdated_background(background.path()));
                self.filter.mark_failed();
            }
            Err(why) => self.filter.warn(why),
        }
        if !background.without_pattern.is_empty() {
            let (path, frames) = (background.path(), &background.without_pattern);
            self.filter.warn(&messages::background_frames_without_pattern(path, frames));
        }
        if background.without_terms.is_empty() {
            return;
        }
        let transmission = self.args.reduction.transmission.as_ref();
        let counters = background.describe_counters(transmission);
        let (path, frames) = (background.path(), &background.without_terms);
        self.filter.warn(&messages::background_frames_without_terms(path, frames, &counters));
        self.filter.mark_failed();
    }

    /// Warns if patterns or a factor were asked for, and only the background was there.
    pub fn warn_if_nothing_reduced(&self) {
        let Some(background) = &self.reduction.background else { return };
        let is_asked = self.reduction.standard.is_some();
        if is_asked && self.found_background && self.standards.is_empty() {
            self.filter.warn(&messages::nothing_calibrated(background.path()));
            self.filter.mark_failed();
        } else if !is_asked && self.found_background && !self.found_sample {
            self.filter.warn(&messages::nothing_subtracted(background.path()));
            self.filter.mark_failed();
        }
    }

    /// Returns what is done to the patterns of a final file. If it is that of a standard, measures
    /// its calibration factor, and adds it to the fields of the summary. `None` if nothing is done:
    /// without the flags, to the background itself, and to a standard that has no factor.
    ///
    /// # Errors
    /// Fails as [`Gatherer::report_failure`] does.
    pub(super) fn find_reduction(
        &mut self,
        group: &mut ScanGroup,
        final_file: &OutputFile,
        summary: &mut Summary,
    ) -> Result<Option<PatternReduction<'a>>, Stop> {
        let (flags, opened) = (&self.args.reduction, self.reduction);
        let background = opened.background.as_ref();
        let is_background =
            background.is_some_and(|background| is_same_file(background.path(), &final_file.path));
        if is_background {
            self.found_background = true;
            return Ok(None);
        }
        self.found_sample = true;
        let (Some(standard), Some(thickness)) = (&opened.standard, flags.thickness) else {
            return Ok(flags.reduction(background, None));
        };
        let scan = &final_file.task.acquisition;
        if let Some(first) = self.standards.get(&scan.detector)
            && (first.file.as_path(), &first.entry) != (scan.file.as_path(), &scan.entry)
        {
            let why = messages::second_standard(&first.final_file);
            let why = ExportError::Reduction { path: final_file.path.clone(), why };
            self.report_failure(group, &final_file.path, &why, None)?;
            return Ok(None);
        }
        let transmission = flags.transmission.as_ref();
        let reduction = PatternReduction { background, transmission, absolute: None };
        let range = flags.calibration_range;
        match export::calibrate(final_file, reduction, thickness, standard, range) {
            Ok(calibration) => {
                let factor = calibration.factor;
                let path = &final_file.path;
                self.filter.note(1, || messages::calibrated(path, standard, &calibration));
                if let Some(chi2) = calibration.chi2.filter(|chi2| *chi2 > MAX_CHI2) {
                    self.filter.warn(&messages::poor_calibration(path, standard, chi2));
                }
                if calibration.measured_relative_error() > MAX_FACTOR_ERROR {
                    let message = export_messages::imprecise_factor(path, standard, &calibration);
                    self.filter.warn(&message);
                }
                let first = StandardScan {
                    file: scan.file.to_path_buf(),
                    entry: scan.entry.clone(),
                    final_file: path.clone(),
                };
                self.standards.entry(scan.detector.clone()).or_insert(first);
                let name = match flags.standard_file() {
                    Some(path) => to_json(path.clone()),
                    None => standard.to_string().into(),
                };
                for (name, value) in [
                    ("calibration_factor", factor.value.into()),
                    ("calibration_error", factor.error.into()),
                    ("calibration_standard", name),
                    (
                        "calibration_standard_relative_error",
                        calibration.standard_relative_error.into(),
                    ),
                    ("calibration_chi2", calibration.chi2.into()),
                    ("calibration_bins", calibration.bins.into()),
                    ("calibration_range", calibration.range.to_vec().into()),
                ] {
                    summary.extra.insert(name.to_owned(), value);
                }
                Ok(flags.reduction(background, Some(factor)))
            }
            Err(why) => {
                self.report_failure(group, &final_file.path, &why, why.io_error())?;
                Ok(None)
            }
        }
    }

    /// Writes the reduced patterns of a final file, and adds their path to the fields of its
    /// summary. Returns the path; `None` if they can't be written.
    ///
    /// # Errors
    /// Fails as [`Gatherer::report_failure`] does.
    pub(super) fn write_reduced_patterns(
        &mut self,
        group: &mut ScanGroup,
        final_file: &OutputFile,
        reduction: PatternReduction,
        summary: &mut Summary,
    ) -> Result<Option<PathBuf>, Stop> {
        let background = reduction.background;
        let warnings =
            background.map_or(Ok(Vec::new()), |background| background.warnings(final_file));
        let written = warnings.and_then(|warnings| {
            Ok((warnings, export::write_reduced(final_file, reduction, &self.policy)?))
        });
        match written {
            Ok((warnings, written)) => {
                warnings.iter().for_each(|warning| self.filter.warn(warning));
                let has_monitor = !final_file.recipe.monitor.is_empty();
                let transmission = reduction.transmission.map(|transmission| &transmission.sample);
                if !has_monitor && transmission.is_some_and(FrameValue::is_counter) {
                    self.filter.warn(&messages::transmission_without_monitor(&final_file.path));
                }
                let frames = &written.without_terms;
                let has_ended = final_file.task.acquisition.scan_state() != ScanState::Running;
                if !frames.is_empty() && has_ended {
                    let counters = reduction.describe_counters();
                    self.filter.warn(&messages::frames_without_terms(
                        &written.path,
                        frames,
                        &counters,
                    ));
                    self.filter.mark_failed();
                }
                summary.extra.insert(written.name.to_owned(), to_json(written.path.clone()));
                Ok(Some(written.path))
            }
            Err(why) => {
                self.report_failure(group, &final_file.path, &why, why.io_error())?;
                Ok(None)
            }
        }
    }
}
