//! Requests that can't be met say what was asked for and what there is.

#![allow(clippy::unwrap_used)]

mod support;

use binning::{AzimuthRequest, BinningRequest, BinsRequest, PatternRequest, PixelSplitting, bin_pattern, bin_pixels};
use geometry::Unit;
use support::TestPlacement;

fn placement() -> TestPlacement {
    TestPlacement::flat([20, 30], [-10.0, 15.0])
}

fn request() -> PatternRequest {
    PatternRequest { unit: Unit::TthDeg, npt: 10, radial_range: None, azimuth_range: None, split: PixelSplitting::BBox }
}

fn error_of(request: &PatternRequest) -> String {
    bin_pattern(&placement().geometry(), &[false; 600], request).unwrap_err().to_string()
}

fn cake_error_of(radial: BinsRequest, azimuth: BinsRequest) -> String {
    let request = BinningRequest {
        unit: Unit::TthDeg,
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
        "no pixel in radial range 50..60 2th_deg: unmasked pixels cover 1.1433..3.83777 2th_deg"
    );
    for split in [PixelSplitting::No, PixelSplitting::BBox, PixelSplitting::Full] {
        let message = error_of(&PatternRequest { azimuth_range: Some((170.0, 190.0)), split, ..request() });
        assert!(message.contains("and azimuth 170..190 deg: unmasked pixels cover"), "{message}");
        assert!(message.ends_with(" deg"), "{message}");
    }
}

#[test]
fn no_bins_or_too_many() {
    assert_eq!(error_of(&PatternRequest { npt: 0, ..request() }), "no radial bins: at least 1 is needed");
    let even = |npt| BinsRequest::Uniform { npt, range: None };
    assert_eq!(cake_error_of(even(10), even(0)), "no azimuthal bins: at least 1 is needed");
    assert_eq!(
        cake_error_of(even(1 << 20), even(1 << 20)),
        "1048576 radial times 1048576 azimuthal bins: at most 4294967295 are possible"
    );
}

#[test]
fn limits_in_the_wrong_order() {
    let expected = "radial range 5..2: the lower limit must be below the upper one, and both finite";
    assert_eq!(error_of(&PatternRequest { radial_range: Some((5.0, 2.0)), ..request() }), expected);
    for range in [(2.0, 2.0), (f64::NAN, 2.0), (0.0, f64::INFINITY)] {
        assert!(error_of(&PatternRequest { radial_range: Some(range), ..request() }).starts_with("radial range "));
    }
    for range in [(10.0, 10.0), (f64::NEG_INFINITY, 2.0)] {
        assert!(error_of(&PatternRequest { azimuth_range: Some(range), ..request() }).starts_with("azimuth range "));
    }
}

#[test]
fn edges_that_do_not_rise() {
    let even = || BinsRequest::Uniform { npt: 3, range: None };
    let edges = |edges: &[f64]| BinsRequest::Edges(edges.to_vec());
    for (given, expected) in [
        (&[1.0][..], "radial edges: 1 given, at least 2 are needed"),
        (&[1.0, 3.0, 2.0], "radial edges: 3 is followed by 2, they must rise"),
        (&[1.0, f64::NAN], "radial edges: NaN is not finite"),
    ] {
        assert_eq!(cake_error_of(edges(given), even()), expected);
    }
    assert_eq!(cake_error_of(even(), edges(&[0.0, 380.0])), "azimuth edges: 0 to 380 deg is more than a turn");
    assert_eq!(
        cake_error_of(even(), BinsRequest::Uniform { npt: 3, range: Some((0.0, 380.0)) }),
        "azimuth edges: 0 to 380 deg is more than a turn"
    );
}

#[test]
fn a_mask_of_another_detector() {
    let error = bin_pattern(&placement().geometry(), &[false; 599], &request()).unwrap_err();
    assert_eq!(error.to_string(), "mask of 599 pixels: the detector has 20 x 30 = 600");
    let error = bin_pattern(&placement().geometry(), &[true; 600], &request()).unwrap_err();
    assert_eq!(error.to_string(), "all 600 pixels are masked");
}

#[test]
fn a_unit_that_needs_the_wavelength() {
    let geometry = placement().geometry_of("");
    assert!(bin_pattern(&geometry, &[false; 600], &request()).is_ok());
    let error = bin_pattern(&geometry, &[false; 600], &PatternRequest { unit: Unit::QNm, ..request() }).unwrap_err();
    assert!(error.to_string().contains("q_nm^-1 needs a wavelength"), "{error}");
}
