//! Patterns: pixels contribute to the right bins, with the right weights.

#![allow(clippy::unwrap_used)]

mod support;

use binning::{
    AzimuthRequest, Binning, BinningRequest, BinsRequest, PairedColumns, PatternRequest,
    PixelBinner, PixelSplitting, bin_pattern, bin_pixels,
};
use geometry::{Geometry, Unit};
use support::{ALL_CHI, TestPlacement, TestRandom, area_within, polygon, unit};

const SPLITS: [PixelSplitting; 3] =
    [PixelSplitting::No, PixelSplitting::BBox, PixelSplitting::Full];

fn request(split: PixelSplitting) -> PatternRequest {
    PatternRequest {
        unit: unit("2th_deg"),
        npt: 50,
        radial_range: None,
        azimuth_range: None,
        split,
    }
}

fn binned(geometry: &Geometry, request: &PatternRequest) -> Binning {
    bin_pattern(geometry, &vec![false; pixels(geometry)], request).unwrap()
}

fn pixels(geometry: &Geometry) -> usize {
    geometry.shape().iter().product()
}

/// Returns the sum of a pixel's weights.
fn total_weight(binning: &Binning, pixel: usize) -> f64 {
    binning.matrix.entries_of_column(pixel).1.iter().map(|weight| f64::from(*weight)).sum()
}

/// Returns the pixels that have any weight.
fn contributing_pixels(binning: &Binning) -> Vec<usize> {
    (0..binning.matrix.column_count()).filter(|pixel| total_weight(binning, *pixel) > 0.0).collect()
}

#[test]
fn without_a_range_every_pixel_counts_once() {
    let mut random = TestRandom(1);
    for _ in 0..60 {
        let placement = TestPlacement::random(&mut random);
        let geometry = placement.geometry();
        for split in SPLITS {
            let unit = Unit::all().nth(random.whole(0, 8)).unwrap();
            let found = binned(
                &geometry,
                &PatternRequest { unit, npt: random.whole(1, 300), ..request(split) },
            );
            for pixel in 0..placement.pixels() {
                let total = total_weight(&found, pixel);
                assert!(
                    (total - 1.0).abs() < 1e-6,
                    "{placement:?} {unit} {split:?}: pixel {pixel} counts {total}"
                );
                assert!(found.matrix.entries_of_column(pixel).0.is_sorted_by(|a, b| a < b));
            }
        }
    }
}

#[test]
fn the_axis_spans_the_unmasked_pixels() {
    let geometry = TestPlacement::flat([30, 40], [-5.0, 20.3]).geometry();
    let mask: Vec<bool> = (0..1200).map(|pixel| !(200..800).contains(&pixel)).collect();
    let boxes = geometry.radial_intervals(unit("q_nm^-1")).unwrap();
    let corners = geometry.corners(unit("q_nm^-1")).unwrap();
    for split in SPLITS {
        let ends = |pixel: usize| match split {
            PixelSplitting::No => (0.1 * boxes.centers[pixel], 0.1 * boxes.centers[pixel]),
            PixelSplitting::BBox => {
                let (min, max) = boxes.interval(pixel);
                (0.1 * min, 0.1 * max)
            }
            PixelSplitting::Full => {
                let radii = corners.of_pixel(pixel).map(|corner| 0.1 * f64::from(corner[0]));
                (
                    radii.into_iter().fold(f64::MAX, f64::min),
                    radii.into_iter().fold(f64::MIN, f64::max),
                )
            }
        };
        let lower = (200..800).map(|pixel| ends(pixel).0).fold(f64::MAX, f64::min);
        let upper =
            (200..800).map(|pixel| ends(pixel).1).fold(f64::MIN, f64::max) * (1.0 + 2f64.powi(-23));
        let found = bin_pattern(
            &geometry,
            &mask,
            &PatternRequest { unit: unit("q_A^-1"), ..request(split) },
        )
        .unwrap();
        assert!(
            (found.axis.lower - lower).abs() < 1e-14 && (found.axis.upper - upper).abs() < 1e-14,
            "{split:?}"
        );
        let width = (upper - lower) / 50.0;
        for (i, center) in found.axis.centers.iter().enumerate() {
            assert!((center - (lower + (i as f64 + 0.5) * width)).abs() < 1e-13);
        }
        assert_eq!(
            contributing_pixels(&found),
            (200..800).collect::<Vec<_>>(),
            "masked pixels count"
        );
    }
}

