//! Mask regions: shapes on the detector whose inside or outside is masked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::{SettingValue, impl_setting_text};

/// A shape on the detector. Rows and columns are counted in pixels from the outer corner of the
/// first pixel, so that pixel (i, j) has its centre at (i + ½, j + ½). A pixel is inside if its
/// centre is.
#[derive(Clone, Debug, PartialEq)]
pub enum RegionShape {
    /// A rectangle between two corners.
    Rectangle {
        /// Row and column of one corner.
        from: [f64; 2],
        /// Row and column of the opposite corner.
        to: [f64; 2],
    },
    /// A circle around a pixel.
    Circle {
        /// Row and column of the centre.
        center: [f64; 2],
        /// Radius in pixels.
        radius: f64,
    },
    /// A polygon with corners [row, column]; the inside follows the even-odd rule.
    Polygon(Vec<[f64; 2]>),
    /// A sector between two azimuths in degrees, which may cross 180.
    Sector([f64; 2]),
}

/// A shape whose inside or outside is masked, written `circle:ROW,COLUMN,RADIUS`,
/// `rectangle:ROW,COLUMN,ROW,COLUMN`, `polygon:ROW,COLUMN,ROW,COLUMN,…` or `sector:FROM,TO`, with
/// the prefix `outside-` to mask the outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub struct MaskRegion {
    /// Shape of the region.
    pub shape: RegionShape,
    /// True if the outside of the shape is masked, false if the inside is.
    pub outside: bool,
}

const EXPECTED_REGION: &str = "[outside-]circle:ROW,COLUMN,RADIUS, rectangle:ROW,COLUMN,ROW,COLUMN, \
    polygon:ROW,COLUMN,ROW,COLUMN,ROW,COLUMN,... or sector:FROM,TO";

impl RegionShape {
    /// Returns whether the shape contains the point at `row` and `column`, whose azimuth is `chi`
    /// degrees.
    pub fn contains(&self, [row, column]: [f64; 2], chi: f64) -> bool {
        match self {
            Self::Rectangle { from, to } => {
                let between = |value: f64, a: f64, b: f64| a.min(b) <= value && value < a.max(b);
                between(row, from[0], to[0]) && between(column, from[1], to[1])
            }
            Self::Circle { center, radius } => {
                (row - center[0]).hypot(column - center[1]) <= *radius
            }
            Self::Polygon(points) => polygon_contains(points, [row, column]),
            Self::Sector([from, to]) => (chi - from).rem_euclid(360.0) <= to - from,
        }
    }
}

/// Returns whether a ray from the point along its row crosses the outline an odd number of times.
fn polygon_contains(points: &[[f64; 2]], [row, column]: [f64; 2]) -> bool {
    let edges = points.iter().zip(points.iter().cycle().skip(1));
    let crosses = |&(from, to): &(&[f64; 2], &[f64; 2])| {
        (from[0] > row) != (to[0] > row)
            && column < from[1] + (row - from[0]) / (to[0] - from[0]) * (to[1] - from[1])
    };
    edges.filter(crosses).count() % 2 == 1
}

/// Returns the form of the shape that a text names, or of all shapes if it names none.
fn expected_region(text: &str) -> &'static str {
    match text.trim_start_matches("outside-").split(':').next() {
        Some("circle") => "circle:ROW,COLUMN,RADIUS: finite numbers, the radius 0 or more",
        Some("rectangle") => "rectangle:ROW,COLUMN,ROW,COLUMN: finite numbers",
        Some("polygon") => {
            "polygon:ROW,COLUMN,ROW,COLUMN,ROW,COLUMN,...: finite numbers, of three corners or more"
        }
        Some("sector") => {
            "sector:FROM,TO: degrees, TO above FROM by at most 360, as in sector:170,190"
        }
        _ => EXPECTED_REGION,
    }
}

impl_setting_text!(MaskRegion, expected_region(text),
    text => parse_region(text),
    value => {
        let (name, numbers) = match &value.shape {
            RegionShape::Rectangle { from, to } => ("rectangle", [*from, *to].concat()),
            RegionShape::Circle { center, radius } => ("circle", vec![center[0], center[1], *radius]),
            RegionShape::Polygon(points) => ("polygon", points.concat()),
            RegionShape::Sector(limits) => ("sector", limits.to_vec()),
        };
        let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
        format!("{}{name}:{}", if value.outside { "outside-" } else { "" }, numbers.join(",")) });

