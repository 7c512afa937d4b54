//! Patterns in absolute units, and what is divided by transmissions: against numpy, over the final
//! files, and as SasView's reader finds them.

use std::fs;

use serde_json::{Value, json};

use super::backgrounds::{MEAN, Scans};
use super::viewers::run_script;
use crate::support::{NO_ARGUMENTS, Outcome, python_with, run, run_python};

/// Definitions of the numpy scripts: the patterns of a final file, and their mean.
pub(super) const ORACLE: &str = r#"
import json, sys
import h5py, numpy

def rows(path):
    with h5py.File(path) as file:
        entry = file[file.attrs["default"]]
        data = entry[entry.attrs["default"]]
        counters = data.parent["counters"]
        found = {name: data[name][()].astype("f8") for name in ("intensity", "intensity_errors") if name in data}
        found["ok"] = data["frame_status"][()] == 0
        found["g"] = data["monitor"][()] / data["monitor"].attrs["reference"]
        found["T"] = counters["diode"][()] / counters["monitor"][()] / 0.83
        found["q"] = data["q"][()]
        for name in ("norm", "norm_sq", "count", "signal", "variance"):
            if name in data:
                found[name] = data[name][()]
        return found

def mean_with_transmission(of, use):
    g = of["g"][use]
    return (*mean(of, use), (g * of["T"][use]).sum() / g.sum())

def near(one, two, most):
    return bool(numpy.nanmax(abs(one / two - 1)) < most) and bool((numpy.isnan(one) == numpy.isnan(two)).all())
"#;

/// Compares a file of reduced patterns with numpy, by the textbook's formula.
const LOOK: &str = r#"
import silx.io
from silx.io.nxdata import get_default

reduced, final, background, options = sys.argv[1:]
options = json.loads(options)
thickness, factor = options.get("thickness", 1.0), options.get("factor", 1.0)
name = "absolute" if "thickness" in options else "subtracted"
with silx.io.open(reduced) as file:
    plot = get_default(file)
    out = {"plot": [plot.is_valid, plot.signal_name, plot.errors is not None]}
mine, other = rows(final), rows(background)
if "transmission" in options:
    mine["T"][:], other["T"][:] = options["transmission"]
if options.get("no_transmission"):
    mine["T"][:], other["T"][:] = 1, 1
use = mine["ok"] & numpy.isfinite(mine["T"]) & (mine["T"] > 0)
empty, sigma, through = mean_with_transmission(other, other["ok"])
if options.get("no_background"):
    empty, sigma = 0 * empty, 0 * sigma
empty, sigma = (options.get("scale", 1.0) / through * value for value in (empty, sigma))
T = mine["T"][:, None]
expected = factor / thickness * (mine["intensity"] / T - empty)
errors = factor / thickness * numpy.hypot(mine["intensity_errors"] / T, sigma)
average, average_sigma, through = mean_with_transmission(mine, use)
with h5py.File(reduced) as file:
    entry = file["entry"]
    data, whole, process = entry[name], entry["mean"], entry["process"]
    scale = numpy.nanmax(abs(expected[use]))
    out["patterns"] = bool(numpy.nanmax(abs(data["intensity"][()] - expected)[use]) < 3e-7 * scale)
    out["errors"] = near(data["intensity_errors"][()][use], errors[use], 3e-7)
    out["gaps"] = [int(use.sum()), bool(numpy.isnan(data["intensity"][()][~use]).all())]
    wanted = factor / thickness * (average / through - empty)
    out["mean"] = [bool(numpy.nanmax(abs(whole["intensity"][()] - wanted)) < 1e-9 * scale),
                   near(whole["intensity_errors"][()], factor / thickness * numpy.hypot(average_sigma / through, sigma), 1e-9)]
    out["units"] = [data[signal].attrs.get("units") for signal in ("intensity", "intensity_errors")]
    out["members"] = sorted(set(entry) & {"absolute", "subtracted", "background"})
    out["process"] = {field: (value.decode() if isinstance(value, bytes) else float(value)) for field, value in
                      ((field, process[field][()]) for field in ("thickness", "calibration_factor", "calibration_factor_error", "transmission", "scale")
                       if field in process)}
print(json.dumps(out))
"#;

