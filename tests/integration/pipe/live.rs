//! A scan is followed while it is written: each frame is integrated once, and the pipe ends by
//! itself. How soon a frame can be read is for `scripts/bench follow` to say.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{NO_ARGUMENTS, program, python, run, source_file};

fn start_writer(python: &Path, raw: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(python);
    command
        .arg(source_file("pipe/live.py"))
        .arg(raw)
        .args(arguments)
        .env("PYTHONHASHSEED", "0")
        .stdout(Stdio::null());
    command.spawn().expect("Python starts")
}

fn read_records(text: &str, kind: &str) -> Vec<Value> {
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a JSON line"));
    all.filter(|record| record["type"] == kind).collect()
}

/// Stored bytes that all results have read.
fn sum_read_bytes(results: &str) -> u64 {
    read_records(results, "result").iter().filter_map(|result| result["read_bytes"].as_u64()).sum()
}

/// Of the last summary of each final, in order: its name, how many frames have a pattern, and the
/// digest of its data.
fn last_summaries(text: &str) -> Vec<(String, u64, String)> {
    let mut last = std::collections::BTreeMap::new();
    for summary in read_records(text, "summary") {
        let name = Path::new(summary["final"].as_str().unwrap())
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let digest = summary["data_digest"].as_str().unwrap_or_default().to_owned();
        last.insert(name, (summary["integrated"].as_u64().unwrap(), digest));
    }
    last.into_iter().map(|(name, (integrated, digest))| (name, integrated, digest)).collect()
}

#[test]
fn a_scan_that_is_followed_is_integrated_once_and_as_if_it_had_been_there() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    let (raw, live, quiet) =
        (place.path().join("raw"), place.path().join("live"), place.path().join("quiet"));
    std::fs::create_dir(&raw).unwrap();
    let poni = place.path().join("live.poni");
    let of_poni = "poni_version: 2.1\nDetector: Detector\nDetector_config: {\"pixel1\": 172e-6, \"pixel2\": 172e-6, \"max_shape\": \
         [195, 487]}\nDistance: 0.1\nPoni1: 0.0168\nPoni2: 0.0419\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";
    std::fs::write(&poni, of_poni).unwrap();
    let plan = ["--poni", poni.to_str().unwrap(), "--npt", "100", "--by", "file", "--out"];

    let quoted = |path: &Path| format!("'{}'", path.display());
    let [find, split, integrate, gather] =
        ["scan-find", "plan-split", "ai-integrate", "gather"].map(program);
    let pipe = format!(
        "{find} --follow=1 --until-idle 5s {raw} | {split} {plan} {live} | tee {tasks} | {integrate} --threads 1 | tee {results} | {gather}
         echo \"${{PIPESTATUS[*]}}\" > {statuses}",
        raw = quoted(&raw),
        plan = plan.join(" "),
        live = quoted(&live),
        tasks = quoted(&place.path().join("tasks")),
        results = quoted(&place.path().join("results")),
        statuses = quoted(&place.path().join("statuses")),
    );
    let pipe = Command::new("bash")
        .args(["-c", &pipe])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let writers = [
        start_writer(&python, &raw, &["whole", "--files", "12", "--frames", "4", "--pause", "0.3"]),
        start_writer(
            &python,
            &raw,
            &["killed", "--files", "5", "--frames", "4", "--pause", "0.8", "--end", "killed"],
        ),
        start_writer(
            &python,
            &raw,
            &["dead", "--files", "3", "--frames", "4", "--pause", "0.5", "--end", "dead"],
        ),
    ];
    for (mut writer, ends_well) in writers.into_iter().zip([true, false, false]) {
        assert_eq!(writer.wait().unwrap().success(), ends_well);
    }
    let output = pipe.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let statuses = std::fs::read_to_string(place.path().join("statuses")).unwrap();

    let scans = run("scan-find", &[&raw], "");
    let tasks = run("plan-split", &[&plan[..], &[quiet.to_str().unwrap()]].concat(), &scans.stdout)
        .assert_success();
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks.stdout);
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout);
    let expected = format!("{} 0 0 {} 0 {}\n", scans.status, results.status, gathered.status);
    assert_eq!(statuses, expected, "{errors}");
    let found = last_summaries(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(found, last_summaries(&gathered.stdout), "{errors}");
    let integrated: Vec<u64> = found.iter().map(|(_, integrated, _)| *integrated).collect();
    assert_eq!(
        integrated,
        [12, 16, 48],
        "the dead one's closed files, those of the killed one, and all"
    );

    let read = std::fs::read_to_string(place.path().join("results")).unwrap();
    assert_eq!(sum_read_bytes(&read), sum_read_bytes(&results.stdout), "each frame is read once");
    let tasks = std::fs::read_to_string(place.path().join("tasks")).unwrap();
    // One a file, and one that tells of the end.
    let most = 12 + 5 + 3 + 3;
    assert!(
        read_records(&tasks, "task").len() <= most,
        "{} tasks",
        read_records(&tasks, "task").len()
    );
}
