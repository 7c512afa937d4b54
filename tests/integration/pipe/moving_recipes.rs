//! Recipes of a detector that moves beside others: one that can't be applied, many positions, and
//! backgrounds of another reference.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::poni_table::Positions;
use crate::support::run;

#[test]
fn a_recipe_that_can_not_be_applied_at_a_position_leaves_the_others_alone() {
    let positions = Positions::new(6);
    let out = positions.workspace.path("out");
    positions.table("table", &[(0, 2, 0), (3, 5, 1)]);
    let recipe = |name: &str, geometry: &str| {
        let path = positions.workspace.path(name);
        fs::write(&path, format!("{geometry}\nradial-range = [8, 30]\nnpt = 300\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let moving = recipe("moving.toml", "poni-table = 'table'");
    let fixed = recipe("fixed.toml", "poni = 'position 0.poni'");
    let flags = ["--recipe", &moving, "--recipe", &fixed, "--out", out.to_str().unwrap()];
    let planned = run("plan-split", &flags, &positions.workspace.scans).assert_success();
    let task = planned.records("task").remove(0);
    let digest = task["recipe_digest"].as_str().unwrap();
    let path = PathBuf::from(task["recipe"].as_str().unwrap());
    // A detector of another shape, as no plan has it.
    let mut wrong = recipe::Recipe::load(&path, digest).unwrap();
    assert_eq!(wrong.poni_table.len(), 2);
    let poni = &mut wrong.poni_table[1].poni;
    *poni = poni
        .lines()
        .map(|line| match line.starts_with("Detector: ") {
            true => "Detector: Pilatus6M\n".to_owned(),
            false if line.starts_with("Detector_config") => String::new(),
            false => format!("{line}\n"),
        })
        .collect();
    let name = |digest: &str| recipe::Recipe::file_name_for_digest(digest);
    fs::write(out.join(wrong.file_name()), wrong.to_toml()).unwrap();
    let tasks = planned.stdout.replace(digest, &wrong.digest());
    let tasks = tasks.replace(&name(digest), &name(&wrong.digest()));
    for is_rerun in [false, true] {
        let integrated = run("ai-integrate", &["--threads", "2"], &tasks);
        assert_eq!(integrated.status, 1, "{}", integrated.stderr);
        let fails = integrated.records("fail");
        assert_eq!(fails.len(), 1, "{}", integrated.stderr);
        let why = fails[0]["error"].as_str().unwrap();
        assert!(why.contains("Pilatus6M") && why.contains("for "), "{why}");
        let results = integrated.records("result");
        assert_eq!(results.len(), 1, "{}", integrated.stderr);
        let result = &results[0];
        assert_ne!(result["recipe_digest"], wrong.digest(), "{result}");
        assert_eq!(result["skipped"].as_bool().unwrap_or_default(), is_rerun, "{result}");
        assert!(result["missing"].as_array().is_none_or(Vec::is_empty), "{result}");
    }
}

#[test]
fn matrices_of_very_many_positions_are_not_kept_on_disk() {
    let positions = Positions::new(66);
    let text = fs::read_to_string(&positions.ponis[0]).unwrap();
    for frame in 0..66 {
        let poni = text.replace("Rot1: 0\n", &format!("Rot1: {:e}\n", f64::from(frame) * 1e-6));
        fs::write(positions.workspace.path(&format!("position {}.poni", frame + 10)), poni)
            .unwrap();
    }
    for (out, count, expected) in [("few", 64, 64), ("many", 65, 0)] {
        let lines: Vec<_> =
            (0..66).map(|frame| (frame, frame, 10 + (frame as usize).min(count - 1))).collect();
        let table = positions.table(out, &lines);
        let (summary, integrated) = positions.process(&format!("{out} out"), &table, &[]);
        assert_eq!(integrated.status, 0, "{}", integrated.stderr);
        assert_eq!(summary["integrated"], 66);
        let directory = positions.workspace.path(&format!("{out} out/.azpipe/matrix"));
        let matrices = fs::read_dir(directory).map_or(0, Iterator::count);
        assert_eq!(matrices, expected);
    }
}

#[test]
fn backgrounds_are_scaled_to_the_solid_angle_of_the_reference() {
    let positions = Positions::new(6);
    let near = positions.table("near table", &[(0, 2, 0), (3, 5, 1)]);
    let far = positions.table("far table", &[(0, 0, 1), (1, 5, 0)]);
    let tasks = positions.plan("far", &far, &["--radial-range", "8,30"]).assert_success().stdout;
    let sample = run("ai-integrate", &["--threads", "2"], &tasks).assert_success().stdout;
    let (moving, _) = positions.process("near", &near, &[]);
    let out = positions.path_of("fixed");
    let poni = positions.ponis[0].to_str().unwrap();
    let flags = ["--poni", poni, "--out", &out, "--npt", "300", "--radial-range", "8,30"];
    let tasks = run("plan-split", &flags, &positions.workspace.scans).assert_success().stdout;
    let results = run("ai-integrate", &["--threads", "2"], &tasks).assert_success().stdout;
    let fixed = run("gather", &["--average", "mean"], &results).records("summary").remove(0);
    let read = |path: &Value, name: &str| {
        let file = hdf5::File::open(path.as_str().unwrap()).unwrap();
        file.dataset(name).unwrap().read_raw::<f64>().unwrap()
    };
    // The reference of the sample is the far position, and that of both backgrounds the near one.
    for background in [&fixed, &moving] {
        let subtract = ["--subtract", background["final"].as_str().unwrap()];
        let gathered = run("gather", &[&subtract[..], &["--average", "mean"]].concat(), &sample);
        let summary = gathered.assert_success().records("summary").remove(0);
        let seen = &summary["subtracted"];
        let factors = read(seen, "entry/subtracted/factor");
        assert_eq!(factors.len(), 6);
        assert!(factors.iter().all(|factor| (factor * 1.25 * 1.25 - 1.0).abs() < 1e-12));
        let patterns = read(seen, "entry/subtracted/intensity");
        let rows = read(&summary["final"], "1.1/pilatus_integrate/integrated/intensity");
        let of_background = read(&background["final"], "1.1/pilatus_integrate/averaged/intensity");
        let own = read(seen, "entry/background/intensity");
        let mut compared = 0;
        for (bin, (pattern, row)) in patterns.iter().zip(&rows).enumerate() {
            let mean = of_background[bin % 300];
            assert!(own[bin % 300] == mean || mean.is_nan());
            let expected = row - mean / 1.25 / 1.25;
            if expected.is_finite() {
                assert!((pattern - expected).abs() < 1e-5 * row.abs().max(mean), "{bin}");
                compared += 1;
            }
        }
        assert!(compared > 1000, "{compared}");
    }
    // The final keeps the sums, with the weights of each frame, by which it has the same mean.
    let again = positions.plan("unaveraged", &near, &["--radial-range", "8,30"]).assert_success();
    let results = run("ai-integrate", &["--threads", "2"], &again.stdout).assert_success().stdout;
    let unaveraged =
        run("gather", &[""; 0], &results).assert_success().records("summary").remove(0);
    let means = [&moving, &unaveraged].map(|background| {
        let subtract = ["--subtract", background["final"].as_str().unwrap()];
        let gathered = run("gather", &subtract, &sample).assert_success();
        let subtracted = gathered.records("summary")[0]["subtracted"].clone();
        ["intensity", "intensity_errors"].map(|name| {
            let values = read(&subtracted, &format!("entry/background/{name}"));
            values.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        })
    });
    assert!(means[0] == means[1]);
}
