//! [`Retries`], which tells when a way that failed is worth trying again.

use super::by_plan::ByPlan;
use crate::plan::IntegrationPlan;

/// After a failure, a way is tried again at so many calls.
const CALLS_AFTER_FAILURE: usize = 64;

/// Tells when a fast way of reducing frames, which not all frames allow, is worth trying: frames
/// that follow others are likely to be like them.
#[derive(Default)]
pub(super) struct Retries {
    /// For the plans that it failed for: after how many calls it is tried again.
    calls_left: ByPlan<usize>,
}

impl Retries {
    /// Returns whether the way is to be tried for frames of a plan: unless it failed lately.
    pub(super) fn is_worth_trying(&mut self, plan: &IntegrationPlan) -> bool {
        self.calls_left.get_mut(plan.id()).is_none_or(|left| {
            *left = left.saturating_sub(1);
            *left == 0
        })
    }

    /// Remembers that the way failed for frames of a plan.
    pub(super) fn remember_failure(&mut self, plan: &IntegrationPlan) {
        self.calls_left.keep(plan.id(), CALLS_AFTER_FAILURE);
    }
}
