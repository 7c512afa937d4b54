//! A background that is subtracted from the patterns of a scan: against numpy, over the final files
//! and the sums.

use std::fs;

use serde_json::{Value, json};

use super::viewers::run_script;
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, open_hdf5_to_write, run, small_options};
use sample::Options;

/// The mean of frames of a final with sums, and its error, in numpy.
pub(super) const MEAN: &str = r#"
import numpy

def mean(of, use):
    # Counts are added, and have at least one photon in all frames together, not in each pixel of each.
    norm, count = of["norm"], of["count"]
    photon = of["norm_sq"] * count / norm**2
    signal, variance = of["signal"][use], of["variance"][use]
    counted = numpy.clip(numpy.maximum(signal * photon, variance - photon * count), 0, variance)
    counted = numpy.where(signal >= 16 * count, variance, counted)
    weight = norm * of["g"][use].sum()
    return signal.sum(0) / weight, numpy.sqrt(numpy.maximum(counted.sum(0), photon / len(signal))) / weight
"#;

/// The plot that silx finds, and how the patterns compare with those of both final files.
const LOOK: &str = r#"
import json, sys
import h5py, numpy
import silx.io
from silx.io.nxdata import get_default

subtracted, final, background, counters = sys.argv[1:]
with silx.io.open(subtracted) as file:
    plot = get_default(file)
    out = {"plot": [plot.is_valid, plot.signal_name, list(plot.signal.shape), plot.axes_names, plot.errors is not None]}

def rows(path):
    with h5py.File(path) as file:
        entry = file[file.attrs["default"]]
        data = entry[entry.attrs["default"]]
        process = data.parent
        found = {name: data[name][()].astype("f8") for name in ("intensity", "intensity_errors")}
        found["ok"] = data["frame_status"][()] == 0
        found["g"] = data["monitor"][()] / data["monitor"].attrs["reference"] if "monitor" in data else numpy.ones(len(found["ok"]))
        names = [name for name in counters.split("/") if name]
        found["k"] = numpy.ones(len(found["ok"]))
        for name, power in zip(names, (1, -1)):
            found["k"] *= process["counters/" + name][()] ** power
        for name in ("signal", "variance", "norm", "norm_sq", "count"):
            found[name] = data[name][()]
        return found

mine, other = rows(final), rows(background)
other["ok"] &= numpy.isfinite(other["k"]) & (other["k"] > 0)
empty, error = mean(other, other["ok"])
g = other["g"][other["ok"]]
unit = (g * other["k"][other["ok"]]).sum() / g.sum() if counters else 1.0
factor = mine["k"] / unit * float(1 if counters else sys.argv[4] or 1)
with h5py.File(subtracted) as file:
    entry = file["entry"]
    data, whole, what = entry["subtracted"], entry["mean"], entry["background"]
    there = mine["ok"] & numpy.isfinite(data["factor"][()])
    near = lambda one, two, most: bool(numpy.nanmax(abs(one / two - 1)) < most) and bool((numpy.isnan(one) == numpy.isnan(two)).all())
    scale = numpy.nanmax(abs(mine["intensity"]))
    expected = mine["intensity"] - factor[:, None] * empty
    out["patterns"] = bool(numpy.nanmax(abs(data["intensity"][()] - expected)[there]) < 3e-7 * scale)
    out["errors"] = near(data["intensity_errors"][()][there], numpy.hypot(mine["intensity_errors"], factor[:, None] * error)[there], 3e-7)
    out["gaps"] = bool(numpy.isnan(data["intensity"][()][~there]).all())
    out["factor"] = near(data["factor"][()][there], factor[there], 1e-12)
    use = there
    average, sigma = mean(mine, use)
    k = (mine["g"][use] * factor[use]).sum() / mine["g"][use].sum()
    out["mean"] = [bool(numpy.nanmax(abs(whole["intensity"][()] - (average - k * empty))) < 1e-9 * scale),
                   near(whole["intensity_errors"][()], numpy.hypot(sigma, k * error), 1e-9)]
    out["background"] = [near(what["intensity"][()], empty, 1e-12), near(what["intensity_errors"][()], error, 1e-12)]
    out["frames"] = int(there.sum())
    process = entry["process"]
    out["told"] = [process["scale"][()].decode(), process["background_file"][()].decode() == background, int(process["background_frames"][()])]
