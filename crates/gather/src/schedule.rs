//! When the final of a scan is made while results still come.
//!
//! The first time that all frames of a scan have been heard of, at once. After that, results come one by one, as a scan that is
//! being followed grows, or in bursts, as an earlier run is done again. The final is made anew as soon as no result follows another
//! at once, for somebody may be waiting for it, and now and then while a burst goes on; but after a making there is a rest of as
//! long as it took.

use std::time::{Duration, Instant};

/// How long no result of the scan comes before a burst is over.
const QUIET: Duration = Duration::from_millis(50);

/// How many times as long as it takes to make a final nothing is made after it. It takes several times longer on a loaded machine, where
/// a longer rest would come on top.
const REST: u32 = 1;

/// How long a burst goes on before the final is made all the same.
const LONGEST: Duration = Duration::from_secs(5);

/// How many times as long as it takes to make a final passes between two makings, while the burst goes on.
const REST_IN_BURST: u32 = 10;

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
        let Some((made, took)) = self.made else { return Some(first) };
        let end_of_burst = (last + QUIET).min(first + LONGEST.max(took * REST_IN_BURST));
        Some(end_of_burst.max(made + took * REST))
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
        assert_eq!(schedule.due(), Some(at(start, 300) + QUIET));
    }

    #[test]
    fn a_result_is_not_waited_behind_unless_a_final_was_made_just_before() {
        let start = Instant::now();
        // What a making takes, when a result comes after it, and how long that one waits.
        for (cost, pause, wait) in [(100, 500, 50), (100, 280, 50), (100, 20, 80), (0, 0, 50), (3000, 1000, 2000)] {
            let mut schedule = Schedule::default();
            schedule.make(start, at(start, cost));
            schedule.hear(at(start, cost + pause));
            assert_eq!(schedule.due(), Some(at(start, cost + pause + wait)), "{cost} ms, {pause} ms later");
        }
    }

    #[test]
    fn a_burst_without_end_is_not_waited_for_but_most_of_the_time_is_for_results() {
        let start = Instant::now();
        let makings = |cost: u64, pause: u64| {
            let mut schedule = Schedule::default();
            schedule.hear(start);
            schedule.make(start, at(start, cost));
            let (mut now, mut count) = (cost, 0);
            // For ten minutes.
            while now < 600_000 {
                let mut next = now + pause;
                if let Some(due) = schedule.due().filter(|due| *due <= at(start, next)) {
                    let began = due.max(at(start, now));
                    let ended = began + Duration::from_millis(cost);
                    schedule.make(began, ended);
                    next = next.max(ended.duration_since(start).as_millis() as u64);
                    count += 1;
                }
                now = next;
                schedule.hear(at(start, now));
            }
            count
        };
        assert_eq!(makings(10, 10), 119, "one in five seconds");
        assert_eq!(makings(10_000, 10), 5, "a large one takes its time");
        assert_eq!(makings(100, 600), 999, "results one by one are made one by one");
        assert!(makings(1000, 600) <= 300, "half of the time, where each takes longer than the next is away");
    }
}