#[test]
fn the_axis_does_not_begin_below_zero() {
    let geometry = TestPlacement::flat([30, 40], [10.4, 20.3]).geometry();
    assert_eq!(binned(&geometry, &request(PixelSplitting::BBox)).axis.lower, 0.0);
}

#[test]
fn a_given_range_is_the_axis_with_a_slightly_larger_upper_limit() {
    let geometry = TestPlacement::flat([30, 40], [10.0, 20.0]).geometry();
    for split in SPLITS {
        let found = binned(
            &geometry,
            &PatternRequest { radial_range: Some((0.5, 1.5)), npt: 10, ..request(split) },
        );
        assert!((found.axis.lower - 0.5).abs() < 1e-15);
        assert!((found.axis.upper / 1.5 - 1.0 - 2f64.powi(-23)).abs() < 1e-15);
        assert!((found.axis.centers[0] - 0.55).abs() < 1e-7);
    }
}

#[test]
fn without_splitting_the_centre_decides() {
    let geometry = TestPlacement::flat([30, 40], [10.2, 20.4]).geometry();
    let centers = geometry.radial_centers(unit("2th_deg")).unwrap();
    let found = binned(
        &geometry,
        &PatternRequest { radial_range: Some((0.5, 1.5)), npt: 10, ..request(PixelSplitting::No) },
    );
    for (pixel, center) in centers.iter().enumerate() {
        let position = (center - found.axis.lower) / (found.axis.upper - found.axis.lower) * 10.0;
        let (bins, weights) = found.matrix.entries_of_column(pixel);
        if (0.0..10.0).contains(&position) {
            assert_eq!(
                (bins, weights),
                (vec![position as u32], vec![1.0]),
                "pixel {pixel} at {center}"
            );
        } else {
            assert!(bins.is_empty(), "pixel {pixel} at {center} is outside");
        }
    }
}

#[test]
fn a_bounding_box_counts_by_its_overlap() {
    let geometry =
        TestPlacement { rot: [0.1, -0.2, 0.3], ..TestPlacement::flat([30, 40], [10.2, 20.4]) }
            .geometry();
    let unit = unit("q_nm^-1");
    let boxes = geometry.radial_intervals(unit).unwrap();
    let centers = &boxes.centers;
    let range = (centers[0].min(centers[600]) * 0.9, centers[0].max(centers[600]));
    let found = binned(
        &geometry,
        &PatternRequest {
            unit,
            radial_range: Some(range),
            npt: 33,
            ..request(PixelSplitting::BBox)
        },
    );
    let width = (found.axis.upper - found.axis.lower) / 33.0;
    let mut truncated = 0;
    for pixel in 0..pixels(&geometry) {
        let (min, max) = boxes.interval(pixel);
        let overlap = |bin: u32| {
            let edge = found.axis.lower + f64::from(bin) * width;
            (max.min(edge + width) - min.max(edge)).max(0.0) / (max - min)
        };
        let expected: f64 = (0..33).map(overlap).sum();
        assert!((total_weight(&found, pixel) - expected).abs() < 1e-6, "pixel {pixel}");
        truncated += usize::from(expected > 0.01 && expected < 0.99);
        let (bins, weights) = found.matrix.entries_of_column(pixel);
        for (bin, weight) in bins.iter().zip(weights) {
            assert!((f64::from(weight) - overlap(*bin)).abs() < 1e-7, "pixel {pixel} in bin {bin}");
        }
    }
    assert!(truncated > 10, "the ends of the range cut only {truncated} pixels");
}

#[test]
fn full_splitting_counts_by_area() {
    let mut random = TestRandom(3);
    for orientation in 1..=4 {
        let placement = TestPlacement { orientation, ..TestPlacement::random(&mut random) };
        let geometry = placement.geometry();
        let corners = geometry.corners(unit("2th_rad")).unwrap();
        let found = binned(
            &geometry,
            &PatternRequest { unit: unit("2th_rad"), npt: 120, ..request(PixelSplitting::Full) },
        );
        let width = (found.axis.upper - found.axis.lower) / 120.0;
        for pixel in 0..pixels(&geometry) {
            let corners = &corners.of_pixel(pixel);
            let Some(polygon) = polygon(corners) else { continue };
            let total = area_within(&polygon, [0.0, 4.0], ALL_CHI);
            let (bins, weights) = found.matrix.entries_of_column(pixel);
            for (bin, weight) in bins.iter().zip(weights) {
                let edge = found.axis.lower + f64::from(*bin) * width;
                let expected = area_within(&polygon, [edge, edge + width], ALL_CHI) / total;
                assert!(
                    (f64::from(weight) - expected).abs() < 1e-7,
                    "{placement:?}: pixel {pixel} in {bin}"
                );
            }
        }
    }
}

