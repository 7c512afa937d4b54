//! plan-split refuses what ai-integrate would refuse for the recipe's or the record's sake, and
//! ai-integrate refuses it by itself, where a plan was made elsewhere.

use std::path::{Path, PathBuf};

use recipe::{Recipe, RecipeFile};
use sample::Random;
use serde_json::Value;

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, create_hdf5, npy, run, small_options};

const SHAPE: [usize; 2] = [195, 487];

/// Writes the files that recipes name: images that fit and others that do not, and an HDF5 file.
fn write_files(workspace: &Workspace) {
    let image = |name: &str, shape: [usize; 2], value: u8| {
        std::fs::write(workspace.path(name), npy("|u1", shape, &vec![value; shape[0] * shape[1]]))
            .unwrap();
    };
    image("good.npy", SHAPE, 0);
    image("flat.npy", SHAPE, 1);
    image("turned.npy", [SHAPE[1], SHAPE[0]], 0);
    image("small.npy", [2, 3], 0);
    std::fs::write(workspace.path("text.edf"), "not an image").unwrap();
    std::fs::write(workspace.path("empty.edf"), "").unwrap();
    std::fs::create_dir(workspace.path("directory.npy")).unwrap();
    let file = create_hdf5(workspace.path("unreadable.h5"));
    file.link_external("endless.h5", "/detector", "detector").unwrap();
    std::os::unix::fs::symlink(workspace.path("endless.h5"), workspace.path("endless.h5")).unwrap();
    let file = create_hdf5(workspace.path("images.h5"));
    let numbers = |name: &str, shape: &[usize]| {
        let dataset = file.new_dataset::<u8>().shape(shape).create(name).unwrap();
        dataset.write_raw(&vec![0u8; shape.iter().product()]).unwrap();
    };
    numbers("mask", &SHAPE);
    numbers("stack", &[2, SHAPE[0], SHAPE[1]]);
    numbers("small", &[3, 4]);
    numbers("five", &[5]);
    file.create_group("group").unwrap();
    let text =
        file.new_dataset::<hdf5::types::FixedAscii<8>>().shape(SHAPE).create("text").unwrap();
    drop(text);
    let counts = file.new_dataset::<f64>().shape(24).create("counts").unwrap();
    counts.write_raw(&[2.0; 24]).unwrap();
}

/// A recipe file, in the directory of the files that it names.
pub fn write_recipe(workspace: &Workspace, settings: &str) -> PathBuf {
    let path = workspace.path("recipe.toml");
    std::fs::write(&path, format!("poni = '{}'\n{settings}\n", workspace.data.poni.display()))
        .unwrap();
    path
}

pub fn plan(workspace: &Workspace, recipe: &Path) -> Outcome {
    let out = workspace.path("out");
    let words =
        ["--recipe", recipe.to_str().unwrap(), "--out", out.to_str().unwrap(), "--by", "scan"];
    run("plan-split", &words, &workspace.scans)
}

/// The plan of a recipe that plan-split has not seen; `None` where it is no recipe at all.
pub fn plan_unchecked(workspace: &Workspace, recipe: &Path, plain: &str) -> Option<String> {
    let file = RecipeFile::read(recipe).ok()?;
    let (_, settings) = file.sections().into_iter().next()?;
    let resolved = Recipe::resolve(&settings).ok()?;
    let path = workspace.path("forged.toml");
    std::fs::write(&path, resolved.to_toml()).unwrap();
    let mut task: Value = serde_json::from_str(plain.lines().next().unwrap()).unwrap();
    task["recipe"] = path.to_str().unwrap().into();
    task["recipe_digest"] = resolved.digest().into();
    task["out"] = workspace.path("forged").to_str().unwrap().into();
    Some(format!("{task}\n"))
}

