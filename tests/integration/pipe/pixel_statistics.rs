//! Statistics of each pixel over a scan: exactly those of numpy over the same frames, the same for
//! any cut and after any interruption, and never silently of fewer frames.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sample::{Defect, Options};
use serde_json::{Value, json};

use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, files_below, program, run, run_python, small_options,
};

pub(super) const PONI: &str = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
    Distance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

/// Writes 40 frames of each pixel type and codec, with dead, hot, saturated and invalid pixels.
const WRITE: &str = r#"
import h5py, hdf5plugin, numpy, pathlib, sys
folder, *cases = sys.argv[1:]
for case in cases:
    dtype, _, rest = case.partition("=")
    name, _, arguments = rest.partition("=")
    random = numpy.random.default_rng(len(case))
    info = numpy.iinfo(dtype)
    frames = random.poisson(0.3, (40, 61, 43)).astype(dtype)
    frames[:, 5] = random.integers(info.min, info.max, (40, 43), dtype=dtype, endpoint=True)
    frames[:, 7, 1] = 0
    frames[:, 7, 2] = info.max // 2
    frames[:, 7, 3] = info.max
    frames[::3, 8] = info.max
    frames[1::3, 8] = info.max - 1
    frames[:, 9] = info.min
    with h5py.File(pathlib.Path(folder) / f"{dtype}_{name}.h5", "w") as file:
        eval(f"file.create_dataset('data', data=frames, {arguments})")
"#;

/// Compares images with numpy's of the frames whose values from `low` to `high` are no measurement.
const COMPARE: &str = r#"
import h5py, hdf5plugin, json, numpy, sys
raw, images, low, high = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with h5py.File(raw) as file:
    frames = file["data"][()].astype("i8")
valid = (frames < low) | (frames > high)
n = valid.sum(axis=0)
whole = numpy.where(valid, frames, 0).astype(object)
total, squares = whole.sum(axis=0), (whole * whole).sum(axis=0)
divide = lambda one, two: numpy.array([[float(a) / b if b else numpy.nan for a, b in zip(*row)] for row in zip(one, two)])
largest = numpy.where(n > 0, numpy.where(valid, frames, -2**62).max(axis=0), numpy.nan)
expected = {"mean": divide(total, n.astype("f8")),
            "variance": divide(n.astype(object) * squares - total * total, n.astype("f8") * (n - 1.0)),
            "max": largest, "zeros": ((frames == 0) & valid).sum(axis=0), "frames": n}
out = {}
with h5py.File(images) as file:
    entry = file[file.attrs["default"]]
    for name, image in expected.items():
        out[name] = bool(numpy.array_equal(entry[name][name][()], image, equal_nan=image.dtype.kind == "f"))
    about = entry["statistics"]
    out["about"] = [int(about["complete"][()]), int(about["frame_count"][()]), about["no_measurement"][()].decode()]
# numpy's own, where no value is invalid: to rounding.
all_valid = n == len(frames)
with h5py.File(images) as file:
    entry = file["entry"]
    out["numpy"] = bool(numpy.allclose(entry["variance/variance"][()][all_valid], frames.var(axis=0, ddof=1)[all_valid], 1e-9)
                        and numpy.allclose(entry["mean/mean"][()][all_valid], frames.mean(axis=0)[all_valid], 1e-12))
import silx.io, silx.io.nxdata
with silx.io.open(images) as file:
    plot = silx.io.nxdata.get_default(file)
    out["plot"] = [plot.is_valid, plot.signal_name, list(plot.signal.shape), plot.interpretation]
print(json.dumps(out))
"#;

/// Prints digests of all images, and what they are of.
const DIGEST: &str = r#"
import h5py, hashlib, json, sys
with h5py.File(sys.argv[1]) as file:
    entry = file["entry"]
    names = ("mean", "max", "variance", "zeros", "frames")
    out = {name: hashlib.sha256(entry[name][name][()].tobytes()).hexdigest() for name in names}
    for name in ("frames", "frames_without_statistics"):
        out["of_" + name] = entry["statistics"][name][()].decode()
    out["most"], out["least"] = int(entry["frames/frames"][()].max()), int(entry["frames/frames"][()].min())
