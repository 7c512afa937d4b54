//! Values that mean "no measurement": the images of each recipe leave out its own, whatever recipes
//! the statistics were made with.

use std::fs;

use serde_json::json;

use super::pixel_statistics::{digests, gather_images};
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, files_below, run, small_options};

/// Plans the scan for recipes whose dummy value is in their name.
fn plan(workspace: &Workspace, out: &str, dummies: &[&str], more: &[&str]) -> String {
    let recipe = |dummy: &&str| {
        let path = workspace.path(&format!("{dummy}.toml"));
        fs::write(&path, format!("dummy = \"{dummy}\"\n")).unwrap();
        ["--recipe".to_owned(), path.to_str().unwrap().to_owned()]
    };
    let recipes: Vec<String> = dummies.iter().flat_map(recipe).collect();
    let mut flags: Vec<&str> = recipes.iter().map(String::as_str).collect();
    if let [only] = dummies {
        flags.extend(["--recipe-name", only]);
    }
    workspace.plan(out, &[&flags, more].concat())
}

fn with_statistics(tasks: &str) -> Outcome {
    run("ai-integrate", &["--pixel-stats"], tasks).assert_success()
}

#[test]
fn recipes_of_one_task_each_have_statistics_by_their_own_rule() {
    let workspace = Workspace::new(&small_options());
    let alone = |dummy: &str| {
        let results = with_statistics(&plan(&workspace, dummy, &[dummy], &["--by", "frames=5"]));
        digests(&gather_images(&results.stdout).assert_success())
    };
    let Some(expected) = ["auto", "7", "none"].map(alone).into_iter().collect::<Option<Vec<_>>>()
    else {
        return;
    };
    assert_ne!(expected[0]["mean"], expected[1]["mean"]);
    let compare = |results: &Outcome| {
        let gathered = gather_images(&results.stdout).assert_success();
        for summary in gathered.records("summary") {
            let images = summary["pixel_images"].as_str().unwrap();
            let index = ["_auto.", "_7.", "_none."].iter().position(|name| images.contains(name));
            let one = Outcome { stdout: format!("{summary}\n"), ..gathered.clone() };
            assert_eq!(digests(&one).unwrap(), expected[index.unwrap()], "{images}");
        }
        assert_eq!(gathered.records("summary").len(), 3);
    };
    let dummies = ["auto", "7", "none"];
    compare(&with_statistics(&plan(&workspace, "all", &dummies, &["--by", "frames=7"])));
    // Some frames have the statistics of one recipe; the others are added, whatever the order.
    let first = plan(&workspace, "some", &["7"], &["--by", "frames=10"]);
    with_statistics(&first.lines().take(1).map(|task| format!("{task}\n")).collect::<String>());
    let results = with_statistics(&plan(&workspace, "some", &dummies, &["--by", "frames=6"]));
    compare(&results);
    let before = files_below(&workspace.path("some/.azpipe/pixels"));
    with_statistics(&plan(&workspace, "some", &["none", "7", "auto"], &["--by", "frames=9"]));
    assert_eq!(files_below(&workspace.path("some/.azpipe/pixels")), before);
}

#[test]
fn images_are_not_made_of_statistics_by_the_rule_of_another_recipe() {
    let workspace = Workspace::new(&small_options());
    let images = |tasks: &str, flags: &[&str]| {
        gather_images(&run("ai-integrate", flags, tasks).assert_success().stdout)
    };
    images(&workspace.plan("out", &["--dummy=none"]), &["--pixel-stats"]).assert_success();
    let other = workspace.plan("out", &["--dummy=7,1", "--replace"]);
    let refused = images(&other, &[]);
    assert_eq!(refused.status, 1);
    let why = "the pixel statistics of its scan leave out these values: none; its recipe leaves out: 6 to 8; run ai-integrate \
               --pixel-stats with the tasks of this recipe";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    assert_eq!(refused.records("summary")[0]["pixel_images"], json!(null));
    images(&other, &["--pixel-stats"]).assert_success();
}

#[test]
fn real_numbers_have_no_statistics_and_patterns_all_the_same() {
    let workspace =
        Workspace::new(&sample::Options { dtype: sample::Dtype::F32, ..small_options() });
    let tasks = plan(&workspace, "out", &["auto", "7"], &[]);
    let results = run("ai-integrate", &["--pixel-stats"], &tasks);
    assert_eq!(results.status, 1);
    let why = "no pixel statistics: the pixels are f32; expected integers of at most 32 bits";
    assert_eq!(results.stderr.matches(why).count(), 1, "{}", results.stderr);
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout);
    assert_eq!(gathered.records("summary")[0]["complete"], true);
    let refused = gather_images(&results.stdout);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
}
