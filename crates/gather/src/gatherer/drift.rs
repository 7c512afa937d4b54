//! Measures the drift of beam and detector.

use std::path::PathBuf;

use filter::Stop;
use patterns::export;
use patterns::output::OutputFile;
use patterns::{Status, plot};
use records::{Spans, Summary};

use super::Gatherer;
use super::derived_files::to_json;
use crate::messages;
use crate::scan_group::ScanGroup;

impl Gatherer<'_> {
    /// Measures the drift in a final file, and returns the path of what was written; `None` without
    /// `--drift`, and if it can't be measured, which is reported.
    ///
    /// # Errors
    /// Fails as [`Gatherer::report_failure`] does.
    pub(super) fn write_drift(
        &mut self,
        group: &mut ScanGroup,
        final_file: &OutputFile,
        summary: &mut Summary,
    ) -> Result<Option<PathBuf>, Stop> {
        let Some(request) = &self.drift else { return Ok(None) };
        let (path, drift) = match export::write_drift(final_file, request, &self.policy) {
            Ok(written) => written,
            Err(why) => {
                let path = group.target.path();
                return self.report_failure(group, &path, &why, why.io_error()).map(|()| None);
            }
        };
        self.filter.note(1, || messages::drift_measured(&path, &drift));
        if let Some(doubt) = drift.doubt() {
            self.filter.warn(&messages::doubtful_drift(&path, &drift, doubt));
            summary.extra.insert("drift_doubt".to_owned(), doubt.name().into());
        }
        let frames = (0..).zip(final_file.status.iter().zip(&drift.frames));
        let unknown: Spans = frames
            .filter(|(_, (status, found))| **status == Status::Ok && !found.is_known())
            .map(|(frame, _)| frame)
            .collect();
        if !unknown.is_empty() {
            self.filter.warn(&messages::frames_without_drift(&path, &unknown));
        }
        for (name, axis) in drift.components() {
            let (value, error) = (drift.average.value[axis], drift.average.error[axis]);
            summary.extra.insert(format!("drift_{name}"), value.into());
            summary.extra.insert(format!("drift_{name}_error"), error.into());
        }
        summary.extra.insert("drift_calibrant".to_owned(), drift.calibrant.clone().into());
        summary.extra.insert("drift".to_owned(), to_json(path.clone()));
        if self.args.output.report.is_some() {
            let picture = plot::illustrate_drift(&drift);
            let path = group.target.path();
            match picture {
                Ok(picture) => self.report.set_drift(&path, &drift, &picture),
                Err(why) => self.report_failure(group, &path, &why, why.io_error())?,
            }
        }
        Ok(Some(path))
    }
}