print(json.dumps(out))
"#;

pub(super) fn digests(gathered: &Outcome) -> Option<BTreeMap<String, Value>> {
    let summary = &gathered.records("summary")[0];
    let images = summary["pixel_images"].as_str().expect("the images' path");
    let printed = run_python(DIGEST, [images])?;
    Some(serde_json::from_slice(&printed).expect("JSON"))
}

pub(super) fn gather_images(results: &str) -> Outcome {
    run("gather", &["--pixel-images"], results)
}

/// Integrates with statistics, and gathers with images.
fn process(workspace: &Workspace, out: &str, plan: &[&str], integrate: &[&str]) -> Outcome {
    let tasks = workspace.plan(out, plan);
    let results = run("ai-integrate", &[&["--pixel-stats"], integrate].concat(), &tasks);
    gather_images(&results.stdout)
}

#[test]
fn images_are_numpys_for_each_pixel_type_and_layout() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let bslz4 = "chunks=(1, 61, 43), **hdf5plugin.Bitshuffle(cname='lz4')";
    // Values without a measurement: of the detector `Detector`, the two highest in u32; otherwise --dummy.
    const HIGHEST: i64 = u32::MAX as i64;
    let cases = [
        ("u4", "bslz4", bslz4, None, (HIGHEST - 1, HIGHEST)),
        ("i4", "bslz4", bslz4, Some("-5,3"), (-8, -2)),
        ("u2", "bslz4", bslz4, Some("65535"), (65535, 65535)),
        ("i2", "gzip", "chunks=(1, 61, 43), compression='gzip'", Some("0"), (0, 0)),
        ("u1", "stacked", "chunks=(7, 61, 43), compression='gzip'", Some("none"), (1, 0)),
        ("u4", "pieces", "chunks=(3, 20, 43)", None, (HIGHEST - 1, HIGHEST)),
        ("i1", "contiguous", "", Some("127,127"), (0, 127)),
    ];
    let arguments = cases.map(|(dtype, name, how, ..)| format!("{dtype}={name}={how}"));
    let folder_name = folder.to_str().unwrap().to_owned();
    if run_python(WRITE, [folder_name].into_iter().chain(arguments)).is_none() {
        return;
    }
    let poni = folder.join("g.poni");
    std::fs::write(&poni, PONI).unwrap();
    for (dtype, name, _, dummy, (low, high)) in cases {
        let raw = folder.join(format!("{dtype}_{name}.h5"));
        let scans =
            run("scan-find", &[format!("{}::/data", raw.display())], "").assert_success().stdout;
        let out = folder.join(format!("{dtype}_{name}"));
        let mut plan =
            vec!["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap(), "--npt", "50"];
        plan.extend(["--by", "frames=9", "--valid-max", "100"]);
        plan.extend(dummy.iter().flat_map(|dummy| ["--dummy", dummy]));
        let tasks = run("plan-split", &plan, &scans).assert_success().stdout;
        let results = run("ai-integrate", &["--pixel-stats"], &tasks).assert_success().stdout;
        let gathered = gather_images(&results).assert_success();
        let images = gathered.records("summary")[0]["pixel_images"].as_str().unwrap().to_owned();
        let arguments = [raw.to_str().unwrap(), &images, &low.to_string(), &high.to_string()];
        let found = run_python(COMPARE, arguments).expect("Python is there");
        let found: Value = serde_json::from_slice(&found).unwrap();
        let invalid = match (low, high) {
            (1, 0) => "none".to_owned(),
            (low, high) if low == high => low.to_string(),
            (low, high) => format!("{low} to {high}"),
        };
        let expected = json!({
            "mean": true, "variance": true, "max": true, "zeros": true, "frames": true,
            "numpy": true, "about": [1, 40, invalid], "plot": [true, "mean of the valid values", [61, 43], "image"],
        });
        // Dummies may be written as they were given.
        assert_eq!(found, expected, "{dtype} {name}");
    }
}

