//! Frames that lack a pattern after the tasks so far. While a scan is followed, a later task may
//! have a pattern for a frame that an earlier one found without data, so the exit status and the
//! counts are those of the end.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use filter::FrameCounts;
use records::{Absent, AbsentKind, Spans};

/// The frames of all outputs of a run that lack a pattern.
///
/// A frame that could not be read or is damaged was reported in a `fail` record, which makes the
/// status 1 whatever comes later.
#[derive(Debug)]
pub struct LackingFrames {
    allows_missing: bool,
    by_output: Mutex<HashMap<PathBuf, LackingInOutput>>,
}

/// The frames of one output that lack a pattern.
#[derive(Debug, Default)]
struct LackingInOutput {
    /// The frames that make the exit status 1.
    failures: Spans,
    /// The frames that should have a pattern.
    lost: Spans,
    /// The frames that were never taken.
    never_taken: Spans,
    /// The warnings that were given.
    warnings: HashSet<String>,
}

impl LackingFrames {
    /// Creates a record of no frames. If `allows_missing`, those that can't have a pattern are no
    /// failures.
    pub fn new(allows_missing: bool) -> Self {
        Self { allows_missing, by_output: Mutex::default() }
    }

    /// Replaces what is known of the frames in `range` by what a task found missing. Returns how many of
    /// them earlier tasks had lost or found never taken, and how many this one.
    pub fn replace(&self, output: PathBuf, range: &Spans, missing: &[Absent]) -> [FrameCounts; 2] {
        let mut by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        // Most outputs never lack a frame.
        if missing.is_empty() && !by_output.contains_key(&output) {
            return [FrameCounts::default(); 2];
        }
        let ranges = |is_wanted: &dyn Fn(AbsentKind) -> bool| {
            let wanted = missing.iter().filter(|absent| is_wanted(absent.kind));
            Spans::union_all(wanted.map(|absent| &absent.range))
        };
        let state = by_output.entry(output).or_default();
        let replace = |known: &mut Spans, now: &Spans| {
            let counts = [known.intersection(range).count(), now.count()];
            *known = known.difference(range).union(now);
            counts
        };
        let lost = ranges(&AbsentKind::is_loss);
        let failed = replace(&mut state.lost, &lost);
        // Of several recipes, one may lack a frame that was never taken for the other.
        let never_taken =
            replace(&mut state.never_taken, &ranges(&|kind| !kind.is_loss()).difference(&lost));
        replace(&mut state.failures, &ranges(&|kind| kind.is_failure(self.allows_missing)));
        [0, 1].map(|when| FrameCounts {
            done: 0,
            failed: failed[when],
            never_taken: never_taken[when],
        })
    }

    /// Returns whether a warning about an output is not a repetition.
    pub fn is_new_warning(&self, output: PathBuf, warning: &str) -> bool {
        let mut by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        let state = by_output.entry(output).or_default();
        state.warnings.insert(warning.to_owned())
    }

    /// Returns whether a frame lacks a pattern that it should have.
    pub fn has_failures(&self) -> bool {
        let by_output = self.by_output.lock().unwrap_or_else(PoisonError::into_inner);
        by_output.values().any(|state| !state.failures.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(kind: AbsentKind, start: u64, stop: u64) -> Absent {
        Absent { range: (start..stop).collect(), kind, reason: String::new() }
    }

    fn counts(failed: u64, never_taken: u64) -> FrameCounts {
        FrameCounts { done: 0, failed, never_taken }
    }

    #[test]
    fn a_later_task_makes_good_what_an_earlier_one_lacked() {
        let lacking = LackingFrames::new(false);
        let replace = |output: &str, start, stop, missing: &[Absent]| {
            lacking.replace(output.into(), &(start..stop).collect(), missing)
        };
        let first = [absent(AbsentKind::Missing, 2, 4), absent(AbsentKind::NeverTaken, 6, 9)];
        assert_eq!(replace("a.h5", 0, 9, &first), [counts(0, 0), counts(2, 3)]);
        assert!(lacking.has_failures());
        assert_eq!(replace("b.h5", 0, 9, &[]), [counts(0, 0); 2]);
        assert!(lacking.has_failures(), "another output's frames are others");
        assert_eq!(replace("a.h5", 3, 6, &[]), [counts(1, 0), counts(0, 0)]);
        assert!(lacking.has_failures(), "frame 2");
        let again = [absent(AbsentKind::NeverTaken, 8, 9)];
        assert_eq!(replace("a.h5", 0, 9, &again), [counts(1, 3), counts(0, 1)]);
        assert!(!lacking.has_failures());
    }

    #[test]
    fn frames_that_may_be_missing_are_no_failures() {
        let lacking = LackingFrames::new(true);
        lacking.replace("a.h5".into(), &(0..9).collect(), &[absent(AbsentKind::Missing, 0, 1)]);
        assert!(!lacking.has_failures());
        lacking.replace("a.h5".into(), &(0..9).collect(), &[absent(AbsentKind::Corrupt, 0, 1)]);
        assert!(lacking.has_failures());
    }
}
