//! Refusals of `plan-split --incident-angle MOTOR`, and frames without an angle.

use serde_json::{Value, json};

use super::incident_angle::Grazing;
use crate::support::run;

const QOOP: [&str; 5] = ["--unit", "qoop_nm^-1", "--radial-range=-20,20", "--npt", "200"];

const POSITIONS: &str = "/1.1/instrument/rot/value";

/// Plans with these flags, none of which can be applied to the scan, and returns what is said.
fn refuse_scan(grazing: &Grazing, motor: &str) -> String {
    let planned = grazing.plan("out", &[&QOOP[..], &["--incident-angle", motor]].concat());
    assert_eq!((planned.status, planned.records("task").len()), (1, 0), "{}", planned.stderr);
    planned.records("fail")[0]["error"].as_str().unwrap().to_owned()
}

#[test]
fn a_motor_that_the_scan_lacks_is_refused_with_those_that_it_has() {
    let grazing = Grazing::new(&[0.1, 0.2]);
    let said = refuse_scan(&grazing, "rott");
    let expected = "no motor `rott` among the counters and positioners of the scan; perhaps `rot`. There are: ";
    assert!(said.contains(expected), "{said}");
    for motor in ["mu", "rot", "samy", "monitor"] {
        assert!(said.contains(&format!(" {motor},")), "{motor}: {said}");
    }
    assert!(said.ends_with("takes the name of one of them, or a number of degrees"), "{said}");
    // A mistyped number is the name of no motor.
    assert!(refuse_scan(&grazing, "0.2deg").contains("no motor `0.2deg`"));
}

#[test]
fn a_unit_that_is_no_angle_is_refused() {
    let grazing = Grazing::new(&[0.1, 0.2]);
    let said = refuse_scan(&grazing, "samz");
    let expected = "motor samz: /1.1/instrument/positioners/samz has the unit \"mm\"; expected an angle in deg, rad or mrad";
    assert!(said.ends_with(expected), "{said}");
    grazing.set_unit(Some("arcsec"));
    assert!(refuse_scan(&grazing, "rot").contains("has the unit \"arcsec\"; expected"));
}