#[test]
fn any_cut_order_and_number_of_threads_gives_the_same_images() {
    let workspace = Workspace::new(&small_options());
    let whole = process(&workspace, "whole", &["--by", "scan"], &["--threads", "1"]);
    let Some(expected) = digests(&whole.assert_success()) else { return };
    assert_eq!((&expected["of_frames"], &expected["most"]), (&json!("0 to 23"), &json!(24)));
    let ways: [(&str, &[&str]); 4] = [
        ("file", &["--threads", "2"]),
        ("frames=1", &["--threads", "1", "--engines", "3"]),
        ("frames=5", &["--threads", "3", "--batch-frames", "2"]),
        ("frames=10", &["--threads", "2", "--batch-frames", "1"]),
    ];
    for (number, (by, integrate)) in ways.iter().enumerate() {
        let tasks = workspace.plan(&format!("out{number}"), &["--by", by]);
        let reversed: Vec<&str> = tasks.lines().rev().collect();
        let arguments = [&["--pixel-stats"], *integrate].concat();
        let results = run("ai-integrate", &arguments, &(reversed.join("\n") + "\n"));
        let gathered = gather_images(&results.assert_success().stdout).assert_success();
        assert_eq!(digests(&gathered).unwrap(), expected, "--by {by}");
    }
    // With two recipes, the statistics are made once, and each final file gets the images.
    let recipe = workspace.path("second.toml");
    std::fs::write(&recipe, "").unwrap();
    let first = workspace.plan("two", &["--by", "frames=5"]);
    run("ai-integrate", &["--pixel-stats"], &first).assert_success();
    let second =
        workspace.plan("two", &["--by", "frames=8", "--recipe-name", "mm", "--unit", "r_mm"]);
    let second = run("ai-integrate", &["--pixel-stats"], &second).assert_success().stdout;
    assert_eq!(files_below(&workspace.path("two/.azpipe/pixels")).len(), 5);
    assert_eq!(digests(&gather_images(&second).assert_success()).unwrap(), expected);
}

#[test]
fn a_rerun_adds_the_frames_that_lack_statistics_and_keeps_the_patterns() {
    let workspace = Workspace::new(&small_options());
    let whole = process(&workspace, "whole", &["--by", "scan"], &[]).assert_success();
    let Some(expected) = digests(&whole) else { return };
    // Patterns without statistics.
    let first = workspace.process("out", &["--by", "frames=8"], &[]).assert_success();
    let digest = |gathered: &Outcome| gathered.records("summary")[0]["data_digest"].clone();
    let tasks = workspace.plan("out", &["--by", "frames=8"]);
    let again = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let none = gather_images(&again.stdout);
    assert_eq!(none.status, 1);
    let why = "its scan has no pixel statistics: run ai-integrate with --pixel-stats";
    assert!(none.stderr.contains(why), "{}", none.stderr);
    // Statistics of one task, by another cut.
    let other = workspace.plan("out", &["--by", "frames=10"]);
    let one = other.lines().nth(1).unwrap().to_owned() + "\n";
    let results = run("ai-integrate", &["--pixel-stats"], &one).assert_success();
    assert_eq!(results.records("result")[0]["skipped"], true);
    assert!(workspace.parts("out").is_empty(), "the patterns are kept");
    let some = gather_images(&results.stdout);
    assert_eq!(some.status, 1);
    let why =
        "statistics of 10 frames only, without 14 frames (0 to 9, 20 to 23), which have patterns";
    assert!(some.stderr.contains(why), "{}", some.stderr);
    let found = digests(&some).unwrap();
    assert_eq!(
        (&found["of_frames"], &found["of_frames_without_statistics"], &found["most"]),
        (&json!("10 to 19"), &json!("0 to 9, 20 to 23"), &json!(10))
    );
    let allowed = run("gather", &["--pixel-images", "--allow-missing"], &results.stdout);
    allowed.assert_success();
    // The rest, by tasks that overlap it.
    let results = run("ai-integrate", &["--pixel-stats"], &tasks).assert_success();
    let all = gather_images(&results.stdout).assert_success();
    assert_eq!(digests(&all).unwrap(), expected);
    assert_eq!((digest(&all), digest(&whole)), (digest(&first), digest(&first)));
    // Nothing is left to do.
    let files = || files_below(&workspace.path("out/.azpipe/pixels"));
    let before = files();
    run("ai-integrate", &["--pixel-stats"], &workspace.plan("out", &["--by", "frames=1"]));
    assert_eq!(files(), before);
    // With --force, all frames are added anew, and none twice: earlier files of them go.
    let forced = workspace.plan("out", &["--by", "frames=7"]);
    let results = run("ai-integrate", &["--pixel-stats", "--force"], &forced).assert_success();
    let names = |files: &[PathBuf]| -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap()[..17].to_owned();
        files.iter().map(name).collect()
    };
    let made = ["00000000-00000006", "00000007-00000013", "00000014-00000020", "00000021-00000023"];
    assert_eq!(names(&files()), made);
    assert_eq!(digests(&gather_images(&results.stdout).assert_success()).unwrap(), expected);
}

