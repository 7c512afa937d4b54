//! `gather --clean`: what replaced results left goes, and nothing else.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, program, run, small_options};

/// Every file and directory below a directory, with the bytes of each file.
fn list_tree(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        // A filter at work may have renamed or removed it since the directory was read.
        let metadata = match path.symlink_metadata() {
            Err(why) if why.kind() == ErrorKind::NotFound => continue,
            metadata => metadata.unwrap(),
        };
        found.push((path.clone(), if metadata.is_file() { metadata.len() } else { 0 }));
        if metadata.is_dir() {
            found.extend(list_tree(&path));
        }
    }
    found.sort();
    found
}

fn clean(workspace: &Workspace, more: &[&str]) -> Outcome {
    let out = workspace.path("out");
    run("gather", &[&["--from", out.to_str().unwrap(), "--clean"], more].concat(), "")
}

/// Bytes that a run says it has removed, or would remove.
fn parse_removed_bytes(ran: &Outcome) -> u64 {
    let last = ran.stderr.lines().last().unwrap();
    last.rsplit(' ').nth(1).unwrap().parse().unwrap()
}

fn process(workspace: &Workspace, plan: &[&str], gather: &[&str]) -> Outcome {
    let results = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", plan));
    run("gather", gather, &results.stdout)
}

/// A workspace with a result of older settings, whose parts were kept, and one that took its place.
pub fn replace_a_result() -> Workspace {
    let workspace = Workspace::new(&small_options());
    process(&workspace, &["--polarization", "0.95"], &["--keep-parts"]).assert_success();
    process(&workspace, &["--replace"], &["--keep-parts"]).assert_success();
    workspace
}

#[test]
fn what_a_replaced_result_left_goes_and_todays_stays() {
    let workspace = replace_a_result();
    let own = workspace.path("out/.azpipe");
    let today = workspace.plan("out", &[]);
    let before = list_tree(&workspace.path("out"));
    let dry = clean(&workspace, &["--dry-run"]).assert_success();
    assert_eq!(list_tree(&workspace.path("out")), before, "nothing is removed");
    let done = clean(&workspace, &[]).assert_success();
    let after = list_tree(&workspace.path("out"));
    let sum = |tree: &[(PathBuf, u64)]| tree.iter().map(|(_, bytes)| bytes).sum::<u64>();
    assert_eq!(parse_removed_bytes(&done), sum(&before) - sum(&after), "{}", done.stderr);
    assert_eq!(parse_removed_bytes(&dry), parse_removed_bytes(&done), "{}", dry.stderr);
    assert!(
        parse_removed_bytes(&done) > 10_000 && done.stderr.contains("is of recipe"),
        "{}",
        done.stderr
    );
    let count =
        |name: &str| after.iter().filter(|(path, _)| path.to_string_lossy().contains(name)).count();
    assert_eq!([count(".matrix"), count("recipe-"), count("/final")], [1, 1, 2 + 1], "{after:?}");
    assert_eq!(fs::read_dir(own.join("parts")).unwrap().count(), 1);
    // What is left serves today's plan.
    let again = run("ai-integrate", NO_ARGUMENTS, &today).assert_success();
    assert!(again.records("result").iter().all(|result| result["skipped"] == true));
    run("gather", NO_ARGUMENTS, &again.stdout).assert_success();
    let nothing = clean(&workspace, &[]).assert_success();
    assert_eq!(parse_removed_bytes(&nothing), 0, "{}", nothing.stderr);
}

