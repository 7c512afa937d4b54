//! Patterns of random experiments, bin by bin against pyFAI.
//!
//! `pyfai.py` draws the cases and integrates them; here the same cases go through the crates as
//! ai-integrate uses them. Runs where `AZPIPE_PEERS`, or `.venv` in the root, is a virtual
//! environment that holds pyFAI; a few cases are kept in `golden.jsonl` and run everywhere.

mod azpipe;
mod cake;
mod case;
mod compare;
mod coverage;
mod image;
mod peers;
mod pipe;

use std::io::Write;
use std::sync::{Arc, Mutex};

use case::Case;
use coverage::Coverage;
use geometry::Unit;
use integrator::opencl::{self, Device, DeviceSettings};

use crate::support::new_seed;

/// How many random cases.
const RANDOM: usize = 140;
/// How many that are clipped, between quantiles, or of other error models than Poisson's.
const ROBUST: usize = 80;
/// How many with corrections and masks of every kind.
const CORRECTED: usize = 60;
/// How many in each unit of the table.
const IN_EACH_UNIT: usize = 4;
/// How many for pyFAI's `FiberIntegrator`.
const FIBER: usize = 40;
/// How many with a correction of parallax.
const PARALLAX: usize = 30;
/// How many whose counts are corrected for dead time.
const DEAD_TIME: usize = 40;
/// How many with an unweighted mean.
const UNWEIGHTED: usize = 40;
/// How many large detectors.
const LARGE: usize = 3;
/// How many detectors that are described by a file.
const NEXUS: usize = 5;
/// Lines of `golden.jsonl`, written by `pyfai.py golden 0 24 DIR`.
const GOLDEN: &str = include_str!("golden.jsonl");

/// One random case in so many also runs on OpenCL, or each with `AZPIPE_OPENCL_ALL`.
const EVERY: usize = 7;

fn is_for_opencl(case: &Case) -> bool {
    case.number.is_multiple_of(EVERY) || std::env::var_os("AZPIPE_OPENCL_ALL").is_some()
}

/// The first OpenCL device; in CI there must be one.
fn open_first_device() -> Option<Arc<Device>> {
    let found = opencl::all_devices()
        .ok()
        .and_then(|all| all.into_iter().find(|device| device.unusable.is_none()));
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "no OpenCL device: scripts/setup tests installs PoCL"
    );
    found
        .map(|description| Arc::new(Device::open(&description, DeviceSettings::default()).unwrap()))
}

/// Runs lists of cases at the same time. Fails with all that differ too much.
fn check(lists: Vec<impl Iterator<Item = Case> + Send>) -> Coverage {
    check_with(azpipe::integrate, lists)
}

fn check_with(
    integrate: impl Fn(&Case) -> azpipe::Pattern + Copy + Send,
    lists: Vec<impl Iterator<Item = Case> + Send>,
) -> Coverage {
    let mut coverage = Coverage::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = lists
            .into_iter()
            .map(|list| scope.spawn(move || compare_all(integrate, list)))
            .collect();
        for worker in workers {
            coverage.merge(worker.join().unwrap());
        }
    });
    assert!(
        coverage.wrong.is_empty(),
        "{} wrong of {coverage}\n{}",
        coverage.wrong.len(),
        coverage.wrong.join("\n")
    );
    coverage
}

/// Says what was covered even where the output of passing tests is held back.
fn print_coverage(what: &str, coverage: &Coverage) {
    std::io::stderr().write_all(format!("{what}: {coverage}\n").as_bytes()).unwrap();
}

fn compare_all(
    integrate: impl Fn(&Case) -> azpipe::Pattern,
    cases: impl Iterator<Item = Case>,
) -> Coverage {
    let mut coverage = Coverage::default();
    for case in cases {
        coverage.count(&case, &compare::compare(&case, &integrate(&case)));
    }
    coverage
}

