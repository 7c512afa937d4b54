//! Real frames through the whole pipe, against patterns that others have published of them.
//!
//! The frames lie in `../shared/data`, each with a SOURCE.md that says where it is from, how its
//! reference was integrated, and how close another code comes to it. Their licences keep most of
//! them out of this repository, so the tests are for machines that have them: without them they are
//! passed over, but in CI they must be there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hdf5::File;
use serde_json::Value;

use crate::support::{NO_ARGUMENTS, npy, run};

/// A published table: columns of numbers under `#` comments.
struct Table(Vec<Vec<f64>>);

impl Table {
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        Self(
            lines
                .map(|line| {
                    line.split_whitespace().map(|word| word.parse().expect("a number")).collect()
                })
                .collect(),
        )
    }

    fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(path).expect("the reference can be read"))
    }

    fn column(&self, index: usize) -> Vec<f64> {
        self.0.iter().map(|row| row[index]).collect()
    }
}

/// The directory of real data; `None` where it is not here, which CI does not allow.
fn find_data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
    assert!(
        path.exists() || std::env::var_os("CI").is_none(),
        "{} is not here, and CI needs it",
        path.display()
    );
    path.exists().then_some(path)
}

/// The final of a scan.
struct Final {
    _directory: tempfile::TempDir,
    group: hdf5::Group,
}

impl Final {
    /// The first 1-D or 2-D dataset of this name as numbers, row-major.
    fn numbers(&self, name: &str) -> Vec<f64> {
        self.group.dataset(name).expect("the dataset").read_raw::<f64>().expect("numbers")
    }

    /// One frame's pattern.
    fn pattern(&self, name: &str, frame: usize, bins: usize) -> Vec<f64> {
        self.numbers(name)[frame * bins..(frame + 1) * bins].to_vec()
    }
}

/// Runs `scan-find FILE | plan-split FLAGS | ai-integrate | gather`, and returns the only final.
fn run_pipe(file: &Path, poni: &Path, flags: &[&str]) -> Final {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let scans = run("scan-find", &[file], "").assert_success().stdout;
    let mut plan: Vec<OsString> =
        vec!["--poni".into(), poni.into(), "--out".into(), directory.path().into()];
    plan.extend(flags.iter().map(OsString::from));
    let tasks = run("plan-split", &plan, &scans).assert_success().stdout;
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let summary =
        run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
    let file = File::open(summary["final"].as_str().expect("a path")).expect("the final opens");
    let (entry, detector) =
        (summary["entry"].as_str().expect("text"), summary["detector"].as_str().expect("text"));
    let group =
        file.group(&format!("/{entry}/{detector}_integrate/integrated")).expect("the patterns");
    Final { _directory: directory, group }
}

/// Returns Σ|a - b| / Σ|b| over the bins that both have.
fn relative_distance(ours: &[f64], reference: &[f64]) -> f64 {
    assert_eq!(ours.len(), reference.len());
    let both = || ours.iter().zip(reference).filter(|(a, b)| a.is_finite() && b.is_finite());
    assert!(both().count() * 10 > ours.len() * 8, "most bins hold something");
    both().map(|(a, b)| (a - b).abs()).sum::<f64>() / both().map(|(_, b)| b.abs()).sum::<f64>()
}

/// Returns the largest relative difference of two lists.
fn largest_difference(ours: &[f64], reference: &[f64]) -> f64 {
    let differences = ours.iter().zip(reference).map(|(a, b)| (a - b).abs() / b.abs().max(1e-300));
    differences
        .fold(0.0, |largest, one| if one.is_nan() { f64::INFINITY } else { largest.max(one) })
}

#[test]
fn ceria_on_a_pilatus_1m_as_dioptas_integrated_it() {
    let Some(data) = find_data("dioptas-ceo2-pilatus1m") else { return };
    let reference = Table::read(&data.join("CeO2_Pilatus1M.xy"));
    let flags = [
        "--npt",
        "1512",
        "--unit",
        "2th_deg",
        "--polarization",
        "0.99",
        "--dummy",
        "none",
        "--error-model",
        "no",
    ];
    let ours = run_pipe(
        &data.join("CeO2_Pilatus1M.tif"),
        &data.join("CeO2_Pilatus1M_orientation2.poni"),
        &flags,
    );
    let (axis, intensity) = (ours.numbers("2th"), ours.pattern("intensity", 0, 1512));
    let (expected_axis, expected) = (reference.column(0), reference.column(1));
    assert!(axis.iter().zip(&expected_axis).all(|(a, b)| (a - b).abs() < 2e-6), "the axis");
    let difference = relative_distance(&intensity, &expected);
    assert!(difference < 1e-4, "R = {difference}");
    let most = largest_difference(&intensity, &expected);
    assert!(most < 1e-3, "max = {most}");
}

