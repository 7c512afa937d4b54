//! Exports of patterns for other programs.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::path::{Path, PathBuf};

use patterns::export::{self, ExportError};
use patterns::output::{OutputFile, OutputOptions};
use recipe::{EmptyBinValue, ErrorModel, Recipe};
use records::Span;
use support::*;
use system::ownership::ReplacePolicy;

/// Exports a scan of ten frames.
fn exported(
    out: &Path,
    recipe: &Recipe,
    average: Option<&str>,
    format: &str,
) -> Result<Vec<PathBuf>, String> {
    let scan = acquisition(10, |_| 7);
    let whole = task(&scan, recipe, &Span::new(0, 10).into());
    let has_errors = recipe.error_model != ErrorModel::No;
    let rows = (0..10).map(|frame| {
        let row = row(frame);
        let variance = row.variance.clone().filter(|_| has_errors);
        patterns::FrameRow { variance, ..row }
    });
    write_part(out, &whole, recipe, rows);
    let average = average.map(|average| average.parse().unwrap());
    build(out, &scan, recipe, OutputOptions { average, ..OutputOptions::default() });
    write(&open(out), format).map_err(|why| why.to_string())
}

/// Exports a final file in the format of this name.
fn write(output: &OutputFile, format: &str) -> Result<Vec<PathBuf>, ExportError> {
    export::find_format(format).unwrap().write(output, None, &ReplacePolicy::default())
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn columns_hold_what_the_average_holds() {
    let out = tempfile::tempdir().unwrap();
    let xye = exported(out.path(), &recipe(), Some("mean"), "xye").unwrap();
    assert_eq!(xye, [out.path().join("sample_scan0001_p3.xye")]);
    let mean = open(out.path()).averaged.unwrap().pattern(0).unwrap().unwrap();
    let lines: Vec<Vec<f64>> = text(&xye[0])
        .lines()
        .map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect())
        .collect();
    assert_eq!(lines.len(), BINS - 1, "the empty bin is left out");
    for (bin, line) in lines.iter().enumerate() {
        let expected = [0.5 + bin as f64, mean.intensity[bin], mean.errors.as_ref().unwrap()[bin]];
        assert!(
            line.iter()
                .zip(expected)
                .all(|(found, expected)| (found / expected - 1.0).abs() < 1e-8),
            "{line:?}"
        );
    }
    let there = open(out.path());
    let csv = text(&write(&there, "csv").unwrap()[0]);
    assert!(csv.starts_with("q,intensity,error\n5.00000000e-01,"), "{csv}");
    assert!(csv.ends_with("5.50000000e+00,nan,nan\n"), "{csv}");
    let dat = text(&write(&there, "dat").unwrap()[0]);
    assert!(dat.starts_with("# == mean of 10 frames, azpipe "), "{dat}");
    assert!(dat.contains("# Distance: 0.1\n") && dat.contains("q (nm^-1)"), "{dat}");
    assert_eq!(dat.lines().filter(|line| !line.starts_with('#')).count(), BINS);
}

#[test]
fn empty_bins_are_not_exported_for_refinement_whatever_they_hold() {
    let out = tempfile::tempdir().unwrap();
    let zero = Recipe { empty: EmptyBinValue::Zero, ..recipe() };
    let xye = text(&exported(out.path(), &zero, Some("mean"), "xye").unwrap()[0]);
    assert_eq!(xye.lines().count(), BINS - 1, "{xye}");
    assert!(
        xye.lines().all(|line| line.split(' ').nth(2).unwrap().parse::<f64>().unwrap() > 0.0),
        "{xye}"
    );
}

