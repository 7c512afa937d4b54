//! Bad input: a clear line that names what, where, and what was expected.

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
    says(&unknown, 2, &["other.poni", "Eigr4M", "nearest"]);
    std::fs::write(&poni, "nothing of a PONI").unwrap();
    let empty = run("plan-split", &["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap()], &site.scans);
    says(&empty, 2, &["other.poni", "Distance"]);
}

#[test]
fn a_mask_of_the_wrong_shape_is_refused_before_the_first_frame() {
    let site = Site::new(&small());
    let mask = site.path("mask.npy");
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend([0; 6]);
    std::fs::write(&mask, bytes).unwrap();
    let tasks = plan(&site, &["--mask", mask.to_str().unwrap()]).good();
    let refused = run("ai-integrate", NOTHING, &tasks.stdout);
    says(&refused, 1, &["mask", "mask.npy", "2 x 3", "195 x 487"]);
    assert!(site.parts("out").is_empty());
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
