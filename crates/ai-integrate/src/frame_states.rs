//! The states of the frames of a run. While a scan is followed, a later task may have a pattern for
//! a frame that an earlier one found without data, or be about frames that are done, so the exit status
//! and the counts are those of the end.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use filter::FrameCounts;
use records::{Absent, AbsentKind, Spans};

/// The frames of all outputs of a run.
///
/// A frame that could not be read or is damaged was reported in a `fail` record, which makes the
/// status 1 whatever comes later.
#[derive(Debug)]
pub struct FrameStates {
    allows_missing: bool,
    by_output: Mutex<HashMap<PathBuf, OutputFrames>>,
}

/// The frames of one output that tasks were about.
#[derive(Debug, Default)]
struct OutputFrames {
    /// All of these frames.
    counted: Spans,
    /// The frames that should have a pattern and have none.
    lost: Spans,
    /// The frames that were never taken.
    never_taken: Spans,
    /// The frames that make the exit status 1.
    failures: Spans,
    /// The warnings that were given.
    warnings: HashSet<String>,
}

impl OutputFrames {
    fn counts_within(&self, range: &Spans) -> FrameCounts {
        let count = |frames: &Spans| frames.intersection(range).count();
        let (failed, never_taken) = (count(&self.lost), count(&self.never_taken));
        FrameCounts { done: count(&self.counted) - failed - never_taken, failed, never_taken }
    }
}

impl FrameStates {
    /// Creates a record of no frames. If `allows_missing`, those that can't have a pattern are no
    /// failures.
    pub fn new(allows_missing: bool) -> Self {
        Self { allows_missing, by_output: Mutex::default() }
    }

    /// Replaces what is known of the frames that a task is `about` by what it found missing. Returns how
    /// earlier tasks had counted these frames, and how they count now.
    pub fn replace(&self, output: PathBuf, about: &Spans, missing: &[Absent]) -> [FrameCounts; 2] {
        let mut by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = by_output.entry(output).or_default();
        let before = frames.counts_within(about);
        let of_kinds = |is_wanted: &dyn Fn(AbsentKind) -> bool| {
            let wanted = missing.iter().filter(|absent| is_wanted(absent.kind));
            Spans::union_all(wanted.map(|absent| &absent.range)).intersection(about)
        };
        let replace = |known: &mut Spans, now: &Spans| {
            if !known.is_empty() || !now.is_empty() {
                *known = known.difference(about).union(now);
            }
        };
        let lost = of_kinds(&AbsentKind::is_loss);
        replace(&mut frames.failures, &of_kinds(&|kind| kind.is_failure(self.allows_missing)));
        // Of several recipes, one may lack a frame that was never taken for the other.
        replace(&mut frames.never_taken, &of_kinds(&|kind| !kind.is_loss()).difference(&lost));
        replace(&mut frames.lost, &lost);
        frames.counted = frames.counted.union(about);
        [before, frames.counts_within(about)]
    }

    /// Returns whether a warning about an output is not a repetition.
    pub fn is_new_warning(&self, output: PathBuf, warning: &str) -> bool {
        let mut by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        by_output.entry(output).or_default().warnings.insert(warning.to_owned())
    }

    /// Returns whether a frame lacks a pattern that it should have.
    pub fn has_failures(&self) -> bool {
        let by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        by_output.values().any(|frames| !frames.failures.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(kind: AbsentKind, start: u64, stop: u64) -> Absent {
        Absent { range: (start..stop).collect(), kind, reason: String::new() }
    }

    fn counts(done: u64, failed: u64, never_taken: u64) -> FrameCounts {
        FrameCounts { done, failed, never_taken }
    }

    #[test]
    fn a_later_task_makes_good_what_an_earlier_one_lacked() {
        let states = FrameStates::new(false);
        let replace = |output: &str, start, stop, missing: &[Absent]| {
            states.replace(output.into(), &(start..stop).collect(), missing)
        };
        let first = [absent(AbsentKind::Missing, 2, 4), absent(AbsentKind::NeverTaken, 6, 9)];
        assert_eq!(replace("a.h5", 0, 9, &first), [counts(0, 0, 0), counts(4, 2, 3)]);
        assert!(states.has_failures());
        assert_eq!(replace("b.h5", 0, 9, &[]), [counts(0, 0, 0), counts(9, 0, 0)]);
        assert!(states.has_failures(), "another output's frames are others");
        assert_eq!(replace("a.h5", 3, 6, &[]), [counts(2, 1, 0), counts(3, 0, 0)]);
        assert!(states.has_failures(), "frame 2");
        let again = [absent(AbsentKind::NeverTaken, 9, 10)];
        assert_eq!(replace("a.h5", 0, 10, &again), [counts(5, 1, 3), counts(9, 0, 1)]);
        assert!(!states.has_failures());
    }

    #[test]
    fn frames_that_may_be_missing_are_no_failures() {
        let states = FrameStates::new(true);
        let all = (0..9).collect();
        states.replace("a.h5".into(), &all, &[absent(AbsentKind::Missing, 0, 1)]);
        assert!(!states.has_failures());
        states.replace("a.h5".into(), &all, &[absent(AbsentKind::Corrupt, 0, 1)]);
        assert!(states.has_failures());
    }
}