/// Settings of a recipe file, the status that plan-split ends with, and what it says.
const REFUSED: &[(&str, i32, &[&str])] = &[
    // Files, whatever the frames.
    ("mask = 'nowhere.npy'", 2, &["nowhere.npy", "No such file"]),
    ("mask = 'directory.npy'", 2, &["directory.npy", "directory"]),
    ("mask = 'text.edf'", 2, &["mask", "text.edf", "not an image: expected TIFF, CBF, NPY"]),
    ("mask-inverted = 'empty.edf'", 2, &["mask", "empty.edf", "an empty file"]),
    ("mask = 'images.h5'", 2, &["mask", "images.h5", "name the dataset: FILE::/PATH"]),
    (
        "mask = 'good.npy::/mask'",
        2,
        &["mask", "good.npy", "npy has no datasets: name the file without ::/mask"],
    ),
    ("mask = 'text.edf::/mask'", 2, &["mask", "text.edf", "HDF5"]),
    ("mask = 'images.h5::/nothing'", 2, &["mask", "images.h5::/nothing", "no such dataset"]),
    ("mask = 'images.h5::/group'", 2, &["mask", "images.h5::/group", "not a dataset"]),
    (
        "dark = 'images.h5::/five'",
        2,
        &[
            "dark",
            "images.h5::/five",
            "shape (5): expected (rows, columns), (frames, rows, columns)",
        ],
    ),
    ("flat = 'images.h5::/text'", 2, &["flat", "images.h5::/text"]),
    (
        "variance = 'images.h5::/nothing'",
        2,
        &["variance", "images.h5::/nothing", "no such dataset"],
    ),
    ("poni-detector = 'nowhere.h5'", 2, &["nowhere.h5", "No such file"]),
    ("poni-detector = 'images.h5'", 2, &["images.h5", "no NXdetector"]),
    ("poni-detector = 'unreadable.h5'", 2, &["unreadable.h5", "Too many levels of symbolic links"]),
    ("monitor = 'images.h5::/nothing'", 2, &["monitor", "images.h5::/nothing"]),
    ("monitor = 'text.edf::/counts'", 2, &["monitor", "text.edf", "HDF5"]),
    // Values, whatever the frames.
    ("npt = 0", 2, &["npt: 0"]),
    ("unit = 'q_mm'", 2, &["unit", "q_mm"]),
    ("radial-range = [3, 1]", 2, &["radial-range: 3,1"]),
    ("azimuth-range = [0, 400]", 2, &["azimuth-range", "full circle"]),
    ("valid-max = -1", 2, &["valid-max: -1"]),
    ("valid-min = 5\nvalid-max = 4", 2, &["valid-max: 4: expected at least valid-min"]),
    ("sensor = 'Xx,1mm'", 2, &["sensor", "Xx"]),
    (
        "poni-detector = 'Eigr4M'",
        2,
        &["recipe.toml: poni-detector: unknown detector \"Eigr4M\"", "did you mean"],
    ),
    ("mask = ''", 2, &["recipe.toml: mask: found an empty text; expected the path of a file"]),
    ("azimuth-range = [1000, 1010]", 2, &["azimuth-range: 1000: expected a number of degrees"]),
    ("monitor = ['monitor', 'monitor']", 2, &["monitor: monitor given twice"]),
    (
        "Detector: Pilatus100k",
        2,
        &["recipe.toml: line 2, column", "expected a recipe: TOML with keys"],
    ),
    ("polarization = 2", 2, &["polarization: 2"]),
    ("sigma-clip = 4\nmedian = 50", 2, &["median: set together with sigma-clip"]),
    ("error-model = 'variance'", 2, &["variance: missing"]),
    (
        "error-floor = 'bin'\ndark = 'text.edf'",
        2,
        &["error-floor: bin set together with dark; expected pixel, or no dark"],
    ),
    ("monitor = 0", 2, &["monitor: 0"]),
    ("monitor = -1", 2, &["monitor: -1: expected a positive number"]),
    ("monitor = ['1e308', '1e308']", 2, &["monitor: 1e308 x 1e308: inf"]),
    ("monitor = 1e-320", 2, &["monitor: 1e-320: expected a positive number"]),
    ("mask-region = ['circle:1,2,nan']", 2, &["mask-region: entry 1: `circle:1,2,nan`: expected"]),
    ("monitor-reference = 'mean'", 2, &["monitor-reference: 1 given for 0 monitors"]),
    // What does not go with the frames.
    (
        "mask = 'small.npy'",
        1,
        &["mask", "small.npy", "2 x 3 pixels; expected 195 x 487", "give a mask of this shape"],
    ),
    (
        "mask-inverted = 'images.h5::/small'",
        1,
        &["mask", "images.h5::/small", "3 x 4 pixels; expected 195 x 487"],
    ),
    (
        "dark = ['good.npy', 'turned.npy']",
        1,
        &["dark", "turned.npy", "487 x 195 pixels; expected 195 x 487"],
    ),
    ("flat = 'small.npy'", 1, &["flat", "small.npy", "2 x 3 pixels; expected 195 x 487"]),
    ("variance = 'images.h5::/small'", 1, &["variance", "3 x 4 pixels; expected 195 x 487"]),
    ("mask = 'flat.npy'", 1, &["all 94965 pixels are masked"]),
    ("mask-region = 'outside-circle:-50,-50,1'", 1, &["all 94965 pixels are masked"]),
    ("radial-range = [5000, 6000]", 1, &["no pixel in radial range 5000"]),
    ("radial-edges = [5000, 5500, 6000]", 1, &["no pixel in radial range 5000"]),
    ("valid-min = 3e9", 1, &["no value of i32 pixels is valid: valid-min 3000000000"]),
    (
        "valid-min = 0.2\nvalid-max = 0.8",
        1,
        &["no value of i32 pixels is valid: valid-min 0.2, valid-max 0.8"],
    ),
    ("dummy = '0,1e10'", 1, &["no value of i32 pixels is valid: dummy 0,10000000000"]),
    ("roi = [190, 0]", 1, &["195 x 487"]),
    ("poni-detector = 'Eiger2CdTe_4M'", 1, &["2162 x 2068", "195 x 487"]),
    ("monitor = 'mondior'", 1, &["no counter `mondior`", "did you mean `monitor`?", "epoch"]),
    ("monitor = 'monitor'\nmonitor-reference = 'mondior'", 1, &["no counter `mondior`"]),
    (
        "monitor = 'images.h5::/five'",
        1,
        &["images.h5::/five: 5 values: expected one, or one for each of 24 frames"],
    ),
];

