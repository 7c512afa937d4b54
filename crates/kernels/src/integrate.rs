//! What frames are integrated by, whatever the method.

use crate::batch::integrate_batch_multi;
use crate::{CsrMatrix, DecodeError, IntegrationPlan, InvalidValues, Pipeline, Scratch, StoredFrame, Sums};

/// A plan, and its method.
#[derive(Clone, Copy)]
pub struct IntegrationSpec<'a> {
    /// The matrix, and what does not depend on the photons.
    pub plan: &'a IntegrationPlan,
    /// Which values are no measurement.
    pub invalid: &'a InvalidValues,
    /// Made of the plan, for methods that look at all pixels of a bin.
    pub csr: Option<&'a CsrMatrix>,
}

/// As [`integrate_batch_multi`], and by [`ByBin::integrate`] where the method is of such: these decode frames by themselves. For each
/// frame, the sums by each target, in order.
///
/// # Panics
/// If the plans are for frames of different sizes.
pub fn integrate_frames(
    pipeline: &Pipeline,
    targets: &[IntegrationSpec<'_>],
    frames: &[StoredFrame<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Vec<Sums>, DecodeError>> {
    let summing = targets.iter().filter(|target| target.csr.is_none());
    let plans: Vec<_> = summing.map(|target| (target.plan, target.invalid)).collect();
    let rows = integrate_batch_multi(pipeline, &plans, frames, scratch);
    let by_bin = |&IntegrationSpec { plan, invalid, csr: by_bin }: &IntegrationSpec<'_>| {
        by_bin.map(|by_bin| by_bin.integrate(pipeline, plan, invalid, frames, scratch).into_iter())
    };
    let mut by_bin: Vec<_> = targets.iter().map(by_bin).collect();
    let all = |row: Result<Vec<Sums>, DecodeError>| {
        // A frame's sums are taken from each list, also where it did not decode.
        let own: Vec<_> = by_bin.iter_mut().map(|list| list.as_mut().and_then(Iterator::next)).collect();
        let mut summed = row?.into_iter();
        let sums = |own: Option<_>| own.unwrap_or_else(|| Ok(summed.next().expect("sums by each plan")));
        own.into_iter().map(sums).collect()
    };
    rows.into_iter().map(all).collect()
}
