//! Calibration factors from standards, against numpy.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use super::absolute_units::{FLUX, ORACLE, add_diode};
use super::backgrounds::{MEAN, Scans};
use super::viewers::run_script;
use crate::support::{NO_ARGUMENTS, Outcome, run};

/// Computes the factor with numpy, as a ratio of sums. Arguments: final file, background or nothing,
/// and the options: thickness in cm, transmissions, range of q, the reference's q and values, and
/// its relative error.
const FIT: &str = r#"
final, background, options = sys.argv[1:]
options = json.loads(options)
mine = rows(final)
average, sigma = mean(mine, mine["ok"])
sample, empty = options["transmission"]
average, sigma = average / sample, sigma / sample
if background:
    other = rows(background)
    value, error = mean(other, other["ok"])
    average, sigma = average - value / empty, numpy.hypot(sigma, error / empty)
average, sigma = average / options["thickness"], sigma / options["thickness"]
known = numpy.interp(mine["q"], options["q"], options["value"])
low, high = options["range"]
use = (mine["q"] >= low) & (mine["q"] <= high) & numpy.isfinite(average) & (sigma > 0)
use &= mine["norm"] > 0
W, split = mine["norm"], mine["norm"] ** 2 / (mine["count"] * mine["norm_sq"])
expected = (W * known)[use].sum()
slope = (W * average)[use].sum() / expected
residual, points = average - slope * known, use.sum()
chi2 = ((residual / sigma)[use] ** 2).sum() / (points - 1)
scatter = max(1, points / (points - 1) * ((W * residual)[use] ** 2).sum() / ((W * sigma)[use] ** 2).sum())
error = numpy.sqrt(scatter * (split * (W * sigma) ** 2)[use].sum()) / expected
factor = 1 / slope
print(json.dumps({"factor": factor, "error": factor * numpy.hypot(error / slope, options["relative_error"]),
                  "chi2": chi2, "bins": int(use.sum()), "range": [mine["q"][use][0], mine["q"][use][-1]]}))
"#;

fn scans(plan: &[&str]) -> Scans {
    let plan = [&FLUX[..], plan].concat();
    Scans::with_counters(&plan, |master| add_diode(master, |_| 0.6, |_| 0.9))
}

fn calibrate(scans: &Scans, subtract: bool, flags: &[&str]) -> Outcome {
    let background = ["--subtract", &scans.finals[1]];
    let background: &[&str] = if subtract { &background } else { &[] };
    run("gather", &[&["--keep-sums"], background, flags].concat(), &scans.results[0])
}

fn close(one: &Value, other: &Value) -> bool {
    let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
    (one / other - 1.0).abs() < 1e-6
}

/// Some rows of the certificate of glassy carbon, NIST SRM 3600: q in 1/angstrom and dΣ/dΩ in 1/cm.
const CERTIFIED: [(f64, f64); 9] = [
    (0.0978854, 23.946472),
    (0.109655, 22.472101),
    (0.114312, 21.777228),
    (0.118395, 21.112938),
    (0.122624, 20.40111),
    (0.123142, 20.28706),
    (0.127004, 19.685107),
    (0.13154, 18.909809),
    (0.136239, 18.089242),
];

