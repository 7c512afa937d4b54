//! Bins of any widths: each holds what the narrow ones of one width hold that lie in it.

use super::parts;
use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

/// The sums of the first frame: signal, norm and variance, by bin.
fn integrate_sums(workspace: &Workspace, out: &str, flags: &[&str]) -> [Vec<f64>; 3] {
    run("ai-integrate", &["--keep-sums"], &workspace.plan_without_bins(out, flags))
        .assert_success();
    let out = workspace.path(out);
    let first = |name| parts::read_rows::<f64>(&out, name).remove(0).1;
    [first("signal"), parts::read_per_bin(&out, "norm"), first("variance")]
}

/// Sums of the rows and columns of a cake, or of a pattern of one row, between these.
fn sum_narrow_bins(fine: &[f64], columns: usize, radial: &[usize], azimuth: &[usize]) -> Vec<f64> {
    let bin = |rows: &[usize], bins: &[usize]| -> f64 {
        (rows[0]..rows[1])
            .map(|row| fine[row * columns..][bins[0]..bins[1]].iter().sum::<f64>())
            .sum()
    };
    azimuth.windows(2).flat_map(|rows| radial.windows(2).map(move |bins| bin(rows, bins))).collect()
}

#[test]
fn wide_bins_hold_what_the_narrow_ones_in_them_hold() {
    let mut options = small_options();
    options.frames = 1;
    let workspace = Workspace::new(&options);
    for split in ["no", "bbox", "full"] {
        let all = ["--split", split, "--unit", "2th_deg"];
        let of = |name: &str, flags: &[&str]| {
            integrate_sums(&workspace, &format!("{name}-{split}"), &[&all[..], flags].concat())
        };
        let even = of(
            "even",
            &[
                "--npt",
                "24",
                "--radial-range",
                "2,8",
                "--npt-azim",
                "12",
                "--azimuth-range",
                "60,180",
            ],
        );
        let edges = ["--radial-edges", "2,2.25,3,3.5,7.75,8", "--azimuth-edges", "60,70,100,180"];
        let uneven = of("uneven", &edges);
        // The variance of a pixel that narrow bins share is not that of the whole of it.
        let names =
            if split == "no" { &["signal", "norm", "variance"][..] } else { &["signal", "norm"] };
        for (name, (fine, found)) in names.iter().zip(even.iter().zip(&uneven)) {
            let expected = sum_narrow_bins(fine, 24, &[0, 1, 4, 6, 23, 24], &[0, 1, 4, 12]);
            assert!(expected.iter().sum::<f64>() > 0.0, "{split}: no {name} to compare");
            let scale = expected.iter().copied().fold(0.0, f64::max);
            // Shares are computed in f32, of a wide bin once.
            let tolerance = if split == "no" { 1e-9 } else { 1e-5 };
            let close = |(f, e): (&f64, &f64)| (f - e).abs() <= tolerance * e + 1e-9 * scale;
            assert_eq!(found.len(), expected.len());
            assert!(
                found.iter().zip(&expected).all(close),
                "{split}: {name}: {found:?}, expected {expected:?}"
            );
        }
    }
}

#[test]
fn a_final_has_the_middles_of_uneven_bins_for_its_axis() {
    let workspace = Workspace::new(&small_options());
    let tasks =
        workspace.plan_without_bins("out", &["--radial-edges", "2,3,5,9", "--unit", "2th_deg"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let picture = workspace.path("patterns.png");
    let flags =
        ["--layout", "integrator", "--export", "nxazint", "--plot", picture.to_str().unwrap()];
    let summary = run("gather", &flags, &results).assert_success().records("summary").remove(0);
    let exported = hdf5::File::open(summary["export"][0].as_str().unwrap()).unwrap();
    let edges: Vec<f64> =
        exported.dataset("1.1/data/radial_axis_edges").unwrap().read_raw().unwrap();
    assert_eq!(edges, [2.0, 3.0, 5.0, 9.0]);
    let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
    let axis: Vec<f64> = file.dataset("2th_deg").unwrap().read_raw().unwrap();
    assert_eq!(axis, [2.5, 4.0, 7.0]);
}
