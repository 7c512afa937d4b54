//! The drift of beam and detector by the lines of a calibrant: what was displaced is measured.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::viewers::run_script;
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, run, small_options};

/// Displacement of the true detector from that of the PONI file, in metres: `Poni1`, `Poni2`, `Distance`.
const DISPLACEMENT: [f64; 3] = [3e-5, -5e-5, 8e-5];

/// A scan of LaB6, whose frames are integrated with a PONI file that is displaced.
struct DisplacedScan {
    workspace: Workspace,
    results: String,
}

impl DisplacedScan {
    /// `edit` changes the text of the PONI file.
    fn new(displacement: [f64; 3], flags: &[&str], edit: impl Fn(String) -> String) -> Self {
        let detector = sample::Detector::named("pilatus-300k").unwrap();
        let options = sample::Options {
            frames: 3,
            mean: 50.0,
            detector,
            dtype: detector.dtype,
            ..small_options()
        };
        let workspace = Workspace::new(&options);
        let text = fs::read_to_string(&workspace.data.poni).unwrap();
        let displaced = |line: &str| {
            let keys = ["Poni1", "Poni2", "Distance"];
            let found = line.split_once(": ").and_then(|(key, value)| {
                let axis = keys.iter().position(|name| *name == key)?;
                let value: f64 = value.parse().unwrap();
                Some(format!("{key}: {:e}\n", value - displacement[axis]))
            });
            found.unwrap_or_else(|| format!("{line}\n"))
        };
        fs::write(&workspace.data.poni, edit(text.lines().map(displaced).collect())).unwrap();
        let all = [&["--npt", "1200", "--split", "no"], flags].concat();
        let mask = workspace.data.mask.to_str().unwrap().to_owned();
        let all = [&all[..], &["--mask", &mask]].concat();
        let tasks = workspace.plan_without_bins("out", &all);
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        Self { workspace, results }
    }

    fn gather(&self, flags: &[&str]) -> Outcome {
        run("gather", &[&["--keep-parts"], flags].concat(), &self.results)
    }

    fn drift(&self) -> (PathBuf, Value, Outcome) {
        let gathered = self.gather(&["--drift", "LaB6"]);
        assert_eq!((gathered.status, gathered.stderr.as_str()), (0, ""));
        let summary = gathered.records("summary").remove(0);
        (summary["drift"].as_str().unwrap().into(), summary, gathered)
    }
}

/// The plot that silx finds, and the numbers in the file.
const LOOK: &str = r#"
import json, sys
import h5py
import silx.io
from silx.io.nxdata import get_default

with silx.io.open(sys.argv[1]) as file:
    plot = get_default(file)
    out = {"plot": [plot.is_valid, plot.signal_dataset_name, list(plot.signal.shape), plot.auxiliary_signals_dataset_names,
                    plot.axes_names, plot.errors is not None]}
with h5py.File(sys.argv[1]) as file:
    entry = file["entry"]
    names = [name for name in ("x", "y", "distance") if name in entry["drift"]]
    out["names"] = names
    out["frames"] = [[entry["drift"][name][frame] for name in names] for frame in range(3)]
    out["errors"] = [[entry["drift"][name + "_errors"][frame] for name in names] for frame in range(3)]
    out["average"] = [entry["average"][name][()] for name in names]
    out["units"] = sorted({entry[group][name].attrs["units"] for group in ("drift", "average") for name in names})
    out["about"] = [entry["drift"].attrs["calibrant"], entry["drift"].attrs["wavelength"]]
    uses = entry["calibrant/line_use"]
    meanings = uses.attrs["flag_meanings"].split()
    counted = {meaning: int(entry["calibrant/lines_" + meaning][()]) for meaning in meanings}
    out["counted"] = counted == {name: int((uses[()] == number).sum()) for number, name in enumerate(meanings)}
    out["lines"] = [len(uses), counted["used"], counted["out_of_range"]]
