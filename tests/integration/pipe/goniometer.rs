//! A detector on motors (`plan-split --goniometer`): the patterns and averages of pyFAI's Goniometer,
//! read from the file that pyFAI wrote, and what is refused.

use std::fs;

use sample::Options;
use serde_json::{Value, json};

use crate::support::{Outcome, Workspace, open_hdf5_to_write, run, run_python, small_options};

const FRAMES: usize = 8;

/// A dataset whose motor `rot` has these positions, and pyFAI's goniometer files.
struct Arm {
    workspace: Workspace,
    rot: Vec<f64>,
}

impl Arm {
    /// `None` without pyFAI.
    fn new(rot: [f64; FRAMES]) -> Option<Self> {
        let workspace = Workspace::new(&Options { frames: FRAMES, ..small_options() });
        let arguments = [workspace.path("").into_os_string(), workspace.data.poni.clone().into()];
        run_python(include_str!("goniometers.py"), arguments)?;
        let arm = Self { workspace, rot: rot.to_vec() };
        arm.move_to(&rot);
        Some(arm)
    }

    /// Writes other positions into the master file.
    fn move_to(&self, rot: &[f64]) {
        let file = open_hdf5_to_write(&self.workspace.data.master);
        file.dataset("/1.1/measurement/rot").unwrap().write_raw(rot).unwrap();
    }

