//! Several recipes in one pass on a device: the bytes are those of a run for each.

use serde_json::Value;

use super::driver;
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, npy, run, small_options};

/// In different units, by different splitting and masks, with and without errors, a dark and a
/// flat; and two that are not for devices.
const RECIPES: [(&str, &str); 8] = [
    ("pattern", "npt = 250\n"),
    ("cake", "npt = 40\nnpt-azim = 12\nunit = \"2th_deg\"\nsplit = \"full\"\n"),
    ("masked", "npt = 100\nsplit = \"no\"\nerror-model = \"no\"\nmask = \"DIRECTORY/mask.npy\"\n"),
    (
        "corrected",
        "npt = 90\ndummy = \"3,0.5\"\ndark = \"DIRECTORY/dark.npy\"\nflat = \"DIRECTORY/flat.npy\"\n",
    ),
    ("clipped", "npt = 70\nsigma-clip = 3\nerror-model = \"azimuthal\"\n"),
    (
        "spread",
        "npt = 60\nerror-model = \"azimuthal\"\ndark = \"DIRECTORY/dark.npy\"\nflat = \"DIRECTORY/flat.npy\"\n",
    ),
    ("median", "npt = 80\nmedian = [45, 55]\nsplit = \"no\"\n"),
    ("live", "npt = 85\ndead-time = \"100us\"\n"),
];

/// Writes an array of the frames' shape.
fn write_array(workspace: &Workspace, name: &str, value: impl Fn(usize) -> f64) {
    let shape: [usize; 2] = [195, 487];
    let pixels: Vec<u8> =
        (0..shape[0] * shape[1]).flat_map(|pixel| value(pixel).to_le_bytes()).collect();
    std::fs::write(workspace.path(name), npy("<f8", shape, &pixels)).expect("written");
}

/// Plans tasks by these recipes.
fn plan(workspace: &Workspace, out: &str, recipes: &[(&str, &str)], by: &str) -> Outcome {
    let mut all = ["--out", workspace.path(out).to_str().expect("UTF-8"), "--by", by]
        .map(str::to_owned)
        .to_vec();
    for (name, text) in recipes {
        let path = workspace.path(&format!("{name}.toml"));
        let text = text.replace("DIRECTORY", workspace.path("").to_str().expect("UTF-8"));
        std::fs::write(&path, format!("poni = {:?}\n{text}", workspace.data.poni))
            .expect("written");
        all.extend(["--recipe".to_owned(), path.display().to_string()]);
    }
    if let [(name, _)] = recipes {
        all.extend(["--recipe-name".to_owned(), (*name).to_owned()]);
    }
    run("plan-split", &all, &workspace.scans).assert_success()
}

fn gather_digests(results: &str) -> Vec<Value> {
    let gathered = run("gather", NO_ARGUMENTS, results).assert_success().records("summary");
    gathered.into_iter().map(|mut summary| summary["data_digest"].take()).collect()
}

#[test]
fn a_pass_of_several_recipes_gives_the_bytes_of_a_run_for_each_and_frames_are_sent_once() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    write_array(&workspace, "mask.npy", |pixel| f64::from(u8::from(pixel % 7 == 0)));
    write_array(&workspace, "dark.npy", |pixel| (pixel % 5) as f64 / 4.);
    write_array(&workspace, "flat.npy", |pixel| 1. + (pixel % 11) as f64 / 100.);
    let cache = workspace.path("kept");
    let integrate = |tasks: &Outcome, more: &[&str]| {
        let flags =
            ["--engine", "opencl", "--device", "0", "--cache", cache.to_str().expect("UTF-8")];
        driver::integrate(&[&flags, more].concat(), &tasks.stdout, &[]).assert_success()
    };
    let alone: Vec<Value> = RECIPES
        .iter()
        .flat_map(|recipe| {
            let tasks = plan(&workspace, "alone", std::slice::from_ref(recipe), "scan");
            gather_digests(&integrate(&tasks, &["--threads", "1"]).stdout)
        })
        .collect();
    let ways: [(&str, &[&str]); 3] = [
        ("scan", &["--threads", "1"]),
        ("frames=5", &["--threads", "2", "--batch-frames", "3", "--verify", "2"]),
        ("file", &["--threads", "1", "--engines", "2"]),
    ];
    for (number, (by, more)) in ways.into_iter().enumerate() {
        let ran = integrate(&plan(&workspace, &format!("out{number}"), &RECIPES, by), more);
        assert_eq!(gather_digests(&ran.stdout), alone, "--by {by} {more:?}");
        for why in ["no kernels for medians", "no kernels for counts that are corrected"] {
            assert_eq!(ran.stderr.matches(why).count(), 1, "{why}: {}", ran.stderr);
        }
        let results = ran.records("result");
        let sum = |name: &str| {
            results.iter().filter_map(|result| result[name].as_u64()).sum::<u64>() as f64
        };
        let ratio = sum("sent_bytes") / sum("read_bytes");
        assert!((1.0..1.1).contains(&ratio), "{ratio}: {}", ran.stdout);
        for result in &results {
            let file = result["final"].as_str().expect("a path");
            let is_of_cpu = file.ends_with("_median.h5") || file.ends_with("_live.h5");
            assert_eq!(result["engine"], if is_of_cpu { "cpu" } else { "opencl" }, "{result}");
            assert_eq!(result["sent_bytes"].as_u64().unwrap_or(0) == 0, is_of_cpu, "{result}");
        }
    }
}

#[test]
fn the_pixels_of_sparse_are_the_cpus_beside_recipes_on_a_device() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let recipes = [RECIPES[0], RECIPES[4]];
    let tasks = plan(&workspace, "out", &recipes, "scan").stdout;
    let flags = ["--sparse", "--force", "--threads", "1"];
    let device = ["--engine", "opencl", "--device", "0"];
    let ran = driver::integrate(&[&flags[..], &device].concat(), &tasks, &[]).assert_success();
    let why = "no kernels for the pixels that --sparse writes";
    assert_eq!(ran.stderr.matches(why).count(), 1, "{}", ran.stderr);
    let cpu = run("ai-integrate", &flags, &tasks).assert_success();
    let [of_device, of_cpu] = [ran, cpu].map(|ran| ran.records("result"));
    let is_clipped = |result: &&Value| {
        result["final"].as_str().is_some_and(|path| path.ends_with("_clipped.h5"))
    };
    let [one, other] = [&of_device, &of_cpu].map(|all| all.iter().find(is_clipped).expect("it"));
    assert_eq!((&one["engine"], &one["part_digest"]), (&other["engine"], &other["part_digest"]));
    assert!(of_device.iter().any(|result| result["engine"] == "opencl"), "{of_device:?}");
}