pub(super) const FLUX: [&str; 4] = ["--monitor", "monitor", "--monitor-reference", "1e6"];

/// Adds a diode behind the sample, with the transmissions of sample and background at a frame; 0.83
/// of its counts are those of the monitor.
pub(super) fn add_diode(
    master: &hdf5::File,
    sample: impl Fn(usize) -> f64,
    background: impl Fn(usize) -> f64,
) {
    let add = |scan: &str, transmission: &dyn Fn(usize) -> f64| {
        let counters = master.group(&format!("{scan}/measurement")).unwrap();
        let monitor = counters.dataset("monitor").unwrap().read_1d::<f64>().unwrap();
        let readings: Vec<f64> =
            monitor.iter().enumerate().map(|(frame, of)| 0.83 * transmission(frame) * of).collect();
        counters.new_dataset_builder().with_data(&readings).create("diode").unwrap();
    };
    add("1.1", &sample);
    add("2.1", &background);
}

/// A sample whose transmission varies, and that of frame 3 is unknown.
pub(super) fn scans(plan: &[&str], known: bool) -> Scans {
    let sample = move |frame: usize| match frame {
        3 if !known => 0.0,
        _ => 0.6 + 0.002 * frame as f64,
    };
    Scans::with_counters(plan, |master| {
        add_diode(master, sample, |frame| 0.9 + 0.001 * frame as f64)
    })
}

pub(super) fn gather(scans: &Scans, subtract: bool, flags: &[&str]) -> Outcome {
    let background = ["--subtract", &scans.finals[1]];
    let background: &[&str] = if subtract { &background } else { &[] };
    run("gather", &[&["--keep-sums"], background, flags].concat(), &scans.results[0])
}

#[test]
fn cross_sections_are_those_of_numpy_frame_by_frame_and_in_the_mean() {
    let scans = scans(&FLUX, false);
    let absolute = ["--thickness", "1.5mm", "--calibration-factor", "0.0123,0.0004"];
    let (counters, numbers) = ("diode/monitor/0.83", "0.62,0.95");
    let subtracted = "Intensity (counts at monitor = 1000000)";
    for (subtract, flags, options, title) in [
        (true, vec!["--transmission", counters], json!({}), "dΣ/dΩ (cm⁻¹)"),
        (
            true,
            vec!["--transmission", numbers],
            json!({"transmission": [0.62, 0.95]}),
            "dΣ/dΩ (cm⁻¹)",
        ),
        (
            true,
            vec!["--transmission", numbers, "--subtract-scale", "0.9"],
            json!({"transmission": [0.62, 0.95], "scale": 0.9}),
            "dΣ/dΩ (cm⁻¹)",
        ),
        (true, vec![], json!({"no_transmission": true}), "dΣ/dΩ (cm⁻¹)"),
        (false, vec!["--transmission", counters], json!({"no_background": true}), "dΣ/dΩ (cm⁻¹)"),
        (
            false,
            vec!["--transmission", "0.62"],
            json!({"no_background": true, "transmission": [0.62, 1.0]}),
            "dΣ/dΩ (cm⁻¹)",
        ),
        (true, vec!["--transmission", counters], json!({"relative": true}), subtracted),
    ] {
        let mut options = options;
        let is_absolute = options.get("relative").is_none();
        let mut all = flags.clone();
        if is_absolute {
            all.extend(absolute);
            options["thickness"] = json!(0.15);
            options["factor"] = json!(0.0123);
        }
        let gathered = gather(&scans, subtract, &all);
        let by_counter = flags.contains(&counters);
        // Frame 3 has no reading of the diode.
        assert_eq!(gathered.status, i32::from(by_counter), "{}", gathered.stderr);
        let warning = "1 frame (3) without a value of --transmission diode/monitor/0.83 above 0 and at most 1.05: they are NaN";
        assert_eq!(gathered.stderr.contains(warning), by_counter, "{}", gathered.stderr);
        let summary = gathered.records("summary").remove(0);
        let name = if is_absolute { "absolute" } else { "subtracted" };
        let path = summary[name].as_str().unwrap();
        assert_eq!(path, scans.finals[0].replace(".h5", &format!(".{name}.h5")));
        let script = [MEAN, ORACLE, LOOK].concat();
        let arguments = [path, &scans.finals[0], &scans.finals[1], &options.to_string()];
        let Some(seen) = run_script(&script, &arguments) else { return };
        let mut process = json!({});
        if is_absolute {
            process = json!({"thickness": 0.15, "calibration_factor": 0.0123, "calibration_factor_error": 0.0004});
        }
        if subtract {
            process["scale"] = json!(options.get("scale").map_or("1", |_| "0.9"));
        }
        if let [_, transmission, ..] = flags[..] {
            process["transmission"] = json!(transmission);
        }
        let mut members = vec![name];
        members.extend(subtract.then_some("background"));
        members.sort_unstable();
        let title = if is_absolute {
            title.to_owned()
        } else {
            format!("{title} / transmission - background")
        };
        let units = if is_absolute { json!(["1/cm", "1/cm"]) } else { json!([null, null]) };
        let expected = json!({
            "plot": [true, title, true],
            "patterns": true, "errors": true, "mean": [true, true],
            "gaps": [24 - i32::from(by_counter), true],
            "units": units, "members": members, "process": process,
        });
        assert_eq!(seen, expected, "{flags:?}");
    }
}

