//! No file that a run reads is replaced by a file that it writes, with `--overwrite` either: all
//! outputs with all inputs of all filters.

use std::any::TypeId;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueHint;

use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, filters, npy, program, read_files_below, run, small_options,
};

const SHAPE: [usize; 2] = [195, 487];

/// The flags of each filter that take paths, and its operands: what it reads, and what it writes.
/// Each output is tried with each input below; scan-find writes no files.
const PATHS: [(&str, &[&str], &[&str]); 5] = [
    ("scan-find", &["paths"], &[]),
    (
        "plan-split",
        &[
            "inputs",
            "recipe",
            "calibrant",
            "poni",
            "poni-detector",
            "poni-table",
            "goniometer",
            "mask",
            "mask-inverted",
            "dark",
            "flat",
            "variance",
        ],
        &["out", "preview"],
    ),
    ("ai-integrate", &["inputs"], &["out", "cache"]),
    (
        "gather",
        &["inputs", "from", "plan", "subtract", "calibrate", "drift"],
        &["plot", "plot-scans", "report"],
    ),
    ("slurm-emit", &["files", "profile", "integrator-ini", "rate-from", "bin"], &["dir"]),
];

#[test]
fn every_flag_with_a_path_is_an_input_or_an_output() {
    for (command, (name, inputs, outputs)) in filters::commands().iter().zip(PATHS) {
        assert_eq!(command.get_name(), name);
        let takes_path = |argument: &&clap::Arg| {
            let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
            is_path || !matches!(argument.get_value_hint(), ValueHint::Unknown)
        };
        for argument in command.get_arguments().filter(takes_path) {
            let flag = argument.get_long().unwrap_or(argument.get_id().as_str());
            let is_listed = inputs.contains(&flag) || outputs.contains(&flag);
            assert!(is_listed, "{name} {flag}: say what it is, and try it in the tests below");
        }
    }
}

/// The files of a run, each of which is an input of plan-split, and flags that name them.
struct Inputs {
    workspace: Workspace,
    files: Vec<PathBuf>,
    flags: Vec<OsString>,
}

impl Inputs {
    fn new() -> Self {
        let workspace = Workspace::new(&small_options());
        let image = |value: f64| {
            let pixels = (0..SHAPE[0] * SHAPE[1]).flat_map(|_| value.to_le_bytes());
            npy("<f8", SHAPE, &pixels.collect::<Vec<u8>>())
        };
        let mut files = vec![workspace.data.poni.clone()];
        let mut flags = vec!["--poni".into(), workspace.data.poni.clone().into_os_string()];
        for (flag, value) in
            [("mask", 0.0), ("mask-inverted", 1.0), ("dark", 0.0), ("flat", 1.0), ("variance", 1.0)]
        {
            let path = workspace.path(&format!("{flag}.npy"));
            fs::write(&path, image(value)).unwrap();
            flags.extend([format!("--{flag}").into(), path.clone().into_os_string()]);
            files.push(path);
        }
        flags.extend(["--error-model", "variance"].map(OsString::from));
        files.extend(read_files_below(&workspace.data.raw).into_iter().map(|(path, _)| path));
        Self { workspace, files, flags }
    }

    fn write(&mut self, name: &str, content: &str) -> PathBuf {
        let path = self.workspace.path(name);
        fs::write(&path, content).unwrap();
        self.files.push(path.clone());
        path
    }
}

/// Asserts that a run that would write over an input refuses to. Its output `link` is another name
/// of the input, because some flags take certain names only.
fn assert_refused(input: &Path, link: &Path, run: impl FnOnce() -> Outcome) {
    let before = fs::read(input).unwrap();
    let _ = fs::remove_file(link);
    fs::hard_link(input, link).unwrap();
    let refused = run();
    let pair = format!("{} over {}: {}", link.display(), input.display(), refused.stderr);
    assert_ne!(refused.status, 0, "{pair}");
    assert!(refused.stderr.contains("never overwritten"), "{pair}");
    assert!(fs::read(link).unwrap() == before && fs::read(input).unwrap() == before, "{pair}");
    fs::remove_file(link).unwrap();
}

/// Runs a filter with a file as its stdin.
fn run_with_stdin(name: &str, arguments: &[OsString], stdin: &Path) -> Outcome {
    let mut command = Command::new(program(name));
    command.args(arguments).stdin(File::open(stdin).unwrap());
    command.output().unwrap().into()
}

