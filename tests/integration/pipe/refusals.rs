//! Bad input: a clear line that names what, where, and what was expected.

use std::path::{Path, PathBuf};

use sample::Options;

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, run, small_options};

/// One line on stderr that holds all of these, and this status.
fn assert_one_message(ran: &Outcome, status: i32, words: &[&str]) {
    assert_eq!(ran.status, status, "{}", ran.stderr);
    let line = ran.stderr.lines().next().expect("a message");
    assert!(words.iter().all(|word| line.contains(word)), "{words:?} in: {line}");
}

fn plan(workspace: &Workspace, flags: &[&str]) -> Outcome {
    let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path("out"));
    let mut all = vec!["--poni", poni, "--out", out.to_str().unwrap()];
    all.extend(flags);
    run("plan-split", &all, &workspace.scans)
}

#[test]
fn recipes() {
    let workspace = Workspace::new(&small_options());
    let recipe = workspace.path("recipe.toml");
    let name = recipe.to_str().unwrap();
    std::fs::write(&recipe, "npt = 100\nazimut-range = [0, 90]").unwrap();
    assert_one_message(
        &plan(&workspace, &["--recipe", name]),
        2,
        &["recipe.toml", "azimut-range", "did you mean `azimuth-range`"],
    );
    std::fs::write(&recipe, "npt = ").unwrap();
    assert_one_message(&plan(&workspace, &["--recipe", name]), 2, &["recipe.toml"]);
    assert_one_message(
        &plan(&workspace, &["--recipe", "/proc/nowhere/r.toml"]),
        2,
        &["/proc/nowhere/r.toml", "No such file"],
    );
    assert_one_message(&plan(&workspace, &["--unit", "q_mm"]), 2, &["unit", "q_mm", "q_nm^-1"]);
    assert_one_message(
        &plan(&workspace, &["--radial-range", "3,1"]),
        2,
        &["radial-range", "3,1", "lower first"],
    );
    assert_one_message(
        &plan(&workspace, &["--mask", "/proc/nowhere/mask.edf"]),
        2,
        &["/proc/nowhere/mask.edf", "No such file"],
    );
    assert_one_message(
        &plan(&workspace, &["--valid-max", "-1"]),
        2,
        &["valid-max: -1: expected at least 0"],
    );
    let detector = plan(&workspace, &["--poni-detector", "Eigr4M"]);
    assert_one_message(
        &detector,
        2,
        &["plan-split: poni-detector: unknown detector", "did you mean"],
    );
    assert_one_message(
        &plan(&workspace, &["--poni-detector", " "]),
        2,
        &["poni-detector: unknown detector \"\"; expected a name that pyFAI knows"],
    );
    assert_one_message(
        &plan(&workspace, &["--roi=-1,0"]),
        2,
        &["expected a row and a column, whole numbers from 0 on"],
    );
    assert_one_message(
        &plan(&workspace, &["--radial-edges", "0.5,1,"]),
        2,
        &["'0.5,1,'", "expected numbers separated by commas"],
    );
    assert_one_message(
        &plan(&workspace, &["--sensor", "CdTe,1e308m"]),
        2,
        &["CdTe,1e308m", "1e-9 to 1 m"],
    );
    std::fs::write(&recipe, "npt = 0").unwrap();
    assert_one_message(
        &plan(&workspace, &["--recipe", name]),
        2,
        &["recipe.toml: npt: 0: expected"],
    );
    let by_flag = plan(&workspace, &["--recipe", name, "--npt", "2000000"]);
    assert_one_message(&by_flag, 2, &["npt: 2000000: expected"]);
    assert!(
        !by_flag.stderr.contains("recipe.toml"),
        "the flag is wrong, not the file: {}",
        by_flag.stderr
    );
}

