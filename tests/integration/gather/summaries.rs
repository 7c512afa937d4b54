//! The records that gather reads, and its summaries.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::support::{NO_ARGUMENTS, Workspace, program, run, small_options};

#[test]
fn records_of_others_pass_and_nothing_gives_nothing() {
    let nothing = run("gather", NO_ARGUMENTS, "").assert_success();
    assert_eq!(nothing.stdout, "");
    let lines = "{\"type\":\"note\",\"id\":\"x\",\"text\":\"kept  as it is\"}\n\
                 {\"type\":\"fail\",\"v\":1,\"id\":\"a\",\"stage\":\"ai-integrate\",\"about\":\"f\",\"error\":\"e\",\"retryable\":true}\n";
    let passed = run("gather", NO_ARGUMENTS, lines);
    assert_eq!(
        (passed.stdout.as_str(), passed.status),
        (lines, 1),
        "what failed before is not done"
    );
}

#[test]
fn a_scan_is_answered_as_soon_as_its_last_frame_has_come() {
    let workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    let results = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "file"]))
        .assert_success()
        .stdout;
    let (first, second): (Vec<&str>, Vec<&str>) =
        results.lines().partition(|line| line.contains("\"entry\":\"1.1\""));
    assert!(!second.is_empty());
    let mut child = Command::new(program("gather"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    stdin.write_all((first.join("\n") + "\n").as_bytes()).unwrap();
    let answer: serde_json::Value =
        serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
    assert_eq!((&answer["entry"], &answer["complete"]), (&"1.1".into(), &true.into()));
    stdin.write_all((second.join("\n") + "\n").as_bytes()).unwrap();
    drop(stdin);
    assert!(answers.next().unwrap().unwrap().contains("\"entry\":\"2.1\""));
    assert!(answers.next().is_none() && child.wait().unwrap().success());
}

#[test]
fn from_gathers_whatever_there_is_and_later_finds_it() {
    let workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=9"]))
        .assert_success();
    run(
        "ai-integrate",
        NO_ARGUMENTS,
        &workspace.plan("out", &["--unit", "2th_deg", "--recipe-name", "angles"]),
    )
    .assert_success();
    let root = workspace.path("out");
    let from = ["--from".as_ref(), root.as_os_str()];
    let first = run("gather", &from, "").assert_success().records("summary");
    assert_eq!(first.len(), 4, "two scans by two recipes");
    assert!(first.iter().all(|summary| summary["complete"] == true));
    assert!(workspace.parts("out").is_empty());
    assert_eq!(run("gather", &from, "").assert_success().records("summary").len(), 4);

    let empty = workspace.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let nothing = run("gather", &["--from".as_ref(), empty.as_os_str()], "");
    assert_eq!(nothing.status, 1, "no result is no success");
    assert!(
        nothing.stderr.contains("empty: holds no results: expected the directory"),
        "{}",
        nothing.stderr
    );

    let none = run("gather", &["--from", workspace.path("nowhere").to_str().unwrap()], "");
    assert_eq!(none.status, 2);
    assert!(
        none.stderr.contains(
            "nowhere: no such directory: expected the directory that plan-split --out named"
        ),
        "{}",
        none.stderr
    );
}

#[test]
fn a_root_that_was_moved_is_gathered_where_it_is() {
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success();
    std::fs::rename(workspace.path("out"), workspace.path("moved")).unwrap();
    let moved = workspace.path("moved");
    let summary = run("gather", &["--from", moved.to_str().unwrap()], "")
        .assert_success()
        .records("summary")
        .remove(0);
    assert!(summary["final"].as_str().unwrap().starts_with(moved.to_str().unwrap()));
    assert!(!workspace.path("out").exists());
}

#[test]
fn complete_only_leaves_the_rest_alone() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=10"]);
    let (first, rest) = tasks.split_once('\n').unwrap();
    let some = run("ai-integrate", NO_ARGUMENTS, &(first.to_owned() + "\n")).assert_success();
    let early = run("gather", &["--complete-only"], &some.stdout).assert_success();
    assert_eq!((early.records("summary").len(), early.stderr.as_str()), (0, ""));
    let others = run("ai-integrate", NO_ARGUMENTS, rest).assert_success();
    let late =
        run("gather", &["--complete-only"], &others.stdout).assert_success().records("summary");
    assert_eq!((late.len(), &late[0]["integrated"]), (1, &24.into()));
}

