//! [`OutputSpec`]: the scan and recipe of a final file, and all that task records say about the
//! scan.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use records::{Absent, AbsentKind, IdHasher, Spans, Task};

use super::absent_frames::AbsentFrames;
use super::scan_progress::ScanProgress;
use super::{OutputError, OutputFile};
use crate::file_states::LatestFileStates;
use crate::part::Part;
use crate::source_fingerprint::SourceFingerprints;

/// Scan and recipe of a final file, and the facts about the scan that the task records of a run
/// give.
#[derive(Clone, Debug)]
pub struct OutputSpec {
    out_root: PathBuf,
    /// Task with the latest state of the scan. Its range and sources are not used.
    task: Task,
    /// Source fingerprints of the frames that the records name.
    pub(super) stamps: SourceFingerprints,
    /// Latest states of the files that the records name.
    latest_files: LatestFileStates,
    absent: AbsentFrames,
    /// The frames that each file holds, as records, parts and the final say. Messages about lost
    /// frames name the file.
    files: BTreeMap<PathBuf, FileFrames>,
    /// True if a task record was added; false if all is known from files.
    has_record: bool,
}

impl OutputSpec {
    /// Creates the specification from a task record. `out_root` is the output root of the task.
    ///
    /// # Errors
    /// Fails if the task's final file, scan id or recipe digest leads out of the output root.
    pub fn new(out_root: &Path, task: &Task) -> Result<Self, OutputError> {
        let mut target = Self::from_file(out_root, task)?;
        target.add(task);
        Ok(target)
    }

    /// Creates the specification from the task in a part or final file. The present state of the
    /// raw data is unknown then.
    ///
    /// # Errors
    /// Fails as [`OutputSpec::new`] does.
    pub fn from_file(out_root: &Path, task: &Task) -> Result<Self, OutputError> {
        let parts = Task::part_path(&task.scan, &task.recipe_digest, &Spans::default());
        let name = |id: &str| !id.is_empty() && !id.contains('/');
        if !task.final_file.is_contained()
            || !parts.is_contained()
            || !name(&task.scan)
            || !name(&task.recipe_digest)
        {
            return Err(OutputError::EscapesRoot { path: task.final_file.to_path_buf() });
        }
        let out_root = std::path::absolute(out_root).map_err(OutputError::io(out_root))?;
        let (stamps, last) = (SourceFingerprints::default(), LatestFileStates::default());
        let mut absent = AbsentFrames::default();
        absent.add(task);
        let mut files = BTreeMap::new();
        add_files(&mut files, task);
        Ok(Self {
            out_root,
            task: task.clone(),
            stamps,
            latest_files: last,
            absent,
            files,
            has_record: false,
        })
    }

    /// Adds another task record of the same scan and recipe.
    pub fn add(&mut self, task: &Task) {
        self.has_record = true;
        let stamps = SourceFingerprints::new(&task.acquisition);
        let is_news = self.latest_files.add(&stamps);
        self.stamps.add_newest(&task.acquisition);
        add_files(&mut self.files, task);
        if is_news {
            // A file was written again, maybe with fewer frames, so the earlier records of the scan
            // are out of date.
            self.stamps = self.latest_files.retain_current(&self.stamps);
            self.absent.remove_outdated(&self.latest_files);
            self.task = task.clone();
            self.absent.add(task);
        } else if !self.latest_files.is_outdated(&stamps) {
            self.adopt_if_newer(task);
            self.absent.add(task);
        }
    }

    /// Returns whether a task record of the scan was added.
    pub(super) fn has_record(&self) -> bool {
        self.has_record
    }

    /// Returns whether a task record names the source of a frame.
    pub(super) fn has_record_of(&self, frame: u64) -> bool {
        self.has_record && self.stamps.get(frame).is_some()
    }

    /// Returns whether it is a task record that says that a frame is absent, for a reason of this kind, and
    /// the frame was there before: a frame that is yet to come was never there.
    pub(super) fn is_lost_by_record(&self, frame: u64, kind: AbsentKind) -> bool {
        let is_loss =
            matches!(kind, AbsentKind::Missing | AbsentKind::Unreadable | AbsentKind::Corrupt);
        is_loss && self.has_record && self.absent.is_decided_by_record(frame)
    }

