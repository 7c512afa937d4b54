//! Files that are exported with a final: pictures, text files, averages.

use sample::Options;

use crate::support::{NO_ARGUMENTS, Workspace, files_below, run, small_options};

#[test]
fn each_final_has_its_picture_and_its_text() {
    let workspace = Workspace::new(&Options { scans: 2, ..small_options() });
    let results =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success().stdout;
    let picture = workspace.path("patterns.png");
    let arguments = ["--plot".as_ref(), picture.as_os_str(), "--export".as_ref(), "xye".as_ref()];
    let summaries = run("gather", &arguments, &results).assert_success().records("summary");
    assert_eq!(summaries.len(), 2);
    for (summary, scan) in summaries.iter().zip(["scan0001", "scan0002"]) {
        let name = format!("patterns_LaB6_0001_{scan}_pilatus.png");
        let plot = summary["plot"].as_str().unwrap();
        assert_eq!(plot, workspace.path(&name).to_str().unwrap());
        assert_eq!(&std::fs::read(plot).unwrap()[..4], b"\x89PNG");
        let text = std::fs::read_to_string(summary["export"][0].as_str().unwrap()).unwrap();
        let columns: Vec<usize> = text.lines().map(|line| line.split(' ').count()).collect();
        assert!(columns.len() > 250 && columns.iter().all(|columns| *columns == 3));
    }
    assert!(!picture.exists(), "it would be that of whichever scan came first");

    // All of them are known from the start.
    let root = workspace.path("out");
    let both = workspace.path("both.pdf");
    let flags = ["--from".as_ref(), root.as_os_str(), "--plot".as_ref(), picture.as_os_str()];
    let flags =
        [&flags[..], &["--plot-scans".as_ref(), both.as_os_str(), "--stack".as_ref()]].concat();
    let again = run("gather", &flags, "").assert_success().records("summary");
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|summary| summary["plot"] != picture.to_str().unwrap()));
    assert_eq!(&std::fs::read(both).unwrap()[..5], b"%PDF-");
    assert!(!picture.exists());
}

#[test]
fn a_picture_of_earlier_data_under_the_name_of_the_flag_is_told() {
    let workspace = Workspace::new(&Options { scans: 2, ..small_options() });
    for extension in ["png", "svg", "pdf"] {
        let picture = workspace.path(&format!("p.{extension}"));
        let flags = ["--keep-parts", "--plot", picture.to_str().unwrap()];
        let gather = |out: &str, scans: usize, plan: &[&str]| {
            let tasks: Vec<String> = workspace
                .plan(out, plan)
                .lines()
                .take(scans)
                .map(|line| format!("{line}\n"))
                .collect();
            let results =
                run("ai-integrate", NO_ARGUMENTS, &tasks.concat()).assert_success().stdout;
            run("gather", &flags, &results)
        };
        let out = format!("out_{extension}");
        let one = gather(&out, 1, &[]).assert_success();
        assert!(one.stderr.is_empty() && picture.exists(), "{}", one.stderr);
        // It shows a scan of this run, too.
        let both = gather(&out, 2, &[]).assert_success();
        assert_eq!(both.stderr, "", "{extension}");
        let other = gather(&out, 2, &["--unit", "2th_deg", "--replace"]).assert_success();
        let told = format!(
            "p.{extension}: is a picture from before this run, of other data; those of this run are "
        );
        assert!(other.stderr.contains(&told), "{}", other.stderr);
        assert!(picture.exists(), "it may be of use");
        std::fs::remove_file(&picture).unwrap();
        assert_eq!(
            gather(&out, 2, &["--unit", "2th_deg", "--replace"]).assert_success().stderr,
            ""
        );
    }
}

