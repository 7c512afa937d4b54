//! Configurations that pyFAI's worker saved, given as recipes: the numbers of the worker.

use std::process::Command;

use serde_json::Value;

use super::corrections::numbers;
use crate::support::{NO_ARGUMENTS, python, run, source_file};

#[test]
fn what_a_worker_saved_gives_what_it_gave() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let said = Command::new(python)
        .arg(source_file("ai_integrate/workers.py"))
        .arg(folder)
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&said.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&said.stderr)));
    let scan = run("scan-find", &[format!("{}::/data", folder.join("frame.h5").display())], "")
        .assert_success()
        .stdout;
    for (name, peer) in said.as_object().unwrap() {
        let (recipe, out) = (folder.join(format!("{name}.json")), folder.join(name));
        let flags = ["--recipe", recipe.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let tasks = run("plan-split", &flags, &scan).assert_success().stdout;
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        let summary =
            run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
        let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
        let group = file
            .group(&format!("/1.1/{}_integrate/integrated", summary["detector"].as_str().unwrap()))
            .unwrap();
        let read = |name: &str| group.dataset(name).unwrap().read_raw::<f64>().unwrap();
        let axis = ["q", "2th", "r"].into_iter().find(|name| group.link_exists(name)).unwrap();
        let radial = read(axis);
        let off = |found: &[f64], expected: &[f64]| {
            let largest = expected.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
            found
                .iter()
                .zip(expected)
                .map(|(one, two)| (one - two).abs() / largest)
                .fold(0.0, f64::max)
        };
        assert!(off(&radial, &numbers(&peer["radial"])) < 1e-9, "{name}: {axis}");
        if !peer["chi"].is_null() {
            assert!(off(&read("chi"), &numbers(&peer["chi"])) < 1e-9, "{name}: chi");
        }
        let (intensity, count) = (read("intensity"), numbers(&peer["count"]));
        let expected = numbers(&peer["intensity"]);
        assert_eq!(intensity.len(), expected.len(), "{name}");
        let sigma =
            (!peer["sigma"].is_null()).then(|| (read("intensity_errors"), numbers(&peer["sigma"])));
        assert_eq!(sigma.is_some(), group.link_exists("intensity_errors"), "{name}");
        let mut compared = 0;
        for bin in 0..intensity.len() {
            // What lies beyond a range is in pyFAI's first and last bin.
            let at_end = name == "ranges" && [0, intensity.len() - 1].contains(&bin);
            if count[bin] == 0.0 || at_end {
                assert!(at_end || intensity[bin].is_nan(), "{name}, bin {bin}");
                continue;
            }
            let close =
                |found: f64, expected: f64| (found - expected).abs() <= 1e-6 * expected.abs();
            assert!(
                close(intensity[bin], expected[bin]),
                "{name}, bin {bin}: {} {}",
                intensity[bin],
                expected[bin]
            );
            if let Some((found, expected)) = &sigma {
                assert!(
                    close(found[bin], expected[bin]),
                    "{name}, bin {bin}: error {} {}",
                    found[bin],
                    expected[bin]
                );
            }
            compared += 1;
        }
        assert!(compared >= 100, "{name}: {compared} bins");
    }
}