#[test]
fn a_poni_whose_lengths_are_in_no_metres_is_refused() {
    let workspace = Workspace::new(&small_options());
    let (good, poni) =
        (std::fs::read_to_string(&workspace.data.poni).unwrap(), workspace.path("other.poni"));
    let out = workspace.path("out");
    for (line, word) in [
        ("Distance: 0", "Distance: 0: expected metres"),
        ("Distance: 250", "Distance: 250: expected metres"),
        ("Poni1: 8500", "Poni1: 8500: expected metres"),
        ("Wavelength: 0.7", "Wavelength: 0.7: expected metres, from 1e-13 to 1e-7"),
    ] {
        std::fs::write(&poni, format!("{good}\n{line}\n")).unwrap();
        let flags = ["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()];
        assert_one_message(&run("plan-split", &flags, &workspace.scans), 2, &["other.poni", word]);
    }
}

#[test]
fn a_relative_path_in_a_task_is_refused() {
    let workspace = Workspace::new(&small_options());
    let out = workspace.path("out");
    let tasks = plan(&workspace, &[]).assert_success().stdout;
    let relative =
        tasks.replace(&format!("\"out\":{:?}", out.to_str().unwrap()), "\"out\":\"out\"");
    assert_ne!(tasks, relative);
    assert_one_message(
        &run("ai-integrate", NO_ARGUMENTS, &relative),
        1,
        &["`out` is \"out\": expected an absolute path"],
    );
}

#[test]
fn a_short_line_that_speaks_of_billions_of_frames_is_refused() {
    let workspace = Workspace::new(&small_options());
    let mut scan: serde_json::Value =
        serde_json::from_str(workspace.scans.lines().next().unwrap()).unwrap();
    let mut source = scan["sources"][0].clone();
    source["frames"] = serde_json::json!([[0, 134_217_727, 2]]);
    source["rows"] = serde_json::json!([[0, 67_108_864]]);
    scan["frames"] = 134_217_728_u64.into();
    scan["sources"] = vec![source; 30].into();
    let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path("out"));
    let refused =
        run("plan-split", &["--poni", poni, "--out", out.to_str().unwrap()], &scan.to_string());
    assert_one_message(
        &refused,
        1,
        &["frame ranges with a step that have 67108864 frames: expected at most 16777216"],
    );
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    let workspace = Workspace::new(&small_options());
    let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path("out"));
    let line = format!("{{\"type\":\"scan\",\"v\":1,\"title\":\"{}\"}}", "x".repeat(65 << 20));
    let refused = run("plan-split", &["--poni", poni, "--out", out.to_str().unwrap()], &line);
    assert_one_message(&refused, 1, &["longer than 64 MiB"]);
}

