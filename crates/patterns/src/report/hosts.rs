//! [`HostThroughput`]: how fast each machine integrated its tasks, and what took the time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use records::{Seconds, TaskResult};

use super::escape_html;

/// Width and height of the curve of a host, in pixels.
const CURVE_SIZE: (f64, f64) = (360.0, 48.0);

/// The results of each machine, in the order of their records.
#[derive(Default)]
pub(super) struct HostThroughput(BTreeMap<String, HostResults>);

#[derive(Default)]
struct HostResults {
    /// Frames and wall-clock seconds of each task.
    tasks: Vec<(u64, f64)>,
    frames: u64,
    bytes: u64,
    seconds: Seconds,
}

impl HostThroughput {
    /// Adds a result record. Tasks that were done before are left out, because their times are
    /// those of an earlier run.
    pub fn add(&mut self, result: &TaskResult) {
        if result.skipped {
            return;
        }
        let host = self.0.entry(result.host.clone()).or_default();
        let frames = result.done.count();
        host.tasks.push((frames, result.seconds.wall));
        // The sums saturate, because records may hold any numbers.
        host.frames = host.frames.saturating_add(frames);
        host.bytes = host.bytes.saturating_add(result.read_bytes);
        host.seconds.read += result.seconds.read;
        host.seconds.integrate += result.seconds.integrate;
        host.seconds.write += result.seconds.write;
        host.seconds.wall += result.seconds.wall;
    }

    /// Returns the section of the report; empty without results.
    pub fn to_html(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut rows = String::new();
        for (host, results) in &self.0 {
            let wall = results.seconds.wall;
            let per_second = |amount: f64| if wall > 0.0 { amount / wall } else { 0.0 };
            let _ = writeln!(
                rows,
                "<tr><td>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{wall:.1}</td><td class=n>{:.1}</td>\
                 <td class=n>{:.1}</td><td class=n>{}</td><td>{}</td><td>{}</td></tr>",
                escape_html(if host.is_empty() { "unknown" } else { host }),
                results.tasks.len(),
                results.frames,
                per_second(results.frames as f64),
                per_second(results.bytes as f64 / 1e6),
                results.core_hours_per_million(),
                describe_bound(&results.seconds),
                results.curve(),
            );
        }
        format!(
            "<h2 id=\"throughput\">Throughput</h2>\n<table class=sortable>\n<tr><th>host</th><th>tasks</th><th>frames</th>\
             <th>seconds</th><th>frames/s</th><th>MB/s</th><th>core-hours per 10⁶ frames</th><th>time went to</th><th>frames/s, task by task</th></tr>\n{rows}</table>\n\
             <p>Seconds are by the clocks of the tasks, MB are of stored data. Stages are summed over all threads; \
             core-hours are those of integrating and writing, as reading mostly waits.</p>\n"
        )
    }
}

impl HostResults {
    /// Returns how many core-hours a million of such frames take; empty without frames.
    fn core_hours_per_million(&self) -> String {
        let seconds = self.seconds.integrate + self.seconds.write;
        match self.frames {
            0 => String::new(),
            frames => format!("{:.2}", seconds / frames as f64 * 1e6 / 3600.0),
        }
    }

    /// Returns a picture of the tasks' rates, from the first to the last task.
    fn curve(&self) -> String {
        let (width, height) = CURVE_SIZE;
        let rates: Vec<(f64, f64)> = self
            .tasks
            .iter()
            .filter(|(_, wall)| *wall > 0.0 && wall.is_finite())
            .map(|(frames, wall)| (*frames as f64 / wall, *wall))
            .collect();
        let most = rates.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
        let all: f64 = rates.iter().map(|(_, wall)| wall).sum();
        if most == 0.0 {
            return String::new();
        }
        let (mut points, mut elapsed) = (String::new(), 0.0);
        for (rate, wall) in rates {
            let y = height - 2.0 - (height - 4.0) * rate / most;
            for x in [elapsed, elapsed + wall] {
                let _ = write!(points, "{:.1},{y:.1} ", width * x / all);
            }
            elapsed += wall;
        }
        format!(
            "<svg width=\"{width}\" height=\"{height}\" role=\"img\"><title>up to {most:.1} frames/s</title>\
             <polyline points=\"{}\" fill=\"none\" stroke=\"#1f569c\" stroke-width=\"1.5\"/></svg>",
            points.trim_end()
        )
    }
}

/// Describes the share of each stage, the longest first.
fn describe_bound(seconds: &Seconds) -> String {
    let mut stages =
        [("reading", seconds.read), ("integrating", seconds.integrate), ("writing", seconds.write)];
    stages.sort_by(|one, two| two.1.total_cmp(&one.1));
    let all: f64 = stages.iter().map(|(_, seconds)| seconds).sum();
    if all <= 0.0 {
        return String::new();
    }
    stages.map(|(stage, seconds)| format!("{stage} {:.0} %", 100.0 * seconds / all)).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Spans;

    #[test]
    fn each_host_has_its_rate_and_what_bounded_it() {
        let mut hosts = HostThroughput::default();
        for (host, wall, skipped) in
            [("node<1>", 2.0, false), ("node<1>", 3.0, false), ("node2", 1.0, true)]
        {
            let seconds = Seconds { read: 4.0, integrate: 1.0, write: 0.0, wall };
            let (done, host) = (Spans::first_n(50), host.to_owned());
            hosts.add(&TaskResult {
                done,
                host,
                skipped,
                seconds,
                read_bytes: 10_000_000,
                ..TaskResult::default()
            });
        }
        let html = hosts.to_html();
        let expected = "<td>node&lt;1&gt;</td><td class=n>2</td><td class=n>100</td><td class=n>5.0</td><td class=n>20.0</td>\
                        <td class=n>4.0</td><td class=n>5.56</td><td>reading 80 %, integrating 20 %, writing 0 %</td><td><svg";
        assert!(html.contains(expected) && !html.contains("node2"), "{html}");
    }
}
