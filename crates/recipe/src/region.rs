//! Parts of the detector that a recipe masks by their shape.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::{SettingValue, impl_setting_text};

/// A shape on the detector. Rows and columns are counted in pixels from the outer corner of the first pixel, so that
/// pixel (i, j) has its centre at (i + ½, j + ½); a pixel is inside where its centre is.
#[derive(Clone, Debug, PartialEq)]
pub enum RegionShape {
    /// Between two corners.
    Rectangle {
        /// Row and column of one corner.
        from: [f64; 2],
        /// Row and column of the opposite corner.
        to: [f64; 2],
    },
    /// Up to a radius around a centre.
    Circle {
        /// Row and column.
        center: [f64; 2],
        /// In pixels.
        radius: f64,
    },
    /// Within a closed line, by the even-odd rule.
    Polygon(Vec<[f64; 2]>),
    /// Between two azimuths, in degrees, across the seam at 180 too.
    Sector([f64; 2]),
}

/// A shape, masked inside or outside. Written `circle:ROW,COLUMN,RADIUS`, `rectangle:ROW,COLUMN,ROW,COLUMN`,
/// `polygon:ROW,COLUMN,ROW,COLUMN,…`, `sector:FROM,TO`, each with `outside-` before it to mask the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub struct MaskRegion {
    /// The shape.
    pub shape: RegionShape,
    /// Whether all outside of it is masked, and not what is inside.
    pub outside: bool,
}

const EXPECTED_REGION: &str = "[outside-]circle:ROW,COLUMN,RADIUS, rectangle:ROW,COLUMN,ROW,COLUMN, \
    polygon:ROW,COLUMN,ROW,COLUMN,ROW,COLUMN,... or sector:FROM,TO";

impl RegionShape {
    /// Whether a point in rows and columns is inside; `chi` is its azimuth in degrees.
    pub fn contains(&self, [row, column]: [f64; 2], chi: f64) -> bool {
        match self {
            Self::Rectangle { from, to } => {
                let between = |value: f64, one: f64, other: f64| one.min(other) <= value && value < one.max(other);
                between(row, from[0], to[0]) && between(column, from[1], to[1])
            }
            Self::Circle { center, radius } => (row - center[0]).hypot(column - center[1]) <= *radius,
            Self::Polygon(points) => polygon_contains(points, [row, column]),
            Self::Sector([from, to]) => (chi - from).rem_euclid(360.0) <= to - from,
        }
    }
}

/// Whether a line from the point along its row crosses the outline an odd number of times.
fn polygon_contains(points: &[[f64; 2]], [row, column]: [f64; 2]) -> bool {
    let edges = points.iter().zip(points.iter().cycle().skip(1));
    let crosses = |&(one, other): &(&[f64; 2], &[f64; 2])| {
        (one[0] > row) != (other[0] > row)
            && column < one[1] + (row - one[0]) / (other[0] - one[0]) * (other[1] - one[1])
    };
    edges.filter(crosses).count() % 2 == 1
}

impl_setting_text!(MaskRegion, EXPECTED_REGION,
    text => parse_region(text),
    value => {
        let (word, numbers) = match &value.shape {
            RegionShape::Rectangle { from, to } => ("rectangle", [*from, *to].concat()),
            RegionShape::Circle { center, radius } => ("circle", vec![center[0], center[1], *radius]),
            RegionShape::Polygon(points) => ("polygon", points.concat()),
            RegionShape::Sector(limits) => ("sector", limits.to_vec()),
        };
        let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
        format!("{}{word}:{}", if value.outside { "outside-" } else { "" }, numbers.join(",")) });

fn parse_region(text: &str) -> Option<MaskRegion> {
    let (outside, shape) = text.strip_prefix("outside-").map_or((false, text), |shape| (true, shape));
    let (word, list) = shape.split_once(':')?;
    let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Vec<f64> = list.split(',').map(number).collect::<Option<_>>()?;
    let shape = match (word, &numbers[..]) {
        ("rectangle", &[top, left, bottom, right]) => RegionShape::Rectangle { from: [top, left], to: [bottom, right] },
        ("circle", &[row, column, radius]) if radius >= 0.0 => RegionShape::Circle { center: [row, column], radius },
        ("polygon", points) if points.len() >= 6 && points.len().is_multiple_of(2) => {
            RegionShape::Polygon(points.as_chunks().0.to_vec())
        }
        ("sector", &[from, to]) if from < to && to - from <= 360.0 => RegionShape::Sector([from, to]),
        _ => return None,
    };
    Some(MaskRegion { shape, outside })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(text: &str, row: usize, column: usize) -> bool {
        let region: MaskRegion = text.parse().unwrap();
        region.shape.contains([row as f64 + 0.5, column as f64 + 0.5], 179.0) != region.outside
    }

    #[test]
    fn words_go_both_ways() {
        for text in ["circle:1.5,2,3", "outside-rectangle:0,0,4,5", "polygon:0,0,0,4,4,0", "sector:170,190"] {
            assert_eq!(text.parse::<MaskRegion>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "circle:1,2",
            "circle:1,2,-3",
            "polygon:0,0,1,1",
            "polygon:0,0,0,4,4,0,1",
            "sector:10,5",
            "sector:0,361",
            "box:1,2,3,4",
            "circle:a,b,c",
        ] {
            assert!(bad.parse::<MaskRegion>().unwrap_err().contains("expected [outside-]circle"), "{bad}");
        }
    }

    #[test]
    fn a_pixel_is_inside_where_its_centre_is() {
        let pixels = |text: &str| -> Vec<(usize, usize)> {
            (0..6)
                .flat_map(|row| (0..6).map(move |column| (row, column)))
                .filter(|at| inside(text, at.0, at.1))
                .collect()
        };
        assert_eq!(pixels("rectangle:1,2,3,4"), [(1, 2), (1, 3), (2, 2), (2, 3)]);
        assert_eq!(pixels("rectangle:3,4,1,2"), pixels("rectangle:1,2,3,4"));
        assert_eq!(pixels("outside-rectangle:1,2,3,4").len(), 32);
        assert_eq!(pixels("circle:2.5,2.5,1"), [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2)]);
        // A triangle, and a bow tie that has half the square.
        assert_eq!(pixels("polygon:0,0,0,3,3,0"), [(0, 0), (0, 1), (1, 0)]);
        assert_eq!(pixels("polygon:0,0,6,6,6,0,0,6").len(), 18);
        assert_eq!((pixels("sector:170,190").len(), pixels("sector:0,178").len()), (36, 0));
        assert_eq!(pixels("sector:-190,-170").len(), 36);
    }
}
