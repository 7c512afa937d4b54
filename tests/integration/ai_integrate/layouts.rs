//! However the frames are stored and the work is shared out, the sums are the same bytes.

use std::path::Path;

use hdf5::Extent;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::parts;
use crate::support::{create_hdf5, run};

const FRAMES: usize = 50;
const SHAPE: [usize; 2] = [31, 47];

const PONI: &str = r#"poni_version: 2.1
Detector: Detector
Detector_config: {"pixel1": 1e-4, "pixel2": 1e-4, "orientation": 2}
Distance: 0.1
Poni1: 0.001
Poni2: 0.002
Rot1: 0.01
Rot2: -0.02
Rot3: 0.3
Wavelength: 1e-10
"#;

fn pixel(frame: usize, index: usize) -> u16 {
    ((frame * 7919 + index * 104_729) % 1013) as u16
}

fn pixels(frames: impl Iterator<Item = usize>) -> Vec<u16> {
    frames
        .flat_map(|frame| (0..SHAPE[0] * SHAPE[1]).map(move |index| pixel(frame, index)))
        .collect()
}

/// Writes a dataset `data` of these frames; chunked so, if at all.
fn write_frames(path: &Path, frames: impl Iterator<Item = usize>, chunk: Option<[usize; 3]>) {
    let values = pixels(frames);
    let count = values.len() / SHAPE[0] / SHAPE[1];
    let extents = [count, SHAPE[0], SHAPE[1]].map(Extent::fixed);
    let file = create_hdf5(path);
    let builder = file.new_dataset::<u16>().shape(extents);
    let dataset = match chunk {
        Some(chunk) => builder.chunk(chunk).shuffle().deflate(3).create("data"),
        None => builder.no_chunk().create("data"),
    };
    dataset.unwrap().write_raw(&values).unwrap();
}

struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    fn within(directory: &Path) -> Self {
        let bench = Self(tempfile::tempdir_in(directory).unwrap());
        std::fs::write(bench.0.path().join("g.poni"), PONI).unwrap();
        bench
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// The scan record of a dataset.
    fn scan(&self, name: &str) -> Value {
        let found = run("scan-find", &[format!("{}::/data", self.path(name))], "").assert_success();
        found.records("scan").remove(0)
    }

    fn integrate(&self, scan: &Value, out: &str, by: &str, flags: &[&str]) -> Vec<(u64, Vec<f64>)> {
        let (poni, out) = (self.path("g.poni"), self.path(out));
        let plan = ["--poni", &poni, "--out", &out, "--npt", "100", "--by", by];
        let tasks = run("plan-split", &plan, &format!("{scan}\n")).assert_success();
        let results = run("ai-integrate", flags, &tasks.stdout).assert_success();
        assert!(results.records("result").iter().all(|result| result["missing"].is_null()));
        parts::read_rows(Path::new(&out), "signal")
    }
}

#[test]
fn chunks_of_several_frames_and_of_parts_of_frames_give_the_sums_of_whole_ones() {
    let bench = Bench::new();
    let chunks = [
        ("whole", Some([1, SHAPE[0], SHAPE[1]])),
        ("several", Some([7, SHAPE[0], SHAPE[1]])),
        ("pieces", Some([3, 10, 17])),
        ("all", Some([FRAMES, SHAPE[0], SHAPE[1]])),
        ("contiguous", None),
    ];
    let mut expected: Option<Vec<(u64, Vec<f64>)>> = None;
    for (name, chunk) in chunks {
        write_frames(bench.0.path().join(name).as_path(), 0..FRAMES, chunk);
        let scan = bench.scan(name);
        for (way, (by, flags)) in [
            ("scan", &["--threads", "1"][..]),
            ("frames=13", &["--threads", "3", "--batch-frames", "4"]),
            ("frames=50", &["--threads", "2", "--batch-frames", "1", "--engines", "2"]),
        ]
        .into_iter()
        .enumerate()
        {
            let found = bench.integrate(&scan, &format!("{name}{way}"), by, flags);
            assert_eq!(found.len(), FRAMES, "{name}, {by}");
            assert!(
                *expected.get_or_insert_with(|| found.clone()) == found,
                "{name}, {by}: other sums"
            );
        }
    }
}

/// Writes a dataset `data` as it is; chunked so, if at all.
fn write_dataset(path: &Path, values: &[u16], extents: [usize; 3], chunk: Option<[usize; 3]>) {
    let file = create_hdf5(path);
    let builder = file.new_dataset::<u16>().shape(extents.map(Extent::fixed));
    let builder = if let Some(chunk) = chunk { builder.chunk(chunk) } else { builder.no_chunk() };
    builder.create("data").unwrap().write_raw(values).unwrap();
}

/// Makes the system forget the bytes of a file.
fn drop_from_page_cache(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
}

