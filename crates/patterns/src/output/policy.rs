//! Decides whether a final file is written, in which layout, and from which sums.

use std::path::Path;

use records::{Acquisition, ScanState, Spans, Task, format_frames};

use super::content::open_raw_file;
use super::counters::ScanNumbers;
use super::error::MAX_RANGES;
use super::inputs::{OutputInputs, list_error};
use super::row_sources::{RowSource, RowSources};
use super::scan_progress::{ScanProgress, changed_since};
use super::{AveragedPatterns, OutputError, OutputFile, OutputLayout, OutputOptions, OutputSpec};
use crate::file_states::SourceStates;
use crate::part::{self, list_parts};
use crate::source_fingerprint::SourceFingerprints;
use crate::{Compression, Normalizer, Status};

/// Returns whether all frames may be there, judged by the user blocks of the parts. While a scan is
/// being integrated, many gathers ask, and only the last of them has to read the parts.
///
/// # Errors
/// Fails if the parts can't be listed, or a part or the final file can't be read.
pub(super) fn could_be_complete(target: &OutputSpec) -> Result<bool, OutputError> {
    let task = target.task();
    let parts = list_parts(target.out_root(), &task.scan, &task.recipe_digest)
        .map_err(|why| list_error(target, why))?;
    let count = |target: &OutputSpec| {
        target.absent().iter().map(|absent| absent.range.count()).sum::<u64>()
    };
    let mut in_parts: u64 = 0;
    for path in &parts {
        match part::read_user_block(path) {
            Ok(head) => in_parts = in_parts.saturating_add(head.count),
            Err(error) if error.io_error().is_some() && !error.was_removed() => {
                return Err(error.into());
            }
            Err(error) if error.was_removed() => (),
            // Damage is reported when the part is read.
            Err(_) => return Ok(true),
        }
    }
    let path = target.path();
    if in_parts.saturating_add(count(target)) >= target.frames()
        || path.try_exists().map_err(OutputError::io(&path))?
    {
        return Ok(true);
    }
    // The task of each part tells which of its frames are absent.
    let mut target = target.clone();
    for path in &parts {
        match part::read_task(path) {
            Ok(task) => target.add_fallback(&task),
            Err(error) if error.was_removed() => (),
            Err(error) if error.is_io_failure() => return Err(error.into()),
            // Damage is reported when the part is read.
            Err(_) => return Ok(true),
        }
    }
    Ok(in_parts.saturating_add(count(&target)) >= target.frames())
}

/// Returns the options with the sums and averages of an existing final file, unless they ask for another
/// average.
pub(super) fn with_sums_and_averages(
    options: OutputOptions,
    existing: &OutputFile,
) -> OutputOptions {
    let average = existing.averaged.as_ref().map(|averaged| averaged.average);
    OutputOptions {
        keep_sums: options.keep_sums || existing.has_sums,
        average: options.average.or(average),
        ..options
    }
}

/// Returns a warning if the averages of an existing final file give way to the mean that an export needs,
/// and nobody asked for another average.
pub(super) fn replaced_averages(options: &OutputOptions, existing: &OutputFile) -> Option<String> {
    let there = existing.averaged.as_ref()?.average;
    let is_replaced =
        options.averages_for_export && options.average.is_some_and(|new| new != there);
    is_replaced.then(|| {
        format!(
            "{}: its averages ({there}) were replaced by the mean of all frames, for --export without --average; for them run \
             gather --average {there}, and add --export to export them",
            existing.path.display()
        )
    })
}

