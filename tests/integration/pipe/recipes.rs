//! Several recipes in one pass over the frames: the bytes are those of a run for each.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::reruns::without_monitors;
use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, run, small_options, with_counter, without_counter,
};

/// A pattern, a cake and a sector, in different units, by different splitting, with and without
/// errors.
const RECIPES: [(&str, &str); 5] = [
    ("pattern", "npt = 250\n"),
    ("cake", "npt = 40\nnpt-azim = 12\nunit = \"2th_deg\"\nsplit = \"full\"\n"),
    ("sector", "npt = 100\nazimuth-range = [20, 60]\nsplit = \"no\"\nerror-model = \"no\"\n"),
    ("clipped", "npt = 80\nsigma-clip = 4\n"),
    ("odd", "npt = 90\ndummy = \"3,0.5\"\nmonitor = \"monitor\"\n"),
];

fn write_recipes(workspace: &Workspace) -> Vec<PathBuf> {
    let write = |(name, text): &(&str, &str)| {
        let path = workspace.path(&format!("{name}.toml"));
        std::fs::write(&path, format!("poni = {:?}\n{text}", workspace.data.poni)).unwrap();
        path
    };
    RECIPES.iter().map(write).collect()
}

/// plan-split with these recipes, and no more flags than told.
fn plan(workspace: &Workspace, out: &str, recipes: &[PathBuf], flags: &[&str]) -> Outcome {
    let mut all = vec!["--out".to_owned(), workspace.path(out).display().to_string()];
    all.extend(recipes.iter().flat_map(|path| ["--recipe".to_owned(), path.display().to_string()]));
    all.extend(flags.iter().map(|&flag| flag.to_owned()));
    run("plan-split", &all, &workspace.scans)
}

fn field_of_each<'a>(records: &'a [Value], name: &str) -> Vec<&'a str> {
    records.iter().map(|record| record[name].as_str().expect("a text")).collect()
}

#[test]
fn what_one_recipe_lacks_is_not_made_good_by_another() {
    let workspace = without_monitors();
    let recipes = write_recipes(&workspace);
    let [without, with_monitor] = [&recipes[0], &recipes[4]].map(Clone::clone);
    let both = plan(&workspace, "out", &[without, with_monitor], &["--by", "file"]);
    let both = both.assert_success().stdout;
    let first_alone = both.lines().map(|line| {
        let mut task: Value = serde_json::from_str(line).unwrap();
        task.as_object_mut().unwrap().remove("more").expect("two recipes");
        format!("{task}\n")
    });
    let all = format!("{both}{}", first_alone.collect::<String>());
    for engines in ["1", "2"] {
        let arguments = ["--threads", "1", "--engines", engines, "--progress", "json"];
        let ran = run("ai-integrate", &arguments, &all);
        let last: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
        assert_eq!((ran.status, &last["total"]), (1, &24.into()), "{}", ran.stderr);
    }
}

#[test]
fn a_pass_of_several_recipes_gives_the_bytes_of_a_run_for_each() {
    let workspace = Workspace::new(&small_options());
    let recipes = write_recipes(&workspace);
    let alone: Vec<String> = recipes
        .iter()
        .map(|recipe| {
            let tasks = plan(
                &workspace,
                "alone",
                std::slice::from_ref(recipe),
                &["--by", "scan", "--recipe-name", "x"],
            )
            .assert_success();
            let results =
                run("ai-integrate", &["--threads", "1", "--force"], &tasks.stdout).assert_success();
            let gathered =
                run("gather", NO_ARGUMENTS, &results.stdout).assert_success().records("summary");
            // Another recipe's final of this name is in the way.
            std::fs::remove_file(gathered[0]["final"].as_str().unwrap()).unwrap();
            gathered[0]["data_digest"].as_str().unwrap().to_owned()
        })
        .collect();
    for (number, (by, threads)) in
        [("scan", "1"), ("frames=5", "2"), ("file", "3")].into_iter().enumerate()
    {
        let tasks =
            plan(&workspace, &format!("out{number}"), &recipes, &["--by", by]).assert_success();
        let results = run("ai-integrate", &["--threads", threads], &tasks.stdout).assert_success();
        let count = tasks.records("task").len();
        assert_eq!(results.records("result").len(), count * recipes.len());
        let gathered =
            run("gather", NO_ARGUMENTS, &results.stdout).assert_success().records("summary");
        assert_eq!(field_of_each(&gathered, "data_digest"), alone, "--by {by} --threads {threads}");
        for (name, summary) in
            ["pattern", "cake", "sector", "clipped", "odd"].into_iter().zip(&gathered)
        {
            assert!(
                summary["final"].as_str().unwrap().ends_with(&format!("_{name}.h5")),
                "{summary}"
            );
        }
    }
}

