//! Clipping of polygons by axis-parallel lines, and their area.

/// The corners of a polygon in order.
pub(crate) type Polygon = Vec<[f64; 2]>;

/// Writes to `out` the part of a polygon between two values of coordinate `axis` (Sutherland and
/// Hodgman, 1974). `scratch` is a buffer.
pub(crate) fn clip_between(
    polygon: &[[f64; 2]],
    axis: usize,
    low: f64,
    high: f64,
    scratch: &mut Polygon,
    out: &mut Polygon,
) {
    clip_half_plane(polygon, axis, low, 1.0, scratch);
    clip_half_plane(scratch, axis, high, -1.0, out);
}

/// Writes to `out` the part of a polygon above `limit` (`side` 1), or below it (-1).
fn clip_half_plane(polygon: &[[f64; 2]], axis: usize, limit: f64, side: f64, out: &mut Polygon) {
    out.clear();
    let Some(mut previous) = polygon.last().copied() else { return };
    for &point in polygon {
        let (from, to) = ((previous[axis] - limit) * side, (point[axis] - limit) * side);
        if (from < 0.0) != (to < 0.0) {
            let fraction = from / (from - to);
            let mut crossing =
                [0, 1].map(|axis| previous[axis] + fraction * (point[axis] - previous[axis]));
            crossing[axis] = limit;
            out.push(crossing);
        }
        if to >= 0.0 {
            out.push(point);
        }
        previous = point;
    }
}

/// Returns the signed area of a polygon.
pub(crate) fn signed_area(polygon: &[[f64; 2]]) -> f64 {
    let Some((origin, rest)) = polygon.split_first() else { return 0.0 };
    // Differences to the first corner keep precision: a pixel is small and far from the origin.
    let cross = |a: &[f64; 2], b: &[f64; 2]| {
        (a[0] - origin[0]) * (b[1] - origin[1]) - (b[0] - origin[0]) * (a[1] - origin[1])
    };
    0.5 * rest.windows(2).map(|pair| cross(&pair[0], &pair[1])).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clipped(polygon: &[[f64; 2]], axis: usize, low: f64, high: f64) -> Polygon {
        let (mut scratch, mut out) = (Polygon::new(), Polygon::new());
        clip_between(polygon, axis, low, high, &mut scratch, &mut out);
        out
    }

    #[test]
    fn a_triangle_in_strips() {
        let triangle = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]];
        assert_eq!(signed_area(&triangle), 2.0);
        assert_eq!(signed_area(&clipped(&triangle, 0, 0.0, 1.0)), 1.5);
        assert_eq!(signed_area(&clipped(&triangle, 0, 1.0, 5.0)), 0.5);
        assert_eq!(signed_area(&clipped(&triangle, 1, 0.5, 1.0)), 0.625);
        assert!(clipped(&triangle, 1, 3.0, 4.0).is_empty());
        assert_eq!(signed_area(&[]), 0.0);
    }

    #[test]
    fn a_concave_polygon_keeps_its_area() {
        let arrow = [[0.0, 0.0], [4.0, 2.0], [0.0, 4.0], [1.0, 2.0]];
        let strips: f64 = (0..8)
            .map(|i| signed_area(&clipped(&arrow, 1, 0.5 * f64::from(i), 0.5 * f64::from(i + 1))))
            .sum();
        assert!((strips - signed_area(&arrow)).abs() < 1e-14);
        let reversed: Polygon = arrow.iter().rev().copied().collect();
        assert_eq!(signed_area(&reversed), -signed_area(&arrow));
    }
}
