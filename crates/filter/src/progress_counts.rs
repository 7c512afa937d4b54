//! The counts of a run, and the texts that show them: the progress line, a JSON object, and the
//! closing line.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use records::format_count;

/// The rate is that of this time before now.
const RATE_WINDOW: Duration = Duration::from_secs(30);

/// Two samples of the counts are at least this long apart.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Frames of a run, by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames that have what the filter makes of them, by this run or an earlier one.
    pub done: u64,
    /// Frames that should have it and don't.
    pub failed: u64,
    /// Frames that were never taken, and so have nothing that it could be made of.
    pub never_taken: u64,
}

impl FrameCounts {
    /// Says how many frames there are without a result, by why.
    fn without_result(self) -> impl Iterator<Item = String> {
        let counts = [(self.failed, "failed"), (self.never_taken, "never taken")];
        counts
            .into_iter()
            .filter(|(frames, _)| *frames > 0)
            .map(|(frames, why)| format!("{frames} {why}"))
    }
}

/// The counts of frames that later work counts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedFrames {
    /// The frames, by what has become of them.
    pub frames: FrameCounts,
    /// The number of those that count as done by an earlier run, and are to count anew.
    pub found: u64,
    /// The number of those done whose result outlasts the run.
    pub kept: u64,
}

/// The work that a filter has just done, besides what it found done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Frames processed, failed ones included.
    pub frames: u64,
    /// Frames of them that failed.
    pub failed: u64,
    /// Stored bytes read.
    pub bytes: u64,
}

/// The counts of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) frames: FrameCounts,
    /// Frames of the work that is known.
    pub(crate) total: u64,
    /// True while there may be more work than `total`.
    pub(crate) total_may_grow: bool,
    /// Frames whose result outlasts the run if it is killed now.
    pub(crate) kept: u64,
    /// Frames that an earlier run has done.
    pub(crate) found: u64,
    /// Frames that this run has processed itself.
    pub(crate) worked: u64,
    pub(crate) bytes: u64,
    /// The scan begun last.
    pub(crate) scan: String,
    pub(crate) began: Option<Instant>,
    samples: VecDeque<Sample>,
}

/// The frames and bytes that had been processed at some time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    worked: u64,
    bytes: u64,
}

/// Frames and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    frames: f64,
    bytes: f64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd<'a> {
    /// All input was processed. What limited the speed is shown if the run processed any frame.
    Finished {
        /// The stage that limited the speed, such as `read`, if it is known.
        limited_by: Option<&'static str>,
        /// How busy each stage was, for people.
        stages: &'a str,
    },
    /// A signal or a deadline ended the run. The text says how to go on.
    Stopped {
        /// The advice, such as `run the same command again to go on`.
        advice: &'static str,
    },
    /// An error ended the run, and is reported besides. The text says how to go on.
    Failed {
        /// The advice, such as `once the error is mended, run the same command again`.
        advice: &'static str,
    },
}

