//! `scan-find --follow` and files that can't be read yet: what is being written or copied is not
//! damaged, and what is damaged is reported as without `--follow`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sample::{Defect, Random};
use serde_json::Value;

use crate::support::{
    Outcome, RawData, capture, create_hdf5, find, new_seed, nexus_group, program, python,
    source_file,
};

/// Runs a following search until nothing has changed for a time.
fn follow(raw: &Path, until_idle: &str) -> Outcome {
    let mut command = Command::new(program("scan-find"));
    command.arg(raw).args(["--follow=0.1", "--until-idle", until_idle]);
    capture(command, "").into()
}

/// Runs a following search while `write` writes.
pub(super) fn follow_while(raw: &Path, until_idle: &str, write: impl FnOnce()) -> Outcome {
    let mut command = Command::new(program("scan-find"));
    command.arg(raw).args(["--follow=0.1", "--until-idle", until_idle]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    write();
    child.wait_with_output().unwrap().into()
}

/// The last record of each scan, without what depends on when it was read.
pub(super) fn last_scans(found: &Outcome) -> BTreeMap<String, Value> {
    let of_id = |scan: Value| (scan["id"].as_str().unwrap().to_owned(), scan);
    found.records("scan").into_iter().map(of_id).collect()
}

pub(super) fn failures(found: &Outcome) -> BTreeSet<String> {
    found
        .records("fail")
        .iter()
        .map(|fail| format!("{}: {}", fail["about"], fail["error"]))
        .collect()
}

/// Asserts that a search that followed ended with what a search reports that does not.
#[track_caller]
pub(super) fn assert_ends_as_a_plain_search(followed: &Outcome, raw: &Path, about: &str) {
    let plain = find(&[raw]);
    let told = format!("{about}\n{}\n{}", followed.stdout, followed.stderr);
    assert_eq!(failures(followed), failures(&plain), "{told}");
    assert_eq!(followed.status, plain.status, "{told}");
    assert_eq!(last_scans(followed), last_scans(&plain), "{told}");
}

fn start_writer(python: &Path, raw: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(python);
    command.arg(source_file("pipe/live.py")).arg(raw).args(arguments);
    command.env("PYTHONHASHSEED", "0").stdout(Stdio::null()).spawn().expect("Python starts")
}

/// Copies a file in so many pieces, slowly.
fn copy_slowly(from: &Path, to: &Path, pieces: usize) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let bytes = fs::read(from).unwrap();
    let mut copy = File::create(to).unwrap();
    for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
        std::thread::sleep(Duration::from_millis(150));
        copy.write_all(piece).unwrap();
    }
}

#[test]
fn a_file_whose_writer_does_not_flush_is_being_written_and_not_damaged() {
    let Some(python) = python() else { return };
    let directory = RawData::new();
    let raw = directory.path("raw");
    fs::create_dir(&raw).unwrap();
    let options = ["unflushed", "--files", "3", "--frames", "2", "--pause", "2", "--unflushed"];
    let found = follow_while(&raw, "4s", || {
        assert!(start_writer(&python, &raw, &options).wait().unwrap().success());
    });
    assert_eq!((failures(&found), found.status), (BTreeSet::new(), 0), "{}", found.stderr);
    assert!(!found.stderr.contains("not readable"), "{}", found.stderr);
    let scans = last_scans(&found);
    let complete: Vec<_> =
        scans.values().map(|scan| (&scan["frames"], &scan["complete"])).collect();
    assert_eq!(complete, [(&Value::from(6), &Value::from(true))], "{}", found.stdout);
}

#[test]
fn scans_that_are_copied_are_found_as_if_they_had_been_there() {
    let directory = RawData::new();
    let there = directory.write_dataset("there", &[]);
    let raw = directory.path("copy");
    fs::create_dir(&raw).unwrap();
    let below = |file: &Path| raw.join(file.strip_prefix(&there.raw).unwrap());
    let found = follow_while(&raw, "2s", || {
        copy_slowly(&there.master, &below(&there.master), 6);
        for lima in there.lima.iter().flatten() {
            copy_slowly(lima, &below(lima), 3);
        }
    });
    assert_ends_as_a_plain_search(&found, &raw, "");
    assert_eq!(found.status, 0);
    assert_eq!(last_scans(&found).len(), 2);
    let masters: BTreeSet<String> =
        last_scans(&found).values().map(|scan| scan["below"].to_string()).collect();
    assert_eq!(masters.len(), 1, "data files are no scans of their own: {masters:?}");
}