#[test]
fn a_plan_says_what_must_be_there() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=8"]);
    let lines: Vec<&str> = tasks.lines().collect();
    let (half, whole) = (workspace.path("half.jsonl"), workspace.path("plan.jsonl"));
    std::fs::write(&half, lines[..2].join("\n") + "\n").unwrap();
    std::fs::write(&whole, &tasks).unwrap();
    let results = run("ai-integrate", &[&half], "").assert_success();
    let plan = |file: &std::path::Path| {
        run("gather", &["--plan".as_ref(), file.as_os_str()], &results.stdout)
    };
    assert_eq!(plan(&half).status, 0, "what the plan demands is there");
    let judged = plan(&whole);
    assert_eq!(judged.status, 1);
    assert!(
        judged.stderr.contains("8 frames (16 to 23) without a pattern: not integrated"),
        "{}",
        judged.stderr
    );
    // A plan of which nothing was done has a summary too.
    let untouched = workspace.plan("other", &[]);
    let nothing = run("gather", &["--plan", "-"], &untouched);
    assert_eq!(nothing.status, 1);
    assert_eq!(nothing.records("summary")[0]["integrated"], 0);
}

/// While a scan is measured, its tasks come again with more frames, and `slurm-emit --append` keeps
/// all versions.
#[test]
fn versions_of_a_task_count_as_one() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=12"]);
    let mut task: serde_json::Value = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
    task["complete"] = false.into();
    let plan = workspace.path("plan.jsonl");
    std::fs::write(&plan, format!("{task}\n{tasks}")).unwrap();
    let ask = |flag: &str| run("gather", &["--plan", plan.to_str().unwrap(), flag], "").stdout;
    assert_eq!(ask("--missing").lines().count(), 2);
    let counts: serde_json::Value = serde_json::from_str(&ask("--count-done")).unwrap();
    assert_eq!((&counts["tasks"], &counts["frames"]), (&2.into(), &24.into()), "{counts}");
    let bytes =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["bytes"].as_u64();
    assert_eq!(counts["bytes"].as_u64(), tasks.lines().map(bytes).sum(), "{counts}");
}

#[test]
fn missing_tasks_are_cut_to_what_is_missing_and_keep_their_ids() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=12"]);
    let finer = workspace.plan("out", &["--by", "frames=4"]);
    let one = finer.lines().nth(1).unwrap();
    run("ai-integrate", NO_ARGUMENTS, &(one.to_owned() + "\n")).assert_success();
    let plan = workspace.path("plan.jsonl");
    std::fs::write(&plan, &tasks).unwrap();
    let missing = ["--plan".as_ref(), plan.as_os_str(), "--missing".as_ref()];
    let left = run("gather", &missing, "").assert_success().records("task");
    let ranges: Vec<String> = left.iter().map(|task| task["range"].to_string()).collect();
    assert_eq!(ranges, ["[[0,4],[8,12]]", "[[12,24]]"]);
    let planned: serde_json::Value = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
    assert_eq!(left[0]["id"], planned["id"]);
    assert!(left[0]["bytes"].as_u64() < planned["bytes"].as_u64());

    // and finer, where somebody wants smaller pieces
    let most = (left[0]["bytes"].as_u64().unwrap() * 6 / 10).to_string();
    let finer = [&missing[..], &["--task-bytes", &most].map(OsStr::new)].concat();
    let left = run("gather", &finer, "").assert_success().records("task");
    let ranges: Vec<String> = left.iter().map(|task| task["range"].to_string()).collect();
    assert_eq!(ranges, ["[[0,4]]", "[[8,12]]", "[[12,16]]", "[[16,20]]", "[[20,24]]"]);
    assert_eq!((&left[0]["id"], &left[1]["id"]), (&planned["id"], &planned["id"]));
    assert_ne!(left[0]["part"], left[1]["part"]);
    let coarse = [&missing[..], &["--task-bytes", "2G"].map(OsStr::new)].concat();
    assert_eq!(run("gather", &coarse, "").assert_success().records("task").len(), 2);
    let lines: String = left.iter().map(|task| format!("{task}\n")).collect();
    let gathered = run(
        "gather",
        NO_ARGUMENTS,
        &run("ai-integrate", NO_ARGUMENTS, &lines).assert_success().stdout,
    )
    .assert_success();
    assert_eq!(gathered.records("summary")[0]["complete"], true);
    assert_eq!(run("gather", &missing, "").assert_success().stdout, "");
}

