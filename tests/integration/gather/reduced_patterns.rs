//! Patterns over transmissions and minus backgrounds: frames without a value, errors of the mean, and
//! exports of earlier runs.

use std::fs;

use super::absolute_units::{FLUX, add_diode, gather, scans};
use super::backgrounds::Scans;

#[test]
fn frames_without_a_usable_transmission_are_nan_and_told_of_sample_and_background() {
    let sample = |frame: usize| if frame == 7 { 1.2 } else { 0.6 };
    let background = |frame: usize| if frame == 5 { 0.0 } else { 0.9 };
    let scans = Scans::with_counters(&FLUX, |master| add_diode(master, sample, background));
    let flags = ["--thickness", "1mm", "--calibration-factor", "1"];
    let counters = ["--transmission", "diode/monitor/0.83"];
    let gathered = gather(&scans, true, &[&flags[..], &counters].concat());
    assert_eq!(gathered.status, 1, "{}", gathered.stderr);
    let value =
        "without a value of --transmission diode/monitor/0.83 above 0 and at most 1.05: they are";
    for why in [
        format!(".absolute.h5: 1 frame (7) {value} NaN"),
        format!("{}: 1 frame (5) {value} not part of the background", scans.finals[1]),
    ] {
        assert!(gathered.stderr.contains(&why), "{}", gathered.stderr);
    }
    let path = gathered.records("summary")[0]["absolute"].as_str().unwrap().to_owned();
    let file = hdf5::File::open(path).unwrap();
    let read = |name: &str| file.dataset(name).unwrap().read_raw::<f64>().unwrap();
    let statuses = read("entry/absolute/frame_status");
    let expected: Vec<f64> = (0..24).map(|frame| if frame == 7 { 5.0 } else { 0.0 }).collect();
    assert_eq!(statuses, expected, "7 is as one without a monitor");
    let intensity = read("entry/absolute/intensity");
    let has_data: Vec<bool> =
        intensity.chunks(300).map(|row| row.iter().any(|value| value.is_finite())).collect();
    assert_eq!(has_data, (0..24).map(|frame| frame != 7).collect::<Vec<_>>());
    assert_eq!(read("entry/process/background_frames"), [23.0]);
}

#[test]
fn exports_of_another_factor_or_background_are_named() {
    let scans = scans(&FLUX, true);
    let absolute = |factor| ["--thickness", "1mm", "--calibration-factor", factor];
    let export = ["--export", "xye"];
    for (subtract, first, second) in [
        (false, absolute("1").to_vec(), absolute("2").to_vec()),
        (true, vec!["--subtract-scale", "1"], vec!["--subtract-scale", "0.5"]),
    ] {
        let name = if subtract { "subtracted" } else { "absolute" };
        let xye = scans.finals[0].replace(".h5", &format!(".{name}.xye"));
        let written = gather(&scans, subtract, &[&first[..], &export].concat()).assert_success();
        assert!(!written.stderr.contains("exports"), "{}", written.stderr);
        let other = gather(&scans, subtract, &second).assert_success();
        let why = format!(
            "exports from an earlier run may have another background, transmission or factor: {xye}; write"
        );
        assert!(other.stderr.contains(&why), "{}", other.stderr);
        let again = gather(&scans, subtract, &[&second[..], &export].concat()).assert_success();
        assert!(!again.stderr.contains("exports"), "{}", again.stderr);
    }
}

#[test]
fn the_mean_has_the_errors_of_the_average_that_is_stored() {
    let scans = scans(&FLUX, true);
    let flags = ["--thickness", "1mm", "--calibration-factor", "2", "--average", "mean"];
    let gathered = gather(&scans, false, &[&flags[..], &["--export", "csv"]].concat());
    let summary = gathered.assert_success().records("summary").remove(0);
    let csv = summary["export"][1].as_str().unwrap();
    let exported: Vec<f64> = fs::read_to_string(csv)
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    let file = hdf5::File::open(summary["absolute"].as_str().unwrap()).unwrap();
    let errors = file.dataset("entry/mean/intensity_errors").unwrap().read_raw::<f64>().unwrap();
    let frames =
        file.dataset("entry/absolute/intensity_errors").unwrap().read_raw::<f64>().unwrap();
    let mut larger = 0;
    for (bin, (error, exported)) in errors.iter().zip(&exported).enumerate() {
        assert!(error.is_nan() == exported.is_nan());
        assert!(!(error / exported - 1.0).abs().gt(&1e-7), "{error} {exported}");
        let squares: f64 = frames.iter().skip(bin).step_by(300).map(|sigma| sigma.powi(2)).sum();
        larger += usize::from(squares.sqrt() / 24.0 > 1.02 * error);
    }
    assert!(larger > 20, "each frame has a minimum of a photon per pixel: {larger}");
}