#[test]
fn kills_lose_and_double_no_frame() {
    let workspace = Workspace::new(&small_options());
    let began = Instant::now();
    let whole = process(&workspace, "whole", &["--by", "frames=3"], &[]).assert_success();
    let seconds = began.elapsed().as_secs_f64();
    let Some(expected) = digests(&whole) else { return };
    for number in 1..9 {
        let out = format!("killed{number}");
        for (by, share) in [("frames=3", f64::from(number) / 10.0), ("frames=5", 0.2)] {
            let tasks = workspace.path("tasks.jsonl");
            std::fs::write(&tasks, workspace.plan(&out, &["--by", by])).unwrap();
            let mut child = Command::new(program("ai-integrate"))
                .args(["--pixel-stats", "--threads", "2"])
                .arg(&tasks)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_secs_f64(share * seconds));
            let _ = child.kill();
            child.wait().unwrap();
        }
        let gathered = process(&workspace, &out, &["--by", "frames=4"], &[]).assert_success();
        assert_eq!(digests(&gathered).unwrap(), expected, "kill {number}");
        let left = files_below(&workspace.path(&out).join(".azpipe/pixels"));
        let is_whole = |path: &Path| path.extension().is_some_and(|end| end == "pixels");
        assert!(left.iter().all(|path| is_whole(path)), "{left:?}");
    }
}

#[test]
fn frames_that_cannot_be_read_are_not_counted() {
    for (defect, frames, most) in [
        (Defect::TruncatedChunk, "0 to 11, 13 to 23", 23),
        (Defect::MissingFile, "0 to 6, 14 to 23", 17),
        (Defect::Aborted, "0 to 11", 12),
    ] {
        let options = Options { scans: 0, defects: vec![defect], ..small_options() };
        let workspace = Workspace::new(&options);
        let gathered = process(&workspace, "out", &["--by", "frames=10"], &[]);
        let Some(found) = digests(&gathered) else { return };
        assert_eq!(
            (&found["of_frames"], &found["most"], &found["of_frames_without_statistics"]),
            (&json!(frames), &json!(most), &json!("")),
            "{defect:?}: {}",
            gathered.stderr
        );
    }
}

#[test]
fn statistics_that_are_damaged_are_not_added_up() {
    let workspace = Workspace::new(&small_options());
    let results =
        run("ai-integrate", &["--pixel-stats"], &workspace.plan("out", &["--by", "frames=12"]));
    let results = results.assert_success().stdout;
    let Some(expected) = digests(&gather_images(&results).assert_success()) else { return };
    let file = files_below(&workspace.path("out/.azpipe/pixels"))[1].clone();
    let good = std::fs::read(&file).unwrap();
    for at in [40, good.len() - 5] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&file, &bad).unwrap();
        let gathered = gather_images(&results);
        assert_eq!(gathered.status, 1, "{}", gathered.stderr);
        assert!(gathered.stderr.contains(".pixels: damaged"), "{}", gathered.stderr);
    }
    // A rerun can tell by the head alone; other damage is found by gather, which says what to do.
    std::fs::remove_file(&file).unwrap();
    let tasks = workspace.plan("out", &["--by", "frames=12"]);
    let rerun = run("ai-integrate", &["--pixel-stats"], &tasks).assert_success();
    assert_eq!(digests(&gather_images(&rerun.stdout).assert_success()).unwrap(), expected);
}

