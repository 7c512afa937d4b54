//! The scripts that slurm-emit writes, looked at without a cluster.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use records::{Fail, Record, Seconds, TaskResult};

use super::task;
use crate::support::{capture, program, read_files_below};

const FOR_SLURM: [&str; 7] =
    ["job.sbatch", "gather.sbatch", "queue.bash", "submit", "status", "cancel", "resubmit"];

/// Returns the values of `--target`.
pub fn targets() -> Vec<String> {
    let command = slurm_emit::command();
    let target =
        command.get_arguments().find(|argument| argument.get_long() == Some("target")).unwrap();
    target.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

pub fn emit(dir: &Path, flags: &[&str], lines: &str) -> Output {
    let mut command = Command::new(program("slurm-emit"));
    command.arg("--dir").arg(dir).args(flags);
    capture(command, lines)
}

pub fn read_stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn scripts_are_clean_whatever_the_names() {
    let top = tempfile::tempdir().unwrap();
    let names: [&[u8]; 5] =
        [b"plain", b"two words", b"it's \"50%\" $HOME `id` #", b"-n;&|<>*?[~]", b"caf\xe9"];
    let flags = [
        vec![],
        vec![
            "--partition",
            "gpu",
            "--mem",
            "100GB",
            "--account",
            "it's mine",
            "--qos",
            "long; rm -rf /",
        ],
        vec![
            "--setup",
            "module load 'cuda'",
            "--cpu-bind",
            "cores",
            "--hint",
            "nomultithread",
            "--exclusive",
            "--job-name",
            "# x",
        ],
        vec![
            "--gpus-per-task",
            "2",
            "--mem-per-gpu",
            "10G",
            "--max-array-size",
            "5",
            "--directive=--comment=\"a b\"",
        ],
    ];
    for (name, flags) in names.into_iter().zip(flags.iter().cycle()) {
        let dir = top.path().join(OsStr::from_bytes(name));
        let bin = OsString::from(dir.join("bin's $(id)"));
        let mut command = Command::new(program("slurm-emit"));
        command.arg("--dir").arg(&dir).arg("--bin").arg(bin).args(flags).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", read_stderr(&output));
        assert_clean(&dir, &FOR_SLURM);
    }
}

#[test]
fn scripts_of_every_target_are_clean_whatever_the_names() {
    let top = tempfile::tempdir().unwrap();
    for target in targets() {
        // Without --partition local, some targets have #SBATCH lines, which can't hold all names.
        let names = [
            ("it's \"50%\" $HOME `id` # {x}", "gpu"),
            ("it's \"50%\" $HOME `id` # {x}\n\u{e9}", "local"),
        ];
        for ((name, partition), more) in names.into_iter().zip([&[][..], &["--allow-missing"]]) {
            let dir = top.path().join(format!("{name} {target}"));
            let flags = ["--target", &target, "--partition", partition, "--python", "/a b/python"];
            let output = emit(
                &dir,
                &[&flags[..], &["--setup", "module load 'x'"], more].concat(),
                &task::line(1),
            );
            assert!(output.status.success(), "{}", read_stderr(&output));
            let (bash, python) = scripts_by_language(&dir);
            assert!(
                ["submit", "status", "cancel", "resubmit"]
                    .iter()
                    .all(|name| bash.iter().any(|one| one == name))
            );
            assert_clean(&dir, &bash.iter().map(String::as_str).collect::<Vec<_>>());
            let parse = "import ast, sys; [ast.parse(open(name).read()) for name in sys.argv[1:]]";
            let parsed = Command::new("python3")
                .args(["-c", parse])
                .args(&python)
                .current_dir(&dir)
                .output()
                .unwrap();
            assert!(parsed.status.success(), "{}", read_stderr(&parsed));
        }
    }
}

/// Returns the names of the scripts of bash in a directory, and of those of Python.
fn scripts_by_language(dir: &Path) -> (Vec<String>, Vec<String>) {
    let names =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (mut bash, mut python) = (Vec::new(), Vec::new());
    for name in names {
        if name.ends_with(".py") {
            python.push(name);
        } else if name.ends_with(".bash")
            || fs::read(dir.join(&name)).is_ok_and(|bytes| bytes.starts_with(b"#!/bin/bash"))
        {
            bash.push(name);
        }
    }
    (bash, python)
}

fn assert_clean(dir: &Path, scripts: &[&str]) {
    // SC2016 asks whether a `$` in single quotes is meant: in a name it is
    let checked = Command::new("shellcheck")
        .args(["-x", "-e", "SC2016"])
        .args(scripts)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{dir:?}: {}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn scripts_do_not_grow_with_the_plan() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    // SLURM refuses a script over 4 MiB; this plan is larger
    let lines = task::lines(20_000);
    assert!(lines.len() > 4 << 20);
    assert!(emit(&dir, &["--rate", "1M"], &lines).status.success());
    for script in FOR_SLURM {
        let length = fs::metadata(dir.join(script)).unwrap().len();
        assert!(length < 16384, "{script}: {length} bytes");
    }
}

#[test]
fn equal_input_gives_equal_bytes() {
    let top = tempfile::tempdir().unwrap();
    let lines = task::lines(40);
    let dir = top.path().join("jobs");
    let flags = ["--rate", "20000", "--partition", "gpu"];
    assert!(emit(&dir, &flags, &lines).status.success());
    let first = read_files_below(&dir);
    // in place, and as if for the first time
    assert!(emit(&dir, &flags, &lines).status.success());
    assert_eq!(read_files_below(&dir), first);
    fs::remove_dir_all(&dir).unwrap();
    assert!(emit(&dir, &flags, &lines).status.success());
    assert_eq!(read_files_below(&dir), first);

    let batches: String = (0..40)
        .map_while(|n| fs::read_to_string(dir.join(format!("batches/01/{n:06}.jsonl"))).ok())
        .collect();
    assert_eq!(batches, lines, "the batches are the plan in its order");
    assert_eq!(fs::read_to_string(dir.join("plan.jsonl")).unwrap(), lines);
}

#[test]
fn the_directives_are_those_that_were_asked_for() {
    let top = tempfile::tempdir().unwrap();
    let flags = [
        "--partition",
        "gpu",
        "--n-workers",
        "3",
        "--time",
        "2:00:00",
        "--mem",
        "100GB",
        "--batch-minutes",
        "0",
    ];
    let lines = task::lines(6);
    let output = emit(top.path(), &flags, &lines);
    assert!(
        read_stderr(&output)
            .contains("3 jobs x 8 engines x 4 threads = 24 engines, 96 CPUs, 3 GPUs"),
        "{}",
        read_stderr(&output)
    );
    let script = fs::read_to_string(top.path().join("job.sbatch")).unwrap();
    for directive in [
        "--array=0-5%3",
        "--partition=gpu",
        "--cpus-per-task=32",
        "--gres=gpu:1",
        "--mem=94G",
        "--time=02:00:00",
        "--signal=B:USR1@120",
        "--requeue",
        "--open-mode=append",
        "--ntasks=1",
    ] {
        assert!(script.contains(&format!("#SBATCH {directive}\n")), "{directive}\n{script}");
    }
    assert!(script.contains("srun=(-n 1 -c 32)\n"), "{script}");

    let flags =
        [&flags[..], &["--gres", "none", "--skip-directive", "mem", "--skip-directive", "--time"]]
            .concat();
    assert!(emit(top.path(), &flags, &lines).status.success());
    let script = fs::read_to_string(top.path().join("job.sbatch")).unwrap();
    assert!(
        !["--gres", "--mem", "--time"]
            .iter()
            .any(|option| script.contains(&format!("#SBATCH {option}"))),
        "{script}"
    );
}

#[test]
fn explain_shows_the_same_directives_and_writes_nothing() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    let output = emit(&dir, &["--explain", "--mem", "16GB"], &task::line(1));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.lines().any(|line| line.starts_with("--mem ") && line.contains("--mem=15G")),
        "{table}"
    );
    assert!(table.lines().any(|line| line.contains("--engines 8")), "{table}");
    assert!(!dir.exists());
}

