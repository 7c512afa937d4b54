//! Writes final files, their summaries, and the exports, plots and report that go with them.

mod derived_files;
mod drift;
mod pixel_images;
mod reduced_patterns;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use filter::{CountedFrames, Filter, FrameCounts, Stop, Work};
use patterns::export::{self, DriftRequest};
use patterns::output::{
    self, BuildObserver, BuildOutcome, MergeScope, OutputError, OutputSpec, Replaced,
};
use patterns::report::Report;
use records::{Extra, Fail, Record, Seconds, Spans, Summary, TaskResult};
use system::ownership::ReplacePolicy;

use self::reduced_patterns::StandardScan;
use crate::args::Args;
use crate::messages;
use crate::plots::PlotNames;
use crate::reduction_args::OpenedReduction;
use crate::scan_group::{LastReport, ScanGroup};

/// Writes the final files of a run, and reports each in a summary or `fail` record.
pub struct Gatherer<'a> {
    args: &'a Args,
    filter: &'a Filter,
    plot_names: PlotNames,
    /// The final files that were written, for `--plot-scans`.
    finals: BTreeSet<PathBuf>,
    /// The digests of the final files' data, by output root and path below it.
    data_digests: BTreeMap<PathBuf, BTreeMap<PathBuf, String>>,
    /// The scans whose final files were written, if they are to be merged.
    merge_members: Vec<OutputSpec>,
    report: Report,
    /// The files that exports, plots and the report may replace.
    policy: ReplacePolicy,
    /// The background of `--subtract` and the standard of `--calibrate`.
    reduction: &'a OpenedReduction,
    /// The calibrant of `--drift`.
    drift: Option<DriftRequest>,
    /// The scan of each detector that a calibration factor was measured from.
    standards: BTreeMap<String, StandardScan>,
    /// The export formats for which patterns without errors were warned of.
    without_errors: BTreeSet<&'static str>,
    /// Stored recipes that could not be read, which was warned of.
    unread_recipes: RefCell<BTreeSet<PathBuf>>,
    /// True if the background's own results were gathered.
    found_background: bool,
    /// True once a final file that is not the background was looked at, or skipped.
    found_sample: bool,
    /// The last summary of each final file, in the order of their first summaries, for the report.
    summaries: Vec<Summary>,
}

impl<'a> Gatherer<'a> {
    /// Creates a gatherer that has written nothing.
    pub fn new(
        args: &'a Args,
        policy: ReplacePolicy,
        reduction: &'a OpenedReduction,
        drift: Option<DriftRequest>,
        filter: &'a Filter,
    ) -> Self {
        let plot_names = PlotNames::new(args.output.plot_scans.clone());
        let finals = BTreeSet::new();
        let (merge_members, summaries) = (Vec::new(), Vec::new());
        Self {
            args,
            filter,
            plot_names,
            finals,
            data_digests: BTreeMap::new(),
            merge_members,
            report: Report::default(),
            policy,
            reduction,
            drift,
            standards: BTreeMap::new(),
            without_errors: BTreeSet::new(),
            unread_recipes: RefCell::default(),
            found_background: false,
            found_sample: false,
            summaries,
        }
    }

    /// Writes the final file of a group, and emits its summary, or a `fail` record if it can't be
    /// written.
    ///
    /// # Errors
    /// Fails if the output root can't be written, if a signal asks to stop, and as [`Filter::emit`]
    /// does.
    pub fn update_final(&mut self, group: &mut ScanGroup) -> Result<(), Stop> {
        let began = Instant::now();
        let updated = self.build_final(group);
        group.schedule.add_build(began, Instant::now());
        updated
    }