/// Prints what SasView's reader makes of a file, and how that compares with numpy.
const READ: &str = r#"
import logging
logging.disable(logging.WARNING)
from sasdata.dataloader.loader import Loader

export, final, background = sys.argv[1:]
mine, other = rows(final), rows(background)
empty, sigma, empty_through = mean_with_transmission(other, other["ok"])
with h5py.File(final) as file:
    averaged = file["1.1/pilatus_integrate/averaged"]
    averages, average_errors = averaged["intensity"][()], averaged["intensity_errors"][()]
out = []
for number, found in enumerate(Loader().load(export)):
    use = slice(10 * number, 10 * number + 10)
    average, average_sigma = averages[number], average_errors[number]
    _, _, through = mean_with_transmission(mine, numpy.arange(24)[use])
    wanted = 0.0123 / 0.15 * (average / through - empty / empty_through)
    errors = 0.0123 / 0.15 * numpy.hypot(average_sigma / through, sigma / empty_through)
    there = numpy.isfinite(wanted) & (errors > 0)
    sample = found.sample
    out.append({
        "same": [bool(len(found.y) == there.sum()), bool(abs(found.y - wanted[there]).max() < 1e-6 * wanted[there].max()),
                 near(found.dy, errors[there], 1e-6), bool(abs(found.x * 10 / mine["q"][there] - 1).max() < 1e-12)],
        "unit": found.y_unit, "errors": found.errors, "title": found.title.split(": ")[1],
        "thickness": [sample.thickness, sample.thickness_unit],
        "transmission": bool(abs(sample.transmission / through - 1) < 1e-12),
        "process": found.process[0].term[1],
    })
with h5py.File(export) as file:
    data = file["sasentry01/sasdata01"]
    factor = data[data["I"].attrs["scaling_factor"]]
    out.append([data["I"].attrs["units"], data["Idev"].attrs["units"], float(factor[()]), float(data[factor.attrs["uncertainties"]][()])])
    sample = file["sasentry01/sassample01"]
    out.append([sample.attrs["NX_class"], sample.attrs["canSAS_class"], sample["thickness"].attrs["units"], list(sample["transmission"].attrs)])
print(json.dumps(out, default=str))
"#;

