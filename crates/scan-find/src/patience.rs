//! Patience with what a following search can't read.
//!
//! A file that is being written or copied looks damaged: HDF5 writes much of what describes a file
//! as it closes it, and a copy ends somewhere until it is done. So a following search tries again
//! before it reports a failure, and its last look reports what has remained: a search that follows
//! ends with what a search finds that does not.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a failure must stay the same before it is reported. While a file grows, its failure
/// changes, because the message has the size.
const FAILURE_PATIENCE: Duration = Duration::from_secs(3);

/// Reaction to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureAction {
    /// Say nothing yet, because the file may be being written.
    Withhold,
    /// Warn, and try again.
    Warn,
    /// Report the failure.
    Report,
}

/// A failure that stays the same.
#[derive(Clone, Copy, Debug)]
struct Constant {
    since: Instant,
    first_look: u64,
    last_look: u64,
}

/// The failures of a search, and since when each has stayed the same.
#[derive(Default)]
pub struct FailurePatience {
    /// True if the search looks again.
    follows: bool,
    is_last_look: bool,
    /// True if the last look reports even what failed in no look before.
    reports_all: bool,
    /// The number of looks that have ended.
    look: u64,
    /// The failures, by subject and reason.
    seen: HashMap<(String, String), Constant>,
}

impl FailurePatience {
    /// Creates the patience of a search, which has none unless it follows.
    pub fn new(follows: bool) -> Self {
        Self { follows, ..Self::default() }
    }

    /// Decides about a failure of this look. `may_pass` says whether another attempt may succeed
    /// even after a long time.
    pub fn judge(&mut self, about: &str, why: &str, may_pass: bool) -> FailureAction {
        if !self.follows {
            return FailureAction::Report;
        }
        let (since, look) = (Instant::now(), self.look);
        let seen = self.seen.entry((about.to_owned(), why.to_owned())).or_insert(Constant {
            since,
            first_look: look,
            last_look: look,
        });
        seen.last_look = look;
        if self.reports_all || (self.is_last_look && seen.first_look < look) {
            FailureAction::Report
        } else if seen.since.elapsed() < FAILURE_PATIENCE {
            FailureAction::Withhold
        } else if may_pass {
            FailureAction::Warn
        } else {
            FailureAction::Report
        }
    }

    /// Returns whether what fails in this look will be tried again.
    pub fn tries_again(&self) -> bool {
        self.follows && !self.is_last_look
    }

    /// Ends a look: what has not failed in it has passed.
    pub fn finish_look(&mut self) {
        self.seen.retain(|_, failure| failure.last_look == self.look);
        self.look += 1;
    }

    /// Returns the time until a failure that is withheld is due, if there is one.
    pub fn next_due(&self) -> Option<Duration> {
        let left = |seen: &Constant| FAILURE_PATIENCE.checked_sub(seen.since.elapsed());
        self.seen.values().filter_map(left).min()
    }

    /// Makes the next look the last one, which reports what failed in this one, too. Returns false
    /// if nothing did. `idle` is the time since the last change, beyond that for which the search
    /// waits: the last look reports everything if that is too long, because some failures are never
    /// the same.
    pub fn begin_last_look(&mut self, idle: Duration) -> bool {
        self.is_last_look = !self.seen.is_empty();
        self.reports_all = self.is_last_look && idle >= FAILURE_PATIENCE;
        self.is_last_look
    }

    /// Ends the last look, and returns whether it met failures that were not there before, so that
    /// the search has to go on.
    pub fn resume_after_last_look(&mut self) -> bool {
        let last = self.look.saturating_sub(1);
        let is_new = |failure: &Constant| failure.first_look == last;
        self.is_last_look = false;
        !self.reports_all && self.seen.values().any(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets time pass.
    fn wait(patience: &mut FailurePatience, time: Duration) {
        patience.seen.values_mut().for_each(|failure| failure.since -= time);
    }

    #[test]
    fn a_search_that_does_not_follow_reports_at_once() {
        let mut patience = FailurePatience::new(false);
        assert_eq!(patience.judge("/a", "truncated", true), FailureAction::Report);
        assert!(!patience.begin_last_look(Duration::ZERO));
    }

    #[test]
    fn what_stays_the_same_is_due_and_what_changes_or_passes_is_not() {
        let mut patience = FailurePatience::new(true);
        let (damaged, denied) = (("/a", "truncated", false), ("/b", "denied", true));
        let judge_all = |patience: &mut FailurePatience, size: u64| {
            let growing = format!("ends at {size}");
            let all = [damaged, denied, ("/c", growing.as_str(), false)];
            let judged = all.map(|(about, why, may_pass)| patience.judge(about, why, may_pass));
            patience.finish_look();
            judged
        };
        assert_eq!(judge_all(&mut patience, 1), [FailureAction::Withhold; 3]);
        assert!(patience.next_due().is_some());
        wait(&mut patience, FAILURE_PATIENCE);
        let (report, warn) = (FailureAction::Report, FailureAction::Warn);
        assert_eq!(judge_all(&mut patience, 2), [report, warn, FailureAction::Withhold]);
        assert!(patience.begin_last_look(Duration::ZERO));
        assert_eq!(judge_all(&mut patience, 2), [report; 3]);
        assert!(!patience.resume_after_last_look());
        // All have passed.
        patience.finish_look();
        assert_eq!(judge_all(&mut patience, 2), [FailureAction::Withhold; 3]);
    }

    #[test]
    fn a_search_ends_though_a_failure_is_never_the_same() {
        let mut patience = FailurePatience::new(true);
        for number in 0..9 {
            patience.judge("/a", &format!("process {number} crashed"), true);
            patience.finish_look();
            assert!(patience.begin_last_look(Duration::ZERO));
            patience.judge("/a", &format!("process {number}0 crashed"), true);
            patience.finish_look();
            assert!(patience.resume_after_last_look());
        }
        assert!(patience.begin_last_look(FAILURE_PATIENCE));
        assert_eq!(patience.judge("/a", "process 99 crashed", true), FailureAction::Report);
        patience.finish_look();
        assert!(!patience.resume_after_last_look());
    }

    #[test]
    fn a_failure_that_is_new_in_the_last_look_is_waited_for() {
        let mut patience = FailurePatience::new(true);
        patience.judge("/a", "truncated", true);
        patience.finish_look();
        assert!(patience.begin_last_look(Duration::ZERO));
        // Named by two operands.
        for _ in 0..2 {
            assert_eq!(patience.judge("/b", "truncated", true), FailureAction::Withhold);
        }
        patience.finish_look();
        assert!(patience.resume_after_last_look() && patience.begin_last_look(Duration::ZERO));
        assert_eq!(patience.judge("/b", "truncated", true), FailureAction::Report);
    }
}