    /// Adds what the tasks of parts and the final file say about the scan, and about frames that no
    /// record mentions. Tasks whose files were written again since are ignored. If a file and a
    /// record of equally many frames contradict each other, the record is right: a frame that was
    /// absent earlier may exist by now.
    ///
    /// # Errors
    /// Fails if a raw file is known in two states and can't be examined, so that its outdated
    /// frames are not known.
    pub(super) fn add_known(
        &mut self,
        parts: &[Part],
        existing: Option<&OutputFile>,
    ) -> Result<(), OutputError> {
        let last = self.latest_file_states(parts, existing)?;
        let mut is_outdated = last.is_outdated(&self.stamps)
            || last.is_outdated(&SourceFingerprints::new(&self.task.acquisition));
        if is_outdated {
            self.absent.remove_outdated(&last);
        }
        // The final file comes first, because parts that were not merged into it are newer.
        let tasks = existing.map(|existing| &existing.task).into_iter();
        let tasks = tasks.chain(parts.iter().map(|part| &part.metadata.task));
        for task in
            tasks.filter(|task| !last.is_outdated(&SourceFingerprints::new(&task.acquisition)))
        {
            add_files(&mut self.files, task);
            if is_outdated {
                self.task = task.clone();
                self.absent.add(task);
                is_outdated = false;
            } else if !self.has_record
                || (task.acquisition.frames != self.frames() && self.is_newer(task))
            {
                self.adopt_if_newer(task);
                self.absent.add(task);
            } else {
                self.absent.add_fallback(task);
            }
        }
        Ok(())
    }

    /// Returns the latest state of each file that records, parts or the final file name.
    ///
    /// # Errors
    /// Fails as [`Self::add_known`] does.
    pub(super) fn latest_file_states(
        &self,
        parts: &[Part],
        existing: Option<&OutputFile>,
    ) -> Result<LatestFileStates, OutputError> {
        let mut last = self.latest_files.clone();
        let tasks = parts
            .iter()
            .map(|part| &part.metadata.task)
            .chain(existing.map(|existing| &existing.task));
        for task in tasks {
            last.add(&SourceFingerprints::new(&task.acquisition));
        }
        last.find_removed(
            self.task.acquisition.file.parent().unwrap_or(Path::new("/")),
            &self.stamps,
        );
        last.check_all_seen()
            .map_err(|(path, why)| OutputError::SourceStateUnknown { path, why })?;
        Ok(last)
    }

    /// Replaces the task if another one has a later state of the scan.
    fn adopt_if_newer(&mut self, task: &Task) {
        if self.is_newer(task) {
            self.task = task.clone();
        }
    }

    /// Returns whether a task has a later state of the scan. A state in which the scan has fewer
    /// frames than files hold is not that of these files.
    fn is_newer(&self, task: &Task) -> bool {
        let (before, now) = (ScanProgress::new(&self.task), ScanProgress::new(task));
        let (is_later, frames) = (now > before, now.frames);
        let spans = || self.files.values().flat_map(|held| held.frames.as_slice());
        let is_held = |from: u64| spans().any(|span| span.stop() > from);
        match frames.cmp(&self.frames()) {
            Ordering::Less => is_later && !is_held(frames),
            Ordering::Equal => is_later,
            Ordering::Greater => is_later || is_held(self.frames()),
        }
    }

    /// Returns the id of the summary record: a digest of scan and recipe.
    pub fn id(&self) -> String {
        IdHasher::new("summary")
            .add_text(&self.task.scan)
            .add_text(&self.task.recipe_digest)
            .to_short_hex()
    }

    /// Returns the task with the latest state of the scan.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Returns the number of frames of the scan.
    pub fn frames(&self) -> u64 {
        self.task.acquisition.frames
    }

