//! Interrupted in the middle of a task: what is finished is kept, and a rerun does the rest.
//!
//! Sources on which the HDF5 library hangs hold up whoever opens them at a known frame, for as long
//! as the test lets its worker process live.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, program, run, run_python, small_options};

/// A task of 24 frames in files of 7, of which all but the first hang the library.
struct Held {
    workspace: Workspace,
    tasks: String,
    held: String,
}

/// Writes a file whose only dataset is virtual, with its mappings in a heap that the library looks
/// for the end of for ever.
const HANGS: &str = r#"
import h5py, sys
path, dataset = sys.argv[1:]
with h5py.File(path, "w") as file:
    layout = h5py.VirtualLayout((7, 195, 487), "i4")
    layout[:] = h5py.VirtualSource("nowhere.h5", "data", (7, 195, 487))
    file.create_virtual_dataset(dataset, layout)
data = bytearray(open(path, "rb").read())
data[data.index(b"GCOL") + 16 + 8 + 1] = 4
open(path, "wb").write(data)
"#;

impl Held {
    /// Writes the dataset and plans it; `None` on a machine without the peers' Python.
    fn new() -> Option<Self> {
        let workspace = Workspace::new(&small_options());
        let tasks = workspace.plan("out", &["--by", "scan"]);
        let mut held: Value = serde_json::from_str(&tasks).unwrap();
        let hangs = workspace.path("hangs.h5");
        let dataset = held["sources"][1]["dataset"].as_str().unwrap();
        run_python(HANGS, [hangs.as_os_str(), OsStr::new(dataset)])?;
        let found = std::fs::metadata(&hangs).unwrap();
        for source in held["sources"].as_array_mut().unwrap().iter_mut().skip(1) {
            source["file"] = json!(hangs);
            source["size"] = json!(found.len());
            source["mtime"] = json!(format!("{}.{:09}", found.mtime(), found.mtime_nsec()));
        }
        let held = format!("{held}\n");
        Some(Self { workspace, tasks, held })
    }

