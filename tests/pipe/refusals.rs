//! Bad input: a clear line that names what, where, and what was expected.

use std::path::{Path, PathBuf};

use sample::Options;

use crate::site::{NOTHING, Ran, Site, run, small};

/// One line on stderr that holds all of these, and this status.
fn says(ran: &Ran, status: i32, words: &[&str]) {
    assert_eq!(ran.status, status, "{}", ran.stderr);
    let line = ran.stderr.lines().next().expect("a message");
    assert!(words.iter().all(|word| line.contains(word)), "{words:?} in: {line}");
}

fn plan(site: &Site, flags: &[&str]) -> Ran {
    let (poni, out) = (site.data.poni.to_str().unwrap(), site.path("out"));
    let mut all = vec!["--poni", poni, "--out", out.to_str().unwrap()];
    all.extend(flags);
    run("plan-split", &all, &site.scans)
}

#[test]
fn recipes() {
    let site = Site::new(&small());
    let recipe = site.path("recipe.toml");
    let name = recipe.to_str().unwrap();
    std::fs::write(&recipe, "npt = 100\nazimut-range = [0, 90]").unwrap();
    says(&plan(&site, &["--recipe", name]), 2, &["recipe.toml", "azimut-range", "did you mean `azimuth-range`"]);
    std::fs::write(&recipe, "npt = ").unwrap();
    says(&plan(&site, &["--recipe", name]), 2, &["recipe.toml"]);
    says(&plan(&site, &["--recipe", "/nowhere/r.toml"]), 2, &["/nowhere/r.toml", "No such file"]);
    says(&plan(&site, &["--unit", "q_mm"]), 2, &["unit", "q_mm", "q_nm^-1"]);
    says(&plan(&site, &["--radial-range", "3,1"]), 2, &["radial-range", "3,1", "lower first"]);
    says(&plan(&site, &["--mask", "/nowhere/mask.edf"]), 2, &["/nowhere/mask.edf", "No such file"]);
    says(&plan(&site, &["--valid-max", "-1"]), 2, &["valid-max: -1: expected at least 0"]);
    says(&plan(&site, &["--sensor", "CdTe,1e308m"]), 2, &["CdTe,1e308m", "1e-9 to 1 m"]);
    std::fs::write(&recipe, "npt = 0").unwrap();
    says(&plan(&site, &["--recipe", name]), 2, &["recipe.toml: npt: 0: expected"]);
    let by_flag = plan(&site, &["--recipe", name, "--npt", "0"]);
    says(&by_flag, 2, &["npt: 0: expected"]);
    assert!(!by_flag.stderr.contains("recipe.toml"), "the flag is wrong, not the file: {}", by_flag.stderr);
}