#[test]
fn the_factor_and_its_error_are_those_of_numpy() {
    let scans = scans(&[]);
    let table = scans.workspace.path("standard.dat");
    let q: Vec<f64> = (0..40).map(|row| 10.0 + 0.5 * f64::from(row)).collect();
    let value: Vec<f64> = q.iter().map(|q| 3.0 - 0.05 * q + 0.02 * q.sin()).collect();
    let rows = q.iter().zip(&value).map(|(q, value)| format!("{q} {value} {}\n", 0.04 * value));
    fs::write(&table, format!("# of a beamline\n{}", rows.collect::<String>())).unwrap();
    let table = table.to_str().unwrap();
    let relative = (table, json!({"q": q, "value": value, "relative_error": 0.04}));
    let water =
        ("water", json!({"q": [0.0, 100.0], "value": [1.632e-2, 1.632e-2], "relative_error": 0.0}));
    for (subtract, (standard, mut options), range, flag) in [
        (true, relative.clone(), [10.0, 29.5], None),
        (false, relative, [12.0, 20.0], Some("12,20")),
        (true, water.clone(), [2.0, 5.0], None),
        (false, water, [1.0, 8.0], Some("1,8")),
    ] {
        let transmission = if subtract { "0.6,0.9" } else { "0.6" };
        let mut flags =
            vec!["--thickness", "1.055mm", "--transmission", transmission, "--calibrate", standard];
        flags.extend(flag.into_iter().flat_map(|range| ["--calibration-range", range]));
        let gathered = calibrate(&scans, subtract, &flags).assert_success();
        let summary = gathered.records("summary").remove(0);
        options["thickness"] = json!(0.1055);
        options["transmission"] = json!([0.6, 0.9]);
        options["range"] = json!(range);
        let background = if subtract { scans.finals[1].as_str() } else { "" };
        let script = [MEAN, ORACLE, FIT].concat();
        let arguments = [&scans.finals[0], background, &options.to_string()];
        let Some(fitted) = run_script(&script, &arguments) else { return };
        for (field, name) in [("factor", "factor"), ("error", "error"), ("chi2", "chi2")] {
            let found = &summary[format!("calibration_{field}")];
            assert!(close(found, &fitted[name]), "{standard}: {field}: {found}, {fitted}");
        }
        assert_eq!(summary["calibration_bins"], fitted["bins"]);
        assert_eq!(summary["calibration_range"], fitted["range"]);
        assert_eq!(summary["calibration_standard"], standard);
        let relative = &summary["calibration_standard_relative_error"];
        assert_eq!(relative.is_null(), standard == "water", "{relative}");
        // The same patterns come of the factor itself, as a pipe would hand it over.
        let path = summary["absolute"].as_str().unwrap();
        let read = || {
            let file = hdf5::File::open(path).unwrap();
            let value = |name: &str| {
                file.dataset(&format!("entry/process/{name}"))
                    .unwrap()
                    .read_scalar::<f64>()
                    .unwrap()
            };
            let mean = file.dataset("entry/mean/intensity").unwrap().read_raw::<f64>().unwrap();
            let bits: Vec<u64> = mean.iter().map(|value| value.to_bits()).collect();
            (bits, value("calibration_factor"), value("calibration_factor_error"))
        };
        let measured = read();
        let factor = format!("{},{}", summary["calibration_factor"], summary["calibration_error"]);
        let flags = [
            "--thickness",
            "1.055mm",
            "--transmission",
            transmission,
            "--calibration-factor",
            &factor,
        ];
        calibrate(&scans, subtract, &flags).assert_success();
        assert_eq!(read(), measured);
    }
}

#[test]
fn glassy_carbon_is_that_of_the_certificate_in_any_unit_of_q() {
    let mut factors = Vec::new();
    for (unit, per_angstrom, range) in [("q_nm^-1", 10.0, "1,1.3"), ("q_A^-1", 1.0, "0.1,0.13")] {
        let scans = scans(&["--unit", unit, "--radial-range", range]);
        let table = scans.workspace.path("certificate.csv");
        let row = |(q, value): (f64, f64)| {
            format!("{},{value},{}\n", q * per_angstrom, value * 0.0257946)
        };
        fs::write(&table, format!("q,I,u\n{}", CERTIFIED.map(row).concat())).unwrap();
        for standard in ["glassy-carbon", table.to_str().unwrap()] {
            let flags = ["--thickness", "1.055mm", "--calibrate", standard, "-v"];
            let gathered = calibrate(&scans, false, &flags).assert_success();
            let note = format!(" from {standard}: ");
            assert!(gathered.stderr.contains(&note), "{}", gathered.stderr);
            let summary = gathered.records("summary").remove(0);
            assert!(summary["calibration_bins"].as_u64().unwrap() > 10, "{summary}");
            assert!(close(&summary["calibration_standard_relative_error"], &json!(0.0257946)));
            factors.push(summary["calibration_factor"].clone());
            factors.push(summary["calibration_error"].clone());
        }
    }
    for pair in factors[2..].chunks(2) {
        assert!(close(&pair[0], &factors[0]) && close(&pair[1], &factors[1]), "{factors:?}");
    }
}