#[test]
fn what_ai_integrate_would_refuse_plan_split_refuses() {
    let workspace = Workspace::new(&small_options());
    write_files(&workspace);
    let plain = workspace.plan("plain", &["--by", "scan"]);
    for (settings, status, words) in REFUSED {
        let recipe = write_recipe(&workspace, settings);
        let ran = plan(&workspace, &recipe);
        assert_eq!(ran.status, *status, "{settings}: {}", ran.stderr);
        assert!(ran.records("task").is_empty(), "{settings}");
        assert!(
            words.iter().all(|word| ran.stderr.contains(word)),
            "{settings}: {words:?} in: {}",
            ran.stderr
        );
        assert_eq!(ran.stderr.lines().count(), 1, "{settings}: {}", ran.stderr);
        if *status == 1 {
            let file = workspace.data.master.file_name().unwrap().to_str().unwrap();
            assert!(ran.stderr.contains(file), "{settings}: which frames? {}", ran.stderr);
            assert_eq!(ran.records("fail").len(), 1, "{settings}");
        }
        if let Some(tasks) = plan_unchecked(&workspace, &recipe, &plain) {
            let refused = run("ai-integrate", NO_ARGUMENTS, &tasks);
            assert_eq!(refused.status, 1, "{settings}: {}", refused.stderr);
            assert_eq!(refused.records("fail").len(), 1, "{settings}: {}", refused.stderr);
        }
    }
}

