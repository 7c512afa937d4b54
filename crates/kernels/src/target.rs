//! What frames are integrated by, whatever the method.

use crate::batch::integrate_by_all;
use crate::{ByBin, DecodeError, Invalid, Pipeline, Plan, Scratch, Stored, Sums};

/// A plan, and its method.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The matrix, and what does not depend on the photons.
    pub plan: &'a Plan,
    /// Which values are no measurement.
    pub invalid: &'a Invalid,
    /// Made of the plan, for methods that look at all pixels of a bin.
    pub by_bin: Option<&'a ByBin>,
}

/// As [`integrate_by_all`], and by [`ByBin::integrate`] where the method is of such: these decode frames by themselves. For each
/// frame, the sums by each target, in order.
///
/// # Panics
/// If the plans are for frames of different sizes.
pub fn integrate_all(
    pipeline: &Pipeline,
    targets: &[Target<'_>],
    frames: &[Stored<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Vec<Sums>, DecodeError>> {
    let summing = targets.iter().filter(|target| target.by_bin.is_none());
    let plans: Vec<_> = summing.map(|target| (target.plan, target.invalid)).collect();
    let rows = integrate_by_all(pipeline, &plans, frames, scratch);
    let by_bin = |&Target { plan, invalid, by_bin }: &Target<'_>| {
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
