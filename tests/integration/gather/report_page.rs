//! The report in a headless Chromium: tables are sorted by clicks, patterns zoomed, and the numbers
//! are those of the records.

use std::fs;
use std::path::Path;
use std::process::Command;

use sample::Options;
use serde_json::Value;

use super::h5web::h5web_and_browser;
use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

#[test]
fn a_report_is_sorted_and_zoomed_and_shows_the_numbers_of_the_records() {
    let Some((modules, browser)) = h5web_and_browser() else { return };
    let workspace = Workspace::new(&Options { scans: 2, frames: 12, ..small_options() });
    let tasks = workspace.plan("out", &["--by", "frames=4"]);
    // The second scan is not integrated to its end.
    let all_but_last: Vec<&str> = tasks.lines().take(5).collect();
    let results =
        run("ai-integrate", NO_ARGUMENTS, &(all_but_last.join("\n") + "\n")).assert_success();
    let page = workspace.path("run.html");
    let flags = ["--report", page.to_str().unwrap(), "--export", "xye"];
    let gathered = run("gather", &flags, &results.stdout);
    assert_eq!(gathered.status, 1, "four frames are missing");
    let summaries = gathered.records("summary");
    let screenshot =
        std::env::var_os("AZPIPE_SCREENSHOT").map_or(workspace.path("report.png"), Into::into);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/look.mjs");
    let output = Command::new("node")
        .args([&script, &modules, &browser, &page, &screenshot])
        .output()
        .expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["errors"], serde_json::json!([]));

    // Integrated frames are the fifth column.
    let column = |rows: &str, column: usize| -> Vec<String> {
        let rows = seen[rows].as_array().unwrap();
        rows.iter().map(|row| row[column].as_str().unwrap().to_owned()).collect()
    };
    let words = |words: [&str; 2]| words.map(str::to_owned).to_vec();
    let counts: Vec<String> =
        summaries.iter().map(|summary| summary["integrated"].to_string()).collect();
    assert_eq!(column("first", 4), counts);
    assert_eq!(
        (column("ascending", 4), column("descending", 4)),
        (words(["8", "12"]), words(["12", "8"])),
        "{seen}"
    );

    let number = |value: &Value| value.as_f64().unwrap();
    let [whole, zoomed, again] =
        ["whole", "zoomed", "again"].map(|name| [number(&seen[name][0]), number(&seen[name][1])]);
    assert!(zoomed[0] > whole[0] && zoomed[1] < whole[1], "{zoomed:?} of {whole:?}");
    assert_eq!(again, whole);
    // The value under the pointer is that of the export.
    let readout = seen["readout"].as_str().unwrap();
    let words: Vec<f64> = readout.split([' ', ':']).filter_map(|word| word.parse().ok()).collect();
    let [q, value, error] = words[..] else { panic!("{readout}") };
    assert!((zoomed[0]..zoomed[1]).contains(&q), "{readout}");
    let export = fs::read_to_string(summaries[0]["export"][0].as_str().unwrap()).unwrap();
    let rows = export
        .lines()
        .map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<f64>>());
    let row = rows.min_by(|one, two| (one[0] - q).abs().total_cmp(&(two[0] - q).abs())).unwrap();
    assert!(
        (row[1] / value - 1.0).abs() < 1e-3 && (row[2] / error - 1.0).abs() < 0.2,
        "{readout}: {row:?}"
    );

    let text = seen["text"].as_str().unwrap();
    for words in [
        "2 finals, 20 of 24 frames integrated",
        "not integrated",
        "frames/s, task by task",
        "integrating",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(seen["pictures"], 2, "pictures are there without scripts, too");
}
