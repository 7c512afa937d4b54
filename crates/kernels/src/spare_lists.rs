//! [`SpareLists`], the memory of sums that are used up, for the sums of later frames.

/// Lists that were sums of frames, one value per bin, and are used again. The sums of a batch of cakes
/// are 100 MB, which the operating system clears, page by page, each time that it gives them.
#[derive(Default)]
pub(crate) struct SpareLists {
    lists: Vec<Vec<f64>>,
    /// How many lists were taken and have not come back.
    outstanding: usize,
}

impl SpareLists {
    /// Returns an empty list for so many values.
    pub(crate) fn take(&mut self, capacity: usize) -> Vec<f64> {
        self.outstanding += 1;
        let mut list = self.lists.pop().unwrap_or_default();
        list.clear();
        list.reserve_exact(capacity);
        list
    }

    /// Takes lists back, at most as many as were taken: others are never asked for.
    pub(crate) fn give(&mut self, lists: impl IntoIterator<Item = Vec<f64>>) {
        for list in lists {
            if self.outstanding > 0 {
                self.outstanding -= 1;
                self.lists.push(list);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_lists_are_kept_than_were_taken() {
        let mut spare = SpareLists::default();
        let list = spare.take(3);
        assert!(list.is_empty() && list.capacity() >= 3);
        spare.give([vec![1.; 3], vec![2.; 3]]);
        assert_eq!(spare.lists, [vec![1.; 3]]);
        assert!(spare.take(5).is_empty() && spare.lists.is_empty());
    }
}
