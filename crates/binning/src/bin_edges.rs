//! Bins along one coordinate: which bin holds a position, and how an interval falls on the bins.

/// Relative step to the next bin decision above the largest pixel: one f32 epsilon, as in pyFAI.
const UPPER_LIMIT_FACTOR: f64 = 1.0 + f32::EPSILON as f64;

/// The upper limit of an axis whose largest position is `max`: a little above it, so that bins which are closed below
/// and open above still hold it. pyFAI does the same to limits that a user gives.
pub(crate) fn exclusive_upper_limit(max: f64) -> f64 {
    if max > 0.0 { max * UPPER_LIMIT_FACTOR } else { max / UPPER_LIMIT_FACTOR }
}

/// Bins that touch one another, each closed below and open above; positions are those of the pixels (base units, rad).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BinEdges {
    bins: usize,
    lower: f64,
    spacing: EdgeSpacing,
    /// The first bin reaches down without end. A radius has no negative values, so what an interval around a pixel at
    /// the beam centre seems to have below zero belongs to the bin at zero.
    clamp_low: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum EdgeSpacing {
    /// Bins of one width.
    Uniform(f64),
    /// `bins + 1` rising edges.
    Edges(Vec<f64>),
}

impl BinEdges {
    /// `bin_count` (at least one) of equal width between `lower` and `upper`.
    pub fn uniform(lower: f64, upper: f64, bins: usize) -> Self {
        debug_assert!(bins > 0 && lower < upper);
        Self { bins, lower, spacing: EdgeSpacing::Uniform((upper - lower) / bins as f64), clamp_low: false }
    }

    /// Bins between the given edges: at least two, rising. The last bin holds its upper edge too.
    pub fn from_edges(mut edges: Vec<f64>) -> Self {
        debug_assert!(edges.len() > 1 && edges.is_sorted_by(|a, b| a < b));
        let bins = edges.len() - 1;
        edges[bins] = edges[bins].next_up();
        Self { bins, lower: edges[0], spacing: EdgeSpacing::Edges(edges), clamp_low: false }
    }

    /// The same ruler whose first bin takes what lies below it.
    pub fn bottomless(self) -> Self {
        Self { clamp_low: true, ..self }
    }

    pub fn bin_count(&self) -> usize {
        self.bins
    }

    pub fn lower(&self) -> f64 {
        self.lower
    }

    pub fn upper(&self) -> f64 {
        self.edge(self.bins)
    }

    /// The lower edge of bin `i`, which is the upper one of bin `i - 1`.
    pub fn edge(&self, i: usize) -> f64 {
        match &self.spacing {
            EdgeSpacing::Uniform(width) => self.lower + i as f64 * width,
            EdgeSpacing::Edges(edges) => edges[i],
        }
    }

    pub fn centers(&self) -> Vec<f64> {
        match &self.spacing {
            EdgeSpacing::Uniform(width) => (0..self.bins).map(|i| self.lower + (i as f64 + 0.5) * width).collect(),
            EdgeSpacing::Edges(edges) => edges.windows(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect(),
        }
    }

    /// The bin that holds `x`; none outside the axis or for a NaN.
    #[inline]
    pub fn bin_of(&self, x: f64) -> Option<usize> {
        let position = self.position(x);
        (position >= 0.0 && position < self.bins as f64).then_some(position as usize)
    }

    /// The bins that the interval `min..max` touches; none if it is off the axis or not finite.
    #[inline]
    pub fn bins_touched(&self, min: f64, max: f64) -> Option<BinSpan> {
        let (first, last) = (self.position(min), self.position(max));
        let floor = if self.clamp_low { f64::NEG_INFINITY } else { 0.0 };
        let bins = self.bins as f64;
        (last >= floor && first < bins).then(|| BinSpan {
            first: first.max(0.0) as usize,
            last: (last.max(0.0) as usize).min(self.bins - 1),
            inside: first >= floor && last < bins,
        })
    }

    /// Calls `each(bin, length)` for every bin that the interval `min..max` overlaps, in rising order. The lengths add
    /// up to `max - min` less what lies outside the axis.
    #[inline]
    pub fn overlaps(&self, min: f64, max: f64, mut each: impl FnMut(usize, f64)) {
        let Some(span) = self.bins_touched(min, max) else { return };
        if span.inside && span.first == span.last {
            return each(span.first, max - min);
        }
        for bin in span.first..=span.last {
            let from = if bin == 0 && self.clamp_low { min } else { min.max(self.edge(bin)) };
            let length = max.min(self.edge(bin + 1)) - from;
            if length > 0.0 {
                each(bin, length);
            }
        }
    }

    /// Where `x` lies, counted in bins from the lower end: the whole part is the bin, negative is below the axis.
    #[inline]
    fn position(&self, x: f64) -> f64 {
        match &self.spacing {
            // A division, not a product with the inverse: a pixel on an edge then falls as in pyFAI.
            EdgeSpacing::Uniform(width) => (x - self.lower) / width,
            EdgeSpacing::Edges(_) if x.is_nan() => x,
            EdgeSpacing::Edges(edges) => edges.partition_point(|edge| *edge <= x) as f64 - 1.0,
        }
    }
}

/// The bins that an interval touches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BinSpan {
    pub first: usize,
    pub last: usize,
    /// Nothing of the interval lies outside the axis.
    pub inside: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaps(ruler: &BinEdges, min: f64, max: f64) -> Vec<(usize, f64)> {
        let mut found = Vec::new();
        ruler.overlaps(min, max, |bin, length| found.push((bin, length)));
        found
    }

