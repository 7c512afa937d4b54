//! Nodes whose locks do not see each other, as on GPFS, Lustre with `localflock`, and NFS with
//! `local_lock`: what another node is writing is left alone, and what it left for good goes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use super::clean::replace_a_result;
use crate::support::{Workspace, program, small_options, source_file};

/// Compiles the file system once, and returns its path.
fn compile_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = source_file("gather/nodes.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("libazpipe-nodes.{}.so", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&library)
            .arg(source);
        assert!(compiler.arg("-ldl").status().unwrap().success());
        library
    })
}

/// Starts a filter on a node, over this input.
fn start(node: &str, hold: Option<&Path>, filter: &str, flags: &[&str], input: &str) -> Child {
    let mut command = Command::new(program(filter));
    command.args(flags).env("LD_PRELOAD", compile_library()).env("NODE", node);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.envs(hold.map(|path| ("HOLD", path))).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child
}

fn wait_for_success(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns the files below a directory that have temporary names.
fn list_temporary_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        let is_temporary =
            path.extension().is_some_and(|end| end == "tmp" || end == "lock" || end == "making");
        match path.is_dir() {
            true => found.extend(list_temporary_files(&path)),
            false if is_temporary && path.file_name().unwrap() != ".gather.lock" => {
                found.push(path)
            }
            false => (),
        }
    }
    found
}

/// Waits until a process is at the end of a part, where it is held.
fn wait_for_a_part(parts: &Path) -> Vec<PathBuf> {
    loop {
        let found = list_temporary_files(parts);
        if found.iter().any(|path| {
            path.extension().is_some_and(|end| end == "tmp")
                && path.metadata().unwrap().len() > 4096
        }) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn read_first_summary(output: &Output) -> serde_json::Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().next().expect("a summary")).unwrap()
}

#[test]
fn what_another_node_is_writing_is_left_alone() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=6"]);
    let out = workspace.path("out");
    let (parts, hold) = (out.join(".azpipe/parts"), workspace.path("hold"));
    fs::write(&hold, "").unwrap();
    let slow =
        start("node1", Some(&hold), "ai-integrate", &["--threads", "1", "--cache", "none"], &tasks);
    let writing = wait_for_a_part(&parts);

    // Another node does all of it meanwhile, and a third one puts it together and removes the
    // parts.
    let results = wait_for_success(start("node2", None, "ai-integrate", &[], &tasks));
    assert!(writing.iter().all(|path| path.exists()), "{writing:?}");
    let results = String::from_utf8(results.stdout).unwrap();
    let first =
        read_first_summary(&wait_for_success(start("node3", None, "gather", &[], &results)));
    assert_eq!(first["complete"], true);
    assert!(writing.iter().all(|path| path.exists()), "{writing:?}");

    fs::remove_file(&hold).unwrap();
    let late = String::from_utf8(wait_for_success(slow).stdout).unwrap();
    assert_eq!(late.lines().count(), 4, "each task has its result");
    let second = read_first_summary(&wait_for_success(start("node3", None, "gather", &[], &late)));
    assert_eq!(
        (&second["complete"], &second["data_digest"]),
        (&true.into(), &first["data_digest"])
    );
    assert!(list_temporary_files(&out).is_empty(), "{:?}", list_temporary_files(&out));
}

#[test]
fn what_a_dead_node_left_goes_when_nobody_has_touched_it_for_a_day() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=6"]);
    let out = workspace.path("out");
    let (parts, hold) = (out.join(".azpipe/parts"), workspace.path("hold"));
    fs::write(&hold, "").unwrap();
    let mut dead =
        start("node1", Some(&hold), "ai-integrate", &["--threads", "1", "--cache", "none"], &tasks);
    let left = wait_for_a_part(&parts);
    dead.kill().unwrap();
    dead.wait().unwrap();

    let results = String::from_utf8(
        wait_for_success(start("node2", None, "ai-integrate", &["--cache", "none"], &tasks)).stdout,
    )
    .unwrap();
    wait_for_success(start("node2", None, "gather", &[], &results));
    // Nobody on node2 can tell that it is dead.
    assert_eq!(list_temporary_files(&out).len(), left.len());
    // The clock of a node that is two days ahead is not asked: the file system's is.
    for (path, ahead) in left.iter().zip([false, true].into_iter().cycle()) {
        let days = Duration::from_secs(2 * 86400);
        let time = if ahead { SystemTime::now() + days } else { SystemTime::now() - days };
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    wait_for_success(start("node2", None, "gather", &[], &results));
    assert_eq!(
        list_temporary_files(&out).len(),
        left.len(),
        "one of them was touched just now, or later"
    );
    for path in &left {
        let time = SystemTime::now() - Duration::from_secs(86400 + 3600);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    wait_for_success(start("node2", None, "gather", &[], &results));
    assert!(list_temporary_files(&out).is_empty(), "{:?}", list_temporary_files(&out));

    // On its own node it goes at once.
    fs::remove_dir_all(&out).unwrap();
    let tasks = workspace.plan("out", &["--by", "frames=6"]);
    let mut dead =
        start("node1", Some(&hold), "ai-integrate", &["--threads", "1", "--cache", "none"], &tasks);
    wait_for_a_part(&parts);
    dead.kill().unwrap();
    dead.wait().unwrap();
    wait_for_success(start("node1", None, "ai-integrate", &["--cache", "none"], &tasks));
    assert!(list_temporary_files(&out).is_empty(), "{:?}", list_temporary_files(&out));
}

#[test]
fn nothing_is_cleaned_while_a_gather_is_at_work_that_no_lock_tells_of() {
    let workspace = replace_a_result();
    let out = workspace.path("out");
    let (parts, hold) = (out.join(".azpipe/parts"), workspace.path("hold"));
    let from = ["--from", out.to_str().unwrap()];
    let clean = [from[0], from[1], "--clean"];
    for without_locks in [false, true] {
        let run = |node: &str, flags: &[&str], hold: Option<&Path>| {
            let mut command = Command::new(program("gather"));
            command.args(flags).env("LD_PRELOAD", compile_library()).env("NODE", node);
            command
                .envs(without_locks.then_some(("NO_LOCKS", "1")))
                .envs(hold.map(|hold| ("HOLD_READ", hold)));
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        fs::write(&hold, "").unwrap();
        let mut reads = run("node1", &from, Some(&hold));
        // It has begun with the parts of a directory, and writes nothing yet.
        while list_temporary_files(&parts).is_empty() {
            assert!(reads.try_wait().unwrap().is_none(), "it has ended before it was seen");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(
            list_temporary_files(&parts)
                .iter()
                .all(|path| path.extension().is_some_and(|end| end == "lock"))
        );
        for node in ["node1", "node2"] {
            let busy = run(node, &clean, None).wait_with_output().unwrap();
            let said = String::from_utf8(busy.stderr).unwrap();
            assert!(
                busy.status.code() == Some(2) && said.contains("another run is at work there"),
                "{node}: {said}"
            );
        }
        fs::remove_file(&hold).unwrap();
        reads.wait_with_output().unwrap();
        assert!(list_temporary_files(&out).is_empty(), "{:?}", list_temporary_files(&out));
    }
    let before = workspace.parts("out").len();
    wait_for_success(start("node2", None, "gather", &clean, ""));
    // Those of the result that took the place went when its final was made.
    assert!(
        before > 0 && workspace.parts("out").is_empty(),
        "{before}: {:?}",
        workspace.parts("out")
    );
}