    fn build_final(&mut self, group: &mut ScanGroup) -> Result<(), Stop> {
        let (target, filter) = (&group.target, self.filter);
        if let Ok(false) = target.out_root().try_exists() {
            // Not written as new, and empty: a file system may not be mounted.
            let why = io::Error::new(ErrorKind::NotFound, messages::removed_output_root());
            let path = target.out_root().to_path_buf();
            return self.report_output_error(group, &OutputError::Io { path, why });
        }
        let mut options = self.args.output_options();
        // Parts have the sums that a merge adds.
        options.keep_parts |= self.args.merges();
        let observer = FilterObserver::new(filter);
        let progress = filter.progress();
        let built = output::build(target, &options, &observer);
        // Rows of frames without a pattern are written, too, and all rows anew in another attempt.
        let written =
            FrameCounts { done: observer.written.load(Relaxed), ..FrameCounts::default() };
        let counted_before = group.counted;
        let outcome = match built {
            Ok(outcome) => outcome,
            // The run ends, and what was there before stays.
            Err(stopped @ OutputError::Stopped) => {
                progress.correct(written, FrameCounts::default());
                return self.report_output_error(group, &stopped);
            }
            Err(error) => {
                let frames = FrameCounts { failed: target.frames(), ..FrameCounts::default() };
                progress.count_again(CountedFrames { kept: 0, ..counted_before });
                progress.correct(written, frames);
                group.counted = CountedFrames { frames, found: 0, kept: counted_before.kept };
                return self.report_output_error(group, &error);
            }
        };
        progress.count_again(counted_before);
        let count = |is_lost: bool| -> u64 {
            let missing = outcome.missing.iter().filter(|absent| absent.kind.is_loss() == is_lost);
            missing.map(|absent| absent.range.count()).sum()
        };
        let (failed, never_taken) = (count(true), count(false));
        let done = target.frames().saturating_sub(failed + never_taken);
        let frames = FrameCounts { done, failed, never_taken };
        // This run has made some of those that a later update finds.
        let is_first = counted_before == CountedFrames::default();
        let found = if is_first { done.saturating_sub(written.done) } else { 0 };
        progress.correct(written, FrameCounts { done: done - found, ..frames });
        progress.add_found(found);
        let kept = if outcome.layout.is_some() { done } else { 0 };
        progress.keep(kept);
        group.counted = CountedFrames { frames, found, kept };
        if outcome.layout.is_some() && self.args.merges() {
            self.merge_members.retain(|member| member.path() != target.path());
            self.merge_members.push(target.clone());
        }
        self.report_outcome(group, outcome)
    }

    /// Merges the final files that were written, if `--merge` or `--merge-all` is set, and then
    /// removes their parts.
    ///
    /// # Errors
    /// Fails as [`Gatherer::update_final`] does.
    pub fn merge(&mut self) -> Result<(), Stop> {
        let members = std::mem::take(&mut self.merge_members);
        let mut is_all_merged = true;
        if let Some(name) = &self.args.output.merge {
            let scan_of = |target: &OutputSpec| {
                let scan = &target.task().acquisition;
                (target.out_root().to_path_buf(), scan.below.to_path_buf(), scan.entry.clone())
            };
            let mut scans: BTreeMap<_, Vec<OutputSpec>> = BTreeMap::new();
            for member in &members {
                scans.entry(scan_of(member)).or_default().push(member.clone());
            }
            for detectors in scans.into_values() {
                is_all_merged &= self.merge_members(&detectors, name, MergeScope::Detectors)?;
            }
        }
        if let Some(name) = &self.args.output.merge_all
            && !members.is_empty()
        {
            is_all_merged &= self.merge_members(&members, name, MergeScope::Scans)?;
        }
        if is_all_merged && !self.args.output.keep_parts {
            for member in members {
                // The final file exists; building it again removes its parts, which were kept for
                // the merge.
                let observer = FilterObserver::new(self.filter);
                match output::build(&member, &self.args.output_options(), &observer) {
                    Ok(outcome) => {
                        outcome.warnings.iter().for_each(|warning| self.filter.warn(warning))
                    }
                    Err(error) => self.report_output_error(&mut ScanGroup::new(member), &error)?,
                }
            }
        }
        Ok(())
    }

    /// Warns of merged final files that were made from earlier data or counters of the run's final files.
    pub fn warn_of_outdated_merges(&self) {
        for (root, finals) in &self.data_digests {
            let (outdated, unread) = output::find_outdated_merges(root, finals);
            for merge in &outdated {
                self.filter.warn(&messages::outdated_merge(merge));
            }
            for why in &unread {
                self.filter.warn(&messages::merge_not_examined(why));
            }
        }
    }

    /// Warns of files from which earlier data of the run's final files were subtracted, or that were scaled by
    /// earlier counters.
    pub fn warn_of_outdated_subtractions(&self) {
        // That one is told of by `warn_of_changed_background`.
        let changed = self.changed_background();
        for (root, finals) in &self.data_digests {
            let (outdated, unread) = export::find_outdated_subtractions(root, finals);
            let is_told = |path: &Path| changed.is_some_and(|own| is_same_file(own, path));
            for subtraction in outdated.iter().filter(|one| !is_told(&one.background)) {
                self.filter.warn(&messages::outdated_subtraction(subtraction));
            }
            for why in &unread {
                self.filter.warn(&messages::subtraction_not_examined(why));
            }
        }
    }

