//! Raw data that were touched or written again, and are in an archive since, in whole or in part.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::pipe_results::{final_of, gather_from, integrate, plan_tasks, read_final};
use super::uniform_frames::{RawDirectory, StorageKind, list_finals, read_counts, with_pattern};
use crate::support::{NO_ARGUMENTS, Outcome, open_hdf5_to_write, run, small_options};

/// A dataset, its final, and the patterns in it.
struct Gathered {
    place: TempDir,
    data: sample::Dataset,
    path: String,
    was: Vec<Vec<f32>>,
}

impl Gathered {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = sample::write(&place.path().join("data"), &small_options()).unwrap();
        let out = place.path().join("out");
        let results = integrate(&data.raw, &data.poni, &out, &[]);
        let path = final_of(&run("gather", NO_ARGUMENTS, &results).assert_success());
        let (was, _) = read_final(&path);
        Self { place, data, path, was }
    }

    fn out(&self) -> PathBuf {
        self.place.path().join("out")
    }

    fn lima(&self) -> &[PathBuf] {
        &self.data.lima[0]
    }

    /// Moves files away.
    fn archive(&self, files: &[PathBuf]) {
        let archive = self.place.path().join("archive");
        fs::create_dir_all(&archive).unwrap();
        files
            .iter()
            .for_each(|file| fs::rename(file, archive.join(file.file_name().unwrap())).unwrap());
    }

    fn process(&self) -> Outcome {
        run("gather", NO_ARGUMENTS, &integrate(&self.data.raw, &self.data.poni, &self.out(), &[]))
    }

    fn assert_whole(&self, gathered: Outcome) {
        let summary = gathered.assert_success().records("summary").pop().unwrap();
        assert_eq!([&summary["complete"], &summary["up_to_date"]], [&json!(true); 2], "{summary}");
        assert!(read_final(&self.path).0 == self.was);
        assert!(!Path::new(&format!("{}.earlier", self.path)).exists(), "nothing was set aside");
    }
}

/// Gives files another time, one minute from now for each call on one of them.
fn touch(files: &[PathBuf]) {
    for file in files {
        let changed = file.metadata().unwrap().modified().unwrap() + Duration::from_secs(60);
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(changed.min(SystemTime::now() + Duration::from_secs(600))).unwrap();
    }
}

#[test]
fn no_pattern_of_archived_files_is_lost_though_others_were_touched() {
    // All are away, and only a part has what was integrated last.
    let gathered = Gathered::new();
    touch(&gathered.lima()[..1]);
    integrate(&gathered.data.raw, &gathered.data.poni, &gathered.out(), &[]);
    gathered.archive(gathered.lima());
    gathered.assert_whole(gathered.process());
    gathered.assert_whole(gather_from(&gathered.out(), &[]));

    // One is away, and another one touched.
    let gathered = Gathered::new();
    gathered.archive(&gathered.lima()[..1]);
    touch(&gathered.lima()[1..2]);
    gathered.assert_whole(gathered.process());

    // A part says only that an earlier state of the files has changed.
    let gathered = Gathered::new();
    let stale = plan_tasks(&gathered.data.raw, &gathered.data.poni, &gathered.out(), &[]);
    touch(gathered.lima());
    gathered.assert_whole(gathered.process());
    assert_eq!(run("ai-integrate", NO_ARGUMENTS, &stale).status, 1);
    gathered.archive(gathered.lima());
    gathered.assert_whole(gather_from(&gathered.out(), &[]));
    gathered.assert_whole(gathered.process());
}

/// Writes other counts into a Lima file, and adds 1000 to the positions in the master.
fn write_again(lima: &Path, master: &Path) {
    let file = open_hdf5_to_write(lima);
    let name = "/entry_0000/ESRF-ID31/pilatus/data";
    let frames = file.dataset(name).unwrap();
    let (shape, chunk) = (frames.shape(), frames.chunk().unwrap());
    file.unlink(name).unwrap();
    let again = file.new_dataset::<i32>().shape(shape.clone()).chunk(chunk).create(name);
    again.unwrap().write_raw(&vec![9_i32; shape.iter().product()]).unwrap();
    let counters = open_hdf5_to_write(master).group("1.1/measurement").unwrap();
    let rot = counters.dataset("rot").unwrap();
    let moved: Vec<f64> = rot.read_raw::<f64>().unwrap().iter().map(|at| at + 1000.0).collect();
    rot.write_raw(&moved).unwrap();
}

