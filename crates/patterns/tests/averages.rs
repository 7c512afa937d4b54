//! Average patterns: their values, their errors, and whether they need sums.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::path::Path;

use patterns::output::{Average, AveragePattern, OutputLayout, OutputOptions};
use patterns::{FrameRow, Status};
use recipe::{EmptyBinValue, ErrorFloor, ErrorModel, FileRef, Recipe, ReferenceSetting};
use records::{Acquisition, Spans};
use support::*;

fn options(average: &str) -> OutputOptions {
    OutputOptions {
        average: Some(average.parse().unwrap()),
        keep_parts: true,
        ..OutputOptions::default()
    }
}

/// Reads all average patterns of a final file, none of which may be damaged.
fn averages(out: &Path) -> (Average, Vec<AveragePattern>) {
    let averaged = open(out).averaged.unwrap();
    let patterns =
        (0..averaged.frames.len()).map(|index| averaged.pattern(index).unwrap().unwrap());
    (averaged.average, patterns.collect())
}

/// Returns a row whose values don't rise with the frame number; some frames are lost, and one has a
/// weight override.
fn mixed_row(frame: u64) -> FrameRow {
    match frame {
        3 => FrameRow::without_sums(3, Status::Corrupt, 100.0),
        7 => FrameRow { frame, ..with_weight_override(5) },
        _ => FrameRow { frame, ..row(frame * 11 % 17) },
    }
}

fn write_mixed_rows(out: &Path, scan: &Acquisition, recipe: &Recipe) {
    write_part(
        out,
        &task(scan, recipe, &Spans::first_n(scan.frames)),
        recipe,
        (0..scan.frames).map(mixed_row),
    );
}

fn norm(row: &FrameRow, bin: usize) -> f64 {
    row.weight_override.as_ref().map_or(shared().weights.norm[bin], |own| own.norm[bin])
}

#[test]
fn mean_and_sum_come_from_the_sums() {
    let out = tempfile::tempdir().unwrap();
    // Given variances have no floor, and their sum is the sum of what the parts hold.
    let recipe = Recipe {
        error_model: ErrorModel::Variance,
        ..with_monitor(ReferenceSetting::Value(100.0))
    };
    let scan = acquisition(10, |_| 7);
    write_range(out.path(), &scan, &recipe, 0, 10);
    build(out.path(), &scan, &recipe, options("mean"));
    let (average, patterns) = averages(out.path());
    let signal: f64 = (0..10).map(|frame| row(frame).signal[3]).sum();
    let variance: f64 = (0..10).map(|frame| row(frame).variance.unwrap()[3]).sum();
    let norm: f64 =
        (0..10).map(|frame| shared().weights.norm[3] * (row(frame).monitor / 100.0)).sum();
    let mean = &patterns[0];
    assert_eq!((average.to_string().as_str(), patterns.len(), mean.frames), ("mean", 1, 10));
    assert_eq!(
        (mean.intensity[3], mean.errors.as_ref().unwrap()[3]),
        (signal / norm, variance.sqrt() / norm)
    );
    assert!(mean.intensity[5].is_nan());

    build(out.path(), &scan, &recipe, OutputOptions { keep_parts: false, ..options("sum") });
    assert_eq!(averages(out.path()).1[0].intensity[3], mean.intensity[3] * 10.0);
    // The sums are gone; the patterns have seven digits.
    build(out.path(), &scan, &recipe, options("mean"));
    let late = averages(out.path()).1.remove(0);
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-7;
    assert!(
        near(late.intensity[3], mean.intensity[3]),
        "{} {}",
        late.intensity[3],
        mean.intensity[3]
    );
    assert!(near(late.errors.unwrap()[3], mean.errors.as_ref().unwrap()[3]));
    assert!(late.intensity[5].is_nan());
}

