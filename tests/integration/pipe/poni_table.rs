//! A PONI for each range of frames (`plan-split --poni-table`): the patterns and averages of pyFAI's
//! MultiGeometry, frames without a line, and what is refused.

use std::fs;
use std::path::PathBuf;

use sample::Options;
use serde_json::{Value, json};

use crate::support::{Outcome, Workspace, run, run_python, small_options};

/// A dataset, and PONI files at three positions.
pub(super) struct Positions {
    pub(super) workspace: Workspace,
    pub(super) ponis: Vec<PathBuf>,
}

/// Distance of each position relative to that of the sample, and first rotation.
const PLACES: [(f64, &str); 3] = [(1.0, "0"), (1.25, "0.1"), (1.0, "-0.05")];

const RANGE: [f64; 2] = [8.0, 30.0];

impl Positions {
    pub(super) fn new(frames: usize) -> Self {
        Self::with_scans(frames, 1)
    }

    fn with_scans(frames: usize, scans: usize) -> Self {
        let workspace = Workspace::new(&Options { frames, scans, ..small_options() });
        let text = fs::read_to_string(&workspace.data.poni).unwrap();
        let poni = |(number, (factor, rot1)): (usize, &(f64, &str))| {
            let moved = text.lines().map(|line| match line.split_once(": ") {
                Some(("Distance", value)) => {
                    format!("Distance: {}\n", value.parse::<f64>().unwrap() * factor)
                }
                Some(("Rot1", _)) => format!("Rot1: {rot1}\n"),
                _ => format!("{line}\n"),
            });
            let path = workspace.path(&format!("position {number}.poni"));
            fs::write(&path, moved.collect::<String>()).unwrap();
            path
        };
        let ponis = PLACES.iter().enumerate().map(poni).collect();
        Self { workspace, ponis }
    }