#[test]
fn counters_of_now_are_not_put_beside_patterns_of_before() {
    let gathered = Gathered::new();
    let (_, positions) = read_final(&gathered.path);
    write_again(&gathered.lima()[2], &gathered.data.master);
    // Whatever else makes gather write the final.
    for flags in [&[][..], &["--average", "mean"], &["--layout", "integrator"], &[]] {
        let from = gather_from(&gathered.out(), flags);
        let told = "its counters and positions are not copied";
        assert!(from.stderr.contains(told), "{flags:?}: {}", from.stderr);
        gathered.assert_whole(from);
        assert_eq!(read_final(&gathered.path).1, positions, "{flags:?}");
    }

    // A task of another file, with a record: what was written again is missing.
    let tasks =
        plan_tasks(&gathered.data.raw, &gathered.data.poni, &gathered.out(), &["--by", "file"]);
    let first = tasks.lines().next().unwrap().to_owned() + "\n";
    let results = run("ai-integrate", NO_ARGUMENTS, &first).assert_success().stdout;
    let partly = run("gather", NO_ARGUMENTS, &results);
    let summary = partly.records("summary").pop().unwrap();
    assert_eq!((partly.status, &summary["complete"]), (1, &json!(false)), "{summary}");
    let is_nan = |row: &Vec<f32>| row.iter().all(|value| value.is_nan());
    let (rows, _) = read_final(&gathered.path);
    assert!(!rows[..14].iter().any(is_nan) && rows[14..21].iter().all(is_nan));
    // What would be lost if the file went to an archive now is kept.
    assert!(
        partly.stderr.contains("an earlier state of the scan, of which frames 14 to 20 were not"),
        "{}",
        partly.stderr
    );
    let earlier = format!("{}.earlier", gathered.path);
    assert!(read_final(&earlier).0 == gathered.was);

    gathered.process().assert_success();
    let (rows, now) = read_final(&gathered.path);
    assert!(!rows.iter().any(is_nan) && rows[14] != gathered.was[14]);
    assert!(now.iter().zip(&positions).all(|(now, then)| *now == then + 1000.0));
}

#[test]
fn a_final_that_shows_parts_stays_until_all_are_integrated_again() {
    let gathered = Gathered::new();
    let (data, out) = (&gathered.data, gathered.out());
    let plan = || plan_tasks(&data.raw, &data.poni, &out, &["--by", "file"]);
    let integrate = |tasks: &str| run("ai-integrate", &["--force"], tasks).assert_success().stdout;
    let linked = ["--layout", "virtual"];
    fs::remove_file(&gathered.path).unwrap();
    run("gather", &linked, &integrate(&plan())).assert_success();
    write_again(&gathered.lima()[2], &data.master);
    let tasks = plan();
    let second =
        tasks.lines().find(|task| task.contains("pilatus_0001.h5")).unwrap().to_owned() + "\n";
    for flags in [&linked[..], NO_ARGUMENTS] {
        let partly = run("gather", flags, &integrate(&second));
        assert_eq!(partly.status, 1, "{}", partly.stderr);
        assert!(
            partly.stderr.contains("kept as it is, because it shows the parts"),
            "{}",
            partly.stderr
        );
        assert!(read_final(&gathered.path).0 == gathered.was);
    }
    run("gather", NO_ARGUMENTS, &integrate(&tasks)).assert_success();
    let (rows, _) = read_final(&gathered.path);
    assert!(rows[..14] == gathered.was[..14] && rows[14] != gathered.was[14]);
}

#[test]
fn a_scan_with_fewer_frames_and_other_settings_takes_the_place_of_the_earlier_one() {
    let place = RawDirectory::new();
    let operand = place.write(StorageKind::Master, "raw", &[7, 8, 9]);
    let [.., before] = place.process(&[&operand], "out", &["--npt", "12"]);
    let path = list_finals(&before.assert_success()).remove(0);
    place.write(StorageKind::Master, "raw", &[19]);
    let [.., after] = place.process(&[&operand], "out", &["--npt", "10", "--replace"]);
    let after = after.assert_success();
    let summary: Value = after.records("summary").remove(0);
    assert_ne!(summary["data_digest"], "");
    assert!(after.stderr.contains("an earlier state of the scan, which had more frames"));
    assert_eq!(read_counts(&path), with_pattern(&[19]));
    assert_eq!(read_counts(&format!("{path}.earlier")), with_pattern(&[7, 8, 9]));
}

#[test]
fn finals_of_two_names_that_share_their_parts_are_gathered_each_by_its_name() {
    let place = RawDirectory::new();
    let operand = place.write(StorageKind::Master, "raw", &[7, 8, 9]);
    let linked = |flags: &[&str]| {
        let plan = place.plan(&[&operand], "out", flags).assert_success();
        let results = run("ai-integrate", &["--threads", "1"], &plan.stdout).assert_success();
        run("gather", &["--layout", "virtual"], &results.stdout).assert_success();
    };
    linked(&["--recipe-name", "a"]);
    linked(&[]);
    place.write(StorageKind::Master, "raw", &[17, 18, 19, 20]);
    let [.., after] = place.process(&[&operand], "out", &[]);
    after.assert_success();
    for _ in 0..2 {
        let from = gather_from(&place.path("out"), &[]).assert_success();
        let finals = list_finals(&from);
        assert_eq!(finals.len(), 2);
        for path in finals {
            assert_eq!(read_counts(&path), with_pattern(&[17, 18, 19, 20]), "{path}");
        }
    }
}
