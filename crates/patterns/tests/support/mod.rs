//! Synthetic scans, recipes and rows.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]
#![allow(dead_code, reason = "each test file uses its share")]

use std::path::{Path, PathBuf};

use patterns::output::{self, BuildOutcome, OutputFile, OutputOptions, OutputSpec};
use patterns::part::{PartMetadata, PartWriter};
use patterns::{BinWeights, FrameRow, PatternAxes, PatternAxis, SharedBins, Status};
use recipe::{MonitorSetting, OneOrMany, Recipe, ReferenceSetting, Settings};
use records::{Acquisition, IdHasher, RawPath, Source, Spans, Task};
use system::ownership::OwnershipRule;

/// Number of bins of the synthetic patterns.
pub const BINS: usize = 6;

/// Returns the part of a temporary file's name that identifies its process, for a process that has
/// ended.
pub fn ended_writer() -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = system::atomic::AtomicFile::create(
        directory.path().join("x"),
        &OwnershipRule::in_azpipe_dir(),
    )
    .unwrap();
    let name = file.temporary_path().file_stem().unwrap().to_str().unwrap();
    let writer = name.rsplit('.').next().unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let mut words: Vec<String> = writer.split('-').map(str::to_owned).collect();
    let pid = words.len() - 3;
    words[pid] = child.id().to_string();
    words.join("-")
}

/// Returns a recipe with Poisson errors and no monitor.
pub fn recipe() -> Recipe {
    resolved(Settings::default())
}

/// Returns a recipe that divides by the monitor `mon`.
pub fn with_monitor(reference: ReferenceSetting) -> Recipe {
    let monitor = Some(OneOrMany::One(MonitorSetting::Name("mon".to_owned())));
    resolved(Settings {
        monitor,
        monitor_reference: Some(OneOrMany::One(reference)),
        ..Settings::default()
    })
}

fn resolved(settings: Settings) -> Recipe {
    let geometry = Some("Distance: 0.1\nPoni1: 0\nPoni2: 0\nWavelength: 1e-10\n".to_owned());
    let recipe =
        Recipe::resolve(&Settings { geometry, npt: Some(BINS as u64), ..settings }).unwrap();
    Recipe { poni_file: "/data/lab6.poni".into(), ..recipe }
}

/// Returns a scan of `frames` frames with ten frames per file. File k was last changed at
/// `mtime(k)`.
pub fn acquisition(frames: u64, mtime: impl Fn(u64) -> i64) -> Acquisition {
    let source = |file: u64| {
        let held = Spans::first_n(frames).slice(file * 10, 10);
        Source {
            file: format!("/raw/scan0001/p3_{file:04}.h5").into(),
            dataset: "/entry_0000/measurement/data".to_owned(),
            size: 1000,
            mtime: mtime(file),
            rows: Spans::first_n(held.count()),
            bytes: 100 * held.count(),
            frames: held,
            ..Source::default()
        }
    };
    Acquisition {
        file: "/raw/sample.h5".into(),
        below: "sample.h5".into(),
        entry: "1.1".to_owned(),
        detector: "p3".to_owned(),
        title: Some("ascan rot 0 90 100 0.1".to_owned()),
        start_time: Some("2026-01-02T03:04:05".to_owned()),
        end_time: Some("2026-01-02T03:05:05".to_owned()),
        complete: true,
        frames,
        shape: [4, 4],
        dtype: "u32".to_owned(),
        codec: "bslz4".to_owned(),
        sources: (0..frames.div_ceil(10)).map(source).collect(),
        ..Acquisition::default()
    }
}

/// Returns the task of a range of a scan.
pub fn task(acquisition: &Acquisition, recipe: &Recipe, range: &Spans) -> Task {
    let (scan, digest) = (acquisition.compute_id(), recipe.digest());
    let sources =
        acquisition.sources.iter().filter_map(|source| source.restricted_to(range)).collect();
    let absent = acquisition.absent_within(range);
    Task {
        id: Task::compute_id(&scan, [digest.as_str()], range),
        part: Task::part_path(&scan, &digest, range),
        range: range.clone(),
        recipe: "/out/.azpipe/recipe.toml".into(),
        out: "/out".into(),
        final_file: "sample_scan0001_p3.h5".into(),
        more: Vec::new(),
        monitor_readings: None,
        bytes: 0,
        acquisition: Acquisition { sources, absent, ..acquisition.clone() },
        scan,
        recipe_digest: digest,
    }
}

/// Returns axis and weights; bin 5 has no pixel.
pub fn shared() -> SharedBins {
    let centers = (0..BINS).map(|bin| 0.5 + bin as f64).collect();
    let radial = PatternAxis { name: "q".to_owned(), units: "nm^-1".to_owned(), centers };
    let norm = |bin: usize| if bin == 5 { 0.0 } else { 2.0 + bin as f64 };
    let weights = BinWeights {
        norm: (0..BINS).map(norm).collect(),
        norm_sq: (0..BINS).map(|bin| norm(bin) * 0.7).collect(),
        count: (0..BINS).map(|bin| norm(bin) + 0.5).collect(),
    };
    SharedBins { axes: PatternAxes { radial, chi: None }, weights }
}