#[test]
fn images_that_are_copied_are_found_as_if_they_had_been_there() {
    let directory = RawData::new();
    let names = ["fe_0000.edf", "fe_0001.edf", "dark.edf", "fe_0002.edf"];
    let there = names.map(|name| directory.write_edf(&format!("there/{name}")));
    let raw = directory.path("copy");
    fs::create_dir(&raw).unwrap();
    let found = follow_while(&raw, "2s", || {
        for image in &there {
            copy_slowly(image, &raw.join(image.file_name().unwrap()), 5);
            // The first image is found before the second one is there.
            std::thread::sleep(Duration::from_millis(1500));
        }
    });
    let frames: Vec<Value> =
        found.records("scan").iter().map(|scan| scan["frames"].clone()).collect();
    assert!(frames.contains(&1.into()), "{}", found.stdout);
    assert_ends_as_a_plain_search(&found, &raw, "");
    assert_eq!((last_scans(&found).len(), found.status), (2, 0), "{}", found.stderr);
}

/// Frames that are in two scans are told of: both scans have patterns of them.
#[test]
fn what_was_a_scan_of_its_own_before_its_master_or_an_earlier_image_came_is_told() {
    let directory = RawData::new();
    let there = directory.write_dataset("there", &[]);
    let raw = directory.path("copy");
    let copy = |file: &Path, to: &Path| {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    };
    let below = |file: &Path| raw.join(file.strip_prefix(&there.raw).unwrap());
    let images = [1, 0].map(|number| directory.write_edf(&format!("there/fe_000{number}.edf")));
    let image = |index: usize| raw.join(images[index].file_name().unwrap());
    copy(&there.lima[0][0], &below(&there.lima[0][0]));
    copy(&images[0], &image(0));
    let found = follow_while(&raw, "7s", || {
        // Files count as unchanged after a time.
        std::thread::sleep(Duration::from_secs(4));
        // The others are known to belong to a master.
        copy(&there.master, &below(&there.master));
        for lima in there.lima.iter().flatten().skip(1) {
            copy(lima, &below(lima));
        }
        copy(&images[1], &image(1));
    });
    for (early, late) in [(below(&there.lima[0][0]), below(&there.master)), (image(0), image(1))] {
        let told = format!("{}: was found before {}, as scan ", early.display(), late.display());
        assert_eq!(found.stderr.matches(&told).count(), 1, "{told}\n{}", found.stderr);
    }
    assert_eq!(found.stderr.matches("was found before").count(), 2, "{}", found.stderr);
}

/// A file with frames of two detectors has two scans, of which none is part of the other.
#[test]
fn scans_of_one_file_are_not_taken_for_each_other() {
    let directory = RawData::new();
    let raw = directory.path("raw");
    fs::create_dir(&raw).unwrap();
    let file = create_hdf5(raw.join("a.h5"));
    for name in ["entry", "other"] {
        let entry = nexus_group(&file, name, "NXentry");
        let data = nexus_group(&entry, "data", "NXdata").new_dataset::<u16>();
        data.shape((2, 3, 4)).no_chunk().create("data").unwrap().write_raw(&[1; 24]).unwrap();
    }
    drop(file);
    let found = follow(&raw, "3s");
    assert_eq!(last_scans(&found).len(), 2, "{}", found.stdout);
    assert_eq!((found.stderr.as_str(), found.status), ("", 0));
}

#[test]
fn the_data_files_of_a_master_that_does_not_change_are_found_as_they_come() {
    let directory = RawData::new();
    let raw = directory.path("raw");
    fs::create_dir(&raw).unwrap();
    let data_file = |number: usize| format!("a_data_{number:06}.h5");
    let found = follow_while(&raw, "5s", || {
        let master = create_hdf5(raw.join("a_master.h5"));
        let group = nexus_group(&nexus_group(&master, "entry", "NXentry"), "data", "NXdata");
        for number in 1..=3 {
            let name = format!("data_{number:06}");
            group.link_external(&data_file(number), "/entry/data/data", &name).unwrap();
        }
        drop((group, master));
        for number in 1..=3 {
            let file = create_hdf5(raw.join(data_file(number)));
            let group = nexus_group(&nexus_group(&file, "entry", "NXentry"), "data", "NXdata");
            let data = group.new_dataset::<u16>().shape((2, 3, 4)).no_chunk().create("data");
            data.unwrap().write_raw(&[number as u16; 24]).unwrap();
            drop((group, file));
            // After this time, the master counts as unchanged.
            std::thread::sleep(Duration::from_secs(3));
        }
    });
    assert_ends_as_a_plain_search(&found, &raw, "");
    let frames: Vec<Value> =
        last_scans(&found).values().map(|scan| scan["frames"].clone()).collect();
    assert_eq!((frames, found.status), (vec![Value::from(6)], 0), "{}", found.stderr);
}