#[test]
fn a_page_tells_of_the_run_and_needs_nothing_else() {
    let workspace = Workspace::new(&Options { scans: 2, ..small_options() });
    let tasks = workspace.plan("out", &["--by", "frames=9"]);
    let all_but_one: Vec<&str> = tasks.lines().skip(1).collect();
    let results =
        run("ai-integrate", NO_ARGUMENTS, &(all_but_one.join("\n") + "\n")).assert_success().stdout;
    let page = workspace.path("run.html");
    let fail = "{\"type\":\"fail\",\"v\":1,\"id\":\"a\",\"stage\":\"plan-split\",\"about\":\"b.h5\",\"error\":\"no <frames>\",\"retryable\":false}\n";
    let gathered =
        run("gather", &["--report", page.to_str().unwrap()], &(fail.to_owned() + &results));
    assert_eq!(gathered.status, 1, "a part of a scan is missing");
    let html = std::fs::read_to_string(&page).unwrap();
    for expected in [
        "2 finals, 39 of 48 frames",
        "1 incomplete.",
        "not integrated</td><td>0 to 8",
        "frames/s",
        "plan-split: b.h5</code></td><td>no &lt;frames&gt;",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
    assert_eq!(html.matches("src=\"data:image/png;base64,").count(), 2, "a picture of each");
    let elsewhere =
        ["http:", "https:", "<script src", "fetch(", "<link", "@import", "url(", "src=\"/"];
    assert!(elsewhere.iter().all(|word| !html.contains(word)), "all of it is in the page");
    let Some(tags) = super::viewers::run_script(TAGS, &[page.to_str().unwrap()]) else { return };
    assert_eq!(tags, serde_json::json!([]), "every tag is closed, every link leads somewhere");

    let nowhere = run("gather", &["--report", "no/such/run.html"], "");
    assert_eq!(nowhere.status, 2);
    assert!(
        nowhere.stderr.contains("its directory does not exist: create it first"),
        "{}",
        nowhere.stderr
    );
}

/// A script that prints the errors in the markup of a page.
const TAGS: &str = r#"
import json, sys
from html.parser import HTMLParser

wrong, open_tags, ids, links = [], [], set(), []

class Check(HTMLParser):
    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        ids.add(attrs.get("id"))
        links.extend(value[1:] for name, value in attrs.items() if name == "href")
        if tag not in ("meta", "br", "img"):
            open_tags.append(tag)
    def handle_endtag(self, tag):
        if not open_tags or open_tags.pop() != tag:
            wrong.append(f"{tag} at {self.getpos()}")

text = open(sys.argv[1], encoding="utf-8").read()
Check().feed(text)
wrong += open_tags + [link for link in links if link not in ids]
wrong += [] if text.startswith("<!DOCTYPE html>") else ["doctype"]
print(json.dumps(wrong))
"#;

#[test]
fn what_could_only_fail_in_the_end_fails_at_once() {
    let workspace = Workspace::new(&small_options());
    let results =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success().stdout;
    let refused = run("gather", &["--plot", "patterns.gif"], &results);
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""));
    assert!(
        refused.stderr.contains("patterns.gif: expected a name that ends in .png, .svg or .pdf"),
        "{}",
        refused.stderr
    );
    assert_eq!(workspace.parts("out").len(), 1);
    assert_eq!(run("gather", &["--missing"], "").status, 2);
}

#[test]
fn an_average_that_comes_too_late_says_what_to_do() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--empty", "0"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    run("gather", NO_ARGUMENTS, &results).assert_success();
    let late = run("gather", &["--average", "mean"], &results);
    assert_eq!(late.status, 1);
    let error = late.records("fail")[0]["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("--average needs the sums of 24 frames") && error.contains("--force"),
        "{error}"
    );
    let again = run("ai-integrate", &["--force"], &tasks).assert_success().stdout;
    run("gather", &["--average", "mean"], &again).assert_success();
}

#[test]
fn an_export_that_comes_too_late_says_why_it_needs_sums() {
    let workspace = Workspace::new(&small_options());
    run(
        "gather",
        NO_ARGUMENTS,
        &run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--empty", "0"])).stdout,
    )
    .assert_success();
    let late =
        run("gather", &["--from", workspace.path("out").to_str().unwrap(), "--export", "xye"], "");
    assert_eq!(late.status, 1);
    let why = "the mean of all frames, which --export writes, needs the sums of 24 frames";
    assert!(late.stderr.contains(why), "{}", late.stderr);
}

#[test]
fn ranges_of_frames_are_exported_a_file_each() {
    let workspace = Workspace::new(&small_options());
    let results =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success().stdout;
    let summary = run("gather", &["--average", "median,10", "--export", "xye,fxye"], &results)
        .assert_success();
    let exports: Vec<String> =
        serde_json::from_value(summary.records("summary")[0]["export"].clone()).unwrap();
    let ends = ["00000-00009.xye", "00010-00019.xye", "00020-00023.xye"];
    assert_eq!(exports.len(), 6, "{exports:?}");
    for (export, end) in exports.iter().zip(ends) {
        assert!(
            export.ends_with(end) && std::fs::read_to_string(export).unwrap().lines().count() > 250,
            "{export}"
        );
    }
    assert!(exports[5].ends_with("00020-00023.fxye"), "{exports:?}");
    // What the average needs is still there: the patterns alone.
    run("gather", &["--average", "median"], &results).assert_success();

    let wrong = run("gather", &["--average", "mode"], "");
    assert_eq!(wrong.status, 2);
    assert!(wrong.stderr.contains("expected mean, sum or median"), "{}", wrong.stderr);
}

#[test]
fn kept_parts_and_kept_sums_stay() {
    let workspace = Workspace::new(&small_options());
    let results = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "file"]))
        .assert_success()
        .stdout;
    run("gather", &["--keep-parts"], &results).assert_success();
    assert_eq!(workspace.parts("out").len(), 4);
    run("gather", &["--keep-sums"], &results).assert_success();
    assert!(workspace.parts("out").is_empty());
    let average = run("gather", &["--average", "sum", "--export", "csv"], &results)
        .assert_success()
        .records("summary");
    assert!(
        std::fs::read_to_string(average[0]["export"][0].as_str().unwrap())
            .unwrap()
            .starts_with("q,intensity,error\n")
    );
}