/// Returns the sums of a frame, which depend on frame and bin alone.
pub fn row(frame: u64) -> FrameRow {
    let value =
        |bin: usize| if bin == 5 { 0.0 } else { (frame * 7 + 3) as f64 * (1.3 + bin as f64) };
    FrameRow {
        frame,
        status: Status::Ok,
        stored_digest: frame + 99,
        monitor: 100.0 + (frame % 7) as f64,
        signal: (0..BINS).map(value).collect(),
        variance: Some((0..BINS).map(|bin| value(bin) * 0.9).collect()),
        weight_override: None,
        sparse: None,
    }
}

/// Returns [`row`] for a frame with an invalid pixel in bin 1.
pub fn with_weight_override(frame: u64) -> FrameRow {
    let mut own = shared().weights;
    (own.norm[1], own.norm_sq[1], own.count[1]) = (1.75, 1.2, 2.0);
    FrameRow { weight_override: Some(own.into()), ..row(frame) }
}

/// Writes the part of a task with these rows, and returns its path.
pub fn write_part(
    out: &Path,
    task: &Task,
    recipe: &Recipe,
    rows: impl IntoIterator<Item = FrameRow>,
) -> PathBuf {
    write_part_of_bins(out, task, recipe, rows, &shared())
}

/// Writes the part of a task with these rows, axes and weights, and returns its path.
pub fn write_part_of_bins(
    out: &Path,
    task: &Task,
    recipe: &Recipe,
    rows: impl IntoIterator<Item = FrameRow>,
    bins: &SharedBins,
) -> PathBuf {
    let head = PartMetadata { task: task.clone(), recipe: recipe.clone() };
    let mut writer = PartWriter::create(out, &task.part, &head, bins, Default::default()).unwrap();
    rows.into_iter().for_each(|row| writer.push_row(&row).unwrap());
    writer.finish().unwrap();
    out.join(task.part.as_path())
}

/// Writes the part of a range of a scan in which every frame has sums.
pub fn write_range(
    out: &Path,
    acquisition: &Acquisition,
    recipe: &Recipe,
    from: u64,
    to: u64,
) -> PathBuf {
    let task = task(acquisition, recipe, &records::Span::new(from, to).into());
    write_part(out, &task, recipe, (from..to).map(row))
}

/// Flips a bit of a file.
pub fn flip(path: &Path, byte: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[byte] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

/// Returns an id for tests.
pub fn id(text: &str) -> String {
    IdHasher::new("test").add_text(text).to_short_hex()
}

/// Returns a path that leads out of any root.
pub fn outside() -> RawPath {
    "../elsewhere.h5".into()
}

/// Writes a part as [`write_range`] does, for a cake of two by three bins.
pub fn write_cake(
    out: &Path,
    acquisition: &Acquisition,
    recipe: &Recipe,
    from: u64,
    to: u64,
) -> PathBuf {
    let task = task(acquisition, recipe, &records::Span::new(from, to).into());
    let mut shared = shared();
    shared.axes.radial.centers.truncate(3);
    shared.axes.chi = Some(PatternAxis {
        name: "chi".to_owned(),
        units: "deg".to_owned(),
        centers: vec![-90.0, 90.0],
    });
    let head = PartMetadata { task: task.clone(), recipe: recipe.clone() };
    let mut writer =
        PartWriter::create(out, &task.part, &head, &shared, Default::default()).unwrap();
    (from..to).for_each(|frame| writer.push_row(&row(frame)).unwrap());
    writer.finish().unwrap();
    out.join(task.part.as_path())
}

/// Returns the specification of the final file of a whole scan.
pub fn target(out: &Path, acquisition: &Acquisition, recipe: &Recipe) -> OutputSpec {
    OutputSpec::new(out, &task(acquisition, recipe, &Spans::first_n(acquisition.frames))).unwrap()
}

/// Builds the final file of a whole scan.
pub fn build(
    out: &Path,
    acquisition: &Acquisition,
    recipe: &Recipe,
    options: OutputOptions,
) -> BuildOutcome {
    output::build(&target(out, acquisition, recipe), &options, &()).unwrap()
}

/// Opens the final file and verifies its rows.
pub fn open(out: &Path) -> OutputFile {
    let mut there = OutputFile::open(&out.join("sample_scan0001_p3.h5")).unwrap();
    there.verify(0..there.status.len()).unwrap();
    there
}

/// Returns whether two rows are equal to the bit. Any NaN equals any other NaN. `stored_digest`
/// and `sparse` are not compared.
pub fn are_bit_identical(one: &FrameRow, two: &FrameRow) -> bool {
    let equal_weights = match (&one.weight_override, &two.weight_override) {
        (Some(one), Some(two)) => {
            equal_bits(&one.norm, &two.norm)
                && equal_bits(&one.norm_sq, &two.norm_sq)
                && equal_bits(&one.count, &two.count)
        }
        (one, two) => one.is_none() && two.is_none(),
    };
    let equal_variances = match (&one.variance, &two.variance) {
        (Some(one), Some(two)) => equal_bits(one, two),
        (one, two) => one.is_none() && two.is_none(),
    };
    equal_weights
        && equal_variances
        && (one.frame, one.status) == (two.frame, two.status)
        && equal_bits(&[one.monitor], &[two.monitor])
        && equal_bits(&one.signal, &two.signal)
}

/// Returns whether two lists are equal to the bit. Any NaN equals any other NaN.
fn equal_bits(one: &[f64], two: &[f64]) -> bool {
    let is_equal =
        |(one, two): (&f64, &f64)| one.to_bits() == two.to_bits() || (one.is_nan() && two.is_nan());
    one.len() == two.len() && one.iter().zip(two).all(is_equal)
}
