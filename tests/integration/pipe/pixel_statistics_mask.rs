//! The mask that statistics of pixels suggest: planted pixels and no others, by the rules in numpy.

use serde_json::{Value, json};

use super::pixel_statistics::{PONI, gather_images};
use crate::support::{NO_ARGUMENTS, Outcome, run, run_python};

/// Writes 60 frames of a ring with planted pixels: dead, hot, three hot ones side by side, saturated
/// once, hit by a zinger, and dead where nothing is measured anyway.
const PLANT: &str = r#"
import h5py, numpy, sys
random = numpy.random.default_rng(5)
y, x = numpy.mgrid[:90, :80]
ring = 2 + 40 * numpy.exp(-((numpy.hypot(y - 20, x - 10) - 45) / 0.8) ** 2)
ring[:, 70:] = 0.001
frames = random.poisson(ring, (60, 90, 80)).astype("u2")
frames[:, 30, 30] = 0
frames[:, 0, 0] = 0
frames[:, 40, 75] = 0
frames[:, 50, 20] = random.poisson(60, 60)
frames[:, 70, 50:53] = random.poisson(90, (60, 3))
frames[7, 12, 50] = 65535
frames[9, 14, 60] = 5000
frames[:, 80, 40] = 65535
frames[:, 0, 40] = random.poisson(70, 60)
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("data", data=frames, chunks=(1, 90, 80), compression="gzip")
"#;

/// Compares the suggested mask with the rules in numpy, and prints the marked pixels by kind.
const JUDGE: &str = r#"
import h5py, json, numpy, sys
with h5py.File(sys.argv[1]) as file:
    frames = file["data"][()].astype("i8")
n, (rows, columns) = len(frames), frames.shape[1:]
counts = frames.sum(axis=0) / n * n  # Rounded as the mean is.
zeros, largest = (frames == 0).sum(axis=0), frames.max(axis=0)
expected = numpy.zeros((rows, columns), "u1")
variance = frames.var(axis=0, ddof=1)
for i in range(rows):
    for j in range(columns):
        places = [(a, b) for a in range(max(i - 2, 0), min(i + 3, rows)) for b in range(max(j - 2, 0), min(j + 3, columns))
                  if (a, b) != (i, j)]
        around, spreads = sorted(counts[at] for at in places), sorted(variance[at] for at in places)
        lines = [[(i + n * a, j + n * b) for n in (-2, -1, 1, 2)] for a, b in ((0, 1), (1, 0), (1, 1), (1, -1))]
        rank = min([3] + [len(set(line) & set(places)) for line in lines])
        middle = (len(around) - 1) // 2
        median, high = around[middle], around[-rank] if rank else numpy.inf
        dead = zeros[i, j] == n and median >= 25
        own = counts[i, j] - largest[i, j]
        hot = 2 * zeros[i, j] <= n and own > 3 * high >= 0 and own - high > 10 * max(high, n * spreads[middle], 1) ** 0.5
        expected[i, j] = dead + 2 * hot + 4 * (largest[i, j] >= float(sys.argv[3]))
with h5py.File(sys.argv[2]) as file:
    group = file["entry/suggested_mask"]
    kind, mask = group["kind"][()], group["suggested_mask"][()]
print(json.dumps({"kind": bool((kind == expected).all()), "mask": bool((mask == (expected > 0)).all()),
                  "marked": {str(k): numpy.argwhere(expected == k).tolist() for k in range(1, 8) if (expected == k).any()}}))
"#;

/// Writes frames without a bad pixel: levels around zero and below, of few and of many frames, and
/// sharp rings that cross the edges of a detector and of strips.
const SOUND: &str = r#"
import h5py, numpy, pathlib, sys
folder = pathlib.Path(sys.argv[1])
random = numpy.random.default_rng(4)
def save(name, frames):
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.create_dataset("data", data=frames, chunks=(1, *frames.shape[1:]))
for name, n, level, noise in (("one", 1, -20, 3), ("two", 2, 0, 3), ("fifty", 50, -2, 3), ("many", 200, -0.5, 1.5), ("noisy", 200, 0.5, 5)):
    save(name, numpy.rint(random.normal(level, noise, (n, 100, 120))).astype("i2"))
def rings(name, shape, centre, radii, width):
    y, x = numpy.mgrid[:shape[0], :shape[1]]
    r = numpy.hypot(y - centre[0], x - centre[1])
    image = 1 + sum(40 * numpy.exp(-4 * numpy.log(2) * ((r - radius) / width) ** 2) for radius in radii)
    save(name, random.poisson(image, (100, *shape)).astype("i4"))
