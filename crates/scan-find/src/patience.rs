//! Patience with what a following search can't read.
//!
//! A file that is being written or copied looks damaged: HDF5 writes much of what describes a file
//! as it closes it, and a copy ends somewhere until it is done. So a following search tries again,
//! warns after a while, and reports as failures what remains when it ends: it ends with what a
//! search finds that does not follow.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How long a failure must stay the same before it is warned of. While a file grows, its failure
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
#[derive(Clone, Debug)]
struct Constant {
    since: Instant,
    first_look: u64,
    last_look: u64,
    is_reported: bool,
}

/// The failures of a search, and since when each has stayed the same.
#[derive(Default)]
pub struct FailurePatience {
    /// True if the search looks again.
    follows: bool,
    is_last_look: bool,
    /// When the first of the last looks began, since something has changed.
    ending_since: Option<Instant>,
    /// True if the last look reports even what failed in no look before.
    reports_all: bool,
    /// The number of looks that have ended.
    look: u64,
    /// The failures, by subject and reason.
    seen: HashMap<(String, String), Constant>,
    /// The subjects that were warned of, and have not passed since.
    warned: HashSet<String>,
}

impl FailurePatience {
    /// Creates the patience of a search, which has none unless it follows.
    pub fn new(follows: bool) -> Self {
        Self { follows, ..Self::default() }
    }

    /// Decides about a failure of this look. The search calls it again in each look.
    pub fn judge(&mut self, about: &str, why: &str) -> FailureAction {
        if !self.follows {
            return FailureAction::Report;
        }
        let (since, look) = (Instant::now(), self.look);
        let new = Constant { since, first_look: look, last_look: look, is_reported: false };
        let seen = self.seen.entry((about.to_owned(), why.to_owned())).or_insert(new);
        seen.last_look = look;
        let is_due = self.is_last_look && (self.reports_all || seen.first_look < look);
        seen.is_reported |= is_due;
        if seen.is_reported {
            FailureAction::Report
        } else if seen.since.elapsed() < FAILURE_PATIENCE {
            FailureAction::Withhold
        } else {
            FailureAction::Warn
        }
    }

    /// Returns true once for each subject, until it has passed.
    pub fn is_first_warning(&mut self, about: &str) -> bool {
        self.warned.insert(about.to_owned())
    }

    /// Returns whether what fails in this look will be tried again.
    pub fn tries_again(&self) -> bool {
        self.follows && !self.is_last_look
    }

    /// Ends a look: what has not failed in it has passed.
    pub fn finish_look(&mut self) {
        self.seen.retain(|_, failure| failure.last_look == self.look);
        let failing: HashSet<&str> = self.seen.keys().map(|(about, _)| about.as_str()).collect();
        self.warned.retain(|about| failing.contains(about.as_str()));
        self.look += 1;
    }

    /// Returns the time until a failure that is withheld is due, if there is one.
    pub fn next_due(&self) -> Option<Duration> {
        let left = |seen: &Constant| FAILURE_PATIENCE.checked_sub(seen.since.elapsed());
        self.seen.values().filter(|seen| !seen.is_reported).filter_map(left).min()
    }

    /// Tells that something has changed, so that the search does not end yet.
    pub fn put_off_end(&mut self) {
        self.ending_since = None;
    }

    /// Makes the next look the last one, which reports what failed in this one, too. Returns false
    /// if nothing did. Some failures are never the same: if the search has not ended for a time,
    /// the last look reports everything.
    pub fn begin_last_look(&mut self) -> bool {
        self.is_last_look = self.seen.values().any(|failure| !failure.is_reported);
        let since = *self.ending_since.get_or_insert_with(Instant::now);
        self.reports_all = since.elapsed() >= FAILURE_PATIENCE;
        self.is_last_look
    }

    /// Ends the last look, and returns whether it met failures that were not there before, so that
    /// the search has to go on.
    pub fn resume_after_last_look(&mut self) -> bool {
        self.is_last_look = false;
        self.seen.values().any(|failure| !failure.is_reported)
    }

