//! At the limits of the machine: few open files, many threads, a full or forbidden output, others
//! at the same work.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::parts;
use crate::support::{NO_ARGUMENTS, Workspace, program, run, small_options};

const PONI: &str = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
    Distance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

/// An image of 6 rows and 8 columns, as many headers of EDF files have it.
fn write_edf(path: &Path, number: u16) {
    let header = "{\nByteOrder = LowByteFirst ;\nDataType = UnsignedShort ;\nDim_1 = 8 ;\nDim_2 = 6 ;\nSize = 96 ;\n";
    let mut bytes = format!("{header:510}}}\n").into_bytes();
    bytes.extend((0..48).flat_map(|pixel: u16| (pixel + number).to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_scan_of_five_hundred_images_needs_few_open_files() {
    let place = tempfile::tempdir().unwrap();
    let (images, poni, out) =
        (place.path().join("images"), place.path().join("g.poni"), place.path().join("out"));
    std::fs::create_dir(&images).unwrap();
    std::fs::write(&poni, PONI).unwrap();
    (0..500).for_each(|number| write_edf(&images.join(format!("a_{number:04}.edf")), number));
    let scans = run("scan-find", &[&images], "").assert_success();
    assert_eq!(
        (scans.records("scan").len(), scans.records("scan")[0]["frames"].as_u64()),
        (1, Some(500))
    );
    let plan = [
        "--poni".as_ref(),
        poni.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
        "--npt".as_ref(),
        "5".as_ref(),
    ];
    let tasks = run("plan-split", &plan, &scans.stdout).assert_success();
    let input = place.path().join("tasks.jsonl");
    std::fs::write(&input, tasks.stdout).unwrap();
    let limited = Command::new("sh")
        .args(["-c", r#"ulimit -n 64; exec "$@""#, "sh", program("ai-integrate"), "--threads", "8"])
        .arg(&input)
        .output()
        .unwrap();
    let result: serde_json::Value = serde_json::from_slice(&limited.stdout).unwrap();
    assert_eq!(result["done"], json!([[0, 500]]), "{}", String::from_utf8_lossy(&limited.stderr));
    let rows = parts::read_rows::<f64>(&out, "signal");
    let counts = |row: &[f64]| row.iter().sum::<f64>();
    let more = counts(&rows[499].1) - counts(&rows[0].1);
    assert!((more / (48.0 * 499.0) - 1.0).abs() < 1e-5, "each frame is its own image: {more}");
}

/// A filter over `input`, with a stack of 64 kB; its output.
fn run_with_small_stack(name: &str, arguments: &[&OsStr], input: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", r#"ulimit -s 64; exec "$@""#, "bash", program(name)]).args(arguments);
    let output = command.stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert!(
        output.status.success(),
        "{name}: {:?}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_stack_of_64_kb_is_enough_for_all_of_the_pipe() {
    let workspace = Workspace::new(&small_options());
    let (poni, out) = (workspace.data.poni.clone(), workspace.path("out"));
    let scans = run_with_small_stack("scan-find", &[workspace.data.raw.as_os_str()], "");
    let plan = [
        "--npt".as_ref(),
        "300".as_ref(),
        "--sigma-clip=4".as_ref(),
        "--poni".as_ref(),
        poni.as_os_str(),
    ];
    let plan = [&plan[..], &["--out".as_ref(), out.as_os_str()]].concat();
    let tasks = run_with_small_stack("plan-split", &plan, &scans);
    let results =
        run_with_small_stack("ai-integrate", &["--threads".as_ref(), "3".as_ref()], &tasks);
    let report = workspace.path("report.html");
    let summary = run_with_small_stack(
        "gather",
        &["--average=mean".as_ref(), "--report".as_ref(), report.as_os_str()],
        &results,
    );
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["complete"], true, "{summary}");
}

#[test]
fn processes_at_the_same_task_leave_one_whole_part() {
    let workspace = Workspace::new(&small_options());
    let start = |tasks: &Path| -> Child {
        let mut command = Command::new(program("ai-integrate"));
        command.arg("--force").arg(tasks).stdout(Stdio::null()).spawn().unwrap()
    };
    let alone = workspace.path("alone.jsonl");
    std::fs::write(&alone, workspace.plan("alone", &["--by", "scan"])).unwrap();
    assert!(start(&alone).wait().unwrap().success());
    let together = workspace.path("together.jsonl");
    std::fs::write(&together, workspace.plan("together", &["--by", "scan"])).unwrap();
    let all: Vec<Child> = (0..4).map(|_| start(&together)).collect();
    all.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    assert_eq!(
        workspace.working_files("together").len(),
        1,
        "{:?}",
        workspace.working_files("together")
    );
    let signal = |out: &str| parts::read_rows::<f64>(&workspace.path(out), "signal");
    assert!(signal("together") == signal("alone"));
}

#[test]
fn what_can_not_be_run_at_all_is_refused_before_a_task() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.path("tasks.jsonl");
    std::fs::write(&tasks, workspace.plan("out", &[])).unwrap();
    for (flags, cpus, expected) in [
        (&["--out", "/dev/null"][..], "1", "--out: /dev/null: not a directory; expected one"),
        (
            &[],
            "2000",
            "SLURM_CPUS_PER_TASK=2000: 1 engine with 2000 threads each: expected at most",
        ),
        (&["--engines", "2", "--threads", "1024"], "1", "--engines and --threads: 2 engines with"),
    ] {
        let mut command = Command::new(program("ai-integrate"));
        command.args(["--engine", "cpu"]).args(flags).arg(&tasks).env("SLURM_CPUS_PER_TASK", cpus);
        let refused = command.output().unwrap();
        let message = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(message.starts_with(&format!("ai-integrate: {expected}")), "{message}");
        // No frames were begun, so that no count of them tells to go on.
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn an_output_in_the_way_of_a_file_ends_the_run_at_once() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "file"]);
    let file = workspace.path("a file");
    std::fs::write(&file, "in the way").unwrap();
    let refused = run("ai-integrate", &["--out".as_ref(), file.join("out").as_os_str()], &tasks);
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""));
    assert!(
        refused.stderr.contains("a file/out") && refused.stderr.contains("Not a directory"),
        "{}",
        refused.stderr
    );
}

#[test]
fn another_output_root_and_force_integrate_again() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    let first =
        run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().records("result").remove(0);
    let elsewhere = workspace.path("elsewhere");
    let other =
        run("ai-integrate", &["--out".as_ref(), elsewhere.as_os_str()], &tasks).assert_success();
    assert_eq!(
        (&other.records("result")[0]["skipped"], &other.records("result")[0]["out"]),
        (&json!(false), &json!(elsewhere))
    );
    assert_eq!(parts::list_parts(&elsewhere).len(), 1);
    let forced =
        run("ai-integrate", &["--force"], &tasks).assert_success().records("result").remove(0);
    assert_eq!(
        (&forced["skipped"], &forced["part_digest"]),
        (&json!(false), &first["part_digest"])
    );
}