rings("corner", (195, 487), (-0.5, -0.5), [radius * 1.0013 for radius in range(40, 500, 10)], 1.2)
rings("strip3", (3, 1280), (1, -100), range(120, 1400, 13), 1.2)
rings("strip2", (2, 1280), (0.5, -100), range(120, 1400, 13), 1.2)
rings("strip4", (4, 1280), (1.5, -100), range(120, 1400, 13), 1.2)
"#;

#[test]
fn frames_without_bad_pixels_suggest_no_mask() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    if run_python(SOUND, [directory.path()]).is_none() {
        return;
    }
    std::fs::write(path("g.poni"), PONI).unwrap();
    for name in ["one", "two", "fifty", "many", "noisy", "corner", "strip2", "strip3", "strip4"] {
        let raw = format!("{}::/data", path(&format!("{name}.h5")));
        let scans = run("scan-find", &[raw], "").assert_success().stdout;
        let (poni, out) = (path("g.poni"), path(name));
        let flags = ["--poni", &poni, "--out", &out, "--npt", "50", "--dummy", "none"];
        let tasks = run("plan-split", &flags, &scans).assert_success().stdout;
        let results = run("ai-integrate", &["--pixel-stats"], &tasks).assert_success();
        let gathered = gather_images(&results.stdout).assert_success();
        let note = "a mask of 0 pixels: 0 dead, 0 hot, 0 saturated";
        assert!(gathered.stderr.contains(note), "{name}: {}", gathered.stderr);
    }
}

#[test]
fn the_suggested_mask_has_the_planted_pixels_by_the_rules() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let raw = path("raw.h5");
    if run_python(PLANT, [&raw]).is_none() {
        return;
    }
    std::fs::write(path("g.poni"), PONI).unwrap();
    let scans = run("scan-find", &[format!("{raw}::/data")], "").assert_success().stdout;
    let plan = |out: &str, more: &[&str]| {
        let (poni, out) = (path("g.poni"), path(out));
        let flags =
            ["--poni", &poni, "--out", &out, "--npt", "50", "--by", "frames=25", "--split", "no"];
        run("plan-split", &[&flags, more].concat(), &scans).assert_success().stdout
    };
    let process = |tasks: &str| {
        let results = run("ai-integrate", &["--pixel-stats"], tasks).assert_success();
        gather_images(&results.stdout).assert_success()
    };
    let judge = |gathered: &Outcome, saturation: &str| -> Value {
        let images = gathered.records("summary")[0]["pixel_images"].as_str().unwrap().to_owned();
        let found = run_python(JUDGE, [&raw, &images, saturation]).expect("Python is there");
        serde_json::from_slice(&found).unwrap()
    };
    let gathered = process(&plan("out", &[]));
    let marked = json!({
        "1": [[0, 0], [30, 30]],
        "2": [[0, 40], [50, 20], [70, 50], [70, 51], [70, 52]],
        "4": [[12, 50]],
        "6": [[80, 40]],
    });
    assert_eq!(judge(&gathered, "65535"), json!({"kind": true, "mask": true, "marked": marked}));
    let note = "a mask of 9 pixels: 2 dead, 6 hot, 2 saturated";
    assert!(gathered.stderr.contains(note), "{}", gathered.stderr);
    // The recipe's limit is where saturation begins, and the next run takes the mask.
    let limited = process(&plan("limited", &["--valid-max", "4000"]));
    let marked = &judge(&limited, "4000")["marked"];
    assert_eq!(marked["4"], json!([[12, 50], [14, 60]]));
    let images = gathered.records("summary")[0]["pixel_images"].as_str().unwrap().to_owned();
    let mask = format!("{images}::/entry/suggested_mask/suggested_mask");
    let masked = run("ai-integrate", NO_ARGUMENTS, &plan("masked", &["--mask", &mask]));
    let masked = run("gather", NO_ARGUMENTS, &masked.assert_success().stdout).assert_success();
    let pixels = |gathered: &Outcome| -> f64 {
        let file = hdf5::File::open(gathered.records("summary")[0]["final"].as_str().unwrap());
        let entry = file.unwrap().member_names().unwrap()[0].clone();
        let file = hdf5::File::open(gathered.records("summary")[0]["final"].as_str().unwrap());
        let group = file.unwrap().group(&entry).unwrap();
        let detector = group
            .member_names()
            .unwrap()
            .into_iter()
            .find(|name| name.ends_with("_integrate"))
            .unwrap();
        let count = group.dataset(&format!("{detector}/integrated/count")).unwrap();
        count.read_raw::<f64>().unwrap().iter().sum()
    };
    let lost = pixels(&gathered) - pixels(&masked);
    assert!((lost - 9.0).abs() < 1e-6, "{lost} pixels less");
}