print(json.dumps(out))
"#;

/// Two scans that are integrated and gathered: a sample and its background.
pub(super) struct Scans {
    pub workspace: Workspace,
    pub results: [String; 2],
    pub finals: [String; 2],
}

impl Scans {
    /// The background's flux is twice the sample's.
    fn new(plan: &[&str]) -> Self {
        Self::with_counters(plan, |_| ())
    }

    /// Integrates such scans with counters that are added to the master file, of which scan `1.1` is
    /// the sample and `2.1` the background.
    pub fn with_counters(plan: &[&str], add: impl Fn(&hdf5::File)) -> Self {
        let mut workspace = Workspace::new(&Options { scans: 2, ..small_options() });
        let master = open_hdf5_to_write(&workspace.data.master);
        let monitor = master.dataset("2.1/measurement/monitor").unwrap();
        let doubled = monitor.read_1d::<f64>().unwrap().mapv(|reading| 2.0 * reading);
        monitor.write(&doubled).unwrap();
        add(&master);
        drop((monitor, master));
        workspace.find_scans();
        let results = integrate(&workspace, plan);
        let gather = |results: &String| {
            let gathered = run("gather", &["--keep-sums"], results).assert_success();
            gathered.records("summary")[0]["final"].as_str().unwrap().to_owned()
        };
        let finals = [gather(&results[0]), gather(&results[1])];
        Self { workspace, results, finals }
    }

    fn subtract(&self, flags: &[&str]) -> Outcome {
        let base = ["--keep-sums", "--subtract", &self.finals[1]];
        run("gather", &[&base[..], flags].concat(), &self.results[0])
    }

    /// Subtracts, and looks at the result. `counters` are those of the scale, or its number.
    fn look(&self, flags: &[&str], counters: &str) -> Option<(Value, Outcome)> {
        let gathered = self.subtract(flags);
        let summary = gathered.records("summary").remove(0);
        let path = summary["subtracted"].as_str().unwrap();
        assert_eq!(path, self.finals[0].replace(".h5", ".subtracted.h5"));
        Some((
            run_script(
                &[MEAN, LOOK].concat(),
                &[path, &self.finals[0], &self.finals[1], counters],
            )?,
            gathered,
        ))
    }
}

/// Integrates both scans, and returns the results of each.
fn integrate(workspace: &Workspace, plan: &[&str]) -> [String; 2] {
    let tasks = workspace.plan("out", plan);
    let done = run("ai-integrate", &["--keep-sums"], &tasks).assert_success().stdout;
    let mut results = [String::new(), String::new()];
    for line in done.split_inclusive('\n') {
        let record: Value = serde_json::from_str(line).unwrap();
        results[usize::from(record["entry"] == "2.1")] += line;
    }
    results
}

#[test]
fn patterns_of_which_an_earlier_background_was_subtracted_are_told() {
    let scans = Scans::new(&[]);
    let subtract = |sample: &str, flags: &[&str]| {
        let flags = [&["--keep-sums", "--subtract", &scans.finals[1]], flags].concat();
        let gathered = run("gather", &flags, sample).assert_success();
        assert!(!gathered.stderr.contains("earlier data of the background"), "{}", gathered.stderr);
        gathered.records("summary")[0].clone()
    };
    let absolute = ["--thickness", "1mm", "--calibration-factor", "1"];
    let subtracted = subtract(&scans.results[0], &[])["subtracted"].as_str().unwrap().to_owned();
    let absolute = subtract(&scans.results[0], &absolute)["absolute"].as_str().unwrap().to_owned();
    let change_background = |limit: &str| {
        let [sample, background] =
            integrate(&scans.workspace, &["--replace", "--valid-max", limit]);
        (sample, run("gather", &["--keep-sums"], &background).assert_success().stderr)
    };
    let told = |path: &str| {
        let background = fs::canonicalize(&scans.finals[1]).unwrap();
        format!("{path}: earlier data of the background {} were subtracted", background.display())
    };
    let (sample, said) = change_background("9");
    assert!(said.contains(&told(&subtracted)) && said.contains(&told(&absolute)), "{said}");
    // One is written again, and one can't be read.
    subtract(&sample, &[]);
    let bytes = fs::read(&absolute).unwrap();
    fs::write(&absolute, &bytes[..bytes.len() / 2]).unwrap();
    let (_, said) = change_background("8");
    assert!(said.contains(&told(&subtracted)) && !said.contains(&told(&absolute)), "{said}");
    assert!(said.contains(&absolute) && said.contains("can't tell whether"), "{said}");
    // What is gone is not told of.
    [subtracted, absolute].iter().for_each(|path| fs::remove_file(path).unwrap());
    let (_, said) = change_background("7");
    assert!(!said.contains("background"), "{said}");
}