/// Alternatives for each setting, an empty text for its default.
const ALTERNATIVES: &[&[&str]] = &[
    &[
        "",
        "mask = 'good.npy'",
        "mask = 'images.h5::/mask'",
        "mask = 'images.h5::/stack'",
        "mask = 'small.npy'",
    ],
    &["", "", "mask-region = 'circle:97,243,60'", "mask-region = 'outside-rectangle:0,0,5,487'"],
    &["", "dark = 'good.npy'", "dark = ['good.npy', 'images.h5::/stack']", "dark = 'turned.npy'"],
    &["", "flat = 'flat.npy'", "flat = 'flat.npy'\nflat-mode = 'multiply'"],
    &["unit = 'q_nm^-1'", "unit = '2th_deg'", "unit = 'r_mm'", "unit = 'd_A'"],
    &[
        "",
        "",
        "radial-range = [0, 5]",
        "radial-range = [5, 30]",
        "radial-range = [60, 90]",
        "radial-edges = [0, 1, 90]",
    ],
    &[
        "",
        "",
        "azimuth-range = [-10, 10]",
        "azimuth-range = [80, 100]",
        "azimuth-range = [170, 190]",
    ],
    &["", "npt-azim = 4"],
    &["", "split = 'no'", "split = 'full'"],
    &[
        "",
        "",
        "sigma-clip = 4",
        "median = 50",
        "error-model = 'azimuthal'",
        "variance = 'flat.npy'",
    ],
    &["", "valid-min = 1", "valid-min = 3e9", "valid-max = 1000", "dummy = -2"],
    &[
        "",
        "monitor = 'monitor'",
        "monitor = 'exposure-time'",
        "monitor = 'images.h5::/counts'",
        "monitor = 'x'",
    ],
    &["", "sensor = 'CdTe,750um'", "polarization = 0.9", "roi = [0, 0]"],
];

#[test]
fn any_recipe_that_plan_split_takes_ai_integrate_takes() {
    let workspace = Workspace::new(&small_options());
    write_files(&workspace);
    let plain = workspace.plan("plain", &["--by", "scan"]);
    let mut random = Random::new(&[12]);
    let mut counts = [0, 0];
    // At least 40 recipes, and more until enough were taken and refused for either to say
    // something.
    for drawn in 0..160 {
        if drawn >= 40 && counts.iter().all(|count| *count > 5) {
            break;
        }
        let chosen: Vec<&str> =
            ALTERNATIVES.iter().map(|settings| settings[random.index(settings.len())]).collect();
        let settings = format!("npt = 50\n{}", chosen.join("\n"));
        let recipe = write_recipe(&workspace, &settings);
        let planned = plan(&workspace, &recipe);
        let Some(tasks) = plan_unchecked(&workspace, &recipe, &plain) else {
            assert_eq!(planned.status, 2, "{settings}: {}", planned.stderr);
            continue;
        };
        let integrated = run("ai-integrate", NO_ARGUMENTS, &tasks);
        let refuses = |ran: &Outcome| !ran.records("fail").is_empty() || ran.status == 2;
        let (by_plan, by_integrate) = (refuses(&planned), refuses(&integrated));
        assert_eq!(
            by_plan, by_integrate,
            "{settings}\nplan: {}\nintegrate: {}",
            planned.stderr, integrated.stderr
        );
        counts[usize::from(by_plan)] += 1;
        for place in ["out", "forged"] {
            let _ = std::fs::remove_dir_all(workspace.path(place));
        }
    }
    assert!(counts.iter().all(|count| *count > 5), "{counts:?} taken and refused");
}

#[test]
fn a_poni_file_that_looks_like_one_in_other_units_is_warned_of_once() {
    let workspace = Workspace::new(&small_options());
    let text = std::fs::read_to_string(&workspace.data.poni).unwrap();
    let in_millimetres: Vec<String> = text
        .lines()
        .map(|line| match line.split_once(": ") {
            Some((key @ ("Distance" | "Poni1" | "Poni2"), metres)) => {
                format!("{key}: {}", metres.parse::<f64>().unwrap() * 1000.0)
            }
            _ => line.to_owned(),
        })
        .collect();
    let path = workspace.path("mm.poni");
    std::fs::write(&path, in_millimetres.join("\n") + "\nTilt: 0.1\n").unwrap();
    let out = workspace.path("out");
    let flags = ["--poni", path.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let told = run("plan-split", &flags, &workspace.scans);
    let lines: Vec<&str> = told.stderr.lines().filter(|line| line.contains("mm.poni: ")).collect();
    for (key, remedy) in [("Distance: ", "in millimetres"), ("`tilt`", "has no effect")] {
        let found = lines.iter().filter(|line| line.contains(key) && line.contains(remedy));
        assert_eq!(found.count(), 1, "{key}: {}", told.stderr);
    }
    let good = ["--poni", workspace.data.poni.to_str().unwrap(), "--out", out.to_str().unwrap()];
    assert_eq!(run("plan-split", &good, &workspace.scans).assert_success().stderr, "");
}
