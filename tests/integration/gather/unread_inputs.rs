//! Parts, counters and registers that can't be read: nothing is removed, and nothing is said to be
//! whole, before it was read.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::fault_shim::{self, Fault};
use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, capture, open_hdf5_to_write, program, run, small_options,
};

fn from_out(workspace: &Workspace) -> Vec<String> {
    vec!["--from".to_owned(), workspace.path("out").to_str().unwrap().to_owned()]
}

/// Runs gather under the shim that logs calls, or lets one fail.
fn gather_under(workspace: &Workspace, environment: &[(&str, &str)]) -> Outcome {
    let top = workspace.path("out");
    let mut command = Command::new(program("gather"));
    command.args(from_out(workspace));
    fault_shim::preload(&mut command, top.parent().unwrap()).envs(environment.iter().copied());
    capture(command, "").into()
}

/// Runs gather with the first open of a file failing.
fn gather_without(workspace: &Workspace, file: &Path, fault: Fault) -> Outcome {
    let log = tempfile::NamedTempFile::new().unwrap();
    // Of other directories, no call fails: each process counts its own.
    let directory = file.parent().unwrap().to_str().unwrap();
    let file = file.to_str().unwrap();
    for number in 1..300 {
        // A run that fails for another reason changes nothing; one that succeeds would.
        fs::write(log.path(), "").unwrap();
        let copy = tempfile::tempdir().unwrap();
        let copied = Command::new("cp")
            .arg("-a")
            .arg(workspace.path("out"))
            .arg(copy.path())
            .status()
            .unwrap();
        assert!(copied.success());
        let at = format!("open {number} {fault}");
        let ran = gather_under(
            workspace,
            &[
                ("FAULTS_AT", &at),
                ("FAULTS_LOG", log.path().to_str().unwrap()),
                ("FAULTS_DIR", directory),
            ],
        );
        if fs::read_to_string(log.path()).unwrap().trim_end().ends_with(file) {
            return ran;
        }
        fs::remove_dir_all(workspace.path("out")).unwrap();
        let moved = Command::new("cp")
            .arg("-a")
            .arg(copy.path().join("out"))
            .arg(workspace.path("out"))
            .status()
            .unwrap();
        assert!(moved.success());
    }
    panic!("{file} is not opened");
}

/// A workspace with a final file, and new parts of all its frames.
fn integrate_twice() -> Workspace {
    let workspace = Workspace::new(&small_options());
    let plan = workspace.plan("out", &["--by", "frames=6"]);
    let first = run("ai-integrate", NO_ARGUMENTS, &plan).assert_success();
    run("gather", NO_ARGUMENTS, &first.stdout).assert_success();
    run("ai-integrate", &["--force"], &plan).assert_success();
    workspace
}

#[test]
fn a_part_that_cannot_be_read_stays_though_the_final_file_has_its_frames() {
    let workspace = integrate_twice();
    let part = workspace.parts("out").remove(1);
    let failed = gather_without(&workspace, &part, "EIO");
    assert_eq!(failed.status, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains(part.to_str().unwrap()), "{}", failed.stderr);
    assert_eq!(
        workspace.parts("out"),
        std::slice::from_ref(&part),
        "the others are in the final file"
    );
    // Another version may read it.
    let content = fs::read(&part).unwrap();
    let mut newer = content.clone();
    let version = newer.windows(4).position(|bytes| bytes == b"\"v\":").unwrap() + 4;
    newer[version] = b'9';
    fs::write(&part, newer).unwrap();
    let refused = run("gather", &from_out(&workspace), "");
    assert!(refused.status == 1 && part.exists(), "{}", refused.stderr);
    fs::write(&part, content).unwrap();
    run("gather", &from_out(&workspace), "").assert_success();
    assert!(workspace.parts("out").is_empty());
}

