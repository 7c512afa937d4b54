//! Instructions that the kernels take for a pixel, and gather for a task, counted by valgrind's
//! callgrind: the same in every run, whatever else the machine does, so that code that got slower
//! is seen. Valgrind knows AVX2, not AVX-512: lanes are 8 frames.
//!
//! A change that is meant is written down by `CARGO_INCREMENTAL=0 AZPIPE_BLESS=1 cargo test --workspace
//! --test integration -- instructions::`, built as in CI; its reason belongs in the commit.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use records::{Acquisition, Record, Span, Spans, Task};
use sample::{Detector, Dtype, Options, Powder};

use crate::support::{Workspace, program, source_file};

const EXPECTED: &str = include_str!("instructions.tsv");

/// More than this many times what was written down is a regression, less than one part in it is
/// worth writing down.
const TOLERANCE: f64 = 1.05;

/// Frames integrated: two batches, so that what is set up once shows little.
const FRAMES: usize = 32;

/// Frames of the slower methods, in two batches of 8.
const ROBUST_FRAMES: usize = 16;

/// Frames, and the flags of plan-split for their recipe.
struct Case {
    name: &'static str,
    options: Options,
    recipe: &'static [&'static str],
}

/// Returns the cases: means of a bin's pixels for many kinds of frames, and azimuthal errors, clipping
/// and medians for few.
fn cases() -> Vec<Case> {
    let detector = Detector::named("pilatus-300k").expect("a detector of the sample");
    let rings = Options {
        scans: 1,
        frames: FRAMES,
        frames_per_file: FRAMES,
        detector,
        ..Options::default()
    };
    let flat = |mean| Options {
        powder: Powder::None,
        gaps: false,
        dtype: Dtype::U32,
        mean,
        ..rings.clone()
    };
    let rings_u32 = Options { dtype: Dtype::U32, ..rings.clone() };
    let few =
        Options { frames: ROBUST_FRAMES, frames_per_file: ROBUST_FRAMES, ..rings_u32.clone() };
    let plain = [
        ("u32, mean 0.001", flat(0.001)),
        ("u32, mean 0.1", flat(0.1)),
        ("u32, mean 2", flat(2.0)),
        ("u32, mean 50", flat(50.0)),
        ("u32, rings over gaps", rings_u32.clone()),
        ("i32, rings over gaps", rings.clone()),
        ("u16, rings over gaps", Options { dtype: Dtype::U16, ..rings }),
    ];
    let plain = plain.map(|(name, options)| Case { name, options, recipe: &[] });
    let of_counts: [(_, &[_]); 4] = [
        ("a limit of counts", &["--valid-max=60000"]),
        ("a low limit of counts", &["--valid-max=3"]),
        ("no counts are invalid", &["--dummy=0"]),
        ("dead time", &["--dead-time=120ns"]),
    ];
    let of_counts =
        of_counts.map(|(name, recipe)| Case { name, options: rings_u32.clone(), recipe });
    let median: &[_] = &["--split=bbox", "--median=50", "--error-model=poisson"];
    let robust: [(_, &[_]); 4] = [
        ("clipped by tiles", &["--split=no", "--sigma-clip=5", "--error-model=poisson"]),
        ("azimuthal errors", &["--split=bbox", "--error-model=azimuthal"]),
        ("clipped by the spread", &["--split=bbox", "--sigma-clip=5", "--error-model=azimuthal"]),
        ("median", median),
    ];
    let median_of_few_counts = Case {
        name: "median of few counts",
        options: Options { mean: 0.4, ..few.clone() },
        recipe: median,
    };
    let robust = robust.map(|(name, recipe)| Case { name, options: few.clone(), recipe });
    plain.into_iter().chain(of_counts).chain(robust).chain([median_of_few_counts]).collect()
}

/// Returns the instructions of a case per pixel.
fn count(Case { options, recipe, .. }: &Case) -> f64 {
    let workspace = Workspace::new(options);
    let tasks = workspace.plan("out", recipe);
    let mut valgrind = callgrind();
    valgrind.arg("--toggle-collect=kernels::integrate::integrate_frames*");
    let flags = ["--quiet", "--threads", "1", "--batch-frames", "16"];
    let plan = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(&plan, tasks).expect("the plan is written");
    let instructions =
        count_instructions(valgrind.arg(program("ai-integrate")).args(flags).arg(plan.path()), 0);
    assert!(instructions > 0.0, "the kernels' entry has another name");
    instructions / (options.detector.pixels() * options.frames) as f64
}

