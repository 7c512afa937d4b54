//! Killed at any moment, a filter loses no finished work, and a rerun ends with the same bytes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{NO_ARGUMENTS, Workspace, program, run, small_options};

/// Runs a filter and kills it `after` its first `lines` lines of output. Returns the number of
/// whole lines that it wrote.
fn run_and_kill(
    name: &str,
    arguments: &[&str],
    input: &str,
    lines: usize,
    after: Duration,
) -> usize {
    let mut child = Command::new(program(name))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the filter starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // A filter that is dead does not read all of it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    for _ in 0..lines {
        output.read_line(&mut line).expect("UTF-8");
    }
    std::thread::sleep(after);
    // It may have ended by itself.
    let _ = child.kill();
    output.read_to_string(&mut line).expect("UTF-8");
    child.wait().expect("the filter ends");
    line.matches('\n').count()
}

/// A share between 0 and 1; the golden ratio spreads those of successive numbers.
fn spread(number: usize) -> f64 {
    (number as f64 * 0.618_033_988_75).fract()
}

#[test]
fn kill_9_at_fifty_moments_costs_nothing_but_time() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("fresh", &["--by", "frames=3"]);
    let began = Instant::now();
    let fresh = run("ai-integrate", &["--threads", "2"], &tasks).assert_success();
    let per_task = began.elapsed() / 8;
    let began = Instant::now();
    let expected = run("gather", NO_ARGUMENTS, &fresh.stdout).assert_success().records("summary")
        [0]["data_digest"]
        .clone();
    let gathering = began.elapsed();

    let mut whole_lines = 0;
    for number in 0..25 {
        let out = format!("killed{number}");
        let tasks = workspace.plan(&out, &["--by", "frames=3"]);
        let root = workspace.path(&out);
        let root = root.to_str().unwrap();
        whole_lines += run_and_kill(
            "ai-integrate",
            &["--threads", "2"],
            &tasks,
            number % 8,
            per_task.mul_f64(spread(number)),
        );
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
        let delay = gathering.mul_f64(1.1 * spread(number));
        run_and_kill("gather", &["--from", root], "", 0, delay);
        let again = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
        let summary =
            run("gather", NO_ARGUMENTS, &again.stdout).assert_success().records("summary")[0]
                .clone();
        assert_eq!(
            (&summary["data_digest"], &summary["complete"]),
            (&expected, &true.into()),
            "moment {number}"
        );
        assert_eq!(results.records("result").len(), 8);
        let temporary = |path: &PathBuf| path.extension().is_some_and(|end| end == "tmp");
        let leftovers: Vec<_> =
            workspace.working_files(&out).into_iter().filter(temporary).collect();
        assert!(leftovers.is_empty(), "{leftovers:?}");
    }
    assert!(
        whole_lines > 25 && whole_lines < 175,
        "{whole_lines} of 200 results before the kills: they missed the run"
    );
}
