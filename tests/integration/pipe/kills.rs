//! Killed at any moment, a filter loses no finished work, and a rerun ends with the same bytes.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{NO_ARGUMENTS, Workspace, program, run, small_options};

/// Runs a filter and kills it after `after`; what it wrote until then.
fn run_and_kill(name: &str, arguments: &[&str], input: &str, after: Duration) -> String {
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
    std::thread::sleep(after);
    // It may have ended by itself.
    let _ = child.kill();
    let output = child.wait_with_output().expect("the filter ends");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A moment between nothing and a little more than a whole run takes; the golden ratio spreads
/// them.
fn choose_delay(number: u32, whole: Duration) -> Duration {
    whole.mul_f64((f64::from(number) * 0.618_033_988_75).fract() * 1.1)
}

#[test]
fn kill_9_at_fifty_moments_costs_nothing_but_time() {
    let workspace = Workspace::new(&small_options());
    let began = Instant::now();
    let fresh =
        run("ai-integrate", &["--threads", "2"], &workspace.plan("fresh", &["--by", "frames=3"]))
            .assert_success();
    let integrating = began.elapsed();
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
        let wrote = run_and_kill(
            "ai-integrate",
            &["--threads", "2"],
            &tasks,
            choose_delay(number, integrating),
        );
        whole_lines += wrote.lines().count();
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
        run_and_kill("gather", &["--from", root], "", choose_delay(number, gathering));
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
