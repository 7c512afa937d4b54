//! [`Curve`]: a pattern as it is drawn.

/// Largest number of columns of a curve: about one for each pixel on a screen.
const MAX_COLUMNS: usize = 1000;

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
    /// Half the height of the error band; 0 without errors.
    pub error: f64,
}

/// Points of a curve from left to right. A point without a value interrupts the curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Curve(Vec<Point>);

impl Curve {
    /// Creates a curve of these centres of bins, values and errors, of which there may be none.
    pub fn new(centers: &[f64], values: &[f64], errors: &[f64]) -> Self {
        let error = |index: usize| {
            errors.get(index).copied().filter(|error| error.is_finite()).unwrap_or_default()
        };
        let point = |(index, (&x, &y)): (usize, (&f64, &f64))| Point { x, y, error: error(index) };
        Self(centers.iter().zip(values).enumerate().map(point).collect())
    }

    /// Returns both ends of the error band of each point that has a value.
    pub fn values_with_errors(&self) -> impl Iterator<Item = f64> {
        let all = self.0.iter().filter(|point| point.y.is_finite());
        // Where the band reaches below 0, the curve alone decides about a logarithmic scale.
        let low = |point: &Point| {
            if point.y > 0.0 && point.y <= point.error { point.y } else { point.y - point.error }
        };
        all.flat_map(move |point| [low(point), point.y + point.error])
    }

    /// Returns the curve, shifted upwards.
    pub fn shifted(&self, by: f64) -> Self {
        Self(self.0.iter().map(|point| Point { y: point.y + by, ..*point }).collect())
    }

    /// Returns the curve with at most two points in each column: the lowest and the highest, so
    /// that no peak is lost.
    pub fn thinned(self) -> Self {
        let per_column = self.0.len().div_ceil(MAX_COLUMNS);
        if per_column <= 2 {
            return self;
        }
        let column = |points: &[Point]| {
            let (first, last) = (points.first().copied(), points.last().copied());
            if points.iter().any(|point| !point.y.is_finite()) {
                // The ends of what is there, and the gap.
                return points.to_vec();
            }
            let by_height = |one: &&Point, two: &&Point| one.y.total_cmp(&two.y);
            let (low, high) = (points.iter().min_by(by_height), points.iter().max_by(by_height));
            let (low, high) = (low.copied().or(first), high.copied().or(last));
            let mut both: Vec<Point> = low.into_iter().chain(high).collect();
            both.sort_by(|one, two| one.x.total_cmp(&two.x));
            both.dedup();
            both
        };
        Self(self.0.chunks(per_column).flat_map(column).collect())
    }

    /// Returns the pieces between points without a value.
    pub fn pieces(&self) -> impl Iterator<Item = &[Point]> {
        self.0.split(|point| !point.y.is_finite()).filter(|piece| !piece.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_curve_has_every_peak_and_gap() {
        let centers: Vec<f64> = (0..10_000).map(f64::from).collect();
        let mut values = vec![1.0; centers.len()];
        (values[1234], values[7777]) = (50.0, -3.0);
        values[5000..5020].fill(f64::NAN);
        let curve = Curve::new(&centers, &values, &[]).thinned();
        let points: Vec<Point> = curve.pieces().flatten().copied().collect();
        assert!(points.len() < 2100, "{}", points.len());
        assert!(
            [(1234.0, 50.0), (7777.0, -3.0)]
                .iter()
                .all(|at| points.iter().any(|point| (point.x, point.y) == *at))
        );
        assert_eq!(curve.pieces().count(), 2);
        assert!(points.iter().all(|point| !(5000.0..5020.0).contains(&point.x)));
    }
}