/// A dark takes counts from the sums, and not their variance.
#[test]
fn subtracting_a_dark_lowers_no_error() {
    let dark = FileRef {
        path: "/dark.edf".into(),
        dataset: None,
        sha256: "00".repeat(32),
        linked: Vec::new(),
    };
    for error_floor in [ErrorFloor::Pixel, ErrorFloor::Bin, ErrorFloor::No] {
        let out = tempfile::tempdir().unwrap();
        let recipe = Recipe { error_floor, dark: vec![dark.clone()], ..recipe() };
        let scan = acquisition(10, |_| 7);
        // Nothing is left of the sums.
        let dark_row =
            |frame| FrameRow { signal: vec![0.0; row(frame).signal.len()], ..row(frame) };
        let whole = task(&scan, &recipe, &Spans::first_n(10));
        write_part(out.path(), &whole, &recipe, (0..10).map(dark_row));
        build(out.path(), &scan, &recipe, options("mean"));
        let variance: f64 = (0..10).map(|frame| row(frame).variance.unwrap()[3]).sum();
        let errors = averages(out.path()).1[0].errors.clone().unwrap();
        let expected = variance.sqrt() / (10.0 * shared().weights.norm[3]);
        assert!((errors[3] / expected - 1.0).abs() < 1e-12, "{error_floor}: {}", errors[3]);
    }
}

#[test]
fn every_range_has_a_pattern_of_the_frames_that_are_there() {
    let out = tempfile::tempdir().unwrap();
    // With the floor by bin one frame's average has the errors of the frame.
    let (recipe, scan) =
        (Recipe { error_floor: ErrorFloor::Bin, ..recipe() }, acquisition(14, |_| 7));
    write_mixed_rows(out.path(), &scan, &recipe);
    for layout in [OutputLayout::Copy, OutputLayout::Virtual] {
        build(out.path(), &scan, &recipe, OutputOptions { layout, ..options("mean,4") });
        let (average, patterns) = averages(out.path());
        assert_eq!(average.ranges(14), [0..4, 4..8, 8..12, 12..14]);
        assert_eq!(patterns.iter().map(|pattern| pattern.frames).collect::<Vec<_>>(), [3, 4, 4, 2]);
        let rows: Vec<FrameRow> = (4..8).map(mixed_row).collect();
        let weight: f64 = rows.iter().map(|row| norm(row, 1)).sum();
        let signal: f64 = rows.iter().map(|row| row.signal[1]).sum();
        assert_eq!(patterns[1].intensity[1], signal / weight, "a frame's own weights count");
    }
    // One frame a pattern gives the frames' own patterns, before they are rounded.
    build(out.path(), &scan, &recipe, options("mean,1"));
    let (there, (_, patterns)) = (open(out.path()), averages(out.path()));
    assert_eq!((patterns.len(), patterns[3].frames), (14, 0));
    assert!(patterns[3].intensity.iter().all(|value| value.is_nan()));
    let mut rows = there.rows().unwrap();
    for frame in [0, 7, 13] {
        let (intensity, errors) = rows.pattern(frame).unwrap();
        let single = |values: &[f64]| {
            values.iter().map(|value| (*value as f32).to_bits()).collect::<Vec<_>>()
        };
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(single(&patterns[frame].intensity), bits(&intensity));
        assert_eq!(single(patterns[frame].errors.as_ref().unwrap()), bits(&errors.unwrap()));
    }
}

/// Computes the median by sorting all values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if !values.len().is_multiple_of(2) {
        values[half]
    } else {
        (values[half - 1] + values[half]) / 2.0
    }
}

