//! Other data under the names that a result was made from: a link or a mount that leads to another
//! experiment, and raw files that were written again, of which only some were integrated since.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use hdf5::types::VarLenUnicode;
use sample::Options;
use serde_json::json;

use super::operations::read_counters;
use super::pipe_results::{final_of, gather_from, integrate, plan_tasks, read_final};
use super::uniform_frames::{RawDirectory, StorageKind, read_counts, with_pattern};
use crate::support::{NO_ARGUMENTS, open_hdf5_to_write, program, run, small_options};

/// Writes a dataset of other counts, another start, and with 1000 added to each position.
fn write_other(directory: &Path, options: &Options) -> sample::Dataset {
    let written = sample::write(directory, options).unwrap();
    let master = open_hdf5_to_write(&written.master);
    let entry = master.group("/1.1").unwrap();
    entry.unlink("start_time").unwrap();
    let start = VarLenUnicode::from_str("2026-03-11T10:21:30+01:00").unwrap();
    let dataset = entry.new_dataset::<VarLenUnicode>().create("start_time").unwrap();
    dataset.write_scalar(&start).unwrap();
    let rot = entry.dataset("measurement/rot").unwrap();
    let moved: Vec<f64> = rot.read_raw::<f64>().unwrap().iter().map(|at| at + 1000.0).collect();
    rot.write_raw(&moved).unwrap();
    written
}

