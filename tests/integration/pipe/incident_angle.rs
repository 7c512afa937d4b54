//! A sample on a motor (`plan-split --incident-angle MOTOR`): patterns, cakes and averages of pyFAI's
//! FiberIntegrator at the angle of each frame, and what finals hold.

use std::fs;

use hdf5::types::VarLenUnicode;
use sample::Options;
use serde_json::{Value, json};

use crate::support::{Outcome, Workspace, open_hdf5_to_write, run, run_python, small_options};

const FRAMES: usize = 8;

const ANGLES: [f64; FRAMES] = [0.1, 0.1, 0.25, 0.5, -1.5, 0.1, 12.0, 12.0];

const POSITIONS: &str = "/1.1/instrument/rot/value";

const QOOP: [&str; 6] =
    ["--unit", "qoop_nm^-1", "--radial-range=-20,20", "--npt", "200", "--incident-angle"];

/// A dataset whose motor `rot` turns the sample, and whose motor `mu` stays.
pub(super) struct Grazing {
    pub(super) workspace: Workspace,
    angles: Vec<f64>,
}

impl Grazing {
    pub(super) fn new(angles: &[f64]) -> Self {
        Self::with_scans(1, angles)
    }

    fn with_scans(scans: usize, angles: &[f64]) -> Self {
        let workspace = Workspace::new(&Options { frames: angles.len(), scans, ..small_options() });
        let grazing = Self { workspace, angles: angles.to_vec() };
        grazing.change(|master| {
            for scan in 1..=scans {
                let all = master.group(&format!("/{scan}.1/instrument/positioners")).unwrap();
                all.new_dataset::<f64>().create("mu").unwrap().write_scalar(&0.25).unwrap();
            }
        });
        grazing.turn(POSITIONS, angles);
        grazing
    }

    /// Changes the master file.
    pub(super) fn change(&self, change: impl FnOnce(&hdf5::File)) {
        let master = open_hdf5_to_write(&self.workspace.data.master);
        change(&master);
        master.close().unwrap();
    }

    /// Writes other positions into the master file.
    pub(super) fn turn(&self, dataset: &str, angles: &[f64]) {
        self.change(|master| master.dataset(dataset).unwrap().write_raw(angles).unwrap());
    }

    /// Changes the unit of the positions; `None` for no unit.
    pub(super) fn set_unit(&self, unit: Option<&str>) {
        self.change(|master| {
            let positions = master.dataset(POSITIONS).unwrap();
            if positions.attr("units").is_ok() {
                positions.delete_attr("units").unwrap();
            }
            if let Some(unit) = unit {
                let text: VarLenUnicode = unit.parse().unwrap();
                let attribute = positions.new_attr::<VarLenUnicode>().create("units").unwrap();
                attribute.write_scalar(&text).unwrap();
            }
        });
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        self.workspace.path(name).to_str().unwrap().to_owned()
    }

    pub(super) fn plan(&self, out: &str, flags: &[&str]) -> Outcome {
        let (out, poni) = (self.path_of(out), self.workspace.data.poni.to_str().unwrap());
        let moves = ["--poni-table", "--goniometer"].iter().any(|flag| flags.contains(flag));
        let poni = if moves { vec![] } else { vec!["--poni", poni] };
        run("plan-split", &[&["--out", &out], &poni[..], flags].concat(), &self.workspace.scans)
    }

    /// Runs the pipe, and returns the summary.
    pub(super) fn process(&self, out: &str, flags: &[&str]) -> Value {
        let tasks = self.plan(out, flags).assert_success().stdout;
        let integrated = run("ai-integrate", &["--threads", "2"], &tasks).assert_success().stdout;
        let gathered = run("gather", &["--average", "mean"], &integrated).assert_success();
        gathered.records("summary").pop().unwrap()
    }

    /// Compares a final with pyFAI. `more` has the unit, the range and the numbers of bins.
    fn compare(&self, summary: &Value, more: Value) -> Option<Value> {
        let mut case = json!({
            "image": [self.workspace.data.master, "/1.1/instrument/pilatus/data"],
            "final": summary["final"], "ponis": vec![&self.workspace.data.poni; self.angles.len()],
            "angles": self.angles, "unit": "qoop_nm^-1", "range": [-20.0, 20.0], "npt": 200,
        });
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let seen = run_python(include_str!("incident_angles.py"), [case.to_string()])?;
        Some(serde_json::from_slice(&seen).unwrap())
    }
}

fn assert_equal(seen: &Value, rows: usize) {
    assert_eq!((&seen["rows"], &seen["empty"]), (&rows.into(), &true.into()), "{seen}");
    assert!(seen["bins"].as_u64().unwrap() > 100 * rows as u64, "{seen}");
    for (name, limit) in [("axis", 1e-6), ("intensity", 1e-6), ("sigma", 1e-6), ("average", 1e-6)] {
        assert!(seen[name].as_f64().unwrap() < limit, "{name}: {seen}");
    }
}