#[test]
fn standards_that_can_not_be_compared_are_refused() {
    let scans = scans(&[]);
    let table = scans.workspace.path("standard.dat");
    let path = table.to_str().unwrap();
    fs::write(&table, "1 2\n0.5 2\n").unwrap();
    let flags = ["--thickness", "1mm", "--calibrate"];
    for (flags, status, why) in [
        ([&flags[..], &[path]].concat(), 2, "standard.dat: line 2: q is 0.5, and not above that"),
        ([&flags[..], &["glasscarbon"]].concat(), 2, "expected glassy-carbon, water or a file"),
        (vec!["--calibrate", "water"], 2, "--thickness"),
        ([&flags[..], &["water", "--calibration-factor", "1"]].concat(), 2, "cannot be used with"),
        ([&flags[..], &["water", "--calibration-range", "3,2"]].concat(), 2, "the lower one first"),
        (
            [&flags[..], &["water", "--calibration-range", "20,30"]].concat(),
            1,
            "can't be compared with water: 0 bins from 20 to 30 nm^-1",
        ),
        ([&flags[..], &["water", "--report", path]].concat(), 2, "standard.dat"),
    ] {
        let refused = calibrate(&scans, false, &flags);
        assert_eq!(refused.status, status, "{flags:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(why), "{flags:?}: {}", refused.stderr);
    }
    // The background is not a standard.
    let own = [
        "--subtract",
        &scans.finals[0],
        "--keep-sums",
        "--thickness",
        "1mm",
        "--calibrate",
        "water",
    ];
    let gathered = run("gather", &own, &scans.results[0]);
    assert_eq!(gathered.status, 1, "{}", gathered.stderr);
    assert!(gathered.stderr.contains("no scan but the background"), "{}", gathered.stderr);
    assert_eq!(gathered.records("summary")[0].get("calibration_factor"), None);
    for (plan, why) in [
        (&["--unit", "2th_deg"][..], "--calibrate expects q, such as q_nm^-1"),
        (&["--npt-azim", "4"][..], "has cakes of 4 x 300 bins, which can't be compared"),
    ] {
        let tasks = scans.workspace.plan(plan[1], plan);
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        let refused = run("gather", &["--thickness", "1mm", "--calibrate", "water"], &results);
        assert_eq!(refused.status, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}

#[test]
fn bins_without_pixels_take_no_part_whatever_their_value() {
    let mut seen = Vec::new();
    for empty in ["nan", "0"] {
        let flags = ["--error-model", "no", "--radial-range", "1,80", "--empty", empty];
        let scans = scans(&flags);
        let table = scans.workspace.path("flat.dat");
        fs::write(&table, "1 4\n80 1\n").unwrap();
        let flags = ["--thickness", "1mm", "--calibrate", table.to_str().unwrap()];
        let summary =
            calibrate(&scans, false, &flags).assert_success().records("summary").remove(0);
        assert!(summary["calibration_chi2"].is_null(), "{summary}");
        let fields = ["factor", "error", "bins", "range"];
        seen.push(fields.map(|field| summary[format!("calibration_{field}")].clone()));
    }
    assert!(seen[0][2].as_u64().unwrap() < 290, "some bins are beyond the detector: {seen:?}");
    assert_eq!(seen[1], seen[0]);
}

#[test]
fn one_scan_of_a_detector_is_the_standard_and_files_of_others_are_kept() {
    let scans = scans(&[]);
    let flags = ["--keep-sums", "--thickness", "1mm"];
    let factor = ["--calibration-factor", "3"];
    let sample = run("gather", &[&flags[..], &factor].concat(), &scans.results[1]);
    let path =
        sample.assert_success().records("summary")[0]["absolute"].as_str().unwrap().to_owned();
    let before = fs::read(&path).unwrap();
    let both = scans.results.concat();
    let table = scans.workspace.path("steep.dat");
    fs::write(&table, "10 1000\n29 1\n").unwrap();
    let table = table.to_str().unwrap();
    let flags = [&flags[..], &["--calibrate", table]].concat();
    let gathered = run("gather", &flags, &both);
    assert_eq!(gathered.status, 1, "{}", gathered.stderr);
    let why = format!("{} is the standard of this detector; --calibrate expects", scans.finals[0]);
    assert_eq!(gathered.records("fail").len(), 1, "{}", gathered.stdout);
    assert!(gathered.stderr.contains(&why), "{}", gathered.stderr);
    let why = format!("has another shape than {table}: chi2 ");
    assert!(gathered.stderr.contains(&why), "{}", gathered.stderr);
    let summaries = gathered.records("summary");
    assert!(summaries[0]["calibration_factor"].is_f64(), "{}", summaries[0]);
    assert_eq!(summaries[1].get("calibration_factor"), None);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_standard_whose_name_is_no_utf8_is_recorded_as_other_paths_are() {
    let scans = scans(&[]);
    let table = scans.workspace.path("").join(OsStr::from_bytes(b"flat\xff.dat"));
    fs::write(&table, "1 4\n80 1\n").unwrap();
    let flags = ["--keep-sums", "--thickness", "1mm", "--calibrate"].map(OsStr::new);
    let flags = [&flags[..], &[table.as_os_str()]].concat();
    let summary =
        run("gather", &flags, &scans.results[0]).assert_success().records("summary").remove(0);
    assert_eq!(summary.get("calibration_standard"), None);
    let encoded = summary["calibration_standard_b64"].as_str().unwrap();
    assert_eq!(encoded.len(), 4 * table.as_os_str().len().div_ceil(3), "base64: {encoded}");
}

#[test]
fn factors_that_are_not_significant_are_refused_and_imprecise_ones_warned_of() {
    let scans = scans(&[]);
    let measure = |of_background: f64| {
        let transmission = format!("0.6,{of_background}");
        let flags = ["--thickness", "1mm", "--calibrate", "water", "--transmission", &transmission];
        calibrate(&scans, true, &flags)
    };
    // The intensity per cross-section, and its error.
    let slope = |of_background| {
        let summary = measure(of_background).assert_success().records("summary").remove(0);
        let part = |name: &str| summary[format!("calibration_{name}")].as_f64().unwrap();
        (part("factor").recip(), part("error") / part("factor").powi(2))
    };
    // It is that of the sample minus that of the background over its transmission, of which this many
    // errors are left.
    let ((one, _), (other, error)) = (slope(1.0), slope(0.9));
    let background = (one - other) / (1.0 / 0.9 - 1.0);
    let left = |errors: f64, error: f64| background / (one + background - errors * error);
    let (_, error) = slope(left(40.0, error));
    let imprecise = "its calibration factor from water is known to ";
    for (errors, expected) in [
        (40.0, ""),
        (10.0, imprecise),
        (5.0, imprecise),
        (2.0, "which is not significant; expected an error below a third of it"),
    ] {
        let gathered = measure(left(errors, error));
        let (summary, said) = (gathered.records("summary").remove(0), &gathered.stderr);
        assert!(
            said.contains(expected) && said.is_empty() == expected.is_empty(),
            "{errors}: {said}"
        );
        let is_refused = errors < 3.0;
        assert_eq!(gathered.status, i32::from(is_refused), "{errors}: {said}");
        for field in ["absolute", "calibration_factor", "calibration_error"] {
            assert_eq!(summary.get(field).is_none(), is_refused, "{errors}: {field}: {summary}");
        }
    }
}