    /// Writes a table of first and last frames, and the number of a position.
    pub(super) fn table(&self, name: &str, lines: &[(u64, u64, usize)]) -> String {
        let line = |&(first, last, place): &(u64, u64, usize)| {
            format!("{first},{last} position {place}.poni\n")
        };
        let path = self.workspace.path(name);
        let text: String = lines.iter().map(line).collect();
        fs::write(&path, format!("# frames, geometry\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        self.workspace.path(name).to_str().unwrap().to_owned()
    }

    pub(super) fn plan(&self, out: &str, table: &str, flags: &[&str]) -> Outcome {
        let out = self.workspace.path(out);
        let always = ["--poni-table", table, "--out", out.to_str().unwrap(), "--npt", "300"];
        run("plan-split", &[&always[..], flags].concat(), &self.workspace.scans)
    }

    /// Runs the pipe, and returns the summary and the outcome of ai-integrate.
    pub(super) fn process(&self, out: &str, table: &str, flags: &[&str]) -> (Value, Outcome) {
        let flags = [&["--radial-range", "8,30"], flags].concat();
        let tasks = self.plan(out, table, &flags).assert_success().stdout;
        let integrated = run("ai-integrate", &["--threads", "2"], &tasks);
        let summary = run("gather", &["--average", "mean"], &integrated.stdout).records("summary");
        (summary.last().unwrap().clone(), integrated)
    }

    /// Compares a final with pyFAI, of frames at the positions of these numbers.
    fn compare(&self, summary: &Value, places: &[Option<usize>], more: Value) -> Option<Value> {
        let distance = distance_of(&self.ponis[0]);
        let ponis: Vec<Option<&PathBuf>> =
            places.iter().map(|place| place.map(|place| &self.ponis[place])).collect();
        let mut case = json!({
            "image": [self.workspace.data.master, "/1.1/instrument/pilatus/data"],
            "final": summary["final"], "range": RANGE, "npt": 300, "reference": distance, "ponis": ponis,
        });
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let seen = run_python(include_str!("positions.py"), [case.to_string()])?;
        Some(serde_json::from_slice(&seen).unwrap())
    }
}

fn distance_of(poni: &PathBuf) -> f64 {
    let text = fs::read_to_string(poni).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Distance: ")).unwrap();
    line.parse().unwrap()
}

/// Asserts that rows and average are pyFAI's.
fn assert_equal(seen: &Value, rows: u64) {
    assert_eq!((&seen["rows"], &seen["empty"]), (&rows.into(), &true.into()), "{seen}");
    assert!(seen["bins"].as_u64().unwrap() > 100 * rows, "{seen}");
    for (name, limit) in [("axis", 1e-9), ("intensity", 1e-6), ("sigma", 1e-6), ("average", 1e-6)] {
        assert!(seen[name].as_f64().unwrap() < limit, "{name}: {seen}");
    }
}

#[test]
fn rows_and_averages_are_what_multigeometry_makes_of_them() {
    let positions = Positions::new(8);
    let table = positions.table("table", &[(0, 2, 0), (3, 4, 1), (5, 5, 2), (6, 7, 1)]);
    let places = [0, 0, 0, 1, 1, 2, 1, 1].map(Some);
    let monitor = ["--monitor", "monitor", "--monitor-reference", "1000000"];
    let counted = json!({"monitor": "/1.1/measurement/monitor"});
    let uncorrected = ["--solid-angle", "off", "--polarization", "0.9"];
    let azimuthal = ["--split", "no", "--error-model", "azimuthal"];
    let cases: [(&str, &[&str], Value); 5] = [
        ("plain", &[], json!({})),
        ("monitor", &monitor, counted),
        ("unsplit", &["--split", "no"], json!({"split": "no"})),
        ("azimuthal", &azimuthal, json!({"split": "no", "error_model": "azimuthal"})),
        ("uncorrected", &uncorrected, json!({"reference": null, "polarization": 0.9})),
    ];
    for (out, flags, more) in cases {
        let (summary, integrated) = positions.process(out, &table, flags);
        assert_eq!(integrated.status, 0, "{}", integrated.stderr);
        assert_eq!(
            (&summary["integrated"], &summary["complete"], &summary["up_to_date"]),
            (&8.into(), &true.into(), &true.into()),
        );
        assert!(positions.workspace.parts(out).is_empty());
        let Some(seen) = positions.compare(&summary, &places, more) else { return };
        assert_equal(&seen, 8);
        if ["unsplit", "azimuthal"].contains(&out) {
            assert!(seen["average_sigma"].as_f64().unwrap() < 1e-3, "{seen}");
        }
    }
}

#[test]
fn frames_without_a_line_have_no_pattern_and_a_rerun_does_nothing() {
    let positions = Positions::new(8);
    let table = positions.table("table", &[(5, 6, 1), (1, 2, 0)]);
    let (summary, integrated) = positions.process("out", &table, &["--by", "frames=3"]);
    let reason = "geometry unknown: no line in the table of PONI files, or a motor without a value";
    assert_eq!(integrated.status, 1);
    assert!(
        integrated.stderr.contains(&format!("1 frame without a pattern: {reason}")),
        "{}",
        integrated.stderr
    );
    let lacking =
        json!([{"range": [[0, 4, 3], [4, 8, 3]], "kind": "no_geometry", "reason": reason}]);
    assert_eq!((&summary["missing"], &summary["integrated"]), (&lacking, &4.into()), "{summary}");
    assert_eq!((&summary["complete"], &summary["up_to_date"]), (&false.into(), &true.into()));
    let places = [None, Some(0), Some(0), None, None, Some(1), Some(1), None];
    // The reference is the first line by frames, which is the near position.
    if let Some(seen) = positions.compare(&summary, &places, json!({})) {
        assert_equal(&seen, 4);
        assert_eq!(seen["lacking"], json!([0, 3, 4, 7]));
    }
    let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
    let status = file.dataset("/1.1/pilatus_integrate/integrated/frame_status").unwrap();
    assert_eq!(status.read_raw::<u8>().unwrap(), [10, 0, 0, 10, 10, 0, 0, 10]);
    drop(file);
    let tasks = positions.plan("out", &table, &["--radial-range", "8,30"]).assert_success().stdout;
    let again = run("ai-integrate", &["--allow-missing"], &tasks).assert_success();
    let result = again.records("result").remove(0);
    assert_eq!((&result["skipped"], &result["read_bytes"]), (&true.into(), &0.into()));
    assert_eq!(result["missing"][0]["kind"], "no_geometry");
}

#[test]
fn any_cut_of_the_work_gives_the_same_bytes() {
    let positions = Positions::new(12);
    let table = positions.table("table", &[(0, 1, 0), (2, 6, 1), (7, 7, 0), (8, 10, 2)]);
    let ways: [(&str, &[&str]); 4] = [
        ("scan", &["--threads", "1"]),
        ("frames=1", &["--threads", "1", "--engines", "3"]),
        ("frames=5", &["--threads", "3", "--batch-frames", "2"]),
        ("file", &["--threads", "2", "--cache", "none"]),
    ];
    let mut digests = Vec::new();
    for (number, (by, integrate)) in ways.into_iter().enumerate() {
        let flags = ["--radial-range", "8,30", "--by", by, "--monitor", "monitor"];
        let tasks = positions.plan(&format!("out{number}"), &table, &flags).assert_success().stdout;
        let mut lines: Vec<&str> = tasks.lines().rev().collect();
        lines.sort_by_key(|line| line.len() % 3);
        let results = run("ai-integrate", integrate, &(lines.join("\n") + "\n"));
        let gathered = run("gather", &["--average", "mean,4"], &results.stdout);
        digests.push(gathered.records("summary").last().unwrap()["data_digest"].clone());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1);
    assert!(digests[0].is_string());
}

#[test]
fn another_table_or_poni_is_another_recipe_and_other_paths_are_not() {
    let positions = Positions::new(4);
    let digest = |out: &str, table: &str| {
        let tasks = positions.plan(out, table, &["--radial-range", "8,30"]).assert_success();
        tasks.records("task")[0]["recipe_digest"].clone()
    };
    let table = positions.table("table", &[(0, 1, 0), (2, 3, 1)]);
    let reference = digest("one", &table);
    let reordered = positions.table("other", &[(2, 3, 1), (0, 1, 0)]);
    assert_eq!(digest("two", &reordered), reference);
    assert_ne!(digest("three", &positions.table("third", &[(0, 0, 0), (1, 3, 1)])), reference);
    positions.process("one", &table, &[]);
    let third = positions.path_of("third");
    let refused = positions.plan("one", &third, &["--radial-range", "8,30"]);
    assert!(
        refused.stderr.contains("was planned with other settings (poni-table)"),
        "{}",
        refused.stderr
    );
    let far = fs::read_to_string(&positions.ponis[1]).unwrap();
    fs::write(&positions.ponis[1], format!("# moved\n{far}")).unwrap();
    assert_eq!(digest("four", &table), reference, "a comment");
    fs::write(&positions.ponis[1], far.replace("Rot1: 0.1", "Rot1: 0.11")).unwrap();
    assert_ne!(digest("five", &table), reference);
}

#[test]
fn merged_scans_and_several_recipes_are_multigeometrys_too() {
    let positions = Positions::new(6);
    let (out, scans) = (positions.workspace.path("out"), &positions.workspace.scans);
    // Two ranges of the azimuth, of which the merged pattern is that of the whole circle.
    let table = positions.table("table", &[(0, 2, 0), (3, 5, 1)]);
    let recipe = |name: &str, azimuth: &str| {
        let path = positions.workspace.path(name);
        let text = format!(
            "poni-table = 'table'\nradial-range = [8, 30]\nazimuth-range = {azimuth}\nsplit = 'no'\nnpt = 300\n"
        );
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let recipes = [recipe("upper.toml", "[0, 180]"), recipe("lower.toml", "[-180, 0]")];
    let flags = ["--recipe", &recipes[0], "--recipe", &recipes[1], "--out", out.to_str().unwrap()];
    let tasks = run("plan-split", &flags, scans).assert_success().stdout;
    assert_eq!(tasks.lines().count(), 1, "one task of both recipes");
    let results = run("ai-integrate", &["--threads", "2"], &tasks).assert_success().stdout;
    let merged = run("gather", &["--merge", "all", "--average", "mean"], &results);
    let merged = merged.assert_success().records("summary").pop().unwrap();
    let (whole, _) = positions.process("whole", &table, &["--split", "no"]);
    let read = |summary: &Value, process: &str, name: &str| {
        let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
        file.dataset(&format!("/1.1/{process}/{name}")).unwrap().read_raw::<f64>().unwrap()
    };
    for name in ["integrated/intensity", "averaged/intensity"] {
        let expected = read(&whole, "pilatus_integrate", name);
        let found = read(&merged, "all_integrate", name);
        assert_eq!(found.len(), expected.len());
        let worst = found.iter().zip(&expected).filter(|(_, expected)| !expected.is_nan());
        let worst = worst.map(|(one, two)| (one / two - 1.0).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-6, "{name}: {worst}");
    }
}

#[test]
fn scans_that_are_merged_are_one_multigeometry() {
    let positions = Positions::with_scans(4, 2);
    let table = positions.table("table", &[(0, 1, 0), (2, 2, 1), (3, 3, 2)]);
    let tasks = positions.plan("out", &table, &["--radial-range", "8,30"]).assert_success().stdout;
    let results = run("ai-integrate", &["--threads", "2"], &tasks).assert_success().stdout;
    run("gather", &[""; 0], &results).assert_success();
    let out = positions.workspace.path("out");
    let from = ["--from", out.to_str().unwrap(), "--merge-all", "both", "--average", "mean"];
    let late = run("gather", &from, "").assert_success().records("summary").pop().unwrap();
    let places = [0, 0, 1, 2, 0, 0, 1, 2].map(Some);
    let datasets = ["/1.1/instrument/pilatus/data", "/2.1/instrument/pilatus/data"];
    let image = json!([positions.workspace.data.master, datasets[0], datasets[1]]);
    let Some(seen) = positions.compare(&late, &places, json!({"image": image})) else { return };
    assert!(seen["average"].as_f64().unwrap() < 1e-6, "{seen}");
}

#[test]
fn averages_after_the_fact_have_the_weights_of_each_row() {
    let positions = Positions::new(6);
    let table = positions.table("table", &[(0, 2, 0), (3, 5, 1)]);
    let (first, _) = positions.process("at once", &table, &[]);
    let read = |summary: &Value, name: &str| {
        let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
        let group =
            file.group("/1.1/pilatus_integrate").or_else(|_| file.group("/1.1/both_integrate"));
        group.unwrap().dataset(name).unwrap().read_raw::<f64>().unwrap()
    };
    let expected = read(&first, "averaged/intensity");
    assert!(expected.iter().filter(|value| value.is_finite()).count() > 200);
    let close = |found: &[f64], expected: &[f64]| {
        let pairs = found.iter().zip(expected);
        pairs.clone().all(|(one, two)| one.is_nan() == two.is_nan())
            && pairs
                .filter(|(_, two)| !two.is_nan())
                .all(|(one, two)| (one / two - 1.0).abs() < 1e-6)
    };
    for layout in ["copy", "virtual", "integrator"] {
        let out = positions.workspace.path(layout);
        let flags = ["--radial-range", "8,30", "--by", "frames=2"];
        let tasks = positions.plan(layout, &table, &flags).assert_success().stdout;
        let results = run("ai-integrate", &["--threads", "1"], &tasks).assert_success().stdout;
        run("gather", &["--layout", layout], &results).assert_success();
        let from = ["--from", out.to_str().unwrap()];
        let late =
            run("gather", &[&from[..], &["--average", "mean"]].concat(), "").assert_success();
        let late = late.records("summary").pop().unwrap();
        assert!(close(&read(&late, "averaged/intensity"), &expected), "{layout}");
        // A median of frames has the frames' own weights, too.
        run("gather", &[&from[..], &["--average", "median,2"]].concat(), "").assert_success();
        let median = read(&late, "averaged/intensity");
        assert!(median.iter().filter(|value| value.is_finite()).count() > 600, "{layout}");
    }
    let out = positions.workspace.path("copy");
    let map = ["--from", out.to_str().unwrap(), "--map-range", "10,12"];
    let map = run("gather", &[&map[..], &["--map", "elapsed_time,rot"]].concat(), "");
    assert!(
        map.status != 0 && map.stderr.contains("the geometry differs between frames"),
        "{}",
        map.stderr
    );
}

#[test]
fn what_can_not_be_applied_to_several_positions_is_refused() {
    let positions = Positions::new(4);
    let table = positions.table("table", &[(0, 1, 0), (2, 3, 1)]);
    let refuse = |flags: &[&str]| {
        let refused = positions.plan("out", &table, flags);
        assert_eq!(refused.status, 2, "{flags:?}: {}", refused.stderr);
        refused.stderr
    };
    let range = ["--radial-range", "8,30"];
    let with_range = |flags: &[&str]| refuse(&[&range[..], flags].concat());
    assert!(
        refuse(&[])
            .contains("poni-table: set without radial-range; expected the range of all positions")
    );
    assert!(with_range(&["--npt-azim", "8"]).contains("poni-table: set together with npt-azim"));
    assert!(
        with_range(&["--sigma-clip", "4"]).contains("poni-table: set together with sigma-clip")
    );
    assert!(with_range(&["--median", "50"]).contains("poni-table: set together with median"));
    assert!(with_range(&["--mean", "unweighted"]).contains("set together with mean unweighted"));
    let poni = positions.ponis[0].to_str().unwrap();
    assert!(with_range(&["--poni", poni]).contains("poni-table: set together with poni"));
    let near = fs::read_to_string(&positions.ponis[0]).unwrap();
    let change = |from: &str, to: &str| {
        assert!(near.contains(from), "{near}");
        fs::write(&positions.ponis[1], near.replace(from, to)).unwrap();
        with_range(&[])
    };
    let wavelength = near.lines().find(|line| line.starts_with("Wavelength")).unwrap();
    let said = change(wavelength, "Wavelength: 2e-10");
    assert!(said.contains("position 1.poni: wavelength 2e-10 m; expected"), "{said}");
    let said = change("Detector: ", "Detector: Eiger4M\n# ");
    assert!(said.contains("position 1.poni: detector Eiger4M"), "{said}");
    fs::write(&positions.ponis[1], near.replace("Rot1: 0", "Rot1: 1.5")).unwrap();
    let said = positions.plan("out", &table, &range);
    assert!(said.stderr.contains("position 1.poni: binning: "), "{}", said.stderr);
    let picture = positions.workspace.path("a.png");
    fs::write(&positions.ponis[1], &near).unwrap();
    let said = with_preview(&positions, &table, picture.to_str().unwrap());
    assert!(said.contains("no preview: the geometry differs between frames"), "{said}");
}

fn with_preview(positions: &Positions, table: &str, picture: &str) -> String {
    positions.plan("out", table, &["--radial-range", "8,30", "--preview", picture]).stderr
}
