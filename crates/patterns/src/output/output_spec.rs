//! What a final is to be of: one scan, one recipe, and what records said of them.

use std::path::{Path, PathBuf};

use records::{Absent, IdHasher, ScanState, Spans, Task};

use super::absent_frames::AbsentFrames;
use super::{OutputError, OutputFile};
use crate::part::Part;
use crate::source_fingerprint::{LatestFileStates, SourceFingerprints};

/// One scan and one recipe, and what the records of a run said of them.
#[derive(Clone, Debug)]
pub struct OutputSpec {
    out_root: PathBuf,
    /// The newest task that was heard of; its range and sources mean nothing here.
    task: Task,
    /// The stamps of the frames that the records name.
    pub(super) stamps: SourceFingerprints,
    /// The last states of the files that the records name.
    latest_files: LatestFileStates,
    absent: AbsentFrames,
    /// Whether a record was heard, or all is from files.
    has_record: bool,
}

impl OutputSpec {
    /// That of a task whose output root is `out_root`, with what the task says of its frames.
    ///
    /// # Errors
    /// A final, a scan's id or a recipe's digest that lead out of the root.
    pub fn new(out_root: &Path, task: &Task) -> Result<Self, OutputError> {
        let mut target = Self::from_file(out_root, task)?;
        target.add(task);
        Ok(target)
    }

    /// That of a task which was found in a part or a final: no record says what its frames' raw data
    /// is now.
    ///
    /// # Errors
    /// As [`OutputSpec::new`].
    pub fn from_file(out_root: &Path, task: &Task) -> Result<Self, OutputError> {
        let parts = Task::part_path(&task.scan, &task.recipe_digest, &Spans::default());
        let name = |id: &str| !id.is_empty() && !id.contains('/');
        if !task.final_file.is_contained() || !parts.is_contained() || !name(&task.scan) || !name(&task.recipe_digest) {
            return Err(OutputError::EscapesRoot { path: task.final_file.to_path_buf() });
        }
        let out_root = std::path::absolute(out_root).map_err(OutputError::io(out_root))?;
        let (stamps, last) = (SourceFingerprints::default(), LatestFileStates::default());
        let mut absent = AbsentFrames::default();
        absent.add(task);
        Ok(Self { out_root, task: task.clone(), stamps, latest_files: last, absent, has_record: false })
    }

    /// Adds what another task of the same scan and recipe says.
    pub fn add(&mut self, task: &Task) {
        self.has_record = true;
        let stamps = SourceFingerprints::new(&task.acquisition);
        let is_news = self.latest_files.add(&stamps);
        self.stamps.add_newest(&task.acquisition);
        if is_news {
            // A file has been written anew, maybe with fewer frames: what was known of the scan is out of date.
            self.stamps = self.latest_files.retain_current(&self.stamps);
            self.absent.remove_outdated(&self.latest_files);
            self.task = task.clone();
            self.absent.add(task);
        } else if !self.latest_files.is_outdated(&stamps) {
            self.adopt_if_newer(task);
            self.absent.add(task);
        }
    }

    /// Adds what parts and a final say of the scan as a whole, and of frames that no record spoke of, unless it was of files
    /// that have been written anew since. A record that says something else of as many frames is the newer word: a
    /// frame that was absent then may well be there now.
    pub(super) fn add_known(&mut self, parts: &[Part], existing: Option<&OutputFile>) {
        let last = self.latest_file_states(parts, existing);
        let mut is_outdated =
            last.is_outdated(&self.stamps) || last.is_outdated(&SourceFingerprints::new(&self.task.acquisition));
        if is_outdated {
            self.absent.remove_outdated(&last);
        }
        // The final first: parts that have not gone into it are newer.
        let tasks = existing.map(|existing| &existing.task).into_iter();
        let tasks = tasks.chain(parts.iter().map(|part| &part.metadata.task));
        for task in tasks.filter(|task| !last.is_outdated(&SourceFingerprints::new(&task.acquisition))) {
            if is_outdated {
                self.task = task.clone();
                self.absent.add(task);
                is_outdated = false;
            } else if !self.has_record || task.acquisition.frames > self.frames() {
                self.adopt_if_newer(task);
                self.absent.add(task);
            } else {
                self.absent.add_fallback(task);
            }
        }
    }