#[test]
fn what_the_system_has_to_fetch_is_read_ahead_and_gives_the_same() {
    // Temporary files may be in memory alone, which forgets nothing.
    let bench = Bench::within(Path::new(env!("CARGO_TARGET_TMPDIR")));
    // More than the kernel reads by itself where a file is opened.
    let (frames, shape) = (24, [1000, 500]);
    let values: Vec<u16> =
        (0..frames * shape[0] * shape[1]).map(|index| (index * 7919 % 1013) as u16).collect();
    for (name, chunk) in
        [("whole", Some([1, 1000, 500])), ("pieces", Some([4, 400, 300])), ("contiguous", None)]
    {
        let path = bench.path(name);
        write_dataset(Path::new(&path), &values, [frames, shape[0], shape[1]], chunk);
        let scan = bench.scan(name);
        let (poni, out) = (bench.path("g.poni"), bench.path(&format!("{name}-out")));
        let plan = ["--poni", &poni, "--out", &out, "--npt", "100"];
        let tasks = run("plan-split", &plan, &format!("{scan}\n")).assert_success().stdout;
        let flags = ["-v", "--force", "--threads", "2", "--batch-frames", "5"];
        let warm = run("ai-integrate", &flags, &tasks).assert_success().records("result").remove(0);
        drop_from_page_cache(Path::new(&path));
        let cold = run("ai-integrate", &flags, &tasks).assert_success();
        assert!(cold.stderr.contains("MiB read ahead"), "{name}: {}", cold.stderr);
        let cold = cold.records("result").remove(0);
        assert_eq!(
            (&cold["part_digest"], &cold["read_bytes"]),
            (&warm["part_digest"], &warm["read_bytes"]),
            "{name}"
        );
    }
}

#[test]
fn a_chunk_of_several_frames_is_read_once_and_not_once_a_window() {
    let bench = Bench::new();
    write_frames(
        bench.0.path().join("several").as_path(),
        0..FRAMES,
        Some([10, SHAPE[0], SHAPE[1]]),
    );
    let scan = bench.scan("several");
    let (poni, out) = (bench.path("g.poni"), bench.path("out"));
    let tasks =
        run("plan-split", &["--poni", &poni, "--out", &out], &format!("{scan}\n")).assert_success();
    let results = run("ai-integrate", &["--threads", "2", "--batch-frames", "4"], &tasks.stdout)
        .assert_success();
    assert_eq!(results.records("result")[0]["read_bytes"], scan["sources"][0]["bytes"]);
}

#[test]
fn a_slow_way_is_told_with_its_reason() {
    let bench = Bench::new();
    let ways = |name: &str, chunk| {
        write_frames(bench.0.path().join(name).as_path(), 0..FRAMES, chunk);
        let (poni, out) = (bench.path("g.poni"), bench.path(&format!("{name}-out")));
        let scan = format!("{}\n", bench.scan(name));
        let tasks = run("plan-split", &["--poni", &poni, "--out", &out], &scan).assert_success();
        let first = run("ai-integrate", &["-v"], &tasks.stdout).assert_success();
        let again = run::<&str>("ai-integrate", &[], &tasks.stdout).assert_success();
        let way = first.records("result")[0]["decode_path"].as_str().unwrap().to_owned();
        assert!(first.stderr.contains(&way), "{way}: {}", first.stderr);
        assert!(again.records("result")[0]["decode_path"].is_null(), "nothing was integrated");
        way
    };
    let whole = ways("whole", Some([1, SHAPE[0], SHAPE[1]]));
    assert!(whole.contains(": 50 frames decoded whole (slower: the codec "), "{whole}");
    let pieces = ways("pieces", Some([3, 10, 17]));
    assert!(
        pieces.contains("50 of them assembled from chunks that are not one frame each (slower)"),
        "{pieces}"
    );
    let stored = ways("stored", None);
    assert!(stored.ends_with(": 50 frames as stored"), "{stored}");
}

/// As Lima 2 writes: each receiver's file holds every third frame.
#[test]
fn interleaved_sources_give_the_sums_of_one_file() {
    let bench = Bench::new();
    write_frames(bench.0.path().join("one").as_path(), 0..FRAMES, Some([1, SHAPE[0], SHAPE[1]]));
    let one = bench.scan("one");
    let expected = bench.integrate(&one, "out-one", "scan", &[]);
    let mut interleaved = one.clone();
    let sources = (0..3).map(|receiver| {
        let name = format!("receiver{receiver}");
        write_frames(
            bench.0.path().join(&name).as_path(),
            (receiver..FRAMES).step_by(3),
            Some([1, SHAPE[0], SHAPE[1]]),
        );
        let mut source = bench.scan(&name)["sources"][0].take();
        source["frames"] = json!([[receiver, FRAMES, 3]]);
        source
    });
    interleaved["sources"] = sources.collect();
    for (by, flags) in [
        ("scan", ["--threads", "3"]),
        ("file", ["--threads", "1"]),
        ("frames=7", ["--engines", "3"]),
    ] {
        let found = bench.integrate(&interleaved, &format!("out-{by}"), by, &flags);
        assert!(found == expected, "{by}: other sums");
    }
}

#[test]
fn a_frame_in_two_sources_is_that_of_the_newest_file_wherever_the_cuts_are() {
    let bench = Bench::new();
    let chunk = Some([1, SHAPE[0], SHAPE[1]]);
    write_frames(bench.0.path().join("old").as_path(), 0..30, chunk);
    write_frames(bench.0.path().join("new").as_path(), 100..130, chunk);
    let (old, mut new) = (bench.scan("old"), bench.scan("new"));
    new["sources"][0]["frames"] = json!([[20, 50]]);
    let mut both = old.clone();
    both["frames"] = json!(50);
    both["sources"] = json!([old["sources"][0], new["sources"][0]]);
    let apart = {
        write_frames(bench.0.path().join("apart").as_path(), (0..20).chain(100..130), chunk);
        bench.integrate(&bench.scan("apart"), "out-apart", "scan", &[])
    };
    for by in ["scan", "file", "frames=25", "bytes=20K"] {
        assert!(bench.integrate(&both, &format!("out-{by}"), by, &[]) == apart, "{by}: other sums");
    }
}
