//! Several at once, and one that is stopped.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{NO_ARGUMENTS, Workspace, program, run, small_options};

fn start(workspace: &Workspace) -> Child {
    let mut command = Command::new(program("gather"));
    command
        .arg("--from")
        .arg(workspace.path("out"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

#[test]
fn many_at_once_on_one_scan_all_find_it_complete() {
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=2"]))
        .assert_success();
    let crowd: Vec<Child> = (0..6).map(|_| start(&workspace)).collect();
    let mut digests: Vec<String> = Vec::new();
    for child in crowd {
        let done = child.wait_with_output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success(), "{text} {}", String::from_utf8_lossy(&done.stderr));
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(summary["complete"], true);
        digests.push(summary["data_digest"].to_string());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1);
}

/// Each pipe was planned before the other one had a result.
#[test]
fn of_two_recipes_with_one_final_one_is_refused() {
    for _ in 0..5 {
        let workspace = Workspace::new(&small_options());
        let out = workspace.path("out");
        let plans = ["200", "500"].map(|bins| workspace.plan_without_bins("out", &["--npt", bins]));
        let results = plans.map(|plan| run("ai-integrate", NO_ARGUMENTS, &plan).stdout);
        let gathers: Vec<_> = std::thread::scope(|scope| {
            let gathers: Vec<_> = results
                .iter()
                .map(|results| scope.spawn(|| run("gather", NO_ARGUMENTS, results)))
                .collect();
            gathers.into_iter().map(|gather| gather.join().expect("no panic")).collect()
        });
        let (done, refused): (Vec<_>, Vec<_>) =
            gathers.iter().zip(&results).partition(|(gather, _)| gather.status == 0);
        let ([(done, _)], [(refused, refused_results)]) = (&done[..], &refused[..]) else {
            panic!("{} of 2 are done", done.len());
        };
        let digest = done.records("summary")[0]["data_digest"].clone();
        assert!(
            refused.stderr.contains("another recipe") || refused.stderr.contains("another result"),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains("--recipe-name"), "{}", refused.stderr);
        // The one is whole, and nothing of the other is lost.
        let from = run("gather", &["--from", out.to_str().expect("a path")], "");
        assert_eq!(from.records("summary")[0]["data_digest"], digest);
        assert_eq!(run("gather", NO_ARGUMENTS, refused_results).status, 1);
        assert_eq!(workspace.parts("out").len(), 1);
    }
}

#[test]
fn one_that_waits_for_another_can_be_stopped() {
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success();
    let directory = workspace.parts("out")[0].parent().unwrap().to_path_buf();
    let lock = std::fs::File::create(directory.join(".gather.lock")).unwrap();
    lock.lock().unwrap();
    let mut waiting = start(&workspace);
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    let process = nix::unistd::Pid::from_raw(waiting.id() as i32);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
    let (asked, patience) = (Instant::now(), Duration::from_secs(10));
    let status = loop {
        match waiting.try_wait().unwrap() {
            Some(status) => break status,
            None if asked.elapsed() > patience => panic!("still waiting"),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert_eq!(workspace.parts("out").len(), 1);
}

#[test]
fn one_that_waits_for_another_says_so() {
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success();
    let path = workspace.parts("out")[0].with_file_name(".gather.lock");
    let lock = std::fs::File::create(&path).unwrap();
    lock.lock().unwrap();
    let mut waiting = start(&workspace);
    let (send, lines) = mpsc::channel();
    let stderr = BufReader::new(waiting.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        stderr.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
    });
    let said = loop {
        let line = lines.recv_timeout(Duration::from_secs(120)).expect("it says why it waits");
        if line.contains("waiting for another gather") {
            break line;
        }
    };
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    drop(lock);
    assert!(waiting.wait().unwrap().success());
    reader.join().unwrap();
}
