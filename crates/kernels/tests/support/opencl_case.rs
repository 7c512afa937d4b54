//! Stored frames and a plan to integrate them with on an OpenCL device, and the comparison of the
//! sums with those of the scalar kernel.

use kernels::opencl::DeviceQueues;
use kernels::{
    EncodedFrame, IntegrationPlan, InvalidValues, Pipeline, PixelType, Sums, VarianceModel,
    accumulate_frame,
};

use crate::support::{self, Csc, Frame, Photons, Random};

/// Bitshuffle with LZ4 and elements of the size of a pixel: HDF5 filter and options.
pub const BSLZ4: (u32, &[u32]) = (32008, &[0, 2]);

/// Stored frames, and the plan to integrate them with.
pub struct Case {
    pub plan: IntegrationPlan,
    pub invalid: InvalidValues,
    pub pipeline: Pipeline,
    pub frames: Vec<Frame>,
    pub chunks: Vec<(Vec<u8>, u32)>,
}

impl Case {
    /// Creates random frames and a plan. Errors are Poisson's except for types of one byte, so that
    /// each type needs only one compilation.
    pub fn random(
        dtype: PixelType,
        pixels: usize,
        nbins: usize,
        block: usize,
        count: usize,
        random: &mut Random,
    ) -> Case {
        let errors = if dtype.size() == 1 { VarianceModel::NONE } else { VarianceModel::POISSON };
        Case::with_errors(errors, dtype, pixels, nbins, block, count, random)
    }

    /// Creates random frames and a plan.
    pub fn with_errors(
        errors: VarianceModel,
        dtype: PixelType,
        pixels: usize,
        nbins: usize,
        block: usize,
        count: usize,
        random: &mut Random,
    ) -> Case {
        let plan = plan(pixels, nbins, errors, random);
        let rule = match random.below(5) {
            0 => vec![],
            1 => vec![0..=0, 3..=7],
            _ => support::gaps(dtype),
        };
        let frames: Vec<Frame> = (0..count)
            .map(|_| {
                let photons = [
                    Photons::Sparse(500),
                    Photons::Below(6),
                    Photons::Below(70000),
                    Photons::Noise,
                ];
                let one_in = [0, 0, 1000, 2][random.below(4) as usize];
                Frame::random(
                    dtype,
                    pixels,
                    photons[random.below(4) as usize],
                    one_in,
                    &rule,
                    random,
                )
            })
            .collect();
        let chunks = frames
            .iter()
            .map(|frame| match random.below(6) {
                0 => (frame.bytes.clone(), 1),
                _ => (support::bslz4(&frame.bytes, dtype.size(), block), 0),
            })
            .collect();
        let pipeline = Pipeline::from_hdf5(&[BSLZ4], dtype, false).expect("known filter");
        Case { plan, invalid: InvalidValues::from_integers(rule), pipeline, frames, chunks }
    }

    pub fn stored(&self) -> Vec<EncodedFrame<'_>> {
        self.chunks.iter().map(|(bytes, mask)| EncodedFrame { bytes, filter_mask: *mask }).collect()
    }

    /// Returns the device's sums of all frames.
    pub fn sums(&self, queues: &mut DeviceQueues) -> Vec<Sums> {
        self.some_sums(queues, &self.stored())
    }

    pub fn some_sums(&self, queues: &mut DeviceQueues, stored: &[EncodedFrame<'_>]) -> Vec<Sums> {
        let found = queues
            .integrate(&self.pipeline, &self.plan, &self.invalid, stored)
            .expect("a device that works");
        found.into_iter().map(|sums| sums.expect("a good chunk")).collect()
    }

    /// Compares with the scalar kernel: sums must agree up to rounding, weights to the bit.
    pub fn check(&self, found: &[Sums], what: &str) {
        assert_eq!(found.len(), self.frames.len());
        for (i, (frame, found)) in self.frames.iter().zip(found).enumerate() {
            let mut expected = Sums::default();
            accumulate_frame(&frame.bytes, frame.dtype, &self.plan, &self.invalid, &mut expected);
            let scale = |values: &[f64]| values.iter().map(|v| v.abs()).fold(0., f64::max) * 1e-15;
            // If the dark cancels the counts, only their rounding error remains.
            let raw = scale(&expected.signal)
                + if frame.dtype.size() == 8 { scale(&frame.values) } else { 0. };
            let close = |found: &[f64], expected: &[f64]| {
                let pairs = found.iter().zip(expected);
                found.len() == expected.len()
                    && pairs.clone().all(|(f, e)| (f - e).abs() <= 1e-11 * e.abs() + 1e-9 + raw)
            };
            assert!(close(&found.signal, &expected.signal), "{what}: frame {i}: signal");
            let variances = found.variance.iter().flatten().zip(expected.variance.iter().flatten());
            assert_eq!(found.variance.is_some(), expected.variance.is_some());
            let rounding = expected.spread_rounding(&self.plan);
            for (bin, (f, e)) in variances.enumerate() {
                assert!(
                    f == e
                        || (f - e).abs()
                            <= 1e-10 * e.abs() + rounding.get(bin).copied().unwrap_or(0.),
                    "{what}: frame {i}: variance of bin {bin}: {f}, expected {e}"
                );
            }
            assert_eq!(
                found.weight_override, expected.weight_override,
                "{what}: frame {i}: exception"
            );
        }
    }
}

/// Returns a plan that masks some pixels, with or without dark.
pub fn plan(
    pixels: usize,
    nbins: usize,
    errors: VarianceModel,
    random: &mut Random,
) -> IntegrationPlan {
    let n: Vec<f64> = (0..pixels).map(|_| random.below(20) as f64 / 16.).collect();
    let dark: Option<Vec<f64>> =
        (random.below(2) == 0).then(|| (0..pixels).map(|_| random.below(9) as f64).collect());
    let matrix = Csc::random(pixels, nbins, random).matrix();
    IntegrationPlan::new(matrix, &n, errors, dark.as_deref()).expect("arrays of the matrix's size")
}
