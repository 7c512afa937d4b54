//! HDF5 files without checksums on which the library never returns, or crashes: they are told, and
//! the rest goes on.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, capture_within_a_minute, program, python, run, run_python,
    small_options,
};

/// Returns the bytes of a file without the checksums behind its end, which finals of earlier
/// versions don't have.
fn read_without_checksums(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    if let Some(foot) =
        bytes.len().checked_sub(32).filter(|&foot| bytes[foot..].starts_with(b"azpipe checks"))
    {
        let size = u64::from_le_bytes(*bytes[foot + 16..].first_chunk().unwrap());
        bytes.truncate(size as usize);
    }
    bytes
}

/// Makes the library look for the end of each heap of texts for ever: its first object is said to
/// be free space of no length.
fn damage_heaps(path: &Path) {
    let mut bytes = read_without_checksums(path);
    let heaps: Vec<usize> =
        (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"GCOL")).collect();
    assert!(!heaps.is_empty(), "no heap of texts");
    heaps.iter().for_each(|heap| bytes[heap + 16..heap + 32].fill(0));
    fs::write(path, bytes).unwrap();
}

/// Runs a filter that takes a file to hang after a second.
fn run_with_limit(filter: &str, flags: &[&str], input: &str) -> Outcome {
    let mut command = Command::new(program(filter));
    command.args(flags).env("AZPIPE_FILE_TIMEOUT", "1");
    capture_within_a_minute(command, input)
}

fn assert_told(ran: &Outcome, file: &Path, status: i32) {
    let said = format!("{}: ", file.display());
    let told = |line: &str| {
        line.contains(&said) && line.contains("the HDF5 library made no progress for 1 s")
    };
    assert!(ran.status == status && ran.stderr.lines().any(told), "{}: {}", ran.status, ran.stderr);
}

#[test]
fn a_final_on_which_the_library_hangs_is_told_and_a_new_one_takes_its_place() {
    let workspace = Workspace::new(&small_options());
    let plan = workspace.plan("out", &["--unit", "2th_deg"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &plan).assert_success().stdout;
    let summary =
        run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
    let path = Path::new(summary["final"].as_str().unwrap());
    damage_heaps(path);
    let damaged = fs::read(path).unwrap();
    // Its frames are nowhere else, so it stays.
    assert_told(&run_with_limit("gather", &[], &results), path, 1);
    assert_eq!(fs::read(path).unwrap(), damaged);
    let again = run_with_limit("ai-integrate", &[], &plan);
    assert_told(&again, path, 0);
    let gathered = run_with_limit("gather", &[], &again.stdout);
    assert_told(&gathered, path, 0);
    assert_eq!(gathered.records("summary")[0]["data_digest"], summary["data_digest"]);
    let aside =
        path.with_file_name(format!("{}.damaged", path.file_name().unwrap().to_str().unwrap()));
    assert_eq!(fs::read(aside).unwrap(), damaged);
    // The new one has checksums, and is taken for done.
    assert_eq!(
        run("gather", NO_ARGUMENTS, &again.stdout).assert_success().records("summary")[0]["data_digest"],
        summary["data_digest"]
    );
}

/// Replaces the intensities of a final by a virtual dataset that shows itself: at once, by a link,
/// by a second dataset, by a second file, or by blocks that are numbered.
const SHOW_ITSELF: &str = r#"
import sys, h5py
path, way = sys.argv[1:]
other = path.rsplit("/", 1)[0] + "/other.h5"
with h5py.File(path, "r+") as file:
    coverage = file.visititems(lambda name, item: item if name.endswith("/coverage") else None)
    del coverage.attrs["checksums"]
    group = file.visititems(lambda name, item: item.parent if name.endswith("integrated/intensity") else None)
    shape, dtype = group["intensity"].shape, group["intensity"].dtype
    attributes = dict(group["intensity"].attrs)
    there = group.name + "/intensity"
    def show(holder, name, source, dataset):
        layout = h5py.VirtualLayout(shape, dtype)
        layout[...] = h5py.VirtualSource(source, dataset, shape)
        return holder.create_virtual_dataset(name, layout)
    del group["intensity"]
    if way == "itself":
        made = show(group, "intensity", ".", there)
    elif way == "name":
        made = show(group, "intensity", path.rsplit("/", 1)[1], there)
    elif way == "link":
        file["link"] = h5py.SoftLink(there)
        made = show(group, "intensity", ".", "/link")
    elif way == "dataset":
        made = show(group, "intensity", ".", "/second")
        show(file, "second", ".", there)
    elif way == "file":
        made = show(group, "intensity", "other.h5", "/data")
        with h5py.File(other, "w") as second:
            show(second, "data", path.rsplit("/", 1)[1], there)
    elif way == "other's itself":
        made = show(group, "intensity", "other.h5", "/data")
        with h5py.File(other, "w") as second:
            show(second, "data", ".", "/data")
    elif way == "numbered":
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED, shape[1]))
        space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (1, 1), (1, shape[1]))
        block = h5py.h5s.create_simple((1, shape[1]))
        layout.set_virtual(space, b".", (group.name + "/intensi%by").encode(), block)
        space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED, shape[1]))
        h5py.h5d.create(group.id, b"intensity", h5py.h5t.py_create(dtype), space, layout)
        made = group["intensity"]
        for block in range(shape[0]):
            group[f"intensi{block}y"] = h5py.SoftLink(there)
    for name, value in attributes.items():
        made.attrs[name] = value
