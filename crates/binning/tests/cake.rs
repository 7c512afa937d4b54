//! Cakes: bins in radius and azimuth, across the discontinuity of chi.

#![allow(clippy::unwrap_used)]

mod support;

use binning::{
    AzimuthRequest, Binning, BinningRequest, BinsRequest, PatternRequest, PixelSplitting,
    bin_pattern, bin_pixels,
};
use geometry::Geometry;
use support::{TestPlacement, TestRandom, unit};

const SPLITS: [PixelSplitting; 3] =
    [PixelSplitting::No, PixelSplitting::BBox, PixelSplitting::Full];
const NPT: usize = 20;

fn cake(geometry: &Geometry, split: PixelSplitting, azimuth: BinsRequest) -> Binning {
    let request = BinningRequest {
        unit: unit("q_nm^-1"),
        radial: BinsRequest::Uniform { npt: NPT, range: None },
        azimuth: AzimuthRequest::Bins(azimuth),
        split,
    };
    bin_pixels(geometry, &vec![false; geometry.shape().iter().product()], &request).unwrap()
}

fn even(npt: usize, range: Option<(f64, f64)>) -> BinsRequest {
    BinsRequest::Uniform { npt, range }
}

/// Returns the weights of a pixel, summed by azimuthal bin.
fn weights_by_azimuth(binning: &Binning, pixel: usize) -> Vec<f64> {
    let mut sums = vec![0.0; binning.chi.as_ref().unwrap().centers.len()];
    let (bins, weights) = binning.matrix.entries_of_column(pixel);
    for (bin, weight) in bins.iter().zip(weights) {
        sums[*bin as usize / NPT] += f64::from(weight);
    }
    sums
}

#[test]
fn bins_are_numbered_azimuth_first() {
    let geometry = TestPlacement::flat([40, 40], [20.3, 20.1]).geometry();
    let found = cake(&geometry, PixelSplitting::No, even(36, None));
    let (axis, chi) = (&found.axis, found.chi.as_ref().unwrap());
    assert_eq!((axis.centers.len(), chi.centers.len()), (NPT, 36));
    assert!((chi.lower + 180.0).abs() < 1e-12 && (chi.centers[0] + 175.0).abs() < 1e-4);
    assert!((chi.upper / 180.0 - 1.0 - 2f64.powi(-23)).abs() < 1e-15);
    let (radii, angles) =
        (geometry.radial_centers(unit("q_nm^-1")).unwrap(), geometry.chi_centers());
    for pixel in 0..1600 {
        let (bins, weights) = found.matrix.entries_of_column(pixel);
        let ([bin], [weight]) = (&bins[..], &weights[..]) else {
            panic!("pixel {pixel} is not in one bin")
        };
        assert_eq!(*weight, 1.0);
        let (row, column) = (*bin as usize / NPT, *bin as usize % NPT);
        let half = [(chi.upper - chi.lower) / 72.0, (axis.upper - axis.lower) / (2.0 * NPT as f64)];
        assert!(
            (angles[pixel].to_degrees() - chi.centers[row]).abs() <= half[0] * 1.000001,
            "pixel {pixel}"
        );
        assert!((radii[pixel] - axis.centers[column]).abs() <= half[1] * 1.000001, "pixel {pixel}");
    }
}