#[test]
fn positions_that_are_not_those_of_the_frames_are_refused() {
    let grazing = Grazing::new(&[0.1, 0.2, 0.3, 0.4]);
    grazing.turn(POSITIONS, &[f64::NAN, f64::INFINITY, f64::NAN, f64::NAN]);
    let said = refuse_scan(&grazing, "rot");
    assert!(said.contains("motor rot: NaN in "), "{said}");
    assert!(
        said.contains("expected a finite incident angle. Pass --incident-angle DEGREES"),
        "{said}"
    );
    grazing.change(|master| {
        let mu = master.dataset("/1.1/instrument/positioners/mu").unwrap();
        mu.write_scalar(&f64::NEG_INFINITY).unwrap();
        master.unlink(POSITIONS).unwrap();
        master.new_dataset_builder().with_data(&[0.1, 0.2, 0.3]).create(POSITIONS).unwrap();
    });
    assert!(refuse_scan(&grazing, "mu").contains("motor mu: -inf in "));
    let said = refuse_scan(&grazing, "rot");
    assert!(said.contains("motor rot: 3 positions in "), "{said}");
    let expected = " for 4 frames; expected one for each frame. Pass --incident-angle DEGREES if";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_motor_without_a_position_per_frame_that_moved_is_refused() {
    let grazing = Grazing::new(&[0.1, 0.2]);
    grazing.change(|master| {
        for (group, angle) in [("positioners_start", 0.25), ("positioners_end", 0.252)] {
            let path = format!("/1.1/instrument/{group}/mu");
            master
                .new_dataset::<f64>()
                .create(path.as_str())
                .unwrap()
                .write_scalar(&angle)
                .unwrap();
        }
    });
    let said = refuse_scan(&grazing, "mu");
    let expected = "motor mu has one position for all frames, and moved from 0.25 to 0.252 during the scan; expected a \
                    counter with its position in each frame. Pass --incident-angle DEGREES if";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn settings_without_sense_are_refused_at_the_command_line() {
    let grazing = Grazing::new(&[0.1, 0.2]);
    let refuse = |flags: &[&str]| {
        let refused = grazing.plan("out", flags);
        assert_eq!(refused.status, 2, "{flags:?}: {}", refused.stderr);
        refused.stderr
    };
    let with = |flags: &[&str]| refuse(&[&QOOP[..], &["--incident-angle", "rot"], flags].concat());
    let said = refuse(&["--incident-angle", "rot", "--radial-range", "8,30"]);
    let expected = "incident-angle: set with unit q_nm^-1, which does not depend on the sample; expected one of qip_nm^-1";
    assert!(said.contains(expected), "{said}");
    assert!(
        with(&["--incident-angle", "0.2"])
            .contains("'--incident-angle <DEGREES|MOTOR>' cannot be used multiple times")
    );
    let said = refuse(&["--incident-angle", "rot", "--unit", "qip_nm^-1"]);
    assert!(said.contains("incident-angle: set without radial-range; expected"), "{said}");
    for (flag, value) in [("--sigma-clip", "4"), ("--median", "50"), ("--mean", "unweighted")] {
        let said = with(&[flag, value]);
        assert!(said.contains("incident-angle: set together with "), "{said}");
    }
    assert!(
        refuse(&[&QOOP[..], &["--incident-angle", ""]].concat())
            .contains("expected a number of degrees, or the name of a motor")
    );
    assert!(
        refuse(&[&QOOP[..], &["--incident-angle", "nan"]].concat())
            .contains("NaN: expected a number of degrees")
    );
    let table = grazing.path_of("table");
    std::fs::write(&table, format!("0,1 {}\n", grazing.workspace.data.poni.display())).unwrap();
    let said = with(&["--poni-table", &table, "--npt-azim", "8"]);
    assert!(said.contains("poni-table: set together with npt-azim"), "{said}");
}

#[test]
fn a_frame_without_an_angle_has_no_pattern_and_a_warning_names_it() {
    let grazing = Grazing::new(&[0.1, f64::NAN, 0.2, 0.2, f64::INFINITY, f64::NAN]);
    let planned = grazing.plan("out", &[&QOOP[..], &["--incident-angle", "rot"]].concat());
    let said = planned.assert_success();
    let expected = "entry 1.1: motor rot has no finite position at frames 1, 4 to 5: no pattern without an incident angle";
    assert!(said.stderr.contains(expected), "{}", said.stderr);
    let integrated = run("ai-integrate", &["--threads", "2"], &said.stdout);
    assert_eq!(integrated.status, 1);
    let summary = run("gather", &[""; 0], &integrated.stdout).records("summary").pop().unwrap();
    let reason = "geometry unknown: no line in the table of PONI files, or a motor without a value";
    let missing = json!([{"range": [[1, 2], [4, 6]], "kind": "no_geometry", "reason": reason}]);
    assert_eq!((&summary["integrated"], &summary["missing"]), (&3.into(), &missing), "{summary}");
}

#[test]
fn a_scan_whose_sample_turns_is_planned_when_it_has_ended() {
    let grazing = Grazing::new(&[0.1, 0.2]);
    let mut record: Value = serde_json::from_str(grazing.workspace.scans.trim()).unwrap();
    record["complete"] = false.into();
    for key in ["end_time", "end_reason"] {
        record.as_object_mut().unwrap().remove(key);
    }
    let (out, poni) = (grazing.path_of("out"), grazing.workspace.data.poni.to_str().unwrap());
    let plan = |motor: &str| {
        let flags =
            [&QOOP[..], &["--poni", poni, "--out", &out, "--incident-angle", motor]].concat();
        run("plan-split", &flags, &format!("{record}\n"))
    };
    let turning = plan("rot");
    let expected =
        "motors move (rot) and the scan is being recorded; run plan-split again when it has ended";
    assert!(turning.status == 1 && turning.stderr.contains(expected), "{}", turning.stderr);
    assert_eq!(turning.records("fail")[0]["retryable"], true);
    plan("mu").assert_success();
    // Nothing is written yet.
    grazing.turn(POSITIONS, &[f64::NAN; 2]);
    let turning = plan("rot");
    assert!(turning.status == 1 && turning.stderr.contains(expected), "{}", turning.stderr);
}