#[test]
fn a_sector_across_the_discontinuity_is_the_sum_of_its_halves() {
    // The beam hits the centre of a pixel, so the azimuth of half a row is exactly π.
    let geometry = TestPlacement::flat([41, 40], [20.5, 20.5]).geometry();
    let sector = |lower, upper| {
        binned(
            &geometry,
            &PatternRequest { azimuth_range: Some((lower, upper)), ..request(PixelSplitting::No) },
        )
        .matrix
    };
    let whole = sector(170.0, 190.0);
    assert_eq!(whole, sector(-190.0, -170.0));
    assert_eq!(whole, sector(170.0, -170.0));
    let (upper, lower) = (sector(170.0, 180.0), sector(-180.0, -170.0));
    let mut counted = 0;
    for pixel in 0..whole.column_count() {
        let mut halves = upper.entries_of_column(pixel).0.to_vec();
        halves.extend(lower.entries_of_column(pixel).0);
        assert_eq!(whole.entries_of_column(pixel).0, halves, "pixel {pixel}");
        counted += halves.len();
    }
    assert!(counted > 60, "{counted} pixels in the sector");
}

#[test]
fn with_splitting_both_halves_hold_the_pixels_across_the_discontinuity() {
    let geometry = TestPlacement::flat([41, 40], [20.3, 20.5]).geometry();
    for split in [PixelSplitting::BBox, PixelSplitting::Full] {
        let sector = |lower, upper| {
            let request = PatternRequest { azimuth_range: Some((lower, upper)), ..request(split) };
            contributing_pixels(&binned(&geometry, &request))
        };
        let (whole, upper, lower) =
            (sector(170.0, 190.0), sector(170.0, 180.0), sector(-180.0, -170.0));
        // Each pixel has the same weights in the sector as in its half.
        let matrix = |lower, upper| {
            binned(
                &geometry,
                &PatternRequest { azimuth_range: Some((lower, upper)), ..request(split) },
            )
            .matrix
        };
        let (all, halves) = (matrix(170.0, 190.0), [matrix(170.0, 180.0), matrix(-180.0, -170.0)]);
        for &pixel in &whole {
            let half = &halves[usize::from(!upper.contains(&pixel))];
            assert_eq!(
                all.entries_of_column(pixel),
                half.entries_of_column(pixel),
                "{split:?}: pixel {pixel}"
            );
        }
        let both: Vec<usize> =
            upper.iter().copied().filter(|pixel| lower.contains(pixel)).collect();
        assert!(whole.iter().all(|pixel| upper.contains(pixel) || lower.contains(pixel)));
        assert_eq!(whole.len() + both.len(), upper.len() + lower.len(), "{split:?}");
        // Row 20 left of the beam lies across the discontinuity.
        assert!(
            both.len() >= 20 && both.iter().all(|pixel| (19..=21).contains(&(pixel / 40))),
            "{split:?}: {both:?}"
        );
        let pixel = 20 * 40 + 3;
        assert!(both.contains(&pixel), "{split:?}");
    }
}

#[test]
fn a_sector_rotates_with_the_detector() {
    let upright = TestPlacement::flat([40, 40], [20.3, 20.4]);
    let rotated = TestPlacement { rot: [0.0, 0.0, std::f64::consts::FRAC_PI_2], ..upright };
    for split in SPLITS {
        let sector = |placement: TestPlacement, lower, upper| {
            let request = PatternRequest { azimuth_range: Some((lower, upper)), ..request(split) };
            contributing_pixels(&binned(&placement.geometry(), &request))
        };
        // The limits lie between the azimuths of pixels, so that rounding does not matter.
        let expected = sector(upright, 71.3, 108.9);
        assert!(expected.len() > 100);
        let found = [sector(rotated, 161.3, 198.9), sector(rotated, -18.7, 18.9)];
        assert!(found.contains(&expected), "{split:?}: neither sense of rot3 rotates the sector");
    }
}