#[test]
fn patterns_are_kept_where_statistics_can_not_be_written() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    let root = workspace.path("out/.azpipe");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("pixels"), "").unwrap();
    let results = run("ai-integrate", &["--pixel-stats"], &tasks);
    assert_eq!(results.status, 2, "{}", results.stderr);
    assert!(results.stderr.contains("24 of 24 frames done and kept"), "{}", results.stderr);
    assert_eq!(results.records("result")[0]["done"], json!([[0, 24]]));
    assert_eq!(workspace.parts("out").len(), 1);
    std::fs::remove_file(root.join("pixels")).unwrap();
    let results = run("ai-integrate", &["--pixel-stats"], &tasks).assert_success();
    assert_eq!(results.records("result")[0]["skipped"], true);
    gather_images(&results.stdout).assert_success();
}

#[test]
fn images_replace_azpipes_own_and_clean_removes_statistics_without_results() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &[]);
    let results = run("ai-integrate", &["--pixel-stats"], &tasks).assert_success().stdout;
    let gathered = gather_images(&results).assert_success();
    let images = gathered.records("summary")[0]["pixel_images"].as_str().unwrap().to_owned();
    let images = Path::new(&images);
    gather_images(&results).assert_success();
    std::fs::write(images, "mine").unwrap();
    assert_eq!(gather_images(&results).status, 1);
    assert_eq!(std::fs::read(images).unwrap(), b"mine");
    run("gather", &["--pixel-images", "--overwrite"], &results).assert_success();
    assert!(std::fs::metadata(images).unwrap().len() > 1000);
    let root = workspace.path("out");
    let clean =
        || run("gather", &["--from", root.to_str().unwrap(), "--clean"], "").assert_success();
    let statistics = root.join(".azpipe/pixels");
    clean();
    assert_eq!(files_below(&statistics).len(), 1);
    let final_file = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
    std::fs::remove_file(final_file).unwrap();
    clean();
    assert!(!statistics.exists(), "{:?}", files_below(&root));
}

#[test]
fn a_suggested_mask_that_the_recipe_names_is_kept_and_a_copy_of_it_can_be_used() {
    let workspace = Workspace::new(&small_options());
    let gathered = process(&workspace, "out", &[], &[]).assert_success();
    let images = gathered.records("summary")[0]["pixel_images"].as_str().unwrap().to_owned();
    // Images of the same second may be equal to the byte, and are another file all the same.
    let inode_of = |file: &str| std::fs::metadata(file).unwrap().ino();
    let (first, inode) = (std::fs::read(&images).unwrap(), inode_of(&images));
    let masked_by = |file: &str| {
        let mask = format!("{file}::/entry/suggested_mask/suggested_mask");
        process(&workspace, "out", &["--replace", "--mask", &mask], &[])
    };
    let refused = masked_by(&images);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    let remedy =
        "never overwritten: copy it to another directory and use the copy, or pass another --out";
    assert!(refused.stderr.contains(remedy), "{}", refused.stderr);
    // The file is in use: it is not to be removed, and can't be written again.
    assert!(!refused.stderr.contains("exports of the earlier data"), "{}", refused.stderr);
    assert_eq!((std::fs::read(&images).unwrap(), inode_of(&images)), (first, inode));
    let copy = workspace.path("mask.h5");
    std::fs::copy(&images, &copy).unwrap();
    // It is the recipe of before, whose newest paths count.
    masked_by(copy.to_str().unwrap()).assert_success();
    assert_ne!(inode_of(&images), inode);
}