#[test]
fn the_mean_of_a_background_is_subtracted_from_each_frame_and_from_their_mean() {
    let scans = Scans::new(&["--monitor", "monitor", "--monitor-reference", "1e6"]);
    for (flags, counters) in [
        (&[][..], ""),
        (&["--subtract-scale", "monitor"], "monitor"),
        (&["--subtract-scale", "monitor/elapsed_time"], "monitor/elapsed_time"),
    ] {
        let Some((seen, gathered)) = scans.look(flags, counters) else { return };
        let is_ratio = counters.contains('/');
        let frames = if is_ratio { 23 } else { 24 };
        assert_eq!(gathered.status, i32::from(is_ratio), "{}", gathered.stderr);
        // The first frame's time is 0, which no ratio has.
        assert_eq!(gathered.stderr.contains("1 frame (0) without a value"), is_ratio);
        let scale = if counters.is_empty() { "1" } else { counters };
        let title = "Intensity (counts at monitor = 1000000) - background";
        let expected = json!({
            "plot": [true, title, [24, 300], ["frame", "q (nm⁻¹)"], true],
            "patterns": true, "errors": true, "gaps": true, "factor": true,
            "mean": [true, true], "background": [true, true], "frames": frames,
            "told": [scale, true, frames],
        });
        assert_eq!(seen, expected, "{flags:?}");
    }
}

#[test]
fn a_background_of_a_number_of_times_itself_leaves_what_is_expected() {
    let scans = Scans::new(&[]);
    let base = ["--keep-sums", "--subtract", &scans.finals[0], "--subtract-scale", "1"];
    // The final file of the background gets none.
    let own = run("gather", &base, &scans.results[0]);
    assert_eq!(own.status, 1, "nothing is subtracted: {}", own.stderr);
    assert_eq!(own.records("summary")[0].get("subtracted"), None);
    // Of three times the background, twice as much is left over with the other sign.
    let copy = scans.workspace.path("empty.h5");
    fs::copy(&scans.finals[0], &copy).unwrap();
    let flags = ["--keep-sums", "--subtract", copy.to_str().unwrap(), "--subtract-scale", "3"];
    let gathered = run("gather", &flags, &scans.results[0]).assert_success();
    let summary = gathered.records("summary").remove(0);
    let file = hdf5::File::open(summary["subtracted"].as_str().unwrap()).unwrap();
    let read = |path: &str| file.dataset(path).unwrap().read_raw::<f64>().unwrap();
    let (mean, whole) = (read("entry/mean/intensity"), read("entry/background/intensity"));
    let mut bins = 0;
    for (mean, whole) in mean.iter().zip(&whole).filter(|(_, whole)| whole.is_finite()) {
        assert!((mean + 2.0 * whole).abs() <= 1e-12 * whole.abs(), "{mean} of {whole}");
        bins += 1;
    }
    assert!(bins > 200, "{bins}");
}