impl OutputInputs<'_> {
    /// Returns the layout of the new final file: the requested one, unless the existing file has
    /// more than that.
    pub(super) fn choose_layout(&self, row_sources: &RowSources) -> OutputLayout {
        let there = self.existing.as_ref().map(|existing| existing.layout);
        match (there, self.options.layout) {
            (Some(there), OutputLayout::Copy) if there.holds_patterns() => there,
            (Some(OutputLayout::Integrator), OutputLayout::Integrator | OutputLayout::Virtual) => {
                OutputLayout::Integrator
            }
            // Rows that only the existing final file holds can't be shown from parts.
            (Some(OutputLayout::Copy), OutputLayout::Virtual)
                if !row_sources.frames_from_output().is_empty() =>
            {
                OutputLayout::Copy
            }
            (_, asked) => asked,
        }
    }

    /// Returns the compression of the new final file's cakes: the requested one, or that of the
    /// existing file, or that of the parts.
    pub(super) fn choose_compression(&self) -> Compression {
        let there = self.existing.as_ref().and_then(|existing| existing.compression);
        let of_parts = || self.parts.iter().find_map(|part| part.compression);
        self.options.compression.or(there).or_else(of_parts).unwrap_or_default()
    }

    /// Returns whether the existing final file holds the frames of all parts, as they are now.
    fn holds_all(&self, existing: &OutputFile, row_sources: &RowSources) -> bool {
        self.parts.iter().all(|part| existing.parts.contains(&part.digest))
            && existing.status == row_sources.status
    }

    /// Adds to the options the sums and averages of the existing final file, which a new one then has, too,
    /// if it gets no frames, or has the sums of those that it gets.
    pub(super) fn keep_sums_and_averages(&mut self, row_sources: &RowSources) {
        self.damaged_sums_warning = self.leave_out_damaged_sums(row_sources);
        let Some(existing) = &self.existing else { return };
        let has_all_sums = existing.has_sums && self.parts.iter().all(|part| part.has_sums);
        if has_all_sums || self.holds_all(existing, row_sources) {
            self.options = with_sums_and_averages(self.options, existing);
        }
    }

    /// Takes the existing final file for one without sums if some that a new one would need are damaged,
    /// and no option asks for sums: the patterns are kept, and the damaged file is set aside. Returns the
    /// warning for when the new one is written.
    fn leave_out_damaged_sums(&mut self, row_sources: &RowSources) -> Option<String> {
        // The mean that exports need can be computed from patterns.
        let asks_for_average = self.options.average.is_some() && !self.options.averages_for_export;
        let asks = self.options.keep_sums || asks_for_average;
        let existing = self.existing.as_mut().filter(|existing| existing.has_sums && !asks)?;
        let damaged =
            row_sources.sums_from_output().intersection(&existing.frames_with_damaged_sums());
        if damaged.is_empty() {
            return None;
        }
        existing.has_sums = false;
        self.is_damaged = true;
        Some(format!(
            "{}: damaged: the sums of {} were changed after writing, and the new file has no sums; for all of them run \
             ai-integrate --keep-sums --force and gather --keep-sums",
            existing.path.display(),
            format_frames(&damaged, MAX_RANGES)
        ))
    }

    /// Returns whether the existing final file has everything that a new one would have.
    pub(super) fn is_current(
        &self,
        existing: &OutputFile,
        row_sources: &RowSources,
    ) -> Result<bool, OutputError> {
        let layout = existing.layout == self.choose_layout(row_sources);
        let rows = existing.layout == OutputLayout::Virtual || existing.is_intact();
        let rows = rows && existing.damaged_bytes.is_none() && !existing.raw_file_denied;
        let is_same_mean = existing.task.monitor_readings.is_none()
            || existing.reference.to_bits() == row_sources.reference.to_bits();
        let has_sparse = |frame| existing.sparse.as_ref().is_some_and(|all| all.is_settled(frame));
        let mut sparse = row_sources.sparse.iter().enumerate();
        let has_all_sparse =
            sparse.all(|(frame, source)| *source == RowSource::None || has_sparse(frame));
        let is_same = self.holds_all(existing, row_sources)
            && layout
            && rows
            && is_same_mean
            && has_all_sparse;
        Ok(is_same && !self.makes_averages_again(existing) && existing.satisfies(&self.options)?)
    }

    /// Returns the existing final file if a new one would have nothing else. If one `may_be_written`, it
    /// would have the numbers of the scan as they are now; the sums and averages of the existing one
    /// are then kept.
    ///
    /// # Errors
    /// Fails if the existing final file can't be read.
    pub(super) fn find_current(
        &mut self,
        row_sources: &RowSources,
        may_be_written: bool,
    ) -> Result<Option<&OutputFile>, OutputError> {
        let Some(existing) = &self.existing else { return Ok(None) };
        let is_current = self.is_current(existing, row_sources)?;
        let newer_scan = match may_be_written {
            true => has_newer_scan(self.target.task(), existing),
            false => Ok(false),
        };
        self.has_newer_scan = newer_scan == Ok(true);
        if self.has_newer_scan {
            self.changed_frames = self.check_same_frames(&row_sources.stamps).err();
        }
        if !is_current {
            // Where the raw file can't be read, that is told when the new one is written.
            return Ok(None);
        }
        self.warnings.extend(newer_scan.err());
        if let Some(why) = &self.changed_frames {
            self.warnings.push(why.clone());
        } else if self.has_newer_scan {
            self.options = with_sums_and_averages(self.options, existing);
            return Ok(None);
        }
        Ok(self.existing.as_ref())
    }

    /// Checks that the frames were not written again since they were integrated. Files of a running scan
    /// change.
    ///
    /// # Errors
    /// Fails as [`check_same_frames`] does.
    pub(super) fn check_same_frames(&self, integrated: &SourceFingerprints) -> Result<(), String> {
        let scan = &self.target.task().acquisition;
        match scan.scan_state() {
            ScanState::Running => Ok(()),
            _ => check_same_frames(scan, integrated),
        }
    }

    /// Returns whether the averages of an existing final file are made again, because an earlier version
    /// counted the pixels that quantiles picked: if they are asked for, and patterns or sums are enough.
    fn makes_averages_again(&self, existing: &OutputFile) -> bool {
        let has_enough =
            existing.has_sums || Normalizer::new(&existing.recipe).empty_value() != 0.0;
        existing.counts_picked_pixels && self.asks_for_average && has_enough
    }

    /// Returns the average patterns of the existing final file if it has no sums to compute them
    /// from, and they are those that the new one would have: of the same method, and of the same
    /// rows.
    ///
    /// # Errors
    /// Fails if the average patterns can't be read.
    pub(super) fn averages_to_copy(
        &self,
        row_sources: &RowSources,
    ) -> Result<Option<&AveragedPatterns>, OutputError> {
        let Some(existing) = self.existing.as_ref().filter(|existing| !existing.has_sums) else {
            return Ok(None);
        };
        let (Some(asked), Some(averages)) = (self.options.average, &existing.averaged) else {
            return Ok(None);
        };
        let is_of_same_rows = !row_sources.has_rows_of_parts()
            && existing.status == row_sources.status
            && existing.reference.to_bits() == row_sources.reference.to_bits();
        if averages.average != asked || !is_of_same_rows || self.makes_averages_again(existing) {
            return Ok(None);
        }
        let is_intact = averages.is_intact().map_err(OutputError::hdf5(&existing.path))?;
        Ok(is_intact.then_some(averages))
    }

    /// Returns what needs the sums of frames whose patterns only the existing final file holds: a
    /// new mean of the monitor, or an option. `None` if the patterns are enough.
    pub(super) fn sums_needed_for(
        &self,
        row_sources: &RowSources,
        normalizer: &Normalizer,
        copies_averages: bool,
    ) -> Option<&'static str> {
        let has_new_mean = |existing: &OutputFile| {
            !normalizer.needs_only_own_frame()
                && existing.reference.to_bits() != row_sources.reference.to_bits()
        };
        // Averages need only patterns, unless empty bins are 0, which can't be told from measured
        // zeros.
        let average =
            self.options.average.filter(|_| !copies_averages && normalizer.empty_value() == 0.0);
        match (self.existing.as_ref().is_some_and(has_new_mean), self.options.keep_sums, average) {
            (true, _, _) => Some("the new mean of the monitor"),
            (_, true, _) => Some("--keep-sums"),
            (_, _, Some(_)) if self.options.averages_for_export => {
                Some("the mean of all frames, which --export writes,")
            }
            (_, _, Some(_)) => Some("--average"),
            (false, false, None) => None,
        }
    }

    /// Checks that parts whose frames are used have sums.
    fn check_sums_of_parts(
        &self,
        row_sources: &RowSources,
        what: &'static str,
    ) -> Result<(), OutputError> {
        let is_without = |part: usize| !self.parts[part].has_sums;
        let rows = row_sources.sources.iter().zip(&row_sources.status).zip(0..);
        let frames: Spans = rows
            .filter(|((source, status), _)| {
                **status == Status::Ok
                    && matches!(source, RowSource::Part { part, .. } if is_without(*part))
            })
            .map(|(_, frame)| frame)
            .collect();
        match frames.is_empty() {
            true => Ok(()),
            false => Err(OutputError::SumsNotInParts { path: self.target.path(), what, frames }),
        }
    }

    /// Checks that the sums of frames that come from the existing final file are there and not
    /// damaged. `needed_for` says what needs them, if anything does.
    ///
    /// # Errors
    /// Fails if sums are damaged, or were not kept.
    pub(super) fn check_sums(
        &self,
        row_sources: &RowSources,
        needed_for: Option<&'static str>,
    ) -> Result<(), OutputError> {
        if let Some(what) = needed_for {
            self.check_sums_of_parts(row_sources, what)?;
        }
        let Some(existing) = &self.existing else { return Ok(()) };
        let frames = row_sources.frames_from_output();
        let damaged =
            row_sources.sums_from_output().intersection(&existing.frames_with_damaged_sums());
        if existing.has_sums && !damaged.is_empty() {
            return Err(OutputError::SumsDamaged { path: existing.path.clone(), frames: damaged });
        }
        match needed_for {
            Some(what) if !existing.has_sums && !frames.is_empty() => {
                let (path, is_cake) = (existing.path.clone(), existing.shared.axes.chi.is_some());
                Err(OutputError::SumsNotKept { path, what, frames, is_cake })
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the frames of a scan were not written again since they were integrated: numbers that the
/// raw file has by now are then those of other frames. Of frames in the raw file itself, that is not known.
///
/// # Errors
/// Fails with a warning if a file of frames is in another state.
fn check_same_frames(scan: &Acquisition, integrated: &SourceFingerprints) -> Result<(), String> {
    let states = SourceStates::default();
    let directory = scan.file.parent().unwrap_or(Path::new("/"));
    let is_raw_file = |path: &Path| directory.join(path) == *scan.file;
    let mut files = integrated.files().filter(|file| !is_raw_file(&file.path));
    match files.find(|file| states.has_changed(directory, file)) {
        Some(file) => Err(format!(
            "{}: its counters and positions are not copied: {} was written again since its frames were integrated; run the \
             whole pipe again",
            scan.file.display(),
            directory.join(&file.path).display()
        )),
        None => Ok(()),
    }
}

/// Returns whether the scan of a task was running when its existing final file was written, or counters or
/// motors of the raw file were written or corrected since.
///
/// # Errors
/// Fails with a warning if the raw file can't be read.
pub(crate) fn has_newer_scan(task: &Task, existing: &OutputFile) -> Result<bool, String> {
    let scan = &task.acquisition;
    let has_new_end = scan.end_time.is_some() && existing.task.acquisition.end_time.is_none();
    if has_new_end || ScanProgress::new(task) > ScanProgress::new(&existing.task) {
        return Ok(true);
    }
    let warning = |why: &dyn std::fmt::Display| {
        format!(
            "{}: its counters and positions are not compared with those of {}: {why}",
            scan.file.display(),
            existing.path.display()
        )
    };
    if !changed_since(&scan.file, &existing.path).map_err(|why| warning(&why))? {
        return Ok(false);
    }
    let Some(raw) = open_raw_file(scan).map_err(|why| warning(&why))? else { return Ok(false) };
    ScanNumbers::differ_in_raw(&raw, scan, existing).map_err(|why| warning(&why))
}