#[test]
fn a_median_is_that_of_the_frames_in_each_bin() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (with_monitor(ReferenceSetting::Value(100.0)), acquisition(12, |_| 7));
    write_mixed_rows(out.path(), &scan, &recipe);
    build(out.path(), &scan, &recipe, options("median"));
    let (_, patterns) = averages(out.path());
    let rows: Vec<FrameRow> = (0..12).filter(|frame| *frame != 3).map(mixed_row).collect();
    assert_eq!(patterns[0].frames, 11);
    for bin in [0, 1, 4] {
        let value = |row: &FrameRow, sum: f64| {
            f64::from((sum / (norm(row, bin) * (row.monitor / 100.0))) as f32)
        };
        let middle = median(rows.iter().map(|row| value(row, row.signal[bin])).collect());
        let sigma = median(
            rows.iter().map(|row| value(row, row.variance.as_ref().unwrap()[bin].sqrt())).collect(),
        );
        assert_eq!(patterns[0].intensity[bin], middle, "bin {bin}");
        let half_pi = std::f64::consts::FRAC_PI_2;
        let expected = sigma * (half_pi / (11.0 + half_pi - 1.0)).sqrt();
        let error = patterns[0].errors.as_ref().unwrap()[bin];
        // Where two values are equal, they count as steps.
        assert!(
            (0.999_999..1.03).contains(&(error / expected)),
            "bin {bin}: {error}, expected {expected}"
        );
    }
    assert!(patterns[0].intensity[5].is_nan());
    // Two frames, one frame, and a range of none.
    build(out.path(), &scan, &recipe, options("median,1"));
    let (_, patterns) = averages(out.path());
    let alone = open(out.path()).rows().unwrap().pattern(8).unwrap();
    assert_eq!((patterns[8].intensity[2], patterns[3].frames), (f64::from(alone.0[2]), 0));
    assert_eq!(patterns[8].errors.as_ref().unwrap()[2], f64::from(alone.1.unwrap()[2]));
}

#[test]
fn a_bin_that_a_frame_has_no_pixel_in_does_not_pull_the_median_down() {
    let out = tempfile::tempdir().unwrap();
    let recipe = Recipe { empty: EmptyBinValue::Zero, error_model: ErrorModel::No, ..recipe() };
    let scan = acquisition(5, |_| 7);
    let emptied = |frame: u64| {
        let mut own = shared().weights;
        (own.norm[2], own.norm_sq[2], own.count[2]) = (0.0, 0.0, 0.0);
        let mut row = FrameRow { variance: None, ..row(frame) };
        if frame < 3 {
            (row.signal[2], row.weight_override) = (0.0, Some(own.into()));
        }
        row
    };
    write_part(out.path(), &task(&scan, &recipe, &Spans::first_n(5)), &recipe, (0..5).map(emptied));
    build(out.path(), &scan, &recipe, options("median"));
    let (_, patterns) = averages(out.path());
    let value = |frame| f64::from((row(frame).signal[2] / shared().weights.norm[2]) as f32);
    assert_eq!(
        (patterns[0].intensity[2], patterns[0].intensity[5]),
        ((value(3) + value(4)) / 2.0, 0.0)
    );
    assert_eq!(patterns[0].errors, None);
}

#[test]
fn a_median_needs_no_sums() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (with_monitor(ReferenceSetting::Mean), acquisition(9, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 9);
    build(out.path(), &scan, &recipe, options("median,3"));
    let (_, with_sums) = averages(out.path());
    std::fs::remove_file(out.path().join("sample_scan0001_p3.h5")).unwrap();
    let built = build(out.path(), &scan, &recipe, OutputOptions::default());
    let later = build(out.path(), &scan, &recipe, options("median,3"));
    assert_eq!((built.data_digest, later.was_unchanged), (later.data_digest, false));
    assert_eq!(format!("{:?}", averages(out.path()).1), format!("{with_sums:?}"), "NaN and all");
    assert!(build(out.path(), &scan, &recipe, options("median,3")).was_unchanged);
    assert!(!build(out.path(), &scan, &recipe, options("median,2")).was_unchanged);
}

#[test]
fn damaged_averages_are_made_anew() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(10, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 10);
    build(out.path(), &scan, &recipe, options("mean"));
    let (_, good) = averages(out.path());
    let path = out.path().join("sample_scan0001_p3.h5");
    let pattern: Vec<u8> =
        good[0].intensity[..3].iter().flat_map(|value| value.to_le_bytes()).collect();
    let bytes = std::fs::read(&path).unwrap();
    flip(&path, bytes.windows(pattern.len()).position(|window| window == pattern).unwrap());
    assert_eq!(open(out.path()).averaged.unwrap().pattern(0).unwrap(), None);
    assert!(!build(out.path(), &scan, &recipe, options("mean")).was_unchanged);
    assert_eq!(format!("{:?}", averages(out.path()).1), format!("{good:?}"), "NaN and all");
}