#[test]
fn backgrounds_that_do_not_fit_are_refused_with_what_was_expected() {
    let scans = Scans::new(&["--monitor", "monitor", "--monitor-reference", "mean"]);
    let empty = scans.finals[1].as_str();
    // Each scan is divided by its own mean: of unequal fluxes, the difference means nothing.
    let plan = |out: &str, flags: &[&str]| {
        let tasks = scans.workspace.plan(out, flags);
        let first: String = tasks.split_inclusive('\n').take(1).collect();
        run("ai-integrate", NO_ARGUMENTS, &first).assert_success().stdout
    };
    let monitor = "was integrated with monitor monitor, monitor-reference mean, and ";
    let cases = [
        (
            plan("bins", &["--radial-range", "8,30"]),
            "it has other bins; integrate both with the same",
        ),
        (plan("monitor", &[]), monitor),
        (
            plan("errors", &["--error-model", "no"]),
            "with error-model no, monitor none, monitor-reference none; integrate both with the same --error-model, \
             --monitor, --monitor-reference",
        ),
    ];
    for (results, why) in &cases {
        let refused = run("gather", &["--subtract", empty], results);
        assert_eq!(refused.status, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    let by_mean = scans.subtract(&[]);
    assert_eq!(by_mean.status, 1);
    assert!(
        by_mean.stderr.contains("the same number as --monitor-reference"),
        "{}",
        by_mean.stderr
    );
    let lacking = scans.subtract(&["--subtract-scale", "diode"]);
    assert_eq!(lacking.status, 2);
    assert!(lacking.stderr.contains("no counter or motor `diode`"), "{}", lacking.stderr);
    for (file, why) in [
        (scans.workspace.data.master.to_str().unwrap(), "not a final file of azpipe"),
        (scans.workspace.path("none.h5").to_str().unwrap(), "No such file"),
    ] {
        let refused = run("gather", &["--subtract", file], &scans.results[0]);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("--subtract: ") && refused.stderr.contains(why),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn exports_of_averages_are_written_with_and_without_the_background() {
    let scans = Scans::new(&["--monitor", "monitor", "--monitor-reference", "1e6"]);
    let flags =
        ["--subtract-scale", "0.5", "--average", "mean,10", "--export", "csv,dat,nxcansas,nxazint"];
    let gathered = scans.subtract(&flags).assert_success();
    let summary = gathered.records("summary").remove(0);
    let exports: Vec<String> = serde_json::from_value(summary["export"].clone()).unwrap();
    let names: Vec<&str> = exports.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
    let stem = "LaB6_0001_scan0001_pilatus";
    let ranges = ["00000-00009", "00010-00019", "00020-00023"];
    let texts = |end: &str| ranges.map(|range| format!("{stem}{end}_{range}"));
    let expected: Vec<String> = ["csv", "dat"]
        .into_iter()
        .flat_map(|format| {
            let all = texts("").into_iter().chain(texts(".subtracted"));
            all.map(move |name| format!("{name}.{format}")).collect::<Vec<_>>()
        })
        .chain(
            [".nxcansas.h5", ".subtracted.nxcansas.h5", ".nxs"].map(|end| format!("{stem}{end}")),
        )
        .collect();
    assert_eq!(names, expected);
    let read = |name: &str| -> Vec<Vec<f64>> {
        let path = exports.iter().find(|path| path.ends_with(name)).unwrap();
        let text = fs::read_to_string(path).unwrap();
        let row = |line: &str| line.split(',').map(|word| word.trim().parse().unwrap()).collect();
        text.lines().skip(1).map(row).collect()
    };
    let file = hdf5::File::open(summary["subtracted"].as_str().unwrap()).unwrap();
    let read_hdf5 = |name: &str| {
        file.dataset(&format!("entry/background/{name}")).unwrap().read_raw::<f64>().unwrap()
    };
    let (empty, sigma) = (read_hdf5("intensity"), read_hdf5("intensity_errors"));
    let mut bins = 0;
    for range in ranges {
        let whole = read(&format!("{stem}_{range}.csv"));
        let rest = read(&format!("{stem}.subtracted_{range}.csv"));
        for ((whole, rest), (empty, sigma)) in whole.iter().zip(&rest).zip(empty.iter().zip(&sigma))
        {
            if whole[1].is_nan() {
                continue;
            }
            assert_eq!(whole[0], rest[0]);
            assert!((whole[1] - 0.5 * empty - rest[1]).abs() < 1e-7 * whole[1].abs(), "{rest:?}");
            assert!((whole[2].hypot(0.5 * sigma) / rest[2] - 1.0).abs() < 1e-7, "{rest:?}");
            bins += 1;
        }
    }
    assert!(bins > 600, "{bins}");
    let dat = exports.iter().find(|path| path.contains(".subtracted_00020")).unwrap();
    let dat = fs::read_to_string(dat.replace(".csv", ".dat")).unwrap();
    assert!(dat.starts_with("# == mean of 4 frames minus background, azpipe "), "{dat:.60}");
}