#[test]
fn patterns_and_averages_are_fiber_integrators_at_the_angle_of_each_frame() {
    let grazing = Grazing::new(&ANGLES);
    let sample = ["--tilt-angle", "10", "--sample-orientation", "4", "--by", "frames=3"];
    for (unit, range) in [("qoop_nm^-1", [-20.0, 20.0]), ("qip_A^-1", [-2.5, 1.0])] {
        let text = format!("--radial-range={},{}", range[0], range[1]);
        let flags = ["--unit", unit, &text, "--npt", "200", "--incident-angle", "rot"];
        let summary = grazing.process(unit, &[&flags[..], &sample].concat());
        assert_eq!(
            (&summary["integrated"], &summary["complete"], &summary["up_to_date"]),
            (&8.into(), &true.into(), &true.into())
        );
        let more = json!({"unit": unit, "range": range, "tilt-angle": 10, "sample-orientation": 4});
        let Some(seen) = grazing.compare(&summary, more) else { return };
        assert_equal(&seen, FRAMES);
        assert_eq!(seen["angles"], json!({"values": ANGLES, "units": "deg"}));
        let matrices = fs::read_dir(grazing.workspace.path(unit).join(".azpipe/matrix")).unwrap();
        assert_eq!(matrices.count(), 5, "one for each angle, or a note of its first use");
    }
}

#[test]
fn azimuthal_errors_of_each_frame_are_those_at_its_angle() {
    let angles = [0.1, 0.1, 0.4, 0.25];
    let grazing = Grazing::new(&angles);
    let rows = |out: &str, angle: &str| {
        let flags = [&QOOP[..], &[angle, "--error-model", "azimuthal"]].concat();
        let summary = grazing.process(out, &flags);
        let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
        ["intensity", "intensity_errors"].map(|name| {
            let name = format!("/1.1/pilatus_integrate/integrated/{name}");
            let values = file.dataset(&name).unwrap().read_raw::<f64>().unwrap();
            assert!(values.iter().any(|value| *value > 0.0), "{name}");
            let rows = values.chunks(values.len() / angles.len());
            rows.map(|row| row.iter().map(|value| value.to_bits()).collect())
                .collect::<Vec<Vec<u64>>>()
        })
    };
    let moving = rows("moving", "rot");
    for (frame, angle) in angles.iter().enumerate() {
        let fixed = rows(&format!("fixed {frame}"), &angle.to_string());
        for (moving, fixed) in moving.iter().zip(&fixed) {
            assert_eq!(moving[frame], fixed[frame], "frame {frame}");
        }
    }
}

