//! `ai-integrate --sparse`: the pixels that clipping rejects are those of a plain implementation by
//! numpy with pyFAI's matrix, read by ImageD11; with the patterns, they give back all counts.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Outcome, python_with, run, run_python};

const PONI: &str = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
    Distance: 0.1\nPoni1: 0.007\nPoni2: 0.005\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

/// Writes 12 frames of each pixel type in another layout: the first without spots, the last with a
/// frame of which half the pixels are bright.
const WRITE: &str = r#"
import h5py, hdf5plugin, numpy, pathlib, sys
folder = pathlib.Path(sys.argv[1])
bslz4 = dict(chunks=(1, 150, 101), **hdf5plugin.Bitshuffle(cname="lz4"))
for number, (dtype, how) in enumerate([("u2", bslz4), ("u4", bslz4), ("i4", dict(chunks=(1, 150, 101), compression="gzip")),
                                       ("u1", dict(chunks=(4, 50, 101))), ("f4", {})]):
    random = numpy.random.default_rng(number)
    frames = random.poisson(8, (12, 150, 101)).astype("i8")
    top = {"u1": 240, "u2": 60000}.get(dtype, 200000)
    for frame in frames[1:11]:
        for row, col in zip(random.integers(0, 148, 25), random.integers(0, 99, 25)):
            frame[row:row + 3, col:col + 2] += random.integers(20, min(top, 500), (3, 2))
        frame[random.integers(0, 150, 3), random.integers(0, 101, 3)] = top
        frame[random.integers(0, 150, 40), random.integers(0, 101, 40)] = 0
    frames[11, ::2] += 100
    with h5py.File(folder / f"{dtype}.h5", "w") as file:
        file.create_dataset("data", data=frames.astype(dtype), **how)
"#;

/// Compares the pixels of a final file with numpy's, and its sums with those of a file that was not
/// clipped.
const COMPARE: &str = r#"
import json, sys
import h5py, hdf5plugin, numpy, pyFAI, pyFAI.detectors
from pyFAI.integrator.azimuthal import AzimuthalIntegrator
from ImageD11.sparseframe import SparseScan
raw, final, plain, split, model = sys.argv[1:]
with h5py.File(raw) as file:
    frames = file["data"][()]
shape = frames.shape[1:]
detector = pyFAI.detectors.Detector(1e-4, 1e-4, max_shape=shape)
ai = AzimuthalIntegrator(dist=0.1, poni1=0.007, poni2=0.005, detector=detector, wavelength=1e-10)
engine = ai.setup_sparse_integrator(shape, 40, unit="q_nm^-1", split=split, algo="CSR", empty=0.0, scale=False)
indptr, indices, weights = engine.indptr, engine.indices, engine.data.astype("f8")
solid = ai.solidAngleArray(shape).ravel().astype("f8")
entries = numpy.bincount(indices, minlength=frames[0].size)