    #[test]
    fn the_largest_position_falls_in_the_last_bin() {
        for max in [3.0, 1e-9, -2.0] {
            let ruler = BinEdges::uniform(max - f64::abs(max), exclusive_upper_limit(max), 7);
            assert_eq!(ruler.bin_of(max), Some(6), "{max}");
        }
        assert_eq!(exclusive_upper_limit(4.0), 4.0 * (1.0 + 2f64.powi(-23)));
        assert!(exclusive_upper_limit(-4.0) > -4.0);
    }

    #[test]
    fn bins_are_closed_below_and_open_above() {
        let ruler = BinEdges::uniform(2.0, 6.0, 4);
        assert_eq!(
            [1.999, 2.0, 2.999, 3.0, 5.999, 6.0, f64::NAN].map(|x| ruler.bin_of(x)),
            [None, Some(0), Some(0), Some(1), Some(3), None, None]
        );
        assert_eq!(ruler.centers(), [2.5, 3.5, 4.5, 5.5]);
    }

    #[test]
    fn given_edges_hold_both_their_ends() {
        let ruler = BinEdges::from_edges(vec![1.0, 2.0, 4.0, 8.0]);
        assert_eq!(
            [0.9, 1.0, 2.0, 3.9, 4.0, 8.0, 8.1, f64::NAN].map(|x| ruler.bin_of(x)),
            [None, Some(0), Some(1), Some(1), Some(2), Some(2), None, None]
        );
        assert_eq!(ruler.centers()[..2], [1.5, 3.0]);
    }

    #[test]
    fn an_interval_is_cut_at_the_edges_and_at_the_ends() {
        let even = BinEdges::uniform(0.0, 4.0, 4);
        assert_eq!(overlaps(&even, 0.25, 0.75), [(0, 0.5)]);
        assert_eq!(overlaps(&even, 0.5, 2.25), [(0, 0.5), (1, 1.0), (2, 0.25)]);
        assert_eq!(overlaps(&even, -1.0, 0.5), [(0, 0.5)]);
        assert_eq!(overlaps(&even, -3.0, -1.0), []);
        assert_eq!(overlaps(&even, 3.5, 9.0), [(3, 0.5)]);
        assert_eq!(overlaps(&even, 4.0, 9.0), []);
        assert_eq!(overlaps(&even, f64::NAN, f64::NAN), []);
        let uneven = BinEdges::from_edges(vec![0.0, 1.0, 4.0]);
        assert_eq!(overlaps(&uneven, 0.5, 2.0), [(0, 0.5), (1, 1.0)]);
        assert_eq!(overlaps(&uneven, -0.5, 2.0), [(0, 1.0), (1, 1.0)]);
    }

    #[test]
    fn a_bottomless_axis_keeps_what_lies_below_it() {
        let ruler = BinEdges::uniform(0.0, 4.0, 4).bottomless();
        assert_eq!(overlaps(&ruler, -1.0, 1.5), [(0, 2.0), (1, 0.5)]);
        assert_eq!(overlaps(&ruler, -3.0, -1.0), [(0, 2.0)]);
    }
}