"#;

#[test]
fn a_final_in_which_a_virtual_dataset_shows_itself_is_told_and_a_new_one_takes_its_place() {
    if python().is_none() {
        return;
    }
    let ways = ["itself", "name", "link", "dataset", "file", "other's itself", "numbered"];
    for way in ways {
        let workspace = Workspace::new(&small_options());
        let plan = workspace.plan("out", &["--unit", "2th_deg"]);
        let results = run("ai-integrate", NO_ARGUMENTS, &plan).assert_success().stdout;
        let summary =
            run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
        let path = Path::new(summary["final"].as_str().unwrap());
        fs::write(path, read_without_checksums(path)).unwrap();
        run_python(SHOW_ITSELF, [path.to_str().unwrap(), way]);
        let damaged = fs::read(path).unwrap();
        let says = |ran: &Outcome, status: i32| {
            let is_told = ran.stderr.contains(&format!("{}: ", path.display()))
                && ran.stderr.contains("intensity shows ")
                && ran.stderr.contains("expected datasets that are stored");
            assert!(ran.status == status && is_told, "{way}: {}: {}", ran.status, ran.stderr);
        };
        // Its frames are nowhere else, so it stays.
        says(&run("gather", NO_ARGUMENTS, &results), 1);
        assert_eq!(fs::read(path).unwrap(), damaged);
        let again = run("ai-integrate", NO_ARGUMENTS, &plan);
        says(&again, 0);
        let gathered = run("gather", NO_ARGUMENTS, &again.stdout);
        says(&gathered, 0);
        assert_eq!(gathered.records("summary")[0]["data_digest"], summary["data_digest"]);
        let name = path.file_name().unwrap().to_str().unwrap();
        let aside = path.with_file_name(format!("{name}.damaged"));
        assert_eq!(fs::read(aside).unwrap(), damaged, "{way}");
    }
}

#[test]
fn other_scans_are_gathered_though_the_library_hangs_on_the_final_of_one() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--unit", "2th_deg"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let first = run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
    damage_heaps(Path::new(first["final"].as_str().unwrap()));
    let other = workspace.plan("out", &["--unit", "q_nm^-1", "--recipe-name", "q"]);
    let more = run("ai-integrate", NO_ARGUMENTS, &other).assert_success().stdout;
    let gathered = run_with_limit("gather", &[], &format!("{results}{more}"));
    assert_eq!(gathered.status, 1, "{}", gathered.stderr);
    let complete =
        gathered.records("summary").iter().filter(|summary| summary["complete"] == true).count();
    assert_eq!(complete, 1, "{}", gathered.stdout);
}

#[test]
fn an_export_on_which_the_library_would_hang_is_named_and_can_be_overwritten() {
    let workspace = Workspace::new(&small_options());
    let results = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--unit", "2th_deg"]))
        .assert_success()
        .stdout;
    let export = ["--export", "nxazint"];
    let written =
        run("gather", &export, &results).assert_success().records("summary").remove(0)["export"][0]
            .clone();
    let path = Path::new(written.as_str().unwrap());
    damage_heaps(path);
    let damaged = fs::read(path).unwrap();
    let refused = run_with_limit("gather", &export, &results);
    let said = format!("{}: exists, and azpipe did not write it as an export", path.display());
    assert!(refused.status == 1 && refused.stderr.contains(&said), "{}", refused.stderr);
    assert_eq!(fs::read(path).unwrap(), damaged);
    let overwritten = run_with_limit("gather", &["--export", "nxazint", "--overwrite"], &results);
    assert_eq!(overwritten.status, 0, "{}", overwritten.stderr);
    assert_ne!(fs::read(path).unwrap(), damaged);
}

#[test]
fn a_master_on_which_the_library_hangs_is_named_and_the_rest_is_gathered() {
    let workspace = Workspace::new(&small_options());
    let results = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--unit", "2th_deg"]))
        .assert_success();
    let file = results.records("result")[0]["file"].as_str().unwrap().to_owned();
    let path = Path::new(&file);
    damage_heaps(path);
    let gathered = run_with_limit("gather", &[], &results.stdout);
    assert_told(&gathered, path, 0);
    assert!(
        gathered.stderr.contains("its counters and positions are not copied"),
        "{}",
        gathered.stderr
    );
    assert_eq!(gathered.records("summary")[0]["complete"], true, "{}", gathered.stdout);
}
