//! Recipes of every kind: ours, those of other programs, and sections by detector.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, create_hdf5, run, small_options};

fn plan(workspace: &Workspace, flags: &[&str]) -> Outcome {
    let out = workspace.path("out");
    run("plan-split", &[&["--out", out.to_str().unwrap()], flags].concat(), &workspace.scans)
}

fn write(workspace: &Workspace, name: &str, text: &str) -> String {
    let path: PathBuf = workspace.path(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn recipe_digest(ran: &Outcome) -> String {
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran.records("task")[0]["recipe_digest"].as_str().unwrap().to_owned()
}

/// A line of the workspace's PONI file.
fn read_poni_key(workspace: &Workspace, key: &str) -> Value {
    let text = std::fs::read_to_string(&workspace.data.poni).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .unwrap()
        .trim()
        .to_owned();
    serde_json::from_str(&line).unwrap_or(Value::String(line))
}

/// Returns equal settings in three formats: those of the ESRF integrator, pyFAI and azpipe.
fn settings_in_three_formats(workspace: &Workspace) -> [String; 3] {
    let (poni_file, mask) = (workspace.data.poni.display(), workspace.data.mask.display());
    let detector = read_poni_key(workspace, "Detector");
    let ini = format!(
        "[dataset]\nlocation = RAW/*.h5\n[azimuthal integration]\nn_pts = 400\nunit = q_A^-1\ndetector = {}\n\
         detector_name = p3\nmask_file = {mask}\nponi_file = {poni_file}\nerror_model = poisson\n\
         azimuthal_range = (-90., 90., 1)\nradial_range = (0.5, 4)\npolarization_factor = 0.95\npixel_splitting = full\n\
         correct_detector_attenuation = 0\n",
        detector.as_str().unwrap().to_lowercase()
    );
    let json = json!({
        "application": "worker", "version": 5, "nbpt_rad": 400, "nbpt_azim": 1, "unit": "q_A^-1",
        "poni": {
            "poni_version": 2.1, "dist": read_poni_key(workspace, "Distance"), "poni1": read_poni_key(workspace, "Poni1"),
            "poni2": read_poni_key(workspace, "Poni2"), "rot1": read_poni_key(workspace, "Rot1"), "rot2": read_poni_key(workspace, "Rot2"),
            "rot3": read_poni_key(workspace, "Rot3"), "wavelength": read_poni_key(workspace, "Wavelength"), "detector": detector,
            "detector_config": {"orientation": 3},
        },
        "mask_file": workspace.data.mask, "error_model": "poisson", "azimuth_range": [-90, 90], "radial_range": [0.5, 4.0],
        "polarization_description": [0.95, 0.0], "method": ["full", "csr", "opencl"], "correct_solid_angle": true,
    });
    let toml = format!(
        "poni = '{poni_file}'\nmask = '{mask}'\nnpt = 400\nunit = 'q_A^-1'\nazimuth-range = [-90, 90]\n\
         radial-range = [0.5, 4]\npolarization = 0.95\nsplit = 'full'\n"
    );
    [
        write(workspace, "id15.conf", &ini),
        write(workspace, "worker.json", &json.to_string()),
        write(workspace, "recipe.toml", &toml),
    ]
}

#[test]
fn the_same_settings_are_one_recipe_whoever_wrote_them() {
    let workspace = Workspace::new(&small_options());
    let files = settings_in_three_formats(&workspace);
    let digests =
        files.each_ref().map(|file| recipe_digest(&plan(&workspace, &["--recipe", file])));
    assert_eq!([&digests[0], &digests[1]], [&digests[2]; 2]);
    let other = plan(&workspace, &["--recipe", &files[0], "--npt", "401"]);
    assert_ne!(recipe_digest(&other), digests[0], "flags go before any recipe");
}

#[test]
fn a_recipe_of_others_is_printed_as_one_of_ours() {
    let workspace = Workspace::new(&small_options());
    for file in settings_in_three_formats(&workspace) {
        let printed = run("plan-split", &["--print-recipe", "--recipe", &file, "--empty", "0"], "")
            .assert_success();
        assert!(
            printed.stdout.contains("\nnpt = 400\n")
                && printed.stdout.contains("\n#npt-azim = 1\n"),
            "{}",
            printed.stdout
        );
        let again = write(&workspace, "printed.toml", &printed.stdout);
        let expected = recipe_digest(&plan(&workspace, &["--recipe", &file, "--empty", "0"]));
        assert_eq!(
            recipe_digest(&plan(&workspace, &["--recipe", &again])),
            expected,
            "{}",
            printed.stdout
        );
    }
    let template = run("plan-split", &["--print-recipe"], "").assert_success().stdout;
    assert!(template.lines().all(|line| line.is_empty() || line.starts_with('#')), "{template}");
}

#[test]
fn a_workers_configuration_needs_no_poni_file_and_integrates() {
    let workspace = Workspace::new(&small_options());
    let [_, worker, _] = settings_in_three_formats(&workspace);
    let tasks = plan(&workspace, &["--recipe", &worker]).assert_success();
    // The small detector has no hot pixel.
    let mut said = tasks.stderr.lines();
    assert!(said.all(|line| line.contains("masks no pixel")), "{}", tasks.stderr);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks.stdout).assert_success();
    let summary = run("gather", NO_ARGUMENTS, &results.stdout).assert_success().records("summary");
    assert_eq!(summary[0]["integrated"], 24);
}

#[test]
fn what_is_not_taken_over_is_said() {
    let workspace = Workspace::new(&small_options());
    let [ini, worker, _] = settings_in_three_formats(&workspace);
    let said = plan(&workspace, &["--recipe", &ini]).assert_success().stderr;
    assert!(
        said.contains("id15.conf: [azimuthal integration] detector_name: not part of a recipe"),
        "{said}"
    );
    assert!(said.contains("use scan-find --detector p3"), "{said}");
    assert!(!said.contains("attenuation"), "{said}");
    let text = std::fs::read_to_string(&ini).unwrap();
    write(&workspace, "id15.conf", &text.replace("correct_detector_attenuation = 0", ""));
    let said = plan(&workspace, &["--recipe", &ini]).assert_success().stderr;
    assert!(
        said.contains("correct_detector_attenuation: not applied")
            && said.contains("--sensor CdTe,1mm"),
        "{said}"
    );
    for (file, from, to, words) in [
        (&ini, "n_pts", "n_ptss", ["unknown key `n_ptss`", "did you mean `n_pts`?"]),
        (&ini, "full", "pseudo", ["pixel_splitting: pseudo", "expected no, BBox or full"]),
        (
            &worker,
            "nbpt_rad",
            "nbpt_radial",
            ["unknown key `nbpt_radial`", "did you mean `nbpt_rad`?"],
        ),
        (&worker, "poisson", "variance", ["error_model", "needs no image"]),
    ] {
        let text = std::fs::read_to_string(file).unwrap();
        let wrong = write(
            &workspace,
            if file == &ini { "wrong.ini" } else { "wrong.json" },
            &text.replace(from, to),
        );
        let refused = plan(&workspace, &["--recipe", &wrong]);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(
            words.iter().all(|word| refused.stderr.contains(word)),
            "{words:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn a_scan_is_worked_by_the_section_of_its_detector() {
    let workspace = Workspace::new(&small_options());
    let record: Value = serde_json::from_str(&workspace.scans).unwrap();
    let detector = record["detector"].as_str().unwrap();
    let other = json!({"detector": "frelon3", "id": "00000000000000f1"});
    let mut second = record.clone();
    second.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    let scans = format!("{}\n{second}\n", workspace.scans.trim_end());
    let poni = workspace.data.poni.display();
    let sections = format!("poni = '{poni}'\nnpt = 100\n[detector.{detector}]\nnpt = 200\n");
    let file =
        write(&workspace, "both.toml", &format!("{sections}[detector.'frelon*']\nunit = 'r_mm'\n"));
    let out = workspace.path("out");
    let plan =
        |file: &str| run("plan-split", &["--recipe", file, "--out", out.to_str().unwrap()], &scans);
    let both = plan(&file).assert_success().records("task");
    let recipe = |task: &Value| std::fs::read_to_string(task["recipe"].as_str().unwrap()).unwrap();
    assert!(recipe(&both[0]).contains("npt = 200") && recipe(&both[0]).contains("q_nm^-1"));
    let last = recipe(both.last().unwrap());
    assert!(last.contains("npt = 100") && last.contains("r_mm"), "{last}");
    // A detector that no section is for fails, and takes nothing from the others.
    let one = plan(&write(&workspace, "one.toml", &sections));
    assert_eq!((one.status, one.records("fail").len()), (1, 1));
    assert!(
        one.stderr.contains(&format!("no section for detector frelon3; sections are: {detector}")),
        "{}",
        one.stderr
    );
    assert_eq!(
        one.records("task").len(),
        both.iter().filter(|task| task["detector"] == detector).count()
    );
    let wrong =
        plan(&write(&workspace, "wrong.toml", &format!("{sections}[detector.eiger]\nnpt = 0\n")));
    assert_eq!(wrong.status, 2, "sections are looked at before the first scan: {}", wrong.stderr);
}

#[test]
fn units_that_are_left_out_say_why() {
    let workspace = Workspace::new(&small_options());
    let poni = workspace.data.poni.to_str().unwrap();
    for (unit, word) in [
        ("log10(q.m)", "scale"),
        ("qx", "not a radial unit"),
        ("qtot_nm^-1", "grazing-incidence"),
        ("qq", "unknown unit"),
    ] {
        let refused = plan(&workspace, &["--poni", poni, "--unit", unit]);
        assert!(refused.status == 2 && refused.stderr.contains(word), "{unit}: {}", refused.stderr);
    }
    let refused = plan(&workspace, &["--poni", poni, "--sensor", "Pb,1mm"]);
    assert!(
        refused.status == 2 && refused.stderr.contains("expected one of Si, Ge"),
        "{}",
        refused.stderr
    );
}

/// The monitors of the frames, and their reference, in the final of a plan with these flags.
fn read_monitors(workspace: &Workspace, out: &str, flags: &[&str]) -> (Vec<f64>, f64, Vec<f32>) {
    let summary = workspace.process(out, flags, &[]).assert_success().records("summary").remove(0);
    let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
    let detector = summary["detector"].as_str().unwrap();
    let monitor = file.dataset(&format!("/1.1/{detector}_integrate/integrated/monitor")).unwrap();
    let intensity =
        file.dataset(&format!("/1.1/{detector}_integrate/integrated/intensity")).unwrap();
    let reference = monitor.attr("reference").unwrap().read_scalar().unwrap();
    (monitor.read_raw().unwrap(), reference, intensity.read_raw().unwrap())
}

#[test]
fn monitors_multiply_over_their_references() {
    let workspace = Workspace::new(&small_options());
    let (one, _, intensity) =
        read_monitors(&workspace, "one", &["--monitor", "monitor", "--monitor-reference", "100"]);
    let path = workspace.path("diode.h5");
    let diode: Vec<f64> = (1..=24).map(f64::from).collect();
    create_hdf5(&path).new_dataset_builder().with_data(&diode).create("diode").unwrap();
    let file = format!("{}::/diode", path.display());
    let product = ["--monitor", "monitor", "--monitor", &file, "--monitor", "exposure-time"];
    let references =
        ["--monitor-reference", "100", "--monitor-reference", "4", "--monitor-reference", "2"];
    let (found, reference, scaled) =
        read_monitors(&workspace, "product", &[product, references].concat());
    let exposure =
        serde_json::from_str::<Value>(&workspace.scans).unwrap()["exposure_time"].as_f64().unwrap();
    let expected: Vec<f64> =
        one.iter().zip(&diode).map(|(one, diode)| one * diode * exposure).collect();
    assert_eq!((found, reference), (expected, 800.0));
    let bins = intensity.len() / 24;
    for (at, (scaled, plain)) in
        scaled.iter().zip(&intensity).enumerate().filter(|(_, (_, plain))| plain.is_finite())
    {
        let expected = f64::from(*plain) * 8.0 / (diode[at / bins] * exposure);
        assert!(
            (f64::from(*scaled) - expected).abs() <= 1e-6 * expected.abs(),
            "{at}: {scaled}, {expected}"
        );
    }
    // A reference may be a quantity of its own; over itself a counter is 1, whatever it counted.
    let over = ["--monitor", "monitor", "--monitor-reference", "monitor"];
    assert_eq!(read_monitors(&workspace, "over", &over).0, [1.0; 24]);
    let refused = plan(
        &workspace,
        &[
            "--poni",
            workspace.data.poni.to_str().unwrap(),
            "--monitor",
            "a",
            "--monitor",
            "b",
            "--monitor-reference",
            "1",
        ],
    );
    assert!(
        refused.status == 2 && refused.stderr.contains("1 given for 2 monitors"),
        "{}",
        refused.stderr
    );
}

#[test]
fn frames_of_a_region_are_placed_on_the_detector() {
    let workspace = Workspace::new(&small_options());
    let image: Vec<i32> = (0..195 * 487).map(|pixel| pixel % 1009).collect();
    let region: Vec<i32> =
        (40..150).flat_map(|row| image[row * 487 + 30..row * 487 + 400].to_vec()).collect();
    let poni = workspace.data.poni.to_str().unwrap();
    // A region of the frames, as an image that shows it, and as the whole with all else masked.
    let pattern = |name: &str, pixels: &[i32], shape: [usize; 2], flags: [&str; 2]| {
        let path = workspace.path(&format!("{name}.h5"));
        let file = create_hdf5(&path);
        let data = file.new_dataset::<i32>().shape([1, shape[0], shape[1]]).create("data").unwrap();
        data.write_raw(pixels).unwrap();
        drop((data, file));
        let (scan, out) = (
            run("scan-find", &[format!("{}::/data", path.display())], "").assert_success().stdout,
            workspace.path(name),
        );
        let flags = [&["--poni", poni, "--npt", "100", "--out", out.to_str().unwrap()], &flags[..]]
            .concat();
        let results = run(
            "ai-integrate",
            NO_ARGUMENTS,
            &run("plan-split", &flags, &scan).assert_success().stdout,
        )
        .assert_success()
        .stdout;
        let summary =
            run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
        let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
        let group = format!("/1.1/{}_integrate/integrated", summary["detector"].as_str().unwrap());
        let read = |name: &str| {
            file.dataset(&format!("{group}/{name}")).unwrap().read_raw::<f64>().unwrap()
        };
        (read("q"), read("intensity"))
    };
    let whole =
        pattern("whole", &image, [195, 487], ["--mask-region", "outside-rectangle:40,30,150,400"]);
    let part = pattern("part", &region, [110, 370], ["--roi", "40,30"]);
    assert_eq!(whole.0, part.0);
    for (at, (whole, part)) in whole.1.iter().zip(&part.1).enumerate() {
        assert!(
            (whole - part).abs() <= 1e-6 * whole.abs() || whole.is_nan() && part.is_nan(),
            "{at}: {whole} {part}"
        );
    }
    let out = workspace.path("beyond");
    let flags = ["--poni", poni, "--roi", "40,30", "--out", out.to_str().unwrap()];
    let beyond = run("plan-split", &flags, &workspace.scans);
    assert!(
        beyond.status == 1 && beyond.stderr.contains("reach beyond the detector's 195 x 487"),
        "{}",
        beyond.stderr
    );
}