    /// Returns the frames that are known to be absent, each once, with the reasons.
    pub fn absent(&self) -> Vec<Absent> {
        let all = Spans::first_n(self.frames());
        let list = self.absent.list(self.is_over()).into_iter();
        let clipped = list.map(|entry| Absent { range: entry.range.intersection(&all), ..entry });
        clipped.filter(|entry| !entry.range.is_empty()).collect()
    }

    /// Divides frames among the files that hold them, in the order of the first frame in each. The
    /// files are named as in messages; `None` means that no task names the file of the frames.
    pub(super) fn frames_by_file(&self, frames: &Spans) -> Vec<(Option<String>, Spans)> {
        let frames: Vec<u64> = frames.to_sorted().iter().collect();
        let mut file_of: Vec<Option<&PathBuf>> = vec![None; frames.len()];
        for (file, held) in &self.files {
            for span in held.frames.as_slice() {
                let from = frames.partition_point(|frame| *frame < span.start());
                let to = frames.partition_point(|frame| *frame < span.stop());
                for (frame, file_of) in frames[from..to].iter().zip(&mut file_of[from..to]) {
                    if frame.abs_diff(span.start()).is_multiple_of(span.step()) {
                        *file_of = Some(file);
                    }
                }
            }
        }
        let mut by_file: BTreeMap<Option<&PathBuf>, Spans> = BTreeMap::new();
        for (frame, file) in frames.into_iter().zip(file_of) {
            by_file.entry(file).or_default().push(frame);
        }
        let name = |file: &PathBuf| self.task.acquisition.short_name(file);
        let mut by_file: Vec<_> =
            by_file.into_iter().map(|(file, frames)| (file.map(name), frames)).collect();
        by_file.sort_by_key(|(_, frames)| frames.iter().next());
        by_file
    }

    /// Returns whether all these frames are known to be absent.
    pub fn are_all_absent(&self, frames: &Spans) -> bool {
        self.absent.are_all_absent(frames, self.is_over())
    }

    /// Adds the facts of a part's task about frames that no record mentions.
    pub(super) fn add_fallback(&mut self, task: &Task) {
        self.absent.add_fallback(task);
    }

    fn is_over(&self) -> bool {
        ScanProgress::new(&self.task).is_over
    }

    /// Returns the absolute path of the output root.
    pub fn out_root(&self) -> &Path {
        &self.out_root
    }

    /// Returns the absolute path of the final file.
    pub fn path(&self) -> PathBuf {
        self.out_root.join(self.task.final_file.as_path())
    }
}

/// The frames that records list for a file. Records of the same tasks come again, in any order.
#[derive(Clone, Debug, Default)]
struct FileFrames {
    frames: Spans,
    /// The number of spans after the last sorting.
    sorted: usize,
}

impl FileFrames {
    /// Adds frames. Sorting only when the spans have doubled keeps 10^5 tasks of one file linear.
    fn add(&mut self, frames: &Spans) {
        frames.as_slice().iter().for_each(|span| self.frames.push_span(*span));
        if self.frames.as_slice().len() > self.sorted.saturating_mul(2).saturating_add(64) {
            self.frames = self.frames.to_sorted();
            self.sorted = self.frames.as_slice().len();
        }
    }
}

