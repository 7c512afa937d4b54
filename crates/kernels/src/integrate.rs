//! [`integrate_frames`], which integrates frames by any mix of methods.

use crate::batch::integrate_batch_by_plans;
use crate::{CsrMatrix, DecodeError, EncodedFrame, IntegrationPlan, InvalidValues, Pipeline, Scratch, Sums};

/// The inputs of one integration: plan, rule for invalid pixels and method.
#[derive(Clone, Copy)]
pub struct IntegrationSpec<'a> {
    /// The matrix and all sums that do not depend on the frame.
    pub plan: &'a IntegrationPlan,
    /// The pixel values that mean "no measurement".
    pub invalid: &'a InvalidValues,
    /// The matrix by bin, made from `plan`, for methods that need all pixels of a bin; `None` for plain sums.
    pub csr: Option<&'a CsrMatrix>,
}

/// Decodes and integrates frames by each spec. Returns for each frame the sums by each spec, in order.
///
/// Plain sums go through [`integrate_batch_by_plans`], which decodes each frame once. Each spec with a [`CsrMatrix`] goes
/// through [`CsrMatrix::integrate`], which decodes the frames again.
///
/// # Panics
/// If the plans are for frames of different sizes.
pub fn integrate_frames(
    pipeline: &Pipeline,
    specs: &[IntegrationSpec<'_>],
    frames: &[EncodedFrame<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Vec<Sums>, DecodeError>> {
    let without_csr = specs.iter().filter(|spec| spec.csr.is_none());
    let plans: Vec<_> = without_csr.map(|spec| (spec.plan, spec.invalid)).collect();
    let rows = integrate_batch_by_plans(pipeline, &plans, frames, scratch);
    let integrate_by_csr = |&IntegrationSpec { plan, invalid, csr }: &IntegrationSpec<'_>| {
        csr.map(|csr| csr.integrate(pipeline, plan, invalid, frames, scratch).into_iter())
    };
    let mut csr_results: Vec<_> = specs.iter().map(integrate_by_csr).collect();
    let merge_frame = |row: Result<Vec<Sums>, DecodeError>| {
        // Each list advances by one frame, also if this frame can't be decoded.
        let from_csr: Vec<_> = csr_results.iter_mut().map(|list| list.as_mut().and_then(Iterator::next)).collect();
        let mut plain = row?.into_iter();
        let sums = |from_csr: Option<_>| from_csr.unwrap_or_else(|| Ok(plain.next().expect("sums by each plan")));
        from_csr.into_iter().map(sums).collect()
    };
    rows.into_iter().map(merge_frame).collect()
}
