//! Bin edges along one coordinate: which bin holds a position, and which bins an interval overlaps.

/// Factor from the largest position to the upper limit of an axis: 1 plus the epsilon of f32, as in
/// pyFAI.
const UPPER_LIMIT_FACTOR: f64 = 1.0 + f32::EPSILON as f64;

/// Returns the upper limit of an axis whose largest position is `max`. It is slightly larger than
/// `max`, because bins are closed below and open above and the last one must hold `max`. pyFAI also
/// applies this to limits given by users.
pub(crate) fn exclusive_upper_limit(max: f64) -> f64 {
    if max > 0.0 { max * UPPER_LIMIT_FACTOR } else { max / UPPER_LIMIT_FACTOR }
}

/// The edges of contiguous bins, each closed below and open above. Positions are in base units or
/// radians.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BinEdges {
    bin_count: usize,
    lower: f64,
    spacing: EdgeSpacing,
    /// True if the first bin also takes everything below it. A radius is never negative, so the
    /// part of an interval around the beam centre that lies below zero belongs to the bin at zero.
    clamp_low: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum EdgeSpacing {
    /// Bins of this width.
    Uniform(f64),
    /// `bin_count + 1` rising edges.
    Edges(Vec<f64>),
}

impl BinEdges {
    /// Makes `bin_count` (at least one) bins of equal width between `lower` and `upper`.
    pub fn uniform(lower: f64, upper: f64, bin_count: usize) -> Self {
        debug_assert!(bin_count > 0 && lower < upper);
        let width = (upper - lower) / bin_count as f64;
        Self { bin_count, lower, spacing: EdgeSpacing::Uniform(width), clamp_low: false }
    }

    /// Makes bins between at least two rising edges. The last bin includes its upper edge.
    pub fn from_edges(mut edges: Vec<f64>) -> Self {
        debug_assert!(edges.len() > 1 && edges.is_sorted_by(|a, b| a < b));
        let bin_count = edges.len() - 1;
        edges[bin_count] = edges[bin_count].next_up();
        Self { bin_count, lower: edges[0], spacing: EdgeSpacing::Edges(edges), clamp_low: false }
    }

    /// Extends the first bin to everything below it.
    pub fn clamp_low(self) -> Self {
        Self { clamp_low: true, ..self }
    }

    pub fn bin_count(&self) -> usize {
        self.bin_count
    }

    pub fn lower(&self) -> f64 {
        self.lower
    }

    pub fn upper(&self) -> f64 {
        self.edge(self.bin_count)
    }

    /// Returns the lower edge of bin `i`, which is the upper edge of bin `i - 1`.
    pub fn edge(&self, i: usize) -> f64 {
        match &self.spacing {
            EdgeSpacing::Uniform(width) => self.lower + i as f64 * width,
            EdgeSpacing::Edges(edges) => edges[i],
        }
    }