#[test]
fn ranges_are_a_file_each() {
    let out = tempfile::tempdir().unwrap();
    let names = |files: Vec<PathBuf>| -> Vec<String> {
        files.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let fours = names(exported(out.path(), &recipe(), Some("sum,4"), "csv").unwrap());
    assert_eq!(
        fours,
        ["00000-00003", "00004-00007", "00008-00009"]
            .map(|range| format!("sample_scan0001_p3_{range}.csv"))
    );
    let single = tempfile::tempdir().unwrap();
    let ones = names(exported(single.path(), &recipe(), Some("mean,1"), "xye").unwrap());
    assert_eq!((ones.len(), ones[9].as_str()), (10, "sample_scan0001_p3_00009.xye"));
}

#[test]
fn fxye_is_over_hundredths_of_a_degree() {
    let out = tempfile::tempdir().unwrap();
    let path = exported(out.path(), &recipe(), Some("mean"), "fxye").unwrap().remove(0);
    let text = text(&path);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "sample 1.1 p3: mean of 10 frames, 1.000000 angstrom");
    // 2 arcsin(q λ / 4π) of q = 0.5 and 4.5 nm^-1 at 0.1 nm.
    let bank: Vec<&str> = lines[1].split(' ').collect();
    assert_eq!(bank[..5], ["BANK", "1", "5", "5", "CONST"]);
    assert_eq!(bank[7..], ["0", "0", "FXYE"]);
    let centidegrees =
        |q: f64| 2.0 * (q * 0.1 / (4.0 * std::f64::consts::PI)).asin().to_degrees() * 100.0;
    let number = |word: &str| word.parse::<f64>().unwrap();
    assert!((number(bank[5]) - centidegrees(0.5)).abs() < 1e-6);
    assert!((number(bank[6]) - (centidegrees(4.5) - centidegrees(0.5)) / 4.0).abs() < 1e-6);
    assert_eq!(lines.len(), 7, "the bin without data is left out: {text}");
    let mean = open(out.path()).averaged.unwrap().pattern(0).unwrap().unwrap();
    for (bin, line) in lines[2..].iter().enumerate() {
        let columns: Vec<f64> = line.split_whitespace().map(number).collect();
        let expected = [
            centidegrees(0.5 + bin as f64),
            mean.intensity[bin],
            mean.errors.as_ref().unwrap()[bin],
        ];
        let close = columns
            .iter()
            .zip(expected)
            .all(|(found, expected)| (found / expected - 1.0).abs() < 1e-8);
        assert!(columns.len() == 3 && close && line.len() <= 80, "{line}");
    }
}

#[test]
fn formats_report_what_they_do_not_support() {
    let refused = |recipe: &Recipe, average, format| {
        let out = tempfile::tempdir().unwrap();
        exported(out.path(), recipe, average, format).unwrap_err()
    };
    assert!(refused(&recipe(), None, "xye").contains("no average pattern to export"));
    let blind = Recipe { poni: "Distance: 0.1\nPoni1: 0\nPoni2: 0\n".to_owned(), ..recipe() };
    for format in ["fxye", "nxazint"] {
        let why = refused(&blind, Some("mean"), format);
        assert!(why.contains(&format!("{format} needs the wavelength")), "{why}");
    }
}

#[test]
fn nothing_is_exported_with_errors_that_are_not_there() {
    let out = tempfile::tempdir().unwrap();
    let plain = Recipe { error_model: ErrorModel::No, ..recipe() };
    let fxye = text(&exported(out.path(), &plain, Some("mean"), "fxye").unwrap()[0]);
    assert!(fxye.lines().skip(2).all(|line| line.ends_with(" 1.00000000e+00")), "{fxye}");
    let xye = text(&write(&open(out.path()), "xye").unwrap()[0]);
    assert!(xye.lines().all(|line| line.split(' ').count() == 2), "{xye}");
}

#[test]
fn an_average_without_a_frame_is_not_exported() {
    let out = tempfile::tempdir().unwrap();
    let (scan, recipe) = (acquisition(10, |_| 7), recipe());
    write_range(out.path(), &scan, &recipe, 0, 5);
    build(
        out.path(),
        &scan,
        &recipe,
        OutputOptions { average: "mean,5".parse().ok(), ..OutputOptions::default() },
    );
    let there = open(out.path());
    let path = write(&there, "nxcansas").unwrap().remove(0);
    let file = hdf5::File::open(path).unwrap();
    assert_eq!(file.dataset("sasentry01/sasdata01/I").unwrap().size(), BINS - 1);
    assert!(!file.link_exists("sasentry02"));
    let xye = write(&there, "xye").unwrap();
    assert_eq!(xye.iter().map(|path| text(path).lines().count()).collect::<Vec<_>>(), [BINS - 1]);
}