impl Counts {
    /// Remembers the counts for the rate. The time before the first frame is left out of it,
    /// because setting up takes a time of its own.
    pub(crate) fn sample(&mut self, now: Instant) {
        let sample = Sample { at: now, worked: self.worked, bytes: self.bytes };
        if self.worked == 0 {
            self.samples.clear();
        }
        if self.samples.back().is_none_or(|last| now.duration_since(last.at) >= SAMPLE_INTERVAL) {
            self.samples.push_back(sample);
        }
        // One sample before the window stays, so that the rate covers all of the window.
        while self.samples.get(1).is_some_and(|second| now.duration_since(second.at) >= RATE_WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// Returns the rates of the last time.
    fn recent_rates(&self, now: Instant) -> Option<Rates> {
        let first =
            self.samples.front().filter(|first| first.worked < self.worked || first.worked > 0)?;
        self.rates_since(*first, now)
    }

    /// Returns the rates of the whole run.
    fn overall_rates(&self, now: Instant) -> Option<Rates> {
        self.rates_since(Sample { at: self.began?, worked: 0, bytes: 0 }, now)
            .filter(|rates| rates.frames > 0.0)
    }

    fn rates_since(&self, first: Sample, now: Instant) -> Option<Rates> {
        let seconds = now.duration_since(first.at).as_secs_f64();
        let per_second = |count: u64| count as f64 / seconds;
        (seconds > 0.0).then(|| Rates {
            frames: per_second(self.worked.saturating_sub(first.worked)),
            bytes: per_second(self.bytes.saturating_sub(first.bytes)),
        })
    }

    fn left(&self) -> u64 {
        let FrameCounts { done, failed, never_taken } = self.frames;
        self.total.saturating_sub(done + failed + never_taken)
    }

    fn seconds_left(&self, rates: Option<Rates>) -> Option<f64> {
        rates.filter(|rates| rates.frames > 0.0).map(|rates| self.left() as f64 / rates.frames)
    }

    fn seconds(&self, now: Instant) -> f64 {
        self.began.map_or(0.0, |began| now.duration_since(began).as_secs_f64())
    }

    /// Formats `1200/9600 frames, 3 failed, 812/s, 1.20 GB/s, 0:10 left, lab6_0001.h5 1.1`.
    pub(crate) fn format_line(&self, now: Instant) -> String {
        let done = self.frames.done;
        let (total, unit) = (self.total, if self.total == 1 { "frame" } else { "frames" });
        let (least, mut parts) = match self.total_may_grow {
            true => ("at least ", vec![format!("{done} of at least {total} {unit}")]),
            false => ("", vec![format!("{done}/{total} {unit}")]),
        };
        parts.extend(self.frames.without_result());
        let rates = self.recent_rates(now);
        parts.extend(rates.map(format_rates));
        let left = self.seconds_left(rates).filter(|_| self.left() > 0);
        parts.extend(left.map(|seconds| format!("{least}{} left", format_clock(seconds))));
        parts.extend((!self.scan.is_empty()).then(|| self.scan.clone()));
        parts.join(", ")
    }

    /// Formats a JSON object for programs; `end` is given for the last one, whose rates are those
    /// of the whole run.
    pub(crate) fn format_json(
        &self,
        filter: &str,
        now: Instant,
        end: Option<RunEnd<'_>>,
    ) -> String {
        let rates = if end.is_some() { self.overall_rates(now) } else { self.recent_rates(now) };
        let left = match end {
            None => self.seconds_left(rates).map(round_tenths),
            Some(_) => None,
        };
        let (state, limited_by) = match end {
            None => ("running", None),
            Some(RunEnd::Finished { limited_by, .. }) => {
                ("finished", limited_by.filter(|_| self.worked > 0))
            }
            Some(RunEnd::Stopped { .. } | RunEnd::Failed { .. }) => ("stopped", None),
        };
        let mut object = json!({
            "type": "progress",
            "filter": filter,
            "state": state,
            "done": self.frames.done,
            "total": self.total,
            "total_is_exact": !self.total_may_grow,
            "failed": self.frames.failed,
            "never_taken": self.frames.never_taken,
            "kept": self.kept,
            "seconds": round_tenths(self.seconds(now)),
            "frames_per_second": rates.map(|rates| round_tenths(rates.frames)),
            "bytes_per_second": rates.map(|rates| rates.bytes.round()),
            "seconds_left": left,
            "scan": self.scan,
        });
        if let (Some(limited_by), Value::Object(fields)) = (limited_by, &mut object) {
            fields.insert("limited_by".to_owned(), limited_by.into());
        }
        object.to_string()
    }

    /// Formats the line that sums up a run; `None` if there was nothing to do.
    pub(crate) fn format_end(&self, now: Instant, end: RunEnd<'_>) -> Option<String> {
        let done = self.frames.done;
        let total = format_count(self.total, "frame");
        let stages = match end {
            RunEnd::Stopped { advice } if self.total == 0 => {
                return Some(format!("stopped before the first frame; {advice}"));
            }
            _ if self.total == 0 => return None,
            RunEnd::Stopped { advice } | RunEnd::Failed { advice } => {
                let least = if self.total_may_grow { "at least " } else { "" };
                return Some(format!("{} of {least}{total} done and kept; {advice}", self.kept));
            }
            RunEnd::Finished { stages, .. } => stages,
        };
        let mut line = if done == self.total { total } else { format!("{done} of {total}") };
        for part in self.frames.without_result() {
            line += &format!(", {part}");
        }
        match self.found {
            0 => (),
            found if found + self.frames.never_taken == self.total => line += ", all done before",
            found => line += &format!(", {found} of them done before"),
        }
        line += &format!(", in {}", format_seconds(self.seconds(now)));
        if let Some(rates) = self.overall_rates(now) {
            line += &format!(": {}", format_rates(rates));
            if !stages.is_empty() {
                line += &format!("; {stages}");
            }
        }
        Some(line)
    }
}

fn format_rates(rates: Rates) -> String {
    let frames = format_three_digits(rates.frames);
    match rates.bytes {
        bytes if bytes >= 1e9 => format!("{frames}/s, {} GB/s", format_three_digits(bytes / 1e9)),
        bytes if bytes > 0.0 => format!("{frames}/s, {} MB/s", format_three_digits(bytes / 1e6)),
        _ => format!("{frames}/s"),
    }
}

fn format_three_digits(rate: f64) -> String {
    let decimals = if rate < 10.0 { 2 } else { usize::from(rate < 100.0) };
    format!("{rate:.decimals$}")
}

fn round_tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Formats a duration: `0.42 s` below a minute, then as [`format_clock`].
fn format_seconds(seconds: f64) -> String {
    if seconds < 59.5 {
        format!("{} s", format_three_digits(seconds))
    } else {
        format_clock(seconds)
    }
}

/// Formats seconds as `m:ss`, or as `h:mm:ss` from an hour on.
fn format_clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(done: u64, total: u64) -> Counts {
        let frames = FrameCounts { done, ..FrameCounts::default() };
        Counts { frames, total, worked: done, ..Counts::default() }
    }

    #[test]
    fn a_line_tells_done_failed_rates_time_left_and_scan() {
        let began = Instant::now();
        let mut run = counts(0, 9600);
        assert_eq!(run.format_line(began), "0/9600 frames");
        // The ten seconds before the first frame say nothing about the rate.
        (0..=10).for_each(|second| run.sample(began + Duration::from_secs(second)));
        run = Counts {
            frames: FrameCounts { done: 1200, failed: 3, never_taken: 0 },
            worked: 1203,
            bytes: 2_406_000_000,
            ..run
        };
        run.scan = "lab6_0001.h5 1.1".to_owned();
        let now = began + Duration::from_secs(12);
        run.sample(now);
        let line = run.format_line(now);
        assert_eq!(
            line,
            "1200/9600 frames, 3 failed, 602/s, 1.20 GB/s, 0:14 left, lab6_0001.h5 1.1"
        );
        run.total_may_grow = true;
        let line = run.format_line(now);
        assert!(
            line.starts_with("1200 of at least 9600 frames, ")
                && line.contains(", at least 0:14 left, "),
            "{line}"
        );
        assert_eq!(counts(1, 1).format_line(began), "1/1 frame");
        assert_eq!(format_clock(3725.5), "1:02:06");
    }

    #[test]
    fn the_rate_is_that_of_the_last_half_minute() {
        let began = Instant::now();
        let at = |second| began + Duration::from_secs(second);
        let mut run = counts(0, 10_000);
        for second in 0..100 {
            run.worked += if second < 50 { 10 } else { 20 };
            run.sample(at(second));
        }
        assert_eq!(run.recent_rates(at(99)).map(|rates| rates.frames.round()), Some(20.0));
        (100..200).for_each(|second| run.sample(at(second)));
        assert_eq!(
            (run.recent_rates(at(199)).map(|rates| rates.frames), run.samples.len()),
            (Some(0.0), 31)
        );
        assert!(run.format_line(at(199)).ends_with(", 0.00/s"), "no time left is known");
    }

    #[test]
    fn the_closing_line_sums_up() {
        let began = Instant::now();
        let now = began + Duration::from_secs(4);
        let finished = RunEnd::Finished { limited_by: Some("read"), stages: "limited by reading" };
        let line = |run: &Counts, end| run.format_end(now, end).expect("there was work");
        let run = Counts { began: Some(began), bytes: 48_000_000, kept: 96, ..counts(96, 96) };
        assert_eq!(
            line(&run, finished),
            "96 frames, in 4.00 s: 24.0/s, 12.0 MB/s; limited by reading"
        );
        let frames = FrameCounts { done: 90, failed: 6, never_taken: 0 };
        let failed = Counts { frames, found: 50, worked: 46, ..run };
        let text = "90 of 96 frames, 6 failed, 50 of them done before, in 4.00 s: 11.5/s, 12.0 MB/s; limited by reading";
        assert_eq!(line(&failed, finished), text);
        let aborted = FrameCounts { done: 90, failed: 0, never_taken: 6 };
        let aborted = Counts { frames: aborted, found: 90, worked: 0, ..counts(90, 96) };
        assert_eq!(aborted.left(), 0);
        assert_eq!(
            line(&aborted, finished),
            "90 of 96 frames, 6 never taken, all done before, in 0.00 s"
        );
        let again = Counts { found: 96, worked: 0, ..counts(96, 96) };
        assert_eq!(line(&again, finished), "96 frames, all done before, in 0.00 s");
        let stopped = Counts { kept: 32, total_may_grow: true, ..counts(40, 96) };
        let stop = RunEnd::Stopped { advice: "run it again" };
        assert_eq!(line(&stopped, stop), "32 of at least 96 frames done and kept; run it again");
        let nothing = Counts::default();
        assert_eq!(line(&nothing, stop), "stopped before the first frame; run it again");
        let failed = RunEnd::Failed { advice: "run it again" };
        assert_eq!([finished, failed].map(|end| nothing.format_end(now, end)), [None, None]);
    }

    #[test]
    fn an_object_has_all_fields() {
        let began = Instant::now();
        let run = Counts { began: Some(began), scan: "a.h5 1.1".to_owned(), ..counts(96, 96) };
        let now = began + Duration::from_secs(4);
        let end = RunEnd::Finished { limited_by: Some("read"), stages: "" };
        let expected = r#"{"type":"progress","filter":"x","state":"finished","done":96,"total":96,"total_is_exact":true,"failed":0,"never_taken":0,"kept":0,"seconds":4.0,"frames_per_second":24.0,"bytes_per_second":0.0,"seconds_left":null,"scan":"a.h5 1.1","limited_by":"read"}"#;
        assert_eq!(run.format_json("x", now, Some(end)), expected);
        let running = run.format_json("x", now, None);
        assert!(
            running.contains(r#""state":"running""#)
                && running.contains(r#""frames_per_second":null"#),
            "{running}"
        );
    }
}