#[test]
fn exports_of_earlier_data_are_named_when_the_final_is_renewed() {
    let workspace = Workspace::new(&small_options());
    let mut plan = workspace.plan("out", &["--by", "frames=12"]);
    let second = plan.split_off(plan.find('\n').expect("two tasks") + 1);
    let integrate = |tasks: &str| run("ai-integrate", NO_ARGUMENTS, tasks).stdout;
    let first = integrate(&plan);
    let formats = ["--keep-sums", "--export", "xye,nxazint"];
    let written = run("gather", &formats, &first);
    let exports = written.records("summary")[0]["export"].as_array().expect("exports").clone();
    let names: Vec<&str> = exports.iter().filter_map(|path| path.as_str()).collect();
    assert_eq!(names.len(), 2);
    let is_warned = |stderr: &str| stderr.contains("exports of the earlier data: ");

    let both = first + &integrate(&second);
    let renewed = run("gather", &["--keep-sums", "--export", "xye"], &both).assert_success();
    let (text, nexus) = match names[0].ends_with(".xye") {
        true => (names[0], names[1]),
        false => (names[1], names[0]),
    };
    let warning =
        renewed.stderr.lines().find(|line| is_warned(line)).expect("a warning").to_owned();
    assert!(warning.contains(nexus) && !warning.contains(text), "{warning}");
    // It is told until the file is written again.
    let out = workspace.path("out");
    for _ in 0..2 {
        let again = run("gather", &["--from", out.to_str().unwrap()], "").assert_success();
        assert_eq!(again.stderr.trim_end(), warning);
    }
    for flags in [&formats[..], &["--keep-sums"]] {
        let again = run("gather", flags, &both).assert_success();
        assert!(!is_warned(&again.stderr), "{}", again.stderr);
    }
    // What is not there can't be outdated.
    std::fs::remove_file(text).expect("an export");
    std::fs::remove_file(nexus).expect("an export");
    let other = workspace.plan("out", &["--replace", "--radial-range", "5,30"]);
    let replaced = run("gather", NO_ARGUMENTS, &integrate(&other)).assert_success();
    assert!(!is_warned(&replaced.stderr), "{}", replaced.stderr);

    // One that is written again with the text that it has is of the present data, too.
    let of_others = integrate(&other);
    run("gather", &["--export", "xye"], &of_others).assert_success();
    let former = integrate(&workspace.plan("out", &["--replace"]));
    assert!(is_warned(&run("gather", NO_ARGUMENTS, &former).assert_success().stderr));
    let others = integrate(&workspace.plan("out", &["--replace", "--radial-range", "5,30"]));
    run("gather", &["--export", "xye"], &others).assert_success();
    let last = run("gather", &["--from", out.to_str().unwrap()], "").assert_success();
    assert!(!is_warned(&last.stderr), "{}", last.stderr);
}

#[test]
fn formats_that_need_errors_are_warned_of_once_if_there_are_none() {
    let workspace = Workspace::new(&Options { scans: 2, ..small_options() });
    let gather = |out: &str, plan: &[&str]| {
        let tasks = workspace.plan(out, plan);
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        run("gather", &["--export", "xye,fxye,dat,csv"], &results).assert_success()
    };
    let has_errors = gather("with", &[]);
    assert!(!has_errors.stderr.contains("has no errors"), "{}", has_errors.stderr);
    let without = gather("without", &["--error-model", "no"]);
    assert_eq!(without.records("summary").len(), 2, "{}", without.stdout);
    let warnings: Vec<&str> =
        without.stderr.lines().filter(|line| line.contains("has no errors")).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("--export xye has two columns"), "{warnings:?}");
    assert!(warnings[1].contains("--export fxye has an error of 1 at each point"), "{warnings:?}");
}

#[test]
fn a_stored_recipe_that_cannot_be_read_is_told_and_one_that_was_removed_is_not() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &[]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let picture = workspace.path("p.svg");
    let curves = workspace.path("scans.svg");
    let flags = ["--export", "xye", "--plot", picture.to_str().unwrap(), "--plot-scans"];
    let flags = [&flags[..], &[curves.to_str().unwrap()]].concat();
    let warnings = || -> Vec<String> {
        let gathered = run("gather", &flags, &results).assert_success();
        gathered
            .stderr
            .lines()
            .filter(|line| line.contains("were moved"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(warnings(), [""; 0]);
    let files = files_below(&workspace.path("out/.azpipe"));
    let recipe = files.iter().find(|path| path.extension().is_some_and(|toml| toml == "toml"));
    let recipe = recipe.expect("the stored recipe");
    let text = std::fs::read_to_string(recipe).unwrap();
    let changed = text.replace("npt = ", "npt = 1");
    assert_ne!(changed, text);
    for damaged in [&changed, "damaged"] {
        std::fs::write(recipe, damaged).unwrap();
        let told = warnings();
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].contains(recipe.to_str().unwrap()), "{told:#?}");
    }
    std::fs::remove_file(recipe).unwrap();
    assert_eq!(warnings(), [""; 0]);
}