#[test]
fn a_task_that_comes_again_is_found_done_and_records_keep_their_order() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=8"]);
    let tasks: Vec<&str> =
        tasks.lines().filter(|line| line.contains("\"type\":\"task\"")).collect();
    let note = r#"{"type":"note","v":1}"#;
    let input =
        [tasks[0], tasks[0], tasks[1], note, tasks[2]].map(|line| format!("{line}\n")).concat();
    let ran = run("ai-integrate", &["--threads", "1"], &input).assert_success();
    let kinds: Vec<String> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|record| format!("{} {}", record["type"].as_str().unwrap(), record["skipped"]))
        .collect();
    assert_eq!(kinds, ["result false", "result true", "result false", "note null", "result false"]);
}

#[test]
fn times_and_threads_beyond_all_measure_are_no_bug() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    let patient =
        run("ai-integrate", &["--deadline", "18446744073709551615"], &tasks).assert_success();
    assert_eq!(patient.records("result")[0]["done"], json!([[0, 24]]));
    let greedy = run("ai-integrate", &["--engines", "256", "--threads", "1024", "--force"], &tasks);
    assert_eq!(greedy.status, 2);
    assert!(greedy.stderr.contains("at most 1024 threads"), "{}", greedy.stderr);
    let many = run(
        "ai-integrate",
        &["--engines", "16", "--threads", "4", "--force"],
        &workspace.plan("out", &["--by", "frames=1"]),
    );
    assert_eq!(many.assert_success().records("result").len(), 24);
}