print(json.dumps(out))
"#;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn cakes_show_beam_and_distance_of_each_frame_and_of_the_average() {
    let scan =
        DisplacedScan::new(DISPLACEMENT, &["--unit", "2th_deg", "--npt-azim", "36"], |text| text);
    let (path, summary, _) = scan.drift();
    let [y, x, distance] = DISPLACEMENT;
    for (name, truth) in [("x", x), ("y", y), ("distance", distance)] {
        let number = |key: String| summary[key.as_str()].as_f64().unwrap();
        let (value, error) =
            (number(format!("drift_{name}")), number(format!("drift_{name}_error")));
        assert!((value - truth).abs() < 4.0 * error && error < 2e-6, "{name}: {value} +- {error}");
    }
    let final_file = summary["final"].as_str().unwrap();
    assert_eq!(path.to_str().unwrap(), final_file.replace(".h5", ".drift.h5"));
    let first = fs::read(&path).unwrap();
    scan.drift();
    assert!(fs::read(&path).unwrap() == first, "a rerun gives the same bytes");
    let Some(seen) = run_script(LOOK, &[path.to_str().unwrap()]) else { return };
    assert_eq!(seen["plot"], json!([true, "x", [3], ["y", "distance"], ["frame"], true]));
    assert_eq!((&seen["units"], &seen["counted"]), (&json!(["m"]), &json!(true)));
    assert_eq!(seen["about"][0], "LaB6");
    for frame in 0..3 {
        let (values, errors) = (numbers(&seen["frames"][frame]), numbers(&seen["errors"][frame]));
        for ((value, error), truth) in values.iter().zip(&errors).zip([x, y, distance]) {
            assert!(
                (value - truth).abs() < 5.0 * error && *error < 4e-6,
                "{frame}: {value} +- {error}"
            );
        }
    }
    assert!(seen["lines"][1].as_u64().unwrap() >= 4, "{}", seen["lines"]);
}

#[test]
fn patterns_of_one_dimension_show_the_distance_only_and_say_so() {
    let scan = DisplacedScan::new([0.0, 0.0, 8e-5], &["--unit", "q_A^-1"], |text| text);
    let (path, summary, _) = scan.drift();
    assert!(summary.get("drift_x").is_none() && summary.get("drift_y").is_none());
    let [value, error] =
        ["drift_distance", "drift_distance_error"].map(|key| summary[key].as_f64().unwrap());
    assert!((value - 8e-5).abs() < 4.0 * error && error < 2e-6, "{value} +- {error}");
    let told = scan.gather(&["--drift", "lab6", "-v"]).stderr;
    assert!(told.contains("um (the beam is not seen without azimuth)"), "{told}");
    let Some(seen) = run_script(LOOK, &[path.to_str().unwrap()]) else { return };
    assert_eq!(seen["names"], json!(["distance"]));
    assert_eq!(seen["plot"], json!([true, "distance", [3], [], ["frame"], true]));
}

#[test]
fn lines_of_another_calibrant_are_doubted_and_those_of_the_right_one_are_not() {
    let far = [0.0, 0.0, 1.5e-3];
    let cakes = ["--unit", "2th_deg", "--npt-azim", "36"];
    for (displacement, flags) in [
        ([0.0; 3], &["--unit", "2th_deg"][..]),
        (far, &["--unit", "q_A^-1"]),
        ([0.0; 3], &cakes),
        (DISPLACEMENT, &cakes),
        (far, &cakes),
    ] {
        let scan = DisplacedScan::new(displacement, flags, |text| text);
        for calibrant in ["LaB6", "LaB6_SRM660a"] {
            let right = scan.gather(&["--drift", calibrant]);
            let about = format!("{displacement:?} {flags:?} {calibrant}");
            assert_eq!((right.status, right.stderr.as_str()), (0, ""), "{about}");
            assert!(right.records("summary")[0].get("drift_doubt").is_none(), "{about}");
        }
        for calibrant in ["NaCl", "CeO2", "Si", "quartz", "diamond", "Al", "Au", "Ni"] {
            let wrong = scan.gather(&["--drift", calibrant]);
            let doubted = format!("the lines may not be those of {calibrant}: ");
            let is_told = wrong.status == 1 || wrong.stderr.contains(&doubted);
            assert!(is_told, "{displacement:?} {flags:?} {calibrant}: {}", wrong.stdout);
            let doubts = ["few_lines", "outliers", "scatter", "distance"];
            let of_summary = |summary: &Value| summary["drift_doubt"].as_str().map(str::to_owned);
            let doubt = wrong.records("summary").first().and_then(of_summary);
            let is_named = doubt.is_some_and(|doubt| doubts.contains(&&*doubt));
            assert_eq!(is_named, wrong.stderr.contains(&doubted), "{}", wrong.stdout);
        }
    }
}