#[test]
fn a_copy_that_stalls_is_warned_of_and_found_when_it_goes_on() {
    let directory = RawData::new();
    let there = directory.write_master("there.h5", "1.1", "p3", 5);
    let raw = directory.path("copy");
    fs::create_dir(&raw).unwrap();
    let bytes = fs::read(there).unwrap();
    let found = follow_while(&raw, "6s", || {
        let copy = raw.join("copy.h5");
        fs::write(&copy, &bytes[..bytes.len() / 2]).unwrap();
        std::thread::sleep(Duration::from_secs(5));
        fs::write(&copy, &bytes).unwrap();
    });
    assert_eq!((failures(&found), found.status), (BTreeSet::new(), 0), "{}", found.stderr);
    assert_eq!(found.stderr.matches("copy.h5").count(), 1, "one warning: {}", found.stderr);
    assert!(found.stderr.contains("--follow"), "{}", found.stderr);
    assert_eq!(last_scans(&found).len(), 1);
}

#[test]
fn a_program_that_holds_a_file_open_does_not_keep_the_search_from_ending() {
    let directory = RawData::new();
    let there = directory.write_master("there.h5", "1.1", "p3", 5);
    let raw = directory.path("raw");
    fs::create_dir(&raw).unwrap();
    let mut held = None;
    let bytes = fs::read(there).unwrap();
    let found = follow_while(&raw, "1s", || {
        std::thread::sleep(Duration::from_millis(300));
        let mut file = File::create(raw.join("held.h5")).unwrap();
        file.write_all(&bytes[..bytes.len() / 2]).unwrap();
        held = Some(file);
    });
    assert_ends_as_a_plain_search(&found, &raw, "");
    assert_eq!((found.status, failures(&found).len()), (1, 1), "{}", found.stderr);
}

#[test]
fn a_search_that_follows_ends_with_what_a_plain_search_finds_of_every_defect() {
    let defects = [
        Defect::MissingFile,
        Defect::UnwrittenChunk,
        Defect::TruncatedChunk,
        Defect::Aborted,
        Defect::Running,
    ];
    for defect in defects {
        let directory = RawData::new();
        let data = directory.write_dataset("", &[defect]);
        let followed = follow(&data.raw, "0");
        assert_ends_as_a_plain_search(&followed, &data.raw, &format!("{defect:?}"));
    }
}

/// Damages a file as a failing disk or an unfinished copy does.
fn damage(file: &Path, random: &mut Random) -> String {
    let mut bytes = fs::read(file).unwrap();
    let at = random.below(bytes.len() as u64) as usize;
    let what = match random.below(3) {
        0 => {
            bytes.truncate(at);
            "ends"
        }
        1 => {
            bytes[at..].fill(0);
            "is zero from there on"
        }
        _ => {
            let end = (at + 1 + random.below(4095) as usize).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            "has random bytes"
        }
    };
    fs::write(file, bytes).unwrap();
    format!("{} {what} at byte {at}", file.display())
}

#[test]
fn a_search_that_follows_ends_with_what_a_plain_search_finds_of_any_damage() {
    let seed = new_seed();
    let mut random = Random::new(&[seed]);
    for _ in 0..8 {
        let directory = RawData::new();
        let defects: &[Defect] = if random.below(2) == 0 { &[] } else { &[Defect::Running] };
        let data = directory.write_dataset("", defects);
        let mut files: Vec<PathBuf> =
            data.lima.iter().flatten().filter(|file| file.exists()).cloned().collect();
        files.push(data.master.clone());
        let file = &files[random.below(files.len() as u64) as usize];
        let done = damage(file, &mut random);
        let followed = follow(&data.raw, "0");
        assert_ends_as_a_plain_search(&followed, &data.raw, &format!("seed {seed}: {done}"));
    }
}