/// Adds the frames of a task's sources by file.
fn add_files(files: &mut BTreeMap<PathBuf, FileFrames>, task: &Task) {
    for source in &task.acquisition.sources {
        files.entry(source.file.to_path_buf()).or_default().add(&source.frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{Acquisition, Source, Span};

    /// Returns the task of a range of a running scan of 30 frames, in which the frames from `there`
    /// on are absent.
    fn task(range: Span, there: u64) -> Task {
        let absent = Absent {
            range: Span::new(there, 30).into(),
            kind: AbsentKind::NeverTaken,
            reason: "not yet".to_owned(),
        };
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
        Task {
            range: range.into(),
            acquisition,
            scan,
            recipe_digest,
            final_file,
            ..Task::default()
        }
    }

    /// Returns the task with the absent frames of its range only.
    fn cut(task: Task) -> Task {
        let absent = task.acquisition.absent_within(&task.range);
        Task { acquisition: Acquisition { absent, ..task.acquisition }, ..task }
    }

    fn absent(target: &OutputSpec) -> Spans {
        target
            .absent()
            .iter()
            .flat_map(|entry| entry.range.as_slice())
            .copied()
            .collect::<Spans>()
            .to_sorted()
    }

    fn heard(tasks: &[&Task]) -> OutputSpec {
        let mut target = OutputSpec::new(Path::new("/out"), tasks[0]).unwrap();
        tasks[1..].iter().for_each(|task| target.add(task));
        target
    }

    #[test]
    fn frames_that_a_task_is_of_are_absent_no_more_whatever_older_lists_say() {
        let whole =
            [task(Span::new(0, 10), 10), task(Span::new(10, 20), 20), task(Span::new(20, 30), 20)];
        let cut = [
            cut(task(Span::new(0, 30), 10)),
            cut(task(Span::new(10, 20), 20)),
            cut(task(Span::new(20, 30), 20)),
        ];
        for [old, new, last] in [&whole, &cut] {
            for order in [
                [old, new, last, old],
                [new, last, old, new],
                [last, old, old, new],
                [old, last, new, last],
            ] {
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
    fn a_vanished_frame_is_absent_again_once_its_task_says_so() {
        let mut gone = task(Span::new(0, 30), 15);
        gone.acquisition.absent[0].kind = AbsentKind::Missing;
        assert_eq!(
            absent(&heard(&[&task(Span::new(10, 20), 20), &gone])),
            Span::new(15, 30).into()
        );
    }

    #[test]
    fn each_tasks_own_absent_frames_are_united_in_any_order() {
        let missing = |range: Span, lost: Span, reason: &str| {
            let mut task = cut(task(range, 30));
            let entry =
                Absent { range: lost.into(), kind: AbsentKind::Missing, reason: reason.to_owned() };
            task.acquisition.sources[0].frames = task.range.difference(&entry.range);
            task.acquisition.absent = vec![entry];
            task
        };
        let one = missing(Span::new(0, 10), Span::new(3, 5), "a");
        let two = missing(Span::new(10, 20), Span::new(12, 13), "b");
        let three = missing(Span::new(20, 30), Span::new(20, 22), "a");
        for order in [[&one, &two, &three], [&three, &two, &one], [&two, &three, &one]] {
            let list = heard(&order).absent();
            let of_entry = |entry: &Absent| (entry.range.iter().collect(), entry.reason.clone());
            let list: Vec<(Vec<u64>, String)> = list.iter().map(of_entry).collect();
            assert_eq!(list, [(vec![3, 4, 20, 21], "a".into()), (vec![12], "b".into())]);
        }
    }

    #[test]
    fn frames_that_were_to_come_are_unknown_once_the_scan_is_over() {
        let early = cut(task(Span::new(0, 30), 10));
        let mut end = cut(task(Span::new(20, 30), 25));
        end.acquisition.end_reason = Some("USER_ABORT".to_owned());
        for order in [[&early, &end], [&end, &early]] {
            assert_eq!(
                absent(&heard(&order)),
                Span::new(25, 30).into(),
                "nobody has said what became of 10 to 19"
            );
        }
    }

    #[test]
    fn a_file_that_was_written_again_makes_only_its_own_frames_stale() {
        let of_file = |name: &str, range: Span, lost: &[u64], mtime: i64| {
            let mut task = cut(task(range, 30));
            let lost: Spans = lost.iter().copied().collect();
            let entry = Absent {
                range: lost.clone(),
                kind: AbsentKind::Corrupt,
                reason: "damaged".to_owned(),
            };
            let source = &mut task.acquisition.sources[0];
            (source.file, source.mtime, source.frames) =
                (name.into(), mtime, task.range.difference(&lost));
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
                (entry.range, entry.kind) =
                    (Span::new(2 * frame + 1, 2 * frame + 2).into(), AbsentKind::Missing);
                entry.reason = format!("file {frame}: not there");
                task
            })
            .collect();
        let target = heard(&tasks.iter().collect::<Vec<_>>());
        let list = target.absent();
        assert_eq!((list.len(), list[7].range.iter().next()), (100_000, Some(15)));
    }
}