/// The displacement in the average by scipy's fits and pyFAI's geometry, with the lines that were used.
const ORACLE: &str = r#"
import json, sys
import h5py, numpy, pyFAI
from scipy.optimize import curve_fit, least_squares

final, drift, poni = sys.argv[1:]
with h5py.File(final) as file:
    data = file[next(iter(file))]["pilatus_integrate/integrated"]
    tth, chi = numpy.radians(data["2th"][()]), numpy.radians(data["chi"][()])
    intensity, errors = data["intensity"][()].astype("f8"), data["intensity_errors"][()].astype("f8")
    mean, sigma = intensity.mean(axis=0), numpy.sqrt((errors**2).sum(axis=0)) / len(intensity)
with h5py.File(drift) as file:
    lines = file["entry/calibrant"]
    used = lines["line_use"][()] == 0
    angles = numpy.radians(lines["two_theta"][()])
    gaps = [numpy.sort(abs(angles - angle))[1] for angle in angles[used]]
    rings, widths = angles[used], numpy.radians(lines["fwhm"][used])
ai = pyFAI.load(poni)
turn = ai.rotation_matrix()

def model(x, height, center, width, constant, slope):
    return height * numpy.exp(-4 * numpy.log(2) * ((x - center) / width) ** 2) + constant + slope * (x - x.mean())

points = []
for ring, width, gap in zip(rings, widths, gaps):
    for sector, azimuth in enumerate(chi):
        near = abs(tth - ring) < min(2.5 * width, gap / 2)
        values, weights = mean[sector][near], sigma[sector][near]
        if not numpy.isfinite(values).all() or len(values) < 8:
            continue
        start = [values.max() - values.min(), tth[near][values.argmax()], width, values.min(), 0]
        try:
            found, covariance = curve_fit(model, tth[near], values, start, weights, absolute_sigma=True)
        except RuntimeError:
            continue
        if not 5 * numpy.sqrt(covariance[0, 0]) < found[0]:
            continue
        ray = numpy.array([numpy.sin(found[1]) * numpy.sin(azimuth), numpy.sin(found[1]) * numpy.cos(azimuth), numpy.cos(found[1])])
        spot = turn.T @ ray
        spot *= ai.dist / spot[2]
        points.append([spot[0] + ai.poni1, spot[1] + ai.poni2, ring, numpy.sqrt(covariance[1, 1])])
points = numpy.array(points)
place = numpy.array([ai.poni1, ai.poni2, ai.dist])

def residuals(by):
    moved = pyFAI.geometry.Geometry(place[2] + by[2], place[0] + by[0], place[1] + by[1], ai.rot1, ai.rot2, ai.rot3,
                                    ai.pixel1, ai.pixel2)
    # tth() takes pixels from the corner of the detector, and adds half of one.
    angles = moved.tth(points[:, 0] / ai.pixel1 - 0.5, points[:, 1] / ai.pixel2 - 0.5)
    return (points[:, 2] - angles) / points[:, 3]

def solve(loss):
    return least_squares(residuals, numpy.zeros(3), loss=loss, x_scale=1e-5, xtol=1e-14, ftol=1e-14)