/// Returns the instructions that callgrind, called by this command, counts in a program that ends
/// with this status.
fn count_instructions(valgrind: &mut Command, status: i32) -> f64 {
    let output = valgrind.stdin(Stdio::null()).output().expect("valgrind runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    let collected =
        said.lines().find_map(|line| line.split_once("Collected : ")).expect("callgrind counts").1;
    collected.trim().parse().expect("a number")
}

/// Returns the command of callgrind, without the program to run.
fn callgrind() -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind
}

/// Returns whether valgrind is here: always in CI.
fn has_valgrind() -> bool {
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    assert!(
        has_valgrind || std::env::var_os("CI").is_none(),
        "valgrind is not here, and CI needs it"
    );
    has_valgrind
}

#[test]
fn the_kernels_take_no_more_instructions_than_they_did() {
    if !has_valgrind() {
        return;
    }
    let (mut found, mut wrong) = (String::new(), String::new());
    for case in cases() {
        let (name, count) = (case.name, count(&case));
        writeln!(found, "{name}\t{count:.3}").expect("a string takes all");
        let expected = EXPECTED
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('\t')?.parse::<f64>().ok());
        let ratio = count / expected.unwrap_or(f64::NAN);
        if !(1.0 / TOLERANCE..=TOLERANCE).contains(&ratio) {
            writeln!(
                wrong,
                "{name}: {count:.3} instructions a pixel, {expected:?} are written down"
            )
            .expect("as above");
        }
    }
    if std::env::var_os("AZPIPE_BLESS").is_some() {
        return std::fs::write(source_file("instructions.tsv"), found)
            .expect("the table is written");
    }
    assert!(
        wrong.is_empty(),
        "{wrong}They are written down for builds with CARGO_INCREMENTAL=0, as in CI.\nAll of them:\n{found}"
    );
}

/// Ranges of frames that are done, as many as half of the tasks, are not searched from their
/// beginning for each task: a scan of 10^5 tasks would take minutes.
#[test]
fn counting_what_is_done_takes_as_long_in_many_ranges_as_in_one() {
    const TASKS: u64 = 1500;
    if !has_valgrind() {
        return;
    }
    let count = |is_done: fn(u64) -> bool| {
        let top = tempfile::tempdir().expect("a temporary directory");
        let mut lines = String::new();
        for index in 0..TASKS {
            let task = task(index, TASKS, top.path());
            let part = top.path().join(task.part.as_path());
            if is_done(index) {
                std::fs::create_dir_all(part.parent().expect("it has one")).expect("a directory");
                std::fs::write(part, "").expect("the name of a part is all that counts");
            }
            lines += &(Record::from(task).to_line() + "\n");
        }
        let plan = top.path().join("plan.jsonl");
        std::fs::write(&plan, lines).expect("the plan is written");
        let mut valgrind = callgrind();
        valgrind.arg(program("gather")).arg("--plan").arg(plan).arg("--count-done");
        // Half of the frames are left to do.
        count_instructions(&mut valgrind, 1)
    };
    let in_one = count(|index| index < TASKS / 2);
    let in_many = count(|index| index.is_multiple_of(2));
    assert!(in_many < 1.05 * in_one, "{in_many} instructions, and {in_one} in one range");
}

/// Returns a task of ten frames, out of as many of one scan.
fn task(index: u64, tasks: u64, out: &Path) -> Task {
    let (scan, recipe_digest) = ("5ca0", "0123456789abcdef");
    let range = Spans::from(Span::new(10 * index, 10 * index + 10));
    let acquisition =
        Acquisition { file: "/raw/master.h5".into(), frames: 10 * tasks, ..Acquisition::default() };
    Task {
        id: format!("{index:016x}"),
        scan: scan.to_owned(),
        recipe: "/recipe.toml".into(),
        recipe_digest: recipe_digest.to_owned(),
        out: out.to_path_buf().into(),
        part: Task::part_path(scan, recipe_digest, &range),
        final_file: "scan.h5".into(),
        range,
        acquisition,
        ..Task::default()
    }
}
