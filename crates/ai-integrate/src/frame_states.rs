//! The states of the frames of a run. While a scan is followed, a later task may have a pattern for
//! a frame that an earlier one found without data, or be about frames that are done, so the exit status
//! and the counts are those of the end.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use filter::{CountedFrames, FrameCounts};
use rangemap::RangeSet;
use records::{Absent, AbsentKind, Spans, Task};

/// The frames of all outputs of a run.
///
/// A frame that could not be read or is damaged was reported in a `fail` record, which makes the
/// status 1 whatever comes later. Tasks that share frames must come in the order of the input:
/// see `RunningTasks`.
#[derive(Debug)]
pub struct FrameStates {
    allows_missing: bool,
    by_output: Mutex<HashMap<RecipeOutput, OutputFrames>>,
}

/// Identifies the output of a scan by one recipe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecipeOutput {
    out_root: PathBuf,
    scan: String,
    recipe_digest: String,
}

impl RecipeOutput {
    /// Returns the output of a task's first recipe.
    pub fn new(task: &Task) -> Self {
        Self {
            out_root: task.out.to_path_buf(),
            scan: task.scan.clone(),
            recipe_digest: task.recipe_digest.clone(),
        }
    }
}

/// A task that is done, by its frames.
#[derive(Debug)]
pub struct DoneTask {
    /// All frames that it is about.
    pub about: Spans,
    /// The frames that were done before the task.
    pub found: Spans,
    /// The frames that each recipe lacks, the first recipe first; there is at least one.
    pub missing: Vec<(RecipeOutput, Vec<Absent>)>,
}

/// The frames of one output that tasks were about. All but `failures` are of tasks whose first recipe it
/// is, because a task counts its frames once.
#[derive(Debug, Default)]
struct OutputFrames {
    /// The frames that make the exit status 1.
    failures: RangeSet<u64>,
    counted: RangeSet<u64>,
    /// The frames that this run has worked on, of those counted.
    worked: RangeSet<u64>,
    /// The frames that should have a pattern and have none.
    lost: RangeSet<u64>,
    never_taken: RangeSet<u64>,
    /// The warnings that were given.
    warnings: HashSet<String>,
}

impl FrameStates {
    /// Creates a record of no frames. If `allows_missing`, those that can't have a pattern are no
    /// failures.
    pub fn new(allows_missing: bool) -> Self {
        Self { allows_missing, by_output: Mutex::default() }
    }

    /// Replaces what is known of the frames of a task. Returns how earlier tasks had counted them, and
    /// how they count now.
    pub fn replace(&self, task: &DoneTask) -> (CountedFrames, FrameCounts) {
        let DoneTask { about, found, missing } = task;
        let mut by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        for (output, missing) in missing {
            let frames = by_output.entry(output.clone()).or_default();
            remove(&mut frames.failures, about);
            let is_failure = |absent: &&Absent| absent.kind.is_failure(self.allows_missing);
            for absent in missing.iter().filter(is_failure) {
                insert(&mut frames.failures, &absent.range.intersection(about));
            }
        }
        let (first, _) = &missing[0];
        let frames = by_output.entry(first.clone()).or_default();
        let before = frames.count(about);
        let found_count = found.count();
        // Those of the found frames that no task of this run has worked on.
        let found_before_run: Vec<Range<u64>> = ranges(found)
            .flat_map(|range| frames.worked.gaps(&range).collect::<Vec<_>>())
            .collect();
        insert(&mut frames.counted, about);
        insert(&mut frames.worked, about);
        let by_earlier_run: u64 =
            found_before_run.iter().map(|range| range.end - range.start).sum();
        found_before_run.into_iter().for_each(|range| frames.worked.remove(range));
        let absent_of = |is_wanted: &dyn Fn(AbsentKind) -> bool| {
            let all = missing.iter().flat_map(|(_, missing)| missing);
            let wanted = all.filter(|absent| is_wanted(absent.kind)).map(|absent| &absent.range);
            Spans::union_all(wanted).intersection(about)
        };
        let lost = absent_of(&AbsentKind::is_loss);
        // Of several recipes, one may lack a frame that was never taken for the other.
        let never_taken = absent_of(&|kind| !kind.is_loss()).difference(&lost);
        for (known, now) in [(&mut frames.lost, &lost), (&mut frames.never_taken, &never_taken)] {
            remove(known, about);
            insert(known, now);
        }
        // The task has counted all that it found as found by an earlier run.
        let found = before.found + found_count - by_earlier_run;
        (CountedFrames { found, ..before }, frames.count(about).frames)
    }

    /// Returns whether a warning about an output is not a repetition.
    pub fn is_new_warning(&self, output: RecipeOutput, warning: &str) -> bool {
        let mut by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        by_output.entry(output).or_default().warnings.insert(warning.to_owned())
    }

    /// Returns whether a frame lacks a pattern that it should have.
    pub fn has_failures(&self) -> bool {
        let by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        by_output.values().any(|frames| !frames.failures.is_empty())
    }
}

