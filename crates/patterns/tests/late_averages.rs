//! Averages of final files whose parts have gone: computed from patterns and weights, they are those of the sums.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::path::Path;

use patterns::output::{self, AveragePattern, OutputError, OutputOptions};
use patterns::part::{PartMetadata, PartWriter};
use patterns::{BinWeights, FrameRow, PatternAxes, PatternAxis, SharedBins, Status};
use recipe::{EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, Recipe, ReferenceSetting};
use records::{Acquisition, Spans};
use support::{acquisition, open, recipe, target, task, with_monitor};

const BINS: usize = 40;
const FRAMES: u64 = 30;
const PIXELS: usize = 60;

/// Draws a number between 0 and 1.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Draws a number of photons of this mean.
fn photons(mean: f64, state: &mut u64) -> f64 {
    if mean > 30.0 {
        let normal = (-2.0 * uniform(state).ln()).sqrt() * (std::f64::consts::TAU * uniform(state)).cos();
        return (mean + mean.sqrt() * normal).round();
    }
    let (mut count, mut product, limit) = (0.0, uniform(state), (-mean).exp());
    while product > limit {
        count += 1.0;
        product *= uniform(state);
    }
    count
}

/// Returns the share and the normalization of a pixel of a bin. The last bin has no pixels.
fn pixel(bin: usize, pixel: usize) -> (f64, f64) {
    let share = if bin + 1 == BINS { 0.0 } else { 1.0 - 0.7 * (pixel % 10) as f64 / 10.0 };
    (share, 0.8 + 0.01 * (bin % 20) as f64)
}

/// Returns the weights of bins in which the first `invalid(bin)` pixels are left out.
fn weights(invalid: impl Fn(usize) -> usize) -> BinWeights {
    let sum = |value: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
        let of_bin =
            |bin: usize| (invalid(bin)..PIXELS).map(move |at| pixel(bin, at)).map(|(share, norm)| value(share, norm));
        (0..BINS).map(|bin| of_bin(bin).sum()).collect()
    };
    BinWeights {
        norm: sum(&|share, norm| share * norm),
        norm_sq: sum(&|share, norm| (share * norm).powi(2)),
        count: sum(&|share, _| share),
    }
}

fn shared() -> SharedBins {
    let centers = (0..BINS).map(|bin| 0.5 + bin as f64).collect();
    let radial = PatternAxis { name: "q".to_owned(), units: "nm^-1".to_owned(), centers };
    SharedBins { axes: PatternAxes { radial, chi: None }, weights: weights(|_| 0) }
}

/// Draws a frame with these mean counts per pixel. Every seventh frame has an invalid pixel in `bins` bins.
fn row(frame: u64, mean: f64, bins: usize, has_errors: bool, state: &mut u64) -> FrameRow {
    let is_odd = frame % 7 == 3;
    let invalid = |bin: usize| usize::from(is_odd && bin < bins);
    let (mut signal, mut variance) = (vec![0.0; BINS], vec![0.0; BINS]);
    for bin in 0..BINS {
        for at in invalid(bin)..PIXELS {
            let (share, _) = pixel(bin, at);
            let counts = photons(mean * (1.0 + bin as f64 / 10.0), state);
            signal[bin] += share * counts;
            variance[bin] += share * share * counts.max(1.0);
        }
    }
    FrameRow {
        frame,
        status: if frame == 11 { Status::Absent } else { Status::Ok },
        monitor: 80.0 + (frame % 9) as f64,
        signal: if frame == 11 { Vec::new() } else { signal },
        variance: (has_errors && frame != 11).then_some(variance),
        weight_override: (is_odd && frame != 11).then(|| weights(invalid)),
        ..FrameRow::default()
    }
}

fn write_rows(out: &Path, scan: &Acquisition, recipe: &Recipe, mean: f64, bins: usize) {
    let task = task(scan, recipe, &Spans::first_n(FRAMES));
    let head = PartMetadata { task: task.clone(), recipe: recipe.clone() };
    let mut writer = PartWriter::create(out, &task.part, &head, &shared()).unwrap();
    let state = &mut 7;
    for frame in 0..FRAMES {
        writer.push_row(&row(frame, mean, bins, recipe.error_model != ErrorModel::No, state)).unwrap();
    }
    writer.finish().unwrap();
}

fn build(out: &Path, scan: &Acquisition, recipe: &Recipe, average: Option<&str>) -> Result<(), OutputError> {
    let average = average.map(|average| average.parse().unwrap());
    output::build(&target(out, scan, recipe), &OutputOptions { average, ..OutputOptions::default() }, &()).map(drop)
}

fn averages(out: &Path) -> Vec<AveragePattern> {
    let there = open(out);
    let averaged = there.averaged.as_ref().unwrap();
    (0..averaged.frames.len()).map(|index| averaged.pattern(index).unwrap().unwrap()).collect()
}

fn has_parts(out: &Path, scan: &Acquisition, recipe: &Recipe) -> bool {
    !patterns::part::list_parts(out, &scan.compute_id(), &recipe.digest()).unwrap().is_empty()
}

/// Returns the greatest relative difference of two lists, of which bins without pixels have the same values.
fn difference(one: &[f64], two: &[f64]) -> f64 {
    assert_eq!(one.len(), two.len());
    let differ = |(one, two): (&f64, &f64)| {
        if one.to_bits() == two.to_bits() { 0.0 } else { (one - two).abs() / one.abs().max(f64::MIN_POSITIVE) }
    };
    one.iter().zip(two).map(differ).fold(0.0, f64::max)
}