# As azpipe does: outliers are found from a robust fit, and left out of the last one.
rough = residuals(solve("cauchy").x)
points = points[abs(rough) <= 5 * max(1, 1.4826 * numpy.median(abs(rough)))]
fit = solve("linear")
covariance = numpy.linalg.inv(fit.jac.T @ fit.jac)
chi2 = 2 * fit.cost / (len(points) - 3)
print(json.dumps([len(points), fit.x.tolist(), (numpy.sqrt(numpy.diag(covariance) * max(1, chi2))).tolist(), chi2]))
"#;

#[test]
fn scipy_and_pyfai_find_the_same_displacement() {
    let scan =
        DisplacedScan::new(DISPLACEMENT, &["--unit", "2th_deg", "--npt-azim", "36"], |text| text);
    let (path, summary, _) = scan.drift();
    let final_file = summary["final"].as_str().unwrap();
    let poni = scan.workspace.data.poni.to_str().unwrap();
    let Some(found) = run_script(ORACLE, &[final_file, path.to_str().unwrap(), poni]) else {
        return;
    };
    let (values, errors) = (numbers(&found[1]), numbers(&found[2]));
    for (axis, name) in ["y", "x", "distance"].into_iter().enumerate() {
        let number = |key: String| summary[key.as_str()].as_f64().unwrap();
        let (value, error) =
            (number(format!("drift_{name}")), number(format!("drift_{name}_error")));
        // scipy's peaks are Gaussians with a width for each.
        assert!(
            (value - values[axis]).abs() < error.max(errors[axis]),
            "{name}: {value} +- {error}; {found}"
        );
        assert!((0.8..1.25).contains(&(error / errors[axis])), "{name}: {error}; {found}");
    }
}