#[test]
fn a_damaged_part_is_told_once_though_the_final_file_has_its_frames() {
    let workspace = integrate_twice();
    let part = workspace.parts("out").remove(1);
    let whole = fs::read(&part).unwrap();
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap();
    let version = whole.windows(4).position(|bytes| bytes == b"\"v\":").unwrap() + 4;
    let mut wrong = Vec::new();
    // Bytes of the first line and behind it; the version may be that of a newer azpipe.
    let places = (0..line).step_by(7).filter(|at| *at != version);
    for at in places.chain([line, line + 9, 511, 512, whole.len() / 2]) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&part, bytes).unwrap();
        let told = run("gather", &from_out(&workspace), "");
        let again = run("gather", &from_out(&workspace), "");
        if told.status != 1
            || !told.stderr.contains("damaged")
            || again.status != 0
            || part.exists()
        {
            wrong.push(format!(
                "byte {at}: {}: {}then {}: {}",
                told.status, told.stderr, again.status, again.stderr
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn complete_only_reports_a_damaged_part() {
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=6"]))
        .assert_success();
    let part = workspace.parts("out").remove(1);
    fs::write(&part, b"damaged").unwrap();
    let told =
        run("gather", &[&from_out(&workspace)[..], &["--complete-only".to_owned()]].concat(), "");
    assert_eq!(told.status, 1, "{}", told.stderr);
    assert!(told.stderr.contains(part.to_str().unwrap()), "{}", told.stderr);
}

#[test]
fn a_register_that_names_no_final_file_is_an_error() {
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success();
    run("gather", &from_out(&workspace), "").assert_success();
    let recipes =
        fs::read_dir(workspace.path("out/.azpipe/parts")).unwrap().next().unwrap().unwrap().path();
    let register = fs::read_dir(recipes).unwrap().next().unwrap().unwrap().path().join("final");
    fs::write(&register, "").unwrap();
    let told = run("gather", &from_out(&workspace), "");
    assert_eq!(told.status, 1, "{}", told.stderr);
    assert!(told.stderr.contains(&format!("{}: damaged", register.display())), "{}", told.stderr);
}

/// Returns the counters that a final file has.
fn counters(final_file: &Path) -> Vec<String> {
    let written = hdf5::File::open(final_file).unwrap();
    let groups = written.groups().unwrap()[0].groups().unwrap();
    let process = groups.into_iter().find(|group| group.name().ends_with("_integrate")).unwrap();
    process.group("counters").map_or_else(|_| Vec::new(), |group| group.member_names().unwrap())
}

#[test]
fn counters_that_cannot_be_read_are_told_and_copied_by_the_next_run() {
    for (fault, status, told) in [
        ("EIO", 1, "counters and positions can't be read"),
        // Readers of a final file may have no access to the raw file.
        ("EACCES", 0, "counters and positions are not copied"),
    ] {
        let workspace = Workspace::new(&small_options());
        let plan = workspace.plan("out", &[]);
        let task: serde_json::Value = serde_json::from_str(plan.lines().next().unwrap()).unwrap();
        let master = Path::new(task["file"].as_str().unwrap());
        let final_file = workspace.path("out").join(task["final"].as_str().unwrap());
        run("ai-integrate", NO_ARGUMENTS, &plan).assert_success();
        let failed = gather_without(&workspace, master, fault);
        assert!(failed.status == status && failed.stderr.contains(told), "{}", failed.stderr);
        assert!(!final_file.exists() || counters(&final_file).is_empty(), "{fault}");
        run("gather", &from_out(&workspace), "").assert_success();
        assert!(!counters(&final_file).is_empty(), "{fault}");
    }
}

#[test]
fn a_counter_whose_source_is_denied_is_told_and_copied_by_the_next_run() {
    let workspace = Workspace::new(&small_options());
    let plan = workspace.plan("out", &[]);
    let task: serde_json::Value = serde_json::from_str(plan.lines().next().unwrap()).unwrap();
    let master = Path::new(task["file"].as_str().unwrap());
    let (counter, final_file) = (
        task["counters"]["rot"].as_str().unwrap(),
        workspace.path("out").join(task["final"].as_str().unwrap()),
    );
    run("ai-integrate", NO_ARGUMENTS, &plan).assert_success();
    let all = open_hdf5_to_write(master);
    let values = all.dataset(counter).unwrap().read_raw::<f64>().unwrap();
    make_virtual::<f64>(&all, counter, values.len(), "beside.h5");
    all.close().unwrap();
    let source = master.with_file_name("beside.h5");
    let beside = hdf5::File::create(&source).unwrap();
    beside.new_dataset_builder().with_data(&values).create("values").unwrap();
    beside.close().unwrap();

    let denied = gather_without(&workspace, &source, "EACCES");
    assert_eq!(denied.status, 0, "{}", denied.stderr);
    assert!(
        denied.stderr.contains("counter rot can't be read, and is not copied")
            && denied.stderr.contains("Permission denied"),
        "{}",
        denied.stderr
    );
    let others = counters(&final_file);
    assert!(!others.is_empty() && !others.contains(&"rot".to_owned()), "{others:?}");
    run("gather", &from_out(&workspace), "").assert_success();
    assert!(counters(&final_file).contains(&"rot".to_owned()));
}

/// A scan of which one task is gathered, and whose numbers are then changed before the other is.
struct HalfGathered {
    workspace: Workspace,
    record: serde_json::Value,
    second: String,
    final_file: String,
}

impl HalfGathered {
    fn new() -> Self {
        let workspace = Workspace::new(&small_options());
        let plan = workspace.plan("out", &["--by", "frames=12"]);
        let (first, second) = plan.trim_end().split_once('\n').unwrap();
        run("ai-integrate", NO_ARGUMENTS, &format!("{first}\n")).assert_success();
        let summary = run("gather", &from_out(&workspace), "").records("summary").remove(0);
        Self {
            record: serde_json::from_str(first).unwrap(),
            second: format!("{second}\n"),
            final_file: summary["final"].as_str().unwrap().to_owned(),
            workspace,
        }
    }

    fn master(&self) -> &Path {
        Path::new(self.record["file"].as_str().unwrap())
    }

    /// The path of the counter `rot`, which is the moving motor, too.
    fn counter(&self) -> &str {
        self.record["counters"]["rot"].as_str().unwrap()
    }

    fn positioners(&self) -> String {
        format!("/{}/instrument/positioners", self.record["entry"].as_str().unwrap())
    }

    /// Returns the copies in one group of the final file that have this name.
    fn copy(&self, group: &str, name: &str) -> hdf5::Dataset {
        let written = hdf5::File::open(&self.final_file).unwrap();
        let groups = written.groups().unwrap()[0].groups().unwrap();
        let process =
            groups.into_iter().find(|group| group.name().ends_with("_integrate")).unwrap();
        process.dataset(&format!("{group}/{name}")).unwrap()
    }

    fn gather_the_rest(&self) -> Outcome {
        run("ai-integrate", NO_ARGUMENTS, &self.second).assert_success();
        run("gather", &from_out(&self.workspace), "")
    }
}

/// Puts a virtual dataset in the place of `path`.
fn make_virtual<T: hdf5::H5Type>(file: &hdf5::File, path: &str, size: usize, source: &str) {
    file.unlink(path).unwrap();
    let builder = file.new_dataset::<T>().shape(size);
    builder.virtual_map(source, "/values", [size], .., [size], ..).create(path).unwrap();
}

#[test]
fn numbers_that_cannot_be_read_any_more_stay_in_the_final_file() {
    let half = HalfGathered::new();
    let places = [
        ("counters", half.counter().to_owned(), "counter rot can't be read"),
        ("positioners", format!("{}/rot", half.positioners()), "positioner rot can't be read"),
    ];
    let read = |group| half.copy(group, "rot").read_raw::<f64>().unwrap();
    let before = places.each_ref().map(|(group, ..)| read(group));
    let master = open_hdf5_to_write(half.master());
    for ((_, path, _), before) in places.iter().zip(&before) {
        make_virtual::<f64>(&master, path, before.len(), "nowhere.h5");
    }
    master.close().unwrap();
    let again = half.gather_the_rest();
    for ((group, _, told), before) in places.iter().zip(&before) {
        assert!(again.stderr.contains(told), "{}", again.stderr);
        assert_eq!(read(group), *before);
    }
}

#[test]
fn virtual_numbers_behind_external_links_are_copied_exactly_and_texts_need_no_word() {
    let half = HalfGathered::new();
    let directory = half.master().parent().unwrap();
    // More than an f64 can tell apart.
    let values: Vec<i64> = (0..24).map(|number| (1 << 60) + number).collect();
    let source = hdf5::File::create(directory.join("source.h5")).unwrap();
    source.new_dataset_builder().with_data(&values).create("values").unwrap();
    source.close().unwrap();
    let linked = hdf5::File::create(directory.join("linked.h5")).unwrap();
    linked.new_dataset::<i64>().shape(1).create("count").unwrap();
    make_virtual::<i64>(&linked, "count", values.len(), "source.h5");
    linked.close().unwrap();
    let master = open_hdf5_to_write(half.master());
    master.unlink(half.counter()).unwrap();
    master.link_external("linked.h5", "/count", half.counter()).unwrap();
    let text = format!("{}/text", half.positioners());
    master.new_dataset::<hdf5::types::VarLenUnicode>().shape(1).create(&*text).unwrap();
    make_virtual::<hdf5::types::VarLenUnicode>(&master, &text, 1, "nowhere.h5");
    master.close().unwrap();
    let again = half.gather_the_rest();
    assert!(!again.stderr.contains("can't be read"), "{}", again.stderr);
    let copied = half.copy("counters", "rot");
    assert!(copied.dtype().unwrap().is::<i64>());
    assert_eq!(copied.read_raw::<i64>().unwrap(), values);
}
