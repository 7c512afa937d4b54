//! The progress of a filter: work done, total, rate, and time left.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::console::Console;

/// Counts a filter's work from any thread, and shows the progress now and then.
pub struct Progress<'a> {
    console: Option<&'a Console>,
    counts: &'a Mutex<ProgressCounts>,
}

/// The counts so far.
#[derive(Debug, Default)]
pub(crate) struct ProgressCounts {
    unit: &'static str,
    done: u64,
    total: u64,
    began: Option<Instant>,
    shown: Option<Instant>,
}

impl<'a> Progress<'a> {
    /// Creates a progress counter that shows nothing if `console` is `None`.
    pub(crate) fn new(console: Option<&'a Console>, counts: &'a Mutex<ProgressCounts>) -> Self {
        Self { console, counts }
    }

    /// Adds work to do, in a unit such as `frames`.
    pub fn add_total(&self, more: u64, unit: &'static str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total += more;
        counts.unit = unit;
        counts.began.get_or_insert_with(Instant::now);
    }

    /// Counts work as done.
    pub fn advance(&self, done: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.done += done;
        let Some(console) = self.console else { return };
        let now = Instant::now();
        if counts.is_update_due(now, console.progress_interval()) {
            counts.shown = Some(now);
            console.show_progress(&counts.format_line(now));
        }
    }
}

impl ProgressCounts {
    fn is_update_due(&self, now: Instant, pause: Duration) -> bool {
        self.done == self.total || self.shown.is_none_or(|shown| now.duration_since(shown) >= pause)
    }

    /// Formats `1200/9600 frames, 812/s, 0:10 left`; the time left is omitted before there is a rate.
    fn format_line(&self, now: Instant) -> String {
        let elapsed = self.began.map_or(0.0, |began| now.duration_since(began).as_secs_f64());
        let unit = if self.total == 1 { self.unit.strip_suffix('s').unwrap_or(self.unit) } else { self.unit };
        let mut line = format!("{}/{} {unit}", self.done, self.total);
        if self.done > 0 && elapsed > 0.0 {
            let rate = self.done as f64 / elapsed;
            line += &format!(", {}/s", format_rate(rate));
            if self.done < self.total {
                line += &format!(", {} left", format_clock((self.total - self.done) as f64 / rate));
            }
        }
        line
    }
}

fn format_rate(rate: f64) -> String {
    let decimals = if rate < 10.0 { 2 } else { usize::from(rate < 100.0) };
    format!("{rate:.decimals$}")
}

/// Formats seconds as `m:ss`, or as `h:mm:ss` from an hour on.
fn format_clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_done_rate_and_time_left() {
        let began = Instant::now();
        let counts = ProgressCounts { unit: "frames", done: 1200, total: 9600, began: Some(began), shown: None };
        assert_eq!(counts.format_line(began + Duration::from_secs(2)), "1200/9600 frames, 600/s, 0:14 left");
        let counts = ProgressCounts { unit: "frames", done: 1, total: 1, began: None, shown: None };
        assert_eq!(counts.format_line(began), "1/1 frame");
        assert_eq!(format_clock(3725.5), "1:02:06");
        assert_eq!(format_rate(7.0), "7.00");
    }

    #[test]
    fn the_last_step_is_always_shown() {
        let now = Instant::now();
        let counts = ProgressCounts { done: 9, total: 9, shown: Some(now), ..ProgressCounts::default() };
        assert!(counts.is_update_due(now, Duration::from_secs(1)));
        assert!(!ProgressCounts { done: 8, ..counts }.is_update_due(now, Duration::from_secs(1)));
    }
}
