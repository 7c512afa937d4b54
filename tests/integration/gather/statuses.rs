//! Exit status, `complete` and `up_to_date`, for every state of a scan and every kind of loss.

use std::fs;
use std::process::Command;

use sample::{Defect, Options};
use serde_json::{Value, json};

use crate::support::fault_shim::preload;
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, capture, program, run, small_options};

/// Exit statuses and fields of the summary.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// Exit status of ai-integrate and of gather.
    statuses: [i32; 2],
    /// Exit status of ai-integrate and of gather with `--allow-missing`.
    allowed: [i32; 2],
    complete: bool,
    up_to_date: bool,
}

/// State of the scan, loss, statuses, statuses with `--allow-missing`, `complete`, `up_to_date`.
const TABLE: [(&str, &str, i32, i32, bool, bool); 24] = [
    ("ended", "none", 0, 0, true, true),
    ("ended", "missing", 1, 0, false, true),
    ("ended", "not_written", 1, 0, false, true),
    ("ended", "unreadable", 1, 1, false, false),
    ("ended", "never_taken", 0, 0, false, true),
    ("ended", "corrupt", 1, 1, false, false),
    ("aborted", "none", 0, 0, true, true),
    ("aborted", "missing", 1, 0, false, true),
    ("aborted", "not_written", 1, 0, false, true),
    ("aborted", "unreadable", 1, 1, false, false),
    ("aborted", "never_taken", 0, 0, false, true),
    ("aborted", "corrupt", 1, 1, false, false),
    ("running", "none", 0, 0, false, true),
    ("running", "missing", 1, 0, false, true),
    ("running", "not_written", 1, 0, false, true),
    ("running", "unreadable", 1, 1, false, false),
    ("running", "never_taken", 0, 0, false, true),
    ("running", "corrupt", 1, 1, false, false),
    ("unknown", "none", 0, 0, true, true),
    ("unknown", "missing", 1, 0, false, true),
    ("unknown", "not_written", 1, 0, false, true),
    ("unknown", "unreadable", 1, 1, false, false),
    ("unknown", "never_taken", 0, 0, false, true),
    ("unknown", "corrupt", 1, 1, false, false),
];

/// Frames of the third Lima file, which the record says are absent.
const LOST: [u64; 2] = [14, 21];

/// The scan record of a scan in this state, which lost frames in this way.
fn scan_record_with_loss(scans: &str, state: &str, loss: &str) -> String {
    let mut scan: Value = serde_json::from_str(scans).unwrap();
    let fields = scan.as_object_mut().unwrap();
    let is_lost = !matches!(loss, "none" | "corrupt");
    if is_lost {
        let sources = fields["sources"].as_array_mut().unwrap();
        sources.retain(|source| source["frames"] != json!([LOST]));
        fields.insert(
            "absent".to_owned(),
            json!([{"range": [LOST], "kind": loss, "reason": format!("{loss}, as EIO says")}]),
        );
    }
    let ends = matches!(state, "ended" | "aborted");
    for (field, stays) in
        [("end_time", ends), ("end_reason", ends), ("start_time", state != "unknown")]
    {
        if !stays {
            fields.shift_remove(field);
        }
    }
    if state == "aborted" {
        fields.insert("end_reason".to_owned(), "USER_ABORT".into());
    }
    fields.insert("complete".to_owned(), (!is_lost && matches!(state, "ended" | "unknown")).into());
    format!("{scan}\n")
}

/// Plans, integrates and gathers below `out`.
fn process(workspace: &mut Workspace, scan: &str, out: &str, flags: &[&str]) -> [Outcome; 2] {
    workspace.scans = scan.to_owned();
    let integrated = run("ai-integrate", flags, &workspace.plan(out, &[]));
    let gathered = run("gather", flags, &integrated.stdout);
    [integrated, gathered]
}

/// Counts what is done of the plan that [`process`] made.
fn count_done(workspace: &mut Workspace, scan: &str, out: &str, flags: &[&str]) -> Outcome {
    let found = std::mem::replace(&mut workspace.scans, scan.to_owned());
    let plan = workspace.plan(out, &[]);
    workspace.scans = found;
    run("gather", &[&["--plan", "-", "--count-done"], flags].concat(), &plan)
}