    /// Runs ai-integrate up to the first file that hangs. Frames are batches of their own, because
    /// threads begin several batches at a time, and the first file must have been opened before one
    /// of them opens a file that hangs.
    fn begin(&self, flags: &[&str]) -> Child {
        let input = self.workspace.path("held.jsonl");
        std::fs::write(&input, &self.held).unwrap();
        let child = Command::new(program("ai-integrate"))
            .args(["--threads", "1", "--batch-frames", "1"])
            .args(flags)
            .arg(&input)
            .env("AZPIPE_FILE_TIMEOUT", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for(|| find_hanging_worker(child.id()));
        wait_until_all_threads_sleep(child.id());
        child
    }

    /// Sends the signal, and ends the workers: the files are then found to be damaged.
    fn end(&self, mut child: Child, signal: Signal) -> Outcome {
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        // SIGINT is no wish to finish anything, and needs no help.
        if signal != Signal::SIGINT {
            wait_until_all_threads_sleep(child.id());
        }
        wait_for(|| {
            if let Some(worker) = find_hanging_worker(child.id()) {
                let _ = kill(worker, Signal::SIGKILL);
            }
            child.try_wait().unwrap()
        });
        let output = child.wait_with_output().unwrap();
        let status = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome { status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn part_names(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        self.workspace.working_files("out").iter().map(name).collect()
    }
}

fn wait_for<T>(mut there: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it never came to that");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until all threads are asleep for half a second: those that read are held up, and a signal
/// has been heard. On a busy machine, threads that still have work may be asleep for a moment.
fn wait_until_all_threads_sleep(process: u32) {
    let mut asleep = 0;
    wait_for(|| {
        asleep = if is_asleep(process) { asleep + 1 } else { 0 };
        (asleep == 50).then_some(())
    });
}

/// The worker of a process, where the library is at work for longer than any sound file takes.
fn find_hanging_worker(process: u32) -> Option<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let children =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let ids: Vec<i32> = children
        .flat_map(|list| list.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect();
    // The name in brackets may hold anything; user time, in ticks of 10 ms, is the twelfth field
    // behind it.
    let ticks = |id: &i32| -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(11)?.parse().ok()
    };
    ids.into_iter().find(|id| ticks(id).is_some_and(|ticks| ticks > 50)).map(Pid::from_raw)
}

/// Returns whether all threads of a process that has begun its work wait for something.
fn is_asleep(process: u32) -> bool {
    let threads: Vec<_> =
        std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten().collect();
    let state = |path: PathBuf| std::fs::read_to_string(path.join("stat")).unwrap_or_default();
    // The name in brackets may hold anything; the state comes behind it.
    let asleep =
        |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'));
    threads.len() > 1 && threads.into_iter().all(|thread| asleep(state(thread.path())))
}

#[test]
fn a_drain_keeps_the_finished_frames_and_a_rerun_does_exactly_the_rest() {
    for signal in [Signal::SIGTERM, Signal::SIGUSR1] {
        let Some(held) = Held::new() else { return };
        let drained = held.end(held.begin(&[]), signal);
        assert_eq!(drained.status, 75, "{}", drained.stderr);
        let result = &drained.records("result")[0];
        assert_eq!((&result["done"], &result["skipped"]), (&json!([[0, 7]]), &json!(false)));
        assert_eq!(held.part_names(), ["00000000-00000006.h5"], "named by the frames that it has");
        let rest = run("ai-integrate", NO_ARGUMENTS, &held.tasks).assert_success();
        let result = &rest.records("result")[0];
        let sources = result["sources"].as_array().unwrap();
        let bytes: u64 = sources[1..].iter().map(|source| source["bytes"].as_u64().unwrap()).sum();
        assert_eq!(
            (&result["done"], result["read_bytes"].as_u64()),
            (&json!([[0, 24]]), Some(bytes))
        );
        assert_eq!(held.part_names(), ["00000000-00000006.h5", "00000007-00000023.h5"]);
    }
}

#[test]
fn a_drain_without_a_frame_is_another_status() {
    let Some(held) = Held::new() else { return };
    let idle = run("ai-integrate", &["--deadline", "0"], &held.tasks);
    assert_eq!((idle.status, held.part_names().len()), (76, 0), "{}", idle.stderr);
    // What was found done is no progress either: a job that resubmits itself on 75 would never end.
    let mut first: Value = serde_json::from_str(&held.tasks).unwrap();
    first["range"] = json!([[0, 7]]);
    run("ai-integrate", NO_ARGUMENTS, &format!("{first}\n")).assert_success();
    let drained = held.end(held.begin(&[]), Signal::SIGTERM);
    assert_eq!(drained.status, 76, "{}", drained.stderr);
    assert_eq!(drained.records("result")[0]["done"], json!([[0, 7]]));
}

#[test]
fn a_part_that_was_cut_short_replaces_no_whole_one() {
    let Some(held) = Held::new() else { return };
    run("ai-integrate", NO_ARGUMENTS, &held.tasks).assert_success();
    let whole = &held.workspace.parts("out")[0];
    let before = std::fs::read(whole).unwrap();
    let drained = held.end(held.begin(&["--force"]), Signal::SIGTERM);
    assert_eq!(drained.status, 75, "{}", drained.stderr);
    assert!(std::fs::read(whole).unwrap() == before, "the earlier part is as it was");
    let again = run("ai-integrate", NO_ARGUMENTS, &held.tasks).assert_success();
    assert_eq!(again.records("result")[0]["skipped"], true);
}

#[test]
fn frames_that_were_lost_replace_none_that_were_integrated() {
    let Some(held) = Held::new() else { return };
    run("ai-integrate", NO_ARGUMENTS, &held.tasks).assert_success();
    let mut gone: Value = serde_json::from_str(&held.tasks).unwrap();
    for source in gone["sources"].as_array_mut().unwrap() {
        source["file"] = json!("/proc/nowhere/at/all.h5");
    }
    let lost = run("ai-integrate", &["--force"], &format!("{gone}\n"));
    assert_eq!((lost.status, lost.records("fail").len()), (1, 4), "{}", lost.stderr);
    assert_eq!(held.part_names(), ["00000000-00000023.h5", "lost-00000000-00000023.h5"]);
    let again = run("ai-integrate", NO_ARGUMENTS, &held.tasks).assert_success();
    assert_eq!(again.records("result")[0]["skipped"], true);
}

#[test]
fn sigint_leaves_nothing_behind() {
    let Some(held) = Held::new() else { return };
    let ended = held.end(held.begin(&[]), Signal::SIGINT);
    assert_eq!((ended.status, ended.stdout.as_str()), (130, ""), "{}", ended.stderr);
    assert_eq!(held.part_names().len(), 0, "{:?}", held.part_names());
}

#[test]
fn a_source_that_hangs_the_library_is_lost_and_the_others_are_integrated() {
    let Some(held) = Held::new() else { return };
    let input = held.workspace.path("held.jsonl");
    std::fs::write(&input, &held.held).unwrap();
    let run = Command::new(program("ai-integrate"))
        .arg(&input)
        .env("AZPIPE_FILE_TIMEOUT", "1")
        .output()
        .unwrap();
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    let records: Vec<Value> = String::from_utf8(run.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let result = records.iter().find(|record| record["type"] == "result").expect("a result");
    assert_eq!(result["done"], json!([[0, 7]]), "{stderr}");
    assert_eq!(result["missing"][0]["range"], json!([[7, 24]]), "{stderr}");
    assert_eq!(result["missing"][0]["kind"], json!("unreadable"), "{stderr}");
    let fails: Vec<&Value> = records.iter().filter(|record| record["type"] == "fail").collect();
    assert!(!fails.is_empty() && fails.iter().all(|fail| fail["retryable"] == true), "{stderr}");
    assert!(stderr.contains("made no progress for 1 s"), "{stderr}");
}
