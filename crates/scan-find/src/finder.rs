//! Turns paths into scan records, and reports failures and what was left out.

mod failures;
mod warnings;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use filter::{Filter, Stop};
use frames::discover::{self, Discovery, DiscoveryKind, ScanFilter};
use records::{AbsentKind, Acquisition, IdHasher, RawPath, Record, Scan, ScanState, format_count};

use self::warnings::{MeasurementKey, RunningScan, older_files};
use crate::args::{Args, Incomplete, matches_any};
use crate::claimed_files::{ClaimedFiles, path_below};
use crate::first_frame::{FirstFrameDigests, FirstFrameError};
use crate::messages::{
    absent_summary, describe_first_frame_error, describe_scattered_numbers, describe_skipped,
    describe_unwanted, display_dataset, read_failures,
};
use crate::patience::FailurePatience;
use crate::stability::{StabilityTracker, is_beginning_being_written};
use crate::told_records::ToldRecords;
use crate::watcher::DirectoryWatcher;

/// Reason why a final file is no scan.
pub(crate) const FINAL_FILE: &str = "a final file of azpipe, not raw data";

/// A search in progress.
pub struct Finder<'a> {
    args: &'a Args,
    filter: &'a Filter,
    pub(crate) claims: ClaimedFiles,
    told: ToldRecords,
    /// The path by which each file and dataset was reached, and the path of its results. Each is
    /// reported once.
    reached_by: HashMap<(PathBuf, String), (RawPath, RawPath)>,
    /// The first file and dataset with each id.
    ids: HashMap<String, (PathBuf, String)>,
    /// The id of the first scan of each file that holds its own frames, in a following search.
    ids_of_own_frames: HashMap<PathBuf, String>,
    first_frame_digests: FirstFrameDigests,
    failures: HashSet<(String, String)>,
    /// The number of discoveries that gave a record or a message.
    pub(crate) found_count: usize,
    /// The number of HDF5 files without a detector that has frames.
    pub(crate) files_without_detector: usize,
    /// Detectors that exist and that the arguments exclude.
    unwanted: BTreeSet<String>,
    /// True once a scan was left out that is older than `--since`.
    has_old: bool,
    /// True if nothing else was found, and it was said.
    has_told_unwanted: bool,
    /// The file and dataset of each scan that was left out as incomplete, until it is complete.
    skipped: HashSet<(PathBuf, String)>,
    /// Watches the directories that a following search has visited.
    pub(crate) watcher: DirectoryWatcher,
    pub(crate) stability: StabilityTracker,
    /// Scans that a following search found running, and what they lack: it is told at the end, if they
    /// have not ended.
    running: BTreeMap<MeasurementKey, RunningScan>,
    /// When data files were left out first because their master is being written.
    left_out_since: HashMap<PathBuf, Instant>,
    /// Decides when failures are reported.
    pub(crate) patience: FailurePatience,
    /// True if frames were withheld because their files have just changed.
    pub(crate) has_unstable: bool,
    /// The number of records written.
    pub(crate) emitted: u64,
    /// True if every scan of the last visit is complete.
    pub(crate) is_complete: bool,
}

impl<'a> Finder<'a> {
    /// Creates a search for the scans that the arguments ask for.
    pub fn new(args: &'a Args, filter: &'a Filter) -> Self {
        Self {
            args,
            filter,
            claims: ClaimedFiles::default(),
            told: ToldRecords::default(),
            reached_by: HashMap::new(),
            ids: HashMap::new(),
            ids_of_own_frames: HashMap::new(),
            first_frame_digests: FirstFrameDigests::default(),
            failures: HashSet::new(),
            found_count: 0,
            files_without_detector: 0,
            unwanted: BTreeSet::new(),
            has_old: false,
            has_told_unwanted: false,
            skipped: HashSet::new(),
            watcher: if args.follow.is_some() {
                DirectoryWatcher::new()
            } else {
                DirectoryWatcher::default()
            },
            stability: StabilityTracker::default(),
            running: BTreeMap::new(),
            left_out_since: HashMap::new(),
            patience: FailurePatience::new(args.follow.is_some()),
            has_unstable: false,
            emitted: 0,
            is_complete: true,
        }
    }

