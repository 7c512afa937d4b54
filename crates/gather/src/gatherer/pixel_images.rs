//! Writes images of the pixels' statistics over a scan.

use std::path::PathBuf;

use filter::Stop;
use integrator::StatisticsRule;
use patterns::export::{self, ExportError};
use patterns::output::OutputFile;
use records::Summary;

use super::Gatherer;
use super::derived_files::to_json;
use crate::messages;
use crate::scan_group::ScanGroup;

impl Gatherer<'_> {
    /// Writes the images of a final file, and returns their path; `None` if they can't be written,
    /// which is reported.
    pub(super) fn write_pixel_images(
        &mut self,
        group: &mut ScanGroup,
        final_file: &OutputFile,
        summary: &mut Summary,
    ) -> Result<Option<PathBuf>, Stop> {
        let rule = StatisticsRule::new(&final_file.task.acquisition, &final_file.recipe);
        let written = match rule {
            Ok(rule) => export::write_pixel_images(final_file, &rule.invalid, &self.policy),
            Err(why) => Err(ExportError::PixelStatistics {
                path: final_file.path.clone(),
                why: format!("no pixel statistics: {why}"),
            }),
        };
        let images = match written {
            Ok(images) => images,
            Err(why) => {
                let path = group.target.path();
                return self.report_failure(group, &path, &why, why.io_error()).map(|()| None);
            }
        };
        for why in &images.unusable {
            self.filter.warn(why);
        }
        if !images.lacking.is_empty() {
            let (frames, lacking) = (images.frames, &images.lacking);
            self.filter.warn(&messages::frames_without_statistics(&images.path, frames, lacking));
            if !self.args.common.allow_missing {
                self.filter.mark_failed();
            }
        }
        self.filter.note(0, || messages::suggested_mask(&images.path, &images.marked));
        if images.marked.all.saturating_mul(100) > images.marked.of_frame {
            self.filter.warn(&messages::many_pixels_marked(&images.path));
        }
        summary.extra.insert("pixel_images".to_owned(), to_json(images.path.clone()));
        Ok(Some(images.path))
    }
}