    /// Warns if the background that was subtracted was written again in this run.
    pub fn warn_of_changed_background(&self) {
        if let Some(background) = self.changed_background() {
            self.filter.warn(&messages::background_changed(background));
            self.filter.mark_failed();
        }
    }

    /// Returns the path of the background that was subtracted, if it was written again in this run.
    fn changed_background(&self) -> Option<&Path> {
        let background = self.reduction.background.as_ref()?;
        let of_run = self.data_digests.iter().find_map(|(root, finals)| {
            finals.iter().find(|(name, _)| is_same_file(&root.join(name), background.path()))
        });
        let (_, digest) = of_run?;
        (digest != background.data_digest()).then(|| background.path())
    }

    /// Merges these final files, and returns whether the merged file is there and no rerun would
    /// add to it.
    fn merge_members(
        &mut self,
        members: &[OutputSpec],
        name: &str,
        scope: MergeScope,
    ) -> Result<bool, Stop> {
        match output::merge(
            members,
            name,
            scope,
            &self.args.output_options(),
            &FilterObserver::new(self.filter),
        ) {
            Ok((target, outcome)) => {
                let is_done = outcome.layout.is_some() && outcome.up_to_date;
                let mut group = ScanGroup::new(target);
                group.is_merged = true;
                self.report_outcome(&mut group, outcome)?;
                self.mark_if_frames_lack([&group]);
                Ok(is_done)
            }
            Err(error) => self
                .report_output_error(&mut ScanGroup::new(members[0].clone()), &error)
                .map(|()| false),
        }
    }

    /// Emits the summary of a final file, unless it repeats the last one, and writes the exports
    /// and the plot.
    fn report_outcome(&mut self, group: &mut ScanGroup, outcome: BuildOutcome) -> Result<(), Stop> {
        let (path, filter) = (group.target.path(), self.filter);
        for warning in &outcome.warnings {
            if group.printed_warnings.insert(warning.clone()) {
                filter.warn(warning);
            }
        }
        group.lacks_frames = outcome.has_unread_parts;
        if outcome.layout.is_none() && self.args.complete_only {
            // It may be the sample of a background.
            self.found_sample = true;
            filter.note(1, || messages::scan_skipped(&path));
            return Ok(());
        }
        let all_frames = Spans::first_n(outcome.frames);
        let required = group.required.as_ref().unwrap_or(&all_frames);
        group.lacks_frames |=
            !outcome.failed_frames(required, self.args.common.allow_missing).is_empty();
        let mut summary = summarize(group, &outcome);
        let without_seconds = Summary { seconds: Seconds::default(), ..summary.clone() };
        let report = LastReport::Summary(Box::new(without_seconds));
        // What stands in the summary is not all that a final file holds.
        if outcome.replaced == Replaced::Nothing && group.last_report.as_ref() == Some(&report) {
            filter.note(1, || messages::unchanged(&path));
            return Ok(());
        }
        self.print_outcome(group, &outcome);
        if outcome.layout.is_some() {
            let (root, name) = (group.target.out_root(), &group.target.task().final_file);
            self.data_digests
                .entry(root.to_owned())
                .or_default()
                .insert(name.to_path_buf(), outcome.data_digest.clone());
            self.write_exports_and_plot(group, &mut summary, outcome.replaced)?;
        } else if outcome.is_final_state() && outcome.integrated.is_empty() {
            self.report_final_not_written(group)?;
        }
        group.last_report = Some(report);
        if self.args.output.report.is_some() {
            self.summaries.retain(|earlier| earlier.id != summary.id);
            self.summaries.push(summary.clone());
        }
        filter.emit(&summary.into())
    }

