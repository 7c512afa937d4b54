//! A sector of azimuth, wherever the discontinuity of chi lies.

use std::f64::consts::{PI, TAU};

/// An open part of the circle. `lower` is in [-pi, pi), `upper` above it by less than a turn (rad).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sector {
    pub lower: f64,
    pub upper: f64,
}

/// What an azimuthal range in degrees asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AzimuthRange {
    /// The range spans a turn or more: every pixel is in.
    FullCircle,
    /// Less than a turn.
    Sector(Sector),
    /// The limits are not finite, or the same.
    Empty,
}

/// Reads a range in degrees, where an upper limit below the lower one is meant a turn further on: 170..190,
/// -190..-170 and 170..-170 are the same sector.
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

/// Degrees to radians in [-pi, pi).
pub(crate) fn wrap_degrees_to_radians(degrees: f64) -> f64 {
    let half_turns = (degrees / 180.0).rem_euclid(2.0);
    PI * if half_turns >= 1.0 { half_turns - 2.0 } else { half_turns }
}

impl Sector {
    /// Whether the interval `min..max` (rad, some of it in [-pi, pi], at most a turn long) overlaps the sector. The
    /// sector's limits belong to it; but an image of the interval a turn away must reach inside, so that a pixel exactly
    /// at pi is not also at -pi.
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

    fn holds(lower: f64, upper: f64, degrees: f64) -> bool {
        let chi = degrees.to_radians();
        sector(lower, upper).overlaps(chi, chi)
    }

    #[test]
    fn a_turn_has_every_pixel() {
        for (lower, upper) in [(-180.0, 180.0), (0.0, 360.0), (-270.0, 90.0), (-400.0, 400.0)] {
            assert_eq!(parse_azimuth_range(lower, upper), AzimuthRange::FullCircle);
        }
        for (lower, upper) in [(10.0, 10.0), (10.0, -350.0), (f64::NAN, 3.0), (0.0, f64::INFINITY)] {
            assert_eq!(parse_azimuth_range(lower, upper), AzimuthRange::Empty, "{lower}..{upper}");
        }
    }

    #[test]
    fn ways_to_write_the_sector_at_the_seam() {
        for (lower, upper) in [(170.0, 190.0), (-190.0, -170.0), (170.0, -170.0), (530.0, 550.0)] {
            for inside in [170.5, 179.9, 180.0, -180.0, -179.9, -170.5] {
                assert!(holds(lower, upper, inside), "{lower}..{upper} lacks {inside}");
            }
            for outside in [169.9, -169.9, 0.0, 90.0, -90.0] {
                assert!(!holds(lower, upper, outside), "{lower}..{upper} has {outside}");
            }
        }
    }

    #[test]
    fn halves_at_the_seam_share_no_pixel() {
        for degrees in [-180.0, -179.0, -170.5, 170.5, 179.0, 180.0] {
            let parts = u8::from(holds(170.0, 180.0, degrees)) + u8::from(holds(-180.0, -170.0, degrees));
            assert_eq!(parts, 1, "{degrees}");
        }
    }

    #[test]
    fn a_pixel_across_the_seam_is_in_the_sectors_of_both_sides() {
        let (min, max) = (179.5f64.to_radians(), 180.5f64.to_radians());
        assert!(sector(170.0, 180.0).overlaps(min, max));
        assert!(sector(-180.0, -170.0).overlaps(min, max));
        assert!(sector(-180.0, -170.0).overlaps(min - TAU, max - TAU));
        assert!(!sector(-170.0, 170.0).overlaps(min, max));
    }
}