#[test]
fn golden_patterns_equal_those_of_pyfai() {
    print_coverage("golden", &check(vec![GOLDEN.lines().map(Case::read)]));
}

#[test]
fn golden_patterns_come_out_of_the_pipe() {
    check_with(pipe::integrate, vec![GOLDEN.lines().map(Case::read)]);
}

#[test]
fn random_patterns_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("random", RANDOM) else { return };
    let coverage = check_with_opencl("random", cases, is_for_opencl, RANDOM / EVERY);
    coverage.assert_enough(RANDOM, 12);
}

/// Runs lists of cases, and some of them also on OpenCL, as many at the least.
fn check_with_opencl(
    name: &str,
    lists: Vec<impl Iterator<Item = Case> + Send>,
    is_for_opencl: impl Fn(&Case) -> bool + Sync,
    least: usize,
) -> Coverage {
    let device = open_first_device();
    let on_opencl = Mutex::new(Coverage::default());
    let both = |case: &Case| {
        if let Some(device) = device.as_ref().filter(|_| is_for_opencl(case)) {
            let difference = compare::compare(case, &azpipe::integrate_on_device(device, case));
            on_opencl.lock().unwrap().count(case, &difference);
        }
        azpipe::integrate(case)
    };
    let coverage = check_with(both, lists);
    print_coverage(name, &coverage);
    let on_opencl = on_opencl.into_inner().unwrap();
    print_coverage(&format!("{name}, on OpenCL"), &on_opencl);
    assert!(on_opencl.wrong.is_empty(), "on OpenCL: {}", on_opencl.wrong.join("\n"));
    assert!(device.is_none() || on_opencl.cases() >= least, "{} cases", on_opencl.cases());
    coverage
}

#[test]
fn rows_of_robust_cakes_are_patterns_of_their_sectors() {
    let seed = new_seed() as usize;
    let of_case = |(number, line)| cake::check(&Case::read(line), number + seed);
    let bins: usize = GOLDEN.lines().enumerate().map(of_case).sum();
    assert!(bins > 2000, "AZPIPE_SEED={seed}: {bins} bins have pixels");
}

#[test]
fn robust_patterns_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("robust", ROBUST) else { return };
    // Medians are not for devices; of the rest a few are Poisson's without clipping.
    check_with_opencl(
        "robust",
        cases,
        |case| case.median.is_none() && is_for_opencl(case),
        ROBUST / EVERY / 3,
    );
}

#[test]
fn corrected_and_masked_patterns_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("corrections", CORRECTED) else { return };
    print_coverage("corrected", &check(cases));
}

#[test]
fn patterns_in_each_unit_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("units", IN_EACH_UNIT * Unit::all().len()) else { return };
    print_coverage("units", &check(cases));
}

#[test]
fn patterns_in_the_frame_of_a_sample_equal_those_of_fiber_integrator() {
    let Some(cases) = peers::cases("fiber", FIBER) else { return };
    print_coverage("fiber", &check(cases));
}

#[test]
fn patterns_with_parallax_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("parallax", PARALLAX) else { return };
    // Some go through the programs, which write the geometry into recipes.
    let integrate = |case: &Case| match case.number % 5 {
        0 => pipe::integrate(case),
        _ => azpipe::integrate(case),
    };
    print_coverage("parallax", &check_with(integrate, cases));
}

#[test]
fn patterns_of_counts_corrected_for_dead_time_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("dead_time", DEAD_TIME) else { return };
    print_coverage("dead time", &check(cases));
}

#[test]
fn unweighted_patterns_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("unweighted", UNWEIGHTED) else { return };
    print_coverage("unweighted", &check(cases));
}

#[test]
fn patterns_of_large_detectors_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("large", LARGE) else { return };
    print_coverage("large", &check(cases));
}

#[test]
fn patterns_of_detectors_in_nexus_files_equal_those_of_pyfai() {
    let Some(cases) = peers::cases("nexus", NEXUS) else { return };
    print_coverage("nexus", &check(cases));
}