    /// Watches the directories of all files that belong to scans.
    pub(crate) fn watch_directories(&mut self) {
        self.claims.directories().for_each(|directory| self.watcher.watch(directory));
    }

    /// Reads a file, and passes each scan that it holds to `take`, as soon as it is found. `linked`
    /// decides of which other files entries may be followed.
    ///
    /// # Errors
    /// Fails with the error of `take`, and on a signal.
    pub(crate) fn visit(
        &mut self,
        file: &Path,
        linked: &dyn Fn(&Path) -> bool,
        mut take: impl FnMut(&mut Self, Discovery) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.filter.check_stopped()?;
        let (args, began, emitted) = (self.args, Instant::now(), self.emitted);
        self.is_complete = true;
        // No other file can be opened while this one is being read.
        let mut waiting = Vec::new();
        discover::walk(file, &ArgsScanFilter { args, linked }, &mut |found| {
            self.filter.check_stopped()?;
            match &found.kind {
                DiscoveryKind::Scan(scan) if scan.start_time.is_none() => {
                    waiting.push(found);
                    Ok(())
                }
                _ => take(self, found),
            }
        })?;
        waiting.into_iter().try_for_each(|found| take(self, found))?;
        // A following search visits files again and again.
        let new = self.emitted - emitted;
        self.filter.note(if new > 0 { 1 } else { 2 }, || {
            let seconds = began.elapsed().as_secs_f64();
            format!("{}: {} in {seconds:.3} s", file.display(), format_count(new, "record"))
        });
        Ok(())
    }

    /// Reports each series of images as one scan. For a series, `below` is relative to `root`.
    ///
    /// # Errors
    /// Fails as [`Finder::report`] does.
    pub(crate) fn report_image_series<'p>(
        &mut self,
        series: &'p [Vec<PathBuf>],
        root: impl Fn(&'p [PathBuf]) -> &'p Path,
    ) -> Result<(), Stop> {
        let mut all = Vec::with_capacity(series.len());
        for files in series {
            self.filter.check_stopped()?;
            let found = discover::discover_series(
                files,
                &ArgsScanFilter { args: self.args, linked: &|_| true },
            );
            if let (DiscoveryKind::Scan(_), Some(numbers)) =
                (&found.kind, discover::scattered_numbers(files))
            {
                let why = describe_scattered_numbers(files.len(), numbers);
                self.warn_once(found.display_path(), why);
            }
            // The images are not claimed, so that a later look finds the series again.
            all.push(Discovery { files: Vec::new(), ..found });
        }
        self.prefetch_contents(all.iter());
        all.into_iter().zip(series).try_for_each(|(found, files)| self.report(found, root(files)))
    }

