//! Several recipes in one pass on a device: the bytes are those of a run for each.

use serde_json::Value;

use crate::driver;
use crate::site::{NOTHING, Ran, Site, run, small};

/// In different units, by different splitting and masks, with and without errors, a dark and a flat; and one that is not for devices.
const RECIPES: [(&str, &str); 6] = [
    ("pattern", "npt = 250\n"),
    ("cake", "npt = 40\nnpt-azim = 12\nunit = \"2th_deg\"\nsplit = \"full\"\n"),
    ("masked", "npt = 100\nsplit = \"no\"\nerror-model = \"no\"\nmask = \"DIRECTORY/mask.npy\"\n"),
    ("corrected", "npt = 90\ndummy = \"3,0.5\"\ndark = \"DIRECTORY/dark.npy\"\nflat = \"DIRECTORY/flat.npy\"\n"),
    ("clipped", "npt = 70\nsigma-clip = 3\nerror-model = \"azimuthal\"\n"),
    ("median", "npt = 80\nmedian = [45, 55]\nsplit = \"no\"\n"),
];

/// An array of the frames' shape as numpy writes it.
fn npy(site: &Site, name: &str, value: impl Fn(usize) -> f64) {
    let [rows, columns] = [195, 487];
    let head = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let head = format!("{head:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(head.as_bytes());
    bytes.extend((0..rows * columns).flat_map(|pixel| value(pixel).to_le_bytes()));
    std::fs::write(site.path(name), bytes).expect("written");
}

/// The tasks of these recipes.
fn plan(site: &Site, out: &str, recipes: &[(&str, &str)], by: &str) -> Ran {
    let mut all = ["--out", site.path(out).to_str().expect("UTF-8"), "--by", by].map(str::to_owned).to_vec();
    for (name, text) in recipes {
        let path = site.path(&format!("{name}.toml"));
        let text = text.replace("DIRECTORY", site.path("").to_str().expect("UTF-8"));
        std::fs::write(&path, format!("poni = {:?}\n{text}", site.data.poni)).expect("written");
        all.extend(["--recipe".to_owned(), path.display().to_string()]);
    }
    if let [(name, _)] = recipes {
        all.extend(["--recipe-name".to_owned(), (*name).to_owned()]);
    }
    run("plan-split", &all, &site.scans).good()
}

fn digests(results: &str) -> Vec<Value> {
    let gathered = run("gather", NOTHING, results).good().records("summary");
    gathered.into_iter().map(|mut summary| summary["data_digest"].take()).collect()
}

#[test]
fn a_pass_of_several_recipes_gives_the_bytes_of_a_run_for_each_and_frames_are_sent_once() {
    if !driver::is_there() {
        return;
    }
    let site = Site::new(&small());
    npy(&site, "mask.npy", |pixel| f64::from(u8::from(pixel % 7 == 0)));
    npy(&site, "dark.npy", |pixel| (pixel % 5) as f64 / 4.);
    npy(&site, "flat.npy", |pixel| 1. + (pixel % 11) as f64 / 100.);
    let cache = site.path("kept");
    let integrate = |tasks: &Ran, more: &[&str]| {
        let flags = ["--engine", "opencl", "--device", "0", "--cache", cache.to_str().expect("UTF-8")];
        driver::integrate(&[&flags, more].concat(), &tasks.stdout, &[]).good()
    };
    let alone: Vec<Value> = RECIPES
        .iter()
        .flat_map(|recipe| {
            let tasks = plan(&site, "alone", std::slice::from_ref(recipe), "scan");
            digests(&integrate(&tasks, &["--threads", "1"]).stdout)
        })
        .collect();
    let ways: [(&str, &[&str]); 3] = [
        ("scan", &["--threads", "1"]),
        ("frames=5", &["--threads", "2", "--batch-frames", "3", "--verify", "2"]),
        ("file", &["--threads", "1", "--engines", "2"]),
    ];
    for (number, (by, more)) in ways.into_iter().enumerate() {
        let ran = integrate(&plan(&site, &format!("out{number}"), &RECIPES, by), more);
        assert_eq!(digests(&ran.stdout), alone, "--by {by} {more:?}");
        assert_eq!(ran.stderr.matches("not made for medians").count(), 1, "{}", ran.stderr);
        let results = ran.records("result");
        let sum = |name: &str| results.iter().filter_map(|result| result[name].as_u64()).sum::<u64>() as f64;
        let ratio = sum("sent_bytes") / sum("read_bytes");
        assert!((1.0..1.1).contains(&ratio), "{ratio}: {}", ran.stdout);
        for result in &results {
            let file = result["final"].as_str().expect("a path");
            let is_median = file.ends_with("_median.h5");
            assert_eq!(result["engine"], if is_median { "cpu" } else { "opencl" }, "{result}");
            assert_eq!(result["sent_bytes"].as_u64().unwrap_or(0) == 0, is_median, "{result}");
        }
    }
}
