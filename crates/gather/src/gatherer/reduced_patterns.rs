//! Writes patterns minus a background and in absolute units, and measures calibration factors.

use std::path::PathBuf;

use filter::Stop;
use patterns::export::{self, PatternReduction};
use patterns::output::OutputFile;
use records::{ScanState, Summary};

use super::derived_files::to_json;
use super::{Gatherer, is_same_file};
use crate::messages;
use crate::scan_group::ScanGroup;

impl<'a> Gatherer<'a> {
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
            return Ok(None);
        }
        let (Some(standard), Some(thickness)) = (&opened.standard, flags.thickness) else {
            return Ok(flags.reduction(background, None));
        };
        let transmission = flags.transmission.as_ref();
        let reduction = PatternReduction { background, transmission, absolute: None };
        let range = flags.calibration_range;
        match export::calibrate(final_file, reduction, thickness, standard, range) {
            Ok(calibration) => {
                let factor = calibration.factor;
                let path = &final_file.path;
                self.filter.note(1, || messages::calibrated(path, standard, &calibration));
                for (name, value) in [
                    ("calibration_factor", factor.value.into()),
                    ("calibration_error", factor.error.into()),
                    ("calibration_standard", standard.to_string().into()),
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
        match export::write_reduced(final_file, reduction, &self.policy) {
            Ok(written) => {
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
