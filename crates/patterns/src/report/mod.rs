//! The report of a run: which frames were integrated, which were lost and why, how long it took,
//! and a plot of each final file.
//!
//! The report is one HTML file without external resources, with the plots in it, so that it can be
//! mailed, kept in a logbook, or opened in ten years. A script sorts the tables and zooms into mean
//! patterns; without it, all can be read all the same.

mod drift_section;
mod hosts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use file_mark::MarkedFormat;
use records::{Absent, ScanState, Summary, TaskResult, format_ranges};
use system::atomic;
use system::ownership::{OwnershipRule, ReplacePolicy, has_mark};

use crate::export::Drift;
use crate::output::{OutputFile, format_iso8601};
use crate::plot::{self, Illustration, PlotError};
use hosts::HostThroughput;

const SCRIPT: &str = include_str!("page.js");

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem;border-top:1px solid #8886;padding-top:1rem}\
table{border-collapse:collapse;margin:.8rem 0}th,td{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}\
th{font-weight:600}td.n{text-align:right;font-variant-numeric:tabular-nums}\
tr+tr td{border-top:1px solid #8883}img{max-width:100%;height:auto;background:#fff}\
.sortable th{cursor:pointer}th[aria-sort=ascending]:after{content:\" ▲\"}th[aria-sort=descending]:after{content:\" ▼\"}\
canvas{width:100%;height:320px;background:#fff;cursor:crosshair;touch-action:none}.readout{margin:0;font-size:.9em}\
tr.lost td{color:#c0392b;font-weight:600}.frames{display:block;width:100%;height:12px}\
code{font-size:.9em;overflow-wrap:anywhere}.good{color:#1a7f37}.bad{color:#c0392b;font-weight:600}";

/// Reports: the mark is their generator.
const FORMAT: MarkedFormat = MarkedFormat {
    start: b"<!DOCTYPE html>",
    mark: b"<meta name=\"generator\" content=\"azpipe ",
    is_png: false,
};

/// Claims reports that azpipe wrote and nobody changed. Reports of early versions have no generator
/// and are recognized by their title.
fn owned_reports(policy: &ReplacePolicy) -> OwnershipRule {
    let has = |path: &Path, mark: &[u8]| has_mark(path, FORMAT.start, mark);
    let is_own = move |path: &Path| {
        Ok(FORMAT.is_own(path)?
            || (has(path, b"<title>azpipe: ")? && !has(path, b"<meta name=\"generator\"")?))
    };
    OwnershipRule::new("a report, or it was changed since", is_own).with_policy(policy)
}

/// A report that is being written.
#[derive(Default)]
pub struct Report {
    rows: String,
    sections: String,
    failures: String,
    hosts: HostThroughput,
    /// The section about the drift, by final file.
    drifts: BTreeMap<PathBuf, String>,
    scans: usize,
    frames: u64,
    integrated: u64,
    /// Number of final files with frames that may get a pattern when they are integrated again.
    incomplete: usize,
    /// Number of other final files with lost frames.
    with_losses: usize,
}

impl Report {
    /// Adds a final file, with a plot if the file is given.
    ///
    /// # Errors
    /// Fails if the patterns can't be read or drawn. The report then has all but the plot.
    pub fn add(&mut self, summary: &Summary, output: Option<&OutputFile>) -> Result<(), PlotError> {
        // The sums saturate, because records may hold any numbers.
        self.scans = self.scans.saturating_add(1);
        self.frames = self.frames.saturating_add(summary.frames);
        self.integrated = self.integrated.saturating_add(summary.integrated);
        let lost: u64 = summary
            .missing
            .iter()
            .filter(|absent| absent.kind.is_loss())
            .map(|absent| absent.range.count())
            .sum();
        self.incomplete = self.incomplete.saturating_add(usize::from(!summary.up_to_date));
        self.with_losses =
            self.with_losses.saturating_add(usize::from(summary.up_to_date && lost > 0));
        let name =
            escape_html(&summary.final_file.file_stem().unwrap_or_default().to_string_lossy());
        let missing = summary.frames.saturating_sub(summary.integrated);
        let verdict = match (summary.complete, summary.up_to_date, summary.scan_state) {
            (true, ..) => "<td class=good>complete".to_owned(),
            (_, false, _) => "<td class=bad>incomplete".to_owned(),
            _ if lost > 0 => format!("<td class=bad>{lost} lost"),
            (.., ScanState::Running) => "<td>running, up to date".to_owned(),
            _ => "<td>ended early, up to date".to_owned(),
        };
        let number = self.scans;
        let _ = writeln!(
            self.rows,
            "<tr><td><a href=\"#s{number}\">{name}</a></td><td>{}</td><td>{}</td><td class=n>{}</td>\
             <td class=n>{}</td><td class=n>{missing}</td>{verdict}</td></tr>",
            escape_html(&summary.entry),
            escape_html(&summary.detector),
            summary.frames,
            summary.integrated,
        );
        let _ = writeln!(self.sections, "<h2 id=\"s{number}\">{name}</h2>");
        self.write_facts(summary, output);
        self.write_losses(summary);
        if let Some(illustration) = output.map(plot::illustrate).transpose()? {
            let picture = STANDARD.encode(&illustration.png);
            let _ = writeln!(
                self.sections,
                "<img alt=\"patterns of {name}\" src=\"data:image/png;base64,{picture}\">"
            );
            let data = pattern_json(&illustration);
            let _ = writeln!(
                self.sections,
                "<script type=\"application/json\" class=\"pattern\">{data}</script>"
            );
        }
        self.sections.extend(self.drifts.get(summary.final_file.as_path()).map(String::as_str));
        Ok(())
    }

    /// Sets the drift in a final file, with its plot, a PNG file. It is shown when the final file is
    /// added.
    pub fn set_drift(&mut self, final_file: &Path, drift: &Drift, png: &[u8]) {
        self.drifts.insert(final_file.to_owned(), drift_section::render(drift, png));
    }

    /// Adds the times of a task.
    pub fn add_result(&mut self, result: &TaskResult) {
        self.hosts.add(result);
    }

    /// Adds a failure of this filter or a previous one.
    pub fn add_failure(&mut self, about: &str, why: &str) {
        let _ = writeln!(
            self.failures,
            "<tr><td><code>{}</code></td><td>{}</td></tr>",
            escape_html(about),
            escape_html(why)
        );
    }

    /// Checks that a report can be written to a path: its directory can be written to, and an
    /// existing file may be replaced.
    ///
    /// # Errors
    /// Fails if the directory does not exist or can't be written to, or if the file is somebody
    /// else's.
    pub fn check(path: &Path, policy: &ReplacePolicy) -> std::io::Result<()> {
        file_mark::check_target(path, &owned_reports(policy))
    }

    /// Writes the report. The file appears complete and replaces an earlier report.
    ///
    /// # Errors
    /// Fails if the file can't be written, or is somebody else's.
    pub fn write(&self, path: &Path, policy: &ReplacePolicy) -> std::io::Result<()> {
        let mut page = self.render().into_bytes();
        FORMAT.seal(&mut page);
        atomic::write(path, page, &owned_reports(policy))
    }

    fn render(&self) -> String {
        let (frames, integrated) = (self.frames, self.integrated);
        let finals = format!("{} final{}", self.scans, if self.scans == 1 { "" } else { "s" });
        let troubles = [
            (self.incomplete > 0).then(|| format!("{} incomplete.", self.incomplete)),
            (self.with_losses > 0).then(|| format!("{} with lost frames.", self.with_losses)),
            (!self.failures.is_empty()).then(|| "Some inputs failed.".to_owned()),
        ];
        let troubles: Vec<String> = troubles.into_iter().flatten().collect();
        let lost = if troubles.is_empty() {
            "<span class=good>Nothing is left to do.</span>".to_owned()
        } else {
            format!("<span class=bad>{}</span>", troubles.join(" "))
        };
        let time = format_iso8601(std::time::SystemTime::now());
        let failures = match self.failures.as_str() {
            "" => String::new(),
            rows => format!(
                "<h2>Failures</h2>\n<table>\n<tr><th>what</th><th>why</th></tr>\n{rows}</table>\n"
            ),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"generator\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>azpipe: {finals}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>Azimuthal integration</h1>\n\
             <p>{finals}, {integrated} of {frames} frames integrated. {lost}<br>azpipe {}, {time}</p>\n\
             <table class=sortable>\n<tr><th>final</th><th>entry</th><th>detector</th><th>frames</th><th>integrated</th>\
             <th>missing</th><th></th></tr>\n{}</table>\n{failures}{}{}<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            file_mark::unsealed_mark(),
            env!("CARGO_PKG_VERSION"),
            self.rows,
            self.hosts.to_html(),
            self.sections,
        )
    }

    fn write_facts(&mut self, summary: &Summary, output: Option<&OutputFile>) {
        let mut facts = vec![("final", html_code(&summary.final_file.to_string_lossy()))];
        facts.push((
            "raw data",
            format!(
                "{} {}",
                html_code(&summary.file.to_string_lossy()),
                escape_html(&summary.entry)
            ),
        ));
        if let Some(output) = output {
            let scan = &output.task.acquisition;
            facts.extend(scan.title.iter().map(|title| ("title", escape_html(title))));
            let times: Vec<&str> = [&scan.start_time, &scan.end_time]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect();
            facts.push(("measured", escape_html(&times.join(" to "))));
            let axes =
                output.shared.axes.iter().zip(output.shared.axes.bin_ranges(&output.recipe)).map(
                    |(axis, limits)| {
                        // Rounding removes the tiny rest of an edge at 0.
                        let [low, high] = limits.map(|edge| (edge * 1e5).round() / 1e5 + 0.0);
                        format!(
                            "{} bins of {} from {low} to {high}",
                            axis.centers.len(),
                            escape_html(&axis.plot_label())
                        )
                    },
                );
            facts.push(("bins", axes.collect::<Vec<_>>().join("<br>")));
            facts.push(("recipe", recipe_settings(&output.recipe)));
        }
        let seconds = &summary.seconds;
        if seconds.wall > 0.0 {
            let rate = summary.integrated as f64 / seconds.wall;
            facts.push((
                "time",
                format!(
                    "{:.1} s by the clocks of its tasks ({rate:.0} frames/s); over all threads {:.1} s of reading, \
                     {:.1} s of integrating, {:.1} s of writing",
                    seconds.wall, seconds.read, seconds.integrate, seconds.write
                ),
            ));
        }
        facts.push((
            "digests",
            format!(
                "data {}, recipe {}",
                html_code(&summary.data_digest),
                html_code(&summary.recipe_digest)
            ),
        ));
        let rows: String = facts
            .iter()
            .map(|(name, fact)| format!("<tr><th>{name}</th><td>{fact}</td></tr>\n"))
            .collect();
        let _ = writeln!(self.sections, "<table>\n{rows}</table>");
    }

    fn write_losses(&mut self, summary: &Summary) {
        if summary.missing.is_empty() {
            let _ = writeln!(self.sections, "<p class=good>Every frame has a pattern.</p>");
            return;
        }
        const MAX_RANGES: usize = 20;
        let row = |absent: &Absent| {
            let (count, frames) = (absent.range.count(), format_ranges(&absent.range, MAX_RANGES));
            let class = if absent.kind.is_loss() { " class=lost" } else { "" };
            format!(
                "<tr{class}><td class=n>{count}</td><td>{}</td><td>{frames}</td></tr>\n",
                escape_html(&absent.reason)
            )
        };
        let rows: String = summary.missing.iter().map(row).collect();
        let _ = writeln!(self.sections, "{}", frame_bar(summary));
        let head = "<tr><th>frames without a pattern</th><th>why</th><th>which</th></tr>";
        let _ = writeln!(self.sections, "<table>\n{head}\n{rows}</table>");
    }
}

/// Returns a bar of the frames of a scan: green with a pattern, red where lost, grey where there is
/// none for another reason.
fn frame_bar(summary: &Summary) -> String {
    const COLORS: [&str; 3] = ["#1a7f37", "#b8b8bc", "#c0392b"];
    // More can't be told apart on a screen. Of the frames in a column, a lost one is shown before
    // one that was never taken.
    let columns = summary.frames.clamp(1, 1000);
    let per_frame = columns as f64 / summary.frames.max(1) as f64;
    let column_of = |frame: u64| (frame as f64 * per_frame) as usize;
    let mut bar = vec![0_usize; columns as usize];
    for absent in &summary.missing {
        let kind = if absent.kind.is_loss() { 2 } else { 1 };
        for span in absent.range.as_slice().iter().filter(|span| span.start() < span.stop()) {
            let last = column_of(span.stop().saturating_sub(1)).min(bar.len().saturating_sub(1));
            for column in bar.iter_mut().take(last.saturating_add(1)).skip(column_of(span.start()))
            {
                *column = kind.max(*column);
            }
        }
    }
    let mut pieces = String::new();
    let mut from = 0_usize;
    for run in bar.chunk_by(|one, next| one == next) {
        let percent = |count: usize| count as f64 / columns as f64 * 100.0;
        let (x, width, color) = (percent(from), percent(run.len()), COLORS[run[0]]);
        pieces += &format!(
            "<rect x=\"{x:.3}%\" y=\"0\" width=\"{width:.3}%\" height=\"12\" fill=\"{color}\"/>"
        );
        from = from.saturating_add(run.len());
    }
    format!(
        "<svg class=frames role=\"img\"><title>frames with and without a pattern</title>{pieces}</svg>"
    )
}

/// Returns the mean pattern as JSON for the page's script; null for a bin without a value.
fn pattern_json(illustration: &Illustration) -> String {
    let numbers = |values: &[f64]| -> Vec<serde_json::Value> {
        // Seven digits are all that intensities of 32 bits have.
        let rounded =
            values.iter().map(|value| format!("{value:.6e}").parse::<f64>().unwrap_or(f64::NAN));
        rounded.map(serde_json::Value::from).collect()
    };
    let json = serde_json::json!({
        "x_label": illustration.radial_label,
        "y_label": illustration.intensity_label,
        "x": numbers(&illustration.centers),
        "y": numbers(&illustration.mean),
        "error": numbers(&illustration.error),
    });
    // A title could end the script.
    json.to_string().replace('<', "\\u003c")
}

/// Returns the settings of a recipe as in a recipe file, except the text of the PONI file.
fn recipe_settings(recipe: &recipe::Recipe) -> String {
    let Ok(settings) = toml::from_str::<toml::Table>(&recipe.to_toml()) else {
        return String::new();
    };
    let plain = settings.iter().filter(|(name, _)| !matches!(name.as_str(), "poni" | "version"));
    let one = |(name, value): (&String, &toml::Value)| format!("{name} = {value}");
    plain.map(one).map(|setting| html_code(&setting)).collect::<Vec<_>>().join("<br>")
}

fn html_code(text: &str) -> String {
    format!("<code>{}</code>", escape_html(text))
}

/// Escapes text for HTML. File names may contain any characters.
fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No characters, in HTML neither.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            char if char.is_control() => out.push(' '),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{AbsentKind, Span, Spans};

    #[test]
    fn a_name_is_text_and_a_loss_has_its_reason() {
        let mut report = Report::default();
        let missing = vec![Absent {
            range: Span::new(3, 5).into(),
            reason: "file <missing>".to_owned(),
            ..Absent::default()
        }];
        let summary = Summary {
            final_file: "/out/a<script>&\"'.h5".into(),
            frames: 10,
            integrated: 8,
            missing,
            ..Summary::default()
        };
        report.add(&summary, None).unwrap();
        report.add_failure("b.h5", "not <a> file");
        let page = report.render();
        assert!(
            page.contains("a&lt;script&gt;&amp;&quot;&#39;") && !page.contains("a<script"),
            "{page}"
        );
        assert!(
            page.contains("<td class=n>2</td><td>file &lt;missing&gt;</td><td>3 to 4</td>"),
            "{page}"
        );
        assert!(page.contains("1 incomplete.") && page.contains("not &lt;a&gt; file"), "{page}");
    }

    #[test]
    fn what_is_no_character_is_shown_as_one_that_is_unknown() {
        assert_eq!(escape_html("a\u{1b}b\u{fffe}\u{ffff}<"), "a b\u{fffd}\u{fffd}&lt;");
    }

    #[test]
    fn only_complete_finals_are_green() {
        let page =
            |complete: bool, up_to_date: bool, scan_state: ScanState, kind: Option<AbsentKind>| {
                let missing =
                    |kind| Absent { range: Spans::first_n(20), kind, reason: "gone".to_owned() };
                let missing: Vec<Absent> = kind.map(missing).into_iter().collect();
                let mut report = Report::default();
                report
                    .add(
                        &Summary {
                            frames: 30,
                            integrated: 10,
                            missing,
                            complete,
                            up_to_date,
                            scan_state,
                            ..Summary::default()
                        },
                        None,
                    )
                    .unwrap();
                report.render()
            };
        let has_good = |page: &str| page.contains("<td class=good>");
        let left = "Nothing is left to do.";
        let whole = page(true, true, ScanState::Ended, None);
        assert!(has_good(&whole) && whole.contains(left), "{whole}");
        let lost = page(false, true, ScanState::Ended, Some(AbsentKind::Missing));
        assert!(
            !has_good(&lost) && lost.contains("<td class=bad>20 lost") && !lost.contains(left),
            "{lost}"
        );
        let unreadable = page(false, false, ScanState::Ended, Some(AbsentKind::Unreadable));
        assert!(
            !has_good(&unreadable) && unreadable.contains("<td class=bad>incomplete"),
            "{unreadable}"
        );
        for (state, word) in [(ScanState::Aborted, "ended early"), (ScanState::Running, "running")]
        {
            let early = page(false, true, state, Some(AbsentKind::NeverTaken));
            assert!(
                !has_good(&early) && early.contains(&format!("<td>{word}, up to date")),
                "{early}"
            );
            assert!(early.contains(left), "{early}");
        }
        let mut failed = Report::default();
        failed.add_failure("scan-find: a.h5", "EIO");
        assert!(!failed.render().contains(left));
    }
}