#[test]
fn a_poni_whose_lengths_are_in_no_metres_is_refused() {
    let site = Site::new(&small());
    let (good, poni) = (std::fs::read_to_string(&site.data.poni).unwrap(), site.path("other.poni"));
    let out = site.path("out");
    for (line, word) in [
        ("Distance: 0", "Distance: 0: expected metres"),
        ("Distance: 250", "Distance: 250: expected metres"),
        ("Poni1: 8500", "Poni1: 8500: expected metres"),
        ("Wavelength: 0.7", "Wavelength: 0.7: expected metres, from 1e-13 to 1e-7"),
    ] {
        std::fs::write(&poni, format!("{good}\n{line}\n")).unwrap();
        let flags = ["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()];
        says(&run("plan-split", &flags, &site.scans), 2, &["other.poni", word]);
    }
}

#[test]
fn a_relative_path_in_a_task_is_refused() {
    let site = Site::new(&small());
    let out = site.path("out");
    let tasks = plan(&site, &[]).good().stdout;
    let relative = tasks.replace(&format!("\"out\":{:?}", out.to_str().unwrap()), "\"out\":\"out\"");
    assert_ne!(tasks, relative);
    says(&run("ai-integrate", NOTHING, &relative), 1, &["`out` is \"out\": expected an absolute path"]);
}

#[test]
fn a_short_line_that_speaks_of_billions_of_frames_is_refused() {
    let site = Site::new(&small());
    let mut scan: serde_json::Value = serde_json::from_str(site.scans.lines().next().unwrap()).unwrap();
    let mut source = scan["sources"][0].clone();
    source["frames"] = serde_json::json!([[0, 134_217_727, 2]]);
    source["rows"] = serde_json::json!([[0, 67_108_864]]);
    scan["frames"] = 134_217_728_u64.into();
    scan["sources"] = vec![source; 30].into();
    let (poni, out) = (site.data.poni.to_str().unwrap(), site.path("out"));
    let refused = run("plan-split", &["--poni", poni, "--out", out.to_str().unwrap()], &scan.to_string());
    says(&refused, 1, &["67108864 frames that are not in a row: expected 16777216 at the most"]);
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    let site = Site::new(&small());
    let (poni, out) = (site.data.poni.to_str().unwrap(), site.path("out"));
    let line = format!("{{\"type\":\"scan\",\"v\":1,\"title\":\"{}\"}}", "x".repeat(65 << 20));
    let refused = run("plan-split", &["--poni", poni, "--out", out.to_str().unwrap()], &line);
    says(&refused, 1, &["longer than 64 MiB"]);
}

#[test]
fn a_poni_of_another_detector_is_refused_for_each_scan() {
    let site = Site::new(&small());
    let poni = site.path("other.poni");
    let text = "poni_version: 2\nDetector: Eiger2CdTe_4M\nDetector_config: {}\nDistance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";
    std::fs::write(&poni, text).unwrap();
    let refused = plan(&site, &["--poni", poni.to_str().unwrap()]);
    assert_eq!(refused.status, 2, "--poni twice is a usage error: {}", refused.stderr);
    let out = site.path("out");
    let refused = run("plan-split", &["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()], &site.scans);
    says(&refused, 1, &["Eiger2CdTe_4M", "2162 x 2068", "195 x 487"]);
    assert_eq!(refused.records("fail").len(), 1);
    std::fs::write(&poni, text.replace("Eiger2CdTe_4M", "Eigr4M")).unwrap();
    let unknown = run("plan-split", &["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()], &site.scans);
    says(&unknown, 2, &["other.poni", "Eigr4M", "did you mean"]);
    std::fs::write(&poni, "nothing of a PONI").unwrap();
    let empty = run("plan-split", &["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()], &site.scans);
    says(&empty, 2, &["other.poni", "Distance"]);
}

#[test]
fn a_recipe_that_changed_after_planning_is_refused() {
    let site = Site::new(&small());
    let mask = site.path("m.edf");
    std::fs::copy(&site.data.mask, &mask).unwrap();
    let tasks = plan(&site, &["--mask", mask.to_str().unwrap()]).good();
    let mut bytes = std::fs::read(&mask).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&mask, bytes).unwrap();
    says(&run("ai-integrate", NOTHING, &tasks.stdout), 1, &["m.edf", "plan-split"]);
}

#[test]
fn an_output_that_cannot_be_written_is_a_configuration_error() {
    let site = Site::new(&small());
    let poni = site.data.poni.to_str().unwrap();
    let file = site.path("a file");
    std::fs::write(&file, "in the way").unwrap();
    let refused = run("plan-split", &["--poni", poni, "--out", file.join("out").to_str().unwrap()], &site.scans);
    says(&refused, 2, &["a file/out", "Not a directory"]);
}

#[test]
fn what_is_no_dataset_is_told() {
    let site = Site::new(&small());
    let empty = site.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let nothing = run("scan-find", &[&empty], "");
    assert!(nothing.status != 0 && nothing.stderr.contains("empty"), "{} {}", nothing.status, nothing.stderr);
    let text = site.path("notes.h5");
    std::fs::write(&text, "not HDF5").unwrap();
    let wrong = run("scan-find", &[&text], "");
    says(&wrong, 1, &["notes.h5"]);
    assert_eq!(wrong.records("fail").len(), 1);
    let nowhere = run("scan-find", &["/nowhere/at/all"], "");
    assert!(nowhere.status != 0 && nowhere.stderr.contains("/nowhere/at/all"), "{}", nowhere.stderr);
}

#[test]
fn a_path_in_a_record_leads_out_of_nowhere() {
    let site = Site::new(&small());
    let tampered = site.scans.replace("\"below\":\"", "\"below\":\"../../");
    let (poni, out) = (site.data.poni.to_str().unwrap(), site.path("out"));
    let refused = run("plan-split", &["--poni", poni, "--out", out.to_str().unwrap()], &tampered);
    says(&refused, 1, &["below", ".."]);
    assert!(refused.records("task").is_empty());
}

#[test]
fn results_among_raw_data_are_warned_of_once() {
    let site = Site::new(&Options { scans: 2, ..small() });
    let raw = site.data.raw.clone();
    let plan = |out: &Path, scans: &str| {
        let flags = ["--poni".as_ref(), site.data.poni.as_os_str(), "--out".as_ref(), out.as_os_str()];
        run("plan-split", &flags, scans).good()
    };
    let link = site.path("link");
    std::os::unix::fs::symlink(&raw, &link).unwrap();
    let scan: serde_json::Value = serde_json::from_str(site.scans.lines().next().unwrap()).unwrap();
    let master = PathBuf::from(scan["file"].as_str().unwrap());
    let beside = master.parent().unwrap();
    for out in [&raw, &raw.join("results"), &link, beside] {
        let told = plan(out, &site.scans);
        assert_eq!(told.stderr.matches("among the raw data").count(), 1, "{}", told.stderr);
        assert!(told.stderr.contains(&format!("--out {}", out.display())), "{}", told.stderr);
    }
    let one = run("scan-find", &[&master], "").good().stdout;
    assert!(plan(beside, &one).stderr.contains("among the raw data"), "a master that is named alone");
    for (out, scans) in [(site.path("out"), &site.scans), (site.path("."), &site.scans), (beside.join("out"), &one)] {
        assert_eq!(plan(&out, scans).stderr, "", "{}", out.display());
    }
}

#[test]
fn a_recipe_name_that_is_no_part_of_a_file_name_is_refused() {
    let site = Site::new(&small());
    says(&plan(&site, &["--recipe-name", "a/b"]), 2, &["--recipe-name \"a/b\"", "part of a file name", "without `/`"]);
}

#[test]
fn a_printed_recipe_that_cannot_be_applied_is_warned_of() {
    let site = Site::new(&small());
    let poni = site.data.poni.to_str().unwrap();
    let (directory, not_there) = (site.path("."), site.path("none.edf"));
    let [directory, not_there] = [&directory, &not_there].map(|path| path.to_str().unwrap());
    for flags in [&["--mask", not_there][..], &["--poni", poni, "--mask", not_there], &["--poni", not_there]] {
        let printed = run("plan-split", &[&["--print-recipe"], flags].concat(), "").good();
        assert!(printed.stdout.contains("none.edf"), "{}", printed.stdout);
        assert!(
            printed.stderr.contains("can't be applied") && printed.stderr.contains("none.edf"),
            "{}",
            printed.stderr
        );
    }
    let no_image = run("plan-split", &["--print-recipe", "--poni", poni, "--mask", directory], "").good();
    assert!(no_image.stderr.contains("can't be applied"), "{}", no_image.stderr);
    let mask = site.data.mask.to_str().unwrap();
    for flags in [&[][..], &["--mask", mask], &["--poni", poni, "--mask", mask], &["--poni", poni]] {
        let printed = run("plan-split", &[&["--print-recipe"], flags].concat(), "").good();
        assert_eq!(printed.stderr, "", "{flags:?}");
    }
}
