//! At the limits of the machine: few open files, many threads, a full or forbidden output, others at the
//! same work.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::parts;
use crate::site::{NOTHING, Site, binary, run, small};

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
    let (images, poni, out) = (place.path().join("images"), place.path().join("g.poni"), place.path().join("out"));
    std::fs::create_dir(&images).unwrap();
    std::fs::write(&poni, PONI).unwrap();
    (0..500).for_each(|number| write_edf(&images.join(format!("a_{number:04}.edf")), number));
    let scans = run("scan-find", &[&images], "").good();
    assert_eq!((scans.records("scan").len(), scans.records("scan")[0]["frames"].as_u64()), (1, Some(500)));
    let plan = ["--poni".as_ref(), poni.as_os_str(), "--out".as_ref(), out.as_os_str(), "--npt".as_ref(), "5".as_ref()];
    let tasks = run("plan-split", &plan, &scans.stdout).good();
    let input = place.path().join("tasks.jsonl");
    std::fs::write(&input, tasks.stdout).unwrap();
    let limited = Command::new("sh")
        .args(["-c", r#"ulimit -n 64; exec "$@""#, "sh", binary("ai-integrate"), "--threads", "8"])
        .arg(&input)
        .output()
        .unwrap();
    let result: serde_json::Value = serde_json::from_slice(&limited.stdout).unwrap();
    assert_eq!(result["done"], json!([[0, 500]]), "{}", String::from_utf8_lossy(&limited.stderr));
    let rows = parts::rows::<f64>(&out, "signal");
    let counts = |row: &[f64]| row.iter().sum::<f64>();
    let more = counts(&rows[499].1) - counts(&rows[0].1);
    assert!((more / (48.0 * 499.0) - 1.0).abs() < 1e-5, "each frame is its own image: {more}");
}

/// A filter over `input`, with a stack of 64 kB; its output.
fn with_a_small_stack(name: &str, arguments: &[&OsStr], input: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", r#"ulimit -s 64; exec "$@""#, "bash", binary(name)]).args(arguments);
    let output = command.stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert!(output.status.success(), "{name}: {:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_stack_of_64_kb_is_enough_for_all_of_the_pipe() {
    let site = Site::new(&small());
    let (poni, out) = (site.data.poni.clone(), site.path("out"));
    let scans = with_a_small_stack("scan-find", &[site.data.raw.as_os_str()], "");
    let plan = ["--npt".as_ref(), "300".as_ref(), "--sigma-clip=4".as_ref(), "--poni".as_ref(), poni.as_os_str()];
    let plan = [&plan[..], &["--out".as_ref(), out.as_os_str()]].concat();
    let tasks = with_a_small_stack("plan-split", &plan, &scans);
    let results = with_a_small_stack("ai-integrate", &["--threads".as_ref(), "3".as_ref()], &tasks);
    let report = site.path("report.html");
    let summary =
        with_a_small_stack("gather", &["--average=mean".as_ref(), "--report".as_ref(), report.as_os_str()], &results);
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["complete"], true, "{summary}");
}

#[test]
fn processes_at_the_same_task_leave_one_whole_part() {
    let site = Site::new(&small());
    let start = |tasks: &Path| -> Child {
        let mut command = Command::new(binary("ai-integrate"));
        command.arg("--force").arg(tasks).stdout(Stdio::null()).spawn().unwrap()
    };
    let alone = site.path("alone.jsonl");
    std::fs::write(&alone, site.plan("alone", &["--by", "scan"])).unwrap();
    assert!(start(&alone).wait().unwrap().success());
    let together = site.path("together.jsonl");
    std::fs::write(&together, site.plan("together", &["--by", "scan"])).unwrap();
    let all: Vec<Child> = (0..4).map(|_| start(&together)).collect();
    all.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    assert_eq!(site.working_files("together").len(), 1, "{:?}", site.working_files("together"));
    let signal = |out: &str| parts::rows::<f64>(&site.path(out), "signal");
    assert!(signal("together") == signal("alone"));
}

#[test]
fn an_output_in_the_way_of_a_file_ends_the_run_at_once() {
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "file"]);
    let file = site.path("a file");
    std::fs::write(&file, "in the way").unwrap();
    let refused = run("ai-integrate", &["--out".as_ref(), file.join("out").as_os_str()], &tasks);
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("a file/out") && refused.stderr.contains("Not a directory"), "{}", refused.stderr);
}

