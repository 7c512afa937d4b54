//! Builds the final file of a scan and recipe, or finds that it is up to date.

use records::ScanState;
use system::atomic;
use system::ownership::{self, OwnedFiles};

use super::content::OutputContent;
use super::frame_source::ScanFrames;
use super::inputs::{OutputInputs, list_error};
use super::row_sources::RowSources;
use super::verified_file::{file_version, write_verified};
use super::{
    AverageMethod, BuildObserver, BuildOutcome, OutputError, OutputFile, OutputLayout, OutputOptions, OutputSpec,
    WritePolicy, part_index,
};
use crate::part::{self, list_parts, parts_dir};
use crate::{Normalizer, SharedBins};

/// Maximum number of attempts if parts vanish while they are read, because another gather has merged them.
const MAX_ATTEMPTS: usize = 5;

/// Builds the final file of a target from its parts and the existing final file. Writes nothing if the final file is up to
/// date already. Parts that are no longer needed are removed once the new file has been read back.
///
/// # Errors
/// Fails if parts contradict each other, if sums are needed that were not kept, or if a file can't be read or
/// written.
pub fn build(
    target: &OutputSpec,
    options: &OutputOptions,
    observer: &dyn BuildObserver,
) -> Result<BuildOutcome, OutputError> {
    let task = target.task();
    let directory =
        parts_dir(target.out_root(), &task.scan, &task.recipe_digest).expect("a target stays below its root");
    ownership::create_directories(&directory).map_err(OutputError::io(&directory))?;
    let _lock = part_index::lock(&directory, observer)?;
    // Tasks of another cut have parts of other names, and would not remove the temporary files that ended processes left here.
    atomic::remove_stale_files(&directory).map_err(OutputError::io(&directory))?;
    target.path().parent().into_iter().for_each(atomic::remove_stale_files_once);
    if options.policy == WritePolicy::WhenComplete && !could_be_complete(target)? {
        return Ok(BuildOutcome::default());
    }
    let mut attempts = 1..MAX_ATTEMPTS;
    loop {
        let needs_sums = options.keep_sums || options.average.is_some();
        match OutputInputs::new(target.clone(), options, needs_sums, observer).and_then(OutputInputs::build_output) {
            Err(OutputError::Part(error)) if error.was_removed() && attempts.next().is_some() => (),
            Err(OutputError::ConcurrentWrite { .. }) if attempts.next().is_some() => (),
            outcome => return outcome,
        }
    }
}

/// Returns whether all frames may be there, judged by the user blocks of the parts. While a scan is being integrated,
/// many gathers ask, and only the last of them has to read the parts.
///
/// # Errors
/// Fails if the parts can't be listed, or a part or the final file can't be read.
fn could_be_complete(target: &OutputSpec) -> Result<bool, OutputError> {
    let task = target.task();
    let parts =
        list_parts(target.out_root(), &task.scan, &task.recipe_digest).map_err(|why| list_error(target, why))?;
    let count = |target: &OutputSpec| target.absent().iter().map(|absent| absent.range.count()).sum::<u64>();
    let mut in_parts: u64 = 0;
    for path in &parts {
        match part::read_user_block(path) {
            Ok(head) => in_parts = in_parts.saturating_add(head.count),
            Err(error) if error.io_error().is_some() && !error.was_removed() => return Err(error.into()),
            // Damage is reported when the part is read.
            Err(_) => (),
        }
    }
    let path = target.path();
    if in_parts.saturating_add(count(target)) >= target.frames() || path.try_exists().map_err(OutputError::io(&path))? {
        return Ok(true);
    }
    // The task of each part tells which of its frames are absent.
    let mut target = target.clone();
    for path in &parts {
        match part::read_task(path) {
            Ok(task) => target.add_fallback(&task),
            Err(error) if error.is_io_failure() => return Err(error.into()),
            // Damage is reported when the part is read.
            Err(_) => (),
        }
    }
    Ok(in_parts.saturating_add(count(&target)) >= target.frames())
}