    /// Returns the last state of each file that records, parts or a final name.
    pub(super) fn latest_file_states(&self, parts: &[Part], existing: Option<&OutputFile>) -> LatestFileStates {
        let mut last = self.latest_files.clone();
        let tasks = parts.iter().map(|part| &part.metadata.task).chain(existing.map(|existing| &existing.task));
        for task in tasks {
            last.add(&SourceFingerprints::new(&task.acquisition));
        }
        last.find_removed(self.task.acquisition.file.parent().unwrap_or(Path::new("/")), &self.stamps);
        last
    }

    /// Believes a task that knows more of the scan as a whole.
    fn adopt_if_newer(&mut self, task: &Task) {
        if completeness(task) > completeness(&self.task) {
            self.task = task.clone();
        }
    }

    /// The digest of scan and recipe: the id of the summary.
    pub fn id(&self) -> String {
        IdHasher::new("summary").add_text(&self.task.scan).add_text(&self.task.recipe_digest).to_short_hex()
    }

    /// The newest task that was heard of, for all that it says of the scan as a whole.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// How many frames the scan has.
    pub fn frames(&self) -> u64 {
        self.task.acquisition.frames
    }

    /// The frames that are known to be absent, each once, and why.
    pub fn absent(&self) -> Vec<Absent> {
        let all = Spans::first_n(self.frames());
        let list = self.absent.list(self.is_over()).into_iter();
        let clipped = list.map(|entry| Absent { range: entry.range.intersection(&all), ..entry });
        clipped.filter(|entry| !entry.range.is_empty()).collect()
    }

    /// Returns whether all these frames are known to be absent.
    pub fn are_all_absent(&self, frames: &Spans) -> bool {
        self.absent.are_all_absent(frames, self.is_over())
    }

    /// Adds what the task of a part says of frames that no record spoke of.
    pub(super) fn add_fallback(&mut self, task: &Task) {
        self.absent.add_fallback(task);
    }

    fn is_over(&self) -> bool {
        completeness(&self.task).2
    }

    /// The output root, absolute.
    pub fn out_root(&self) -> &Path {
        &self.out_root
    }

    /// The final file, absolute.
    pub fn path(&self) -> PathBuf {
        self.out_root.join(self.task.final_file.as_path())
    }
}