    /// Opens in parallel the files whose first frames distinguish those scans that have no start
    /// time.
    pub(crate) fn prefetch_contents<'d>(&self, all: impl Iterator<Item = &'d Discovery>) {
        self.first_frame_digests.prefetch(all.filter_map(|found| match &found.kind {
            DiscoveryKind::Scan(scan) => Some(&**scan),
            _ => None,
        }));
    }

    /// Reports a discovery: as a record, a failure, or a message on stderr. `below` is relative to
    /// `root`.
    ///
    /// # Errors
    /// Fails if the record can't be written, and at the first failure under `--fail-fast`.
    pub(crate) fn report(&mut self, found: Discovery, root: &Path) -> Result<(), Stop> {
        let about = found.display_path();
        // The file itself is not claimed, because a later look may find more in it.
        found
            .files
            .iter()
            .filter(|file| **file != found.file)
            .for_each(|file| self.claims.insert(file));
        match found.kind {
            DiscoveryKind::Scan(acquisition) => {
                self.report_scan(*acquisition, &found.dataset, root)
            }
            DiscoveryKind::Excluded { entry, detector } => {
                self.found_count += 1;
                self.filter.note(2, || {
                    format!(
                        "{about}: detector {detector} in entry {entry}: left out: not asked for"
                    )
                });
                self.unwanted.insert(format!("{detector} in {entry}"));
                Ok(())
            }
            DiscoveryKind::NoFrames(why) => {
                self.found_count += 1;
                self.is_complete = false;
                self.warn_once(about, why);
                Ok(())
            }
            DiscoveryKind::NoDetectors { entries, .. } => {
                self.files_without_detector += 1;
                self.filter.note(1, || {
                    format!(
                        "{about}: no detector with frames in {}",
                        format_count(entries, "NXentry group")
                    )
                });
                Ok(())
            }
            DiscoveryKind::FinalFile => {
                self.files_without_detector += 1;
                self.filter.note(1, || format!("{about}: left out: {FINAL_FILE}"));
                Ok(())
            }
            DiscoveryKind::Failed { why, retryable, .. } => {
                self.is_complete = false;
                self.fail(about, why, retryable)
            }
        }
    }

    fn report_scan(
        &mut self,
        mut acquisition: Acquisition,
        dataset: &str,
        root: &Path,
    ) -> Result<(), Stop> {
        self.found_count += 1;
        let about = display_dataset(&acquisition.file.display(), dataset);
        if !self.is_recent(&acquisition) {
            self.has_old = true;
            self.filter.note(1, || format!("{about}: left out: older than --since"));
            return Ok(());
        }
        let mut is_withheld = self.withhold_read_failures(&about, &mut acquisition);
        if self.args.follow.is_some()
            && self.stability.withhold_unstable(&mut acquisition, &mut self.claims, &self.watcher)
        {
            (self.has_unstable, is_withheld) = (true, true);
        }
        let is_known =
            acquisition.start_time.is_some() || !is_beginning_being_written(&acquisition);
        if is_withheld && (acquisition.sources.is_empty() || !is_known) {
            self.is_complete = false;
            return Ok(());
        }
        self.is_complete &= acquisition.complete;
        if !acquisition.complete && self.args.incomplete == Incomplete::Skip {
            self.skipped.insert((acquisition.file.to_path_buf(), dataset.to_owned()));
            self.filter.note(1, || format!("{about}: left out: not complete, see --incomplete"));
            return Ok(());
        }
        self.skipped.remove(&(acquisition.file.to_path_buf(), dataset.to_owned()));
        acquisition.below = path_below(&acquisition.file, root).into();
        let place = (self.claims.real_path(&acquisition.file), dataset.to_owned());
        let way = (acquisition.file.clone(), acquisition.below.clone());
        if *self.reached_by.entry(place.clone()).or_insert_with(|| way.clone()) != way {
            // The scan was reported before by another path, such as a link or an operand inside
            // another.
            return Ok(());
        }
        if let Err(why) = self.set_content_digest(&mut acquisition, &place) {
            self.is_complete = false;
            return self.fail(about.clone(), describe_first_frame_error(&about, &why), true);
        }
        let id = acquisition.compute_id();
        if self.args.follow.is_some() {
            self.warn_of_second_scan(&id, &acquisition);
        }
        let is_awaited =
            self.args.follow.is_some() && acquisition.scan_state() == ScanState::Running;
        let older = older_files(&id, &acquisition);
        // Those of a scan that is followed may be written over while it runs.
        if let Some(why) = older.clone().filter(|_| !is_awaited) {
            self.warn_once(about.clone(), why);
        }
        let (absent, failures) = (absent_summary(&acquisition), read_failures(&acquisition));
        let measurement = MeasurementKey::new(&acquisition);
        let record = Record::from(Scan { id: id.clone(), acquisition });
        if self.told.is_new(&id, place.clone(), &record) {
            self.running.remove(&measurement);
            match absent {
                _ if is_awaited => {
                    let scan = RunningScan { file: place.0, about: about.clone(), absent, older };
                    self.running.insert(measurement, scan);
                }
                Some(absent) => self.filter.warn(&format!("{about}: {absent}")),
                None => (),
            }
            self.emitted += 1;
            self.filter.emit(&record)?;
        }
        failures.into_iter().try_for_each(|(why, retryable)| {
            if self.patience.tries_again() {
                self.warn_of_retry(about.clone(), why);
                return Ok(());
            }
            self.report_failure(about.clone(), why, retryable)
        })
    }

    /// Sets the scan's content digest if it has no start time, or if another file has claimed the
    /// same id.
    fn set_content_digest(
        &mut self,
        acquisition: &mut Acquisition,
        place: &(PathBuf, String),
    ) -> Result<(), FirstFrameError> {
        if acquisition.start_time.is_none() {
            acquisition.content = Some(self.first_frame_digests.digest(acquisition)?);
        }
        let owner = self.ids.entry(acquisition.compute_id()).or_insert_with(|| place.clone());
        if owner != place && acquisition.content.is_none() {
            let file = place.0.as_os_str().as_encoded_bytes();
            acquisition.content = Some(IdHasher::new("file").add_bytes(file).to_short_hex());
        }
        Ok(())
    }

    /// Returns whether a scan began after `--since`; a scan without a start time is judged by the
    /// times of its files. A file that the system can't read may be as new as any, so that its scan
    /// is reported, with the failure.
    fn is_recent(&self, acquisition: &Acquisition) -> bool {
        let Some(since) = self.args.since else { return true };
        let began = acquisition.start_time.as_deref().and_then(|start| since.accepts(start));
        began.unwrap_or_else(|| {
            acquisition.sources.iter().any(|source| since.accepts_mtime(source.mtime))
                || acquisition.absent.iter().any(|absent| absent.kind == AbsentKind::Unreadable)
        })
    }

    /// Reports what was left out, if nothing else was found or if that is unexpected.
    pub fn report_left_out(&mut self) {
        if !self.skipped.is_empty() {
            self.filter.warn(&describe_skipped(self.skipped.len()));
        }
        self.report_if_all_unwanted();
    }

    /// Returns whether a scan or failure was reported, or a scan was left out.
    pub fn has_found_any(&self) -> bool {
        self.emitted > 0 || self.has_old || !self.unwanted.is_empty() || !self.skipped.is_empty()
    }

    /// Warns, once, if there are scans and the options exclude all of them: whoever follows scans
    /// would wait for what never comes.
    pub fn report_if_all_unwanted(&mut self) {
        let has_scans = !self.told.is_empty() || !self.skipped.is_empty();
        if self.has_told_unwanted || has_scans || self.unwanted.is_empty() {
            return;
        }
        self.has_told_unwanted = true;
        let args = self.args;
        let options = [
            ("--detector", !args.detector.is_empty()),
            ("--entry", !args.entry.is_empty()),
            ("--title", !args.title.is_empty()),
            ("--since", args.since.is_some()),
        ];
        let given: Vec<&str> =
            options.into_iter().filter_map(|(name, given)| given.then_some(name)).collect();
        self.filter.warn(&describe_unwanted(&given, &self.unwanted));
    }
}

/// The scans and detectors that the arguments ask for.
struct ArgsScanFilter<'a> {
    args: &'a Args,
    linked: &'a dyn Fn(&Path) -> bool,
}

impl ScanFilter for ArgsScanFilter<'_> {
    fn includes_entry(&self, name: &str) -> bool {
        matches_any(&self.args.entry, name)
    }

    fn includes_detector(&self, name: &str) -> bool {
        matches_any(&self.args.detector, name)
    }

    fn includes_scan(&self, title: Option<&str>, start_time: Option<&str>) -> bool {
        // A scan without a start time is judged by its files, once they are known.
        let began = self.args.since.zip(start_time).and_then(|(since, start)| since.accepts(start));
        matches_any(&self.args.title, title.unwrap_or_default()) && began.unwrap_or(true)
    }

    fn includes_linked_file(&self, file: &Path) -> bool {
        (self.linked)(file)
    }

    fn looks_again(&self) -> bool {
        self.args.follow.is_some()
    }
}
