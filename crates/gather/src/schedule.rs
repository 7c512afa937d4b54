//! When the final of a scan is made while results still come.
//!
//! The first time that all frames of a scan have been heard of, at once. After that, results come in bursts, as a scan that is
//! being followed grows, or an earlier run is done again: the final is made anew once the burst is over, or now and then
//! while it goes on, but never so often that most of the time is spent on it.

use std::time::{Duration, Instant};

/// How long no result of the scan comes before the burst is over, where the final is made quickly: somebody may be waiting for it.
const SHORTEST_QUIET: Duration = Duration::from_millis(100);

/// The same where making it takes long.
const LONGEST_QUIET: Duration = Duration::from_millis(500);

/// How long a burst goes on before the final is made all the same.
const LONGEST: Duration = Duration::from_secs(5);

/// How many times as long as it takes to make a final passes between two makings, while the burst goes on.
const SHARE: u32 = 10;

/// What was heard of a scan, and when, and when its final was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    /// The first and the last word since the final was made.
    heard: Option<(Instant, Instant)>,
    /// When the final was made, and how long that took.
    made: Option<(Instant, Duration)>,
}

impl Schedule {
    /// Notes that something was heard.
    pub fn hear(&mut self, now: Instant) {
        let first = self.heard.map_or(now, |(first, _)| first);
        self.heard = Some((first, now));
    }

    /// Notes that the final was made, from `began` until now.
    pub fn make(&mut self, began: Instant, now: Instant) {
        (self.heard, self.made) = (None, Some((now, now.saturating_duration_since(began))));
    }

    /// Returns whether something was heard since the final was made.
    pub fn is_open(&self) -> bool {
        self.heard.is_some()
    }

    /// Returns when the final of a scan that is whole is to be made; `None` where nothing was heard since it was.
    pub fn due(&self) -> Option<Instant> {
        let (first, last) = self.heard?;
        let Some((_, took)) = self.made else { return Some(first) };
        let quiet = (took * SHARE).clamp(SHORTEST_QUIET, LONGEST_QUIET);
        Some((last + quiet).min(first + LONGEST.max(took * SHARE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_first_is_made_at_once_and_the_next_once_it_is_quiet() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        assert_eq!((schedule.due(), schedule.is_open()), (None, false));
        schedule.hear(start);
        assert_eq!(schedule.due(), Some(start));
        schedule.make(start, at(start, 10));
        assert_eq!((schedule.due(), schedule.is_open()), (None, false));
        schedule.hear(at(start, 20));
        schedule.hear(at(start, 300));
        assert_eq!(schedule.due(), Some(at(start, 300) + SHORTEST_QUIET));
        for (cost, quiet) in [(0, 100), (20, 200), (3000, 500)] {
            schedule.make(start, at(start, cost));
            schedule.hear(at(start, cost));
            assert_eq!(schedule.due(), Some(at(start, cost + quiet)));
        }
    }

    #[test]
    fn a_burst_without_end_is_not_waited_for_but_most_of_the_time_is_for_results() {
        let start = Instant::now();
        let makings = |cost: u64| {
            let mut schedule = Schedule::default();
            schedule.hear(start);
            schedule.make(start, at(start, cost));
            let (mut now, mut count) = (cost, 0);
            // A result each 10 ms, for ten minutes.
            while now < 600_000 {
                now += 10;
                schedule.hear(at(start, now));
                if schedule.due().is_some_and(|due| due <= at(start, now)) {
                    schedule.make(at(start, now), at(start, now + cost));
                    (now, count) = (now + cost, count + 1);
                }
            }
            count
        };
        assert_eq!(makings(10), 119, "one in five seconds");
        assert_eq!(makings(10_000), 5, "a large one takes its time");
    }
}
