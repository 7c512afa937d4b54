//! Decides when the final file of a scan is written while results still arrive.
//!
//! It is written at once when all frames of the scan have results for the first time. Later results
//! arrive one by one, as a scan that is being followed grows, or in bursts, as an earlier run is
//! repeated. After a single result, the file is updated within 50 ms, because somebody may be
//! looking at it. During a burst, it is updated every few seconds. After each update there is a
//! pause of the same length as the update, so that results are read meanwhile.

use std::time::{Duration, Instant};

/// How long no result of the scan arrives before a burst is over.
const QUIET_TIME: Duration = Duration::from_millis(50);

/// The length of the pause after an update, in durations of the update. A longer pause would add to
/// an update that takes long because the machine is busy.
const PAUSE_FACTOR: u32 = 1;

/// How long a burst may delay an update.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// How long a burst may delay an update that takes long, in durations of the update.
const MAX_DELAY_FACTOR: u32 = 10;

/// The times of a scan's records and of the last update of its final file.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildSchedule {
    /// The times of the first and the last record since the file was updated.
    new_input: Option<(Instant, Instant)>,
    /// When the last update ended, and how long it took.
    last_build: Option<(Instant, Duration)>,
}

impl BuildSchedule {
    /// Adds a record that arrived at `now`.
    pub fn add_input(&mut self, now: Instant) {
        let first = self.new_input.map_or(now, |(first, _)| first);
        self.new_input = Some((first, now));
    }

    /// Adds an update of the final file from `began` to `now`.
    pub fn add_build(&mut self, began: Instant, now: Instant) {
        self.new_input = None;
        self.last_build = Some((now, now.saturating_duration_since(began)));
    }

    /// Returns whether records arrived since the file was updated.
    pub fn has_new_input(&self) -> bool {
        self.new_input.is_some()
    }

    /// Returns when the final file of a scan that has all results is due; `None` if no records
    /// arrived since it was updated.
    pub fn due_time(&self) -> Option<Instant> {
        let (first, last) = self.new_input?;
        let Some((ended, duration)) = self.last_build else { return Some(first) };
        let end_of_burst =
            (last + QUIET_TIME).min(first + MAX_DELAY.max(duration * MAX_DELAY_FACTOR));
        Some(end_of_burst.max(ended + duration * PAUSE_FACTOR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_first_update_is_due_at_once_and_the_next_when_it_is_quiet() {
        let start = Instant::now();
        let mut schedule = BuildSchedule::default();
        assert_eq!((schedule.due_time(), schedule.has_new_input()), (None, false));
        schedule.add_input(start);
        assert_eq!(schedule.due_time(), Some(start));
        schedule.add_build(start, at(start, 10));
        assert_eq!((schedule.due_time(), schedule.has_new_input()), (None, false));
        schedule.add_input(at(start, 20));
        schedule.add_input(at(start, 300));
        assert_eq!(schedule.due_time(), Some(at(start, 300) + QUIET_TIME));
    }

    #[test]
    fn a_single_result_waits_only_if_an_update_has_just_ended() {
        let start = Instant::now();
        // The duration of an update, the time from its end to the next result, and how long that
        // result waits.
        for (cost, pause, wait) in
            [(100, 500, 50), (100, 280, 50), (100, 20, 80), (0, 0, 50), (3000, 1000, 2000)]
        {
            let mut schedule = BuildSchedule::default();
            schedule.add_build(start, at(start, cost));
            schedule.add_input(at(start, cost + pause));
            assert_eq!(
                schedule.due_time(),
                Some(at(start, cost + pause + wait)),
                "{cost} ms, {pause} ms later"
            );
        }
    }

    #[test]
    fn an_endless_burst_delays_updates_and_does_not_stop_them() {
        let start = Instant::now();
        let count_updates = |cost: u64, pause: u64| {
            let mut schedule = BuildSchedule::default();
            schedule.add_input(start);
            schedule.add_build(start, at(start, cost));
            let (mut now, mut count) = (cost, 0);
            // For ten minutes.
            while now < 600_000 {
                let mut next = now + pause;
                if let Some(due) = schedule.due_time().filter(|due| *due <= at(start, next)) {
                    let began = due.max(at(start, now));
                    let ended = began + Duration::from_millis(cost);
                    schedule.add_build(began, ended);
                    next = next.max(ended.duration_since(start).as_millis() as u64);
                    count += 1;
                }
                now = next;
                schedule.add_input(at(start, now));
            }
            count
        };
        assert_eq!(count_updates(10, 10), 119, "one every five seconds");
        assert_eq!(count_updates(10_000, 10), 5, "an update of 10 s every 110 s");
        assert_eq!(count_updates(100, 600), 999, "one for each single result");
        assert!(
            count_updates(1000, 600) <= 300,
            "half of the time, if an update takes longer than the time between results"
        );
    }
}