#[test]
fn earlier_results_tell_the_rate_and_the_plan_the_time() {
    let top = tempfile::tempdir().unwrap();
    let results = top.path().join("results.jsonl");
    let seconds = Seconds { wall: 4.0, ..Seconds::default() };
    let Ok(Record::Task(task)) = Record::parse(task::line(0).trim_end()) else { panic!("a task") };
    let result =
        TaskResult { task: *task, read_bytes: 1_000_000, seconds, ..TaskResult::default() };
    fs::write(&results, Record::from(result).to_line() + "\n").unwrap();
    let flags = ["--explain", "--time", "auto", "--rate-from", results.to_str().unwrap()];
    let output = emit(&top.path().join("jobs"), &flags, &task::lines(600));
    let table = String::from_utf8_lossy(&output.stdout);
    // eight engines of a quarter of a megabyte a second; batches of a minute, for they are 75 s of
    // each job: twice that and five minutes, in steps of five
    assert!(table.contains("10 minutes at 2 MB/s per job"), "{table} {}", read_stderr(&output));
    assert!(table.contains("#SBATCH --time=00:10:00"), "{table}");
}

/// Writes an executable script.
pub fn write_program(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/bash\n{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn without_slurm_scripts_say_which_command_is_missing_and_what_to_do() {
    let top = tempfile::tempdir().unwrap();
    let programs = top.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for name in [
        "bash", "awk", "find", "wc", "mkdir", "flock", "sort", "id", "cut", "paste", "grep", "date",
    ] {
        let found = Command::new("which").arg(name).output().unwrap();
        let path = String::from_utf8(found.stdout).unwrap();
        std::os::unix::fs::symlink(path.trim_end(), programs.join(name)).unwrap();
    }
    for (target, script) in
        [("slurm", "submit"), ("slurm", "resubmit"), ("dask", "submit"), ("ray", "submit")]
    {
        let dir = top.path().join(target);
        assert!(
            emit(&dir, &["--target", target, "--node-cpus", "64"], &task::line(1)).status.success()
        );
        if script == "resubmit" {
            fs::write(dir.join("submitted"), "1 array of batches/01\n").unwrap();
        }
        let output = Command::new(dir.join(script)).env("PATH", &programs).output().unwrap();
        let expected = format!(
            "{script}: SLURM's command sbatch is not found on this machine: run {script} on a machine from which jobs \
             can be submitted, or let slurm-emit --target local write scripts for this machine\n"
        );
        assert_eq!((output.status.code(), read_stderr(&output)), (Some(2), expected), "{target}");
    }
}

#[test]
fn what_slurm_can_not_write_a_log_to_is_refused() {
    let top = tempfile::tempdir().unwrap();
    for (name, expected) in [("two\nlines", "line break"), ("back\\slash", "backslash")] {
        let output = emit(&top.path().join(name), &[], &task::line(1));
        assert!(
            output.status.code() == Some(2) && read_stderr(&output).contains(expected),
            "{}",
            read_stderr(&output)
        );
        assert!(!top.path().join(name).exists());
    }
    let output =
        emit(&top.path().join("jobs"), &["--drain-seconds", "600", "--time", "10"], &task::line(1));
    assert!(
        output.status.code() == Some(2) && read_stderr(&output).contains("--drain-seconds 600"),
        "{}",
        read_stderr(&output)
    );
}

#[test]
fn a_submitted_plan_is_not_overwritten_by_another() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path();
    assert!(emit(dir, &[], &task::line(1)).status.success());
    assert!(
        emit(dir, &[], &(task::line(1) + &task::line(2))).status.success(),
        "it is not submitted yet"
    );
    fs::write(dir.join("submitted"), "1 array of batches/01\n").unwrap();
    let before = read_files_below(dir);
    let output = emit(dir, &[], &task::line(3));
    assert!(
        output.status.code() == Some(2) && read_stderr(&output).contains("another plan"),
        "{}",
        read_stderr(&output)
    );
    assert_eq!(read_files_below(dir), before);
    // scripts of the same plan may change: --time here
    assert!(emit(dir, &["--time", "5"], &(task::line(1) + &task::line(2))).status.success());
    assert!(fs::read_to_string(dir.join("job.sbatch")).unwrap().contains("--time=00:05:00"));
}

#[test]
fn other_records_go_on_and_tasks_stay() {
    let top = tempfile::tempdir().unwrap();
    let fail = Record::from(Fail { about: "/x.h5".to_owned(), ..Fail::default() }).to_line() + "\n";
    let output = emit(top.path(), &[], &(task::line(1) + &fail + &task::line(2) + &task::line(1)));
    assert_eq!(output.status.code(), Some(1), "what failed before is not in the plan");
    assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), fail);
    assert!(
        read_stderr(&output).contains("1 task came more than once"),
        "{}",
        read_stderr(&output)
    );
    assert_eq!(
        fs::read_to_string(top.path().join("plan.jsonl")).unwrap(),
        task::line(1) + &task::line(2)
    );
    // A saved plan of a scan that was followed has its tasks several times, each time with more
    // frames.
    let grown =
        task::line(1).replacen("\"type\":\"task\",", "\"type\":\"task\",\"grown\":true,", 1);
    let output = emit(&top.path().join("grown"), &[], &(task::line(1) + &task::line(2) + &grown));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        read_stderr(&output).contains("comes again with other content"),
        "{}",
        read_stderr(&output)
    );
    assert!(!top.path().join("grown").exists());
    let output = emit(&top.path().join("other"), &[], "{\n");
    assert_eq!(output.status.code(), Some(1));
}