#[test]
fn results_add_up_to_what_was_read_once() {
    let workspace = Workspace::new(&small_options());
    let recipes = write_recipes(&workspace);
    let one = run(
        "ai-integrate",
        NO_ARGUMENTS,
        &plan(&workspace, "one", &recipes[..1], &[]).assert_success().stdout,
    )
    .assert_success();
    let all = run(
        "ai-integrate",
        NO_ARGUMENTS,
        &plan(&workspace, "all", &recipes, &[]).assert_success().stdout,
    )
    .assert_success();
    let read = |ran: &Outcome| {
        ran.records("result")
            .iter()
            .map(|result| result["read_bytes"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(read(&all), read(&one));
    assert_eq!(all.records("result").len(), 5);
    assert!(all.records("result").iter().all(|result| result.get("more").is_none()));
}

#[test]
fn frames_are_integrated_for_the_recipes_that_lack_them_and_no_others() {
    let workspace = Workspace::new(&small_options());
    let recipes = write_recipes(&workspace);
    let [pattern, cake] = [&recipes[..1], &recipes[1..2]];
    let first = |tasks: Outcome, count: usize| {
        tasks
            .assert_success()
            .stdout
            .lines()
            .take(count)
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    // Frames 0 to 11 are there for the pattern, 0 to 5 for the cake.
    run(
        "ai-integrate",
        NO_ARGUMENTS,
        &first(
            plan(&workspace, "out", pattern, &["--by", "frames=6", "--recipe-name", "pattern"]),
            2,
        ),
    )
    .assert_success();
    run(
        "ai-integrate",
        NO_ARGUMENTS,
        &first(plan(&workspace, "out", cake, &["--by", "frames=6", "--recipe-name", "cake"]), 1),
    )
    .assert_success();
    let tasks = plan(&workspace, "out", &recipes[..2], &["--by", "scan"]).assert_success();

    let plan_file = workspace.path("plan.jsonl");
    std::fs::write(&plan_file, &tasks.stdout).unwrap();
    let missing = ["--plan".as_ref(), plan_file.as_os_str(), "--missing".as_ref()];
    let left = run("gather", &missing, "").assert_success().records("task");
    assert_eq!(
        (left.len(), &left[0]["range"], left[0]["more"].as_array().map(Vec::len)),
        (1, &json!([[6, 24]]), Some(1))
    );

    let rerun = run("ai-integrate", NO_ARGUMENTS, &tasks.stdout).assert_success();
    let parts: Vec<String> = workspace
        .parts("out")
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        parts.iter().filter(|name| *name == "00000012-00000023.h5").count(),
        1,
        "the pattern's: {parts:?}"
    );
    assert_eq!(
        parts.iter().filter(|name| *name == "00000006-00000023.h5").count(),
        1,
        "the cake's: {parts:?}"
    );
    assert!(rerun.records("result").iter().all(|result| result["done"] == json!([[0, 24]])));
    let gathered = run("gather", NO_ARGUMENTS, &rerun.stdout).assert_success().records("summary");
    let fresh = run(
        "ai-integrate",
        NO_ARGUMENTS,
        &plan(&workspace, "fresh", &recipes[..2], &["--by", "scan"]).assert_success().stdout,
    )
    .assert_success();
    let fresh = run("gather", NO_ARGUMENTS, &fresh.stdout).assert_success().records("summary");
    assert_eq!(field_of_each(&gathered, "data_digest"), field_of_each(&fresh, "data_digest"));

    // One of them is done: it is skipped, and the plan misses the other alone.
    std::fs::remove_file(gathered[1]["final"].as_str().unwrap()).unwrap();
    let left = run("gather", &missing, "").assert_success().records("task");
    assert_eq!(left[0].get("more"), None);
    assert_eq!(left[0]["final"], tasks.records("task")[0]["more"][0]["final"]);
    let again = run("ai-integrate", NO_ARGUMENTS, &tasks.stdout).assert_success().records("result");
    assert_eq!([&again[0]["skipped"], &again[1]["skipped"]], [true, false]);
    assert_eq!(again[0]["read_bytes"], 0);
}

#[test]
fn a_recipe_that_cannot_be_applied_leaves_the_others_alone() {
    let mut workspace = Workspace::new(&small_options());
    let mut recipes = write_recipes(&workspace);
    let bad = workspace.path("bad.toml");
    std::fs::write(&bad, format!("poni = {:?}\nmonitor = \"none_such\"\n", workspace.data.poni))
        .unwrap();
    recipes.insert(1, bad);
    let refused = plan(&workspace, "out", &recipes, &[]);
    assert_eq!((refused.status, refused.records("task").len()), (1, 0), "{}", refused.stderr);
    assert!(refused.stderr.contains("recipe bad: no counter `none_such`"), "{}", refused.stderr);
    // A plan that was made elsewhere.
    workspace.scans = with_counter(&workspace.scans, "none_such");
    let tasks = without_counter(
        &plan(&workspace, "out", &recipes, &[]).assert_success().stdout,
        "none_such",
    );
    let ran = run("ai-integrate", NO_ARGUMENTS, &tasks);
    assert_eq!(
        (ran.status, ran.records("fail").len(), ran.records("result").len()),
        (1, 1, 5),
        "{}",
        ran.stderr
    );
    let error = ran.records("fail")[0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("_bad.h5") && error.contains("none_such"), "{error}");
}

#[test]
fn flags_hold_for_all_recipes_and_names_must_tell_them_apart() {
    let workspace = Workspace::new(&small_options());
    let recipes = write_recipes(&workspace);
    let task =
        &plan(&workspace, "out", &recipes, &["--npt", "77"]).assert_success().records("task")[0];
    let files = std::iter::once(&task["recipe"])
        .chain(task["more"].as_array().unwrap().iter().map(|more| &more["recipe"]));
    for file in files {
        assert!(
            std::fs::read_to_string(file.as_str().unwrap()).unwrap().contains("npt = 77\n"),
            "{file}"
        );
    }
    let names =
        plan(&workspace, "out", &recipes[..2], &["--recipe-name", "b", "--recipe-name", "a"])
            .assert_success()
            .records("task");
    assert!(names[0]["final"].as_str().unwrap().ends_with("_b.h5"));
    assert!(names[0]["more"][0]["final"].as_str().unwrap().ends_with("_a.h5"));
    for (files, flags, why) in [
        (vec![recipes[0].clone(), recipes[0].clone()], &[][..], "two recipes are called `pattern`"),
        (
            vec![recipes[0].clone(), recipes[0].clone()],
            &["--recipe-name", "a", "--recipe-name", "b"],
            "have the same settings",
        ),
        (recipes[..2].to_vec(), &["--recipe-name", "a"], "--recipe-name: 1 name for 2 recipes"),
    ] {
        let refused = plan(&workspace, "out", &files, flags);
        assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}