#[test]
fn gather_writes_over_none_of_its_inputs() {
    let mut inputs = Inputs::new();
    let out = inputs.workspace.path("out");
    let scans = inputs.workspace.scans.clone();
    let plan_flags = [&inputs.flags[..], &["--out".into(), out.clone().into_os_string()]].concat();
    let tasks = run("plan-split", &plan_flags, &scans).assert_success().stdout;
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    run("gather", &["--keep-sums"], &results).assert_success();
    let (plan, operand) = (inputs.write("tasks.jsonl", &tasks), inputs.write("r.jsonl", &results));
    let stdin = inputs.write("stdin.jsonl", &results);
    let export = run("gather", &["--keep-sums", "--export", "csv"], &results);
    let export = export.assert_success().records("summary")[0]["export"][0].clone();
    let export = PathBuf::from(export.as_str().unwrap());
    let finals = [export.with_extension("h5")];
    let background = inputs.workspace.path("background.h5");
    fs::copy(&finals[0], &background).unwrap();
    inputs.files.push(background.clone());
    let standard = inputs.write("standard.dat", "0 1\n1000 1\n");
    let calibrant = inputs.write("lab6.D", "4.156826\n2.93932\n2.399945\n2.078413\n");
    for input in inputs.files.iter().chain(&finals) {
        for (flag, link) in [
            ("--plot", inputs.workspace.path("link.svg")),
            ("--plot-scans", inputs.workspace.path("link.png")),
            ("--report", inputs.workspace.path("link.html")),
            ("--export", export.clone()),
            ("--subtract", export.with_extension("subtracted.h5")),
            ("--thickness", export.with_extension("absolute.h5")),
            ("--drift", export.with_extension("drift.h5")),
        ] {
            if flag == "--subtract" && *input == standard {
                continue;
            }
            let drift = ["--drift".into(), calibrant.clone().into_os_string()];
            let mut arguments: Vec<OsString> = ["--keep-sums", "--overwrite", "--plan"]
                .map(OsString::from)
                .into_iter()
                .chain([plan.clone().into_os_string()])
                .chain(["--subtract".into(), background.clone().into_os_string()])
                .chain(drift)
                .collect();
            if flag != "--subtract" {
                let words = ["--subtract-scale", "0.5", "--thickness", "1mm", "--calibrate"];
                arguments.extend(words.map(OsString::from));
                arguments.push(standard.clone().into_os_string());
            }
            match flag {
                "--subtract" | "--thickness" | "--drift" => (),
                "--export" => arguments.extend(["--export", "csv"].map(OsString::from)),
                _ => arguments.extend([flag.into(), link.clone().into_os_string()]),
            }
            if *input != stdin {
                arguments.push(operand.clone().into_os_string());
            } else {
                arguments.push("-".into());
            }
            assert_refused(input, &link, || run_with_stdin("gather", &arguments, &stdin));
        }
    }
}

#[test]
fn plan_split_writes_over_none_of_its_inputs() {
    let mut inputs = Inputs::new();
    let scans = inputs.workspace.scans.clone();
    let operand = inputs.write("scans.jsonl", &scans);
    let stdin = inputs.write("stdin.jsonl", &scans);
    let calibrant = inputs.write("lab6.D", "4.157\n2.939\n");
    // The first recipe is drawn; what the second one names is an input, too.
    let other = inputs.workspace.path("other.npy");
    fs::copy(inputs.workspace.path("dark.npy"), &other).unwrap();
    inputs.files.push(other.clone());
    let recipes = ["npt = 60\n", "npt = 70\ndark = 'other.npy'\n"];
    let recipes: Vec<PathBuf> =
        (0..2).map(|index| inputs.write(&format!("recipe{index}.toml"), recipes[index])).collect();
    let link = inputs.workspace.path("link.png");
    for input in &inputs.files {
        for out in [None, Some(inputs.workspace.path("out"))] {
            let mut arguments = inputs.flags.clone();
            if *input == other {
                // As a flag, `--dark` would replace the dark of the recipe.
                let dark = arguments.iter().position(|argument| argument == "--dark").unwrap();
                arguments.drain(dark..dark + 2);
            }
            for recipe in &recipes {
                arguments.extend(["--recipe".into(), recipe.clone().into_os_string()]);
            }
            arguments.extend(["--calibrant".into(), calibrant.clone().into_os_string()]);
            arguments.extend(["--overwrite".into(), "--preview".into(), link.clone().into()]);
            arguments.extend(out.into_iter().flat_map(|out| ["--out".into(), out.into()]));
            let operand = if *input == stdin { Path::new("-") } else { operand.as_path() };
            arguments.push(operand.into());
            assert_refused(input, &link, || run_with_stdin("plan-split", &arguments, &stdin));
        }
    }
}

