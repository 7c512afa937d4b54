//! [`OutputSpec`]: the scan and recipe of a final file, and all that task records say about the
//! scan.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use records::{Absent, AbsentKind, IdHasher, Spans, Task};

use super::absent_frames::AbsentFrames;
use super::recorded_sources::RecordedSources;
use super::scan_progress::{ScanProgress, changed_since};
use super::{OutputError, OutputFile};
use crate::file_states::{LatestFileStates, OutdatedRule};
use crate::part::Part;
use crate::source_fingerprint::SourceFingerprints;

/// Scan and recipe of a final file, and the facts about the scan that the task records of a run
/// give.
#[derive(Clone, Debug)]
pub struct OutputSpec {
    out_root: PathBuf,
    /// Task with the latest state of the scan. Its range and sources are not used.
    task: Task,
    /// Where the frames are that the records name.
    sources: RecordedSources,
    /// Latest states of the files that the records name.
    latest_files: LatestFileStates,
    absent: AbsentFrames,
    /// The frames that each file holds, as records, parts and the final say. Messages about lost
    /// frames name the file.
    files: BTreeMap<PathBuf, FileFrames>,
    /// End of the frames that files hold.
    held_end: u64,
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
        let (sources, last) = (RecordedSources::default(), LatestFileStates::default());
        let mut absent = AbsentFrames::default();
        absent.add(task);
        let mut target = Self {
            out_root,
            task: task.clone(),
            sources,
            latest_files: last,
            absent,
            files: BTreeMap::new(),
            held_end: 0,
            has_record: false,
        };
        target.add_files(task);
        Ok(target)
    }

    /// Adds another task record of the same scan and recipe.
    pub fn add(&mut self, task: &Task) {
        self.has_record = true;
        let stamps = SourceFingerprints::new(&task.acquisition);
        let (before, now) = (ScanProgress::new(&self.task), ScanProgress::new(task));
        // What can't be read yet counts as as many frames as the other files have.
        let is_shorter = now.is_shorter(before) && self.latest_files.lacks_any_of(&stamps);
        let is_news = self.latest_files.add(&stamps);
        self.add_files(task);
        if is_news {
            self.sources.retain_current(&self.latest_files);
        }
        if now > before || is_shorter {
            self.sources.begin_state();
        }
        // A copy that was put back may be older than the file that it replaced.
        let current = self.latest_files.retain_current(&stamps);
        self.sources.add(&current, now >= before || is_shorter);
        if is_news || is_shorter {
            // A file was written again, maybe with fewer frames, or was taken for a longer one, so the
            // earlier records of the scan are out of date.
            self.absent.remove_outdated(&self.latest_files);
            self.replace_task(task);
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
        self.has_record && self.sources.stamps().get(frame).is_some()
    }

    /// Returns the fingerprints of the frames that task records name, as the latest of them have it.
    pub(super) fn recorded_stamps(&self) -> SourceFingerprints {
        self.sources.consistent()
    }

    /// Returns whether a task record says that a frame is absent.
    pub(super) fn is_absent_by_record(&self, frame: u64) -> bool {
        self.has_record && self.absent.is_absent_by_record(frame)
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
        let mut is_outdated = last.is_outdated(self.sources.stamps())
            || last.is_outdated(&SourceFingerprints::new(&self.task.acquisition));
        if is_outdated {
            self.absent.remove_outdated(&last);
        }
        // The final file comes first, because parts that were not merged into it are newer.
        let tasks = existing.map(|existing| &existing.task).into_iter();
        let tasks = tasks.chain(parts.iter().map(|part| &part.metadata.task));
        let tasks =
            tasks.filter(|task| !last.is_outdated(&SourceFingerprints::new(&task.acquisition)));
        let tasks: Vec<&Task> = tasks.collect();
        let superseded = self.find_superseded(&tasks);
        for task in tasks {
            self.add_files(task);
            if is_outdated {
                self.replace_task(task);
                self.absent.add(task);
                is_outdated = false;
            } else if !self.has_record
                || (task.acquisition.frames != self.frames()
                    && self.is_newer(task)
                    && !superseded.contains(&task.acquisition.frames))
            {
                self.adopt_if_newer(task);
                self.absent.add(task);
            } else {
                self.absent.add_fallback(task);
            }
        }
        Ok(())
    }

    /// Returns the numbers of frames of the scan by tasks that name no frame beyond those of the records,
    /// which have fewer: what could not be read then counted as as many frames as the other files have.
    fn find_superseded(&self, tasks: &[&Task]) -> HashSet<u64> {
        let now = ScanProgress::new(&self.task);
        let mut ends: HashMap<u64, u64> = HashMap::new();
        for task in tasks {
            if self.has_record && now.is_shorter(ScanProgress::new(task)) {
                let end = ends.entry(task.acquisition.frames).or_default();
                *end = held_end(task).max(*end);
            }
        }
        ends.retain(|_, end| *end <= now.frames);
        ends.into_keys().collect()
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
        let directory = self.task.acquisition.file.parent().unwrap_or(Path::new("/"));
        let scan = &self.task.acquisition;
        let rule = OutdatedRule {
            gone: scan.start_time.is_none(),
            // Without a record, no frame was integrated again, so that a file that was only restored or
            // compressed anew costs no pattern. Files of a running scan change.
            changed: self.has_record && self.is_over(),
            // Where the master can't be looked at, the files are.
            always: self.has_record
                && self.is_over()
                && existing
                    .is_some_and(|there| changed_since(&scan.file, &there.path).unwrap_or(true)),
        };
        last.find_outdated(directory, self.sources.stamps(), rule);
        last.check_all_seen()
            .map_err(|(path, why)| OutputError::SourceStateUnknown { path, why })?;
        Ok(last)
    }

    /// Replaces the task if another one has a later state of the scan. Frames that files hold were taken, though
    /// the scan may say at its end that it took fewer.
    fn adopt_if_newer(&mut self, task: &Task) {
        let frames = self.frames_with(task);
        if ScanProgress::new(task) > ScanProgress::new(&self.task) {
            self.replace_task(task);
        }
        self.task.acquisition.frames = frames;
    }

    /// Replaces the task by one with a later state of the scan. Finals of two names may have the same parts.
    fn replace_task(&mut self, task: &Task) {
        let final_file = self.task.final_file.clone();
        self.task = Task { final_file, ..task.clone() };
    }

    /// Returns whether a task has a later state of the scan, or tells of more of its frames.
    fn is_newer(&self, task: &Task) -> bool {
        ScanProgress::new(task) > ScanProgress::new(&self.task)
            || self.frames_with(task) > self.frames()
    }

    /// Returns the number of frames of the scan by the later of two states, and by what files hold.
    fn frames_with(&self, task: &Task) -> u64 {
        let (before, now) = (ScanProgress::new(&self.task), ScanProgress::new(task));
        let held = self.held_end.min(before.frames.max(now.frames));
        before.max(now).frames.max(held)
    }

    /// Adds the frames of a task's sources by file.
    fn add_files(&mut self, task: &Task) {
        self.held_end = held_end(task).max(self.held_end);
        for source in &task.acquisition.sources {
            self.files.entry(source.file.to_path_buf()).or_default().add(&source.frames);
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

/// Returns the end of the frames that the sources of a task hold.
fn held_end(task: &Task) -> u64 {
    let spans = task.acquisition.sources.iter().flat_map(|source| source.frames.as_slice());
    spans.map(|span| span.stop()).max().unwrap_or(0)
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

#[cfg(test)]
mod tests;
