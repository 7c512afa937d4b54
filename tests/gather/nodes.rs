//! Nodes whose locks do not see each other, as on GPFS, Lustre with `localflock`, and NFS with `local_lock`: what another
//! node is writing is left alone, and what it left for good goes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::site::{Site, binary, small};

/// Compiles the file system once, and returns its path.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gather/nodes.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libazpipe-nodes.{}.so", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&library).arg(source);
        assert!(compiler.arg("-ldl").status().unwrap().success());
        library
    })
}

/// Starts a filter on a node, over this input.
fn start(node: &str, hold: Option<&Path>, filter: &str, flags: &[&str], input: &str) -> Child {
    let mut command = Command::new(binary(filter));
    command.args(flags).env("LD_PRELOAD", library()).env("NODE", node);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.envs(hold.map(|path| ("HOLD", path))).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What lies below a directory under temporary names.
fn temporary(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        let is_temporary = path.extension().is_some_and(|end| end == "tmp" || end == "lock" || end == "making");
        match path.is_dir() {
            true => found.extend(temporary(&path)),
            false if is_temporary && path.file_name().unwrap() != ".gather.lock" => found.push(path),
            false => (),
        }
    }
    found
}

/// Waits until a process is at the end of a part, where it is held.
fn wait_for_a_part(parts: &Path) -> Vec<PathBuf> {
    loop {
        let found = temporary(parts);
        if found
            .iter()
            .any(|path| path.extension().is_some_and(|end| end == "tmp") && path.metadata().unwrap().len() > 4096)
        {
            return found;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn summary(output: &Output) -> serde_json::Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().next().expect("a summary")).unwrap()
}

#[test]
fn what_another_node_is_writing_is_left_alone() {
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "frames=6"]);
    let out = site.path("out");
    let (parts, hold) = (out.join(".azpipe/parts"), site.path("hold"));
    fs::write(&hold, "").unwrap();
    let slow = start("node1", Some(&hold), "ai-integrate", &["--threads", "1", "--cache", "none"], &tasks);
    let writing = wait_for_a_part(&parts);

    // Another node does all of it meanwhile, and a third one puts it together and removes the parts.
    let results = end(start("node2", None, "ai-integrate", &[], &tasks));
    assert!(writing.iter().all(|path| path.exists()), "{writing:?}");
    let results = String::from_utf8(results.stdout).unwrap();
    let first = summary(&end(start("node3", None, "gather", &[], &results)));
    assert_eq!(first["complete"], true);
    assert!(writing.iter().all(|path| path.exists()), "{writing:?}");

    fs::remove_file(&hold).unwrap();
    let late = String::from_utf8(end(slow).stdout).unwrap();
    assert_eq!(late.lines().count(), 4, "each task has its result");
    let second = summary(&end(start("node3", None, "gather", &[], &late)));
    assert_eq!((&second["complete"], &second["data_digest"]), (&true.into(), &first["data_digest"]));
    assert!(temporary(&out).is_empty(), "{:?}", temporary(&out));
}

#[test]
fn what_a_dead_node_left_goes_when_nobody_has_touched_it_for_a_day() {
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "frames=6"]);
    let out = site.path("out");
    let (parts, hold) = (out.join(".azpipe/parts"), site.path("hold"));
    fs::write(&hold, "").unwrap();
    let mut dead = start("node1", Some(&hold), "ai-integrate", &["--threads", "1", "--cache", "none"], &tasks);
    let left = wait_for_a_part(&parts);
    dead.kill().unwrap();
    dead.wait().unwrap();

    let results =
        String::from_utf8(end(start("node2", None, "ai-integrate", &["--cache", "none"], &tasks)).stdout).unwrap();
    end(start("node2", None, "gather", &[], &results));
    // Nobody on node2 can tell that it is dead.
    assert_eq!(temporary(&out).len(), left.len());
    // The clock of a node that is two days ahead is not asked: the file system's is.
    for (path, ahead) in left.iter().zip([false, true].into_iter().cycle()) {
        let days = Duration::from_secs(2 * 86400);
        let time = if ahead { SystemTime::now() + days } else { SystemTime::now() - days };
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    end(start("node2", None, "gather", &[], &results));
    assert_eq!(temporary(&out).len(), left.len(), "one of them was touched just now, or later");
    for path in &left {
        let time = SystemTime::now() - Duration::from_secs(86400 + 3600);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    end(start("node2", None, "gather", &[], &results));
    assert!(temporary(&out).is_empty(), "{:?}", temporary(&out));

    // On its own node it goes at once.
    fs::remove_dir_all(&out).unwrap();
    let tasks = site.plan("out", &["--by", "frames=6"]);
    let mut dead = start("node1", Some(&hold), "ai-integrate", &["--threads", "1", "--cache", "none"], &tasks);
    wait_for_a_part(&parts);
    dead.kill().unwrap();
    dead.wait().unwrap();
    end(start("node1", None, "ai-integrate", &["--cache", "none"], &tasks));
    assert!(temporary(&out).is_empty(), "{:?}", temporary(&out));
}