/// A filter that may have so many files open: its status, its records, and what it says.
fn run_with_few_files(
    files: u32,
    name: &str,
    operand: &Path,
) -> (i32, Vec<serde_json::Value>, String) {
    let mut command = Command::new("bash");
    // Descriptors that this process inherited would count, too.
    let script = format!(
        "for file in /proc/$$/fd/*; do ((${{file##*/}} < 3)) || eval \"exec ${{file##*/}}>&-\"; done; ulimit -n {files}; exec \"$@\""
    );
    command.args(["-c", &script, "bash", program(name)]);
    let output = command.arg(operand).stdin(Stdio::null()).output().unwrap();
    let records = String::from_utf8(output.stdout).unwrap();
    let records = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (
        output.status.code().unwrap_or(-1),
        records,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn images_for_which_there_is_no_descriptor_are_no_damaged_images() {
    const TOO_MANY: &str = "Too many open files (os error 24)";
    let place = tempfile::tempdir().unwrap();
    let (images, poni, out) =
        (place.path().join("images"), place.path().join("g.poni"), place.path().join("out"));
    std::fs::create_dir(&images).unwrap();
    std::fs::write(&poni, PONI).unwrap();
    (0..40).for_each(|number| write_edf(&images.join(format!("a_{number:04}.edf")), number));
    for (format, name) in [("counts.tif", "b_0.tif"), ("counts.cbf", "c_0.cbf")] {
        let data =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/frames/tests/data").join(format);
        std::fs::copy(data, images.join(name)).unwrap();
    }
    let scans = run("scan-find", &[&images], "").assert_success().stdout;
    let count = scans.lines().count();
    assert_eq!(count, 3, "{scans}");
    let plan = [
        "--poni".as_ref(),
        poni.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
        "--npt".as_ref(),
        "5".as_ref(),
    ];
    let tasks = place.path().join("tasks.jsonl");
    std::fs::write(&tasks, run("plan-split", &plan, &scans).assert_success().stdout).unwrap();
    for (name, operand) in [("scan-find", &images), ("ai-integrate", &tasks)] {
        let (mut refused, mut whole) = (0, 0);
        for files in 5..28 {
            let _ = std::fs::remove_dir_all(out.join(".azpipe/parts"));
            let (status, records, said) = run_with_few_files(files, name, operand);
            let about = format!("{name}, {files} files: {status}: {said}");
            if status == 0 {
                whole += 1;
                assert_eq!(records.len(), count, "{about}");
                continue;
            }
            refused += 1;
            assert!((1..=2).contains(&status) && said.contains(TOO_MANY), "{about}");
            // Nothing else is said of any image.
            for line in said.lines().filter(|line| line.contains("/images/")) {
                assert!(line.contains(TOO_MANY), "{about}");
            }
            for record in records {
                let fail = record["type"] == "fail";
                assert!(
                    !fail
                        || (record["retryable"] == true
                            && record["error"].to_string().contains(TOO_MANY)),
                    "{record}"
                );
                for missing in record["missing"].as_array().unwrap_or(&Vec::new()) {
                    assert_eq!(missing["kind"], "unreadable", "{record}");
                }
            }
        }
        assert!(refused > 3 && whole > 3, "{name}: {refused} refused, {whole} whole");
    }
}