#[test]
fn glucose_isomerase_saxs_with_errors_as_raw_integrated_it() {
    let Some(data) = find_data("bioxtas-gi2-pilatus100k") else { return };
    let reference = Table::read(&data.join("GI2_A9_19_001_0000.dat"));
    let settings = std::fs::read_to_string(data.join("integration.json")).expect("the settings");
    let settings: Value = serde_json::from_str(&settings).expect("JSON");
    let scale = settings["normalization_factor"].as_f64().expect("a number");
    // The reference is of the image flipped left to right: orientation 4 says the same of the image
    // as it is.
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let poni = std::fs::read_to_string(data.join("gi2.poni")).expect("the PONI");
    let poni = poni
        .replace("poni_version: 2\n", "poni_version: 2.1\n")
        .replace("{\"pixel1\"", "{\"orientation\": 4, \"pixel1\"");
    let turned = scratch.path().join("turned.poni");
    std::fs::write(&turned, poni).expect("it can be written");
    let mask = flipped_mask(&data.join("mask.edf"), scratch.path());
    let flags = [
        "--npt",
        "496",
        "--unit",
        "q_A^-1",
        "--radial-range",
        "0,0.2861700701881139",
        "--split",
        "no",
        "--dummy",
        "none",
        "--mask",
        &mask,
    ];
    let ours = run_pipe(&data.join("GI2_A9_19_001_0000.tiff"), &turned, &flags);
    let cut = |all: Vec<f64>| all[17..491].to_vec();
    let scaled = |name| {
        cut(ours.pattern(name, 0, 496)).into_iter().map(|value| value / scale).collect::<Vec<_>>()
    };
    assert!(largest_difference(&cut(ours.numbers("q")), &reference.column(0)) < 1e-8, "the axis");
    assert!(largest_difference(&scaled("intensity"), &reference.column(1)) < 1e-6, "I");
    assert!(largest_difference(&scaled("intensity_errors"), &reference.column(2)) < 1e-6, "sigma");
}

/// Flips a mask left to right, and writes it as NPY: the published mask is of the flipped image.
fn flipped_mask(edf: &Path, directory: &Path) -> String {
    let bytes = std::fs::read(edf).expect("the mask");
    let [rows, columns] = [195_usize, 487];
    let pixels = &bytes[bytes.len() - rows * columns..];
    let flipped: Vec<u8> =
        pixels.chunks(columns).flat_map(|row| row.iter().rev().copied()).collect();
    let path = directory.join("mask.npy");
    std::fs::write(&path, npy("|u1", [rows, columns], &flipped)).expect("it can be written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_map_of_magnetite_in_a_bliss_scan() {
    let Some(data) = find_data("dioptas-fe3o4-map-bliss2") else { return };
    let flags = [
        "--npt",
        "1508",
        "--unit",
        "2th_deg",
        "--polarization",
        "0.99",
        "--dummy",
        "none",
        "--detector-mask",
        "off",
    ];
    let ours = run_pipe(&data.join("Fe3O4C_0001.h5"), &data.join("map.poni"), &flags);
    let names = [
        "frame0_Fe3O4C_M1_map_1",
        "frame1_Fe3O4C_M1_map_2",
        "frame2_Fe3O4C_M1_map_3",
        "frame3_Fe3O4C_M1_map_6",
    ];
    for (frame, name) in names.iter().enumerate() {
        let reference = Table::read(&data.join(format!("ref/{name}_P1_E1_001.xy")));
        let difference =
            relative_distance(&ours.pattern("intensity", frame, 1508), &reference.column(1));
        assert!(difference < 1e-3, "frame {frame}: R = {difference}");
    }
}

#[test]
fn titanium_on_a_pixium_as_pyfai_integrated_it() {
    let Some(data) = find_data("lightform-pixium") else { return };
    let reference = Table::read(&data.join("pixium_03150_integrated.dat"));
    let flags = [
        "--npt",
        "5000",
        "--unit",
        "2th_deg",
        "--polarization",
        "0.99",
        "--split",
        "full",
        "--empty",
        "0",
        "--error-model",
        "no",
    ];
    let ours = run_pipe(&data.join("pixium_03150.tif"), &data.join("pixium.poni"), &flags);
    let difference = relative_distance(&ours.pattern("intensity", 0, 5000), &reference.column(1));
    assert!(difference < 1e-4, "R = {difference}");
}

#[test]
fn thirty_six_sectors_of_titanium() {
    let Some(data) = find_data("lightform-pixium") else { return };
    let packed = std::fs::read(data.join("pixium_03150_cakes36.dat.gz")).expect("the cakes");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut text)
        .expect("gzip");
    let reference = Table::parse(&text);
    let flags = [
        "--npt",
        "5000",
        "--npt-azim",
        "36",
        "--unit",
        "2th_deg",
        "--radial-range",
        "2,8",
        "--azimuth-range",
        "-180,180",
        "--polarization",
        "0.99",
        "--empty",
        "0",
        "--error-model",
        "no",
    ];
    let ours = run_pipe(&data.join("pixium_03150.tif"), &data.join("pixium_cakes.poni"), &flags);
    let cake = ours.pattern("intensity", 0, 36 * 5000);
    let expected: Vec<f64> = (0..36).flat_map(|sector| reference.column(sector + 1)).collect();
    let difference = relative_distance(&cake, &expected);
    assert!(difference < 1.5e-3, "R = {difference}");
}