#[test]
fn cakes_are_fiber_integrators_too_and_no_row_depends_on_the_tasks() {
    let grazing = Grazing::new(&ANGLES);
    let flags = [&QOOP[..], &["rot", "--npt-azim", "36"]].concat();
    let by = |out: &str, size: &str| grazing.process(out, &[&flags[..], &["--by", size]].concat());
    let summary = by("scan", "scan");
    let Some(seen) = grazing.compare(&summary, json!({"npt_azim": 36})) else { return };
    assert_equal(&seen, FRAMES);
    assert_eq!(by("frames", "frames=1")["data_digest"], summary["data_digest"]);
    // Averages after the fact have the weights of each row.
    let out = grazing.path_of("scan");
    let late = run("gather", &["--from", &out, "--average", "mean,3"], "").assert_success();
    let late = late.records("summary").pop().unwrap();
    let read = |name: &str| {
        let file = hdf5::File::open(late["final"].as_str().unwrap()).unwrap();
        file.dataset(&format!("/1.1/pilatus_integrate/{name}")).unwrap().read_raw::<f64>().unwrap()
    };
    let (rows, means) = (read("integrated/intensity"), read("averaged/intensity"));
    assert_eq!((rows.len(), means.len()), (8 * 36 * 200, 3 * 36 * 200));
    // Of the last two frames, which have one angle, weights are equal.
    let mut compared = 0;
    for bin in 0..36 * 200 {
        let [one, two] = [6, 7].map(|frame| rows[frame * 36 * 200 + bin]);
        let mean = means[2 * 36 * 200 + bin];
        if !mean.is_nan() {
            assert!(((one + two) / 2.0 - mean).abs() < 1e-6 * mean.abs().max(1.0), "{bin}");
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn angles_are_in_the_unit_of_the_motor() {
    let grazing = Grazing::new(&ANGLES);
    let flags = [&QOOP[..], &["rot"]].concat();
    let degrees = grazing.process("deg", &flags);
    grazing.set_unit(None);
    assert_eq!(grazing.process("none", &flags)["recipe_digest"], degrees["recipe_digest"]);
    for (unit, scale) in [("rad", 1.0), ("mrad", 1e3)] {
        grazing.set_unit(Some(unit));
        grazing.turn(POSITIONS, &ANGLES.map(|angle| angle.to_radians() * scale));
        let summary = grazing.process(unit, &flags);
        let Some(seen) = grazing.compare(&summary, json!({})) else { return };
        assert_equal(&seen, FRAMES);
        let kept = seen["angles"]["values"].as_array().unwrap();
        let is_close =
            |(kept, angle): (&Value, f64)| (kept.as_f64().unwrap() - angle).abs() < 1e-12;
        assert!(kept.iter().zip(ANGLES).all(is_close), "{seen}");
    }
}

#[test]
fn a_motor_that_stays_is_one_position_and_what_the_same_number_gives() {
    let grazing = Grazing::new(&[0.25; 6]);
    let moving = grazing.process("moving", &[&QOOP[..], &["rot"]].concat());
    let stays = grazing.process("stays", &[&QOOP[..], &["mu"]].concat());
    let number = grazing.process("number", &[&QOOP[..], &["0.25"]].concat());
    let read = |summary: &Value, name: &str| {
        let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
        file.dataset(&format!("/1.1/{name}")).unwrap().read_raw::<f64>().unwrap()
    };
    for name in ["integrated/intensity", "integrated/intensity_errors", "averaged/intensity"] {
        let name = format!("pilatus_integrate/{name}");
        let bits = |summary: &Value| -> Vec<u64> {
            read(summary, &name).into_iter().map(f64::to_bits).collect()
        };
        assert_eq!(bits(&stays), bits(&number), "{name}");
        assert_eq!(bits(&moving), bits(&number), "{name}");
    }
    assert_eq!(read(&stays, "sample/incident_angle"), [0.25; 6]);
    // The detector stands still, so its geometry is told as that of other finals.
    for summary in [&stays, &number] {
        assert_eq!(read(summary, "instrument/pilatus/distance").len(), 1);
        assert_eq!(read(summary, "instrument/pilatus/poni/rot1").len(), 1);
    }
    let matrices = fs::read_dir(grazing.workspace.path("stays").join(".azpipe/matrix")).unwrap();
    assert_eq!(matrices.count(), 1);
}

#[test]
fn a_run_is_resumed_and_a_corrected_motor_is_another_recipe() {
    let mut grazing = Grazing::new(&ANGLES);
    let flags = [&QOOP[..], &["rot", "--by", "frames=3"]].concat();
    let planned = grazing.plan("out", &flags).assert_success();
    let tasks: Vec<&str> = planned.stdout.lines().collect();
    assert_eq!(tasks.len(), 3);
    let some = run("ai-integrate", &[""; 0], &format!("{}\n", tasks[1])).assert_success();
    let first = run("gather", &[""; 0], &some.stdout).records("summary").pop().unwrap();
    assert_eq!((&first["integrated"], &first["complete"]), (&3.into(), &false.into()), "{first}");
    let rest = run("ai-integrate", &[""; 0], &planned.stdout).assert_success();
    let skipped = rest.records("result").into_iter().filter(|result| result["skipped"] == true);
    assert_eq!(skipped.count(), 1);
    let resumed = run("gather", &["--average", "mean"], &rest.stdout).assert_success();
    let resumed = resumed.records("summary").pop().unwrap();
    assert_eq!(resumed["data_digest"], grazing.process("at once", &flags)["data_digest"]);
    // The final alone knows what is done.
    let again = grazing.plan("out", &flags).assert_success().stdout;
    let again = run("ai-integrate", &[""; 0], &again).assert_success().records("result");
    assert!(again.iter().all(|result| result["skipped"] == true), "{again:?}");
    grazing.angles[3] = 0.6;
    grazing.turn(POSITIONS, &grazing.angles);
    let refused = grazing.plan("out", &flags);
    assert_eq!(refused.status, 1);
    let why = "was planned with other settings (incident-angle: other positions of rot)";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    let second = grazing.process("out", &[&flags[..], &["--replace"]].concat());
    assert_ne!(second["recipe_digest"], resumed["recipe_digest"]);
    let Some(seen) = grazing.compare(&second, json!({})) else { return };
    assert_equal(&seen, FRAMES);
}

#[test]
fn scans_with_other_angles_are_merged_by_the_weights_of_each_frame() {
    let grazing = Grazing::with_scans(2, &ANGLES);
    let other = ANGLES.map(|angle| angle + 0.4);
    grazing.turn("/2.1/instrument/rot/value", &other);
    for (out, cake) in [("patterns", 1), ("cakes", 12)] {
        let bins = cake.to_string();
        grazing.process(out, &[&QOOP[..], &["rot", "--npt-azim", &bins]].concat());
        let from = ["--from", &grazing.path_of(out), "--merge-all", "both", "--average", "mean"];
        let merged = run("gather", &from, "").assert_success().records("summary").pop().unwrap();
        let datasets = ["/1.1/instrument/pilatus/data", "/2.1/instrument/pilatus/data"];
        let image = json!([grazing.workspace.data.master, datasets[0], datasets[1]]);
        let angles = [ANGLES, other].concat();
        let more = json!({
            "image": image, "angles": angles, "npt_azim": cake,
            "ponis": vec![&grazing.workspace.data.poni; 2 * FRAMES],
        });
        let Some(seen) = grazing.compare(&merged, more) else { return };
        assert!(seen["average"].as_f64().unwrap() < 1e-6, "{seen}");
    }
}

#[test]
fn detector_and_sample_move_together() {
    let grazing = Grazing::new(&ANGLES);
    let near = fs::read_to_string(&grazing.workspace.data.poni).unwrap();
    fs::write(grazing.workspace.path("near.poni"), &near).unwrap();
    let up = near.replace("Rot2: -", "Rot2: 0.03\n# ");
    assert!(up != near, "{near}");
    fs::write(grazing.workspace.path("up.poni"), up).unwrap();
    let table = grazing.path_of("table");
    fs::write(&table, "0,2 near.poni\n3,6 up.poni\n").unwrap();
    let ponis =
        [0, 0, 0, 1, 1, 1, 1, 1].map(|at| grazing.workspace.path(["near.poni", "up.poni"][at]));
    let compare = |summary: &Value, angles: [Option<f64>; FRAMES]| {
        let seen = grazing.compare(summary, json!({"ponis": ponis, "angles": angles}));
        seen.inspect(|seen| {
            assert_equal(seen, 7);
            assert_eq!(seen["lacking"], json!([7]));
        })
    };
    let process = |out: &str, angle: &str| {
        let tasks = grazing.plan(out, &[&QOOP[..], &[angle, "--poni-table", &table]].concat());
        let integrated = run("ai-integrate", &["--threads", "2"], &tasks.assert_success().stdout);
        assert_eq!(integrated.status, 1, "a frame without a line: {}", integrated.stderr);
        let gathered = run("gather", &["--average", "mean"], &integrated.stdout);
        gathered.records("summary").pop().unwrap()
    };
    let turned = process("turned", "rot");
    let mut angles = ANGLES.map(Some);
    angles[7] = None;
    let Some(seen) = compare(&turned, angles) else { return };
    assert_eq!(seen["angles"]["values"], json!(angles));
    for (out, angle) in [("mu", "mu"), ("number", "0.25")] {
        compare(
            &process(out, angle),
            [0, 0, 0, 0, 0, 0, 0, 1].map(|lacks| (lacks == 0).then_some(0.25)),
        );
    }
}

#[test]
fn a_goniometer_and_the_sample_have_motors_of_their_own() {
    let grazing = Grazing::new(&ANGLES);
    let poni = fs::read_to_string(&grazing.workspace.data.poni).unwrap();
    let number = |key: &str| {
        let value = poni.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        value.unwrap_or_else(|| panic!("{key}: {poni}")).to_owned()
    };
    // An arm that stays where the PONI file has the detector, and one that turns with `rot`.
    let write = |name: &str, rot2: &str| {
        let wavelength: f64 = number("Wavelength").parse().unwrap();
        let goniometer = json!({
            "content": "Goniometer calibration v2", "detector": number("Detector"), "param": [],
            "wavelength": wavelength, "detector_config": {"orientation": 3},
            "trans_function": {
                "param_names": [], "pos_names": ["rot"], "dist_expr": number("Distance"),
                "poni1_expr": number("Poni1"), "poni2_expr": number("Poni2"), "rot1_expr": number("Rot1"),
                "rot2_expr": format!("{} + {rot2}", number("Rot2")), "rot3_expr": number("Rot3"),
            },
        });
        fs::write(grazing.workspace.path(name), goniometer.to_string()).unwrap();
        grazing.path_of(name)
    };
    let process = |out: &str, flags: &[&str]| {
        let summary = grazing.process(out, &[&QOOP[..], &["rot"], flags].concat());
        let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
        let read = |name: &str| file.dataset(name).unwrap().read_raw::<f64>().unwrap();
        assert_eq!(read("/1.1/sample/incident_angle"), ANGLES);
        let rows = read("/1.1/pilatus_integrate/integrated/intensity");
        rows.into_iter().map(f64::to_bits).collect::<Vec<_>>()
    };
    let fixed = process("fixed", &[]);
    let still = write("still.json", "0 * rot");
    assert!(process("still", &["--goniometer", &still]) == fixed);
    let turns = write("turns.json", "rot * 1e-3");
    assert!(process("turns", &["--goniometer", &turns]) != fixed);
}
