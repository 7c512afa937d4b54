//! From a group to its final, its summary, and what comes with them.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use filter::ownership::{ProtectedFiles, ReplacePolicy};
use filter::{Filter, Stop};
use patterns::output::{self, BuildObserver, BuildOutcome, MergeScope, OutputFile, OutputSpec};
use patterns::report::Report;
use patterns::{export, plot};
use records::{Extra, Fail, RawPath, Record, Seconds, Spans, Summary};
use serde_json::Value;

use crate::args::Args;
use crate::group::{Group, Said};

/// Makes finals.
pub struct Worker<'a> {
    args: &'a Args,
    filter: &'a Filter,
    /// The pictures that have been drawn: the number of each, by its final.
    pictures: HashMap<PathBuf, usize>,
    /// What finals were made of, where they are to be merged.
    made: Vec<OutputSpec>,
    /// The page about the run, with what failed.
    report: Report,
    /// What pictures, exports and the page may replace.
    policy: ReplacePolicy,
    /// The last summary of each final, in the order of their first, where they go on that page.
    summaries: Vec<Summary>,
}

impl<'a> Worker<'a> {
    /// One that makes what the arguments say.
    pub fn new(args: &'a Args, policy: ReplacePolicy, filter: &'a Filter) -> Self {
        let (pictures, made, summaries) = (HashMap::new(), Vec::new(), Vec::new());
        Self { args, filter, pictures, made, report: Report::default(), policy, summaries }
    }

    /// Makes the final of a group and emits its summary, or what kept it from being made.
    ///
    /// # Errors
    /// An output root that can't be written; a signal; what [`Filter::emit`] says.
    pub fn make(&mut self, group: &mut Group) -> Result<(), Stop> {
        let began = Instant::now();
        let made = self.build(group);
        group.schedule.make(began, Instant::now());
        made
    }

    fn build(&mut self, group: &mut Group) -> Result<(), Stop> {
        let (target, filter) = (&group.target, self.filter);
        filter.progress().add_total(target.frames(), "frames");
        let mut options = self.args.options();
        // Parts have the sums that are to be merged.
        options.keep_parts |= self.args.merges();
        let built = match output::build(target, &options, &Progress(filter)) {
            Ok(built) => built,
            Err(error) => return self.refuse(group, &error),
        };
        if built.layout.is_some() && self.args.merges() {
            self.made.retain(|made| made.path() != target.path());
            self.made.push(target.clone());
        }
        self.answer(group, built)
    }

    /// Merges the finals that were made, where that is asked for; what they leave behind then goes.
    ///
    /// # Errors
    /// As [`Worker::make`].
    pub fn merge(&mut self) -> Result<(), Stop> {
        let made = std::mem::take(&mut self.made);
        let mut merged = Vec::new();
        if let Some(name) = &self.args.form.merge {
            let of_scan = |target: &OutputSpec| {
                let scan = &target.task().acquisition;
                (target.out_root().to_path_buf(), scan.below.to_path_buf(), scan.entry.clone())
            };
            let mut scans: BTreeMap<_, Vec<OutputSpec>> = BTreeMap::new();
            made.iter().for_each(|target| scans.entry(of_scan(target)).or_default().push(target.clone()));
            for members in scans.into_values() {
                merged.push(self.unite(&members, name, MergeScope::Detectors)?);
            }
        }
        if let (Some(name), false) = (&self.args.form.merge_all, made.is_empty()) {
            merged.push(self.unite(&made, name, MergeScope::Scans)?);
        }
        if !merged.contains(&false) && !self.args.form.keep_parts {
            for target in made {
                // It is there, and needs its parts no longer.
                if let Err(error) = output::build(&target, &self.args.options(), &Progress(self.filter)) {
                    self.refuse(&mut Group::of(target), &error)?;
                }
            }
        }
        Ok(())
    }

    /// Merges these finals; whether that is done for good.
    fn unite(&mut self, members: &[OutputSpec], name: &str, scope: MergeScope) -> Result<bool, Stop> {
        match output::merge(members, name, scope, &self.args.options(), &Progress(self.filter)) {
            Ok((target, built)) => {
                let is_done = built.layout.is_some() && built.up_to_date;
                let mut group = Group::of(target);
                self.answer(&mut group, built)?;
                self.judge([&group]);
                Ok(is_done)
            }
            Err(error) => self.refuse(&mut Group::of(members[0].clone()), &error).map(|()| false),
        }
    }

