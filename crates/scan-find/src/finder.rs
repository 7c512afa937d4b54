//! From paths to records: what is looked at, what is left out, and what is said of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use filter::{Filter, Stop};
use frames::find::{self, Found, Select, What};
use records::{Absent, AbsentKind, Acquisition, Digest, Fail, RawPath, Record, Scan};

use crate::args::{Args, Incomplete, is_wanted};
use crate::claims::{Claims, below};
use crate::content::{Contents, Unreadable};
use crate::quiet::Quiet;
use crate::watch::Watch;

/// How many of the detectors that do not match are named.
const SHOWN: usize = 10;

/// A search under way.
pub struct Finder<'a> {
    args: &'a Args,
    filter: &'a Filter,
    pub(crate) claims: Claims,
    /// The digest of what was last said of each scan: the words may be megabytes.
    told: HashMap<String, String>,
    /// By which path each file and dataset was reached, and where its results go: what is reached twice is told once.
    places: HashMap<(PathBuf, String), (RawPath, RawPath)>,
    /// The file and dataset that was first to have an id.
    ids: HashMap<String, (PathBuf, String)>,
    contents: Contents,
    failures: HashSet<(String, String)>,
    /// How many things were found that were worth a word or a record.
    pub(crate) hits: usize,
    /// HDF5 files that have no detector with frames.
    pub(crate) without: usize,
    /// Detectors that were there and not wanted.
    unwanted: BTreeSet<String>,
    skipped: usize,
    /// The directories that a search that goes on has come by.
    pub(crate) watch: Watch,
    quiet: Quiet,
    /// Whether frames were held back whose files had just been changed.
    pub(crate) holds_back: bool,
    /// How many records were written.
    pub(crate) emitted: u64,
    /// Whether all that the last visit found is complete.
    pub(crate) is_complete: bool,
}

impl<'a> Finder<'a> {
    /// A search for what the arguments ask for.
    pub fn new(args: &'a Args, filter: &'a Filter) -> Self {
        Self {
            args,
            filter,
            claims: Claims::default(),
            told: HashMap::new(),
            places: HashMap::new(),
            ids: HashMap::new(),
            contents: Contents::default(),
            failures: HashSet::new(),
            hits: 0,
            without: 0,
            unwanted: BTreeSet::new(),
            skipped: 0,
            watch: if args.follow.is_some() { Watch::new() } else { Watch::default() },
            quiet: Quiet::default(),
            holds_back: false,
            emitted: 0,
            is_complete: true,
        }
    }

    /// Watches the directories of all files that scans are made of.
    pub(crate) fn watch_directories(&mut self) {
        self.claims.directories().for_each(|directory| self.watch.add(directory));
    }

    /// Visits a file; `take` gets what it holds, as soon as it is found. `linked` says which other
    /// files' entries it may bring along.
    ///
    /// # Errors
    /// Those of `take`; a signal.
    pub(crate) fn visit(
        &mut self,
        file: &Path,
        linked: &dyn Fn(&Path) -> bool,
        mut take: impl FnMut(&mut Self, Found) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.filter.check()?;
        let args = self.args;
        self.is_complete = true;
        // Files can't be opened while one is being visited.
        let mut waiting = Vec::new();
        find::visit(file, &Wanted { args, linked }, &mut |found| {
            self.filter.check()?;
            match &found.what {
                What::Scan(scan) if scan.start_time.is_none() => {
                    waiting.push(found);
                    Ok(())
                }
                _ => take(self, found),
            }
        })?;
        waiting.into_iter().try_for_each(|found| take(self, found))
    }

    /// Takes each series of images for one scan. `root` is what `below` counts from for a series.
    ///
    /// # Errors
    /// As [`Finder::take`].
    pub(crate) fn images<'p>(
        &mut self,
        series: &'p [Vec<PathBuf>],
        root: impl Fn(&'p [PathBuf]) -> &'p Path,
    ) -> Result<(), Stop> {
        let mut all = Vec::with_capacity(series.len());
        for files in series {
            self.filter.check()?;
            let found = find::image_series(files, &Wanted { args: self.args, linked: &|_| true });
            // They are a series again when they are met again.
            all.push(Found { files: Vec::new(), ..found });
        }
        self.prefetch_contents(&all);
        all.into_iter().zip(series).try_for_each(|(found, files)| self.take(found, root(files)))
    }

