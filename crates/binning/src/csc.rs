//! Columns of the integration matrix in CSC layout (compressed sparse columns).

/// Columns of the integration matrix (bins x pixels) in CSC layout: the weights of some pixels in
/// the bins, one column per pixel.
///
/// The entries of column `c` are `starts[c]..starts[c + 1]` of `bins` and `weights`, in rising
/// order of bins. Masked pixels and pixels outside the range have no entries. Weights are positive;
/// those of one pixel add up to at most 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Csc {
    /// Index of each column's first entry, and at the end the number of entries.
    pub starts: Vec<u64>,
    /// Bin of each entry.
    pub bins: Vec<u32>,
    /// Weight of each entry, in (0, 1].
    pub weights: Vec<f32>,
}

impl Csc {
    /// Returns the number of columns.
    pub fn column_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the bins and the weights of one column.
    pub fn entries_of_column(&self, column: usize) -> (&[u32], &[f32]) {
        let range = self.starts[column] as usize..self.starts[column + 1] as usize;
        (&self.bins[range.clone()], &self.weights[range])
    }

    /// Removes all columns, and keeps the memory.
    pub fn clear(&mut self) {
        self.starts.truncate(1);
        self.bins.clear();
        self.weights.clear();
    }

    /// Adds an entry to the column that is not yet ended, unless its weight is zero or negative
    /// once rounded to f32.
    #[inline]
    pub(crate) fn push(&mut self, bin: usize, weight: f64) {
        let weight = weight as f32;
        if weight > 0.0 {
            self.bins.push(bin as u32);
            self.weights.push(weight);
        }
    }

    /// Ends a column, which has the entries since the end of the previous one.
    #[inline]
    pub(crate) fn end_column(&mut self) {
        self.starts.push(self.bins.len() as u64);
    }
}

impl Default for Csc {
    /// Returns no columns.
    fn default() -> Self {
        Self { starts: vec![0], bins: Vec::new(), weights: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_without_weight_are_dropped() {
        let mut columns = Csc::default();
        columns.push(0, 1e-60);
        columns.push(1, -1e-18);
        columns.push(2, 1.0);
        columns.end_column();
        columns.end_column();
        assert_eq!(columns.column_count(), 2);
        assert_eq!(columns.entries_of_column(0), (&[2][..], &[1.0][..]));
        assert_eq!(columns.entries_of_column(1), (&[][..], &[][..]));
        columns.clear();
        assert_eq!(columns, Csc::default());
    }
}
