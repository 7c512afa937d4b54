//! Compares positions, half widths and corrections of random experiments with pyFAI, pixel by
//! pixel.
//!
//! The tests run if `AZPIPE_PEERS`, or `.venv` in the root, is a virtual environment with pyFAI.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod support;

use std::path::PathBuf;

use geometry::{
    Detector, DetectorSpec, Geometry, NexusDetector, PixelCorners, PixelIntervals, Poni, Unit,
};
use serde::Deserialize;

const COUNT: usize = 120;

/// Largest relative differences of centres and of corners with parallax.
const PARALLAX_TOLERANCE: f64 = 1e-8;
const SINGLE_TOLERANCE: f64 = 1e-6;

#[derive(Deserialize)]
struct Case {
    poni: String,
    shape: [usize; 2],
    unit: Unit,
    /// Title of an axis in this unit, without the marks of LaTeX.
    label: String,
    /// Curvature of a detector that is given by its pixel corners; `None` for a flat one.
    depth: Option<f64>,
    pixels: Vec<usize>,
    centers: Vec<f64>,
    deltas: Vec<f64>,
    chi: Vec<f64>,
    chi_deltas: Vec<f64>,
    corners: Vec<f32>,
    solid_angle: Vec<f64>,
    polarization: Vec<f64>,
    absorbed: Vec<f64>,
}

fn cases() -> Option<Vec<Case>> {
    let folder = tempfile::tempdir().unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pyfai.py");
    let output = support::pyfai_python()?
        .arg(script)
        .args(["1", &COUNT.to_string()])
        .arg(folder.path())
        .args(Unit::all().map(Unit::name))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Returns the corners of the curved detector of pyfai.py.
fn curved_corners([rows, columns]: [usize; 2], pixel: f64, depth: f64) -> PixelCorners {
    let mut values = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            for [dy, dx] in [[0, 0], [1, 0], [1, 1], [0, 1]] {
                let [v, u] = [(row + dy) as f64, (column + dx) as f64];
                let corner =
                    [depth * (u * u), pixel * (v + 0.001 * (v * u)), pixel * (u + 0.002 * (v * v))];
                values.extend(corner.map(|value| value as f32));
            }
        }
    }
    PixelCorners::new([rows, columns], values).unwrap()
}

fn geometry(case: &Case) -> Geometry {
    let poni = Poni::parse(&case.poni).unwrap();
    let detector = match case.depth {
        None => Detector::from_poni(&poni).unwrap(),
        Some(depth) => {
            let corners = Some(curved_corners(case.shape, 1e-4, depth));
            let file =
                NexusDetector { pixel_size: Some([1e-4; 2]), corners, ..NexusDetector::default() };
            Detector::from_nexus(file, &DetectorSpec::default()).unwrap()
        }
    };
    Geometry::new(&poni, &detector, case.shape).unwrap()
}

/// Returns the largest difference, relative to the expected value or to `floor`, whichever is
/// larger.
fn worst(expected: &[f64], found: impl Iterator<Item = f64>, floor: f64) -> f64 {
    let difference = |(a, b): (&f64, f64)| (a - b).abs() / a.abs().max(floor);
    expected
        .iter()
        .zip(found)
        .map(difference)
        .fold(0.0, |worst, next| if next <= worst { worst } else { next })
}

#[test]
fn positions_equal_those_of_pyfai() {
    let Some(cases) = cases() else { return };
    assert_eq!(cases.len(), COUNT + COUNT / 2);
    let (mut corners, mut equal) = (0, 0);
    for case in &cases {
        let unit = case.unit;
        assert_eq!(unit.label(), case.label);
        let geometry = geometry(case);
        let pick = |values: Vec<f64>| {
            case.pixels.iter().map(move |&pixel| values[pixel]).collect::<Vec<_>>()
        };
        let check = |what: &str, expected: &[f64], found: Vec<f64>, floor: f64, tolerance: f64| {
            let worst = worst(expected, found.into_iter(), floor);
            assert!(worst <= tolerance, "{what} differs by {worst:e} for {unit} in\n{}", case.poni);
        };
        // pyFAI interpolates parallax between angles.
        let has_parallax = case.poni.contains("Parallax: True");
        let exact = if has_parallax { PARALLAX_TOLERANCE } else { 1e-12 };
        check("center", &case.centers, pick(geometry.radial_centers(unit).unwrap()), 1e-9, exact);
        check("chi", &case.chi, pick(geometry.chi_centers()), 1e-3, exact);
        // A half width is a small difference of positions, so it can't be more precise than the
        // largest position.
        let largest =
            case.centers.iter().fold(0.0_f64, |largest, center| largest.max(center.abs()));
        // pyFAI corrects corners in single precision.
        let exact = if has_parallax { SINGLE_TOLERANCE } else { 1e-12 };
        let half_widths = |intervals: &PixelIntervals, scale: f64| {
            case.pixels.iter().map(|&pixel| intervals.half_width(pixel) * scale).collect()
        };
        let radial = half_widths(&geometry.radial_intervals(unit).unwrap(), unit.scale());
        check("delta", &case.deltas, radial, largest, exact);
        let chi = half_widths(&geometry.chi_intervals(), 1.0);
        check("delta of chi", &case.chi_deltas, chi, 1.0, exact);
        // For a detector given by pixel corners, pyFAI computes offsets and normals in single
        // precision.
        let tolerance = if case.depth.is_some() { 1e-6 } else { 1e-12 };
        check("solid angle", &case.solid_angle, pick(geometry.solid_angle()), 1e-6, tolerance);
        check(
            "polarization",
            &case.polarization,
            pick(geometry.polarization(0.9, 0.1)),
            1.0,
            1.3e-7,
        );
        // pyFAI computes angles of incidence from pixel indices in single precision.
        check("absorbed", &case.absorbed, pick(geometry.sensor_absorption(0.8)), 1e-6, 1e-6);
        let all = geometry.corners(unit).unwrap();
        let found = case.pixels.iter().flat_map(|&pixel| all.of_pixel(pixel).into_iter().flatten());
        if has_parallax {
            let radial = |values: Vec<f32>| -> Vec<f64> {
                values.into_iter().step_by(2).map(f64::from).collect()
            };
            let expected = radial(case.corners.clone());
            let largest = expected.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
            check("corners", &expected, radial(found.collect()), largest, SINGLE_TOLERANCE);
            continue;
        }
        corners += case.corners.len();
        equal += case.corners.iter().zip(found).filter(|(a, b)| **a == *b).count();
    }
    eprintln!(
        "{} experiments, {corners} corner coordinates, {} not equal to the bit",
        cases.len(),
        corners - equal
    );
    assert!(equal as f64 >= 0.999 * corners as f64, "{equal} of {corners} corners are equal");
}