impl OutputInputs<'_> {
    fn build_output(mut self) -> Result<BuildOutcome, OutputError> {
        let Some((recipe, shared)) = self.recipe_and_bins()? else {
            let nothing = RowSources::new(&self.target, &[], None, &Normalizer::default())?;
            let mut outcome = BuildOutcome { warnings: self.warnings, ..BuildOutcome::new(&self.target, &nothing) };
            outcome.explain(&self.unread);
            return Ok(outcome);
        };
        let normalizer = Normalizer::new(&recipe);
        let row_sources = RowSources::new(&self.target, &self.parts, self.existing.as_ref(), &normalizer)?;
        let mut outcome = BuildOutcome::new(&self.target, &row_sources);
        outcome.explain(&self.unread);
        if let Some(existing) = self.existing.as_ref()
            && self.is_current(existing, &row_sources)?
        {
            (outcome.was_current, outcome.layout) = (true, Some(existing.layout));
            outcome.data_digest.clone_from(&existing.data_digest);
            part_index::record_owner(&self.target)?;
        } else if self.replaces_other && !outcome.up_to_date {
            let path = self.target.path();
            self.warnings
                .push(format!("{}: the earlier result is kept until all frames are integrated", path.display()));
        } else if outcome.is_final_state() || self.options.policy == WritePolicy::Always {
            let layout = self.choose_layout(&row_sources);
            self.check_sums(&row_sources, &normalizer)?;
            outcome.data_digest = self.write(&recipe, &shared, normalizer, &row_sources, layout)?;
            outcome.layout = Some(layout);
        }
        // The parts are no longer needed once the final file covers all frames and the mean of the monitor can't change.
        let needs_no_sums =
            normalizer.needs_only_own_frame() || self.options.keep_sums || outcome.scan_state != ScanState::Running;
        if outcome.layout.is_some_and(OutputLayout::holds_patterns)
            && outcome.up_to_date
            && needs_no_sums
            && !self.options.keep_parts
        {
            self.remove_parts()?;
        }
        outcome.warnings = self.warnings;
        outcome.warnings.append(self.write_warnings.get_mut());
        Ok(outcome)
    }

    /// Returns the layout of the new final file: the requested one, unless the existing file has more than that.
    fn choose_layout(&self, row_sources: &RowSources) -> OutputLayout {
        let there = self.existing.as_ref().map(|existing| existing.layout);
        match (there, self.options.layout) {
            (Some(there), OutputLayout::Copy) if there.holds_patterns() => there,
            (Some(OutputLayout::Integrator), OutputLayout::Integrator | OutputLayout::Virtual) => {
                OutputLayout::Integrator
            }
            // Rows that only the existing final file holds can't be shown from parts.
            (Some(OutputLayout::Copy), OutputLayout::Virtual) if !row_sources.frames_from_output().is_empty() => {
                OutputLayout::Copy
            }
            (_, asked) => asked,
        }
    }

    /// Returns whether the existing final file has everything that a new one would have.
    fn is_current(&self, existing: &OutputFile, row_sources: &RowSources) -> Result<bool, OutputError> {
        let absorbed = self.parts.iter().all(|part| existing.parts.contains(&part.digest));
        let layout = existing.layout == self.choose_layout(row_sources);
        let rows = existing.layout == OutputLayout::Virtual || existing.is_intact();
        let is_same = absorbed && layout && rows && existing.status == row_sources.status;
        Ok(is_same && existing.satisfies(self.options)?)
    }

    /// Returns an error if sums are needed that were not kept or are damaged.
    fn check_sums(&self, row_sources: &RowSources, normalizer: &Normalizer) -> Result<(), OutputError> {
        let frames = row_sources.frames_from_output();
        if let Some(existing) = &self.existing {
            let damaged = frames.intersection(&existing.damaged_sums.iter().copied().collect());
            if !damaged.is_empty() {
                return Err(OutputError::SumsDamaged { path: existing.path.clone(), frames: damaged });
            }
        }
        let Some(existing) = self.existing.as_ref().filter(|existing| !existing.has_sums && !frames.is_empty()) else {
            return Ok(());
        };
        let new_mean =
            !normalizer.needs_only_own_frame() && existing.reference.to_bits() != row_sources.reference.to_bits();
        // The median needs only patterns, unless empty bins are 0, which can't be told from measured zeros.
        let average = self
            .options
            .average
            .filter(|average| average.method != AverageMethod::Median || normalizer.empty_value() == 0.0);
        let what = match (new_mean, self.options.keep_sums, average) {
            (true, _, _) => "the new mean of the monitor",
            (_, true, _) => "--keep-sums",
            (_, _, Some(_)) => "--average",
            (false, false, None) => return Ok(()),
        };
        Err(OutputError::SumsGone { path: existing.path.clone(), what, frames })
    }

    fn write(
        &self,
        recipe: &recipe::Recipe,
        shared: &SharedBins,
        normalizer: Normalizer,
        row_sources: &RowSources,
        layout: OutputLayout,
    ) -> Result<String, OutputError> {
        let content = OutputContent {
            target: &self.target,
            recipe,
            normalizer,
            shared,
            parts: &self.parts,
            existing: self.existing.as_ref(),
            row_sources,
            part_digests: &self.part_digests(),
            layout,
            keep_sums: self.options.keep_sums,
            average: self.options.average,
            warnings: &self.write_warnings,
            renames_damaged: self.is_damaged,
        };
        let needs_sums = content.has_sums() || content.average.is_some();
        let mut merge =
            ScanFrames::new(row_sources, &self.parts, self.existing.as_ref(), shared, &normalizer, needs_sums)?;
        write_verified(&content, &mut merge, self.observer, self.existing_version, |_| {
            part_index::record_owner(&self.target)
        })
    }

    /// Removes the files that were read, except files that were replaced in the meantime.
    fn remove_parts(&self) -> Result<(), OutputError> {
        for (path, was) in &self.files {
            if file_version(path)? == Some(*was) {
                ownership::remove(path, &OwnedFiles::in_azpipe_dir()).map_err(OutputError::io(path))?;
            }
        }
        Ok(())
    }
}