    pub fn centers(&self) -> Vec<f64> {
        match &self.spacing {
            EdgeSpacing::Uniform(width) => {
                (0..self.bin_count).map(|i| self.lower + (i as f64 + 0.5) * width).collect()
            }
            EdgeSpacing::Edges(edges) => {
                edges.windows(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect()
            }
        }
    }

    /// Returns the bin that holds `x`; `None` if `x` is NaN or outside the axis.
    #[inline]
    pub fn find_bin(&self, x: f64) -> Option<usize> {
        let position = self.position(x);
        (position >= 0.0 && position < self.bin_count as f64).then_some(position as usize)
    }

    /// Returns the bins that the interval `min..max` touches; `None` if it is outside the axis or an
    /// end is NaN.
    #[inline]
    pub fn bins_touched(&self, min: f64, max: f64) -> Option<BinSpan> {
        let (first, last) = (self.position(min), self.position(max));
        let floor = self.floor();
        let end = self.bin_count as f64;
        (last >= floor && first < end).then(|| BinSpan {
            first: first.max(0.0) as usize,
            last: (last.max(0.0) as usize).min(self.bin_count - 1),
            inside: first >= floor && last < end,
        })
    }

    /// Returns the lowest position that belongs to the first bin.
    #[inline]
    fn floor(&self) -> f64 {
        if self.clamp_low { f64::NEG_INFINITY } else { 0.0 }
    }

    /// Returns the bins if they have equal widths.
    pub fn as_uniform(&self) -> Option<UniformBins> {
        let EdgeSpacing::Uniform(width) = self.spacing else { return None };
        let bin_count = self.bin_count as f64;
        Some(UniformBins { lower: self.lower, width, bin_count, floor: self.floor() })
    }

    /// Calls `each(bin, length)` for every bin that the interval `min..max` overlaps, in rising
    /// order. The lengths add up to the part of the interval on the axis.
    #[inline]
    pub fn for_each_overlap(&self, min: f64, max: f64, mut each: impl FnMut(usize, f64)) {
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

    /// Returns the position of `x` in units of bins from the lower end: its integer part is the
    /// bin, and a negative position is below the axis.
    #[inline]
    pub fn position(&self, x: f64) -> f64 {
        match &self.spacing {
            // A division, not a product with the inverse, puts pixels on an edge into the same bin
            // as pyFAI.
            EdgeSpacing::Uniform(width) => (x - self.lower) / width,
            EdgeSpacing::Edges(_) if x.is_nan() => x,
            EdgeSpacing::Edges(edges) => edges.partition_point(|edge| *edge <= x) as f64 - 1.0,
        }
    }
}

/// Bins of equal width, for pixels in blocks: [`BinEdges`] without other spacings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UniformBins {
    pub lower: f64,
    pub width: f64,
    /// Number of bins, below 2^32.
    pub bin_count: f64,
    /// The lowest position, in units of bins, that belongs to the first bin.
    pub floor: f64,
}

impl UniformBins {
    /// As [`BinEdges::edge`], of a whole number.
    #[inline(always)]
    pub fn edge(&self, i: f64) -> f64 {
        self.lower + i * self.width
    }

    /// Returns the positions of both ends of an interval, each as [`BinEdges::position`].
    #[inline(always)]
    pub fn positions(&self, min: f64, max: f64) -> [f64; 2] {
        [min, max].map(|x| (x - self.lower) / self.width)
    }
}

/// The bins that an interval touches, `first` to `last` inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BinSpan {
    pub first: usize,
    pub last: usize,
    /// True if the whole interval lies on the axis.
    pub inside: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaps(edges: &BinEdges, min: f64, max: f64) -> Vec<(usize, f64)> {
        let mut found = Vec::new();
        edges.for_each_overlap(min, max, |bin, length| found.push((bin, length)));
        found
    }

    #[test]
    fn the_largest_position_falls_in_the_last_bin() {
        for max in [3.0, 1e-9, -2.0] {
            let edges = BinEdges::uniform(max - f64::abs(max), exclusive_upper_limit(max), 7);
            assert_eq!(edges.find_bin(max), Some(6), "{max}");
        }
        assert_eq!(exclusive_upper_limit(4.0), 4.0 * (1.0 + 2f64.powi(-23)));
        assert!(exclusive_upper_limit(-4.0) > -4.0);
    }

    #[test]
    fn bins_are_closed_below_and_open_above() {
        let edges = BinEdges::uniform(2.0, 6.0, 4);
        assert_eq!(
            [1.999, 2.0, 2.999, 3.0, 5.999, 6.0, f64::NAN].map(|x| edges.find_bin(x)),
            [None, Some(0), Some(0), Some(1), Some(3), None, None]
        );
        assert_eq!(edges.centers(), [2.5, 3.5, 4.5, 5.5]);
    }

    #[test]
    fn listed_edges_include_both_ends() {
        let edges = BinEdges::from_edges(vec![1.0, 2.0, 4.0, 8.0]);
        assert_eq!(
            [0.9, 1.0, 2.0, 3.9, 4.0, 8.0, 8.1, f64::NAN].map(|x| edges.find_bin(x)),
            [None, Some(0), Some(1), Some(1), Some(2), Some(2), None, None]
        );
        assert_eq!(edges.centers()[..2], [1.5, 3.0]);
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
    fn a_clamped_first_bin_takes_everything_below_it() {
        let edges = BinEdges::uniform(0.0, 4.0, 4).clamp_low();
        assert_eq!(overlaps(&edges, -1.0, 1.5), [(0, 2.0), (1, 0.5)]);
        assert_eq!(overlaps(&edges, -3.0, -1.0), [(0, 2.0)]);
    }
}