#[test]
fn parts_that_no_whole_final_has_replaced_stay() {
    // Parts without a final, of which no plan is known.
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=6"]))
        .assert_success();
    // A replacement that is under way: the earlier final, which shows its parts, stays until then.
    let other = Workspace::new(&small_options());
    process(&other, &["--polarization", "0.95"], &["--layout", "virtual"]).assert_success();
    let plan = other.plan("out", &["--replace", "--by", "frames=6"]);
    let (one, _) = plan.split_once('\n').unwrap();
    let some = run("ai-integrate", NO_ARGUMENTS, one).assert_success();
    run("gather", NO_ARGUMENTS, &some.stdout);
    for workspace in [&workspace, &other] {
        let before = list_tree(&workspace.path("out"));
        let nothing = clean(workspace, &[]).assert_success();
        assert_eq!(
            (parse_removed_bytes(&nothing), list_tree(&workspace.path("out"))),
            (0, before),
            "{}",
            nothing.stderr
        );
    }
    let rest = run("ai-integrate", NO_ARGUMENTS, &plan).assert_success();
    run("gather", NO_ARGUMENTS, &rest.stdout).assert_success();
    assert!(parse_removed_bytes(&clean(&other, &[]).assert_success()) > 10_000);
    run("gather", &["--from", other.path("out").to_str().unwrap()], "").assert_success();
}

#[test]
fn the_note_of_a_final_that_was_removed_by_hand_goes() {
    let workspace = Workspace::new(&small_options());
    let summary = process(&workspace, &[], &[]).assert_success().records("summary").remove(0);
    fs::remove_file(summary["final"].as_str().unwrap()).unwrap();
    clean(&workspace, &[]).assert_success();
    let left = list_tree(&workspace.path("out/.azpipe"));
    assert!(left.iter().all(|(_, bytes)| *bytes == 0), "{left:?}");
}

#[test]
fn files_of_others_stay_and_their_directories() {
    let workspace = replace_a_result();
    let parts = workspace.parts("out");
    let old = parts.iter().map(|part| part.parent().unwrap()).find(|directory| {
        fs::read(directory.join("final")).is_ok()
            && clean(&workspace, &["--dry-run"]).stderr.contains(directory.to_str().unwrap())
    });
    let old = old.unwrap().to_owned();
    let theirs =
        [old.join("notes.txt"), old.join("copy.h5"), old.join("deeper"), old.join("link.h5")];
    fs::write(&theirs[0], "the only copy").unwrap();
    fs::write(&theirs[1], "the only copy").unwrap();
    fs::create_dir(&theirs[2]).unwrap();
    symlink(&parts[0], &theirs[3]).unwrap();
    fs::write(workspace.path("out/.azpipe/parts/README"), "the only copy").unwrap();
    fs::write(workspace.path("out/.azpipe/matrix/mine.matrix"), "the only copy").unwrap();
    let done = clean(&workspace, &[]).assert_success();
    assert!(theirs.iter().all(|path| path.symlink_metadata().is_ok()), "{}", done.stderr);
    assert!(
        theirs.iter().all(|path| done.stderr.contains(path.to_str().unwrap())),
        "{}",
        done.stderr
    );
    assert_eq!(
        fs::read(workspace.path("out/.azpipe/matrix/mine.matrix")).unwrap(),
        b"the only copy"
    );
    assert_eq!(
        workspace.parts("out").iter().filter(|path| path.starts_with(&old)).count(),
        2,
        "theirs alone"
    );
}

#[test]
fn a_recipe_that_cannot_be_read_keeps_the_parts_that_tell_of_it() {
    let workspace = replace_a_result();
    let tree = || list_tree(&workspace.path("out"));
    let planned = clean(&workspace, &["--dry-run"]).assert_success().stderr;
    let is_unused = |path: &Path| {
        path.extension().is_some_and(|end| end == "toml")
            && planned.contains(path.to_str().unwrap())
    };
    let recipe = tree()
        .into_iter()
        .map(|(path, _)| path)
        .find(|path| is_unused(path))
        .expect("an unused recipe");
    let content = fs::read(&recipe).unwrap();
    fs::remove_file(&recipe).unwrap();
    fs::create_dir(&recipe).unwrap();
    let before = workspace.parts("out");
    let failed = clean(&workspace, &[]);
    assert!(
        failed.status == 1 && failed.stderr.contains(recipe.to_str().unwrap()),
        "{}",
        failed.stderr
    );
    assert_eq!(workspace.parts("out"), before, "{}", failed.stderr);
    fs::remove_dir(&recipe).unwrap();
    fs::write(&recipe, content).unwrap();
    clean(&workspace, &[]).assert_success();
    assert!(!recipe.exists() && workspace.parts("out").len() < before.len());
}

