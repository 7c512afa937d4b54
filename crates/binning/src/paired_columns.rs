//! Columns of the integration matrix in paired form: for each pixel its first bin, and the weights
//! of that bin and the next.

/// Columns of the integration matrix (bins x pixels), one per pixel: the weights of pixels in the
/// bins, in the form in which crate `kernels` holds them.
///
/// A column's *pair* is its first bin and the weights of that bin and the next, which is all that
/// most pixels have. Masked pixels and pixels outside the range have no entries. Weights are
/// positive; those of one pixel add up to at most 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairedColumns {
    /// First bin of each column; 0 for one without entries.
    pub first_bins: Vec<u32>,
    /// Weights of each column in its first bin, 0 only for one without entries, and in the next.
    pub pair_weights: Vec<[f32; 2]>,
    /// All other entries as (column, bin, weight), in rising order of columns and of the bins of
    /// each.
    pub extra: Vec<(u32, u32, f32)>,
}

impl PairedColumns {
    /// Returns the number of columns.
    pub fn column_count(&self) -> usize {
        self.first_bins.len()
    }

    /// Returns whether any column has entries.
    pub fn has_entries(&self) -> bool {
        self.pair_weights.iter().any(|[first, _]| *first > 0.0)
    }

    /// Returns the bins and the weights of one column, in rising order of bins.
    pub fn entries_of_column(&self, column: usize) -> (Vec<u32>, Vec<f32>) {
        let (first, [weight, next]) = (self.first_bins[column], self.pair_weights[column]);
        let extra = &self.extra[self.extra.partition_point(|entry| (entry.0 as usize) < column)..];
        let extra = extra.iter().take_while(|entry| entry.0 as usize == column);
        [(first, weight), (first + 1, next)]
            .into_iter()
            .filter(|(_, weight)| *weight > 0.0)
            .chain(extra.map(|(_, bin, weight)| (*bin, *weight)))
            .unzip()
    }

    /// Removes all columns, and keeps the memory.
    pub fn clear(&mut self) {
        self.first_bins.clear();
        self.pair_weights.clear();
        self.extra.clear();
    }

    /// Appends a column without entries, to which entries can be added.
    #[inline]
    pub(crate) fn push_column(&mut self) -> PairedColumn<'_> {
        self.extend(&[0], &[[0.0; 2]]);
        self.column(self.column_count() - 1)
    }

    /// Appends columns that have no entries but their pairs.
    #[inline]
    pub(crate) fn extend(&mut self, first_bins: &[u32], pair_weights: &[[f32; 2]]) {
        self.first_bins.extend_from_slice(first_bins);
        self.pair_weights.extend_from_slice(pair_weights);
    }

    /// Returns a column to add entries to, which must not be before one that has extra entries.
    #[inline]
    pub(crate) fn column(&mut self, column: usize) -> PairedColumn<'_> {
        PairedColumn {
            column: column as u32,
            first_bin: &mut self.first_bins[column],
            pair: &mut self.pair_weights[column],
            extra: &mut self.extra,
        }
    }
}

/// One column, to which entries are added.
pub(crate) struct PairedColumn<'a> {
    column: u32,
    first_bin: &'a mut u32,
    pair: &'a mut [f32; 2],
    extra: &'a mut Vec<(u32, u32, f32)>,
}

impl PairedColumn<'_> {
    /// Adds an entry, whose bin is above those of before, unless its weight is zero or negative
    /// once rounded to f32.
    #[inline]
    pub fn push(&mut self, bin: usize, weight: f64) {
        let (bin, weight) = (bin as u32, weight as f32);
        if weight > 0.0 {
            if self.pair[0] == 0.0 {
                (*self.first_bin, self.pair[0]) = (bin, weight);
            } else if bin == *self.first_bin + 1 {
                self.pair[1] = weight;
            } else {
                self.extra.push((self.column, bin, weight));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_without_weight_are_dropped() {
        let mut columns = PairedColumns::default();
        let mut first = columns.push_column();
        first.push(0, 1e-60);
        first.push(1, -1e-18);
        first.push(2, 1.0);
        columns.push_column();
        assert_eq!(columns.column_count(), 2);
        assert_eq!(columns.entries_of_column(0), (vec![2], vec![1.0]));
        assert_eq!(columns.entries_of_column(1), (vec![], vec![]));
        columns.clear();
        assert_eq!(columns, PairedColumns::default());
    }

    #[test]
    fn bins_after_the_pair_are_extra_entries() {
        let mut columns = PairedColumns::default();
        for bins in [&[3, 4, 5, 9][..], &[2, 6], &[7]] {
            let mut column = columns.push_column();
            bins.iter().for_each(|bin| column.push(*bin, 0.25));
        }
        assert_eq!(columns.first_bins, [3, 2, 7]);
        assert_eq!(columns.pair_weights, [[0.25, 0.25], [0.25, 0.0], [0.25, 0.0]]);
        assert_eq!(columns.extra, [(0, 5, 0.25), (0, 9, 0.25), (1, 6, 0.25)]);
        assert_eq!(columns.entries_of_column(0), (vec![3, 4, 5, 9], vec![0.25; 4]));
        assert_eq!(columns.entries_of_column(1), (vec![2, 6], vec![0.25; 2]));
    }
}