#[test]
fn a_damaged_part_is_named_and_only_its_frames_are_missing() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=8"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let part = &workspace.parts("out")[1];
    let mut bytes = std::fs::read(part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(part, bytes).unwrap();
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout);
    assert_eq!(gathered.status, 1);
    assert!(gathered.stderr.contains("00000008-00000015.h5: damaged"), "{}", gathered.stderr);
    assert_eq!(gathered.records("summary")[0]["missing"][0]["range"].to_string(), "[[8,16]]");
    let rerun = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let skipped: Vec<bool> =
        rerun.records("result").iter().map(|result| result["skipped"] == true).collect();
    assert_eq!(skipped, [true, false, true]);
    run("gather", NO_ARGUMENTS, &rerun.stdout).assert_success();
}

#[test]
fn a_directory_named_as_a_part_is_none() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=8"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let directory = workspace.parts("out")[0].with_file_name("zz.h5");
    std::fs::create_dir(&directory).unwrap();
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert_eq!(gathered.records("summary")[0]["complete"], true);
    let out = workspace.path("out");
    let again = run("gather", &["--from".as_ref(), out.as_os_str()], "").assert_success();
    assert_eq!(again.records("summary").len(), 1, "{}", again.stderr);
    assert!(directory.is_dir());
    run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
}

#[test]
fn a_root_that_cannot_be_written_is_a_configuration_error() {
    let workspace = Workspace::new(&small_options());
    let results =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success().stdout;
    std::fs::write(workspace.path("out/LaB6"), "a file where a directory should be").unwrap();
    let refused = run("gather", NO_ARGUMENTS, &results);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("LaB6") && refused.stderr.lines().count() == 1,
        "{}",
        refused.stderr
    );
    assert_eq!(workspace.parts("out").len(), 1);
}

#[test]
fn no_record_leads_out_of_the_root() {
    let workspace = Workspace::new(&small_options());
    let results =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success().stdout;
    let name = "\"final\":\"";
    let (head, tail) = results.split_once(name).unwrap();
    for path in ["../stolen.h5", "/tmp/stolen.h5", "a/../../stolen.h5"] {
        let forged = format!("{head}{name}{path}{}", &tail[tail.find('"').unwrap()..]);
        let refused = run("gather", NO_ARGUMENTS, &forged);
        assert_eq!((refused.status, refused.records("fail").len()), (1, 1), "{path}");
        assert!(refused.stderr.contains("outside of the output directory"), "{}", refused.stderr);
    }
    assert!(!workspace.path("stolen.h5").exists());
}

#[test]
fn finals_under_each_others_names_are_told_of() {
    let workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    let results = workspace.process("out", NO_ARGUMENTS, NO_ARGUMENTS).assert_success();
    let paths: Vec<String> = results
        .records("summary")
        .iter()
        .map(|summary| summary["final"].as_str().unwrap().to_owned())
        .collect();
    let root = workspace.path("out");
    let gather = || run("gather", &["--from", root.to_str().unwrap()], "");
    gather().assert_success();
    let aside = root.join("aside");
    std::fs::rename(&paths[0], &aside).unwrap();
    std::fs::rename(&paths[1], &paths[0]).unwrap();
    std::fs::rename(&aside, &paths[1]).unwrap();
    let swapped = gather();
    assert_eq!((swapped.status, swapped.records("fail").len()), (1, 2), "{}", swapped.stderr);
    let why = "has the patterns of another scan or recipe than azpipe wrote there";
    assert_eq!(swapped.stderr.matches(why).count(), 2, "{}", swapped.stderr);
    std::fs::copy(&paths[1], &paths[0]).unwrap();
    let copied = gather();
    assert_eq!((copied.status, copied.records("fail").len()), (1, 1), "{}", copied.stderr);
}

#[test]
fn a_virtual_final_without_its_parts_is_not_done() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=9"]);
    std::fs::write(workspace.path("tasks.jsonl"), &tasks).unwrap();
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    run("gather", &["--layout", "virtual"], &results).assert_success();
    let tasks = workspace.path("tasks.jsonl");
    let count = || run("gather", &["--plan", tasks.to_str().unwrap(), "--count-done"], "");
    let done = |counted: &crate::support::Outcome| {
        let record = &counted.records("progress")[0];
        (record["frames_done"].as_u64(), record["finals_complete"].as_u64())
    };
    assert_eq!(done(&count().assert_success()), (Some(24), Some(1)));
    for part in &workspace.parts("out")[1..] {
        std::fs::remove_file(part).unwrap();
    }
    let counted = count();
    assert_eq!((counted.status, done(&counted)), (1, (Some(9), Some(0))), "{}", counted.stdout);
}