#[test]
fn patterns_keep_the_counters_of_their_own_scan() {
    let place = tempfile::tempdir().unwrap();
    let [one, two, current] = ["one", "two", "current"].map(|name| place.path().join(name));
    let first = sample::write(&one, &small_options()).unwrap();
    write_other(&two, &Options { mean: 9.0, ..small_options() });
    symlink(&one, &current).unwrap();
    let (raw, out) = (current.join("RAW_DATA"), place.path().join("out"));
    for plan in [&["--recipe-name", "plain"][..], &["--monitor", "monitor"]] {
        let _ = fs::remove_file(&current);
        symlink(&one, &current).unwrap();
        let results = integrate(&raw, &first.poni, &out, plan);
        let before = run("gather", NO_ARGUMENTS, &results).assert_success();
        let (path, was) = (final_of(&before), read_final(&final_of(&before)));
        fs::remove_file(&current).unwrap();
        symlink(&two, &current).unwrap();
        for again in [
            gather_from(&out, &[]),
            run("gather", NO_ARGUMENTS, &results),
            gather_from(&out, &["--average", "mean"]),
        ] {
            let again = again.assert_success();
            assert!(again.stderr.contains("holds another scan now"), "{}", again.stderr);
            assert_eq!(read_final(&path), was, "{plan:?}");
        }
        // The other scan takes the place of the first, whose patterns are not lost.
        let results = integrate(&raw, &first.poni, &out, plan);
        let after = run("gather", NO_ARGUMENTS, &results).assert_success();
        let aside = format!("{path}.earlier");
        assert_eq!(after.stderr.matches(".earlier: ").count(), 1, "{}", after.stderr);
        assert_eq!(final_of(&after), path);
        assert_ne!(read_final(&path), was);
        assert_eq!(read_final(&aside), was);
        assert!(read_final(&path).1.iter().all(|at| *at >= 900.0));
        let told = "which began at 2026-03-04T10:21:30.000000+01:00; that of this one, which began at \
                    2026-03-11T10:21:30+01:00, has its place";
        assert!(after.stderr.contains(told), "{}", after.stderr);
        let rerun = gather_from(&out, &[]).assert_success();
        assert!(!rerun.stderr.contains(".earlier"), "{}", rerun.stderr);
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn frames_of_before_and_after_a_rewrite_are_not_in_one_final() {
    let place = tempfile::tempdir().unwrap();
    let (data, out) = (place.path().join("data"), place.path().join("out"));
    let written = sample::write(&data, &small_options()).unwrap();
    let by_file = ["--by", "file"];
    let results = integrate(&written.raw, &written.poni, &out, &by_file);
    let before = run("gather", NO_ARGUMENTS, &results).assert_success();
    let (path, was) = (final_of(&before), read_final(&final_of(&before)));
    // The same start, other counts.
    let other =
        sample::write(&place.path().join("other"), &Options { mean: 9.0, ..small_options() });
    let other = other.unwrap();
    fs::remove_dir_all(&written.raw).unwrap();
    fs::rename(&other.raw, &written.raw).unwrap();
    let tasks = plan_tasks(&written.raw, &written.poni, &out, &by_file);
    let first = tasks.lines().next().unwrap().to_owned() + "\n";
    let result = run("ai-integrate", NO_ARGUMENTS, &first).assert_success();
    for gathered in [run("gather", NO_ARGUMENTS, &result.stdout), gather_from(&out, &[])] {
        let summary = gathered.records("summary").pop().unwrap();
        let found = ["complete", "up_to_date", "integrated"].map(|name| summary[name].clone());
        assert_eq!(found, [json!(false), json!(false), json!(7)], "{summary}");
        assert_eq!(gathered.status, 1);
        let (rows, _) = read_final(&path);
        assert!(rows[7..].iter().flatten().all(|value| value.is_nan()));
    }
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    let (rows, _) = read_final(&path);
    assert!(rows.iter().zip(&was.0).all(|(now, then)| now != then && !now[100].is_nan()));
}

#[test]
fn parts_that_another_virtual_final_shows_stay() {
    let place = tempfile::tempdir().unwrap();
    let written = sample::write(&place.path().join("data"), &small_options()).unwrap();
    let (raw, poni, out) = (&written.raw, &written.poni, place.path().join("out"));
    let results = integrate(raw, poni, &out, &[]);
    let linked = run("gather", &["--layout", "virtual"], &results).assert_success();
    let (path, was) = (final_of(&linked), read_final(&final_of(&linked)));
    for name in ["second", "third"] {
        let results = integrate(raw, poni, &out, &["--recipe-name", name]);
        let copied = run("gather", NO_ARGUMENTS, &results).assert_success();
        assert_eq!(read_final(&final_of(&copied)), was);
        assert_eq!(read_final(&path), was, "{name}");
    }
    // Each of them is a result, whatever it is called.
    let all = gather_from(&out, &["--layout", "virtual"]).assert_success();
    assert_eq!(all.records("summary").len(), 3, "{}", all.stdout);
    // The first is copied, and the others stay virtual, whatever is gathered after it.
    for name in [&[][..], &[], &["--recipe-name", "fourth"], &["--recipe-name", "fourth"]] {
        let one = run("gather", NO_ARGUMENTS, &integrate(raw, poni, &out, name)).assert_success();
        assert_eq!(read_final(&final_of(&one)), was);
        for summary in all.records("summary") {
            assert_eq!(read_final(summary["final"].as_str().unwrap()), was, "{name:?}");
        }
    }
    // A damaged one is no reason not to gather another.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(3000).unwrap();
    let fifth = integrate(raw, poni, &out, &["--recipe-name", "fifth"]);
    assert_eq!(read_final(&final_of(&run("gather", NO_ARGUMENTS, &fifth).assert_success())), was);
}

#[test]
fn frames_that_two_finals_have_are_not_merged_twice() {
    let place = tempfile::tempdir().unwrap();
    let written = sample::write(&place.path().join("data"), &small_options()).unwrap();
    let (poni, out) = (&written.poni, place.path().join("out"));
    let master = written.master.clone();
    let both = integrate(&written.raw, poni, &out, &[]) + &integrate(&master, poni, &out, &[]);
    let alone = run("gather", NO_ARGUMENTS, &both).assert_success();
    assert_eq!(alone.records("summary").len(), 2);
    for merged in
        [run("gather", &["--merge-all", "all"], &both), gather_from(&out, &["--merge-all", "all"])]
    {
        assert_eq!(merged.status, 1);
        assert!(merged.stderr.contains("would count twice"), "{}", merged.stderr);
        assert!(!out.join("all.h5").exists());
    }
}

/// Both have one directory of parts, with one lock.
#[test]
fn finals_of_one_scan_with_two_names_are_not_merged() {
    let place = tempfile::tempdir().unwrap();
    let written = sample::write(&place.path().join("data"), &small_options()).unwrap();
    let (raw, poni, out) = (&written.raw, &written.poni, place.path().join("out"));
    let results = integrate(raw, poni, &out, &[]);
    run("gather", &["--layout", "virtual"], &results).assert_success();
    let second = integrate(raw, poni, &out, &["--recipe-name", "second"]);
    run("gather", &["--layout", "virtual"], &second).assert_success();
    let mut gather = Command::new(program("gather"));
    gather.arg("--from").arg(&out).args(["--merge-all", "all"]).stdin(Stdio::null());
    let mut gather = gather.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        match gather.try_wait().unwrap() {
            Some(status) => break status,
            None if began.elapsed() > Duration::from_secs(60) => {
                gather.kill().unwrap();
                panic!("it waits for itself");
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let said = std::io::read_to_string(gather.stderr.take().unwrap()).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("would count twice"), "{said}");
    assert!(!out.join("all.h5").exists());
}

#[test]
fn a_file_that_was_put_back_may_be_older_than_the_one_that_it_replaces() {
    let place = tempfile::tempdir().unwrap();
    let (data, out) = (place.path().join("data"), place.path().join("out"));
    let written = sample::write(&data, &small_options()).unwrap();
    let now = std::time::SystemTime::now();
    let integrate_at = |seconds: u64| {
        for lima in &written.lima[0] {
            let file = fs::File::options().write(true).open(lima).unwrap();
            file.set_modified(now - std::time::Duration::from_secs(seconds)).unwrap();
        }
        integrate(&written.raw, &written.poni, &out, &[])
    };
    for ages in [[0, 1000], [1000, 0]] {
        let records = ages.map(integrate_at).concat();
        for flags in [NO_ARGUMENTS, &["--complete-only"]] {
            let gathered = run("gather", flags, &records).assert_success();
            let summary = gathered.records("summary").pop().expect("a final");
            assert_eq!([&summary["integrated"], &summary["complete"]], [&json!(24), &json!(true)]);
        }
    }
}

#[test]
fn parts_that_an_earlier_result_shows_are_not_cleaned_away() {
    let place = tempfile::tempdir().unwrap();
    let (data, out) = (place.path().join("data"), place.path().join("out"));
    let first = sample::write(&data, &small_options()).unwrap();
    let results = integrate(&first.raw, &first.poni, &out, &[]);
    let before = run("gather", &["--layout", "virtual"], &results).assert_success();
    let (path, was) = (final_of(&before), read_final(&final_of(&before)));
    let second =
        write_other(&place.path().join("other"), &Options { mean: 9.0, ..small_options() });
    fs::remove_dir_all(&first.raw).unwrap();
    fs::rename(&second.raw, &first.raw).unwrap();
    let results = integrate(&first.raw, &first.poni, &out, &[]);
    run("gather", &["--layout", "virtual"], &results).assert_success();
    gather_from(&out, &["--clean"]).assert_success();
    assert_eq!(read_final(&format!("{path}.earlier")), was);
    assert_ne!(read_final(&path), was);
    // Once it is gone, so may they.
    fs::remove_file(format!("{path}.earlier")).unwrap();
    let cleaned = gather_from(&out, &["--clean"]).assert_success();
    assert!(cleaned.stderr.contains("removed"), "{}", cleaned.stderr);
    assert_ne!(read_final(&path), was);
}

/// Until a gather writes it anew: its parts are files of their own, which are named by their frames.
#[test]
fn a_virtual_final_goes_on_to_show_the_patterns_that_its_counters_are_of() {
    let monitor = ["--monitor", "value", "--monitor-reference", "100"];
    for (flags, raw, counters, [before, after]) in [
        (&[][..], [7, 8, 9], [7, 8, 9], [[1, 2, 3], [7, 8, 9]]),
        // The monitor was corrected.
        (&monitor, [1, 2, 3], [2, 4, 6], [[100; 3], [50; 3]]),
    ] {
        let place = RawDirectory::new();
        let write = |counts: [u16; 3], counters: [u16; 3]| {
            for (number, count) in counts.into_iter().enumerate() {
                place.write_lima_file("raw", number, count);
            }
            place.write_master_of_files("raw", &counters);
        };
        let integrate = || {
            let master = place.operand(StorageKind::Master, "raw");
            let tasks = place.plan(&[&master], "out", flags).assert_success().stdout;
            run("ai-integrate", &["--threads", "1"], &tasks).assert_success().stdout
        };
        let gather = |results: &str| {
            let gathered = run("gather", &["--layout", "virtual"], results).assert_success();
            let summary = gathered.records("summary").pop().unwrap();
            assert_eq!([&summary["complete"], &summary["up_to_date"]], [&json!(true); 2]);
            final_of(&gathered)
        };
        let shown = |path: &str| (read_counts(path), read_counters(Path::new(path)));
        let as_floats = |counts: [u16; 3]| counts.map(f64::from).to_vec();

        write([1, 2, 3], [1, 2, 3]);
        let path = gather(&integrate());
        let was = (with_pattern(&before), as_floats([1, 2, 3]));
        assert_eq!(shown(&path), was);
        write(raw, counters);
        let results = integrate();
        assert_eq!(shown(&path), was, "{flags:?}");
        assert_eq!(gather(&results), path);
        let is = (with_pattern(&after), as_floats(counters));
        assert_eq!(shown(&path), is, "{flags:?}");
        // What is not shown any more may go, and nothing else.
        assert_eq!(gather(&integrate()), path);
        gather_from(&place.path("out"), &["--clean"]).assert_success();
        assert_eq!(shown(&path), is, "{flags:?}");
    }
}

/// The counters in the raw file are not all those of the frames in the final, and those in the earlier final
/// are not those of a frame that was integrated again.
#[test]
fn counters_of_a_frame_that_was_integrated_again_are_not_those_of_before() {
    let place = RawDirectory::new();
    let master = place.operand(StorageKind::Master, "raw");
    let plan = || place.plan(&[&master], "out", &["--by", "frames=1"]).assert_success().stdout;
    let integrate = |tasks: &str| run("ai-integrate", &["--threads", "1"], tasks).stdout;
    (0..3).for_each(|number| place.write_lima_file("raw", number, 1 + number as u16));
    place.write_master_of_files("raw", &[1, 2, 3]);
    let two: String = plan().split_inclusive('\n').take(2).collect();
    run("gather", NO_ARGUMENTS, &integrate(&two));
    place.write_lima_file("raw", 1, 7);
    place.write_master_of_files("raw", &[1, 7, 3]);
    let two: String = plan().split_inclusive('\n').take(2).collect();
    integrate(&two);
    let first = fs::File::options().write(true).open(place.lima_file("raw", 0)).unwrap();
    first.set_modified(std::time::SystemTime::now()).unwrap();
    let gathered = gather_from(&place.path("out"), &[]);
    let path = final_of(&gathered);
    assert_eq!(read_counts(&path), [Some(1), Some(7), None]);
    let counters = read_counters(Path::new(&path));
    assert!(counters[0] == 1.0 && counters[1].is_nan() && counters[2] == 3.0, "{counters:?}");
    let told = "counters and positions of frame 1 are NaN, because only those of earlier raw data are known";
    assert!(gathered.stderr.contains(told), "{}", gathered.stderr);
    run("gather", NO_ARGUMENTS, &integrate(&plan())).assert_success();
    assert_eq!(read_counters(Path::new(&path)), [1.0, 7.0, 3.0]);
}