#[test]
fn another_output_root_and_force_integrate_again() {
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "scan"]);
    let first = run("ai-integrate", NOTHING, &tasks).good().records("result").remove(0);
    let elsewhere = site.path("elsewhere");
    let other = run("ai-integrate", &["--out".as_ref(), elsewhere.as_os_str()], &tasks).good();
    assert_eq!(
        (&other.records("result")[0]["skipped"], &other.records("result")[0]["out"]),
        (&json!(false), &json!(elsewhere))
    );
    assert_eq!(parts::of(&elsewhere).len(), 1);
    let forced = run("ai-integrate", &["--force"], &tasks).good().records("result").remove(0);
    assert_eq!((&forced["skipped"], &forced["part_digest"]), (&json!(false), &first["part_digest"]));
}

#[test]
fn a_task_that_comes_again_is_found_done_and_records_keep_their_order() {
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "frames=8"]);
    let tasks: Vec<&str> = tasks.lines().filter(|line| line.contains("\"type\":\"task\"")).collect();
    let note = r#"{"type":"note","v":1}"#;
    let input = [tasks[0], tasks[0], tasks[1], note, tasks[2]].map(|line| format!("{line}\n")).concat();
    let ran = run("ai-integrate", &["--threads", "1"], &input).good();
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
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "scan"]);
    let patient = run("ai-integrate", &["--deadline", "18446744073709551615"], &tasks).good();
    assert_eq!(patient.records("result")[0]["done"], json!([[0, 24]]));
    let greedy = run("ai-integrate", &["--engines", "256", "--threads", "1024", "--force"], &tasks);
    assert_eq!(greedy.status, 2);
    assert!(greedy.stderr.contains("1024 threads at the most"), "{}", greedy.stderr);
    let many = run(
        "ai-integrate",
        &["--engines", "16", "--threads", "4", "--force"],
        &site.plan("out", &["--by", "frames=1"]),
    );
    assert_eq!(many.good().records("result").len(), 24);
}

/// A filter that may have so many files open: its status, its records, and what it says.
fn with_few_files(files: u32, name: &str, operand: &Path) -> (i32, Vec<serde_json::Value>, String) {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "bash", binary(name)]);
    let output = command.arg(operand).stdin(Stdio::null()).output().unwrap();
    let records = String::from_utf8(output.stdout).unwrap();
    let records = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code().unwrap_or(-1), records, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn images_for_which_there_is_no_descriptor_are_no_damaged_images() {
    const TOO_MANY: &str = "Too many open files (os error 24)";
    let place = tempfile::tempdir().unwrap();
    let (images, poni, out) = (place.path().join("images"), place.path().join("g.poni"), place.path().join("out"));
    std::fs::create_dir(&images).unwrap();
    std::fs::write(&poni, PONI).unwrap();
    (0..40).for_each(|number| write_edf(&images.join(format!("a_{number:04}.edf")), number));
    for (format, name) in [("counts.tif", "b_0.tif"), ("counts.cbf", "c_0.cbf")] {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/frames/tests/data").join(format);
        std::fs::copy(data, images.join(name)).unwrap();
    }
    let scans = run("scan-find", &[&images], "").good().stdout;
    let count = scans.lines().count();
    assert_eq!(count, 3, "{scans}");
    let plan = ["--poni".as_ref(), poni.as_os_str(), "--out".as_ref(), out.as_os_str(), "--npt".as_ref(), "5".as_ref()];
    let tasks = place.path().join("tasks.jsonl");
    std::fs::write(&tasks, run("plan-split", &plan, &scans).good().stdout).unwrap();
    for (name, operand) in [("scan-find", &images), ("ai-integrate", &tasks)] {
        let (mut refused, mut whole) = (0, 0);
        for files in 5..28 {
            let _ = std::fs::remove_dir_all(out.join(".azpipe/parts"));
            let (status, records, said) = with_few_files(files, name, operand);
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
                    !fail || (record["retryable"] == true && record["error"].to_string().contains(TOO_MANY)),
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