#[test]
fn what_can_not_be_measured_is_refused_with_its_reason() {
    let refuse = |scan: &DisplacedScan, calibrant: &str, told: &str| {
        let refused = scan.gather(&["--drift", calibrant]);
        assert!(refused.status == 1 && refused.stderr.contains(told), "{told}: {}", refused.stderr);
        assert!(refused.records("summary")[0].get("drift").is_none());
        assert!(refused.records("summary")[0]["complete"].as_bool().unwrap());
    };
    let without_wavelength = |text: String| {
        text.lines()
            .filter(|line| !line.starts_with("Wavelength"))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let none = [0.0; 3];
    let scan = DisplacedScan::new(none, &["--unit", "2th_deg"], without_wavelength);
    refuse(
        &scan,
        "LaB6",
        "its PONI file has no wavelength, by which lines have angles; add `Wavelength: METRES` to it",
    );
    let scan = DisplacedScan::new(none, &["--error-model", "no"], |text| text);
    refuse(
        &scan,
        "LaB6",
        "has no errors, by which lines are fitted; integrate with another --error-model than no",
    );
    let scan = DisplacedScan::new(none, &["--error", "std"], |text| text);
    refuse(
        &scan,
        "LaB6",
        "its errors are standard deviations of pixels; expected those of means: integrate with --error sem",
    );
    let tilted = |text: String| text.replace("Rot1: 0.0121", "Rot1: 0.05");
    let scan = DisplacedScan::new(none, &["--unit", "2th_deg"], tilted);
    refuse(&scan, "LaB6", "tilted by 0.051 rad");
    let scan = DisplacedScan::new(none, &["--npt-azim", "12"], |text| text);
    refuse(&scan, "LaB6", "its azimuthal bins are 30.0 degrees wide");
    let scan = DisplacedScan::new(none, &["--unit", "r_mm"], |text| text);
    refuse(&scan, "LaB6", "the axis is r (mm); --drift expects 2th, q, d*2 or d");
    let scan = DisplacedScan::new(none, &["--unit", "qip_A^-1"], |text| text);
    refuse(&scan, "LaB6", "the axis is qip (A^-1); --drift expects");
    let scan = DisplacedScan::new(none, &[], |text| text);
    refuse(
        &scan,
        "500,600",
        "--drift d = 500,600 Å: 0 of 2 lines found in 0 positions (2 out of range); expected two lines",
    );
    refuse(&scan, "4.15690", "1 of 1 lines found in 1 positions; expected two lines or more");
    let no_file = scan.workspace.path("no.D");
    let no_file = no_file.to_str().unwrap();
    for (calibrant, told) in
        [("unobtainium", "expected a name (AgBh, "), (no_file, "no.D: No such file")]
    {
        let refused = scan.gather(&["--drift", calibrant]);
        assert!(refused.status == 2 && refused.stderr.contains(told), "{}", refused.stderr);
    }
    for way in [
        &["--plan", "-", "--missing"][..],
        &["--plan", "-", "--count-done"],
        &["--from", ".", "--clean"],
    ] {
        assert_eq!(scan.gather(&[way, &["--drift", "LaB6"]].concat()).status, 2, "{way:?}");
    }
}

#[test]
fn frames_of_a_detector_that_moves_are_refused() {
    let workspace = Workspace::new(&small_options());
    let text = fs::read_to_string(&workspace.data.poni).unwrap();
    for name in ["one.poni", "two.poni"] {
        let distance = if name == "one.poni" { "0.12" } else { "0.13" };
        fs::write(
            workspace.path(name),
            text.replace("Distance: 0.12", &format!("Distance: {distance}")),
        )
        .unwrap();
    }
    let table = workspace.path("table.txt");
    fs::write(&table, "0,11 one.poni\n12,23 two.poni\n").unwrap();
    let out = workspace.path("out");
    let flags = ["--poni-table", table.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let flags = [&flags[..], &["--radial-range", "5,40", "--npt", "300"]].concat();
    let tasks = run("plan-split", &flags, &workspace.scans).assert_success().stdout;
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let refused = run("gather", &["--drift", "LaB6"], &results);
    let told = "the detector or the sample moves; expected frames of one geometry, of which --drift measures the change";
    assert!(refused.status == 1 && refused.stderr.contains(told), "{}", refused.stderr);
}

#[test]
fn a_foreign_file_stays_and_the_report_shows_the_plot() {
    let scan = DisplacedScan::new([0.0, 0.0, 1e-4], &[], |text| text);
    let report = scan.workspace.path("run.html");
    let flags = ["--drift", "LaB6", "--report", report.to_str().unwrap()];
    let gathered = scan.gather(&flags).assert_success();
    let page = fs::read_to_string(&report).unwrap();
    assert!(
        page.contains(" lines of LaB6 (without ") && page.contains("in the average of all frames"),
        "{page}"
    );
    assert!(
        page.contains("<img alt=\"displacement by LaB6\" src=\"data:image/png;base64,"),
        "{page}"
    );
    let path = gathered.records("summary")[0]["drift"].as_str().unwrap().to_owned();
    fs::write(&path, "mine").unwrap();
    let refused = scan.gather(&["--drift", "LaB6"]);
    assert!(
        refused.status == 1 && refused.stderr.contains(".drift.h5: exists"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    scan.gather(&["--drift", "LaB6", "--overwrite"]).assert_success();
    assert_ne!(fs::read(&path).unwrap(), b"mine");
}

#[test]
fn members_of_a_merge_have_drifts_and_the_merge_has_none() {
    let scan = DisplacedScan::new([0.0; 3], &[], |text| text);
    let sectors = [("0,90", "one"), ("-180,-90", "two")].map(|(sector, name)| {
        let sector = format!("--azimuth-range={sector}");
        let flags = [
            &*sector,
            "--unit",
            "2th_deg",
            "--npt",
            "1200",
            "--radial-range",
            "2,20",
            "--recipe-name",
            name,
        ];
        let tasks = scan.workspace.plan_without_bins("sectors", &flags);
        run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout
    });
    let flags = ["--keep-parts", "--drift", "LaB6", "--merge-all", "both"];
    let gathered = run("gather", &flags, &sectors.concat());
    let summaries = gathered.records("summary");
    let drifts: Vec<bool> =
        summaries.iter().map(|summary| summary.get("drift").is_some()).collect();
    assert_eq!((gathered.status, drifts), (0, vec![true, true, false]), "{}", gathered.stderr);
}