#[test]
fn sasview_reads_cross_sections_with_thickness_and_transmission() {
    if python_with("sasdata").is_none() {
        return;
    }
    let scans = scans(&FLUX, true);
    let flags = [
        ["--transmission", "diode/monitor/0.83"],
        ["--thickness", "1500um"],
        ["--calibration-factor", "0.0123,0.000246"],
        ["--average", "mean,10"],
        ["--export", "nxcansas,dat,fxye,xye"],
    ];
    let gathered = gather(&scans, true, &flags.concat()).assert_success();
    let summary = gathered.records("summary").remove(0);
    let exports: Vec<String> = serde_json::from_value(summary["export"].clone()).unwrap();
    let find = |end: &str| exports.iter().find(|path| path.ends_with(end)).unwrap();
    let script = [MEAN, ORACLE, READ].concat();
    let export = find(".absolute.nxcansas.h5");
    let read = run_python(&script, [export, &scans.finals[0], &scans.finals[1]]).unwrap();
    let read: Vec<Value> = serde_json::from_slice(&read).unwrap();
    let (sets, file) = read.split_at(3);
    for (set, range) in sets.iter().zip(["10 frames", "10 frames", "4 frames"]) {
        assert_eq!(set["same"], json!([true, true, true, true]), "{set}");
        assert_eq!((&set["unit"], &set["errors"]), (&json!("cm^{-1}"), &json!([])));
        assert_eq!(set["thickness"], json!([1.5, "mm"]));
        assert_eq!(set["transmission"], json!(true));
        assert_eq!(set["process"], "calibration_factor = 0.0123 +- 0.000246");
        let title = set["title"].as_str().unwrap();
        let expected = format!("mean of {range} over transmission minus background, in 1/cm from ");
        assert!(title.starts_with(&expected), "{title}");
    }
    assert_eq!(file[0], json!(["1/cm", "1/cm", 1.0, 0.02]));
    assert_eq!(file[1], json!(["NXsample", "SASsample", "mm", []]));
    let dat = fs::read_to_string(find(".absolute_00020-00023.dat")).unwrap();
    let head = "# == mean of 4 frames over transmission minus background, in 1/cm, azpipe ";
    assert!(dat.starts_with(head), "{dat:.80}");
    let scale = "# thickness_cm: 0.15\n# calibration_factor: 0.0123\n# calibration_factor_error: 0.000246\n";
    assert!(dat.contains(scale), "{dat:.2000}");
    let names = ["_00000-00009.xye", ".absolute_00000-00009.xye", ".absolute_00010-00019.fxye"];
    for name in names {
        find(name);
    }
}

