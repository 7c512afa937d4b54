//! Builds the final file of a scan and recipe, or finds that it is up to date.

use std::cell::Cell;

use records::{ScanState, Spans, format_frames};
use system::atomic;
use system::ownership::{self, OwnershipRule};
use system::set_aside::AsideReason;

use super::build_outcome::Replaced;
use super::content::OutputContent;
use super::frame_source::ScanFrames;
use super::inputs::{EarlierMeasurement, OutputInputs};
use super::policy::{could_be_complete, replaced_averages};
use super::row_sources::RowSources;
use super::verified_file::{DAMAGED_FILE, file_version, write_verified};
use super::{
    AveragedPatterns, BuildObserver, BuildOutcome, OutputError, OutputFile, OutputLayout,
    OutputOptions, OutputSpec, WritePolicy, part_index,
};
use crate::part::parts_dir;
use crate::{Normalizer, SharedBins};

/// Maximum number of attempts if parts vanish while they are read, because another gather has
/// merged them.
const MAX_ATTEMPTS: usize = 5;

/// Maximum number of ranges of frames in a warning.
const MAX_RANGES_IN_MESSAGE: usize = 8;

/// Builds the final file of a target from its parts and the existing final file. Writes nothing if
/// the final file is up to date already. Parts that are no longer needed are removed once the new
/// file has been read back.
///
/// # Errors
/// Fails if parts contradict each other, if sums are needed that were not kept, or if a file can't
/// be read or written.
pub fn build(
    target: &OutputSpec,
    options: &OutputOptions,
    observer: &dyn BuildObserver,
) -> Result<BuildOutcome, OutputError> {
    let task = target.task();
    let directory = parts_dir(target.out_root(), &task.scan, &task.recipe_digest)
        .expect("a target stays below its root");
    ownership::create_directories(&directory).map_err(OutputError::io(&directory))?;
    let _lock = part_index::lock(&directory, observer)?;
    // Tasks of another cut have parts of other names, and would not remove the temporary files that
    // ended processes left here.
    atomic::remove_stale_files(&directory).map_err(OutputError::io(&directory))?;
    target.path().parent().into_iter().for_each(atomic::remove_stale_files_once);
    if options.policy == WritePolicy::WhenComplete && !could_be_complete(target)? {
        return Ok(BuildOutcome::default());
    }
    let mut attempts = 1..MAX_ATTEMPTS;
    loop {
        let needs_sums = options.keep_sums || options.average.is_some();
        match OutputInputs::new(target.clone(), options, needs_sums, observer)
            .and_then(OutputInputs::build_output)
        {
            Err(OutputError::Part(error)) if error.was_removed() && attempts.next().is_some() => (),
            Err(OutputError::ConcurrentWrite { .. }) if attempts.next().is_some() => (),
            outcome => return outcome,
        }
    }
}