#[test]
fn every_loss_in_every_state_of_a_scan_has_its_status_and_words() {
    let options = small_options();
    let corrupt = Options { scans: 0, defects: vec![Defect::TruncatedChunk], ..small_options() };
    let (mut whole, mut damaged) = (Workspace::new(&options), Workspace::new(&corrupt));
    for (state, loss, status, allowed, complete, up_to_date) in TABLE {
        let case = format!("{state}, {loss}");
        let workspace = if loss == "corrupt" { &mut damaged } else { &mut whole };
        let found = workspace.scans.clone();
        let scan = scan_record_with_loss(&found, state, loss);
        let out = format!("{state}_{loss}");
        let [integrated, gathered] = process(workspace, &scan, &out, &[]);
        let [integrated_so, gathered_so] =
            process(workspace, &scan, &format!("{out}_allowed"), &["--allow-missing"]);
        workspace.scans = found;
        let summary = gathered.records("summary").remove(0);
        assert_eq!(
            Answer {
                statuses: [integrated.status, gathered.status],
                allowed: [integrated_so.status, gathered_so.status],
                complete: summary["complete"] == true,
                up_to_date: summary["up_to_date"] == true,
            },
            Answer { statuses: [status; 2], allowed: [allowed; 2], complete, up_to_date },
            "{case}: {summary}\n{}{}",
            integrated.stderr,
            gathered.stderr
        );
        assert_eq!(summary["scan_state"], state, "{case}");
        let count = |all: &[Value]| all.len();
        match loss {
            "none" => assert_eq!(count(&gathered.records("fail")), 0, "{case}"),
            "corrupt" => assert_eq!(summary["missing"][0]["kind"], "corrupt", "{case}"),
            kind => {
                let expected = json!([{"range": [LOST], "kind": kind, "reason": format!("{kind}, as EIO says")}]);
                assert_eq!(
                    summary["missing"], expected,
                    "{case}: kind and text are those of the scan record"
                );
                let result = &integrated.records("result")[0];
                assert_eq!(result["missing"], expected, "{case}");
            }
        }
        for (flags, out, status) in [
            (&[][..], out.clone(), status),
            (&["--allow-missing"], format!("{out}_allowed"), allowed),
        ] {
            let counts = count_done(workspace, &scan, &out, flags);
            let found = counts.records("progress").remove(0);
            assert_eq!(counts.status, status, "{case}, counted: {found}");
            let summary = &gathered.records("summary")[0];
            assert_eq!(found["frames_done"], summary["integrated"], "{case}, counted: {found}");
            let lost: u64 = match loss {
                "none" | "never_taken" => 0,
                "corrupt" => 24 - summary["integrated"].as_u64().unwrap(),
                _ => 7,
            };
            assert_eq!(found["frames_lost"], lost, "{case}, counted: {found}");
            let expected = if lost == 0 { json!({}) } else { json!({ loss: lost }) };
            assert_eq!(found["lost"], expected, "{case}, counted: {found}");
            let taken = if loss == "never_taken" { 17 } else { 24 };
            assert_eq!(found["frames"], taken, "{case}, counted: {found}");
            assert_eq!(found["finals_complete"], u64::from(status == 0), "{case}: {found}");
            // Only a new scan record can tell more of a file that scan-find could not read.
            let is_done = up_to_date || loss == "unreadable";
            assert_eq!(found["finals_done"], u64::from(is_done), "{case}: {found}");
        }
        // What gather finds on disk says the same, whatever was heard of the scan then.
        let root = workspace.path(&out);
        let from = run("gather", &["--from".as_ref(), root.as_os_str()], "");
        let again = from.records("summary").remove(0);
        assert_eq!(from.status, status, "{case}, from disk: {}", from.stderr);
        for word in [
            "complete",
            "up_to_date",
            "scan_state",
            "frames",
            "integrated",
            "missing",
            "data_digest",
        ] {
            assert_eq!(again[word], summary[word], "{case}, from disk: {word}");
        }
    }
}