def clip(frame):
    """The pixels that all their bins reject above the mean, the number of all other rejected shares, and whether a
    pixel is left."""
    above, rejected, left = numpy.zeros(frame.size, int), 0, False
    for start, end in zip(indptr[:-1], indptr[1:]):
        pixels, w = indices[start:end], weights[start:end]
        s, n = frame.ravel()[pixels].astype("f8"), solid[pixels]
        keep = numpy.ones(len(pixels), bool)
        for _ in range(5):
            if not keep.any():
                break
            norm = (w * n)[keep]
            mean = (w * s)[keep].sum() / norm.sum()
            variance = (w * w * numpy.fmax(s, 1))[keep] if model == "poisson" else (w * n * (s / n - mean))[keep] ** 2
            std = numpy.sqrt(variance.sum() / (norm * norm).sum())
            chauvenet = numpy.sqrt(2 * numpy.log(max(w[keep].sum(), 3) / numpy.sqrt(2 * numpy.pi)))
            limit = max(4.0, chauvenet) * std
            far = keep & (abs(s / n - mean) > limit * (1 + 1e-9))
            if not far.any():
                break
            numpy.add.at(above, pixels[far & (s / n > mean)], 1)
            rejected += far.sum()
            keep &= ~far
        left |= keep.any()
    if above.sum() > max(len(indices) // 16, 4096):
        return None, int(rejected), left
    written = numpy.nonzero((above == entries) & (entries > 0))[0]
    return written, int(rejected - entries[written].sum()), left

def integrated(path):
    with h5py.File(path) as file:
        entry = file[file.attrs["default"]]
        return entry[entry.attrs["default"]]["signal"][()]

with h5py.File(final) as file:
    entry = file[file.attrs["default"]]
    group = entry[entry.attrs["default"]].parent["sparse"]
    path, status, other = group.name, group["status"][()], group["other_shares"][()]
    frame_status = entry[entry.attrs["default"]]["frame_status"][()]
    types = [str(group[name].dtype) for name in ("nnz", "row", "col", "intensity")]
scan = SparseScan(final, path[1:])
wrong, total, others = [], 0, 0
signal, unclipped = integrated(final), integrated(plain)
for number, frame in enumerate(frames):
    (pixels, other_shares, left), found = clip(frame), scan.getframe(number)
    if not left or frame_status[number]:
        if left or frame_status[number] != 12 or status[number] != 0 or found is not None:
            wrong.append([number, "all clipped", int(frame_status[number]), int(status[number])])
        continue
    if pixels is None:
        if other[number] != other_shares:
            wrong.append([number, "shares of too many", int(other[number]), other_shares])
        if status[number] != 2 or found is not None:
            wrong.append([number, "too many"])
        continue
    total, others = total + len(pixels), others + other_shares
    has = numpy.zeros(0, int) if found is None else found.row.astype(int) * shape[1] + found.col
    values = numpy.zeros(0) if found is None else found.pixels["intensity"]
    if status[number] != 1 or not numpy.array_equal(has, pixels) or not numpy.array_equal(values, frame.ravel()[pixels]):
        wrong.append([number, len(has), len(pixels), int(status[number])])
    if other[number] != other_shares:
        wrong.append([number, "shares", int(other[number]), other_shares])
    # Pattern and pixels give back the sums of all pixels.
    if other[number] == 0:
        only = numpy.zeros(frame.size)
        only[has] = values
        spots = numpy.array([(weights[a:b] * only[indices[a:b]]).sum() for a, b in zip(indptr[:-1], indptr[1:])])
        exact = split == "no"
        same = numpy.array_equal(signal[number] + spots, unclipped[number]) if exact else \
            numpy.allclose(signal[number] + spots, unclipped[number], 1e-5)
        if not same:
            wrong.append([number, "sums", float(abs(signal[number] + spots - unclipped[number]).max())])
print(json.dumps({"wrong": wrong, "shape": list(scan.shape), "types": types, "pixels": total, "others": others,
                  "whole": int((other == 0).sum()), "status": status.tolist(), "path": path}))
"#;

/// Prints a digest of all that ImageD11 reads.
const DIGEST: &str = r#"
import h5py, hashlib, json, sys
with h5py.File(sys.argv[1]) as file:
    entry = file[file.attrs["default"]]
    group = entry[entry.attrs["default"]].parent.get("sparse")
    names = ("nnz", "row", "col", "intensity", "status", "other_shares")
    print(json.dumps(group and {name: hashlib.sha256(group[name][()].tobytes()).hexdigest() for name in names}))
"#;

/// Raw files, and a PONI file of their detector.
pub(super) struct Spots {
    directory: tempfile::TempDir,
}

impl Spots {
    /// Writes the files. `None` without ImageD11.
    pub(super) fn new() -> Option<Self> {
        python_with("ImageD11")?;
        let directory = tempfile::tempdir().unwrap();
        run_python(WRITE, [directory.path()])?;
        fs::write(directory.path().join("g.poni"), PONI).unwrap();
        Some(Self { directory })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn plan(&self, raw: &str, out: &str, flags: &[&str]) -> String {
        let raw = format!("{}::/data", self.path(&format!("{raw}.h5")).display());
        let scans = run("scan-find", &[raw], "").assert_success().stdout;
        let (poni, out) = (self.path("g.poni"), self.path(out));
        let mut arguments =
            vec!["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap(), "--npt", "40"];
        arguments.extend(flags);
        run("plan-split", &arguments, &scans).assert_success().stdout
    }
}

/// Flags of plan-split: clipping at four standard deviations.
pub(super) const CLIP: [&str; 2] = ["--sigma-clip", "4"];

pub(super) fn final_path(gathered: &Outcome) -> PathBuf {
    gathered.records("summary")[0]["final"].as_str().expect("a path").into()
}

pub(super) fn process(tasks: &str, integrate: &[&str], gather: &[&str]) -> PathBuf {
    let results = run("ai-integrate", integrate, tasks).assert_success().stdout;
    final_path(&run("gather", gather, &results).assert_success())
}

pub(super) fn digest(path: &Path) -> Value {
    serde_json::from_slice(&run_python(DIGEST, [path]).expect("Python")).expect("JSON")
}

#[test]
fn imaged11_reads_the_pixels_that_numpy_rejects_with_pyfais_matrix() {
    let Some(spots) = Spots::new() else { return };
    let cases = [
        ("u2", "no", "poisson", "uint32"),
        ("u4", "no", "azimuthal", "uint32"),
        ("u4", "full", "poisson", "uint32"),
        ("i4", "bbox", "azimuthal", "int32"),
        ("u1", "no", "poisson", "uint32"),
        ("f4", "bbox", "poisson", "float64"),
    ];
    for (number, (raw, split, model, dtype)) in cases.into_iter().enumerate() {
        let flags = ["--split", split, "--error-model", model];
        let tasks = spots.plan(raw, &format!("out{number}"), &[&CLIP[..], &flags].concat());
        let allowing = ["--sparse", "--allow-missing"];
        let results = run("ai-integrate", &allowing, &tasks).assert_success();
        let allowing = ["--keep-sums", "--allow-missing"];
        let gathered = run("gather", &allowing, &results.stdout).assert_success();
        let clipped = final_path(&gathered);
        let tasks = spots.plan(raw, &format!("plain{number}"), &flags);
        let plain = process(&tasks, &[], &["--keep-sums"]);
        let raw = spots.path(&format!("{raw}.h5"));
        let arguments = [raw.as_path(), &clipped, &plain, split.as_ref(), model.as_ref()];
        let found = run_python(COMPARE, arguments).expect("Python is there");
        let found: Value = serde_json::from_slice(&found).unwrap();
        let about = format!("{number}: {found}");
        assert_eq!(found["wrong"], json!([]), "{about}");
        assert_eq!(found["shape"], json!([12, 150, 101]));
        assert_eq!(found["types"], json!(["uint32", "uint16", "uint16", dtype]));
        assert!(found["pixels"].as_u64() > Some(500), "{about}");
        let is_told =
            results.stderr.contains("no sparse pixels of frame 11: clipping rejects more");
        assert_eq!(is_told, found["status"][11] == 2, "{about} {}", results.stderr);
    }
}

#[test]
fn any_cut_and_number_of_threads_gives_the_same_pixels() {
    let Some(spots) = Spots::new() else { return };
    let whole = process(&spots.plan("u4", "whole", &CLIP), &["--sparse", "--threads", "1"], &[]);
    let expected = digest(&whole);
    let ways: [(&str, &[&str], &[&str]); 4] = [
        ("frames=1", &["--threads", "1", "--engines", "2"], &[]),
        ("frames=5", &["--threads", "3", "--batch-frames", "2"], &["--keep-parts"]),
        ("frames=7", &["--threads", "2", "--batch-frames", "1"], &["--layout", "virtual"]),
        ("frames=4", &[], &["--layout", "integrator", "--average", "mean"]),
    ];
    for (number, (by, integrate, gather)) in ways.into_iter().enumerate() {
        let tasks = spots.plan("u4", &format!("out{number}"), &[&CLIP[..], &["--by", by]].concat());
        let tasks: Vec<&str> = tasks.lines().rev().collect();
        let tasks = tasks.join("\n") + "\n";
        let path = process(&tasks, &[&["--sparse"], integrate].concat(), gather);
        assert_eq!(digest(&path), expected, "{by}");
    }
}

#[test]
fn frames_that_lack_only_their_pixels_are_integrated_again() {
    let Some(spots) = Spots::new() else { return };
    let whole = process(&spots.plan("u2", "whole", &CLIP), &["--sparse"], &[]);
    let expected = digest(&whole);
    let plan = |by: &str| spots.plan("u2", "out", &[&CLIP[..], &["--by", by]].concat());
    // Patterns alone, and pixels of one of three tasks.
    let results = run("ai-integrate", NO_ARGUMENTS, &plan("frames=4")).assert_success();
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    let data_digest = |gathered: &Outcome| gathered.records("summary")[0]["data_digest"].clone();
    let before = data_digest(&gathered);
    assert_eq!(digest(&final_path(&gathered)), Value::Null);
    let one = plan("frames=5").lines().nth(1).unwrap().to_owned() + "\n";
    let results = run("ai-integrate", &["--sparse"], &one).assert_success();
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    let path = final_path(&gathered);
    let some = digest(&path);
    assert!(some.is_object() && some != expected, "{some}");
    assert_eq!(data_digest(&gathered), before, "the patterns are the same");
    // The rest, by tasks that overlap it.
    let results = run("ai-integrate", &["--sparse"], &plan("frames=7")).assert_success();
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert_eq!((digest(&path), data_digest(&gathered)), (expected.clone(), before));
    // Nothing is left to do.
    let again = run("ai-integrate", &["--sparse"], &plan("frames=3")).assert_success();
    let is_skipped = |result: &Value| result["skipped"] == true;
    assert!(again.records("result").iter().all(is_skipped), "{}", again.stdout);
    // Patterns that are made anew keep the pixels of the same raw data.
    let forced = run("ai-integrate", &["--force"], &plan("frames=12")).assert_success();
    run("gather", NO_ARGUMENTS, &forced.stdout).assert_success();
    assert_eq!(digest(&path), expected);
    run("gather", &["--from", spots.path("out").to_str().unwrap(), "--clean"], "").assert_success();
    assert_eq!(digest(&path), expected);
    // Raw data that changed have other pixels.
    let raw = spots.path("u2.h5");
    run_python(CHANGE, [&raw]).unwrap();
    let results = run("ai-integrate", NO_ARGUMENTS, &plan("frames=12"));
    let gathered = run("gather", &["--allow-missing"], &results.stdout);
    assert_eq!(digest(&final_path(&gathered)), Value::Null, "{}", gathered.stderr);
    let results = run("ai-integrate", &["--sparse"], &plan("frames=12")).assert_success();
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    let changed = digest(&final_path(&gathered));
    assert!(changed.is_object() && changed != expected);
}

/// Adds a spot to each frame.
const CHANGE: &str = r#"
import h5py, hdf5plugin, sys
with h5py.File(sys.argv[1], "r+") as file:
    frames = file["data"][()]
    frames[:, 70, 50] += 999
    file["data"][:] = frames
"#;