    /// Says what became of a final, unless that was said before, and writes what comes with it.
    fn answer(&mut self, group: &mut Group, built: BuildOutcome) -> Result<(), Stop> {
        let (path, filter) = (group.target.path(), self.filter);
        for why in &built.warnings {
            if group.warned.insert(why.clone()) {
                filter.warn(why);
            }
        }
        if built.layout.is_none() && self.args.complete_only {
            filter
                .note(1, || format!("{}: not all integrated yet, or the scan is running: left alone", path.display()));
            return Ok(());
        }
        let all = Spans::first_n(built.frames);
        let required = group.required.as_ref().unwrap_or(&all);
        group.lacks_frames = !built.failed_frames(required, self.args.common.allow_missing).is_empty();
        let mut extra = Extra::new();
        if let Some(layout) = built.layout {
            extra.insert("layout".to_owned(), layout.name().into());
        }
        let said = summary(group, &built, extra);
        let without_seconds = Said::Summary(Box::new(Summary { seconds: Seconds::default(), ..said.clone() }));
        if group.said.as_ref() == Some(&without_seconds) {
            filter.note(1, || format!("{}: nothing new", path.display()));
            return Ok(());
        }
        self.tell(&path, &built);
        let mut summary = said;
        if built.layout.is_some() {
            self.accompany(group, &mut summary.extra)?;
        }
        group.said = Some(without_seconds);
        if self.args.form.report.is_some() {
            self.summaries.retain(|earlier| earlier.id != summary.id);
            self.summaries.push(summary.clone());
        }
        filter.emit(&summary.into())
    }

    /// Status 1 where a final lacks frames that it should have. To be asked at the end: what lacks while results come may be there
    /// by then.
    pub fn judge<'g>(&self, groups: impl IntoIterator<Item = &'g Group>) {
        if groups.into_iter().any(|group| group.lacks_frames) {
            self.filter.mark_failed();
        }
    }

    /// Takes note of what failed before it came here, for the page about the run.
    pub fn note(&mut self, record: &Record) {
        if let Record::Fail(fail) = record {
            self.report.add_failure(&format!("{}: {}", fail.stage, fail.about), &fail.error);
        }
    }

    /// Writes the page about the run, where one is asked for.
    ///
    /// # Errors
    /// A page that can't be written.
    pub fn report(&mut self) -> Result<(), Stop> {
        let Some(path) = &self.args.form.report else { return Ok(()) };
        for summary in &self.summaries {
            let of = match OutputFile::open(&summary.final_file) {
                Ok(of) => Some(of),
                Err(output::OutputError::Io { why, .. }) if why.kind() == ErrorKind::NotFound => None,
                Err(why) => {
                    self.filter.warn(&format!("{}: no picture of it: {why}", path.display()));
                    self.filter.mark_failed();
                    None
                }
            };
            of.iter().for_each(|of| protect(&self.policy.protected, of));
            self.report.add(summary, of.as_ref());
        }
        self.report.write(path, &self.policy).map_err(|why| Stop::fatal(path.display(), why))
    }

    /// Writes the exports and the picture that go with a final.
    fn accompany(&mut self, group: &mut Group, extra: &mut Extra) -> Result<(), Stop> {
        let picture = self.args.form.plot.as_deref();
        if self.args.form.export.is_empty() && picture.is_none() {
            return Ok(());
        }
        let path = group.target.path();
        let of = match OutputFile::open(&path) {
            Ok(of) => of,
            Err(error) => return self.refuse(group, &error),
        };
        protect(&self.policy.protected, &of);
        let mut exports = Vec::new();
        for format in self.args.formats() {
            match export::write(&of, format, &self.policy) {
                Ok(written) => exports.extend(written.into_iter().map(to_json)),
                Err(why) => self.fail(group, &path, &why, why.io_error())?,
            }
        }
        if !exports.is_empty() {
            extra.insert("export".to_owned(), exports.into());
        }
        if let Some(picture) = picture {
            let count = self.pictures.len();
            let number = *self.pictures.entry(path.clone()).or_insert(count);
            let picture = numbered(picture, number, &path);
            match plot::draw(&of, &picture, &self.policy) {
                Ok(()) => drop(extra.insert("plot".to_owned(), to_json(picture))),
                Err(why) => self.fail(group, &picture, &why, why.io_error())?,
            }
        }
        Ok(())
    }

    fn tell(&self, path: &Path, built: &BuildOutcome) {
        let path = path.display();
        for absent in &built.missing {
            let (count, reason) = (absent.range.count(), &absent.reason);
            self.filter.warn(&format!("{path}: {count} frames without a pattern: {reason}"));
        }
        self.filter.note(1, || match built.was_current {
            true => format!("{path}: found as it should be"),
            false => format!("{path}: {} frames", built.integrated.count()),
        });
    }

    fn refuse(&mut self, group: &mut Group, error: &output::OutputError) -> Result<(), Stop> {
        let path = group.target.path();
        match error {
            output::OutputError::Stopped => self.filter.check_stopped(),
            error => self.fail(group, &path, error, error.io_error()),
        }
    }

    /// Says what failed, unless that was said before. What the file system refuses, and would refuse to every other final,
    /// ends the run.
    fn fail(
        &mut self,
        group: &mut Group,
        about: &Path,
        why: &dyn std::error::Error,
        io: Option<&io::Error>,
    ) -> Result<(), Stop> {
        if io.is_some_and(|why| is_fatal(why.kind())) {
            return Err(Stop::fatal(about.display(), why));
        }
        let (id, about, error) = (group.target.id(), about.display().to_string(), why.to_string());
        let said = Said::Failure(format!("{about}: {error}"));
        if group.said.as_ref() == Some(&said) {
            return Ok(());
        }
        group.said = Some(said);
        self.report.add_failure(&about, &error);
        self.filter.fail(Fail { id, about, error, retryable: io.is_some(), ..Fail::default() })
    }
}