    /// Has the files opened side by side that tell apart those of these scans that don't say when they began.
    pub(crate) fn prefetch_contents(&self, all: &[Found]) {
        self.contents.prefetch(all.iter().filter_map(|found| match &found.what {
            What::Scan(scan) => Some(&**scan),
            _ => None,
        }));
    }

    /// Says what was found: a record, a failure, or a word on stderr. `root` is what `below` counts
    /// from.
    ///
    /// # Errors
    /// The record can't be written; the first failure under `--fail-fast`.
    pub(crate) fn take(&mut self, found: Found, root: &Path) -> Result<(), Stop> {
        let about = found.about();
        // Not the file itself: it may have more to tell later.
        found.files.iter().filter(|file| **file != found.file).for_each(|file| self.claims.add(file));
        match found.what {
            What::Scan(acquisition) => self.scan(*acquisition, &found.dataset, root),
            What::Unwanted { entry, detector } => {
                self.hits += 1;
                self.unwanted.insert(format!("{detector} in {entry}"));
                Ok(())
            }
            What::NoFrames(why) => {
                self.hits += 1;
                self.is_complete = false;
                self.warn_once(about, why);
                Ok(())
            }
            What::Nothing { entries } => {
                self.without += 1;
                self.filter.note(1, || format!("{about}: NXentry groups: {entries}, detectors with frames: none"));
                Ok(())
            }
            What::Refused { why, retryable, .. } => {
                self.is_complete = false;
                self.fail(about, why, retryable)
            }
        }
    }

    fn scan(&mut self, mut acquisition: Acquisition, dataset: &str, root: &Path) -> Result<(), Stop> {
        self.hits += 1;
        if !self.is_recent(&acquisition) {
            return Ok(());
        }
        if self.args.follow.is_some() && self.quiet.hold_back(&mut acquisition, &mut self.claims, &self.watch) {
            (self.holds_back, self.is_complete) = (true, false);
            if acquisition.sources.is_empty() {
                return Ok(());
            }
        }
        self.is_complete &= acquisition.complete;
        if !acquisition.complete && self.args.incomplete == Incomplete::Skip {
            self.skipped += 1;
            return Ok(());
        }
        acquisition.below = below(&acquisition.file, root).into();
        let place = (self.claims.real(&acquisition.file), dataset.to_owned());
        let way = (acquisition.file.clone(), acquisition.below.clone());
        if *self.places.entry(place.clone()).or_insert_with(|| way.clone()) != way {
            // By another way, such as a link or an operand inside another, it has been told already.
            return Ok(());
        }
        let about = format!("{}::{dataset}", acquisition.file.display());
        if let Err(Unreadable { why }) = self.identify(&mut acquisition, &place) {
            self.is_complete = false;
            let error = format!("its first frame, by which it is told from others, can't be read: {why}");
            return self.fail(about, error, true);
        }
        let id = acquisition.identity();
        let (absent, failures) = (absent(&acquisition), failures(&acquisition));
        let record = Record::from(Scan { id: id.clone(), acquisition });
        let line = record.to_line();
        let digest = Digest::new("told").text(&line).short();
        if self.told.get(&id) == Some(&digest) {
            return Ok(());
        }
        self.told.insert(id, digest);
        if let Some(absent) = absent {
            self.filter.warn(&format!("{about}: {absent}"));
        }
        self.emitted += 1;
        self.filter.emit(&record)?;
        failures.into_iter().try_for_each(|(why, retryable)| self.fail(about.clone(), why, retryable))
    }

    /// Tells a scan from others by its content, where it does not say when it began, or another file has claimed the same.
    fn identify(&mut self, acquisition: &mut Acquisition, place: &(PathBuf, String)) -> Result<(), Unreadable> {
        if acquisition.start_time.is_none() {
            acquisition.content = Some(self.contents.digest(acquisition)?);
        }
        let owner = self.ids.entry(acquisition.identity()).or_insert_with(|| place.clone());
        if owner != place && acquisition.content.is_none() {
            let file = place.0.as_os_str().as_encoded_bytes();
            acquisition.content = Some(Digest::new("file").bytes(file).short());
        }
        Ok(())
    }

