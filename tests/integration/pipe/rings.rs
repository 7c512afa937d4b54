//! The rings of LaB6 lie where its d spacings put them, whatever the splitting.

use hdf5::File;
use sample::{Options, Powder};

use crate::support::{NO_ARGUMENTS, Workspace, run};

/// A number of the PONI file.
fn read_poni_number(workspace: &Workspace, key: &str) -> f64 {
    let text = std::fs::read_to_string(&workspace.data.poni).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}: ")));
    line.and_then(|value| value.trim().parse().ok()).expect("a number of the PONI file")
}

/// The centre of the peak near `ring`, by its moment over a straight background between `ring` ±
/// `reach`.
fn find_peak_center(axis: &[f64], intensity: &[f64], ring: f64, reach: f64) -> f64 {
    let inside = |from: f64, to: f64| {
        let points =
            axis.iter().zip(intensity).filter(move |(x, _)| (from..to).contains(&(**x - ring)));
        points.map(|(x, y)| (*x, *y)).collect::<Vec<_>>()
    };
    let mean = |points: &[(f64, f64)]| {
        let sum = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / points.len() as f64, sum.1 / points.len() as f64)
    };
    let (left, right) = (mean(&inside(-1.4 * reach, -reach)), mean(&inside(reach, 1.4 * reach)));
    let background = |x: f64| left.1 + (right.1 - left.1) * (x - left.0) / (right.0 - left.0);
    let peak: Vec<(f64, f64)> =
        inside(-reach, reach).into_iter().map(|(x, y)| (x, y - background(x))).collect();
    peak.iter().map(|(x, y)| x * y).sum::<f64>() / peak.iter().map(|(_, y)| y).sum::<f64>()
}

#[test]
fn rings_of_lab6_are_right_to_a_hundredth_of_a_pixel() {
    let workspace =
        Workspace::new(&Options { scans: 1, frames: 8, mean: 20.0, ..Options::default() });
    let (wavelength, distance) = (
        read_poni_number(&workspace, "Wavelength") * 1e10,
        read_poni_number(&workspace, "Distance"),
    );
    let pixel = (172e-6 / distance).to_degrees();
    for split in ["no", "bbox", "full"] {
        let flags = [
            "--unit",
            "2th_deg",
            "--split",
            split,
            "--mask",
            workspace.data.mask.to_str().unwrap(),
            "--npt",
            "3000",
        ];
        let out = workspace.path(split);
        let mut plan =
            vec!["--poni", workspace.data.poni.to_str().unwrap(), "--out", out.to_str().unwrap()];
        plan.extend(flags);
        let tasks = run("plan-split", &plan, &workspace.scans).assert_success();
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks.stdout).assert_success();
        let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
        let file = File::open(gathered.records("summary")[0]["final"].as_str().unwrap()).unwrap();
        let group = file.group("/1.1/pilatus_integrate/integrated").unwrap();
        let axis = group.dataset("2th").unwrap().read_raw::<f64>().unwrap();
        let frames = group.dataset("intensity").unwrap().read_2d::<f64>().unwrap();
        let sum: Vec<f64> = frames.columns().into_iter().map(|bin| bin.iter().sum()).collect();
        let (mut checked, mut worst) = (0, 0.0f64);
        for (d, height) in Powder::LaB6.rings() {
            let ring = 2.0 * (wavelength / (2.0 * d)).asin().to_degrees();
            // Far from the corners, where a ring is whole, and strong enough to be measured so
            // well.
            if height < 20.0 || ring > 0.6 * axis[axis.len() - 1] {
                continue;
            }
            // Pixels are seen under smaller angles away from the beam: cos² of it.
            let seen = pixel * ring.to_radians().cos().powi(2);
            worst =
                worst.max((find_peak_center(&axis, &sum, ring, 7.0 * pixel) - ring).abs() / seen);
            checked += 1;
        }
        assert!(checked >= 5, "{checked} rings");
        assert!(worst < 0.01, "--split {split}: {worst} of a pixel");
    }
}
