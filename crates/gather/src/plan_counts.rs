//! `--count-done`: how much of a plan is done, and which of its frames are lost.

use std::collections::{BTreeMap, HashMap};

use filter::{Filter, Stop};
use patterns::Status;
use patterns::coverage::{self, ClaimedFrames};
use patterns::output::{self, OutputSpec};
use records::{AbsentKind, Record, Spans, Task};
use serde_json::json;

use crate::required_tasks::{
    OutputTasks, RequiredTasks, combine, existing_frames, frames_near, frames_without,
    rejects_pixels, report_unusable,
};
use crate::scan_group::OutputKey;

/// Counts of a plan, by the names of parts and the heads of final files.
#[derive(Clone, Debug, Default)]
pub struct PlanCounts {
    finals: u64,
    /// Final files that a rerun would leave as they are.
    finals_done: u64,
    /// Final files of which gather would find all there is to be found, and end with status 0.
    finals_complete: u64,
    tasks: u64,
    tasks_done: u64,
    /// Frames of the plan, except those that were never taken.
    frames: u64,
    /// Frames that have a pattern.
    frames_done: u64,
    /// Frames that have no pattern for another reason than that they wait to be integrated.
    frames_lost: BTreeMap<AbsentKind, u64>,
    bytes: u64,
    bytes_left: u64,
}

impl PlanCounts {
    /// Counts a plan. With `needs_sparse`, patterns of recipes that clip count only with their sparse
    /// pixels.
    ///
    /// # Errors
    /// Fails as [`Filter::emit`] does, if files can't be read.
    pub fn new(
        plan: &RequiredTasks,
        allows_missing: bool,
        needs_sparse: bool,
        filter: &Filter,
    ) -> Result<Self, Stop> {
        let mut counts = Self::default();
        let mut outputs: HashMap<OutputKey, OutputState> = HashMap::new();
        for OutputTasks { key, tasks, recipe } in plan.tasks_by_output() {
            filter.check_stopped()?;
            let scan_task = combine(&tasks, recipe);
            let needs_sparse = needs_sparse && rejects_pixels(&scan_task, filter)?;
            let claimed = coverage::find_claimed_frames(&scan_task.out, &scan_task, needs_sparse);
            report_unusable(&claimed.unusable, &scan_task, filter)?;
            let target = OutputSpec::new(&scan_task.out, &scan_task);
            let refused = target.and_then(|target| output::check_owner(&target)).err();
            if let Some(why) = &refused {
                filter.warn(&why.to_string());
            }
            let existing: Vec<Spans> = tasks.iter().map(|task| existing_frames(task)).collect();
            let left = Spans::union_all(&existing).difference(&claimed.settled_in_output());
            let (has_failed, is_done) = (refused.is_some(), left.is_empty());
            // Tasks of a scan that grew have frames in common, which count once.
            let listed: u64 = tasks.iter().map(|task| task.range.count()).sum();
            let distinct = Spans::union_all(tasks.iter().map(|task| &task.range)).count();
            let counted = (listed > distinct).then(Spans::default);
            outputs.insert(key, OutputState { claimed, is_done, has_failed, counted });
        }
        // The last task of a frame knows most of it.
        let tasks: Vec<&Task> = plan.latest_versions().collect();
        for task in tasks.into_iter().rev() {
            counts.add_task(task, &mut outputs, allows_missing);
        }
        for output in outputs.values() {
            counts.finals += 1;
            counts.finals_done += u64::from(output.is_done);
            counts.finals_complete += u64::from(output.is_done && !output.has_failed);
        }
        Ok(counts)
    }