    /// Whether a scan began since `--since`; one that does not say when, whether its files changed.
    fn is_recent(&self, acquisition: &Acquisition) -> bool {
        let Some(since) = self.args.since else { return true };
        let began = acquisition.start_time.as_deref().and_then(|start| since.admits(start));
        began.unwrap_or_else(|| acquisition.sources.iter().any(|source| since.admits_change(source.mtime)))
    }

    /// Tells a failure, once.
    ///
    /// # Errors
    /// As [`Filter::fail`].
    pub(crate) fn fail(&mut self, about: String, error: String, retryable: bool) -> Result<(), Stop> {
        self.hits += 1;
        if !self.failures.insert((about.clone(), error.clone())) {
            return Ok(());
        }
        self.emitted += 1;
        self.filter.fail(Fail { about, error, retryable, ..Fail::default() })
    }

    /// Tells of files whose real paths could not be found out.
    ///
    /// # Errors
    /// As [`Finder::take`].
    pub(crate) fn tell_claims(&mut self) -> Result<(), Stop> {
        let failures = self.claims.take_failures();
        failures.into_iter().try_for_each(|(file, why)| self.fail(file.display().to_string(), why.to_string(), true))
    }

    pub(crate) fn warn_once(&mut self, about: String, why: String) {
        if self.failures.insert((about.clone(), why.clone())) {
            self.filter.warn(&format!("{about}: {why}"));
        }
    }

    /// Says what was left out, where that is all there was or not what one would expect.
    pub fn close(&self) {
        if self.skipped > 0 {
            let scans = if self.skipped == 1 { "scan" } else { "scans" };
            self.filter.warn(&format!("{} incomplete {scans} left out (--incomplete skip)", self.skipped));
        }
        if self.told.is_empty() && self.skipped == 0 && !self.unwanted.is_empty() {
            let some: Vec<&str> = self.unwanted.iter().take(SHOWN).map(String::as_str).collect();
            let more = if self.unwanted.len() > SHOWN { ", …" } else { "" };
            self.filter.warn(&format!("nothing matches the options; there is {}{more}", some.join(", ")));
        }
    }
}

/// What the arguments want.
struct Wanted<'a> {
    args: &'a Args,
    linked: &'a dyn Fn(&Path) -> bool,
}

impl Select for Wanted<'_> {
    fn entry(&self, name: &str) -> bool {
        is_wanted(&self.args.entry, name)
    }

    fn detector(&self, name: &str) -> bool {
        is_wanted(&self.args.detector, name)
    }

    fn scan(&self, title: Option<&str>, start_time: Option<&str>) -> bool {
        // A scan that does not say when it began is judged by its files, once they are known.
        let began = self.args.since.zip(start_time).and_then(|(since, start)| since.admits(start));
        is_wanted(&self.args.title, title.unwrap_or_default()) && began.unwrap_or(true)
    }

    fn linked(&self, file: &Path) -> bool {
        (self.linked)(file)
    }

    fn looks_again(&self) -> bool {
        self.args.follow.is_some()
    }
}

/// What of a scan should be there and could not be read, in a few words: what the system refused, which may be had another time,
/// and what is damaged. A frame that is missing is none of these: it is known to be.
fn failures(acquisition: &Acquisition) -> Vec<(String, bool)> {
    let told = |(kind, retryable): (AbsentKind, bool)| {
        let of_kind = || acquisition.absent.iter().filter(|absent| absent.kind == kind);
        let frames: u64 = of_kind().map(|absent| absent.range.count()).sum();
        let more = if of_kind().count() > 1 { ", and other reasons" } else { "" };
        let why = format!("{frames} of {} frames: {}{more}", acquisition.frames, of_kind().next()?.reason);
        Some((why, retryable))
    };
    [(AbsentKind::Unreadable, true), (AbsentKind::Corrupt, false)].into_iter().filter_map(told).collect()
}

/// What is missing of a scan, in a few words.
fn absent(acquisition: &Acquisition) -> Option<String> {
    let is_failure = |absent: &&Absent| matches!(absent.kind, AbsentKind::Unreadable | AbsentKind::Corrupt);
    let lost: Vec<&Absent> = acquisition.absent.iter().filter(|absent| !is_failure(absent)).collect();
    let frames: u64 = lost.iter().map(|absent| absent.range.count()).sum();
    let more = if lost.len() > 1 { ", and other reasons" } else { "" };
    Some(format!("{frames} of {} frames absent: {}{more}", acquisition.frames, lost.first()?.reason))
}
