//! [`ByPlan`], what a thread remembers of the frames of several plans.

/// For how many plans values are kept, as those of a detector that moves.
const MAX_PLANS: usize = 8;

/// Values by the id of the plan that they belong to.
pub(super) struct ByPlan<T> {
    /// The value that was kept last is the last.
    values: Vec<(u64, T)>,
}

impl<T> Default for ByPlan<T> {
    fn default() -> Self {
        Self { values: Vec::new() }
    }
}

impl<T> ByPlan<T> {
    /// Returns the bytes of memory that the values take at the most, one of which may have been
    /// taken, if each takes so many.
    pub(super) fn memory_bytes(value: usize) -> usize {
        (MAX_PLANS + 1) * value
    }

    /// Returns the value of a plan.
    pub(super) fn get_mut(&mut self, plan_id: u64) -> Option<&mut T> {
        let found = self.values.iter_mut().find(|(id, _)| *id == plan_id);
        found.map(|(_, value)| value)
    }

    /// Removes and returns the value of a plan.
    pub(super) fn take(&mut self, plan_id: u64) -> Option<T> {
        let index = self.values.iter().position(|(id, _)| *id == plan_id);
        index.map(|index| self.values.remove(index).1)
    }

    /// Sets the value of a plan. If there are too many, the one that was kept first is dropped.
    pub(super) fn keep(&mut self, plan_id: u64, value: T) {
        self.take(plan_id);
        if self.values.len() == MAX_PLANS {
            self.values.remove(0);
        }
        self.values.push((plan_id, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_plans_have_values_of_their_own() {
        let mut values = ByPlan::default();
        values.keep(3, 'a');
        values.keep(4, 'b');
        values.keep(3, 'c');
        assert_eq!(values.get_mut(3), Some(&mut 'c'));
        assert_eq!(values.values.len(), 2);
        assert_eq!((values.take(4), values.take(4)), (Some('b'), None));
        (10..10 + MAX_PLANS as u64).for_each(|plan_id| values.keep(plan_id, 'd'));
        assert_eq!(values.get_mut(3), None);
        assert_eq!(values.values.len(), MAX_PLANS);
    }
}