    fn add_task(
        &mut self,
        task: &Task,
        outputs: &mut HashMap<OutputKey, OutputState>,
        allows_missing: bool,
    ) {
        let existing = existing_frames(task);
        let mut range = task.range.clone();
        if let Some(counted) =
            outputs.get_mut(&OutputKey::new(task)).and_then(|output| output.counted.as_mut())
        {
            range = range.difference(counted);
            *counted = counted.union(&range);
        }
        let (mut left, mut lost) = (Vec::new(), Vec::new());
        for recipe in task.recipes() {
            let key = OutputKey::with_recipe(task, &recipe.recipe_digest);
            let output = outputs.get_mut(&key).expect("each recipe of each task has an output");
            left.push(frames_without(&existing, &output.claimed.done));
            let of_output = output.lost_frames(task, &existing);
            output.has_failed |= of_output.iter().any(|(kind, _)| kind.is_failure(allows_missing));
            lost.extend(of_output);
        }
        let (mut without_pattern, mut never_taken) = (Spans::union_all(&left), Spans::default());
        self.tasks += 1;
        self.tasks_done += u64::from(without_pattern.is_empty());
        self.bytes += task.bytes;
        let share = without_pattern.count() as f64 / existing.count().max(1) as f64;
        self.bytes_left += (task.bytes as f64 * share) as u64;
        // A frame that several recipes lack counts once.
        let mut counted = Spans::default();
        for (kind, frames) in lost {
            let frames = frames.intersection(&range);
            if kind == AbsentKind::NeverTaken {
                never_taken = never_taken.union(&frames);
                continue;
            }
            let frames = frames.difference(&counted);
            *self.frames_lost.entry(kind).or_default() += frames.count();
            counted = counted.union(&frames);
        }
        never_taken = never_taken.difference(&counted);
        without_pattern = Spans::union_all([&without_pattern, &counted, &never_taken]);
        self.frames += range.difference(&never_taken).count();
        self.frames_done += range.difference(&without_pattern).count();
    }

    /// Returns whether gather would end with status 0 for each final file.
    pub fn is_complete(&self) -> bool {
        self.finals_complete == self.finals
    }

    /// Returns whether all tasks of the plan are done.
    pub fn are_tasks_done(&self) -> bool {
        self.tasks_done == self.tasks
    }

    /// Returns the record of type `progress`.
    pub fn to_record(&self) -> Record {
        let lost = self.frames_lost.iter().filter(|(_, count)| **count > 0);
        let lost: serde_json::Map<_, _> = lost
            .map(|(kind, count)| {
                let kind = serde_json::to_value(kind).expect("a kind serializes");
                (kind.as_str().unwrap_or_default().to_owned(), (*count).into())
            })
            .collect();
        let frames_lost: u64 = self.frames_lost.values().sum();
        let record = json!({
            "type": "progress",
            "v": 1,
            "finals": self.finals,
            "finals_done": self.finals_done,
            "finals_complete": self.finals_complete,
            "tasks": self.tasks,
            "tasks_done": self.tasks_done,
            "frames": self.frames,
            "frames_done": self.frames_done,
            "frames_lost": frames_lost,
            "lost": lost,
            "bytes": self.bytes,
            "bytes_left": self.bytes_left,
        });
        Record::Other(record.to_string())
    }
}

/// State of a final file.
struct OutputState {
    claimed: ClaimedFrames,
    /// True if the final file has a row for each frame that exists, and a rerun would not try to
    /// make any of them again.
    is_done: bool,
    /// True if gather refuses it, or frames are lost for which gather ends with status 1.
    has_failed: bool,
    /// The frames that were counted, where tasks have some in common.
    counted: Option<Spans>,
}

impl OutputState {
    /// Returns the frames of a task without a pattern, by the kind of reason. The plan's reason is
    /// more specific than that of the final file, which may have the pattern of a frame whose raw
    /// file was removed since.
    fn lost_frames(&self, task: &Task, existing: &Spans) -> Vec<(AbsentKind, Spans)> {
        let mut lost = Vec::new();
        let nothing = Spans::default();
        let with_pattern = self.claimed.in_output.get(&Status::Ok).unwrap_or(&nothing);
        for absent in task.acquisition.absent_within(&task.range) {
            lost.push((absent.kind, frames_without(&absent.range, with_pattern)));
        }
        for (&status, frames) in &self.claimed.in_output {
            if !matches!(status, Status::Ok | Status::NotIntegrated) {
                let near = frames_near(existing, frames);
                let kind = status.to_absent(Spans::default(), None).kind;
                lost.push((kind, existing.intersection(&near)));
            }
        }
        lost.retain(|(_, frames)| !frames.is_empty());
        lost
    }
}