#[test]
fn a_poni_of_another_detector_is_refused_for_each_scan() {
    let workspace = Workspace::new(&small_options());
    let poni = workspace.path("other.poni");
    let text = "poni_version: 2\nDetector: Eiger2CdTe_4M\nDetector_config: {}\nDistance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";
    std::fs::write(&poni, text).unwrap();
    let refused = plan(&workspace, &["--poni", poni.to_str().unwrap()]);
    assert_eq!(refused.status, 2, "--poni twice is a usage error: {}", refused.stderr);
    let out = workspace.path("out");
    let refused = run(
        "plan-split",
        &["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()],
        &workspace.scans,
    );
    assert_one_message(&refused, 1, &["Eiger2CdTe_4M", "2162 x 2068", "195 x 487"]);
    assert_eq!(refused.records("fail").len(), 1);
    std::fs::write(&poni, text.replace("Eiger2CdTe_4M", "Eigr4M")).unwrap();
    let unknown = run(
        "plan-split",
        &["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()],
        &workspace.scans,
    );
    assert_one_message(&unknown, 2, &["other.poni", "Eigr4M", "did you mean"]);
    std::fs::write(&poni, "nothing of a PONI").unwrap();
    let empty = run(
        "plan-split",
        &["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()],
        &workspace.scans,
    );
    assert_one_message(&empty, 2, &["other.poni", "Distance"]);
}

#[test]
fn a_recipe_that_changed_after_planning_is_refused() {
    let workspace = Workspace::new(&small_options());
    let mask = workspace.path("m.edf");
    std::fs::copy(&workspace.data.mask, &mask).unwrap();
    let tasks = plan(&workspace, &["--mask", mask.to_str().unwrap()]).assert_success();
    let mut bytes = std::fs::read(&mask).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&mask, bytes).unwrap();
    assert_one_message(
        &run("ai-integrate", NO_ARGUMENTS, &tasks.stdout),
        1,
        &["m.edf", "plan-split"],
    );
}

#[test]
fn an_output_that_cannot_be_written_is_a_configuration_error() {
    let workspace = Workspace::new(&small_options());
    let poni = workspace.data.poni.to_str().unwrap();
    let file = workspace.path("a file");
    std::fs::write(&file, "in the way").unwrap();
    let refused = run(
        "plan-split",
        &["--poni", poni, "--out", file.join("out").to_str().unwrap()],
        &workspace.scans,
    );
    assert_one_message(&refused, 2, &["a file/out", "Not a directory"]);
}

#[test]
fn what_is_no_dataset_is_told() {
    let workspace = Workspace::new(&small_options());
    let empty = workspace.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let nothing = run("scan-find", &[&empty], "");
    assert!(
        nothing.status != 0 && nothing.stderr.contains("empty"),
        "{} {}",
        nothing.status,
        nothing.stderr
    );
    let text = workspace.path("notes.h5");
    std::fs::write(&text, "not HDF5").unwrap();
    let wrong = run("scan-find", &[&text], "");
    assert_one_message(&wrong, 1, &["notes.h5"]);
    assert_eq!(wrong.records("fail").len(), 1);
    let nowhere = run("scan-find", &["/proc/nowhere/at/all"], "");
    assert!(
        nowhere.status != 0 && nowhere.stderr.contains("/proc/nowhere/at/all"),
        "{}",
        nowhere.stderr
    );
}

#[test]
fn a_path_in_a_record_leads_out_of_nowhere() {
    let workspace = Workspace::new(&small_options());
    let tampered = workspace.scans.replace("\"below\":\"", "\"below\":\"../../");
    let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path("out"));
    let refused = run("plan-split", &["--poni", poni, "--out", out.to_str().unwrap()], &tampered);
    assert_one_message(&refused, 1, &["below", ".."]);
    assert!(refused.records("task").is_empty());
}

#[test]
fn results_among_raw_data_are_warned_of_once() {
    let workspace = Workspace::new(&Options { scans: 2, ..small_options() });
    let raw = workspace.data.raw.clone();
    let plan = |out: &Path, scans: &str| {
        let flags =
            ["--poni".as_ref(), workspace.data.poni.as_os_str(), "--out".as_ref(), out.as_os_str()];
        run("plan-split", &flags, scans).assert_success()
    };
    let link = workspace.path("link");
    std::os::unix::fs::symlink(&raw, &link).unwrap();
    let scan: serde_json::Value =
        serde_json::from_str(workspace.scans.lines().next().unwrap()).unwrap();
    let master = PathBuf::from(scan["file"].as_str().unwrap());
    let beside = master.parent().unwrap();
    for out in [&raw, &raw.join("results"), &link, beside] {
        let told = plan(out, &workspace.scans);
        assert_eq!(told.stderr.matches("among the raw data").count(), 1, "{}", told.stderr);
        assert!(told.stderr.contains(&format!("--out {}", out.display())), "{}", told.stderr);
    }
    let one = run("scan-find", &[&master], "").assert_success().stdout;
    assert!(
        plan(beside, &one).stderr.contains("among the raw data"),
        "a master that is named alone"
    );
    for (out, scans) in [
        (workspace.path("out"), &workspace.scans),
        (workspace.path("."), &workspace.scans),
        (beside.join("out"), &one),
    ] {
        assert_eq!(plan(&out, scans).stderr, "", "{}", out.display());
    }
}

#[test]
fn a_recipe_name_that_is_no_part_of_a_file_name_is_refused() {
    let workspace = Workspace::new(&small_options());
    assert_one_message(
        &plan(&workspace, &["--recipe-name", "a/b"]),
        2,
        &["--recipe-name: \"a/b\"", "part of a file name", "without `/`"],
    );
}

#[test]
fn a_printed_recipe_that_cannot_be_applied_is_warned_of() {
    let workspace = Workspace::new(&small_options());
    let poni = workspace.data.poni.to_str().unwrap();
    let (directory, not_there) = (workspace.path("."), workspace.path("none.edf"));
    let [directory, not_there] = [&directory, &not_there].map(|path| path.to_str().unwrap());
    for flags in
        [&["--mask", not_there][..], &["--poni", poni, "--mask", not_there], &["--poni", not_there]]
    {
        let printed =
            run("plan-split", &[&["--print-recipe"], flags].concat(), "").assert_success();
        assert!(printed.stdout.contains("none.edf"), "{}", printed.stdout);
        assert!(
            printed.stderr.contains("can't be applied") && printed.stderr.contains("none.edf"),
            "{}",
            printed.stderr
        );
    }
    let no_image = run("plan-split", &["--print-recipe", "--poni", poni, "--mask", directory], "")
        .assert_success();
    assert!(no_image.stderr.contains("can't be applied"), "{}", no_image.stderr);
    let mask = workspace.data.mask.to_str().unwrap();
    for flags in [&[][..], &["--mask", mask], &["--poni", poni, "--mask", mask], &["--poni", poni]]
    {
        let printed =
            run("plan-split", &[&["--print-recipe"], flags].concat(), "").assert_success();
        assert_eq!(printed.stderr, "", "{flags:?}");
    }
}