#[test]
fn plan_split_writes_over_no_geometry_of_a_detector_that_moves() {
    let mut inputs = Inputs::new();
    let poni = inputs.files[0].clone();
    let table = inputs.write("table", &format!("0 {}\n", poni.display()));
    let goniometer = inputs.write(
        "goniometer.json",
        r#"{"content": "Goniometer calibration v2", "detector": "Pilatus100k", "wavelength": 1e-10, "param": [],
            "trans_function": {"param_names": [], "pos_names": ["rot"], "dist_expr": "0.1", "poni1_expr": "0",
                "poni2_expr": "0", "rot1_expr": "rot", "rot2_expr": "0", "rot3_expr": "0"}}"#,
    );
    let fixed =
        inputs.write("fixed.toml", &format!("poni = {:?}\nnpt = 50\n", poni.display().to_string()));
    let link = inputs.workspace.path("link.png");
    for (key, file, all) in [
        ("poni-table", &table, &[&table, &poni][..]),
        ("goniometer", &goniometer, &[&goniometer][..]),
    ] {
        let moving = format!("{key} = {:?}\nradial-range = [5, 20]\n", file.display().to_string());
        let moving = inputs.write("moving.toml", &moving);
        let by_flag =
            vec![format!("--{key}").into(), file.clone().into(), "--radial-range=5,20".into()];
        // The first recipe is drawn; what the second one names is an input, too.
        let by_recipe: Vec<OsString> = [&fixed, &moving]
            .into_iter()
            .flat_map(|file| ["--recipe".into(), file.clone().into()])
            .collect();
        for flags in [by_flag, by_recipe] {
            for input in all {
                for out in [None, Some(inputs.workspace.path("out"))] {
                    let mut arguments: Vec<OsString> = flags.clone();
                    arguments.extend([
                        "--overwrite".into(),
                        "--preview".into(),
                        link.clone().into(),
                    ]);
                    arguments.extend(out.into_iter().flat_map(|out| ["--out".into(), out.into()]));
                    let scans = &inputs.workspace.scans;
                    assert_refused(input, &link, || run("plan-split", &arguments, scans));
                }
            }
        }
    }
}

#[test]
fn inputs_in_an_output_directory_stay_as_they_are() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &[]);
    let (jobs, cache) = (workspace.path("jobs"), workspace.path("cache"));
    let [jobs_text, cache_text] = [&jobs, &cache].map(|path| path.to_str().unwrap());
    run("slurm-emit", &["--dir", jobs_text], &tasks).assert_success();
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("tasks.jsonl"), &tasks).unwrap();
    let arguments = ["--cache", cache_text, &format!("{cache_text}/tasks.jsonl")];
    let results = run("ai-integrate", &arguments, "").assert_success().stdout;
    assert_eq!(fs::read_to_string(cache.join("tasks.jsonl")).unwrap(), tasks);
    let ini = "[computations distribution]\nn_workers = 2\n";
    let files = [("site.toml", "n-workers = 3\n"), ("rates.jsonl", &results), ("site.ini", ini)];
    for (name, content) in files {
        fs::write(jobs.join(name), content).unwrap();
    }
    let path = |name: &str| format!("{jobs_text}/{name}");
    let arguments = [
        "--dir",
        jobs_text,
        "--profile",
        &path("site.toml"),
        "--integrator-ini",
        &path("site.ini"),
        "--rate-from",
        &path("rates.jsonl"),
        &path("plan.jsonl"),
    ];
    run("slurm-emit", &arguments, "").assert_success();
    for (name, content) in files.into_iter().chain([("plan.jsonl", tasks.as_str())]) {
        assert_eq!(fs::read_to_string(jobs.join(name)).unwrap(), content, "{name}");
    }
}

#[test]
fn outputs_are_refused_before_any_work() {
    let workspace = Workspace::new(&small_options());
    let place = workspace.path("");
    fs::write(workspace.path("file"), "").unwrap();
    std::os::unix::fs::symlink(&place, workspace.path("here")).unwrap();
    let gather = |flags: &[&str]| {
        let mut command = Command::new(program("gather"));
        // A directory without results: no work could be done.
        command.current_dir(&place).args(["--from", "no/such/results"]).args(flags);
        Outcome::from(command.output().unwrap())
    };
    let missing = "its directory does not exist: create it first";
    let cases: [(&[&str], &str); 11] = [
        (&["--plot", "q.png", "--plot-scans", "q.png"], "q.png: is the file of --plot, too"),
        (&["--plot", "q.svg", "--plot-scans", "./q.svg"], "./q.svg: is the file of --plot, too"),
        (&["--plot", "q.pdf", "--plot-scans", "here/q.pdf"], "is the file of --plot, too"),
        (&["--plot", "nodir/q.png"], missing),
        (&["--plot-scans", "nodir/q.svg"], missing),
        (&["--report", "nodir/q.html"], missing),
        (&["--plot", "file/q.png"], missing),
        (&["--plot", "/proc/q.png"], "its directory can't be written to: "),
        (&["--plot-scans", "/proc/q.pdf"], "its directory can't be written to: "),
        (&["--report", "/proc/q.html"], "its directory can't be written to: "),
        (&["--plot", "q.png", "--plot-scans", "other.png"], "no such directory: expected"),
    ];
    for (flags, expected) in cases {
        let refused = gather(flags);
        assert_eq!(refused.status, 2, "{flags:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{flags:?}: {}", refused.stderr);
    }
    for (path, expected) in
        [("nodir/q.png", missing), ("/proc/q.png", "its directory can't be written to: ")]
    {
        let flags = ["--poni", "no/such.poni", "--preview", path];
        let refused = run("plan-split", &flags, "");
        assert_eq!(refused.status, 2, "{path}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{path}: {}", refused.stderr);
    }
}