#[test]
fn units_and_transmissions_that_do_not_fit_are_refused_with_what_was_expected() {
    let scans = scans(&FLUX, true);
    let absolute = ["--thickness", "1.5mm", "--calibration-factor", "1"];
    let with = |flags: &[&'static str]| [&absolute[..], flags].concat();
    for (subtract, flags, why) in [
        (false, vec!["--thickness", "1.5mm"], "--calibration-factor"),
        (false, vec!["--calibration-factor", "1"], "--thickness"),
        (false, vec!["--thickness", "1.5", "--calibration-factor", "1"], "as in 1.5mm"),
        (
            false,
            vec!["--thickness", "1mm", "--calibration-factor", "0"],
            "expected a number above 0",
        ),
        (false, with(&["--merge", "both"]), "cannot be used with"),
        (false, with(&["--transmission", "1.2"]), "as in 0.62,0.95"),
        (false, vec!["--transmission", "0.5"], "expected --subtract or --thickness, too"),
        (false, with(&["--transmission", "0.5,0.9"]), "the second value is that of a background"),
        (true, with(&["--transmission", "0.5"]), "expected two numbers, of sample and background"),
        (true, with(&["--transmission", "0.5,0.9,0.3"]), "expected at most two values"),
        (
            true,
            vec!["--transmission", "diode/monitor/0.83", "--subtract-scale", "diode"],
            "as --subtract-scale",
        ),
        (true, with(&["--subtract-scale", "diode"]), "which scale the background only"),
        (true, vec!["--transmission", "beamstop"], "no counter or motor `beamstop`"),
        (true, vec!["--transmission", "diode"], "its transmission diode is up to 1"),
    ] {
        let refused = gather(&scans, subtract, &flags);
        assert_eq!(refused.status, 2, "{flags:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(why), "{flags:?}: {}", refused.stderr);
        assert!(refused.stdout.is_empty());
    }
    // What only the scan itself shows is a `fail` record, and the final file is there.
    let sum = with(&["--average", "sum", "--export", "csv"]);
    for (flags, why) in [
        (
            with(&["--transmission", "diode/monitor/0.4"]),
            "frames 0 to 23; expected at most 1: divide",
        ),
        (with(&["--transmission", "beamstop"]), "no counter or motor `beamstop`"),
        (
            vec!["--thickness", "0.01um", "--calibration-factor", "1e30"],
            "the intensities of frame 0 would be multiplied by 1e36",
        ),
        (with(&["--transmission", "1e-300"]), "expected 1e-25 to 1e25"),
        (sum, "a sum of frames has no absolute units; use --average mean"),
    ] {
        let refused = gather(&scans, false, &flags);
        assert_eq!(refused.status, 1, "{flags:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(why), "{flags:?}: {}", refused.stderr);
        assert_eq!(refused.records("summary").len(), 1);
    }
    let of_monitor = |name: &str, flags: &[&str]| {
        let tasks = scans.workspace.plan(name, flags);
        let first: String = tasks.split_inclusive('\n').take(1).collect();
        let results = run("ai-integrate", NO_ARGUMENTS, &first).assert_success().stdout;
        run("gather", &with(&["--transmission", "diode/monitor/0.83"]), &results)
    };
    let behind = ["--monitor", "diode", "--monitor-reference", "1e6"];
    let refused = of_monitor("behind", &behind);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    let why = "is divided by its monitor diode already";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    let warned = of_monitor("none", &[]).assert_success();
    assert!(warned.stderr.contains("is divided by no monitor"), "{}", warned.stderr);
    let by_mean = ["--monitor", "monitor", "--monitor-reference", "mean"];
    let tasks = scans.workspace.plan("by_mean", &by_mean);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let refused = run("gather", &absolute, &results);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    let why = "divided by its monitor relative to the mean of the scan";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
}

#[test]
fn cakes_and_incomplete_scans_have_cross_sections_too_and_no_file_of_others_is_replaced() {
    let scans = scans(&[&FLUX[..], &["--npt-azim", "4"]].concat(), true);
    let absolute = ["--thickness", "0.1cm", "--calibration-factor", "2"];
    let gathered = gather(&scans, false, &absolute).assert_success();
    let path = gathered.records("summary")[0]["absolute"].as_str().unwrap().to_owned();
    let read = |path: &str, name: &str| {
        let file = hdf5::File::open(path).unwrap();
        let dataset = file.dataset(name).unwrap();
        (dataset.shape(), dataset.read_raw::<f32>().unwrap())
    };
    let (shape, values) = read(&path, "entry/absolute/intensity");
    let (expected_shape, expected) =
        read(&scans.finals[0], "1.1/pilatus_integrate/integrated/intensity");
    assert_eq!((&shape, &shape[..]), (&expected_shape, &[24, 4, 300][..]));
    let pairs = values.iter().zip(&expected).filter(|(_, expected)| expected.is_finite());
    let mut bins = 0;
    for (value, expected) in pairs {
        assert!((value - 20.0 * expected).abs() <= 2e-7 * value.abs(), "{value} of {expected}");
        bins += 1;
    }
    assert!(bins > 2000, "{bins}");
    let as_background = run("gather", &["--subtract", &path], &scans.results[0]);
    assert_eq!(as_background.status, 2);
    let why = "not one of subtracted or absolute patterns";
    assert!(as_background.stderr.contains(why), "{}", as_background.stderr);
    // A rerun replaces the file; one of somebody else is kept.
    gather(&scans, false, &absolute).assert_success();
    fs::write(&path, "notes").unwrap();
    let refused = gather(&scans, false, &absolute);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
    // Of a scan with a frame that has no pattern, and in the virtual layout.
    fs::remove_file(&path).unwrap();
    let tasks = scans.workspace.plan("parts", &FLUX);
    let mut task: Value = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
    task["range"] = json!([[2, 24]]);
    let results = run("ai-integrate", NO_ARGUMENTS, &format!("{task}\n")).assert_success().stdout;
    let flags = [&["--layout", "virtual", "--export", "xye"], &absolute[..]].concat();
    let gathered = run("gather", &flags, &results);
    assert_eq!(gathered.status, 1, "two frames wait to be integrated: {}", gathered.stderr);
    let path = gathered.records("summary")[0]["absolute"].as_str().unwrap().to_owned();
    let (shape, values) = read(&path, "entry/absolute/intensity");
    assert_eq!(shape, [24, 300]);
    let is_absent: Vec<bool> =
        values.chunks(300).map(|row| row.iter().all(|v| v.is_nan())).collect();
    assert_eq!(is_absent.iter().position(|absent| !absent), Some(2));
    assert_eq!(is_absent.iter().filter(|absent| **absent).count(), 2);
}