/// Adds the raw data that a final was made from, the files of its recipe, and the final itself.
fn protect(protected: &ProtectedFiles, of: &OutputFile) {
    let scan = &of.task.acquisition;
    protected.add(&of.path);
    protected.add(&scan.file);
    scan.sources.iter().for_each(|source| protected.add(&source.file));
    of.recipe.file_paths().for_each(|path| protected.add(path));
}

struct Progress<'a>(&'a Filter);

impl BuildObserver for Progress<'_> {
    fn is_cancelled(&self) -> bool {
        self.0.check_stopped().is_err()
    }

    fn advance(&self, frames: u64) {
        self.0.progress().advance(frames);
    }
}

/// What no other scan below the same root would be spared.
fn is_fatal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull)
        || matches!(kind, ErrorKind::QuotaExceeded | ErrorKind::NotADirectory)
}

fn summary(group: &Group, built: &BuildOutcome, extra: Extra) -> Summary {
    let (target, scan) = (&group.target, &group.target.task().acquisition);
    Summary {
        id: target.id(),
        scan: target.task().scan.clone(),
        file: scan.file.clone(),
        entry: scan.entry.clone(),
        detector: scan.detector.clone(),
        recipe_digest: target.task().recipe_digest.clone(),
        final_file: target.path().into(),
        frames: built.frames,
        integrated: built.integrated.count(),
        missing: built.missing.clone(),
        complete: built.complete,
        up_to_date: built.up_to_date,
        scan_state: built.scan_state,
        data_digest: built.data_digest.clone(),
        seconds: group.seconds,
        extra,
    }
}

fn to_json(path: PathBuf) -> Value {
    let path = std::path::absolute(&path).unwrap_or(path);
    serde_json::to_value(RawPath::from(path)).expect("a path serializes")
}

/// The name of picture `number`: the first has the name that was asked for, the others the name of
/// their final with it.
fn numbered(asked: &Path, number: usize, of: &Path) -> PathBuf {
    if number == 0 {
        return asked.to_path_buf();
    }
    let mut name = asked.file_stem().unwrap_or_default().to_owned();
    name.push("_");
    name.push(of.file_stem().unwrap_or_default());
    name.push(".");
    name.push(asked.extension().unwrap_or_default());
    asked.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_picture_bears_its_finals_name() {
        let name = |number| numbered(Path::new("/tmp/p.png"), number, Path::new("/out/s_scan0002_p3.h5"));
        assert_eq!(name(0), Path::new("/tmp/p.png"));
        assert_eq!(name(1), Path::new("/tmp/p_s_scan0002_p3.png"));
    }
}
