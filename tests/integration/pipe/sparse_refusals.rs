//! `ai-integrate --sparse` with recipes and frames that have no such pixels: only what can't be
//! written is refused, and everything else is integrated.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::sparse::{CLIP, Spots, digest, final_path};
use crate::support::{NO_ARGUMENTS, files_below, run, run_python};

/// Writes frames of 64-bit integers.
const WIDE: &str = r#"
import h5py, numpy, sys
with h5py.File(sys.argv[1], "w") as file:
    file["data"] = numpy.random.default_rng(1).poisson(8, (4, 150, 101)).astype("u8")
"#;

impl Spots {
    /// Plans with a recipe that clips and one that does not.
    fn plan_two(&self, raw: &str, out: &str) -> String {
        let (plain, clipped) = (self.path("plain.toml"), self.path("clipped.toml"));
        fs::write(&plain, "").unwrap();
        fs::write(&clipped, "sigma-clip = \"4\"\n").unwrap();
        let (plain, clipped) = (plain.to_str().unwrap(), clipped.to_str().unwrap());
        self.plan(raw, out, &["--recipe", clipped, "--recipe", plain, "--by", "frames=2"])
    }
}

/// Returns whether each final file of a run of gather has sparse pixels.
fn have_pixels(summaries: &[Value]) -> Vec<bool> {
    let path = |summary: &Value| summary["final"].as_str().unwrap().to_owned();
    summaries.iter().map(|summary| digest(Path::new(&path(summary))).is_object()).collect()
}

const NO_PIXELS: &str =
    "rejects no pixels, and its results have none: --sparse is for recipes with";

#[test]
fn a_recipe_without_clipping_is_integrated_with_one_warning() {
    let Some(spots) = Spots::new() else { return };
    let plain = spots.plan("u2", "plain", &["--by", "frames=3"]);
    let results = run("ai-integrate", &["--sparse"], &plain).assert_success();
    assert_eq!(results.stderr.matches(NO_PIXELS).count(), 1, "{}", results.stderr);
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert_eq!(digest(&final_path(&gathered)), Value::Null);
    // Of two recipes, one has pixels.
    let two = spots.plan_two("u2", "two");
    let results = run("ai-integrate", &["--sparse"], &two).assert_success();
    assert_eq!(results.stderr.matches(NO_PIXELS).count(), 1, "{}", results.stderr);
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert_eq!(have_pixels(&gathered.records("summary")), [true, false]);
    let again = run("ai-integrate", &["--sparse"], &two).assert_success();
    assert!(again.records("result").iter().all(|result| result["skipped"] == true));
}

#[test]
fn a_recipe_that_cant_be_read_leaves_the_other_one_alone() {
    let Some(spots) = Spots::new() else { return };
    let two = spots.plan_two("u2", "two");
    let is_clipped = |path: &Path| {
        path.extension().is_some_and(|name| name == "toml")
            && fs::read_to_string(path).unwrap().contains("sigma-clip")
    };
    let recipes = files_below(&spots.path("two"));
    let clipped: Vec<_> = recipes.into_iter().filter(|path| is_clipped(path)).collect();
    assert_eq!(clipped.len(), 1);
    fs::write(&clipped[0], "changed = 1\n").unwrap();
    let results = run("ai-integrate", &["--sparse"], &two);
    let (fails, done) = (results.records("fail"), results.records("result"));
    assert_eq!((results.status, fails.len(), done.len()), (1, 6, 6), "{}", results.stderr);
    assert!(!results.stderr.contains("no recipe rejects pixels"), "{}", results.stderr);
}

#[test]
fn only_recipes_that_clip_need_frames_whose_pixels_can_be_written() {
    let Some(spots) = Spots::new() else { return };
    run_python(WIDE, [spots.path("wide.h5")]).unwrap();
    let results = run("ai-integrate", &["--sparse"], &spots.plan_two("wide", "wide"));
    let (fails, done) = (results.records("fail"), results.records("result"));
    assert_eq!((results.status, fails.len(), done.len()), (1, 2, 2), "{}", results.stderr);
    let why = "--sparse: pixels of type u64; expected integers of at most 32 bits, f32 or f64";
    assert!(results.stderr.contains(why), "{}", results.stderr);
    let gathered = run("gather", &["--allow-missing"], &results.stdout);
    assert_eq!(have_pixels(&gathered.records("summary")), [false], "{}", gathered.stderr);
    // Before anything is built.
    assert!(!spots.path("tall").exists());
    let tall = spots.plan("u2", "tall", &CLIP);
    let changed = tall.replace("\"shape\":[150,101]", "\"shape\":[70000,101]");
    assert_ne!(changed, tall);
    let refused = run("ai-integrate", &["--sparse"], &changed);
    let why = "--sparse: frames of 70000 x 101 pixels; expected at most 65536 rows and columns";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    assert!(!spots.path("tall/.azpipe/parts").exists());
}