#[test]
fn the_sum_over_azimuth_is_the_pattern() {
    let mut random = TestRandom(5);
    for _ in 0..30 {
        let placement = TestPlacement::random(&mut random);
        let geometry = placement.geometry();
        let start = random.between(-200.0, 200.0);
        for split in SPLITS {
            let found =
                cake(&geometry, split, even(random.whole(1, 100), Some((start, start + 360.0))));
            let request = PatternRequest {
                unit: unit("q_nm^-1"),
                npt: NPT,
                radial_range: None,
                azimuth_range: None,
                split,
            };
            let pattern =
                bin_pattern(&geometry, &vec![false; placement.pixels()], &request).unwrap();
            assert_eq!(found.axis, pattern.axis);
            for pixel in 0..placement.pixels() {
                let mut sums = [0.0; NPT];
                let (bins, weights) = found.matrix.entries_of_column(pixel);
                bins.iter()
                    .zip(weights)
                    .for_each(|(bin, weight)| sums[*bin as usize % NPT] += f64::from(weight));
                let (bins, weights) = pattern.matrix.entries_of_column(pixel);
                bins.iter()
                    .zip(weights)
                    .for_each(|(bin, weight)| sums[*bin as usize] -= f64::from(weight));
                let largest =
                    sums.iter().fold(0.0_f64, |largest, difference| largest.max(difference.abs()));
                assert!(largest < 2e-6, "{placement:?} {split:?}: pixel {pixel}: {sums:?}");
            }
        }
    }
}

#[test]
fn a_pixel_across_the_discontinuity_is_on_both_sides() {
    // Row 20 left of the beam covers chi from slightly below to slightly above 180 degrees.
    let geometry = TestPlacement::flat([41, 40], [20.5, 20.0]).geometry();
    let pixel = 20 * 40 + 3;
    for split in [PixelSplitting::BBox, PixelSplitting::Full] {
        let sums = weights_by_azimuth(&cake(&geometry, split, even(90, None)), pixel);
        assert!(
            (sums[0] - 0.5).abs() < 1e-6 && (sums[89] - 0.5).abs() < 1e-6,
            "{split:?}: {} {}",
            sums[0],
            sums[89]
        );
        // On an axis from 0 to 360 degrees, where these bins are in the middle, they hold as much.
        let middle =
            weights_by_azimuth(&cake(&geometry, split, even(90, Some((0.0, 360.0)))), pixel);
        assert!(
            (middle[44] - sums[89]).abs() < 1e-4 && (middle[45] - sums[0]).abs() < 1e-4,
            "{split:?}"
        );
    }
}

#[test]
fn the_azimuthal_axis_keeps_the_requested_range() {
    let geometry = TestPlacement::flat([41, 41], [20.2, 20.4]).geometry();
    for split in SPLITS {
        let found = cake(&geometry, split, even(4, Some((170.0, 190.0))));
        let same = cake(&geometry, split, even(4, Some((-190.0, -170.0))));
        let (chi, low) = (found.chi.unwrap().centers, same.chi.unwrap().centers);
        for (i, (high, low)) in chi.iter().zip(&low).enumerate() {
            assert!(
                (high - (172.5 + 5.0 * i as f64)).abs() < 1e-4 && (high - low - 360.0).abs() < 1e-9,
                "{high} {low}"
            );
        }
        assert_eq!(found.matrix, same.matrix);
        let far = 20 * 41 + 39;
        assert!(
            found.matrix.entries_of_column(far).0.is_empty(),
            "{split:?}: a pixel at 0 deg is in"
        );
    }
}

#[test]
fn azimuthal_edges_may_be_uneven_and_cross_the_discontinuity() {
    let geometry = TestPlacement::flat([41, 41], [20.2, 20.4]).geometry();
    let found =
        cake(&geometry, PixelSplitting::No, BinsRequest::Edges(vec![90.0, 170.0, 181.5, 300.0]));
    assert_eq!(
        found.chi.as_ref().unwrap().centers.iter().map(|chi| chi.round()).collect::<Vec<_>>(),
        [130.0, 176.0, 241.0]
    );
    for (pixel, chi) in geometry.chi_centers().iter().enumerate() {
        let degrees = chi.to_degrees().rem_euclid(360.0);
        let expected = [(90.0, 170.0), (170.0, 181.5), (181.5, 300.0)];
        let expected: Vec<f64> = expected
            .iter()
            .map(|(a, b)| f64::from(u8::from((*a..*b).contains(&degrees))))
            .collect();
        assert_eq!(weights_by_azimuth(&found, pixel), expected, "pixel {pixel} at {degrees}");
    }
}
