//! Instructions that the kernels take for a pixel, counted by valgrind's callgrind: the same in
//! every run, whatever else the machine does, so that a kernel that got slower is seen. Valgrind
//! knows AVX2, not AVX-512: lanes are 8 frames.
//!
//! A change that is meant is written down by `AZPIPE_BLESS=1 cargo test --test integration
//! instructions::`; its reason belongs in the commit.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use sample::{Detector, Dtype, Options, Powder};

use crate::support::{Workspace, program, source_file};

const EXPECTED: &str = include_str!("instructions.tsv");

/// More than this many times what was written down is a regression, less than one part in it is
/// worth writing down.
const TOLERANCE: f64 = 1.05;

/// Frames integrated: two batches, so that what is set up once shows little.
const FRAMES: usize = 32;

fn cases() -> [(&'static str, Options); 7] {
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
    [
        ("u32, mean 0.001", flat(0.001)),
        ("u32, mean 0.1", flat(0.1)),
        ("u32, mean 2", flat(2.0)),
        ("u32, mean 50", flat(50.0)),
        ("u32, rings over gaps", Options { dtype: Dtype::U32, ..rings.clone() }),
        ("i32, rings over gaps", rings.clone()),
        ("u16, rings over gaps", Options { dtype: Dtype::U16, ..rings }),
    ]
}

/// Instructions a pixel.
fn count(options: &Options) -> f64 {
    let workspace = Workspace::new(options);
    let tasks = workspace.plan("out", &[]);
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=kernels::batch::integrate_batch_by_plans*",
    ]);
    valgrind.arg(program("ai-integrate")).args([
        "--quiet",
        "--threads",
        "1",
        "--batch-frames",
        "16",
    ]);
    let plan = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(&plan, tasks).expect("the plan is written");
    let output = valgrind.arg(plan.path()).stdin(Stdio::null()).output().expect("valgrind runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let collected =
        said.lines().find_map(|line| line.split_once("Collected : ")).expect("callgrind counts").1;
    let instructions: f64 = collected.trim().parse().expect("a number");
    assert!(instructions > 0.0, "the kernels' entry has another name: {said}");
    instructions / (options.detector.pixels() * FRAMES) as f64
}

#[test]
fn the_kernels_take_no_more_instructions_than_they_did() {
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    assert!(
        has_valgrind || std::env::var_os("CI").is_none(),
        "valgrind is not here, and CI needs it"
    );
    if !has_valgrind {
        return;
    }
    let (mut found, mut wrong) = (String::new(), String::new());
    for (name, options) in cases() {
        let count = count(&options);
        writeln!(found, "{name}\t{count:.3}").expect("a string takes all");
        let expected =
            EXPECTED.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
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
    assert!(wrong.is_empty(), "{wrong}\nAll of them:\n{found}");
}