/// How much of a scan a task knows: the more, the later its record was made. The last says whether the scan is over.
pub(super) fn completeness(task: &Task) -> (u64, bool, bool) {
    let scan = &task.acquisition;
    (scan.frames, scan.complete, scan.scan_state() != ScanState::Running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{AbsentKind, Acquisition, Source, Span};

    /// A task of a range of a running scan of 30 frames, of which those from `there` on are absent.
    fn task(range: Span, there: u64) -> Task {
        let absent =
            Absent { range: Span::new(there, 30).into(), kind: AbsentKind::NeverTaken, reason: "not yet".to_owned() };
        let held = Span::new(range.start(), range.stop().min(there));
        let source = Source { frames: held.into(), rows: held.into(), ..Source::default() };
        let acquisition = Acquisition {
            frames: 30,
            start_time: Some("2026-01-02T03:04:05".to_owned()),
            sources: vec![source],
            absent: vec![absent],
            ..Acquisition::default()
        };
        let (scan, recipe_digest, final_file) = ("5c".to_owned(), "00".to_owned(), "f.h5".into());
        Task { range: range.into(), acquisition, scan, recipe_digest, final_file, ..Task::default() }
    }

    /// The task, with the absent frames of its range alone.
    fn cut(task: Task) -> Task {
        let absent = task.acquisition.absent_within(&task.range);
        Task { acquisition: Acquisition { absent, ..task.acquisition }, ..task }
    }

    fn absent(target: &OutputSpec) -> Spans {
        target.absent().iter().flat_map(|entry| entry.range.as_slice()).copied().collect::<Spans>().to_sorted()
    }

    fn heard(tasks: &[&Task]) -> OutputSpec {
        let mut target = OutputSpec::new(Path::new("/out"), tasks[0]).unwrap();
        tasks[1..].iter().for_each(|task| target.add(task));
        target
    }

    #[test]
    fn frames_that_a_task_is_of_are_absent_no_more_whatever_older_lists_say() {
        let whole = [task(Span::new(0, 10), 10), task(Span::new(10, 20), 20), task(Span::new(20, 30), 20)];
        let cut = [cut(task(Span::new(0, 30), 10)), cut(task(Span::new(10, 20), 20)), cut(task(Span::new(20, 30), 20))];
        for [old, new, last] in [&whole, &cut] {
            for order in [[old, new, last, old], [new, last, old, new], [last, old, old, new], [old, last, new, last]] {
                let target = heard(&order);
                assert_eq!(absent(&target), Span::new(20, 30).into());
                assert_eq!(target.absent().len(), 1);
                assert!(
                    target.are_all_absent(&Span::new(20, 30).into())
                        && !target.are_all_absent(&Span::new(19, 21).into())
                );
            }
        }
    }

    #[test]
    fn what_has_vanished_is_absent_again_once_its_task_says_so() {
        let mut gone = task(Span::new(0, 30), 15);
        gone.acquisition.absent[0].kind = AbsentKind::Missing;
        assert_eq!(absent(&heard(&[&task(Span::new(10, 20), 20), &gone])), Span::new(15, 30).into());
    }

    #[test]
    fn each_tasks_own_absent_frames_are_united_in_any_order() {
        let missing = |range: Span, lost: Span, reason: &str| {
            let mut task = cut(task(range, 30));
            let entry = Absent { range: lost.into(), kind: AbsentKind::Missing, reason: reason.to_owned() };
            task.acquisition.sources[0].frames = task.range.difference(&entry.range);
            task.acquisition.absent = vec![entry];
            task
        };
        let one = missing(Span::new(0, 10), Span::new(3, 5), "a");
        let two = missing(Span::new(10, 20), Span::new(12, 13), "b");
        let three = missing(Span::new(20, 30), Span::new(20, 22), "a");
        for order in [[&one, &two, &three], [&three, &two, &one], [&two, &three, &one]] {
            let list = heard(&order).absent();
            let list: Vec<_> = list.iter().map(|entry| (entry.range.iter().collect(), entry.reason.as_str())).collect();
            assert_eq!(list, [(vec![3, 4, 20, 21], "a"), (vec![12], "b")]);
        }
    }

    #[test]
    fn frames_that_were_to_come_are_unknown_once_the_scan_is_over() {
        let early = cut(task(Span::new(0, 30), 10));
        let mut end = cut(task(Span::new(20, 30), 25));
        end.acquisition.end_reason = Some("USER_ABORT".to_owned());
        for order in [[&early, &end], [&end, &early]] {
            assert_eq!(absent(&heard(&order)), Span::new(25, 30).into(), "nobody has said what became of 10 to 19");
        }
    }

    #[test]
    fn a_file_that_was_written_anew_takes_only_its_own_frames_with_it() {
        let of_file = |name: &str, range: Span, lost: &[u64], mtime: i64| {
            let mut task = cut(task(range, 30));
            let lost: Spans = lost.iter().copied().collect();
            let entry = Absent { range: lost.clone(), kind: AbsentKind::Corrupt, reason: "damaged".to_owned() };
            let source = &mut task.acquisition.sources[0];
            (source.file, source.mtime, source.frames) = (name.into(), mtime, task.range.difference(&lost));
            task.acquisition.absent = vec![entry];
            task
        };
        let a = of_file("/raw/a.h5", Span::new(0, 10), &[1, 2], 5);
        let b = of_file("/raw/b.h5", Span::new(10, 20), &[11], 5);
        let anew = of_file("/raw/a.h5", Span::new(0, 10), &[4], 6);
        for order in [[&a, &b, &anew], [&b, &anew, &a], [&anew, &a, &b], [&a, &anew, &b]] {
            assert_eq!(absent(&heard(&order)).iter().collect::<Vec<_>>(), [4, 11]);
        }
    }

    #[test]
    fn many_tasks_are_united_in_no_time() {
        let tasks: Vec<Task> = (0..100_000)
            .map(|frame| {
                let mut task = task(Span::new(2 * frame, 2 * frame + 2), 0);
                task.acquisition.frames = 200_000;
                task.acquisition.sources[0].frames = Span::new(2 * frame, 2 * frame + 1).into();
                let entry = &mut task.acquisition.absent[0];
                (entry.range, entry.kind) = (Span::new(2 * frame + 1, 2 * frame + 2).into(), AbsentKind::Missing);
                entry.reason = format!("file {frame}: not there");
                task
            })
            .collect();
        let target = heard(&tasks.iter().collect::<Vec<_>>());
        let list = target.absent();
        assert_eq!((list.len(), list[7].range.iter().next()), (100_000, Some(15)));
    }
}