impl OutputInputs<'_> {
    fn build_output(mut self) -> Result<BuildOutcome, OutputError> {
        let Some((recipe, shared)) = self.recipe_and_bins() else {
            let nothing = RowSources::new(&self.target, &[], None, &Normalizer::default(), None)?;
            let mut outcome = BuildOutcome {
                warnings: self.warnings,
                ..BuildOutcome::new(&self.target, &nothing)
            };
            outcome.explain(&self.unread, self.has_unread_parts);
            if !self.replaced_patterns.is_empty() {
                outcome.warnings.push(format!(
                    "{}: the earlier result, of other settings or weights, is kept",
                    self.target.path().display()
                ));
            }
            return Ok(outcome);
        };
        // Patterns of a detector that moves are of no use for averages without the weights of each row.
        self.options.keep_sums |= recipe.has_moving_geometry();
        let normalizer = Normalizer::new(&recipe);
        let row_sources = self.choose_rows(&normalizer)?;
        self.keep_sums_and_averages(&row_sources);
        self.warn_of_outdated_monitor(&row_sources);
        self.warn_of_missing_sparse_pixels(&row_sources);
        let mut outcome = BuildOutcome::new(&self.target, &row_sources);
        outcome.explain(&self.unread, self.has_unread_parts);
        if !self.options.replaces_with_fewer {
            outcome.only_in_replaced = self.replaced_patterns.difference(&outcome.integrated);
        }
        let may_be_written = outcome.is_final_state() || self.options.policy == WritePolicy::Always;
        if may_be_written {
            self.warn_of_other_layout(&row_sources);
        }
        if let Some(existing) = self.find_current(&row_sources, may_be_written)? {
            (outcome.was_unchanged, outcome.layout) = (true, Some(existing.layout));
            outcome.data_digest.clone_from(&existing.data_digest);
            part_index::record_owner(&self.target, false)?;
        } else if self.replaces_other && !outcome.up_to_date {
            let path = self.target.path();
            self.warnings.push(format!(
                "{}: the earlier result is kept until all frames are integrated",
                path.display()
            ));
        } else if !outcome.only_in_replaced.is_empty() {
            self.warnings.push(format!(
                "{}: the earlier result, of other settings or weights, is kept, because only it has {}: bring the data back, or pass \
                 --allow-missing to replace it all the same",
                self.target.path().display(),
                format_frames(&outcome.only_in_replaced, MAX_RANGES_IN_MESSAGE)
            ));
        } else if let Some(lost) = self.lost_with_parts(&row_sources, &outcome) {
            self.warnings.push(format!(
                "{}: kept as it is, because it shows the parts, and {} would be lost, which were not integrated again since their \
                 raw data were written again: run the whole pipe again",
                self.target.path().display(),
                format_frames(&lost, MAX_RANGES_IN_MESSAGE)
            ));
        } else if may_be_written {
            self.warnings.extend(self.damaged_sums_warning.take());
            let existing = self.existing.as_ref();
            self.warnings
                .extend(existing.and_then(|there| replaced_averages(&self.options, there)));
            let layout = self.choose_layout(&row_sources);
            let averages = self.averages_to_copy(&row_sources)?;
            let needed_for = self.sums_needed_for(&row_sources, &normalizer, averages.is_some());
            self.check_sums(&row_sources, needed_for)?;
            outcome.data_digest =
                self.write(&recipe, &shared, normalizer, &row_sources, layout, averages)?;
            outcome.layout = Some(layout);
            let is_same = |existing: &OutputFile| existing.data_digest == outcome.data_digest;
            outcome.replaced = match &self.existing {
                _ if self.existing_version.is_none() => Replaced::Nothing,
                Some(existing) if is_same(existing) && !self.has_newer_scan => Replaced::Nothing,
                Some(existing) if is_same(existing) => Replaced::Counters,
                _ => Replaced::Data,
            };
        }
        // The parts are no longer needed once the final file covers all frames and the mean of the
        // monitor can't change.
        let needs_no_sums = normalizer.needs_only_own_frame()
            || self.options.keep_sums
            || outcome.scan_state != ScanState::Running;
        if outcome.layout.is_some_and(OutputLayout::holds_patterns)
            && outcome.up_to_date
            && needs_no_sums
            && !self.options.keep_parts
            && !part_index::are_parts_shown_by_other(&self.target)?
        {
            self.remove_parts()?;
        }
        outcome.warnings = self.warnings;
        outcome.warnings.append(self.write_warnings.get_mut());
        Ok(outcome)
    }

    /// Returns the frames whose patterns would be in no file if a new final took the place of one that shows
    /// parts: these are replaced or removed by and by, so that it can't be kept under another name.
    fn lost_with_parts(&self, row_sources: &RowSources, outcome: &BuildOutcome) -> Option<Spans> {
        let existing = self.existing.as_ref()?;
        let lost = row_sources.left_behind.intersection(&outcome.retryable_frames);
        (existing.layout == OutputLayout::Virtual && !lost.is_empty()).then_some(lost)
    }

    /// Warns of rows whose monitor was corrected since, and of a monitor that can't be read while
    /// parts differ in it.
    fn warn_of_outdated_monitor(&mut self, row_sources: &RowSources) {
        let path = self.target.path();
        let frames = &row_sources.outdated_monitor;
        if !frames.is_empty() {
            self.warnings.push(format!(
                "{}: {}: the monitor was corrected since they were integrated; run the whole pipe again",
                path.display(),
                format_frames(frames, MAX_RANGES_IN_MESSAGE)
            ));
        }
        if let (Err(why), true) = (&self.monitors, row_sources.has_other_readings) {
            self.warnings.push(format!(
                "{}: parts differ in the monitor of some frames, and the one that was written last is used: {why}",
                path.display()
            ));
        }
    }

    /// Warns of patterns without sparse pixels beside others that have them: a reader of the pixels
    /// alone sees frames without spots. Frames whose pixels are damaged were warned of.
    fn warn_of_missing_sparse_pixels(&mut self, row_sources: &RowSources) {
        let mut lacking = row_sources.frames_without_sparse_pixels();
        if let Some(existing) = &self.existing {
            // With a damaged index, it is not known which frames had pixels.
            if existing.has_damaged_sparse {
                return;
            }
            lacking = lacking.difference(&existing.damaged_sparse);
        }
        if lacking.is_empty() || !row_sources.has_sparse_pixels() {
            return;
        }
        self.warnings.push(format!(
            "{}: {} were integrated without --sparse, and have no sparse pixels; run ai-integrate --sparse on the tasks that \
             gather --missing --sparse lists",
            self.target.path().display(),
            format_frames(&lacking, MAX_RANGES_IN_MESSAGE)
        ));
    }

    /// Warns of a final file that can't be made of virtual datasets, as was asked for.
    fn warn_of_other_layout(&mut self, row_sources: &RowSources) {
        let layout = self.choose_layout(row_sources);
        if self.options.layout != OutputLayout::Virtual || layout == OutputLayout::Virtual {
            return;
        }
        let remedy = match layout {
            OutputLayout::Integrator => "a file of the layout integrator stays one; remove it, and",
            _ => "some of its frames have no parts;",
        };
        self.warnings.push(format!(
            "{}: not linked to parts as --layout virtual asks: {remedy} run ai-integrate --force and gather --layout virtual",
            self.target.path().display()
        ));
    }

    fn write(
        &self,
        recipe: &recipe::Recipe,
        shared: &SharedBins,
        normalizer: Normalizer,
        row_sources: &RowSources,
        layout: OutputLayout,
        averages_to_copy: Option<&AveragedPatterns>,
    ) -> Result<String, OutputError> {
        let content = OutputContent {
            target: &self.target,
            recipe,
            monitors: &recipe.monitor,
            is_merged: false,
            normalizer,
            shared,
            parts: &self.parts,
            existing: self.existing.as_ref(),
            row_sources,
            part_digests: &self.part_digests(),
            layout,
            compression: self.choose_compression(),
            keep_sums: self.options.keep_sums,
            average: self.options.average,
            averages_to_copy,
            raw_file_denied: Cell::new(false),
            warnings: &self.write_warnings,
            set_aside: self.set_aside(row_sources),
            changed_frames: match self.existing {
                // Numbers that are not newer are those that the final has.
                Some(_) => self.changed_frames.clone(),
                None => self.check_same_frames(&row_sources.stamps).err(),
            },
        };
        let computes_averages = content.average.is_some() && content.averages_to_copy.is_none();
        let needs_sums = content.has_sums() || computes_averages;
        let mut merge = ScanFrames::new(
            row_sources,
            &self.parts,
            self.existing.as_ref(),
            shared,
            &normalizer,
            needs_sums,
            content.average.is_none().then_some(content.compression),
        )?;
        let was_virtual =
            self.existing.as_ref().is_some_and(|there| there.layout == OutputLayout::Virtual);
        let holds_patterns_now = was_virtual && layout.holds_patterns();
        let digest =
            write_verified(&content, &mut merge, self.observer, self.existing_version, |_| {
                part_index::record_owner(&self.target, holds_patterns_now)
            })?;
        // plan-split, run with other settings before the file was there, may have taken the path.
        part_index::check_recorded_owner(&self.target)?;
        Ok(digest)
    }

    /// Returns why the existing file is kept under another name, and what it is. The patterns of an earlier
    /// measurement can't be made again where the raw data were written over.
    fn set_aside(&self, row_sources: &RowSources) -> Option<(AsideReason, String)> {
        let what = match &self.replaced_measurement {
            _ if self.is_damaged => return Some((AsideReason::Damaged, DAMAGED_FILE.to_owned())),
            Some(EarlierMeasurement::OtherScan { start }) => format!(
                "the result of another scan with the same name, which began {}; that of this one, which began {}, has its \
                 place",
                format_start(start.as_deref()),
                format_start(self.target.task().acquisition.start_time.as_deref())
            ),
            Some(EarlierMeasurement::MoreFrames) => {
                "the result of an earlier state of the scan, which had more frames".to_owned()
            }
            None if row_sources.left_behind.is_empty() => return None,
            None => format!(
                "the result of an earlier state of the scan, of which {} were not integrated again",
                format_frames(&row_sources.left_behind, MAX_RANGES_IN_MESSAGE)
            ),
        };
        Some((AsideReason::Earlier, what))
    }

    /// Removes the files that were read, except files that were replaced in the meantime.
    fn remove_parts(&self) -> Result<(), OutputError> {
        for (path, was) in &self.files {
            if file_version(path)? == Some(*was) {
                ownership::remove(path, &OwnershipRule::in_azpipe_dir())
                    .map_err(OutputError::io(path))?;
            }
        }
        Ok(())
    }
}

fn format_start(start: Option<&str>) -> String {
    let known = start.filter(|start| !start.is_empty());
    known.map_or_else(|| "at an unknown time".to_owned(), |start| format!("at {start}"))
}