impl OutputFrames {
    fn count(&self, about: &Spans) -> CountedFrames {
        let [counted, worked, failed, never_taken] =
            [&self.counted, &self.worked, &self.lost, &self.never_taken]
                .map(|frames| count_within(frames, about));
        let done = counted - failed - never_taken;
        let frames = FrameCounts { done, failed, never_taken };
        CountedFrames { frames, found: counted - worked, kept: done }
    }
}

/// Returns the ranges without gaps that frames consist of.
fn ranges(frames: &Spans) -> impl Iterator<Item = Range<u64>> {
    frames.as_slice().iter().flat_map(|span| {
        let (whole, single) = if span.step() == 1 {
            (Some(span.start()..span.stop()), None)
        } else {
            (None, Some(span))
        };
        let single = single.into_iter().flat_map(|span| span.iter()).map(|frame| frame..frame + 1);
        whole.into_iter().chain(single).filter(|range| !range.is_empty())
    })
}

fn insert(set: &mut RangeSet<u64>, frames: &Spans) {
    ranges(frames).for_each(|range| set.insert(range));
}

fn remove(set: &mut RangeSet<u64>, frames: &Spans) {
    if !set.is_empty() {
        ranges(frames).for_each(|range| set.remove(range));
    }
}

fn count_within(set: &RangeSet<u64>, frames: &Spans) -> u64 {
    let common = |range: Range<u64>| -> u64 {
        set.overlapping(&range)
            .map(|known| known.end.min(range.end) - known.start.max(range.start))
            .sum()
    };
    if set.is_empty() { 0 } else { ranges(frames).map(common).sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(kind: AbsentKind, start: u64, stop: u64) -> Absent {
        Absent { range: (start..stop).collect(), kind, reason: String::new() }
    }

    fn output(recipe: &str) -> RecipeOutput {
        RecipeOutput { out_root: "/out".into(), scan: "s".into(), recipe_digest: recipe.into() }
    }

    fn task(about: Range<u64>, found: Range<u64>, missing: &[Absent]) -> DoneTask {
        let missing = vec![(output("a"), missing.to_vec())];
        DoneTask { about: about.collect(), found: found.collect(), missing }
    }

    fn counts(done: u64, failed: u64, never_taken: u64) -> FrameCounts {
        FrameCounts { done, failed, never_taken }
    }

    #[test]
    fn a_later_task_makes_good_what_an_earlier_one_lacked() {
        let states = FrameStates::new(false);
        let replace = |about, missing: &[Absent]| {
            let (before, now) = states.replace(&task(about, 0..0, missing));
            [before.frames, now]
        };
        let first = [absent(AbsentKind::Missing, 2, 4), absent(AbsentKind::NeverTaken, 6, 9)];
        assert_eq!(replace(0..9, &first), [counts(0, 0, 0), counts(4, 2, 3)]);
        assert!(states.has_failures());
        assert_eq!(replace(3..6, &[]), [counts(2, 1, 0), counts(3, 0, 0)]);
        assert!(states.has_failures(), "frame 2");
        let again = [absent(AbsentKind::NeverTaken, 9, 10)];
        assert_eq!(replace(0..10, &again), [counts(5, 1, 3), counts(9, 0, 1)]);
        assert!(!states.has_failures());
    }

    #[test]
    fn a_task_makes_nothing_good_for_other_recipes() {
        let states = FrameStates::new(false);
        let lacking = vec![absent(AbsentKind::NoMonitor, 1, 2)];
        let both = vec![(output("a"), Vec::new()), (output("b"), lacking)];
        states.replace(&DoneTask { missing: both, ..task(0..4, 0..0, &[]) });
        states.replace(&task(0..4, 0..4, &[]));
        assert!(states.has_failures(), "recipe b has no monitor");
    }

    #[test]
    fn what_this_run_has_made_is_not_found() {
        let states = FrameStates::new(false);
        let found = |about, found: Range<u64>| {
            let count = found.end - found.start;
            // The counts of the run, after all of the task were added.
            let (before, _) = states.replace(&task(about, found, &[]));
            (count, before.found)
        };
        assert_eq!(found(0..10, 0..4), (4, 0), "an earlier run did four");
        assert_eq!(found(0..15, 0..10), (10, 10), "they are found again, and six of this run");
        assert_eq!(found(0..15, 0..0), (0, 4), "all are made anew");
        assert_eq!(found(0..15, 0..15), (15, 15));
    }

    #[test]
    fn interleaved_frames_are_counted_one_by_one() {
        let states = FrameStates::new(false);
        for first in 0..3 {
            let about: Spans = (0..4).map(|step| first + 3 * step).collect();
            let (before, now) = states.replace(&DoneTask { about, ..task(0..0, 0..0, &[]) });
            assert_eq!((before.frames, now), (counts(0, 0, 0), counts(4, 0, 0)));
        }
        let (before, _) = states.replace(&task(0..12, 0..0, &[]));
        assert_eq!(before.frames, counts(12, 0, 0));
    }

    #[test]
    fn frames_that_may_be_missing_are_no_failures() {
        let states = FrameStates::new(true);
        states.replace(&task(0..9, 0..0, &[absent(AbsentKind::Missing, 0, 1)]));
        assert!(!states.has_failures());
        states.replace(&task(0..9, 0..0, &[absent(AbsentKind::Corrupt, 0, 1)]));
        assert!(states.has_failures());
    }
}