#[test]
fn a_full_circle_is_no_sector() {
    let geometry = TestPlacement::flat([40, 40], [20.0, 20.0]).geometry();
    for split in SPLITS {
        let all = binned(&geometry, &request(split));
        for range in [(0.0, 360.0), (-180.0, 180.0), (90.0, 500.0)] {
            assert_eq!(
                binned(&geometry, &PatternRequest { azimuth_range: Some(range), ..request(split) }),
                all
            );
        }
    }
}

#[test]
fn bins_between_edges_are_sums_of_smaller_equal_bins() {
    let geometry = TestPlacement::flat([40, 40], [13.0, 20.0]).geometry();
    let mask = vec![false; 1600];
    for split in SPLITS {
        let edges = |edges: &[f64]| {
            let request = BinningRequest {
                unit: unit("r_mm"),
                radial: BinsRequest::Edges(edges.to_vec()),
                azimuth: AzimuthRequest::Sum(None),
                split,
            };
            bin_pixels(&geometry, &mask, &request).unwrap()
        };
        let fine: Vec<f64> = (0..=12).map(|i| 0.5 + 0.125 * f64::from(i)).collect();
        let (fine, coarse) = (edges(&fine), edges(&[0.5, 0.625, 1.0, 2.0]));
        for (center, expected) in coarse.axis.centers.iter().zip([0.5625, 0.8125, 1.5]) {
            assert!((center - expected).abs() < 1e-12);
        }
        for pixel in 0..1600 {
            let mut sums = [0.0; 3];
            let (bins, weights) = fine.matrix.entries_of_column(pixel);
            for (bin, weight) in bins.iter().zip(weights) {
                sums[[0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2][*bin as usize]] += f64::from(weight);
            }
            let (bins, weights) = coarse.matrix.entries_of_column(pixel);
            for (bin, weight) in bins.iter().zip(weights) {
                sums[*bin as usize] -= f64::from(weight);
            }
            assert!(
                sums.iter().all(|difference| difference.abs() < 1e-6),
                "{split:?}: pixel {pixel}: {sums:?}"
            );
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let geometry = TestPlacement::flat([300, 400], [130.0, 200.0]).geometry();
    for split in SPLITS {
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| binned(&geometry, &request(split)))
        };
        assert_eq!(with(1), with(3));
    }
}

#[test]
fn columns_in_any_order_are_those_in_the_order_of_the_detector() {
    let mut random = TestRandom(41);
    for round in 0..12 {
        let placement = TestPlacement::random(&mut random);
        let geometry = placement.geometry();
        let [rows, columns] = placement.shape;
        let pixels = rows * columns;
        let mask: Vec<bool> =
            (0..pixels).map(|pixel| pixel % 9 == 4 || pixel / 90 % 3 == 1).collect();
        for split in [PixelSplitting::No, PixelSplitting::BBox, PixelSplitting::Full] {
            let request = PatternRequest {
                azimuth_range: [None, Some((150.0, 230.0))][round % 2],
                npt: 120,
                ..request(split)
            };
            let Ok(binner) = PixelBinner::new(&geometry, mask.clone(), &(&request).into()) else {
                panic!("{placement:?}")
            };
            let mut whole = PairedColumns::default();
            binner.append_columns(0..pixels, &mut whole);
            // As of frames that were flipped, rotated, or cut.
            let by_columns = (0..pixels).map(|pixel| pixel % rows * columns + pixel / rows);
            let region =
                (3..rows).flat_map(|row| (5..17).map(move |column| row * columns + column));
            for order in
                [(0..pixels).rev().collect(), by_columns.collect(), region.collect::<Vec<_>>()]
            {
                let mut found = PairedColumns::default();
                // Also a call for few pixels, and one for none.
                let (first, rest) = order.split_at(31);
                for part in [first, &[], rest] {
                    binner.append_columns(part.iter().copied(), &mut found);
                }
                assert_eq!(found.column_count(), order.len());
                for (column, &pixel) in order.iter().enumerate() {
                    let columns = [found.entries_of_column(column), whole.entries_of_column(pixel)];
                    assert_eq!(columns[0], columns[1], "{placement:?} {split:?}: pixel {pixel}");
                    assert!(!mask[pixel] || columns[0].0.is_empty(), "masked pixel {pixel}");
                }
            }
        }
    }
}
