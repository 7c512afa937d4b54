//! [`SpareLists`], the memory of sums that are used up, for the sums of later frames.

/// Lists that were sums of frames, one value per bin, and are used again. The sums of a batch of cakes
/// are 100 MB, which the operating system clears, page by page, each time that it gives them.
#[derive(Default)]
pub(crate) struct SpareLists {
    lists: Vec<Vec<f64>>,
    /// How many lists the last frames took; no more are kept.
    taken: usize,
}

impl SpareLists {
    /// Begins to count the lists that frames take.
    pub(crate) fn begin(&mut self) {
        self.taken = 0;
    }

    /// Returns an empty list for so many values, in memory for at most twice as many.
    pub(crate) fn take(&mut self, capacity: usize) -> Vec<f64> {
        self.taken += 1;
        let is_suitable = |list: &Vec<f64>| (capacity..=2 * capacity).contains(&list.capacity());
        match self.lists.pop().filter(is_suitable) {
            Some(mut list) => {
                list.clear();
                list
            }
            None => Vec::with_capacity(capacity),
        }
    }

    /// Takes lists that are used up.
    pub(crate) fn give(&mut self, lists: impl IntoIterator<Item = Vec<f64>>) {
        let room = self.taken.saturating_sub(self.lists.len());
        self.lists.extend(lists.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_used_again_for_as_many_values_and_no_more_are_kept_than_were_taken() {
        let mut spare = SpareLists::default();
        spare.give([vec![1.; 3]]);
        assert_eq!(spare.lists, [[0.; 0]; 0]);
        spare.begin();
        assert!(spare.take(3).is_empty());
        spare.give([vec![1.; 3], vec![2.; 3]]);
        assert_eq!(spare.lists, [vec![1.; 3]]);
        let again = spare.take(2);
        assert!(again.is_empty() && again.capacity() == 3 && spare.lists.is_empty());
        // Those of a cake are not for a pattern.
        spare.give([vec![1.; 1000]]);
        assert!(spare.take(3).capacity() < 1000);
    }
}