    /// Makes the next look the last one, whatever it meets: it reports everything.
    pub fn begin_final_look(&mut self) {
        (self.is_last_look, self.reports_all) = (true, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets time pass.
    fn wait(patience: &mut FailurePatience, time: Duration) {
        patience.seen.values_mut().for_each(|failure| failure.since -= time);
        patience.ending_since = patience.ending_since.map(|since| since - time);
    }

    #[test]
    fn a_search_that_does_not_follow_reports_at_once() {
        let mut patience = FailurePatience::new(false);
        assert_eq!(patience.judge("/a", "truncated"), FailureAction::Report);
        assert!(!patience.begin_last_look());
    }

    #[test]
    fn what_stays_the_same_is_warned_of_and_what_changes_or_passes_is_not() {
        let mut patience = FailurePatience::new(true);
        let judge_all = |patience: &mut FailurePatience, size: u64| {
            let growing = format!("ends at {size}");
            let all = [("/a", "truncated"), ("/c", growing.as_str())];
            let judged = all.map(|(about, why)| patience.judge(about, why));
            patience.finish_look();
            judged
        };
        assert_eq!(judge_all(&mut patience, 1), [FailureAction::Withhold; 2]);
        assert!(patience.next_due().is_some());
        wait(&mut patience, FAILURE_PATIENCE);
        assert_eq!(judge_all(&mut patience, 2), [FailureAction::Warn, FailureAction::Withhold]);
        assert!(patience.is_first_warning("/a") && !patience.is_first_warning("/a"));
        assert!(patience.begin_last_look());
        assert_eq!(judge_all(&mut patience, 2), [FailureAction::Report; 2]);
        assert!(!patience.resume_after_last_look());
        // What was reported is not withheld again.
        assert_eq!(judge_all(&mut patience, 2), [FailureAction::Report; 2]);
        assert!(patience.next_due().is_none());
        // All have passed.
        patience.finish_look();
        assert_eq!(judge_all(&mut patience, 2), [FailureAction::Withhold; 2]);
        assert!(patience.is_first_warning("/a"));
        patience.begin_final_look();
        assert_eq!(judge_all(&mut patience, 3), [FailureAction::Report; 2]);
    }

    #[test]
    fn a_search_ends_though_a_failure_is_never_the_same() {
        let mut patience = FailurePatience::new(true);
        let look = |patience: &mut FailurePatience, number: u64| {
            let judged = patience.judge("/a", &format!("process {number} crashed"));
            patience.finish_look();
            judged
        };
        for number in 0..9 {
            look(&mut patience, number);
            assert!(patience.begin_last_look());
            assert_eq!(look(&mut patience, 100 + number), FailureAction::Withhold);
            assert!(patience.resume_after_last_look());
        }
        wait(&mut patience, FAILURE_PATIENCE);
        patience.put_off_end();
        assert!(patience.begin_last_look());
        assert_eq!(look(&mut patience, 200), FailureAction::Withhold);
        assert!(patience.resume_after_last_look());
        wait(&mut patience, FAILURE_PATIENCE);
        assert!(patience.begin_last_look());
        assert_eq!(look(&mut patience, 300), FailureAction::Report);
        assert!(!patience.resume_after_last_look());
    }

    #[test]
    fn a_failure_that_is_new_in_the_last_look_is_waited_for() {
        let mut patience = FailurePatience::new(true);
        patience.judge("/a", "truncated");
        patience.finish_look();
        assert!(patience.begin_last_look());
        // Named by two operands.
        for _ in 0..2 {
            assert_eq!(patience.judge("/b", "truncated"), FailureAction::Withhold);
        }
        patience.finish_look();
        assert!(patience.resume_after_last_look() && patience.begin_last_look());
        assert_eq!(patience.judge("/b", "truncated"), FailureAction::Report);
    }
}