    fn plan(&self, out: &str, file: &str, flags: &[&str]) -> Outcome {
        let [out, file] = [out, file].map(|name| self.workspace.path(name));
        let always = ["--goniometer", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let flags = [&always[..], &["--npt", "300", "--radial-range", "8,30"], flags].concat();
        run("plan-split", &flags, &self.workspace.scans)
    }

    fn process(&self, out: &str, file: &str, flags: &[&str]) -> (Value, Outcome) {
        let flags = [&["--motor", "turn=rot"], flags].concat();
        let tasks = self.plan(out, file, &flags).assert_success().stdout;
        let integrated = run("ai-integrate", &["--threads", "2"], &tasks);
        let summary = run("gather", &["--average", "mean"], &integrated.stdout).records("summary");
        (summary.last().unwrap().clone(), integrated)
    }

    /// Compares a final with pyFAI's patterns of these frames.
    fn compare(&self, summary: &Value, file: &str, with_pattern: impl Fn(usize) -> bool) -> Value {
        // Sample and detector stand at samz = 12.25; at 0, the distance is that of the PONI file.
        let position = |frame| with_pattern(frame).then(|| json!([self.rot[frame], 12.25]));
        let positions: Vec<Option<Value>> = (0..FRAMES).map(position).collect();
        let case = json!({
            "image": [self.workspace.data.master, "/1.1/instrument/pilatus/data"],
            "final": summary["final"], "range": [8.0, 30.0], "npt": 300, "reference": 0.12,
            "goniometer": self.workspace.path(file), "positions": positions,
        });
        let seen = run_python(include_str!("positions.py"), [case.to_string()]).unwrap();
        serde_json::from_slice(&seen).unwrap()
    }

    /// Returns the recipe of a task's plan, and its digest.
    fn digest(planned: &Outcome) -> String {
        planned.records("task")[0]["recipe_digest"].as_str().unwrap().to_owned()
    }
}

fn assert_equal(seen: &Value, rows: u64) {
    assert_eq!((&seen["rows"], &seen["empty"]), (&rows.into(), &true.into()), "{seen}");
    assert!(seen["bins"].as_u64().unwrap() > 100 * rows, "{seen}");
    for (name, limit) in [("axis", 1e-9), ("intensity", 1e-6), ("sigma", 1e-6), ("average", 1e-6)] {
        assert!(seen[name].as_f64().unwrap() < limit, "{name}: {seen}");
    }
}

#[test]
fn rows_and_averages_are_what_pyfais_goniometer_makes_of_them() {
    let Some(arm) = Arm::new([-90.0, -60.0, -30.0, -30.0, 0.0, 17.5, -60.0, 45.0]) else { return };
    for (out, file) in [("simple", "simple.json"), ("extended", "extended.json")] {
        let (summary, integrated) = arm.process(out, file, &["--by", "frames=3"]);
        assert_eq!(integrated.status, 0, "{}", integrated.stderr);
        assert_eq!(
            (&summary["integrated"], &summary["complete"], &summary["up_to_date"]),
            (&8.into(), &true.into(), &true.into())
        );
        assert_equal(&arm.compare(&summary, file, |_| true), 8);
        let matrices = fs::read_dir(arm.workspace.path(out).join(".azpipe/matrix")).unwrap();
        assert_eq!(matrices.count(), 6, "one for each position, or a note of its first use");
    }
}

#[test]
fn matrices_of_positions_are_kept_from_their_second_use_on_and_removed_with_their_results() {
    let Some(arm) = Arm::new([-90.0, -60.0, -30.0, -30.0, 0.0, 17.5, -60.0, 45.0]) else { return };
    let flags = ["--motor", "turn=rot"];
    let tasks = arm.plan("out", "simple.json", &flags).assert_success().stdout;
    let directory = arm.workspace.path("out/.azpipe/matrix");
    let count = |ran: &Outcome, word: &str| ran.stderr.matches(&format!(", {word} in ")).count();
    let mut digests = Vec::new();
    let files = || {
        let files = fs::read_dir(&directory).unwrap().map(|file| file.unwrap().metadata().unwrap());
        let (matrices, notes): (Vec<_>, Vec<_>) = files.partition(|file| file.len() > 512);
        [matrices.len(), notes.len()]
    };
    // How many are built and mapped, and how many files are matrices and notes.
    for expected in [[6, 0, 0, 6], [6, 0, 6, 0], [0, 6, 6, 0]] {
        let ran = run("ai-integrate", &["-v", "--force"], &tasks).assert_success();
        let [matrices, notes] = files();
        let found = [count(&ran, "built"), count(&ran, "mapped"), matrices, notes];
        assert_eq!(found, expected, "{}", ran.stderr);
        let gathered = run("gather", &["--keep-parts"], &ran.stdout).assert_success();
        digests.push(gathered.records("summary")[0]["data_digest"].clone());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    arm.process("out", "simple.json", &["--replace", "--polarization", "0.9"]);
    assert_eq!(files(), [6, 6]);
    let out = arm.workspace.path("out");
    run("gather", &["--clean", "--from", out.to_str().unwrap()], "").assert_success();
    assert_eq!(files(), [0, 6], "those of the result that is there");
}

#[test]
fn a_frame_without_a_position_has_no_pattern() {
    let Some(arm) = Arm::new([0.0, 10.0, f64::NAN, 20.0, 30.0, f64::INFINITY, 40.0, 40.0]) else {
        return;
    };
    let (summary, integrated) = arm.process("out", "simple.json", &[]);
    let reason = "geometry unknown: no line in the table of PONI files, or a motor without a value";
    assert_eq!(integrated.status, 1);
    assert!(integrated.stderr.contains(&format!("2 frames without a pattern: {reason}")));
    let lacking = json!([{"range": [[2, 6, 3]], "kind": "no_geometry", "reason": reason}]);
    assert_eq!((&summary["missing"], &summary["integrated"]), (&lacking, &6.into()), "{summary}");
    let seen = arm.compare(&summary, "simple.json", |frame| ![2, 5].contains(&frame));
    assert_equal(&seen, 6);
    assert_eq!(seen["lacking"], json!([2, 5]));
}

#[test]
fn a_position_without_pixels_in_the_range_is_told() {
    let Some(arm) = Arm::new([0.0, 3000.0, 10.0, 20.0, 30.0, 30.0, 40.0, 40.0]) else { return };
    let (summary, _) = arm.process("out", "simple.json", &[]);
    let reason = "no pixel in the range at the position of the detector and the sample";
    assert_eq!(
        summary["missing"],
        json!([{"range": [[1, 2]], "kind": "no_geometry", "reason": reason}])
    );
    assert_equal(&arm.compare(&summary, "simple.json", |frame| frame != 1), 7);
}

#[test]
fn a_corrected_motor_is_another_recipe_and_a_rerun_is_the_same() {
    let positions = [0.0, 10.0, 20.0, 20.0, 30.0, 30.0, 40.0, 40.0];
    let Some(mut arm) = Arm::new(positions) else { return };
    let flags = ["--motor", "turn=rot"];
    let (first, _) = arm.process("out", "simple.json", &[]);
    let again = arm.plan("out", "simple.json", &flags).assert_success();
    assert_eq!(Arm::digest(&again), first["recipe_digest"]);
    let result = run("ai-integrate", &[""; 0], &again.stdout).assert_success();
    assert_eq!(result.records("result")[0]["skipped"], true);
    arm.rot[3] = 25.0;
    arm.move_to(&arm.rot);
    let refused = arm.plan("out", "simple.json", &flags);
    assert_eq!(refused.status, 1);
    let why = "was planned with other settings (goniometer: other positions of rot, samz)";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    let (second, integrated) = arm.process("out", "simple.json", &["--replace"]);
    assert_eq!(integrated.status, 0, "{}", integrated.stderr);
    assert_ne!(second["recipe_digest"], first["recipe_digest"]);
    assert_equal(&arm.compare(&second, "simple.json", |_| true), 8);
}

#[test]
fn what_can_not_be_applied_is_refused() {
    let Some(arm) = Arm::new([0.0, 10.0, 20.0, 20.0, 30.0, 30.0, 40.0, 40.0]) else { return };
    let refused = arm.plan("out", "simple.json", &[]);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("no motor `turn` among the counters and positioners of the scan"),
        "{}",
        refused.stderr
    );
    let wrong = arm.plan("out", "simple.json", &["--motor", "rot"]);
    assert_eq!(wrong.status, 2);
    assert!(
        wrong
            .stderr
            .contains("expected POSITION=MOTOR, with a position of the goniometer: turn, samz")
    );
    let text = fs::read_to_string(arm.workspace.path("simple.json")).unwrap();
    fs::write(arm.workspace.path("call.json"), text.replace("arctan2(", "system(")).unwrap();
    let call = arm.plan("out", "call.json", &["--motor", "turn=rot"]);
    assert_eq!(call.status, 2);
    assert!(call.stderr.contains("rot1_expr: "), "{}", call.stderr);
    let cake = arm.plan("out", "simple.json", &["--motor", "turn=rot", "--npt-azim", "8"]);
    assert!(cake.stderr.contains("goniometer: set together with npt-azim"), "{}", cake.stderr);
    // A scan that goes on is planned when it has ended.
    let mut record: Value = serde_json::from_str(arm.workspace.scans.trim()).unwrap();
    record["complete"] = false.into();
    for key in ["end_time", "end_reason"] {
        record.as_object_mut().unwrap().remove(key);
    }
    let [out, file] = ["out", "simple.json"].map(|name| arm.workspace.path(name));
    let flags = ["--goniometer", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let flags = [&flags[..], &["--radial-range", "8,30"]].concat();
    let moves = [&flags[..], &["--motor", "turn=rot"]].concat();
    let running = run("plan-split", &moves, &format!("{record}\n"));
    assert_eq!(running.status, 1);
    assert!(
        running.stderr.contains("run plan-split again when it has ended"),
        "{}",
        running.stderr
    );
    let fail = running.records("fail").remove(0);
    assert_eq!(fail["retryable"], true);
    // Motors that stay are no reason to wait.
    let stay = [&flags[..], &["--motor", "turn=samy"]].concat();
    run("plan-split", &stay, &format!("{record}\n")).assert_success();
}

/// Plans a scan in whose record and master file something was changed, and returns what is refused.
fn refuse(change: impl FnOnce(&hdf5::File, &mut Value)) -> Option<String> {
    let arm = Arm::new([0.0, 10.0, 20.0, 20.0, 30.0, 30.0, 40.0, 40.0])?;
    let mut record: Value = serde_json::from_str(arm.workspace.scans.trim()).unwrap();
    let master = open_hdf5_to_write(&arm.workspace.data.master);
    change(&master, &mut record);
    master.close().unwrap();
    let [out, file] = ["out", "simple.json"].map(|name| arm.workspace.path(name));
    let flags = ["--goniometer", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let flags = [&flags[..], &["--radial-range", "8,30", "--motor", "turn=rot"]].concat();
    let planned = run("plan-split", &flags, &format!("{record}\n"));
    assert_eq!((planned.status, planned.records("task").len()), (1, 0), "{}", planned.stderr);
    Some(planned.stderr)
}

#[test]
fn positions_that_are_not_those_of_the_frames_are_refused() {
    let list = "/1.1/instrument/rot/value";
    let half = refuse(|master, _| {
        master.unlink(list).unwrap();
        master.new_dataset_builder().with_data(&[0.0, 1.0, 2.0, 3.0]).create(list).unwrap();
    });
    let Some(half) = half else { return };
    assert!(half.contains("motor rot: 4 positions in "), "{half}");
    assert!(half.contains(" for 8 frames; expected one for each frame"), "{half}");
    let table = refuse(|master, _| {
        master.unlink(list).unwrap();
        master.new_dataset::<f64>().shape((8, 2)).create(list).unwrap();
    })
    .unwrap();
    assert!(table.contains("2 dimensions; expected one number, or a list"), "{table}");
    let of_one_point = |record: &mut Value| {
        record["counters"].as_object_mut().unwrap().remove("rot").expect("a counter");
    };
    let list_of_one = refuse(|master, record| {
        of_one_point(record);
        master.unlink(list).unwrap();
        master.new_dataset_builder().with_data(&[0.0]).create(list).unwrap();
    })
    .unwrap();
    assert!(list_of_one.contains("1 positions in "), "{list_of_one}");
    // One number for a scan over which the motor turned by half a circle.
    let moved = refuse(|master, record| {
        of_one_point(record);
        master.unlink("/1.1/instrument/positioners/rot").unwrap();
        let dataset =
            master.new_dataset::<f64>().create("/1.1/instrument/positioners/rot").unwrap();
        dataset.write_scalar(&-90.0).unwrap();
    })
    .unwrap();
    assert!(moved.contains("has one position for all frames, and moved from "), "{moved}");
}
