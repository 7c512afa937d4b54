//! Submissions of which this machine does not know all: an answer that SLURM did not give in time,
//! jobs of an earlier version, and tasks that are added meanwhile.

use std::fs;

use super::cluster::{Cluster, NODES, shared_directory};
use super::jobs::Jobs;
use super::scripts::{emit, read_stderr, write_program};
use super::task;

#[test]
fn an_array_that_slurm_took_although_sbatch_timed_out_is_not_submitted_again() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("late", "frames=8", 1);
    jobs.emit(&["--batch-minutes", "0"]);
    let bin = shared_directory().join("late/late-bin");
    fs::create_dir(&bin).unwrap();
    let sbatch = r#"PATH=${PATH#*:}
if [[ $* == *--array=* ]]; then
    sbatch "$@" > /dev/null
    echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
    exit 1
fi
exec sbatch "$@""#;
    write_program(&bin.join("sbatch"), sbatch);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let told = jobs.submit(&[("PATH", &path), ("SLOW", "1")]);
    assert!(told.contains("job array, 3 batches in 3 elements"), "{told}");
    jobs.wait();
    jobs.assert_complete();
    assert!(jobs.call("submit").contains("nothing to submit"));
    assert_eq!(jobs.runs().len(), 3);
}

#[test]
fn batches_of_a_queued_array_without_a_list_are_not_taken_for_missing() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("earlier", "frames=8", 1);
    jobs.emit(&["--batch-minutes", "0"]);
    jobs.submit(&[("HOLD", "60")]);
    // As versions wrote it that had no lists.
    let submitted = fs::read_to_string(jobs.dir.join("submitted")).unwrap();
    fs::write(jobs.dir.join("submitted"), submitted.replace("arrays/0000", "batches/01")).unwrap();
    let output = jobs.script("submit").output().unwrap();
    let said = read_stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("no file batches/01"), "{said}");
    jobs.call("cancel");
    jobs.wait();
    jobs.call("submit");
    jobs.wait();
    jobs.assert_complete();
}

/// A plan that grows for days has more jobs than squeue can be asked for at once, and the gather
/// that waits for all of them is the first.
#[test]
fn the_held_gather_is_asked_for_after_however_many_arrays() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    assert!(emit(&dir, &[], &task::line(1)).status.success());
    let arrays: String = (2..20_000).map(|job| format!("{job} array of arrays/1, x\n")).collect();
    fs::write(dir.join("submitted"), format!("1 gather, x\n{arrays}")).unwrap();
    write_program(&top.path().join("squeue"), "printf '%s\\n' \"$@\" > asked");
    let mut command = std::process::Command::new("bash");
    command.args(["-euc", ". ./queue.bash; queued"]).current_dir(&dir);
    command.env("PATH", format!("{}:/usr/bin:/bin", top.path().display()));
    assert!(command.output().unwrap().status.success());
    let asked = fs::read_to_string(dir.join("asked")).unwrap();
    let jobs = asked.lines().find_map(|line| line.strip_prefix("--jobs=")).unwrap();
    assert!(jobs.starts_with("1,") && jobs.split(',').count() == 10_001, "{jobs}");
}

#[test]
fn tasks_of_another_recipe_for_the_same_file_are_not_added() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    assert!(emit(&dir, &["--append"], &task::line(1)).status.success());
    let mut other: serde_json::Value = serde_json::from_str(&task::line(1)).unwrap();
    other["id"] = task::id(2).into();
    other["recipe_digest"] = "0123456789abcdef".into();
    let plan = || fs::read_to_string(dir.join("plan.jsonl")).unwrap();
    let before = plan();
    let output = emit(&dir, &["--append"], &format!("{other}\n"));
    let said = read_stderr(&output);
    assert!(
        output.status.code() == Some(2) && said.contains("has another recipe for this file"),
        "{said}"
    );
    assert_eq!(plan(), before);
}

#[test]
fn versions_of_a_task_that_the_plan_has_are_not_added_again() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    let grown = task::line(1).replacen(
        "\"type\":\"task\",",
        "\"type\":\"task\",\"end_reason\":\"SUCCESS\",",
        1,
    );
    let lines = task::line(1) + &grown;
    for _ in 0..2 {
        assert!(emit(&dir, &["--append"], &lines).status.success());
        let plan = fs::read_to_string(dir.join("plan.jsonl")).unwrap();
        assert_eq!(plan.lines().count(), 2, "{plan}");
    }
}

#[test]
fn tasks_are_not_divided_anew_while_some_are_added() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    assert!(emit(&dir, &[], &task::line(1)).status.success());
    fs::write(dir.join("submitted"), "1 array of arrays/0000, x\n").unwrap();
    for command in ["sbatch", "squeue", "scontrol", "scancel"] {
        write_program(&top.path().join(command), "exit 0");
    }
    let lock = fs::File::create(dir.join(".append")).unwrap();
    lock.lock().unwrap();
    let mut resubmit = std::process::Command::new(dir.join("resubmit"));
    resubmit.env("PATH", format!("{}:/usr/bin:/bin", top.path().display()));
    let output = resubmit.output().unwrap();
    let said = read_stderr(&output);
    assert!(
        output.status.code() == Some(2) && said.contains("slurm-emit --append adds tasks"),
        "{said}"
    );
    assert!(!dir.join("batches/02").exists());
}
