//! Sectors of azimuth, which may cross the discontinuity of chi at ±180 degrees.

use std::f64::consts::{PI, TAU};

/// An azimuthal sector in radians: `lower` is in [-π, π), `upper` above it by less than 2π.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sector {
    pub lower: f64,
    pub upper: f64,
}

/// An azimuthal range that a user requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AzimuthRange {
    /// A full circle or more: every pixel is inside.
    FullCircle,
    /// Less than a full circle.
    Sector(Sector),
    /// An invalid range: the limits are not finite, or equal up to full circles.
    Empty,
}

/// Interprets a range in degrees. An upper limit below the lower one is taken 360 degrees further:
/// 170 to 190, -190 to -170 and 170 to -170 are one sector.
pub(crate) fn parse_azimuth_range(lower: f64, upper: f64) -> AzimuthRange {
    let span = upper - lower;
    if span >= 360.0 && span.is_finite() {
        return AzimuthRange::FullCircle;
    }
    if !span.is_finite() || span % 360.0 == 0.0 {
        return AzimuthRange::Empty;
    }
    let (lower, upper) = (wrap_degrees_to_radians(lower), wrap_degrees_to_radians(upper));
    AzimuthRange::Sector(Sector { lower, upper: if upper < lower { upper + TAU } else { upper } })
}

/// Converts degrees to radians in [-π, π).
pub(crate) fn wrap_degrees_to_radians(degrees: f64) -> f64 {
    let half_turns = (degrees / 180.0).rem_euclid(2.0);
    PI * if half_turns >= 1.0 { half_turns - 2.0 } else { half_turns }
}

impl Sector {
    /// Returns whether the interval `min..max` overlaps the sector. The interval is in radians, at
    /// most 2π long, and partly within [-π, π].
    ///
    /// The interval is compared as it is, and shifted by 2π in both directions. As it is, it
    /// overlaps the sector if it touches one of the limits. Shifted, it must reach beyond the
    /// limit: otherwise a pixel that ends at π would also count for a sector that begins at -π.
    #[inline]
    pub fn overlaps(&self, min: f64, max: f64) -> bool {
        max >= self.lower && min <= self.upper
            || max + TAU > self.lower && min + TAU < self.upper
            || max - TAU > self.lower && min - TAU < self.upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector(lower: f64, upper: f64) -> Sector {
        match parse_azimuth_range(lower, upper) {
            AzimuthRange::Sector(sector) => sector,
            other => panic!("{lower}..{upper} is {other:?}"),
        }
    }

    fn contains(lower: f64, upper: f64, degrees: f64) -> bool {
        let chi = degrees.to_radians();
        sector(lower, upper).overlaps(chi, chi)
    }

    #[test]
    fn a_full_circle_holds_every_pixel() {
        for (lower, upper) in [(-180.0, 180.0), (0.0, 360.0), (-270.0, 90.0), (-400.0, 400.0)] {
            assert_eq!(parse_azimuth_range(lower, upper), AzimuthRange::FullCircle);
        }
        for (lower, upper) in [(10.0, 10.0), (10.0, -350.0), (f64::NAN, 3.0), (0.0, f64::INFINITY)]
        {
            assert_eq!(parse_azimuth_range(lower, upper), AzimuthRange::Empty, "{lower}..{upper}");
        }
    }

    #[test]
    fn a_sector_across_the_discontinuity_may_be_written_in_several_ways() {
        for (lower, upper) in [(170.0, 190.0), (-190.0, -170.0), (170.0, -170.0), (530.0, 550.0)] {
            for inside in [170.5, 179.9, 180.0, -180.0, -179.9, -170.5] {
                assert!(contains(lower, upper, inside), "{lower}..{upper} lacks {inside}");
            }
            for outside in [169.9, -169.9, 0.0, 90.0, -90.0] {
                assert!(!contains(lower, upper, outside), "{lower}..{upper} has {outside}");
            }
        }
    }

    #[test]
    fn sectors_that_meet_at_the_discontinuity_share_no_point() {
        for degrees in [-180.0, -179.0, -170.5, 170.5, 179.0, 180.0] {
            let sectors = u8::from(contains(170.0, 180.0, degrees))
                + u8::from(contains(-180.0, -170.0, degrees));
            assert_eq!(sectors, 1, "{degrees}");
        }
    }

    #[test]
    fn a_pixel_across_the_discontinuity_is_in_the_sectors_on_both_sides() {
        let (min, max) = (179.5f64.to_radians(), 180.5f64.to_radians());
        assert!(sector(170.0, 180.0).overlaps(min, max));
        assert!(sector(-180.0, -170.0).overlaps(min, max));
        assert!(sector(-180.0, -170.0).overlaps(min - TAU, max - TAU));
        assert!(!sector(-170.0, 170.0).overlaps(min, max));
    }
}
