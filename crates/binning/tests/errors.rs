//! Errors say what was requested and what was expected.

#![allow(clippy::unwrap_used)]

mod support;

use binning::{
    AzimuthRequest, BinningError, BinningRequest, BinsRequest, Limits, PatternRequest,
    PixelSplitting, bin_pattern, bin_pixels,
};
use geometry::GeometryError;
use support::{TestPlacement, unit};

fn placement() -> TestPlacement {
    TestPlacement::flat([20, 30], [-10.0, 15.0])
}

fn request() -> PatternRequest {
    PatternRequest {
        unit: unit("2th_deg"),
        npt: 10,
        radial_range: None,
        azimuth_range: None,
        split: PixelSplitting::BBox,
    }
}

fn error_of(request: &PatternRequest) -> String {
    bin_pattern(&placement().geometry(), &[false; 600], request).unwrap_err().to_string()
}

fn cake_error_of(radial: BinsRequest, azimuth: BinsRequest) -> String {
    let request = BinningRequest {
        unit: unit("2th_deg"),
        radial,
        azimuth: AzimuthRequest::Bins(azimuth),
        split: PixelSplitting::BBox,
    };
    bin_pixels(&placement().geometry(), &[false; 600], &request).unwrap_err().to_string()
}

#[test]
fn a_range_off_the_detector() {
    assert_eq!(
        error_of(&PatternRequest { radial_range: Some((50.0, 60.0)), ..request() }),
        "no pixel in radial range 50 to 60 2th_deg; unmasked pixels cover 1.1433 to 3.83777 2th_deg"
    );
    for split in [PixelSplitting::No, PixelSplitting::BBox, PixelSplitting::Full] {
        let message =
            error_of(&PatternRequest { azimuth_range: Some((170.0, 190.0)), split, ..request() });
        assert!(message.contains("and azimuth 170 to 190 deg; unmasked pixels cover"), "{message}");
        assert!(message.ends_with(" deg"), "{message}");
    }
}

#[test]
fn no_bins_or_too_many() {
    assert_eq!(
        error_of(&PatternRequest { npt: 0, ..request() }),
        "0 radial bins; expected at least 1"
    );
    let even = |npt| BinsRequest::Uniform { npt, range: None };
    assert_eq!(cake_error_of(even(10), even(0)), "0 azimuthal bins; expected at least 1");
    assert_eq!(
        cake_error_of(even(1 << 20), even(1 << 20)),
        "1048576 radial x 1048576 azimuthal bins; expected at most 4294967295 in all"
    );
}

#[test]
fn limits_in_the_wrong_order() {
    let expected = "radial range 5 to 2; expected two finite numbers, the lower first";
    assert_eq!(error_of(&PatternRequest { radial_range: Some((5.0, 2.0)), ..request() }), expected);
    for range in [(2.0, 2.0), (f64::NAN, 2.0), (0.0, f64::INFINITY)] {
        assert!(
            error_of(&PatternRequest { radial_range: Some(range), ..request() })
                .starts_with("radial range ")
        );
    }
    for range in [(10.0, 10.0), (f64::NEG_INFINITY, 2.0)] {
        assert!(
            error_of(&PatternRequest { azimuth_range: Some(range), ..request() })
                .starts_with("azimuth range ")
        );
    }
}

#[test]
fn edges_that_do_not_rise() {
    let even = || BinsRequest::Uniform { npt: 3, range: None };
    let edges = |edges: &[f64]| BinsRequest::Edges(edges.to_vec());
    for (given, expected) in [
        (&[1.0][..], "radial edges: 1 given; expected at least 2"),
        (&[1.0, 3.0, 2.0], "radial edges: 3 is followed by 2; expected rising numbers"),
        (&[1.0, f64::NAN], "radial edges: NaN; expected finite numbers"),
    ] {
        assert_eq!(cake_error_of(edges(given), even()), expected);
    }
    let full_circle = "azimuth edges: 0 to 380 deg; expected at most a full circle, 360 deg";
    assert_eq!(cake_error_of(even(), edges(&[0.0, 380.0])), full_circle);
    assert_eq!(
        cake_error_of(even(), BinsRequest::Uniform { npt: 3, range: Some((0.0, 380.0)) }),
        full_circle
    );
}

#[test]
fn a_mask_of_another_detector() {
    let error = bin_pattern(&placement().geometry(), &[false; 599], &request()).unwrap_err();
    assert_eq!(error.to_string(), "mask has 599 pixels; expected 20 x 30 = 600");
    let error = bin_pattern(&placement().geometry(), &[true; 600], &request()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "all 600 pixels are masked; check the mask files and masked regions"
    );
}

#[test]
fn a_unit_that_needs_the_wavelength() {
    let geometry = placement().geometry_with("");
    assert!(bin_pattern(&geometry, &[false; 600], &request()).is_ok());
    let error = bin_pattern(
        &geometry,
        &[false; 600],
        &PatternRequest { unit: unit("q_nm^-1"), ..request() },
    )
    .unwrap_err();
    assert!(error.to_string().contains("q_nm^-1 needs a wavelength"), "{error}");
}

#[test]
fn all_messages_side_by_side() {
    let errors = [
        BinningError::NoBins("radial"),
        BinningError::TooManyBins { radial: 1 << 20, azimuthal: 1 << 20 },
        BinningError::Range { axis: "azimuth", range: Limits(5.0, 2.0) },
        BinningError::Edges { axis: "radial", why: "1 given; expected at least 2".to_owned() },
        BinningError::MaskShape { found: 599, expected: [20, 30] },
        BinningError::AllMasked(600),
        BinningError::NothingInRange {
            unit: unit("q_nm^-1"),
            wanted: Limits(50.0, 60.0),
            wanted_chi: Some(Limits(170.0, 190.0)),
            covered: Limits(0.5, 12.25),
            covered_chi: Some(Limits(-90.0, 90.0)),
        },
        BinningError::Geometry(GeometryError::NoWavelength(unit("q_A^-1"))),
    ];
    let messages = [
        "0 radial bins; expected at least 1",
        "1048576 radial x 1048576 azimuthal bins; expected at most 4294967295 in all",
        "azimuth range 5 to 2; expected two finite numbers, the lower first",
        "radial edges: 1 given; expected at least 2",
        "mask has 599 pixels; expected 20 x 30 = 600",
        "all 600 pixels are masked; check the mask files and masked regions",
        "no pixel in radial range 50 to 60 q_nm^-1 and azimuth 170 to 190 deg; \
         unmasked pixels cover 0.5 to 12.25 q_nm^-1 and azimuth -90 to 90 deg",
        "unit q_A^-1 needs a wavelength, and the PONI file gives none; \
         add `Wavelength: METRES` to it, or choose the unit r_mm, r_m, 2th_deg or 2th_rad",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);
}
