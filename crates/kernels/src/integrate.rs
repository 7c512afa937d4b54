//! [`integrate_frames`], which integrates frames by any mix of methods.

use crate::batch::integrate_batch_by_plans;
use crate::{
    CsrMatrix, DecodeError, EncodedFrame, IntegrationPlan, InvalidValues, Pipeline, Scratch, Sums,
};

/// The inputs of one integration: plan, rule for invalid pixels and method.
#[derive(Clone, Copy)]
pub struct IntegrationSpec<'a> {
    /// The matrix and all sums that do not depend on the frame.
    pub plan: &'a IntegrationPlan,
    /// The pixel values that mean "no measurement".
    pub invalid: &'a InvalidValues,
    /// The matrix by bin, made from `plan`, for methods that need all pixels of a bin; `None` for
    /// plain sums.
    pub csr: Option<&'a CsrMatrix>,
    /// True if the sums come with the pixels that sigma clipping rejects. Only the CPU finds them.
    pub collects_rejected: bool,
}

/// Decodes and integrates frames by each spec. Returns for each frame the sums by each spec, in
/// order.
///
/// Plain sums go through [`integrate_batch_by_plans`], which decodes each frame once. Each spec
/// with a [`CsrMatrix`] goes through [`CsrMatrix::integrate`], which decodes the frames again.
///
/// # Panics
/// If the plans are for frames of different sizes.
pub fn integrate_frames(
    pipeline: &Pipeline,
    specs: &[IntegrationSpec<'_>],
    frames: &[EncodedFrame<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Vec<Sums>, DecodeError>> {
    let mut results = FrameResults::new(frames.len(), specs.len());
    let (plain, by_bin): (Vec<usize>, Vec<usize>) =
        (0..specs.len()).partition(|&index| specs[index].csr.is_none());
    let plans: Vec<_> =
        plain.iter().map(|&index| (specs[index].plan, specs[index].invalid)).collect();
    results.put(&plain, integrate_batch_by_plans(pipeline, &plans, frames, scratch));
    for index in by_bin {
        let IntegrationSpec { plan, invalid, csr, collects_rejected } = specs[index];
        let csr = csr.expect("specs without a matrix by bin are plain");
        let sums =
            csr.integrate_frames(pipeline, plan, invalid, frames, collects_rejected, scratch);
        results.put(&[index], sums.into_iter().map(|sums| sums.map(|sums| vec![sums])).collect());
    }
    results.into_frames()
}

/// The results of several frames by several specs, of which some are integrated apart from others.
/// The specs are known by their indices.
pub struct FrameResults {
    /// For each frame, its sums by each spec, or why it can't be decoded.
    frames: Vec<Result<Vec<Sums>, DecodeError>>,
}

impl FrameResults {
    /// Makes results without sums.
    pub fn new(frames: usize, specs: usize) -> Self {
        Self { frames: (0..frames).map(|_| Ok(vec![Sums::default(); specs])).collect() }
    }

    /// Puts in the results of the specs with these indices: for each frame, the sums by each of
    /// them. A frame keeps the first error that it gets.
    pub fn put(&mut self, specs: &[usize], results: Vec<Result<Vec<Sums>, DecodeError>>) {
        for (frame, result) in self.frames.iter_mut().zip(results) {
            match (frame, result) {
                (Ok(all), Ok(sums)) => {
                    specs.iter().zip(sums).for_each(|(&spec, sums)| all[spec] = sums)
                }
                (frame @ Ok(_), Err(why)) => *frame = Err(why),
                (Err(_), _) => {}
            }
        }
    }

    /// Returns for each frame the sums by each spec, in order.
    pub fn into_frames(self) -> Vec<Result<Vec<Sums>, DecodeError>> {
        self.frames
    }
}