/// Averages a scan with its parts, and after they have gone. Returns the greatest relative differences of intensities and errors.
fn compare(recipe: &Recipe, mean: f64, average: &str) -> [f64; 2] {
    let (scan, with_parts, late) =
        (acquisition(FRAMES, |_| 7), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for out in [&with_parts, &late] {
        write_rows(out.path(), &scan, recipe, mean, BINS / 8);
    }
    build(with_parts.path(), &scan, recipe, Some(average)).unwrap();
    build(late.path(), &scan, recipe, None).unwrap();
    assert!(!has_parts(late.path(), &scan, recipe));
    let digest = open(late.path()).data_digest;
    build(late.path(), &scan, recipe, Some("sum,7")).unwrap();
    build(late.path(), &scan, recipe, Some(average)).unwrap();
    assert_eq!(open(late.path()).data_digest, digest, "the patterns of the frames are as they were");
    let mut most = [0.0_f64; 2];
    let (expected, found) = (averages(with_parts.path()), averages(late.path()));
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected.frames, found.frames);
        most[0] = most[0].max(difference(&expected.intensity, &found.intensity));
        if let (Some(expected), Some(found)) = (&expected.errors, &found.errors) {
            most[1] = most[1].max(difference(expected, found));
        }
    }
    most
}

/// Largest relative rounding of a number to f32.
const ROUNDING: f64 = 6e-8;

#[test]
fn an_average_of_patterns_is_that_of_the_sums_but_for_their_rounding() {
    let monitors = [recipe(), with_monitor(ReferenceSetting::Value(100.0)), with_monitor(ReferenceSetting::Mean)];
    for (recipe, average) in monitors.iter().zip(["mean", "sum", "mean,10"]) {
        let check = |recipe: &Recipe, mean: f64| {
            let [intensity, errors] = compare(recipe, mean, average);
            assert!(intensity < ROUNDING && errors < ROUNDING, "{intensity:e} {errors:e}, {mean} counts, {recipe:?}");
            assert!(intensity > 0.0, "they were computed from patterns");
        };
        for error_floor in [ErrorFloor::Pixel, ErrorFloor::Bin, ErrorFloor::No] {
            for error in [ErrorMeasure::Sem, ErrorMeasure::Std] {
                for mean in [0.02, 20.0] {
                    check(&Recipe { error_floor, error, ..recipe.clone() }, mean);
                }
            }
        }
        for error_model in [ErrorModel::Azimuthal, ErrorModel::No] {
            check(&Recipe { error_model, ..recipe.clone() }, 0.5);
        }
    }
}

#[test]
fn a_median_of_patterns_is_that_of_the_parts() {
    for empty in [EmptyBinValue::Nan, EmptyBinValue::Zero] {
        assert_eq!(compare(&Recipe { empty, ..recipe() }, 3.0, "median,10"), [0.0, 0.0]);
    }
}

#[test]
fn frames_whose_weights_were_not_kept_are_refused() {
    let (scan, recipe, out) = (acquisition(FRAMES, |_| 7), recipe(), tempfile::tempdir().unwrap());
    write_rows(out.path(), &scan, &recipe, 3.0, BINS / 8 + 1);
    build(out.path(), &scan, &recipe, None).unwrap();
    assert!(!has_parts(out.path(), &scan, &recipe));
    let refused = build(out.path(), &scan, &recipe, Some("mean")).unwrap_err();
    let OutputError::WeightsNotKept { frames, .. } = refused else { panic!("{refused}") };
    assert_eq!(frames.iter().collect::<Vec<_>>(), [3, 10, 17, 24]);
    build(out.path(), &scan, &recipe, Some("median")).unwrap();
    let options = OutputOptions { keep_sums: true, ..OutputOptions::default() };
    let refused = output::build(&target(out.path(), &scan, &recipe), &options, &()).unwrap_err();
    assert!(matches!(refused, OutputError::SumsNotKept { .. }), "{refused}");
}

#[test]
fn a_final_says_what_its_average_was_computed_from() {
    let (scan, recipe, out) = (acquisition(FRAMES, |_| 7), recipe(), tempfile::tempdir().unwrap());
    let computed_from = || {
        let file = hdf5::File::open(open(out.path()).path).unwrap();
        let averaged = file.group("1.1/p3_integrate/averaged").unwrap();
        averaged
            .attr("computed_from")
            .ok()
            .map(|text| text.read_scalar::<hdf5::types::VarLenUnicode>().unwrap().as_str().to_owned())
    };
    write_rows(out.path(), &scan, &recipe, 3.0, 1);
    build(out.path(), &scan, &recipe, Some("mean")).unwrap();
    assert_eq!(computed_from(), None);
    build(out.path(), &scan, &recipe, Some("sum")).unwrap();
    assert_eq!(computed_from().unwrap(), "patterns, whose values are rounded to f32");
    // The same average again is that which is there.
    let path = open(out.path()).path;
    let before = std::fs::read(&path).unwrap();
    build(out.path(), &scan, &recipe, Some("sum")).unwrap();
    assert!(std::fs::read(&path).unwrap() == before);
}