#[test]
fn nothing_goes_while_a_run_is_at_work_or_what_is_there_cannot_be_looked_at() {
    let workspace = replace_a_result();
    let before = list_tree(&workspace.path("out"));
    let old = workspace.parts("out")[0].parent().unwrap().to_owned();
    // A gather that holds the lock of one of the directories.
    let lock = fs::File::open(old.join(".gather.lock")).unwrap();
    lock.lock().unwrap();
    let busy = clean(&workspace, &[]);
    assert!(busy.status == 2 && busy.stderr.contains("another run is at work"), "{}", busy.stderr);
    drop(lock);
    // An ai-integrate of anything, stopped while it writes a part.
    // A task per frame, so that it is seen at one of many parts even if the test gets little time.
    let plan = workspace
        .plan_without_bins("out", &["--recipe-name", "other", "--npt", "200", "--by", "frames=1"]);
    let mut child = Command::new(program("ai-integrate"));
    let child = child.args(["--threads", "1"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), plan.as_bytes()).unwrap();
    let is_temporary =
        |(path, _): &(PathBuf, u64)| path.extension().is_some_and(|end| end == "tmp");
    let writes = || list_tree(&workspace.path("out/.azpipe/parts")).iter().any(is_temporary);
    let id = child.id().to_string();
    let stop = |signal: &str| {
        assert!(Command::new("kill").arg(signal).arg(&id).status().unwrap().success())
    };
    // It goes on for a moment after the signal is sent.
    let stat = format!("/proc/{id}/stat");
    let is_stopped = || fs::read_to_string(&stat).unwrap().contains(") T ");
    loop {
        while !writes() {
            assert!(child.try_wait().unwrap().is_none(), "it has ended before it was seen");
        }
        stop("-STOP");
        while !is_stopped() {
            assert!(child.try_wait().unwrap().is_none(), "it has ended before it stood still");
            std::thread::yield_now();
        }
        if writes() {
            break;
        }
        stop("-CONT");
    }
    let busy = clean(&workspace, &[]);
    stop("-CONT");
    assert!(child.wait().unwrap().success());
    assert!(busy.status == 2 && busy.stderr.contains("another run is at work"), "{}", busy.stderr);
    let now = list_tree(&workspace.path("out"));
    assert!(before.iter().filter(|(path, _)| path.is_file()).all(|file| now.contains(file)));
    // What can't be looked at stays, and is a failure.
    let note = old.join("final");
    let name = fs::read(&note).unwrap();
    fs::remove_file(old.join(".gather.lock")).unwrap();
    symlink(".gather.lock", old.join(".gather.lock")).unwrap();
    let failed = clean(&workspace, &["--dry-run"]);
    assert!(failed.status == 1 && failed.stderr.contains("os error"), "{}", failed.stderr);
    clean(&workspace, &[]);
    assert_eq!(fs::read(&note).unwrap(), name);
    // Without the notes nothing is known.
    let finals = workspace.path("out/.azpipe/finals");
    fs::rename(&finals, workspace.path("away")).unwrap();
    symlink(&finals, &finals).unwrap();
    let refused = clean(&workspace, &[]);
    assert!(refused.status == 2 && refused.stderr.contains("os error"), "{}", refused.stderr);
}

#[test]
fn a_damaged_final_is_reported_once_however_many_results_name_it() {
    let workspace = replace_a_result();
    let mut files = list_tree(&workspace.path("out")).into_iter().map(|(path, _)| path);
    let is_final = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "h5")
            && !path.components().any(|part| part.as_os_str() == ".azpipe")
    };
    let path = files.find(is_final).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let ran = clean(&workspace, &["--dry-run"]);
    let reports = ran.stderr.lines().filter(|line| line.contains(path.to_str().unwrap())).count();
    assert_eq!((ran.status, reports), (1, 1), "{}", ran.stderr);
}