#[test]
fn frames_of_a_part_that_cannot_be_read_say_so() {
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=6"]))
        .assert_success();
    let part = workspace.parts("out").remove(1);
    let mut bytes = fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).unwrap();
    let gathered = run("gather", &["--from", workspace.path("out").to_str().unwrap()], "");
    assert_eq!(gathered.status, 1, "{}", gathered.stderr);
    let missing = &gathered.records("summary")[0]["missing"];
    assert_eq!(missing[0]["range"], json!([[6, 12]]), "{missing}");
    let reason = missing[0]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("part unreadable") && reason.contains(part.to_str().unwrap()),
        "{reason}"
    );
    assert_eq!(missing.as_array().unwrap().len(), 1, "{missing}");
}

#[test]
fn a_failure_names_its_file_once() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--empty", "0"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let summary =
        run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
    let refused = run("gather", &["--average", "mean"], &results);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    let path = summary["final"].as_str().unwrap();
    let line = refused.stderr.lines().find(|line| line.contains("needs the sums")).unwrap();
    assert_eq!(line.matches(path).count(), 1, "{line}");
    assert!(!refused.records("fail")[0]["error"].as_str().unwrap().contains(path));
}

/// A final whose raw file was written again since, as the plan knows, is not done.
#[test]
fn frames_of_files_that_changed_are_not_counted_as_done() {
    let mut workspace = Workspace::new(&small_options());
    workspace.process("out", &[], &[]).assert_success();
    let count = |workspace: &Workspace| {
        let plan = workspace.plan("out", &["--by", "frames=24"]);
        let found = run("gather", &["--plan", "-", "--count-done"], &plan);
        (found.status, found.records("progress")[0]["frames_done"].clone())
    };
    assert_eq!(count(&workspace), (0, 24.into()));
    let mut scan: Value = serde_json::from_str(&workspace.scans).unwrap();
    scan["sources"][0]["mtime"] = "1772616030.000000001".into();
    workspace.scans = format!("{scan}\n");
    assert_eq!(count(&workspace), (1, 17.into()));
}

/// Reads of the parts fail, and with them what is known of their frames. A damaged part is known to
/// be of no use.
#[test]
fn what_is_missing_of_a_plan_is_not_a_success_where_parts_cannot_be_read() {
    let workspace = Workspace::new(&small_options());
    let plan = workspace.plan("out", &["--by", "frames=8"]);
    let file = workspace.path("plan.jsonl");
    fs::write(&file, &plan).unwrap();
    run("ai-integrate", NO_ARGUMENTS, &plan).assert_success();
    let ask = |flag: &str, fault: &str| -> Outcome {
        let mut command = Command::new(program("gather"));
        command.arg("--plan").arg(&file).arg(flag);
        if !fault.is_empty() {
            preload(&mut command, &workspace.path("out/.azpipe/parts")).env("FAULTS_AT", fault);
        }
        capture(command, "").into()
    };
    for (flag, fault) in [
        ("--missing", "readdir 1 EIO"),
        ("--missing", "open 1 EIO"),
        ("--count-done", "readdir 1 EIO"),
    ] {
        let ran = ask(flag, fault);
        let [fail] = &ran.records("fail")[..] else { panic!("{flag}, {fault}: {ran:?}") };
        assert_eq!((ran.status, &fail["retryable"]), (1, &json!(true)), "{flag}, {fault}: {ran:?}");
        assert!(ran.stderr.contains("Input/output error"), "{ran:?}");
        let (found, status) = (ask(flag, ""), i32::from(flag == "--count-done"));
        assert_eq!(found.status, status, "there is no final yet: {found:?}");
    }
    let part = &workspace.parts("out")[0];
    let mut bytes = fs::read(part).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(part, bytes).unwrap();
    let ran = ask("--missing", "");
    assert_eq!((ran.status, ran.records("task").len()), (0, 1), "{ran:?}");
    assert!(ran.stderr.contains("damaged"), "{ran:?}");
}