fn parse_region(text: &str) -> Option<MaskRegion> {
    let (outside, shape) =
        text.strip_prefix("outside-").map_or((false, text), |shape| (true, shape));
    let (name, list) = shape.split_once(':')?;
    let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Vec<f64> = list.split(',').map(number).collect::<Option<_>>()?;
    let shape = match (name, &numbers[..]) {
        ("rectangle", &[top, left, bottom, right]) => {
            RegionShape::Rectangle { from: [top, left], to: [bottom, right] }
        }
        ("circle", &[row, column, radius]) if radius >= 0.0 => {
            RegionShape::Circle { center: [row, column], radius }
        }
        ("polygon", points) if points.len() >= 6 && points.len().is_multiple_of(2) => {
            RegionShape::Polygon(points.as_chunks().0.to_vec())
        }
        ("sector", &[from, to]) if from < to && to - from <= 360.0 => {
            RegionShape::Sector([from, to])
        }
        _ => return None,
    };
    Some(MaskRegion { shape, outside })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_masked(text: &str, row: usize, column: usize) -> bool {
        let region: MaskRegion = text.parse().unwrap();
        region.shape.contains([row as f64 + 0.5, column as f64 + 0.5], 179.0) != region.outside
    }

    #[test]
    fn regions_are_parsed_and_printed() {
        for text in
            ["circle:1.5,2,3", "outside-rectangle:0,0,4,5", "polygon:0,0,0,4,4,0", "sector:170,190"]
        {
            assert_eq!(text.parse::<MaskRegion>().unwrap().to_string(), text);
        }
        for (bad, expected) in [
            ("", EXPECTED_REGION),
            ("box:1,2,3,4", EXPECTED_REGION),
            ("circle:1,2", "circle:ROW,COLUMN,RADIUS: finite numbers, the radius 0 or more"),
            ("circle:1,2,-3", "circle:ROW,COLUMN,RADIUS: finite"),
            ("outside-circle:a,b,c", "circle:ROW,COLUMN,RADIUS: finite"),
            ("rectangle:1,2,3", "rectangle:ROW,COLUMN,ROW,COLUMN: finite numbers"),
            ("polygon:0,0,1,1", "polygon:ROW,COLUMN,ROW,COLUMN,ROW,COLUMN,...: finite"),
            ("polygon:0,0,0,4,4,0,1", "polygon:ROW,COLUMN,ROW,COLUMN,ROW,COLUMN,...: finite"),
            ("sector:10,5", "sector:FROM,TO: degrees, TO above FROM by at most 360"),
            ("sector:0,361", "sector:FROM,TO: degrees"),
        ] {
            let why = bad.parse::<MaskRegion>().unwrap_err();
            assert!(why.starts_with(&format!("`{bad}`: expected {expected}")), "{why}");
        }
    }

    #[test]
    fn a_pixel_is_inside_if_its_centre_is() {
        let pixels = |text: &str| -> Vec<(usize, usize)> {
            (0..6)
                .flat_map(|row| (0..6).map(move |column| (row, column)))
                .filter(|&(row, column)| is_masked(text, row, column))
                .collect()
        };
        assert_eq!(pixels("rectangle:1,2,3,4"), [(1, 2), (1, 3), (2, 2), (2, 3)]);
        assert_eq!(pixels("rectangle:3,4,1,2"), pixels("rectangle:1,2,3,4"));
        assert_eq!(pixels("outside-rectangle:1,2,3,4").len(), 32);
        assert_eq!(pixels("circle:2.5,2.5,1"), [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2)]);
        // A triangle, and a bow tie that covers half the square.
        assert_eq!(pixels("polygon:0,0,0,3,3,0"), [(0, 0), (0, 1), (1, 0)]);
        assert_eq!(pixels("polygon:0,0,6,6,6,0,0,6").len(), 18);
        assert_eq!((pixels("sector:170,190").len(), pixels("sector:0,178").len()), (36, 0));
        assert_eq!(pixels("sector:-190,-170").len(), 36);
    }
}