    /// Makes the exit status 1 if a final file lacks frames that it should have. It is called at
    /// the end, because frames that are missing while results arrive may have a pattern later.
    pub fn mark_if_frames_lack<'g>(&self, groups: impl IntoIterator<Item = &'g ScanGroup>) {
        if groups.into_iter().any(|group| group.lacks_frames) {
            self.filter.mark_failed();
        }
    }

    /// Adds the times of a task to the report.
    pub fn add_result_to_report(&mut self, result: &TaskResult) {
        self.report.add_result(result);
    }

    /// Adds the failure that a record of another filter is about to the report.
    pub fn add_to_report(&mut self, record: &Record) {
        if let Record::Fail(fail) = record {
            self.report.add_failure(&format!("{}: {}", fail.stage, fail.about), &fail.error);
        }
    }

    /// Prints which frames of a final file have no pattern, but for what the last update printed; with
    /// `-v`, also how many have one.
    fn print_outcome(&self, group: &mut ScanGroup, outcome: &BuildOutcome) {
        let path = group.target.path();
        let warnings =
            outcome.missing.iter().map(|absent| messages::frames_without_pattern(&path, absent));
        let mut now = HashSet::new();
        for warning in warnings {
            if !group.absence_warnings.contains(&warning) {
                self.filter.warn(&warning);
            }
            now.insert(warning);
        }
        group.absence_warnings = now;
        self.filter.note(1, || messages::final_written(&path, outcome));
    }

    fn report_output_error(
        &mut self,
        group: &mut ScanGroup,
        error: &OutputError,
    ) -> Result<(), Stop> {
        let path = match error {
            OutputError::Stopped => return self.filter.check_stopped(),
            // Of several finals, the one that the error names first.
            OutputError::NotMergeable { one, .. } => one.clone(),
            _ => group.target.path(),
        };
        self.report_failure(group, &path, error, error.io_error())
    }

    /// Emits a `fail` record, unless it repeats the group's last report. An error of the file
    /// system that would affect every other final file, too, ends the run.
    fn report_failure(
        &mut self,
        group: &mut ScanGroup,
        about: &Path,
        why: &dyn std::error::Error,
        io: Option<&io::Error>,
    ) -> Result<(), Stop> {
        if io.is_some_and(|why| affects_all_files(why.kind())) {
            return Err(Stop::fatal(about.display(), why));
        }
        let (id, about, error) = (group.target.id(), about.display().to_string(), why.to_string());
        let report = LastReport::Failure(format!("{about}: {error}"));
        if group.last_report.as_ref() == Some(&report) {
            return Ok(());
        }
        group.last_report = Some(report);
        self.report.add_failure(&about, &error);
        self.filter.fail(Fail { id, about, error, retryable: io.is_some(), ..Fail::default() })
    }
}

/// Returns whether two paths lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    real(one) == real(other)
}

/// Passes progress to a filter, and its stop to the work in progress.
struct FilterObserver<'a> {
    filter: &'a Filter,
    /// The number of frames written.
    written: AtomicU64,
}

impl<'a> FilterObserver<'a> {
    fn new(filter: &'a Filter) -> Self {
        Self { filter, written: AtomicU64::new(0) }
    }
}

impl BuildObserver for FilterObserver<'_> {
    fn is_cancelled(&self) -> bool {
        self.filter.check_stopped().is_err()
    }

    fn advance(&self, frames: u64) {
        self.written.fetch_add(frames, Relaxed);
        self.filter.progress().add_work(Work { frames, ..Work::default() });
    }

    fn waits(&self, lock: &Path) {
        self.filter.warn(&messages::waits_for_other_gather(lock));
    }
}

/// Returns whether an error would recur for every other file below the same output root.
fn affects_all_files(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::NotADirectory
    )
}

/// Creates the summary record of a final file.
fn summarize(group: &ScanGroup, outcome: &BuildOutcome) -> Summary {
    let (target, scan) = (&group.target, &group.target.task().acquisition);
    let mut extra = Extra::new();
    if let Some(layout) = outcome.layout {
        extra.insert("layout".to_owned(), layout.name().into());
    }
    Summary {
        id: target.id(),
        scan: target.task().scan.clone(),
        file: scan.file.clone(),
        entry: scan.entry.clone(),
        detector: scan.detector.clone(),
        recipe_digest: target.task().recipe_digest.clone(),
        final_file: target.path().into(),
        frames: outcome.frames,
        integrated: outcome.integrated.count(),
        missing: outcome.missing.clone(),
        complete: outcome.complete,
        up_to_date: outcome.up_to_date,
        scan_state: outcome.scan_state,
        data_digest: outcome.data_digest.clone(),
        seconds: group.seconds,
        extra,
    }
}
